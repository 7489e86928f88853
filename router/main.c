/* tandem-router: config, pieces up in order, the loop, drain, pieces down in reverse. */
#include "base/allocator.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "base/exit.h"
#include "base/file.h"
#include "base/http/listener.h"
#include "base/log/log.h"
#include "base/log/log_writer.h"
#include "base/metrics.h"
#include "base/net/address.h"
#include "base/net/loop.h"
#include "base/net/pool.h"
#include "base/net/tls.h"
#include "base/notify.h"
#include "base/random.h"
#include "base/signals.h"
#include "model/model.h"
#include "model/text/template/thought_format.h"
#include "model/text/template/tool_format.h"
#include "model/text/tokenizer/tokenizer.h"
#include "proto/host.h"
#include "proto/keys.h"
#include "router/api/json_tree.h"
#include "router/call/calls.h"
#include "router/call/formats.h"
#include "router/call/keepalive.h"
#include "router/call/meter.h"
#include "router/call/serving.h"
#include "router/call/text.h"
#include "router/call/usage.h"
#include "router/config.h"
#include "router/core/router.h"
#include "router/serve/api.h"
#include "router/serve/api_keys.h"
#include "router/serve/description.h"
#include "router/serve/events.h"
#include "router/serve/grpc_health.h"
#include "router/serve/link.h"
#include "router/serve/reload.h"
#include "router/serve/routes.h"
#include "router/serve/server.h"
#include "router/serve/service.h"
#include "router/trace/tracer.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Open files of a router with two workers and a handful of clients; more of either need more, and
 * clients beyond them wait. Counted in /proc/PID/fd. */
#define FILES_NEEDED  44
#define DRAIN_EXTRA_S 10 /* what a stop takes besides the answers that run */
#define TREE_TIMES    8u /* all JSON trees together, in bodies of the largest kind */

/* Trees and prompts of this many bytes are gone when freed. */
#define MAPPED_BYTES (256 * 1024)

struct router_program {
    struct server server;
    int argc; /* of main(): SIGHUP reads the configuration again */
    char **argv;
    struct config config;
    struct model *model;
    struct keys cluster; /* CURVE keys; wiped once the bus has them */
    struct loop_watch *signals[3];
    struct loop_timer *drain_timer;
    struct keepalive *keepalive;
    struct service *service;
    struct reload *reload;
    uint64_t drain_until_ns;
};

/* --- pieces up ------------------------------------------------------------------------------ */

static bool router_is_special(const struct model *model, struct span name) {
    uint32_t id = tokenizer_find(model->tokenizer, name);
    return id != TOKEN_NONE && tokenizer_is_special(model->tokenizer, id);
}

/* Which marks of the calls are special tokens: bit i is mark i. */
static unsigned router_special_marks(const struct model *model, const struct tool_format *format) {
    unsigned special = 0;
    for (unsigned i = 0; format && i < TOOL_MARKS; i++)
        if (format->marks[i].n > 0 && router_is_special(model, format->marks[i]))
            special |= 1u << i;
    return special;
}

/* How calls are written: by the options, else by the template. */
static const struct tool_format *router_tool_format(const struct config *config,
                                                    const struct model *model) {
    if (strcmp(config->tool_format, "auto") == 0)
        return model->template.tool_format;
    return tool_format_find(config->tool_format);
}

static void router_set_thoughts(const struct model *model, struct ask_limits *limits) {
    const struct thought_format *format = model->template.thought_format;
    limits->thought_format = format;
    limits->thought_mark_special = format && router_is_special(model, format->mark);
    limits->thought_end_special = format && router_is_special(model, format->end_mark);
}

