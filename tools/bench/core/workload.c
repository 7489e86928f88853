#include "tools/bench/core/workload.h"

#include "base/random.h"
#include "tools/bench/core/schedule.h"

#include <string.h>

/* Tokens in front of a piece of text that make it unlike any other: eight words, 30^8 of them, where
 * a word is a token. */
#define NONCE_WORDS 8

void json_text(struct buf *out, const char *text, size_t n) {
    buf_putc(out, '"');
    size_t from = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        buf_append(out, text + from, i - from);
        buf_printf(out, "\\u%04x", c);
        from = i + 1;
    }
    buf_append(out, text + from, n - from);
    buf_putc(out, '"');
}

const char *ask_path(const struct ask_form *form) {
    if (form->native != NATIVE_NONE)
        return "/generate";
    return form->chat ? "/v1/chat/completions" : "/v1/completions";
}

/* Pieces from one drawn at random on, and from the first again behind the last, as long as they fit;
 * words for the rest. */
static void bench_prompt_put_pieces(const struct workload *workload, struct buf *out, size_t begin,
                                    struct random *random, uint32_t n_tokens) {
    uint32_t at = (uint32_t)random_below(random, workload->n_pieces);
    while (workload->pieces[at].n_tokens <= n_tokens) {
        const struct piece *piece = &workload->pieces[at];
        if (out->n > begin)
            buf_putc(out, ' ');
        buf_puts(out, piece->text);
        n_tokens -= piece->n_tokens;
        at = (at + 1) % workload->n_pieces;
    }
    (void)words_put(&workload->words, out, begin, random_next(random), n_tokens);
}

static void bench_prompt_put_ids(struct buf *out, size_t begin, uint64_t seed,
                                 uint32_t n_vocabulary, uint32_t n) {
    struct random random = {.state = seed};
    uint32_t low = n_vocabulary > 512 ? 256 : 0;
    uint32_t range = n_vocabulary > low ? n_vocabulary - low : 1;
    for (uint32_t i = 0; i < n; i++)
        buf_printf(out, "%s%u", out->n > begin ? "," : "",
                   low + (uint32_t)random_below(&random, range));
}

/* Words or ids: n_tokens of them by `seed`. Answers the tokens appended. */
static uint32_t bench_prompt_put_tokens(const struct workload *workload, struct buf *out,
                                        size_t begin, uint64_t seed, uint32_t n_tokens) {
    if (workload->source != SOURCE_IDS)
        return words_put(&workload->words, out, begin, seed, n_tokens);
    bench_prompt_put_ids(out, begin, seed, workload->n_vocabulary, n_tokens);
    return n_tokens;
}

/* The blocks of a trace's line, the last one cut. What a block could not hold is not made good in the
 * next: blocks are the same wherever they stand. Answers the tokens that are left. */
static uint32_t bench_prompt_put_blocks(const struct workload *workload,
                                        const struct trace_line *line, struct buf *out,
                                        size_t begin, uint32_t n_first, uint32_t n_tokens) {
    for (uint32_t i = 0; i < line->n_hash_ids && n_tokens > 0; i++) {
        uint32_t n = i == 0 ? TRACE_BLOCK_TOKENS - n_first : TRACE_BLOCK_TOKENS;
        n = n < n_tokens ? n : n_tokens;
        n_tokens -= bench_prompt_put_tokens(workload, out, begin,
                                            random_at(workload->seed, 2, line->hash_ids[i]), n);
    }
    return n_tokens;
}

static void bench_prompt_put_own(const struct workload *workload, struct buf *out, size_t begin,
                                 uint64_t serial, uint32_t n_tokens) {
    uint64_t seed = random_at(workload->seed, 1, serial);
    if (workload->source != SOURCE_TEXTS || workload->n_pieces == 0) {
        (void)bench_prompt_put_tokens(workload, out, begin, seed, n_tokens);
        return;
    }
    struct random random = {.state = seed};
    if (!workload->repeats) {
        uint32_t n = NONCE_WORDS * workload->words.cost[0];
        n = n < n_tokens ? n : n_tokens;
        n_tokens -= words_put(&workload->words, out, begin, random_next(&random), n);
    }
    bench_prompt_put_pieces(workload, out, begin, &random, n_tokens);
}

