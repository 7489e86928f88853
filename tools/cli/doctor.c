/* `tandem doctor`: looks at everything that a start needs, and says how to mend what is wrong. */
#include "tools/cli/doctor.h"
#include "tools/cli/cli.h"

#include "base/exit.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SYSTEM_CONFIG "/etc/tandem/tandem.ini"

struct command {
    struct doctor doctor;
    bool json;
};

enum { KEY_CONFIG = 256, KEY_JSON };

static const struct argp_option options[] = {
    {"config", KEY_CONFIG, "FILE", 0,
     "the daemons' INI file (default: " SYSTEM_CONFIG " where it is there)", 0},
    {"json", KEY_JSON, NULL, 0, "print the findings as one JSON object", 0},
    {0}};

static error_t parse(int key, char *text, struct argp_state *state) {
    struct command *command = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &command->doctor.target;
        return 0;
    case KEY_CONFIG:
        command->doctor.source.config = text;
        return 0;
    case KEY_JSON:
        command->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (command->doctor.source.model)
            return ARGP_ERR_UNKNOWN;
        command->doctor.source.model = text;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void look(struct doctor *doctor) {
    doctor_look_at_config(doctor);
    doctor_look_at_files(doctor);
    doctor_look_at_peers(doctor);
    doctor_look_at_memory(doctor);
    doctor_look_at_host(doctor);
}

int cli_doctor(int argc, char **argv) {
    static const struct argp argp = {
        options,
        parse,
        "[MODEL]",
        "Looks at everything that a start of the daemons needs: configuration, model, memory, "
        "ports, keys, certificates, limits, processor, GPU, clock, and routers and workers that "
        "are there already. One line for each, with the fix where something is wrong. Exit code 0: "
        "no fault; 1: faults (warnings do not count). MODEL: in place of the configuration's.",
        target_argp,
        NULL,
        NULL};
    static struct command command;
    struct doctor *doctor = &command.doctor;
    struct error error;
    argp_err_exit_status = EXIT_CONFIG;
    argp_parse(&argp, argc, argv, 0, NULL, &command);
    if (!doctor->source.config && access(SYSTEM_CONFIG, R_OK) == 0)
        doctor->source.config = SYSTEM_CONFIG;
    const char *server = getenv("TANDEM_SERVER");
    if (!doctor->target.server && server && server[0])
        doctor->target.server = server;
    if (target_find_key(&doctor->target, &error) != STATUS_OK)
        return cli_fail(EXIT_CONFIG, "%s", error.text);
    look(doctor);
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