static enum status router_open_model(struct router_program *program, struct error *error) {
    struct serving *serving = &program->server.serving;
    const struct config *config = &program->config;
    struct model_options how = {.dummy = config->dummy};
    TRY(model_open(config->model, &how, &program->model, error));
    model_log_remarks(program->model);
    const struct model_config *about = &program->model->config;
    serving->model = config->served_model[0] ? config->served_model : about->name;
    serving->context = about->context < MESSAGE_TOKENS_MAX ? about->context : MESSAGE_TOKENS_MAX;
    serving->limits =
        (struct ask_limits){.model = serving->model,
                            .n_tokens = about->n_vocab,
                            .n_textless = program->model->n_textless,
                            .textless = program->model->textless,
                            .n_ends = about->n_stop_ids,
                            .ends = about->stop_ids,
                            .prompt_max = serving->context,
                            .max_new = config->default_max_tokens,
                            .tool_format = router_tool_format(config, program->model)};
    serving->limits.tool_marks_special =
        router_special_marks(program->model, serving->limits.tool_format);
    router_set_thoughts(program->model, &serving->limits);
    if (!config->no_generation) {
        const struct generation *generation = &program->model->generation;
        char shown[ERROR_TEXT_MAX + 64];
        serving->limits.generation = generation;
        if (generation->ignored[0])
            log_warn("a sampling default of the model is not used", "reason=%s",
                     log_text(shown, sizeof shown, generation->ignored));
    }
    return STATUS_OK;
}

/* The line says which option names the file. */
static enum status router_open_api_keys(const struct config *config, const char *option,
                                        const char *path, struct api_keys **keys,
                                        struct error *error) {
    if (!path[0])
        return STATUS_OK;
    enum status status = api_keys_load(path, strcmp(option, "admin-keys") == 0, keys, error);
    if (status != STATUS_OK)
        error_prefix(error, "%s", options_source(config->options, option));
    return status;
}

static enum status router_open_keys(struct router_program *program, uint64_t *prefix_seed,
                                    struct error *error) {
    const struct config *config = &program->config;
    TRY(router_open_api_keys(config, "api-keys", config->api_keys, &program->server.keys, error));
    TRY(router_open_api_keys(config, "admin-keys", config->admin_keys, &program->server.admin_keys,
                             error));
    if (api_keys_apart(program->server.keys, program->server.admin_keys, error) != STATUS_OK) {
        error_prefix(error, "%s", options_source(config->options, "admin-keys"));
        return STATUS_INVALID;
    }
    if (!config->keys[0])
        return STATUS_OK;
    TRY(keys_load(config->keys, &program->cluster, error));
    *prefix_seed = config_prefix_seed(&program->cluster);
    return STATUS_OK;
}

static enum status router_open_core(struct router_program *program, uint64_t prefix_seed,
                                    struct error *error) {
    struct server *server = &program->server;
    struct serving *serving = &server->serving;
    const struct config *config = &program->config;
    struct router_sink sink = link_sink(server->link);
    struct router_config core = {
        .router_id = random_seed() | 1, /* never 0 */
        .seed = random_seed(),
        .max_requests = config->max_sequences,
        .max_queue = config->queue,
        .max_workers = MESSAGE_PEERS_MAX,
        .max_prompt = serving->context,
        .n_vocab = program->model->config.n_vocab,
        .policy = config->policy,
        .roles = config->roles,
        .local_prefill_tokens = config->local_prefill_tokens,
        .no_worker_wait_ns = config->worker_wait_ns,
        .hang_ns_min = config->hang_ns,
        .prefix_key = prefix_seed,
    };
    snprintf(core.name, sizeof core.name, "%s", server->name);
    /* What a worker sends in WELCOME comes from the same model_open(). */
    const struct model_config *about = &program->model->config;
    _Static_assert(sizeof about->fingerprint == FINGERPRINT_BYTES &&
                       sizeof about->tokenizer_fingerprint == FINGERPRINT_BYTES,
                   "fingerprints on the wire are the model's");
    memcpy(core.model_fp, about->fingerprint, FINGERPRINT_BYTES);
    memcpy(core.tokenizer_fp, about->tokenizer_fingerprint, FINGERPRINT_BYTES);
    enum status status = router_new(&core, &sink, &serving->core);
    if (status != STATUS_OK)
        error_set(error, status, "cannot make the router's core: %s", status_name(status));
    return status;
}

static enum status router_open_workers(struct router_program *program, struct error *error) {
    struct server *server = &program->server;
    struct serving *serving = &server->serving;
    const struct config *config = &program->config;
    uint64_t prefix_seed = 0;
    TRY(router_open_keys(program, &prefix_seed, error));
    struct link_config link = {.announce = config->announce,
                               .keys = config->keys[0] ? &program->cluster : NULL,
                               .max_workers = MESSAGE_PEERS_MAX};
    enum status status = link_new(serving, &link, &server->link, error);
    keys_wipe(&program->cluster);
    TRY(status);
    TRY(router_open_core(program, prefix_seed, error));
    if (text_new(program->model, prefix_seed, &serving->text) != STATUS_OK ||
        formats_new(&serving->formats) != STATUS_OK ||
        calls_new(serving, config->max_sequences, &serving->calls) != STATUS_OK ||
        pool_new(serving->loop, config->text_threads, config->max_sequences, &serving->pool) !=
            STATUS_OK)
        return error_set(error, STATUS_NOMEM, "no memory for %u sequences", config->max_sequences);
    if (config->silence_ns > 0 &&
        keepalive_new(serving, config->silence_ns, &program->keepalive) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "no memory for a timer");
    return STATUS_OK;
}

