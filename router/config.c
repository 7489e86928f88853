#include "router/config.h"

#include "base/allocator.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/options/options.h"
#include "base/span.h"
#include "model/text/template/tool_format.h"
#include "proto/keys.h"
#include "proto/message.h"
#include "router/core/policy/policy.h"
#include "router/trace/traceparent.h"
#include "router/trace/tracer.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

static const char *router_config_tool_format_word(unsigned at) {
    const struct tool_format *format = tool_format_nth(at);
    return format ? format->name : NULL;
}

static const char *router_config_policy_word(unsigned at) {
    return policy_table[at] ? policy_table[at]->name : NULL;
}

#define AT(field)   offsetof(struct config, field)
#define TIMEOUT_MIN (100 * NS_PER_MS) /* less closes clients that are only far away */

/* name, type, field, default, sections, what --help calls the value, help. */
static const struct option_spec table[] = {
    {"name", OPTION_STRING, AT(name), "router0", "router", "NAME",
     .help = "this router's name in its cluster"},
    {"model", OPTION_STRING, AT(model), NULL, "cluster router", "PATH",
     .help = "a .gguf file, a folder with config.json, safetensors and a tokenizer, ORG/NAME or a "
             "folder of a hub's cache, or \"hash\" for the oracle that needs none; the same for "
             "routers and workers"},
    {"load-format", OPTION_CHOICE, AT(dummy), "auto", "cluster router", NULL,
     .help = "dummy: a folder's config.json is enough; weights are pseudo-random",
     .choices = "auto dummy"},
    {"served-model", OPTION_STRING, AT(served_model), NULL, "router", "NAME",
     .help =
         "the model's id for clients; default: ORG/NAME of a hub's cache, else the file's stem"},
    {"generation-config", OPTION_CHOICE, AT(no_generation), "auto", "router", NULL,
     .help = "auto: the model's own sampling defaults apply where a request sets none",
     .choices = "auto none"},
    {"tool-format", OPTION_WORD, AT(tool_format), "auto", "router", NULL,
     .help =
         "the format of the model's tool calls; auto: by its template; none: no tools are called",
     .choices = "auto none", .words = router_config_tool_format_word},
    {"default-max-tokens", OPTION_UINT, AT(default_max_tokens), "0", "router", "N",
     .help = "tokens of an answer if the request sets no limit; 0: the rest of the context, 16 for "
             "completions",
     .max = INT32_MAX},
    {"listen", OPTION_STRING, AT(listen), "127.0.0.1:8000", "router", "HOST:PORT",
     .help = "where clients connect; port 0 picks a free one"},
    {"announce", OPTION_STRING, AT(announce), "ipc:///run/tandem/announce", "router", "ENDPOINT",
     .help = "where workers announce themselves (ipc:// or tcp://)"},
    {"policy", OPTION_WORD, AT(policy), "prefix_affinity", "router", NULL,
     .help = "how workers are chosen", .words = router_config_policy_word},
    {"queue", OPTION_UINT, AT(queue), "1024", "router", "N",
     .help = "sequences that may wait for a worker; more are refused with 429", .max = 1000000},
    {"max-sequences", OPTION_UINT, AT(max_sequences), "16384", "router", "N",
     .help = "sequences at once, including waiting ones", .min = 1, .max = 1000000},
    {"roles", OPTION_CHOICE, AT(roles), "load", "router", NULL,
     .help = "load: a decode worker computes a prompt that would wait longer at a prefill worker, "
             "and prefill workers decode while decode workers have no blocks; fixed: neither",
     .choices = "load fixed"},
    {"local-prefill-tokens", OPTION_UINT, AT(local_prefill_tokens), "0", "router", "N",
     .help = "prompts whose uncached part is at most this are prefilled where they decode",
     .max = 1u << 24},
    {"keys", OPTION_STRING, AT(keys), NULL, "cluster", "DIR",
     .help = "the cluster's CURVE keys; needed beyond this host"},
    {"api-keys", OPTION_STRING, AT(api_keys), NULL, "router", "FILE",
     .help = "one key a line; then clients must send one. After a key: name=NAME, concurrent=N, "
             "per-minute=N, tokens-per-minute=N, cache-salt=TEXT"},
    {"tls-cert", OPTION_STRING, AT(tls_cert), NULL, "router", "FILE",
     .help = "PEM: the server's certificate, then those that lead to its root; clients then speak "
             "https. SIGHUP reads it again"},
    {"tls-key", OPTION_STRING, AT(tls_key), NULL, "router", "FILE",
     .help = "PEM: the certificate's key, without a passphrase, not readable by others"},
    {"tls-check", OPTION_DURATION, AT(tls_check_ns), "60s", "router", NULL,
     .help = "how often these files are checked, and read again if they have changed; 0: on SIGHUP "
             "only"},
    {"tls-client-ca", OPTION_STRING, AT(tls_client_ca), NULL, "router", "FILE",
     .help = "PEM: clients need a certificate signed by one of these; default: none"},
    {"admin-keys", OPTION_STRING, AT(admin_keys), NULL, "router", "FILE",
     .help = "one key a line; then /admin/ needs one. Default: /admin/ is open to this host "
             "without a key, and closed if api-keys is set"},
    {"allow-host", OPTION_LIST, AT(hosts), NULL, "router", "NAME",
     .help = "names of this server besides localhost and addresses, if it listens on a loopback "
             "address: requests for other names are refused",
     .max = 64},
    {"cors-origins", OPTION_LIST, AT(origins), NULL, "router", "ORIGIN",
     .help = "pages of these origins may read answers; default: the server's own page only",
     .max = 64},
    {"page", OPTION_CHOICE, AT(no_page), "on", "router", NULL,
     .help = "the chat page at /, with the cluster's picture", .choices = "on off"},
    {"siblings", OPTION_BOOL, AT(siblings), NULL, NULL, NULL,
     .help =
         "of `tandem up`: its workers are children of the process that started this router, and "
         "POST /admin/kill kills one of them"},
    {"text-threads", OPTION_UINT, AT(text_threads), "2", "router", "N",
     .help = "threads for long bodies, templates, tokenizing", .min = 1, .max = 256},
    {"hang-timeout", OPTION_DURATION, AT(hang_ns), "1s", "router", NULL,
     .help = "a worker that sends nothing for this long, or for four of its steps if these take "
             "longer, is considered hung: other workers continue its requests",
     .min = TIMEOUT_MIN},
    {"worker-wait", OPTION_DURATION, AT(worker_wait_ns), "5s", "router", NULL,
     .help = "while no worker is ready, admitted requests wait this long for one (new ones are "
             "refused), and after a restart so do clients of a socket that was handed over"},
    {"deadline", OPTION_DURATION, AT(deadline_ns), "0", "router", NULL,
     .help = "time limit of a call, which then ends with 504; 0: none"},
    {"ping", OPTION_DURATION, AT(silence_ns), "15s", "router", NULL,
     .help = "a stream without data for this long gets a comment, so that proxies keep it open; 0: "
             "none"},
    {"max-body", OPTION_SIZE, AT(max_body), "32MiB", "router", NULL,
     .help = "bytes of a request's body; more are refused with 413", .min = 1024, .max = 1u << 30},
    {"body-memory", OPTION_SIZE, AT(body_memory), "256MiB", "router", NULL,
     .help = "bytes of all bodies that are read and not yet parsed; more are refused with 503",
     .min = 65536, .max = 1ull << 40},
    {"output-memory", OPTION_SIZE, AT(output_memory), "256MiB", "router", NULL,
     .help = "bytes of all answers that clients have not read; above it a whole answer is refused "
             "with 503, and a stream waits until its client reads",
     .min = 65536, .max = 1ull << 40},
    {"max-connections", OPTION_UINT, AT(max_connections), "16384", "router", "N",
     .help = "open client connections; also requests that are open at once", .min = 1,
     .max = 1000000},
    {"max-streams", OPTION_UINT, AT(max_streams), "100", "router", "N",
     .help = "requests at once on one HTTP/2 connection", .min = 1, .max = 10000},
    {"http2-ping", OPTION_DURATION, AT(ping_ns), "0", "router", NULL,
     .help = "an HTTP/2 client that is silent for this long while it waits is sent a PING, and "
             "closed after as long again; 0: never"},
    {"idle-timeout", OPTION_DURATION, AT(idle_ns), "120s", "router", NULL,
     .help = "a connection without a request is closed after this", .min = TIMEOUT_MIN},
    {"head-timeout", OPTION_DURATION, AT(head_ns), "10s", "router", NULL,
     .help = "time limit of a request's head", .min = TIMEOUT_MIN},
    {"body-timeout", OPTION_DURATION, AT(body_ns), "120s", "router", NULL,
     .help = "time limit of a request's body; a pause of 30 s or a rate below 1 KiB/s also ends it",
     .min = TIMEOUT_MIN},
    {"stall-timeout", OPTION_DURATION, AT(stall_ns), "30s", "router", NULL,
     .help = "a client that reads nothing of its answer for this long is closed; after at most 2 s "
             "while memory for answers is scarce",
     .min = TIMEOUT_MIN},
    {"drain", OPTION_DURATION, AT(drain_ns), "30s", "router", NULL,
     .help = "how long running answers may take after SIGTERM"},
    {"traces", OPTION_STRING, AT(traces), NULL, "router", "URL",
     .help = "a collector of OpenTelemetry that gets a span of each request (OTLP over HTTP): "
             "http://HOST:4318, or with another path than /v1/traces; default: none"},
    {"traces-ratio", OPTION_STRING, AT(traces_share), "1", "router", "SHARE",
     .help = "0 to 1: this share of the requests whose clients send no traceparent; a traceparent "
             "says by itself whether it is sampled"},
    {"traces-header", OPTION_STRING, AT(traces_header), NULL, "router", "HEADER",
     .help = "\"name: value\" of each request to it, as for a key; rather in the file or a "
             "variable, since "
             "flags are seen by all of the host"},
    {"log-level", OPTION_CHOICE, AT(log_level), "info", "cluster router", NULL,
     .help = "lines of lower levels are dropped", .words = log_level_word},
};

