#include "tests/gpu/rates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef TANDEM_EMU
extern const struct device_kind device_emu;
extern const struct rate_kernels rate_kernels_emu;
#endif
#ifdef TANDEM_CUDA
extern const struct device_kind device_cuda;
extern const struct rate_kernels rate_kernels_cuda;
#endif

static const struct rate_member members[] = {
#ifdef TANDEM_EMU
    {"cuda-emu", &device_emu, &rate_kernels_emu},
#endif
#ifdef TANDEM_CUDA
    {"cuda", &device_cuda, &rate_kernels_cuda},
#endif
    {0}};

const struct rate_member *rates_find(const char *name) {
    for (const struct rate_member *member = members; member->name; member++)
        if (strcmp(member->name, name) == 0)
            return member;
    return NULL;
}

/* How much is done for a figure: on a GPU some milliseconds' work. */
struct effort {
    size_t n_bytes; /* read, and copied */
    uint32_t n_turns;
    uint32_t n_blocks; /* of products, for a multiprocessor */
    uint32_t n_nodes;
    int n_times;
};
static const struct effort real = {(size_t)1 << 30, 20000, 4, 400, 9};
static const struct effort tiny = {(size_t)RATE_STEP * 2, 2, 1, 4, 1};

struct meter {
    const struct rate_member *member;
    const struct effort *effort;
    struct device *device;
    struct device_stream *stream;
    struct device_event *begin;
    struct device_event *end;
    char *from; /* effort->n_bytes, as `to` */
    char *to;
    uint32_t n_sms;
};

_Noreturn static void give_up(const char *why) {
    fprintf(stderr, "gpu_times: %s\n", why);
    exit(EXIT_FAILURE);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of several, after two that bring the clocks up. */
static double seconds_of(struct meter *meter,
                         void (*put)(struct meter *meter, struct device_graph *graph),
                         struct device_graph *graph) {
    const struct device_kind *kind = meter->member->kind;
    double seconds[16];
    int n = meter->effort->n_times;
    for (int i = -2; i < n; i++) {
        kind->event_record(meter->begin, meter->stream);
        put(meter, graph);
        kind->event_record(meter->end, meter->stream);
        if (kind->wait(meter->stream) != STATUS_OK)
            give_up(kind->failure(meter->device));
        if (i >= 0)
            seconds[i] = (double)kind->event_ms(meter->begin, meter->end) * 1e-3;
    }
    qsort(seconds, (size_t)n, sizeof *seconds, by_value);
    return seconds[n / 2];
}

static void put_read(struct meter *meter, struct device_graph *graph) {
    (void)graph;
    meter->member->kernels->read(meter->stream, (uint32_t *)meter->to, meter->from,
                                 meter->effort->n_bytes, meter->n_sms);
}

static void put_copy(struct meter *meter, struct device_graph *graph) {
    (void)graph;
    meter->member->kind->copy(meter->stream, meter->to, meter->from, meter->effort->n_bytes);
}

static void put_products(struct meter *meter, struct device_graph *graph) {
    (void)graph;
    meter->member->kernels->multiply(meter->stream, (float *)meter->to, meter->effort->n_turns,
                                     meter->effort->n_blocks * meter->n_sms);
}

static void put_graph(struct meter *meter, struct device_graph *graph) {
    meter->member->kind->graph_launch(graph, meter->stream);
}

static double graph_seconds(struct meter *meter, uint32_t n_nodes, bool ahead) {
    const struct device_kind *kind = meter->member->kind;
    kind->graph_begin(meter->stream);
    for (uint32_t i = 0; i < n_nodes; i++)
        meter->member->kernels->nothing(meter->stream, ahead);
    struct device_graph *graph = kind->graph_end(meter->stream);
    if (!graph)
        give_up("no graph of empty kernels");
    double seconds = seconds_of(meter, put_graph, graph);
    kind->graph_free(graph);
    return seconds;
}

/* What one more node costs. */
static double node_seconds(struct meter *meter, bool ahead) {
    uint32_t n = meter->effort->n_nodes;
    return (graph_seconds(meter, 2 * n, ahead) - graph_seconds(meter, n, ahead)) / n;
}

static void open_meter(struct meter *meter, struct rates *rates) {
    const struct device_kind *kind = meter->member->kind;
    struct device_facts facts;
    struct error error = {0};
    if (kind->open(0, &meter->device, &error) != STATUS_OK)
        give_up(error.text);
    kind->use(meter->device);
    kind->facts(meter->device, &facts);
    snprintf(rates->device, sizeof rates->device, "%s", facts.name);
    rates->n_sms = meter->n_sms = facts.n_sms;
    rates->capability = facts.capability;
    meter->stream = kind->stream_make(meter->device);
    meter->begin = kind->event_make(meter->device);
    meter->end = kind->event_make(meter->device);
    meter->from = kind->alloc(meter->device, meter->effort->n_bytes);
    meter->to = kind->alloc(meter->device, meter->effort->n_bytes);
    if (!meter->stream || !meter->begin || !meter->end || !meter->from || !meter->to)
        give_up("no memory on the device");
}

static void close_meter(struct meter *meter) {
    const struct device_kind *kind = meter->member->kind;
    kind->dealloc(meter->device, meter->from);
    kind->dealloc(meter->device, meter->to);
    kind->event_free(meter->begin);
    kind->event_free(meter->end);
    kind->stream_free(meter->stream);
    kind->close(meter->device);
}

/* Zeros would be read faster than anything else where memory compresses them: numbers, copied to double what there is. */
static void fill_with_numbers(struct meter *meter) {
    enum { n = RATE_STEP / sizeof(uint32_t) };
    const struct device_kind *kind = meter->member->kind;
    uint32_t *words = kind->pinned_alloc(meter->device, RATE_STEP), state = 1;
    if (!words)
        give_up("no pinned memory");
    for (uint32_t i = 0; i < n; i++)
        words[i] = state = state * 1664525u + 1013904223u;
    kind->copy_in(meter->stream, meter->from, words, RATE_STEP);
    for (size_t done = RATE_STEP; done < meter->effort->n_bytes; done *= 2)
        kind->copy(meter->stream, meter->from + done, meter->from, done);
    if (kind->wait(meter->stream) != STATUS_OK)
        give_up(kind->failure(meter->device));
    kind->pinned_free(meter->device, words);
}

void rates_measure(const struct rate_member *member, bool emulated, struct rates *rates) {
    struct meter meter = {.member = member, .effort = emulated ? &tiny : &real};
    const struct effort *effort = meter.effort;
    *rates = (struct rates){0};
    open_meter(&meter, rates);
    fill_with_numbers(&meter);
    double n_products =
        (double)effort->n_turns * RATE_MMA * effort->n_blocks * meter.n_sms * RATE_WARPS;
    rates->read_bytes_s = (double)effort->n_bytes / seconds_of(&meter, put_read, NULL);
    rates->copy_bytes_s = 2.0 * (double)effort->n_bytes / seconds_of(&meter, put_copy, NULL);
    rates->mma_ops_s = n_products * 2 * 16 * 8 * 16 / seconds_of(&meter, put_products, NULL);
    rates->node_s = node_seconds(&meter, false);
    rates->node_ahead_s = node_seconds(&meter, true);
    close_meter(&meter);
}
