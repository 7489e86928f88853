#include "worker/worker.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/log/log.h"
#include "base/log/note.h"
#include "base/notify.h"
#include "base/random.h"
#include "model/model.h"
#include "proto/bus.h"
#include "proto/host.h"
#include "worker/loading.h"
#include "worker/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <xxhash.h>

#define LEASE_NS        (10 * NS_PER_S)
#define ROUTER_LEASE_NS (5 * NS_PER_S)
#define MAX_LINKS       256
#define DRAIN_EXTRA_S   10 /* what a stop takes besides the answers that run */

static void worker_fingerprint(uint8_t out[FINGERPRINT_BYTES], const void *bytes, size_t n) {
    for (unsigned half = 0; half < 2; half++) {
        XXH128_canonical_t canonical;
        XXH128_canonicalFromHash(&canonical, XXH3_128bits_withSeed(bytes, n, half));
        memcpy(out + 16 * half, canonical.digest, 16);
    }
}

static struct kv_layout worker_layout_of(const struct worker *worker) {
    const struct family_facts *facts = &worker->stepper.forward.rank.model->facts;
    return (struct kv_layout){.n_layers = facts->n_layers,
                              .block_tokens = KV_BLOCK_TOKENS,
                              .block_bytes = (uint32_t)forward_block_bytes(facts),
                              .tp = worker->stepper.forward.n_ranks};
}

static void worker_fill_welcome(const struct worker *worker, const struct model *model,
                                struct welcome *welcome) {
    const struct model_config *config = &model->config;
    const struct kernels *kernels = worker->stepper.forward.rank.kernels;
    *welcome = (struct welcome){.major = PROTO_MAJOR,
                                .minor = PROTO_MINOR,
                                .incarnation = worker->incarnation,
                                .role = worker->config->role,
                                .state = WORKER_READY,
                                .pid = (uint32_t)getpid(),
                                .host = worker->host,
                                .kv = worker_layout_of(worker),
                                .context = worker->sizes.context,
                                .max_seqs = worker->sizes.max_seqs,
                                .chunk_tokens = worker->sizes.chunk_tokens};
    snprintf(welcome->name, sizeof welcome->name, "%s", worker->config->name);
    snprintf(welcome->model, sizeof welcome->model, "%s", config->name);
    snprintf(welcome->backend, sizeof welcome->backend, "%s", kernels ? kernels->name : "none");
    snprintf(welcome->sums, sizeof welcome->sums, "%s", forward_sums(&worker->stepper.forward));
    memcpy(welcome->model_fp, config->fingerprint, FINGERPRINT_BYTES);
    memcpy(welcome->tokenizer_fp, config->tokenizer_fingerprint, FINGERPRINT_BYTES);
    char text[FINGERPRINT_BYTES + 544] = {0};
    memcpy(text, config->fingerprint, FINGERPRINT_BYTES);
    rank_numerics(&worker->stepper.forward.rank, text + FINGERPRINT_BYTES, 480);
    /* Which ids are never drawn decides which are. */
    XXH64_hash_t barred = XXH3_64bits(model->textless, model->n_textless * sizeof *model->textless);
    snprintf(text + FINGERPRINT_BYTES + 480, 64, "tp %u kv %u barred %016llx",
             worker->stepper.forward.n_ranks,
             kv_format_bytes(worker->stepper.forward.rank.model->facts.kv_format),
             (unsigned long long)barred);
    worker_fingerprint(welcome->numerics_fp, text, sizeof text);
}

/* What KV bytes on the wire mean: the model's and their format, however either side is cut. */
static void worker_fill_layout_fp(const struct worker *worker, const struct model *model,
                                  uint8_t out[FINGERPRINT_BYTES]) {
    struct {
        uint8_t model[FINGERPRINT_BYTES];
        struct kv_layout layout;
        uint32_t format;
    } whole = {.layout = worker_layout_of(worker)};
    whole.layout.tp = 0;
    whole.format = worker->stepper.forward.rank.model->facts.kv_format;
    memcpy(whole.model, model->config.fingerprint, FINGERPRINT_BYTES);
    worker_fingerprint(out, &whole, sizeof whole);
}