const struct options_program config_program = {
    .name = "tandem-router",
    .doc = "Takes requests by HTTP (OpenAI's API and Anthropic's) and gRPC on one port, chooses "
           "workers for them and streams the answers. SIGTERM drains, a second one ends at once; "
           "SIGHUP reads certificates, API keys and log-level again.",
    .table = table,
    .n_options = sizeof table / sizeof *table,
    .section = "router",
    .build = allocator_name,
};

static void router_config_check_ping(const struct options *options, const char *name,
                                     uint64_t time_ns, struct buf *errors) {
    if (time_ns > 0 && time_ns < TIMEOUT_MIN)
        options_complain(options, name, "must be 0 or at least 100ms", errors);
}

/* Why no browser ever sends this as Origin; NULL: one may, or it stands for all. */
static const char *router_config_origin_fault(const char *origin) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    if (strcmp(origin, "*") == 0 || strcmp(origin, "null") == 0)
        return NULL;
    const char *mark = strstr(origin, "://");
    if (!mark || mark == origin || !mark[3])
        return "is not of the form SCHEME://HOST or SCHEME://HOST:PORT";
    if (strpbrk(mark + 3, "/?#"))
        return "has text after the host: an origin ends there, without a slash";
    bool is_http = strncmp(origin, "http://", 7) == 0,
         is_https = strncmp(origin, "https://", 8) == 0;
    if (strcspn(origin, letters) < (size_t)(mark - origin) ||
        ((is_http || is_https) && strpbrk(origin, letters)))
        return "has a capital letter: browsers send scheme and host in small ones";
    if (span_ends(span_of(origin), is_http ? ":80" : ":443") && (is_http || is_https))
        return "has the scheme's own port, which browsers leave out";
    return NULL;
}