/* What a client reads that speaks plain HTTP to a port of TLS. */
#define HTTPS_WORDS                                                                                \
    "{\"error\":{\"message\":\"This port speaks HTTPS: ask it with https://\","                    \
    "\"type\":\"invalid_request_error\",\"param\":null,\"code\":null}}"

static enum status router_open_tls(struct router_program *program, struct error *error) {
    struct server *server = &program->server;
    const struct config *config = &program->config;
    char answer[512], shown[ERROR_TEXT_MAX + 64];
    if (!config->tls_cert[0])
        return STATUS_OK;
    snprintf(answer, sizeof answer,
             "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n"
             "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
             strlen(HTTPS_WORDS), HTTPS_WORDS);
    const struct tls_server_config tls = {.cert = config->tls_cert,
                                          .key = config->tls_key,
                                          .client_ca = config->tls_client_ca,
                                          .protocols = "h2,http/1.1",
                                          .plain_answer = answer,
                                          .n_streams_max = config->max_connections};
    TRY(tls_server_new(server->serving.loop, &tls, &server->tls, error));
    if (tls_context_warning(server->tls)[0])
        log_warn("clients may refuse the certificate", "reason=%s",
                 log_text(shown, sizeof shown, tls_context_warning(server->tls)));
    if (config->tls_check_ns > 0 &&
        reload_new(server, config->tls_check_ns, &program->reload) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "no memory for a timer");
    return STATUS_OK;
}

static enum status router_open_tracer(struct router_program *program, struct error *error) {
    struct server *server = &program->server;
    const struct config *config = &program->config;
    const struct tracer_config tracer = {.url = config->traces,
                                         .header = config->traces_header,
                                         .ratio = config->traces_ratio,
                                         .resource = {.service = "tandem-router",
                                                      .version = TANDEM_VERSION,
                                                      .instance = server->name,
                                                      .host = server->host_name}};
    if (!config->traces[0])
        return STATUS_OK;
    enum status status = tracer_new(server->serving.loop, &tracer, &server->serving.tracer, error);
    if (status != STATUS_OK)
        error_prefix(error, "%s", options_source(config->options, "traces"));
    return status;
}

static enum status router_open_front(struct router_program *program, struct error *error) {
    struct server *server = &program->server;
    struct serving *serving = &server->serving;
    const struct config *config = &program->config;
    struct listener_config listener = listener_config_default;
    listener.limits.body_bytes = config->max_body;
    listener.body_memory = config->body_memory;
    listener.output_memory = config->output_memory;
    listener.body_total_ns = config->body_ns;
    listener.n_connections_max = listener.n_exchanges_max = config->max_connections;
    listener.n_streams_max = config->max_streams;
    listener.ping_ns = config->ping_ns;
    listener.idle_ns = config->idle_ns;
    listener.head_ns = config->head_ns;
    listener.stall_ns = config->stall_ns;
    TRY(router_open_tls(program, error));
    listener.tls = server->tls;
    listener.tls_stream = stream_new_tls;
    if (health_watches_new(server, &server->watches) != STATUS_OK ||
        events_new(server, &server->events) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "no memory for a timer");
    if (metrics_new(1024 + USAGE_SERIES_MAX, &server->metrics) != STATUS_OK ||
        meter_new(server->metrics, serving->model, &serving->meter) != STATUS_OK ||
        usage_new(server->metrics, &serving->usage) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "no memory for the metrics");
    const struct listener_calls calls = {routes_head, routes_exchange, server};
    enum status status =
        listener_new(serving->loop, config->listen, &listener, &calls, &server->listener, error);
    if (status != STATUS_OK) {
        error_prefix(error, "--listen");
        return status;
    }
    serving->exchanges = listener_exchanges(server->listener);
    server->guard = (struct guard){.keys = server->keys,
                                   .admin_keys = server->admin_keys,
                                   .origins = config->origins.all,
                                   .n_origins = config->origins.n,
                                   .hosts = config->hosts.all,
                                   .n_hosts = config->hosts.n,
                                   .listen = config->listen,
                                   .is_loopback = listener_is_loopback(server->listener)};
    if (description_new(server, api_dialect, &server->description) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "no memory for /openapi.json");
    bool inherited = strncmp(config->listen, "fd:", 3) == 0;
    if (service_new(serving, inherited ? server->listener : NULL, config->worker_wait_ns,
                    &program->service) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "no memory for a timer");
    return STATUS_OK;
}