static enum status worker_open_step(struct worker *worker, struct model *model,
                                    struct error *error) {
    const struct config *config = worker->config;
    struct forward_bytes bytes;
    struct worker_sizes *sizes = &worker->sizes;
    char text[256];
    TRY(memory_sizes(config, model, sizes, &bytes, error));
    if (memory_cuts(config, sizes, &bytes, text, sizeof text))
        log_warn("memory cuts the context", "%s", text);
    uint32_t max_tokens =
        sizes->chunk_tokens > sizes->max_batch ? sizes->chunk_tokens : sizes->max_batch;
    struct step_options options = {
        .forward = {.model = model,
                    .backend = config->kernels,
                    .device = config->devices,
                    .no_graphs = !config->cuda_graphs,
                    .n_threads = config->threads,
                    .max_tokens = max_tokens,
                    .max_seqs = sizes->max_batch,
                    .context_max = sizes->context,
                    .n_blocks = sizes->n_blocks,
                    .step_us = config->step_us,
                    .n_ranks = config->tp,
                    .n_here = config->ranks_here,
                    .sums = (enum sums)config->sums,
                    .rank_listen = config->rank_listen,
                    .kv_format = forward_kv_format(model, config->kv_dtype)},
        .chunk_tokens = sizes->chunk_tokens,
        .max_slots = sizes->max_seqs,
        .no_steps_ahead = !config->steps_ahead,
        .tokenizer = &model->tokenizer};
    return step_open(&worker->stepper, &options, error);
}

/* The sink: the core's words to the wire. */

static enum status worker_sink_send(void *context, uint32_t link, const struct message *message) {
    struct worker *worker = context;
    return link_is_kv(link) ? kv_links_send(&worker->kv_links, link, message)
                            : bus_send(worker->links.control, link, message);
}

static enum status worker_sink_open_kv(void *context, const struct peer *peer, uint32_t *link) {
    struct worker *worker = context;
    return kv_links_open(&worker->kv_links, worker->stepper.receive.looked_ns, peer, link);
}

static void worker_sink_close_link(void *context, uint32_t link) {
    struct worker *worker = context;
    if (link_is_kv(link))
        kv_links_close(&worker->kv_links, link);
    else
        bus_close(worker->links.control, link);
}

static enum status worker_sink_push_chunk(void *context, uint32_t link, struct chunk *chunk,
                                          const uint32_t *blocks) {
    struct worker *worker = context;
    return kv_links_push(&worker->kv_links, link, chunk, blocks);
}

static enum status worker_sink_take_chunk(void *context, uint32_t link, const struct chunk *chunk,
                                          const uint32_t *blocks) {
    struct worker *worker = context;
    return kv_links_take(&worker->kv_links, link, chunk, blocks);
}

static enum status worker_sink_constrain(void *context, uint32_t slot, uint64_t serial,
                                         const struct submit *submit) {
    struct worker *worker = context;
    return constraint_open(&worker->stepper.constraint, slot, serial, submit);
}

static void worker_sink_note(void *context, const struct note *note) {
    (void)context;
    note_log(note, NULL);
}

