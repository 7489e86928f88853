/* tools/cli/doctor/units.h: what the units of systemd make and hold for the daemons. Changes nothing. One thread. */
#pragma once

#include <stdbool.h>

/* Does a unit of ours that is installed make this folder below /run at its start (RuntimeDirectory=)? Unit files are
 * looked for where systemd looks: $SYSTEMD_UNIT_PATH (folders with colons between), then its own folders. */
bool units_make_folder(const char *folder);

/* Does systemd listen on this TCP port (decimal) for tandem-router.socket? systemctl is asked; false where there is none. */
bool units_listen(const char *port);

/* Does the unit run? */
bool units_run(const char *unit);