/* --- the end -------------------------------------------------------------------------------- */

static void router_stop_serving(struct router_program *program) {
    loop_stop(program->server.serving.loop);
}

/* Once the last byte of the last reply is out, or the time for it is over, and the collector has the
 * last spans, or a second has passed. */
static void router_check_drained(void *user) {
    struct router_program *program = user;
    const struct server *server = &program->server;
    const struct serving *serving = &server->serving;
    bool is_quiet =
        calls_count(serving->calls) == 0 && listener_counts(server->listener).n_open == 0;
    bool is_over = is_quiet || clock_now_ns() > program->drain_until_ns;
    if (is_over && serving->tracer)
        tracer_end(serving->tracer);
    if (is_over && (!serving->tracer || tracer_has_ended(serving->tracer)))
        router_stop_serving(program);
    else
        loop_timer_after(program->drain_timer, 20 * NS_PER_MS);
}

static void router_on_stop_signal(void *user, unsigned signal) {
    struct router_program *program = user;
    struct server *server = &program->server;
    struct serving *serving = &server->serving;
    if (serving->draining) {
        log_info("second signal: ending at once", "signal=%u", signal);
        router_stop_serving(program);
        return;
    }
    notify_send("STOPPING=1");
    notify_extend((unsigned)(program->config.drain_ns / NS_PER_S) + DRAIN_EXTRA_S);
    log_info("draining", "signal=%u calls=%u", signal, calls_count(serving->calls));
    serving->draining = true;
    program->drain_until_ns = clock_now_ns() + program->config.drain_ns;
    listener_drain(server->listener);
    health_watches_tell(server->watches);
    events_end(server->events);
    router_check_drained(program);
}

static void router_on_hangup(void *user, unsigned signal) {
    struct router_program *program = user;
    (void)signal;
    struct error error = {0};
    enum log_level *level = &program->config.log_level;
    notify_reloading();
    enum status status = config_reread_level(program->argc, program->argv, level, &error);
    log_set_level(*level);
    reload_tell("log-level", status, &error);
    reload_all(&program->server);
    notify_reloaded();
}

static enum status router_watch_signals(struct router_program *program, struct error *error) {
    struct loop *loop = program->server.serving.loop;
    signals_ignore_strays();
    if (loop_signal_new(loop, SIGTERM, router_on_stop_signal, program, &program->signals[0]) !=
            STATUS_OK ||
        loop_signal_new(loop, SIGINT, router_on_stop_signal, program, &program->signals[1]) !=
            STATUS_OK ||
        loop_signal_new(loop, SIGHUP, router_on_hangup, program, &program->signals[2]) !=
            STATUS_OK ||
        loop_timer_new(loop, router_check_drained, program, &program->drain_timer) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "cannot watch signals");
    return STATUS_OK;
}

/* --- the whole ------------------------------------------------------------------------------ */

static enum status router_open_all(struct router_program *program, struct error *error) {
    struct server *server = &program->server;
    struct serving *serving = &server->serving;
    server->name = program->config.name;
    server->has_siblings = program->config.siblings;
    server->host = host_of_this_machine();
    if (gethostname(server->host_name, sizeof server->host_name - 1) != 0)
        snprintf(server->host_name, sizeof server->host_name, "this host");
    server->has_no_page = program->config.no_page;
    serving->deadline_ns = program->config.deadline_ns;
    server->created_s = clock_unix_s();
    server->started_ns = clock_now_ns();
    serving->random.state = random_seed();
    retry_init(&serving->retry, random_seed(), server->started_ns);
    list_init(&serving->crowded);
    json_object_seed(0); /* before there are threads */
    json_tree_init(TREE_TIMES * program->config.max_body);
    if (loop_new(&serving->loop) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "no memory for the event loop");
    TRY(router_watch_signals(program, error));
    TRY(router_open_model(program, error));
    TRY(router_open_workers(program, error));
    TRY(router_open_tracer(program, error));
    return router_open_front(program, error);
}

