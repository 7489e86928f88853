/* tools/cli/doctor/doctor.h: the command `tandem doctor`: looks at all that a start needs. */
#pragma once

/* argv[0] is "tandem doctor". Answers an exit code: 0 done, 78 wrong use or configuration, else it
 * failed. */
int doctor_command(int argc, char **argv);
