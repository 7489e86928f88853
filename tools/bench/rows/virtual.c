#include "tools/bench/rows/virtual.h"

struct virtual_client {
    struct cell *cell;
    struct level *level;
    uint32_t n_routers;
    uint64_t n_events;
    enum status status; /* of events that came inside the cell's calls */
};

static void bench_virtual_take(struct virtual_client *client, const struct event *event) {
    enum status status = level_event(client->level, event);
    client->status = client->status == STATUS_OK ? status : client->status;
    client->n_events++;
}

static void bench_virtual_on_tokens(void *context, uint32_t request, uint64_t now_ns,
                                    uint32_t n_tokens) {
    struct event event = {
        .kind = EVENT_CHUNK, .request = request, .at_ns = now_ns, .chunk = CHUNK_TEXT};
    for (uint32_t i = 0; i < n_tokens; i++)
        bench_virtual_take(context, &event);
}

static void bench_virtual_on_end(void *context, uint32_t request, uint64_t now_ns,
                                 const struct cell_end *end) {
    struct virtual_client *client = context;
    struct event event = {
        .request = request, .at_ns = now_ns, .http_status = end->busy ? 503 : 200};
    if (end->done) {
        event.kind = EVENT_CHUNK;
        event.chunk = CHUNK_BARE;
        event.finish = FINISH_LENGTH;
        bench_virtual_take(client, &event);
        event.kind = EVENT_USAGE;
        event.n_prompt = client->level->records[request].ask.n_prompt;
        event.n_output = end->n_output;
        event.n_cached = end->n_cached;
        bench_virtual_take(client, &event);
    }
    event.kind = EVENT_END;
    event.fault = end->done ? FAULT_NONE : end->busy ? FAULT_STATUS : FAULT_CUT;
    bench_virtual_take(client, &event);
}

static enum status bench_virtual_send(struct virtual_client *client, uint32_t i) {
    const struct ask *ask = &client->level->records[i].ask;
    struct cell_ask what = {ask->n_prompt, ask->n_output, ask->serial};
    bench_virtual_take(
        client,
        &(struct event){.kind = EVENT_SENT, .request = i, .at_ns = cell_now_ns(client->cell)});
    TRY(cell_request(client->cell, i % client->n_routers, i, &what));
    return client->status;
}

/* Moves the clock until something is there for the client, or it wants to be asked again. */
static void bench_virtual_wait_for(struct virtual_client *client, uint64_t at_ns) {
    uint64_t n_before = client->n_events;
    while (client->n_events == n_before && cell_now_ns(client->cell) < at_ns)
        cell_run(client->cell, at_ns);
}

static enum status bench_virtual_run_level(struct virtual_client *client) {
    struct action action;
    for (;;) {
        TRY(level_next(client->level, cell_now_ns(client->cell), &action));
        if (action.kind == ACTION_OVER)
            return client->status;
        if (action.kind == ACTION_SEND)
            TRY(bench_virtual_send(client, action.request));
        else if (action.kind == ACTION_CANCEL)
            cell_cancel(client->cell, action.request);
        else if (action.kind == ACTION_WAIT)
            bench_virtual_wait_for(client, action.at_ns);
    }
}

enum status virtual_run(const struct cell_spec *spec, const struct level_spec *what,
                        struct level *level, struct cell_counts *counts) {
    struct virtual_client client = {.level = level, .n_routers = spec->n_routers};
    struct cell_spec own = *spec;
    own.user = (struct cell_user){
        .context = &client, .tokens = bench_virtual_on_tokens, .end = bench_virtual_on_end};
    TRY(cell_new(&own, &client.cell));
    enum status status = level_begin(level, what, cell_now_ns(client.cell));
    if (status == STATUS_OK)
        status = bench_virtual_run_level(&client);
    if (counts)
        cell_counts(client.cell, counts);
    cell_free(client.cell);
    if (status != STATUS_OK)
        level_fini(level);
    return status;
}
