#include "tools/bench/counter.h"

#include "model/model.h"
#include "model/text/tokenizer/tokenizer.h"
#include "tools/lib/http_fetch.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Who counts. The server is asked for its /tokenize first, in each shape that servers take. */
enum way { WAY_TOKENIZER, WAY_PROMPT, WAY_CONTENT, WAY_USAGE, WAY_NOTHING };

static const struct {
    const char *name;
    uint32_t budget;
} ways[] = {
    [WAY_TOKENIZER] = {"tokenizer", 4096}, [WAY_PROMPT] = {"/tokenize", 512},
    [WAY_CONTENT] = {"/tokenize", 512},    [WAY_USAGE] = {"usage", 64},
    [WAY_NOTHING] = {"nothing", 4096},
};

struct counter {
    struct counter_spec spec;
    enum way way;
    bool is_sure;                      /* the way has counted a text: others are not tried */
    struct tokenizer *tokenizer;       /* owned; or NULL */
    struct tokenizer_scratch *scratch; /* owned; or NULL */
    struct ids ids;
};

enum status counter_new(const struct counter_spec *spec, struct counter **counter,
                        struct error *error) {
    struct counter *made = calloc(1, sizeof *made);
    if (!made)
        return error_set(error, STATUS_NOMEM, "out of memory");
    made->spec = *spec;
    made->spec.form.stream = false;
    made->way = spec->tokenizer ? WAY_TOKENIZER : WAY_PROMPT;
    ids_init(&made->ids, 0);
    if (spec->tokenizer) {
        enum status status = model_open_tokenizer(spec->tokenizer, &made->tokenizer, error);
        if (status == STATUS_OK && !(made->scratch = tokenizer_scratch_new()))
            status = error_set(error, STATUS_NOMEM, "out of memory");
        if (status != STATUS_OK) {
            counter_free(made);
            return status;
        }
    }
    *counter = made;
    return STATUS_OK;
}

void counter_free(struct counter *counter) {
    if (!counter)
        return;
    tokenizer_scratch_free(counter->scratch);
    tokenizer_close(counter->tokenizer);
    ids_fini(&counter->ids);
    free(counter);
}

static bool bench_count_ids(struct counter *counter, struct span text, uint32_t *n_tokens) {
    struct error error;
    ids_clear(&counter->ids);
    if (tokenizer_encode(counter->tokenizer, counter->scratch, text, TOKENIZER_PLAIN, &counter->ids,
                         &error) != STATUS_OK)
        return false;
    *n_tokens = (uint32_t)counter->ids.n;
    return *n_tokens > 0;
}

/* The answer to a body as JSON, which the caller gives back; NULL unless it came with status 200. */
static json_t *bench_counter_ask_server(struct counter *counter, const char *path,
                                        struct buf *body) {
    struct error error;
    int code = 0;
    json_t *root = NULL;
    struct http_ask ask = {
        .method = "POST", .path = path, .api_key = counter->spec.api_key, .body = body->data};
    if (buf_status(body) == STATUS_OK &&
        http_fetch_json(counter->spec.url, &ask, counter->spec.timeout_s, &code, &root, &error) ==
            STATUS_OK &&
        code == 200)
        return root;
    json_decref(root);
    return NULL;
}

/* {"count": N} of vLLM and ours; {"tokens": [...]} of llama.cpp. */
static bool bench_count_tokenize(struct counter *counter, const char *member, struct span text,
                                 uint32_t *n_tokens) {
    struct buf body;
    buf_init(&body, 0);
    buf_puts(&body, "{\"model\":");
    json_text(&body, counter->spec.form.model, strlen(counter->spec.form.model));
    buf_printf(&body, ",\"%s\":", member);
    json_text(&body, text.bytes, text.n);
    buf_putc(&body, '}');
    json_t *root = bench_counter_ask_server(counter, "/tokenize", &body);
    json_int_t n = json_integer_value(json_object_get(root, "count"));
    if (n <= 0)
        n = (json_int_t)json_array_size(json_object_get(root, "tokens"));
    json_decref(root);
    buf_fini(&body);
    if (n <= 0 || n > UINT32_MAX)
        return false;
    *n_tokens = (uint32_t)n;
    return true;
}

bool counter_prompt(struct counter *counter, struct span text, uint32_t *n_tokens) {
    struct buf prompt, body;
    buf_init(&prompt, 0);
    buf_init(&body, 0);
    json_text(&prompt, text.bytes, text.n);
    if (buf_status(&prompt) == STATUS_OK)
        workload_body_around(&counter->spec.form, prompt.data, prompt.n, 1, &body);
    json_t *root = bench_counter_ask_server(counter, ask_path(&counter->spec.form), &body);
    json_int_t n =
        json_integer_value(json_object_get(json_object_get(root, "usage"), "prompt_tokens"));
    json_decref(root);
    buf_fini(&prompt);
    buf_fini(&body);
    if (n <= 0 || n > UINT32_MAX)
        return false;
    *n_tokens = (uint32_t)n;
    return true;
}

static bool bench_count_by(struct counter *counter, struct span text, uint32_t *n_tokens) {
    switch (counter->way) {
    case WAY_TOKENIZER:
        return bench_count_ids(counter, text, n_tokens);
    case WAY_PROMPT:
        return bench_count_tokenize(counter, "prompt", text, n_tokens);
    case WAY_CONTENT:
        return bench_count_tokenize(counter, "content", text, n_tokens);
    case WAY_USAGE:
        return counter_prompt(counter, text, n_tokens);
    case WAY_NOTHING:
        break;
    }
    return false;
}

bool counter_text(struct counter *counter, struct span text, uint32_t *n_tokens) {
    for (;;) {
        bool is_counted = bench_count_by(counter, text, n_tokens);
        counter->is_sure |= is_counted;
        if (is_counted || counter->is_sure || counter->way == WAY_NOTHING ||
            counter->way == WAY_TOKENIZER)
            return is_counted;
        counter->way++;
    }
}

const char *counter_name(const struct counter *counter) {
    return ways[counter->way].name;
}

uint32_t counter_budget(const struct counter *counter) {
    return ways[counter->way].budget;
}
