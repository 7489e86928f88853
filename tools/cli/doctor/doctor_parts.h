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
    bool any_runs;    /* a daemon of this configuration listens on this host */
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

/* Of doctor_look_at_host(): the GPUs, which workers take which, and how those of several ranks will add up. */
void doctor_look_at_gpus(struct doctor *doctor);

/* Ports, and who has them; is_up and n_ready; routers and workers of the configuration. */
void doctor_look_at_peers(struct doctor *doctor);

/* Can `program` listen at HOST:PORT, or does it already? True: it does. fix: where another one does. */
bool doctor_look_at_port(struct doctor *doctor, const char *address, const char *program,
                         const char *fix);

/* The port of an endpoint of this host by its key ("endpoint"); one beyond this host wants keys, as the bus does. */
void doctor_look_at_endpoint(struct doctor *doctor, const struct settings *settings,
                             const char *key, const char *program);

/* Parts of HOST:PORT or [IPV6]:PORT; the port may be "*". False: it is neither. */
bool doctor_split(const char *address, char host[VALUE_MAX], char port[8]);

struct addrinfo;
struct addrinfo *doctor_resolve(const char *host, const char *port); /* NULL: nothing found */

/* Is the endpoint (tcp://HOST:PORT) one of another host? An interface of this one's name is here. */
bool doctor_is_elsewhere(const char *endpoint);

/* Does the endpoint have a name where an address could be? An interface's name stands for another address on each host. */
bool doctor_names_interface(const char *endpoint);

/* The first IPv4 address of an interface of this host, in numbers. False: it has none. */
bool doctor_interface_address(const char *name, char numeric[VALUE_MAX]);

/* Its routers can be reached from this host alone, so it runs here. */
bool doctor_is_surely_here(const struct settings *worker);
