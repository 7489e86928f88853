/* tests/support/hash_check.c: keeps many streams of the `hash` oracle running and checks every
 * token.
 *
 * usage: hash_check --target URL [--streams N] [--tokens N] [--prompt N] [--seconds S] [--total N]
 * [--seed N]
 *
 * Each stream asks /v1/completions with random token ids and return_token_ids, computes the right
 * answer itself (design: mix(e ^ (t + 1)) entries folded in order) and compares index by index. New
 * streams start until --seconds are over or --total were started; those running then finish. Prints
 * one line of JSON and exits 0 only when nothing was lost, repeated, wrong, refused or broken. */
#include "base/client/http_client.h"
#include "tools/lib/sse_client.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/random.h"

#include <argp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct totals {
    uint64_t n_started, n_complete, n_refused, n_broken;
    uint64_t n_tokens, n_wrong, n_missing, n_extra;
    uint64_t stall_ns_max;
    uint64_t stall_ns_first_max;
    char first_problem[512];
};

struct check {
    const char *target;
    unsigned n_streams, n_tokens, n_prompt, seconds, total;
    uint64_t seed;
    struct http_url url;
    struct loop *loop;
    struct random random;
    uint64_t end_ns;
    unsigned n_busy;
    struct totals totals;
    struct buf stalls; /* float milliseconds, every gap */
};

struct stream {
    struct check *check;
    struct http_client *client;
    struct sse_client sse;
    uint64_t entry; /* e of the last token */
    uint64_t fold;  /* s over all entries */
    unsigned n_got;
    unsigned n_bad;
    bool done_mark, error_event, finished;
    uint64_t heard_ns;
    struct buf problem;
};

static void take(struct stream *stream, uint32_t token) {
    stream->entry = mix64(stream->entry ^ (token + 1ull));
    stream->fold = mix64(stream->fold ^ stream->entry);
}

static void compare(struct stream *stream, uint32_t token) {
    uint32_t expected = 256 + (uint32_t)(stream->fold % 65280);
    if (stream->n_got >= stream->check->n_tokens)
        stream->check->totals.n_extra++;
    else if (token != expected)
        stream->n_bad++;
    stream->n_got++;
    stream->check->totals.n_tokens++;
    take(stream, expected); /* one wrong token is one wrong token */
}

static void note_gap(struct stream *stream) {
    uint64_t now_ns = clock_now_ns();
    uint64_t gap_ns = now_ns - stream->heard_ns;
    struct totals *totals = &stream->check->totals;
    uint64_t *max = stream->n_got ? &totals->stall_ns_max : &totals->stall_ns_first_max;
    float ms = (float)gap_ns / 1e6f;
    if (gap_ns > *max)
        *max = gap_ns;
    buf_append(&stream->check->stalls, &ms, sizeof ms);
    stream->heard_ns = now_ns;
}

static void look_at(struct stream *stream, const char *data) {
    if (strcmp(data, "[DONE]") == 0) {
        stream->done_mark = true;
        return;
    }
    if (strstr(data, "\"error\":{")) {
        stream->error_event = true;
        buf_puts(&stream->problem, data);
        return;
    }
    const char *at = strstr(data, "\"token_ids\":[");
    if (at && strstr(data, "\"prompt_token_ids\":[") == at - 8)
        at = strstr(at + 13, "\"token_ids\":[");
    if (!at || at[13] == ']')
        return;
    note_gap(stream);
    for (at += 13; *at && *at != ']';) {
        char *end;
        unsigned long token = strtoul(at, &end, 10);
        if (end == at)
            break;
        compare(stream, (uint32_t)token);
        at = *end == ',' ? end + 1 : end;
    }
}

static void on_event(void *user, const char *data, size_t n) {
    struct buf text;
    buf_init(&text, 0);
    buf_append(&text, data, n);
    if (buf_status(&text) == STATUS_OK)
        look_at(user, text.data);
    buf_fini(&text);
}

static void on_body(void *user, const char *bytes, size_t n) {
    struct stream *stream = user;
    if (stream->problem.n < 300)
        buf_append(&stream->problem, bytes, n < 300 ? n : 300);
    stream->error_event |= sse_client_feed(&stream->sse, bytes, n) != STATUS_OK;
}

static void start(struct stream *stream);

static void on_end(void *user, enum status status, int http_status, const struct error *error) {
    struct stream *stream = user;
    struct check *check = stream->check;
    struct totals *totals = &check->totals;
    check->n_busy--;
    bool whole = status == STATUS_OK && http_status == 200 && stream->done_mark &&
                 !stream->error_event && stream->n_got == check->n_tokens;
    totals->n_wrong += stream->n_bad;
    if (whole)
        totals->n_complete++;
    else if (status == STATUS_OK && http_status != 200)
        totals->n_refused++;
    else
        totals->n_broken++;
    if (stream->n_got < check->n_tokens)
        totals->n_missing += check->n_tokens - stream->n_got;
    if ((!whole || stream->n_bad) && !totals->first_problem[0])
        snprintf(totals->first_problem, sizeof totals->first_problem,
                 "http=%d got=%u wrong=%u done=%d error=%d %s %.200s", http_status, stream->n_got,
                 stream->n_bad, stream->done_mark, stream->error_event, error ? error->text : "",
                 stream->problem.data ? stream->problem.data : "");
    bool more =
        clock_now_ns() < check->end_ns && (check->total == 0 || totals->n_started < check->total);
    if (more)
        start(stream);
    else if (check->n_busy == 0)
        loop_stop(check->loop);
}

