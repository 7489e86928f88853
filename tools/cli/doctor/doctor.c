/* `tandem doctor`: looks at everything that a start needs, and says how to mend what is wrong. */
#include "tools/cli/doctor/doctor.h"

#include "tools/cli/doctor/doctor_parts.h"
#include "tools/lib/args.h"
#include "tools/lib/http_trust.h"

#include "base/exit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SYSTEM_CONFIG "/etc/tandem/tandem.ini"

struct command {
    struct doctor doctor;
    bool json;
};

#define AT(member) offsetof(struct command, member)
static const struct args_row rows[] = {
    {"config", "FILE", args_text, AT(doctor.source.config),
     .help = "the daemons' INI file (default: " SYSTEM_CONFIG " where it is there)"},
    {"json", NULL, args_switch, AT(json), .help = "print the findings as one JSON object"},
    {NULL, "MODEL", args_text, .at = AT(doctor.source.model)},
    {0}};

static void doctor_look(struct doctor *doctor) {
    doctor_look_at_config(doctor);
    doctor_look_at_files(doctor);
    doctor_look_at_peers(doctor);
    doctor_look_at_memory(doctor);
    doctor_look_at_host(doctor);
}

int doctor_command(int argc, char **argv) {
    static const struct args args = {
        "[MODEL]",
        "Looks at everything that a start of the daemons needs: configuration, model, memory, "
        "ports, keys, certificates, limits, processor, GPU, clock, and routers and workers "
        "that are there already. One line for each, with the fix where something is wrong. "
        "Exit code 0: no fault; 1: faults (warnings do not count). MODEL: in place of the "
        "configuration's.",
        .parts = {{rows, 0},
                  {target_rows, AT(doctor.target)},
                  {http_trust_rows, AT(doctor.target.trust)}}};
    static struct command command;
    struct doctor *doctor = &command.doctor;
    struct error error;
    args_parse(&args, argc, argv, &command);
    if (!doctor->source.config && access(SYSTEM_CONFIG, R_OK) == 0)
        doctor->source.config = SYSTEM_CONFIG;
    const char *server = getenv("TANDEM_SERVER");
    if (!doctor->target.server && server && server[0])
        doctor->target.server = server;
    if (target_find_key(&doctor->target, &error) != STATUS_OK)
        return exit_fail(EXIT_CONFIG, "%s", error.text);
    doctor_look(doctor);
    const char *no_color = getenv("NO_COLOR");
    bool on_terminal = isatty(STDOUT_FILENO);
    struct findings_style style = {on_terminal, on_terminal && (!no_color || !no_color[0])};
    if (command.json)
        findings_print_json(&doctor->findings, stdout);
    else
        findings_print(&doctor->findings, style, stdout);
    int code = findings_count(&doctor->findings, FINDING_FAULT) > 0 ? 1 : 0;
    target_forget(&doctor->target);
    buf_fini(&doctor->router.text);
    for (unsigned i = 0; i < doctor->n_workers; i++)
        buf_fini(&doctor->workers[i].text);
    findings_fini(&doctor->findings);
    return code;
}
