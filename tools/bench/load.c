#include "tools/bench/load.h"

#include "tools/bench/report.h"
#include "tools/lib/http_fetch.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/random.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Open-loop requests in flight at once; beyond it they go out late, and the table says so. */
#define STREAMS_MAX 4096

struct load {
    const struct load_options *options;
    struct loop *loop;
    struct stream *streams; /* owned (n_streams) */
    uint32_t n_streams;
    uint32_t n_started;
    uint32_t n_ended;
    uint64_t begin_ns;
    struct loop_timer *due;      /* constant rate: the next send */
    struct loop_timer *progress; /* owned */
    struct report report;
    struct random random;
    char *model; /* owned */
    double words_per_token;
    double words_overhead; /* tokens of the chat format around the words */
};

/* Common words of one token each in most vocabularies; a random order makes prompts differ, so that
 * no prefix cache answers for the model. */
static const char *const words[] = {" the",   " of",     " and",   " time",  " water", " people",
                                    " way",   " day",    " man",   " thing", " long",  " world",
                                    " great", " life",   " hand",  " part",  " child", " eye",
                                    " place", " work",   " week",  " case",  " point", " house",
                                    " group", " number", " night", " story", " fact",  " month"};

static char *make_body(struct load *load, uint32_t n_words, size_t *n) {
    struct buf prompt;
    buf_init(&prompt, 0);
    for (uint32_t i = 0; i < n_words; i++) {
        const char *word = words[random_below(&load->random, sizeof words / sizeof *words)];
        buf_puts(&prompt, i == 0 ? word + 1 : word);
    }
    json_t *body =
        json_pack("{s:s, s:[{s:s, s:s}], s:i, s:i, s:b, s:b, s:{s:b}}", "model", load->model,
                  "messages", "role", "user", "content", prompt.data ? prompt.data : "",
                  "max_tokens", (int)load->options->max_tokens, "temperature", 0, "ignore_eos", 1,
                  "stream", 1, "stream_options", "include_usage", 1);
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    buf_fini(&prompt);
    *n = text ? strlen(text) : 0;
    return text;
}

static uint32_t words_wanted(const struct load *load) {
    double n = (load->options->prompt_tokens - load->words_overhead) * load->words_per_token;
    return n < 1 ? 1 : (uint32_t)(n + 0.5);
}

static void start(struct load *load, struct stream *stream, uint64_t due_ns) {
    size_t n = 0;
    char *body = make_body(load, words_wanted(load), &n);
    load->n_started++;
    ASSERT(body); /* out of memory in a benchmark: nothing sensible is left to measure */
    stream_start(stream, due_ns, load->options->api_key, body, n);
    free(body);
}

static void on_stream_end(struct stream *stream) {
    struct load *load = stream->owner;
    report_add(&load->report, &stream->result);
    load->n_ended++;
    if (load->n_ended == load->options->n_requests) {
        loop_stop(load->loop);
        return;
    }
    if (load->options->profile != LOAD_CONSTANT && load->n_started < load->options->n_requests)
        start(load, stream, clock_now_ns());
}

static uint64_t due_ns(const struct load *load, uint32_t i) {
    return load->begin_ns + (uint64_t)((double)i / load->options->rate * (double)NS_PER_S);
}

static void on_due(void *user) {
    struct load *load = user;
    uint64_t now_ns = clock_now_ns();
    uint32_t at = 0;
    while (load->n_started < load->options->n_requests && due_ns(load, load->n_started) <= now_ns) {
        while (at < load->n_streams && load->streams[at].busy)
            at++;
        if (at == load->n_streams)
            break; /* all busy: late, and counted as such */
        start(load, &load->streams[at], due_ns(load, load->n_started));
    }
    if (load->n_started < load->options->n_requests) {
        uint64_t next_ns = due_ns(load, load->n_started);
        loop_timer_at(load->due, next_ns > now_ns ? next_ns : now_ns + NS_PER_MS);
    }
}

static void on_progress(void *user) {
    struct load *load = user;
    bool terminal = isatty(STDERR_FILENO);
    double seconds = (double)(clock_now_ns() - load->begin_ns) / (double)NS_PER_S;
    fprintf(stderr, "%s%u/%u requests, %u running, %.0f tokens/s%s", terminal ? "\r" : "",
            load->n_ended, load->options->n_requests, load->n_started - load->n_ended,
            seconds > 0 ? (double)load->report.n_tokens / seconds : 0, terminal ? "\033[K" : "\n");
    loop_timer_after(load->progress, terminal ? NS_PER_S / 2 : 5 * NS_PER_S);
}