static void router_config_complain_of_origin(const struct options *options, const char *origin,
                                             struct buf *errors) {
    char text[512];
    snprintf(text, sizeof text, "\"%.300s\" %s", origin, router_config_origin_fault(origin));
    options_complain(options, "cors-origins", text, errors);
}

static void router_config_check_traces(struct config *config, struct buf *errors) {
    const struct options *options = config->options;
    const char *header = config->traces_header;
    struct http_url url;
    struct error error = {.text = ""};
    if (config->traces[0] && tracer_read_url(config->traces, &url, &error) != STATUS_OK)
        options_complain(options, "traces", error.text, errors);
    if (!traceparent_read_ratio(config->traces_share, &config->traces_ratio))
        options_complain(options, "traces-ratio", "is no number of 0 to 1, as 0.25", errors);
    if (header[0] && tracer_header_fault(header))
        options_complain(options, "traces-header", tracer_header_fault(header), errors);
}

static void router_config_check(const struct config *config, struct buf *errors) {
    const struct options *options = config->options;
    if (!config->model[0])
        options_complain(options, "model", "is needed: a .gguf file, a model folder, or \"hash\"",
                         errors);
    if (message_name_fault(config->name))
        options_complain(options, "name", message_name_fault(config->name), errors);
    if (strlen(config->announce) >= MESSAGE_ENDPOINT_MAX)
        options_complain(options, "announce", "is too long: 255 bytes are the most", errors);
    size_t n_served = strlen(config->served_model);
    if (n_served > 0 &&
        (config->served_model[0] == '/' || config->served_model[n_served - 1] == '/' ||
         strstr(config->served_model, "//")))
        options_complain(options, "served-model", "has a slash at an end, or two together", errors);
    if (!config->tls_cert[0] != !config->tls_key[0])
        options_complain(options, config->tls_cert[0] ? "tls-key" : "tls-cert",
                         config->tls_cert[0] ? "is needed with tls-cert" : "is needed with tls-key",
                         errors);
    if (config->tls_client_ca[0] && !config->tls_cert[0])
        options_complain(options, "tls-client-ca", "needs tls-cert and tls-key", errors);
    for (unsigned i = 0; i < config->origins.n; i++)
        if (router_config_origin_fault(config->origins.all[i]))
            router_config_complain_of_origin(options, config->origins.all[i], errors);
    router_config_check_ping(options, "ping", config->silence_ns, errors);
    router_config_check_ping(options, "http2-ping", config->ping_ns, errors);
    if (config->body_memory / 8 * 7 < config->max_body)
        options_complain(options, "body-memory", "is too small: 8/7 of max-body is the least",
                         errors);
}

enum status config_read(struct config *config, int argc, char **argv, struct buf *errors) {
    memset(config, 0, sizeof *config);
    TRY(options_new(&config_program, argc, argv, config, &config->options, errors));
    router_config_check(config, errors);
    router_config_check_traces(config, errors);
    return errors->n > 0 ? STATUS_INVALID : STATUS_OK;
}

void config_fini(struct config *config) {
    options_free(config->options);
    memset(config, 0, sizeof *config);
}

enum status config_reread_level(int argc, char **argv, enum log_level *level, struct error *error) {
    struct config fresh;
    struct buf errors;
    buf_init(&errors, 65536);
    enum status status = config_read(&fresh, argc, argv, &errors);
    if (status == STATUS_OK)
        *level = fresh.log_level;
    else
        error_set(error, status, "%.*s", (int)strcspn(errors.data ? errors.data : "", "\n"),
                  errors.data ? errors.data : "out of memory");
    config_fini(&fresh);
    buf_fini(&errors);
    return status;
}

uint64_t config_prefix_seed(const struct keys *keys) {
    return XXH3_64bits(keys->server_secret, sizeof keys->server_secret - 1);
}
