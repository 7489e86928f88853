/* tools/cli/doctor/doctor_parts.h: the parts of `tandem doctor`, each of which looks at one kind of
 * thing and says what it found. They change nothing, and touch no network beyond the hosts that the
 * configuration names. One thread. */
#pragma once

#include "tools/cli/doctor/findings.h"
#include "tools/cli/doctor/settings.h"
#include "tools/cli/target.h"

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define DOCTOR_WORKERS_MAX 64

struct doctor {
    struct findings findings;
    struct cli_target target; /* --server and the admin key */
    struct settings_source source;
    struct settings router;
    struct settings workers[DOCTOR_WORKERS_MAX]; /* of the file; else one without a name */
    unsigned n_workers;
    bool is_up;       /* the router of this configuration answers */
    unsigned n_ready; /* workers that it has */
};

/* Reads the configuration by running both daemons; fills router, workers and n_workers. */
void doctor_look_at_config(struct doctor *doctor);

/* What the workers' models need, by --dry-run; after doctor_look_at_peers(). */
void doctor_look_at_memory(struct doctor *doctor);

/* Models, keys, certificates, folders of sockets. */
void doctor_look_at_files(struct doctor *doctor);

/* This host: processor, GPU, huge pages, limits, clock, room for files. */
void doctor_look_at_host(struct doctor *doctor);

/* Ports, and who has them; is_up and n_ready; routers and workers of the configuration. */
void doctor_look_at_peers(struct doctor *doctor);

/* Is the endpoint (tcp://HOST:PORT) one of another host? */
bool doctor_is_elsewhere(const char *endpoint);