static enum status find_model(struct load *load, const struct http_url *url, struct error *error) {
    struct buf body;
    int code = 0;
    buf_init(&body, 1u << 20);
    enum status status =
        http_fetch(url, "GET", "/v1/models", load->options->api_key, NULL, &code, &body, error);
    if (status == STATUS_OK) {
        json_t *root = json_loadb(body.data ? body.data : "", body.n, 0, NULL);
        const char *id = json_string_value(
            json_object_get(json_array_get(json_object_get(root, "data"), 0), "id"));
        load->model = id ? strdup(id) : NULL;
        json_decref(root);
        if (!load->model)
            status = error_set(error, STATUS_INVALID, "%s/v1/models names no model (HTTP %d)",
                               load->options->target, code);
    }
    buf_fini(&body);
    return status;
}

/* Prompt tokens of a request with n words, by the server's own count; 0 when it gives none. */
static double count_tokens(struct load *load, const struct http_url *url, uint32_t n_words) {
    struct buf answer;
    struct error error;
    int code = 0;
    size_t n = 0;
    char *body = make_body(load, n_words, &n);
    json_t *request = body ? json_loadb(body, n, 0, NULL) : NULL;
    free(body);
    json_object_set_new(request, "stream", json_false());
    json_object_del(request, "stream_options");
    json_object_set_new(request, "max_tokens", json_integer(1));
    char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
    json_decref(request);
    buf_init(&answer, 1u << 20);
    double tokens = 0;
    if (text && http_fetch(url, "POST", "/v1/chat/completions", load->options->api_key, text, &code,
                           &answer, &error) == STATUS_OK) {
        json_t *root = json_loadb(answer.data ? answer.data : "", answer.n, 0, NULL);
        tokens = (double)json_integer_value(
            json_object_get(json_object_get(root, "usage"), "prompt_tokens"));
        json_decref(root);
    }
    free(text);
    buf_fini(&answer);
    return tokens;
}

/* Two requests tell how many tokens a word and the chat format cost on this server. */
static void calibrate(struct load *load, const struct http_url *url) {
    double few = count_tokens(load, url, 16);
    double many = count_tokens(load, url, 48);
    load->words_per_token = 1;
    load->words_overhead = 0;
    if (many > few && few > 0) {
        load->words_per_token = 32 / (many - few);
        load->words_overhead = few - 16 / load->words_per_token;
    }
}

static void print_table(struct load *load) {
    static const char *const names[] = {"synchronous", "concurrent", "constant"};
    char title[512];
    const struct load_options *options = load->options;
    if (options->profile == LOAD_CONSTANT)
        snprintf(title, sizeof title, "%s at %.2f requests/s: %s, model %s",
                 names[options->profile], options->rate, options->target, load->model);
    else
        snprintf(title, sizeof title, "%s, %u at once: %s, model %s", names[options->profile],
                 load->n_streams, options->target, load->model);
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
    report_print(&load->report, title, stdout);
}

static enum status run(struct load *load, const struct http_url *url, struct error *error) {
    const struct load_options *options = load->options;
    TRY(find_model(load, url, error));
    calibrate(load, url);
    load->n_streams = options->profile == LOAD_SYNCHRONOUS  ? 1
                      : options->profile == LOAD_CONCURRENT ? options->concurrency
                                                            : STREAMS_MAX;
    if (load->n_streams > options->n_requests)
        load->n_streams = options->n_requests;
    load->streams = calloc(load->n_streams, sizeof *load->streams);
    if (!load->streams)
        return error_set(error, STATUS_NOMEM, "out of memory for %u streams", load->n_streams);
    TRY(report_init(&load->report, options->n_requests));
    for (uint32_t i = 0; i < load->n_streams; i++)
        TRY(stream_init(&load->streams[i], load->loop, url, on_stream_end, load));
    TRY(loop_timer_new(load->loop, on_due, load, &load->due));
    TRY(loop_timer_new(load->loop, on_progress, load, &load->progress));
    load->begin_ns = clock_now_ns();
    loop_timer_after(load->progress, NS_PER_S / 2);
    if (options->profile == LOAD_CONSTANT)
        on_due(load);
    else
        for (uint32_t i = 0; i < load->n_streams; i++)
            start(load, &load->streams[i], load->begin_ns);
    loop_run(load->loop);
    print_table(load);
    if (load->report.n_ok == 0)
        return error_set(error, STATUS_CORRUPT, "every request failed: %s",
                         load->report.first_error.text);
    return STATUS_OK;
}

enum status load_run(const struct load_options *options, struct error *error) {
    struct http_url url = {0};
    struct load load = {.options = options, .random = {.state = random_seed()}};
    TRY(http_url_open(options->target, &options->trust, &url, error));
    enum status status = loop_new(&load.loop);
    if (status == STATUS_OK)
        status = run(&load, &url, error);
    if (load.streams)
        for (uint32_t i = 0; i < load.n_streams; i++)
            stream_fini(&load.streams[i]);
    free(load.streams);
    loop_timer_free(load.due);
    loop_timer_free(load.progress);
    report_fini(&load.report);
    free(load.model);
    http_url_close(&url);
    loop_free(load.loop);
    return status;
}
