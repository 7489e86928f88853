#include "tools/cli/doctor/units.h"

#include "tools/cli/sibling.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAYS_BYTES (1u << 16)
#define LINE_BYTES 4096

static const char *const ours[] = {"tandem-router.service", "tandem-worker@.service"};
#define N_OURS (sizeof ours / sizeof *ours)

/* Is `word` one of the words behind "RuntimeDirectory=" in this file? */
static bool doctor_unit_makes(const char *path, const char *word) {
    static const char key[] = "RuntimeDirectory=";
    char line[LINE_BYTES];
    bool found = false;
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        char *rest = NULL;
        if (strncmp(line, key, sizeof key - 1) != 0)
            continue;
        for (char *one = strtok_r(line + sizeof key - 1, " \t\n", &rest); one && !found;
             one = strtok_r(NULL, " \t\n", &rest))
            found = strcmp(one, word) == 0;
    }
    if (file)
        fclose(file);
    return found;
}

bool units_make_folder(const char *folder) {
    char folders[LINE_BYTES], path[LINE_BYTES + 64], *rest = NULL;
    const char *path_of_units = getenv("SYSTEMD_UNIT_PATH");
    if (strncmp(folder, "/run/", 5) != 0)
        return false;
    snprintf(folders, sizeof folders,
             "%s:/etc/systemd/system:/run/systemd/system:/usr/local/lib/systemd/system:"
             "/usr/lib/systemd/system:/lib/systemd/system",
             path_of_units ? path_of_units : "");
    for (char *one = strtok_r(folders, ":", &rest); one; one = strtok_r(NULL, ":", &rest))
        for (unsigned i = 0; i < N_OURS; i++) {
            snprintf(path, sizeof path, "%s/%s", one, ours[i]);
            if (doctor_unit_makes(path, folder + 5))
                return true;
        }
    return false;
}

/* What `systemctl show` says of these properties of a unit, a line "Name=value" each; "" where it says nothing. */
static void units_ask(const char *unit, const char *properties, struct buf *out) {
    char wanted[64], about[64];
    const char *args[] = {NULL, "show", wanted, about, NULL};
    struct sibling systemctl;
    struct buf errors;
    struct error error;
    int code = 0;
    snprintf(wanted, sizeof wanted, "--property=%s", properties);
    snprintf(about, sizeof about, "%s", unit);
    buf_init(&errors, SAYS_BYTES);
    if (sibling_start(&systemctl, "/usr/bin", "systemctl", args, &error) == STATUS_OK &&
        (sibling_end(&systemctl, out, &errors, &code, &error) != STATUS_OK || code != 0))
        buf_clear(out);
    buf_putc(out, '\0');
    buf_fini(&errors);
}

/* "Listen=127.0.0.1:8000 (Stream)", one for each address. */
static bool doctor_unit_says_port(const char *text, const char *port) {
    char end[32];
    snprintf(end, sizeof end, ":%s (Stream)", port);
    for (const char *at = text; (at = strstr(at, "Listen=")) != NULL; at++) {
        const char *found = strstr(at, end);
        if (found && found < at + strcspn(at, "\n"))
            return true;
    }
    return false;
}

bool units_listen(const char *port) {
    struct buf said;
    buf_init(&said, SAYS_BYTES);
    units_ask("tandem-router.socket", "ActiveState,Listen", &said);
    bool does = buf_status(&said) == STATUS_OK && strstr(said.data, "ActiveState=active") &&
                doctor_unit_says_port(said.data, port);
    buf_fini(&said);
    return does;
}

bool units_run(const char *unit) {
    struct buf said;
    buf_init(&said, SAYS_BYTES);
    units_ask(unit, "ActiveState", &said);
    bool does = buf_status(&said) == STATUS_OK && strstr(said.data, "ActiveState=active");
    buf_fini(&said);
    return does;
}