static void bench_put_prompt(const struct workload *workload, const struct ask *ask,
                             struct buf *out) {
    size_t begin = out->n;
    uint32_t n_first = 0;
    int64_t n_wanted = (int64_t)ask->n_prompt;
    const struct trace_line *line = workload->trace ? &workload->trace[ask->trace_line] : NULL;
    if (workload->source != SOURCE_IDS) {
        n_wanted -= workload->overhead;
        n_first = workload->words.cost[0];
        buf_puts(out, words_text(0));
    }
    uint32_t n_left = n_wanted > n_first ? (uint32_t)n_wanted - n_first : 0;
    if (line && line->n_hash_ids > 0) {
        n_left = bench_prompt_put_blocks(workload, line, out, begin, n_first, n_left);
    } else if (workload->n_shared > n_first) {
        uint32_t n_shared = workload->n_shared - n_first;
        n_shared = n_shared < n_left ? n_shared : n_left;
        n_left -= bench_prompt_put_tokens(workload, out, begin, random_at(workload->seed, 0, 0),
                                          n_shared);
    }
    bench_prompt_put_own(workload, out, begin, ask->serial, n_left);
}

void workload_prompt(const struct workload *workload, const struct ask *ask, struct buf *out) {
    if (workload->source != SOURCE_IDS) {
        bench_put_prompt(workload, ask, out);
        return;
    }
    buf_putc(out, '[');
    bench_put_prompt(workload, ask, out);
    buf_putc(out, ']');
}

/* To the letter what the published grids' program sent. */
static void bench_prompt_put_native(enum native native, const char *prompt, size_t n,
                                    uint32_t n_output, struct buf *out) {
    buf_puts(out, native == NATIVE_VLLM ? "{\"prompt\":" : "{\"inputs\":");
    buf_append(out, prompt, n);
    if (native == NATIVE_VLLM)
        buf_printf(out,
                   ",\"n\":1,\"best_of\":1,\"use_beam_search\":false,\"temperature\":1.0,"
                   "\"top_p\":1.0,\"max_tokens\":%u,\"ignore_eos\":true,\"stream\":false}",
                   n_output);
    else
        buf_printf(out,
                   ",\"parameters\":{\"best_of\":1,\"max_new_tokens\":%u,\"do_sample\":true,"
                   "\"details\":true}}",
                   n_output);
}

void workload_body_around(const struct ask_form *form, const char *prompt, size_t n,
                          uint32_t n_output, struct buf *out) {
    if (form->native != NATIVE_NONE) {
        bench_prompt_put_native(form->native, prompt, n, n_output, out);
        return;
    }
    buf_puts(out, "{\"model\":");
    json_text(out, form->model, strlen(form->model));
    buf_puts(out, form->chat ? ",\"messages\":[{\"role\":" : ",\"prompt\":");
    if (form->chat) {
        json_text(out, form->role, strlen(form->role));
        buf_puts(out, ",\"content\":");
    }
    buf_append(out, prompt, n);
    buf_printf(out, "%s,\"max_tokens\":%u%s%s%s}", form->chat ? "}]" : "", n_output,
               form->own_sampling ? "" : ",\"temperature\":0",
               form->ignore_eos ? ",\"ignore_eos\":true" : "",
               form->stream ? ",\"stream\":true,\"stream_options\":{\"include_usage\":true}" : "");
}

void workload_body(const struct workload *workload, const struct ask_form *form,
                   const struct ask *ask, struct buf *out) {
    struct buf prompt, json;
    buf_init(&prompt, 0);
    buf_init(&json, 0);
    workload_prompt(workload, ask, &prompt);
    if (workload->source != SOURCE_IDS)
        json_text(&json, prompt.data ? prompt.data : "", prompt.n);
    const struct buf *made = workload->source == SOURCE_IDS ? &prompt : &json;
    workload_body_around(form, made->data, made->n, ask->n_output, out);
    buf_fini(&prompt);
    buf_fini(&json);
}