static enum status worker_open_engine(struct worker *worker, const struct model *model,
                                      struct error *error) {
    const struct worker_sizes *sizes = &worker->sizes;
    const struct family_facts *facts = &worker->stepper.forward.rank.model->facts;
    struct engine_config config = {.incarnation = worker->incarnation,
                                   .seed = random_seed(),
                                   .role = worker->config->role,
                                   .n_blocks = sizes->n_blocks,
                                   .block_tokens = KV_BLOCK_TOKENS,
                                   .n_layers = facts->n_layers,
                                   .layer_groups = sizes->layer_groups,
                                   .block_bytes = (uint32_t)forward_block_bytes(facts),
                                   .chunk_tokens = sizes->chunk_tokens,
                                   .chunk_bytes = sizes->chunk_bytes,
                                   .max_batch = sizes->max_batch,
                                   .max_seqs = sizes->max_seqs,
                                   .context = sizes->context,
                                   .n_variants = facts->n_variants,
                                   .max_links = MAX_LINKS,
                                   .n_vocab = facts->n_vocab,
                                   .n_ends = model->config.n_stop_ids,
                                   .lease_ns = LEASE_NS,
                                   .router_lease_ns = ROUTER_LEASE_NS,
                                   .prefix_key = worker->links.prefix_key};
    _Static_assert(ENGINE_VARIANTS_MAX == FAMILY_VARIANTS_MAX, "every variant fits");
    memcpy(config.variant_limits, facts->variant_limits, sizeof config.variant_limits);
    _Static_assert(sizeof config.ends / sizeof *config.ends == CONFIG_STOPS_MAX,
                   "every end of a model fits");
    memcpy(config.ends, model->config.stop_ids, sizeof config.ends);
    snprintf(config.name, sizeof config.name, "%s", worker->config->name);
    worker_fill_welcome(worker, model, &config.welcome);
    snprintf(config.welcome.kv_endpoint, sizeof config.welcome.kv_endpoint, "%s",
             links_kv_endpoint(&worker->links));
    worker->sink = (struct engine_sink){.context = worker,
                                        .send = worker_sink_send,
                                        .open_kv = worker_sink_open_kv,
                                        .close_link = worker_sink_close_link,
                                        .push_chunk = worker_sink_push_chunk,
                                        .take_chunk = worker_sink_take_chunk,
                                        .note = worker_sink_note};
    if (constraint_fd(&worker->stepper.constraint) >= 0)
        worker->sink.constrain = worker_sink_constrain;
    enum status status = engine_new(&config, &worker->sink, &worker->engine);
    return status == STATUS_OK
               ? status
               : error_set(error, status, "the engine cannot be made: %s", status_name(status));
}

static enum status worker_open_kv_links(struct worker *worker, const struct model *model,
                                        struct error *error) {
    const struct forward *forward = &worker->stepper.forward;
    const struct family_facts *facts = &forward->rank.model->facts;
    struct transport_kv transport_kv = {.block_bytes = (uint32_t)forward_block_bytes(facts),
                                        .n_layers = facts->n_layers,
                                        .n_blocks = worker->sizes.n_blocks,
                                        .n_heads = facts->n_kv_heads_all,
                                        .n_ranks = forward->n_ranks};
    _Static_assert(sizeof transport_kv.ranks == sizeof forward->kv_of_ranks, "as many ranks");
    memcpy(transport_kv.ranks, forward->kv_of_ranks, sizeof forward->kv_of_ranks);
    if (forward->rank.kernels && !kernels_on_host(forward->rank.kernels)) {
        worker->kv_staging = malloc(2 * (size_t)transport_kv.block_bytes);
        if (!worker->kv_staging)
            return error_set(error, STATUS_NOMEM, "no memory for a KV block");
        transport_kv.kernels = forward->rank.kernels;
        transport_kv.staging = worker->kv_staging;
    }
    ASSERT(transport_kv_valid(&transport_kv)); /* families cut so, and followers were checked */
    struct kv_links_self self = {.incarnation = worker->incarnation,
                                 .place = {.host = worker->host, .pid = (uint32_t)getpid()}};
    snprintf(self.name, sizeof self.name, "%s", worker->config->name);
    worker_fill_layout_fp(worker, model, self.layout_fp);
    kv_links_init(&worker->kv_links, worker->links.kv, &self, worker->config->kv_transport,
                  worker->sizes.chunk_bytes, &transport_kv);
    return STATUS_OK;
}

static struct links_self worker_self_of(const struct worker *worker) {
    return (struct links_self){.name = worker->config->name,
                               .incarnation = worker->incarnation,
                               .role = worker->config->role};
}

/* Routers learn that we load; what loads is on this thread. */
static enum status worker_load(struct worker *worker, struct model *model, struct error *error) {
    struct links_self self = worker_self_of(worker);
    struct loading *loading;
    TRY(loading_begin(&worker->links, &self, &loading, error));
    enum status status = worker_open_step(worker, model, error);
    loading_end(loading);
    return status;
}

static enum status worker_open_links(struct worker *worker, struct error *error) {
    const struct config *config = worker->config;
    struct links_options options = {.endpoint = config->endpoint,
                                    .kv_endpoint = config->kv_endpoint,
                                    .keys = config->keys,
                                    .routers = config->routers.all,
                                    .n_routers = config->routers.n,
                                    .dns_server = config->dns_server};
    return links_open(&worker->links, &options, error);
}