static void start(struct stream *stream) {
    struct check *check = stream->check;
    struct buf body;
    unsigned n_prompt = 1 + (unsigned)random_below(&check->random, check->n_prompt);
    stream->entry = 0;
    stream->fold = 0;
    stream->n_got = 0;
    stream->n_bad = 0;
    stream->done_mark = stream->error_event = false;
    buf_clear(&stream->problem);
    buf_init(&body, 0);
    buf_puts(&body, "{\"prompt\":[");
    for (unsigned i = 0; i < n_prompt; i++) {
        uint32_t token = (uint32_t)random_below(&check->random, 65536);
        take(stream, token);
        buf_printf(&body, "%s%u", i ? "," : "", token);
    }
    buf_printf(&body,
               "],\"max_tokens\":%u,\"ignore_eos\":true,\"stream\":true,\"return_token_ids\":true,"
               "\"temperature\":%s}",
               check->n_tokens, random_below(&check->random, 2) ? "0" : "1");
    check->n_busy++;
    check->totals.n_started++;
    stream->heard_ns = clock_now_ns();
    sse_client_reset(&stream->sse);
    struct http_events events = {on_body, on_end, stream};
    struct http_ask ask = {"POST", "/v1/completions", .body = body.data, .n_body = body.n};
    http_client_start(stream->client, &ask, &events);
    buf_fini(&body);
}

static void on_term(void *user, unsigned number) {
    struct check *check = user;
    (void)number;
    check->end_ns = 0;
}

static const struct argp_option options[] = {
    {"target", 't', "URL", 0, "", 0}, {"streams", 'n', "N", 0, "", 0},
    {"tokens", 'k', "N", 0, "", 0},   {"prompt", 'p', "N", 0, "longest prompt", 0},
    {"seconds", 's', "S", 0, "", 0},  {"total", 'c', "N", 0, "", 0},
    {"seed", 'e', "N", 0, "", 0},     {0}};

static error_t parse(int key, char *text, struct argp_state *state) {
    struct check *check = state->input;
    unsigned value = text ? (unsigned)strtoul(text, NULL, 10) : 0;
    switch (key) {
    case 't':
        check->target = text;
        return 0;
    case 'n':
        check->n_streams = value;
        return 0;
    case 'k':
        check->n_tokens = value;
        return 0;
    case 'p':
        check->n_prompt = value;
        return 0;
    case 's':
        check->seconds = value;
        return 0;
    case 'c':
        check->total = value;
        return 0;
    case 'e':
        check->seed = value;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int by_size(const void *a, const void *b) {
    float x = *(const float *)a;
    float y = *(const float *)b;
    return (x > y) - (x < y);
}

static double stall_p99(struct check *check) {
    size_t n = check->stalls.n / sizeof(float);
    float *gaps = (float *)(void *)check->stalls.data;
    if (n == 0)
        return 0;
    qsort(gaps, n, sizeof *gaps, by_size);
    return (double)gaps[n - 1 - n / 100];
}

int main(int argc, char **argv) {
    static const struct argp argp = {options, parse, "", "", NULL, NULL, NULL};
    struct check check = {
        .n_streams = 64, .n_tokens = 256, .n_prompt = 300, .seconds = 10, .seed = 1};
    struct error error;
    argp_parse(&argp, argc, argv, 0, NULL, &check);
    if (!check.target || http_url_parse(check.target, &check.url, &error) != STATUS_OK ||
        check.n_streams == 0 || check.n_prompt == 0 || loop_new(&check.loop) != STATUS_OK) {
        fprintf(stderr, "usage: hash_check --target URL ...\n");
        return 2;
    }
    check.random.state = check.seed;
    buf_init(&check.stalls, 0);
    check.end_ns = clock_now_ns() + check.seconds * NS_PER_S;
    struct loop_watch *term = NULL;
    if (loop_signal_new(check.loop, SIGTERM, on_term, &check, &term) != STATUS_OK)
        return 2;
    struct stream *streams = calloc(check.n_streams, sizeof *streams);
    for (unsigned i = 0; streams && i < check.n_streams; i++) {
        streams[i].check = &check;
        sse_client_init(&streams[i].sse, on_event, &streams[i]);
        if (http_client_new(check.loop, &check.url, &streams[i].client) == STATUS_OK &&
            (check.total == 0 || i < check.total))
            start(&streams[i]);
    }
    loop_run(check.loop);
    const struct totals *t = &check.totals;
    bool good = t->n_complete == t->n_started && t->n_wrong + t->n_missing + t->n_extra == 0;
    printf("{\"started\":%lu,\"complete\":%lu,\"refused\":%lu,\"broken\":%lu,\"tokens\":%lu,"
           "\"wrong\":%lu,\"missing\":%lu,\"extra\":%lu,\"stall_ms_max\":%.1f,"
           "\"first_token_ms_max\":%.1f,\"stall_ms_p99\":%.1f}\n",
           t->n_started, t->n_complete, t->n_refused, t->n_broken, t->n_tokens, t->n_wrong,
           t->n_missing, t->n_extra, (double)t->stall_ns_max / 1e6,
           (double)t->stall_ns_first_max / 1e6, stall_p99(&check));
    if (t->first_problem[0])
        fprintf(stderr, "first problem: %s\n", t->first_problem);
    for (unsigned i = 0; streams && i < check.n_streams; i++) {
        http_client_free(streams[i].client);
        sse_client_fini(&streams[i].sse);
        buf_fini(&streams[i].problem);
    }
    free(streams);
    buf_fini(&check.stalls);
    loop_watch_free(term);
    loop_free(check.loop);
    return good ? 0 : 1;
}
