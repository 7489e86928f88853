/* router/config.h: what tandem-router is told: flags, TANDEM_* and the file, as plain values. */
#pragma once

#include "base/buf.h"
#include "base/log/log.h"
#include "base/options/options.h"
#include "base/status.h"
#include "router/core/router.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct keys;

struct config {
    struct options *options; /* owned: the strings and lists below are its */
    const char *name;
    const char *model;
    unsigned dummy;           /* load-format: 1 where the weights are made up */
    const char *served_model; /* "": the model's own name */
    unsigned no_generation;   /* generation-config: 1 where the model's own defaults are not used */
    const char *tool_format;  /* "auto", "none", or a row of model/text/template/tool_format.c */
    uint32_t default_max_tokens; /* 0: none */
    const char *listen;
    const char *announce;
    const char *policy;                             /* a row of router/core/policy/policy.c */
    const char *keys;                               /* folder with CURVE keys, or "" */
    const char *api_keys;                           /* file, or "" */
    const char *admin_keys;                         /* file, or "" */
    const char *tls_cert, *tls_key, *tls_client_ca; /* files, or "" */
    uint64_t tls_check_ns;      /* 0: their files are read again on SIGHUP alone */
    bool siblings;              /* workers may be its parent's children */
    unsigned no_page;           /* page: 1 where there is none */
    struct option_list origins; /* cors-origins */
    struct option_list hosts;   /* allow-host */
    uint32_t queue;
    uint32_t max_sequences;
    enum roles roles;
    uint32_t local_prefill_tokens;
    uint32_t text_threads;
    uint32_t max_connections;
    uint32_t max_streams; /* of one HTTP/2 connection */
    size_t max_body;
    size_t body_memory;
    size_t output_memory;
    uint64_t hang_ns; /* of a worker's silence, after which it is taken for hung */
    uint64_t worker_wait_ns;
    uint64_t deadline_ns; /* 0: none */
    uint64_t silence_ns;  /* of a stream, before its ping; 0: none */
    uint64_t idle_ns, head_ns, body_ns, stall_ns;
    uint64_t ping_ns;   /* HTTP/2; 0: never */
    const char *traces; /* URL of a collector, or "" */
    const char *traces_header;
    const char *traces_share; /* traces-ratio as text */
    double traces_ratio;      /* 0 to 1 */
    uint64_t drain_ns;
    enum log_level log_level;
};

extern const struct options_program config_program; /* a row for each option */

/* STATUS_INVALID: `errors` has a line for each mistake. config_fini() in any case. */
NODISCARD enum status config_read(struct config *config, int argc, char **argv, struct buf *errors);
void config_fini(struct config *config);

/* Reads everything again, for what may change while the router runs: *level, which stays as it is
 * where there is a mistake anywhere; `error` names the first. */
NODISCARD enum status config_reread_level(int argc, char **argv, enum log_level *level,
                                          struct error *error);

/* The seed of prefix hashes, that routers and workers share because they share their keys. */
uint64_t config_prefix_seed(const struct keys *keys);