static struct receive worker_receive_of(struct worker *worker) {
    return (struct receive){.links = &worker->links,
                            .kv_links = &worker->kv_links,
                            .engine = worker->engine,
                            .heartbeat = {.self = worker_self_of(worker),
                                          .figures = worker->admin ? &worker->figures : NULL,
                                          .watchdog_ns = notify_watchdog_ns(),
                                          .tells_status = notify_is_on()}};
}

static enum status worker_open_all(struct worker *worker, struct model **model,
                                   struct error *error) {
    const struct config *config = worker->config;
    struct model_options how = {.dummy = config->dummy};
    TRY(model_open(config->model, &how, model, error));
    model_log_remarks(*model);
    TRY(worker_open_links(worker, error));
    TRY(worker_load(worker, *model, error));
    figures_init(&worker->figures, clock_now_ns());
    TRY(admin_new(config->admin, config->name, (*model)->config.name,
                  forward_sums(&worker->stepper.forward), &worker->figures, &worker->admin, error));
    for (unsigned i = 0; i < STEP_STAGES; i++)
        worker->stepper.seconds[i] = admin_stage(worker->admin, i);
    worker->stepper.tokens = admin_step_tokens(worker->admin);
    TRY(worker_open_kv_links(worker, *model, error));
    TRY(worker_open_engine(worker, *model, error));
    worker->kv_links.engine = worker->engine;
    worker->stepper.receive = worker_receive_of(worker);
    emit_budget(worker->engine, &worker->stepper.budget);
    return STATUS_OK;
}

enum status worker_open(struct worker *worker, const struct config *config, struct error *error) {
    struct model *model = NULL;
    memset(worker, 0, sizeof *worker);
    worker->config = config;
    worker->incarnation = (clock_unix_ns() & ~0xffffull) | (random_seed() & 0xffff);
    worker->host = host_of_this_machine();
    worker->drain_until_ns = UINT64_MAX;
    prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul); /* waits end within a microsecond or so */
    enum status status = worker_open_all(worker, &model, error);
    model_close(model); /* the weights are packed: the file is not needed any more */
    if (status != STATUS_OK)
        worker_close(worker);
    return status;
}

void worker_close(struct worker *worker) {
    admin_free(worker->admin);
    figures_fini(&worker->figures);
    kv_links_fini(&worker->kv_links);
    links_close(&worker->links);
    engine_free(worker->engine);
    step_close(&worker->stepper);
    free(worker->kv_staging);
    memset(worker, 0, sizeof *worker);
}

static void worker_start_drain(struct worker *worker) {
    uint64_t now_ns = clock_now_ns();
    worker->stepper.receive.heartbeat.draining = true;
    worker->drain_until_ns = now_ns + worker->config->drain_ns;
    notify_send("STOPPING=1");
    notify_extend((unsigned)(worker->config->drain_ns / NS_PER_S) + DRAIN_EXTRA_S);
    log_info("draining", "limit_ms=%llu",
             (unsigned long long)(worker->config->drain_ns / NS_PER_MS));
    engine_drain(worker->engine, now_ns);
}

/* Its requests are replayed by their routers, on the other one if need be. */
static enum status worker_end_outlived(const struct worker *worker, const struct reset *other,
                                       struct error *error) {
    notify_send("STOPPING=1");
    return error_set(error, STATUS_EXISTS,
                     "name: another live worker is called `%s` (endpoint %s, incarnation %016llx): "
                     "each worker needs a name of its own",
                     worker->config->name, other->endpoint, (unsigned long long)other->incarnation);
}

enum status worker_run(struct worker *worker, const atomic_uint *stop, int wake_fd,
                       struct error *error) {
    const bool *draining = &worker->stepper.receive.heartbeat.draining;
    const int wake_fds[] = {wake_fd, constraint_fd(&worker->stepper.constraint)};
    for (;;) {
        bool worked = step_run(&worker->stepper);
        bool ends = atomic_load(stop) > 0 || engine_is_ending(worker->engine);
        if (ends && !*draining)
            worker_start_drain(worker);
        if (*draining && (engine_idle(worker->engine) || clock_now_ns() >= worker->drain_until_ns))
            return STATUS_OK;
        const struct reset *other = *draining ? NULL : engine_outlived(worker->engine);
        if (other)
            return worker_end_outlived(worker, other, error);
        if (!worked)
            receive_wait(&worker->stepper.receive, wake_fds, worker->drain_until_ns);
    }
}
