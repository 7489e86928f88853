/* kernels/cuda/graph.c: steps that decode, launched as one graph each: hundreds of launches would take the host longer
 * than some of them take the GPU.
 *
 * In such a step an operation's launches do not go into the stream at once. They are recorded until somebody
 * needs them there (cuda_graph_flush()), and what the last step of this shape has recorded decides: where the
 * record is another one, its launches go into the stream, one after the other; a record that comes for the
 * second time is captured as a graph; from then on that graph is launched. Records are compared as
 * bytes, with all addresses and sizes: memory that moved makes another record. So whatever a caller does between
 * step_begin() and step_end() is done as without graphs. A step that rehearses is captured at the first time, and nothing of it
 * goes into the stream but its marks. */
#include "kernels/cuda/graph.h"

#include "kernels/cuda/wait.h"
#include <stdlib.h>
#include <string.h>

/* A launch, or a mark, with its struct behind it. */
struct record {
    void (*run)(struct kernels_ctx *ctx, const void *what);
    size_t n_bytes; /* of the struct: a multiple of 8 */
};

static void put_mark(struct kernels_ctx *ctx, uint32_t number) {
    struct cuda_marks *marks = &ctx->marks;
    if (marks->n == MARKS_MAX) { /* more layers than models have */
        (void)cuda_wait(ctx, ctx->main.stream);
        marks->done = marks->numbers[(marks->first + MARKS_MAX - 1) % MARKS_MAX];
        marks->n = 0;
    }
    uint32_t at = (marks->first + marks->n++) % MARKS_MAX;
    marks->numbers[at] = number;
    ctx->kind->event_record(marks->events[at], ctx->main.stream);
}

static void run_mark(struct kernels_ctx *ctx, const void *what) {
    uint64_t number;
    memcpy(&number, what, sizeof number);
    put_mark(ctx, (uint32_t)number);
}

/* Launches of the records, in their order; within a graph there are no marks. */
static void run_records(struct kernels_ctx *ctx, const struct cuda_graph *graph, bool marks) {
    for (size_t at = 0; at < graph->n_bytes;) {
        struct record record;
        memcpy(&record, graph->records + at, sizeof record);
        at += sizeof record;
        if (marks || record.run != run_mark)
            record.run(ctx, graph->records + at);
        at += record.n_bytes;
    }
}

/* The next record is none of those that the graph was made of. */
static void graph_forget(struct kernels_ctx *ctx, struct cuda_graph *graph) {
    ctx->kind->graph_free(graph->graph);
    graph->graph = NULL;
    graph->refused = false;
}

static bool graph_has_room(struct cuda_graph *graph, size_t n_bytes) {
    if (n_bytes <= graph->n_room)
        return true;
    size_t n_room = 2 * n_bytes > 1 << 16 ? 2 * n_bytes : 1 << 16;
    unsigned char *records = realloc(graph->records, n_room);
    if (!records)
        return false;
    graph->records = records;
    graph->n_room = n_room;
    return true;
}

static bool is_next(const struct cuda_graph *graph, size_t at, const struct record *record,
                    const void *what) {
    const unsigned char *next = graph->records + at;
    return graph->n_bytes - at >= sizeof *record + record->n_bytes &&
           memcmp(next, record, sizeof *record) == 0 &&
           memcmp(next + sizeof *record, what, record->n_bytes) == 0;
}

static bool keeps_rounded(void (*run)(struct kernels_ctx *ctx, const void *what));

void cuda_record(struct kernels_ctx *ctx, void (*run)(struct kernels_ctx *ctx, const void *what),
                 const void *what, size_t n_bytes) {
    if (!keeps_rounded(run))
        ctx->rounded.x = NULL;
    struct cuda_graphs *graphs = &ctx->graphs;
    struct cuda_graph *graph = graphs->open;
    struct record record = {run, n_bytes};
    size_t n = sizeof record + n_bytes;
    if (graph && graphs->same && !is_next(graph, graphs->at, &record, what)) {
        graph_forget(ctx, graph);
        graphs->same = false;
    }
    if (graph && !graphs->same && !graph_has_room(graph, graphs->at + n)) {
        cuda_graph_flush(ctx);
        graph = NULL;
    }
    if (!graph) {
        if (!graphs->rehearses || run == run_mark)
            run(ctx, what);
        return;
    }
    if (!graphs->same) {
        memcpy(graph->records + graphs->at, &record, sizeof record);
        memcpy(graph->records + graphs->at + sizeof record, what, n_bytes);
    }
    graphs->at += n;
}