static void router_close_all(struct router_program *program) {
    struct server *server = &program->server;
    struct serving *serving = &server->serving;
    service_free(program->service);
    reload_free(program->reload);
    keepalive_free(program->keepalive);
    pool_free(serving->pool);
    calls_free(serving->calls);
    tracer_free(serving->tracer);
    listener_free(server->listener);
    health_watches_free(server->watches);
    events_free(server->events);
    description_free(server->description);
    tls_context_free(server->tls);
    router_free(serving->core);
    link_free(server->link);
    usage_free(serving->usage);
    meter_free(serving->meter);
    metrics_free(server->metrics);
    text_free(serving->text);
    formats_free(serving->formats);
    api_keys_free(server->keys);
    api_keys_free(server->admin_keys);
    model_close(program->model);
    for (unsigned i = 0; i < 3; i++)
        loop_watch_free(program->signals[i]);
    loop_timer_free(program->drain_timer);
    loop_free(serving->loop);
}

/* The program that started us learns the address, because the port may have been 0. */
static void router_tell_ready(const struct router_program *program) {
    char text[512], pair[ADDRESS_TEXT_MAX], port[8];
    struct address at = {.host = ""};
    snprintf(port, sizeof port, "%u", (unsigned)listener_port(program->server.listener));
    (void)address_split(program->config.listen, &at);
    bool is_any = at.host[0] == 0 || strcmp(at.host, "*") == 0;
    snprintf(text, sizeof text, "READY=1\nLISTEN=%s%s\n", program->server.tls ? "https://" : "",
             address_join(is_any ? "0.0.0.0" : at.host, port, pair));
    notify_send(text);
}

static int router_serve(struct router_program *program) {
    struct server *server = &program->server;
    struct serving *serving = &server->serving;
    struct error error = {0};
    char shown[3][ERROR_TEXT_MAX + 64];
    if (router_open_all(program, &error) != STATUS_OK) {
        router_close_all(program);
        return exit_of(&error);
    }
    bool by_template = strcmp(program->config.tool_format, "auto") == 0;
    const char *tools = tool_format_shown(serving->limits.tool_format,
                                          by_template ? program->model->template_source : SPAN(""));
    log_info("router ready", "name=%s port=%u tls=%s announce=%s model=%s tools=%s pid=%d",
             log_text(shown[0], sizeof shown[0], server->name),
             (unsigned)listener_port(server->listener), server->tls ? "yes" : "no",
             link_endpoint(server->link), log_text(shown[1], sizeof shown[1], serving->model),
             log_text(shown[2], sizeof shown[2], tools), (int)getpid());
    if (!server->keys && !server->guard.is_loopback)
        log_warn("no API keys: every client that reaches this address can use the model",
                 "listen=%s option=--api-keys",
                 log_text(shown[0], sizeof shown[0], program->config.listen));
    router_tell_ready(program);
    loop_run(serving->loop);
    log_info("router ends", "name=%s", log_text(shown[0], sizeof shown[0], server->name));
    router_close_all(program);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
    static struct router_program program;
    struct buf errors;
    int code = EXIT_CONFIG;
    program.argc = argc;
    program.argv = argv;
    buf_init(&errors, 65536);
    exit_checks_stdout();
    allocator_map_from(MAPPED_BYTES);
    log_init("tandem-router", LOG_INFO);
    log_writer_start();
    if (config_read(&program.config, argc, argv, &errors) == STATUS_OK) {
        log_init("tandem-router", program.config.log_level);
        file_guard(program.config.model);
        struct error error;
        if (descriptors_need(FILES_NEEDED, &error) != STATUS_OK)
            code = exit_with(EXIT_CONFIG, error.text);
        else
            code =
                options_only_checks(program.config.options) ? EXIT_SUCCESS : router_serve(&program);
    } else {
        exit_with(EXIT_CONFIG, errors.n > 0 ? errors.data : "out of memory");
    }
    config_fini(&program.config);
    buf_fini(&errors);
    return code;
}