#define X(name, type)                                                                              \
    _Static_assert(sizeof(struct type) % 8 == 0, "records lie at multiples of 8");                 \
    static void run_##name(struct kernels_ctx *ctx, const void *what) {                            \
        ctx->gpu->name(ctx->main.stream, what);                                                    \
    }                                                                                              \
    void cuda_record_##name(struct kernels_ctx *ctx, const struct type *what) {                    \
        cuda_record(ctx, run_##name, what, sizeof *what);                                          \
    }
GPU_OPERATIONS(X)
#undef X

/* Whether a launch leaves the rounded rows, and the rows that they are of, as they are. */
static bool keeps_rounded(void (*run)(struct kernels_ctx *ctx, const void *what)) {
    return run == run_linear_tensor || run == run_linear_floats || run == run_moe_route ||
           run == run_moe_plan || run == run_mark;
}

_Static_assert(sizeof(struct rope) == 4 * sizeof(uint32_t) + 5 * sizeof(void *), "no padding");

void cuda_record_mark(struct kernels_ctx *ctx, uint32_t number) {
    uint64_t what = number;
    ctx->graphs.mark = number;
    cuda_record(ctx, run_mark, &what, sizeof what);
}

/* The launches of a step of this shape; in place of those that were not used for longest where there is no room. */
static struct cuda_graph *graph_find(struct kernels_ctx *ctx, const struct cuda_shape *shape) {
    struct cuda_graphs *graphs = &ctx->graphs;
    struct cuda_graph *oldest = &graphs->all[0];
    for (uint32_t i = 0; i < GRAPHS_MAX; i++) {
        struct cuda_graph *graph = &graphs->all[i];
        if (memcmp(&graph->shape, shape, sizeof *shape) == 0)
            return graph;
        oldest = graph->used < oldest->used ? graph : oldest;
    }
    graph_forget(ctx, oldest);
    oldest->n_bytes = 0;
    oldest->shape = *shape;
    return oldest;
}

void cuda_graph_open(struct kernels_ctx *ctx, const struct cuda_shape *shape) {
    struct cuda_graphs *graphs = &ctx->graphs;
    graphs->open = graph_find(ctx, shape);
    graphs->open->used = ++graphs->n_steps;
    graphs->at = 0;
    graphs->same = true;
    graphs->mark = 0;
}

/* What is refused in a rehearsal may be possible when it has been computed once. */
static void graph_capture(struct kernels_ctx *ctx, struct cuda_graph *graph) {
    ctx->kind->graph_begin(ctx->main.stream);
    run_records(ctx, graph, false);
    graph->graph = ctx->kind->graph_end(ctx->main.stream);
    graph->refused = !graph->graph && !ctx->graphs.rehearses;
}

/* The step's records go into the stream, as a graph where there is one. */
static void launch_records(struct kernels_ctx *ctx, const struct cuda_graph *graph) {
    if (!graph->graph) {
        run_records(ctx, graph, true);
        return;
    }
    ctx->kind->graph_launch(graph->graph, ctx->main.stream);
    if (ctx->graphs.mark > 0)
        put_mark(ctx, ctx->graphs.mark);
}

void cuda_graph_flush(struct kernels_ctx *ctx) {
    struct cuda_graphs *graphs = &ctx->graphs;
    struct cuda_graph *graph = graphs->open;
    ctx->rounded.x = NULL; /* anything may come to lie there */
    graphs->open = NULL;   /* what comes now goes into the stream at once */
    if (!graph || graphs->at == 0)
        return;
    bool repeats = true;
    if (!graphs->same || graphs->at < graph->n_bytes) {
        graph_forget(ctx, graph);
        graph->n_bytes = graphs->at;
        repeats = false;
    }
    if ((repeats || graphs->rehearses) && !graph->graph && !graph->refused)
        graph_capture(ctx, graph);
    if (!graphs->rehearses)
        launch_records(ctx, graph);
    else if (graphs->mark > 0)
        put_mark(ctx, graphs->mark);
}

void cuda_graphs_forget(struct kernels_ctx *ctx) {
    for (uint32_t i = 0; i < GRAPHS_MAX; i++) {
        graph_forget(ctx, &ctx->graphs.all[i]);
        ctx->graphs.all[i].n_bytes = 0;
    }
}

void cuda_graphs_close(struct kernels_ctx *ctx) {
    for (uint32_t i = 0; i < GRAPHS_MAX; i++) {
        ctx->kind->graph_free(ctx->graphs.all[i].graph);
        free(ctx->graphs.all[i].records);
    }
}
