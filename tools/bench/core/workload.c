#include "tools/bench/core/workload.h"

#include "base/random.h"

#include <string.h>

/* Words in front of a piece of text that make it unlike any other: 30^8 of them. */
#define NONCE_WORDS 8

/* Common words of one token each in most vocabularies; a random order makes prompts differ, so that
 * no prefix cache answers for the model. */
static const char *const words[] = {
    "the",  "of",    "and",   "time",  "water", "people", "way",   "day",   "man",   "thing",
    "long", "world", "great", "life",  "hand",  "part",   "child", "eye",   "place", "work",
    "week", "case",  "point", "house", "group", "number", "night", "story", "fact",  "month"};

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
    return form->chat ? "/v1/chat/completions" : "/v1/completions";
}

static void put_word(struct buf *out, size_t begin, const char *word, size_t n) {
    if (out->n > begin)
        buf_putc(out, ' ');
    buf_append(out, word, n);
}

static void put_words(struct buf *out, size_t begin, uint64_t seed, uint32_t n) {
    struct random random = {.state = seed};
    for (uint32_t i = 0; i < n; i++) {
        const char *word = words[random_below(&random, sizeof words / sizeof *words)];
        put_word(out, begin, word, strlen(word));
    }
}

/* n words of a text, from one drawn at random on, and from the front again at its end. */
static void put_text(struct buf *out, size_t begin, const char *text, uint64_t at, uint32_t n) {
    size_t size = strlen(text);
    const char *from = text + at % (size ? size : 1);
    while (*from && *from != ' ')
        from++;
    for (uint32_t i = 0, n_empty = 0; i < n && n_empty < 2;) {
        from += strspn(from, " \t\r\n");
        size_t n_word = strcspn(from, " \t\r\n");
        if (n_word == 0) {
            from = text;
            n_empty++;
            continue;
        }
        n_empty = 0;
        put_word(out, begin, from, n_word);
        from += n_word;
        i++;
    }
}

static uint32_t words_wanted(const struct workload *workload, double n_tokens) {
    double per_token = workload->words_per_token > 0 ? workload->words_per_token : 1;
    double n = (n_tokens - workload->overhead) * per_token;
    return n < 1 ? 1 : (uint32_t)(n + 0.5);
}

static void put_ids(struct buf *out, struct random *random, uint32_t n_vocabulary, uint32_t n,
                    bool is_first) {
    uint32_t low = n_vocabulary > 512 ? 256 : 0;
    uint32_t range = n_vocabulary > low ? n_vocabulary - low : 1;
    for (uint32_t i = 0; i < n; i++)
        buf_printf(out, "%s%u", is_first && i == 0 ? "" : ",",
                   low + (uint32_t)random_below(random, range));
}

void workload_prompt(const struct workload *workload, uint64_t serial, uint32_t n_tokens,
                     struct buf *out) {
    uint32_t n_shared = workload->n_shared < n_tokens ? workload->n_shared : n_tokens;
    uint64_t own_seed = random_at(workload->seed, 1, serial);
    uint64_t shared_seed = random_at(workload->seed, 0, 0);
    if (workload->source == SOURCE_IDS) {
        struct random shared = {.state = shared_seed}, own = {.state = own_seed};
        buf_putc(out, '[');
        put_ids(out, &shared, workload->n_vocabulary, n_shared, true);
        put_ids(out, &own, workload->n_vocabulary, n_tokens - n_shared, n_shared == 0);
        buf_putc(out, ']');
        return;
    }
    size_t begin = out->n;
    uint32_t n = words_wanted(workload, n_tokens);
    uint32_t n_same = n_shared ? words_wanted(workload, n_shared) : 0;
    n_same = n_same < n ? n_same : n;
    put_words(out, begin, shared_seed, n_same);
    n -= n_same;
    if (workload->source == SOURCE_WORDS || workload->n_texts == 0) {
        put_words(out, begin, own_seed, n);
        return;
    }
    uint32_t n_nonce = workload->repeats ? 0 : n < NONCE_WORDS ? n : NONCE_WORDS;
    struct random random = {.state = own_seed};
    const char *text = workload->texts[random_below(&random, workload->n_texts)];
    put_words(out, begin, random_next(&random), n_nonce);
    put_text(out, begin, text, random_next(&random), n - n_nonce);
}

void workload_body(const struct workload *workload, const struct ask_form *form,
                   const struct ask *ask, struct buf *out) {
    struct buf prompt;
    buf_init(&prompt, 0);
    workload_prompt(workload, ask->serial, ask->n_prompt, &prompt);
    buf_puts(out, "{\"model\":");
    json_text(out, form->model, strlen(form->model));
    buf_puts(out, form->chat ? ",\"messages\":[{\"role\":" : ",\"prompt\":");
    if (form->chat) {
        json_text(out, form->role, strlen(form->role));
        buf_puts(out, ",\"content\":");
    }
    if (workload->source == SOURCE_IDS)
        buf_append(out, prompt.data, prompt.n);
    else
        json_text(out, prompt.data ? prompt.data : "", prompt.n);
    buf_printf(out, "%s,\"max_tokens\":%u%s%s%s}", form->chat ? "}]" : "", ask->n_output,
               form->own_sampling ? "" : ",\"temperature\":0",
               form->ignore_eos ? ",\"ignore_eos\":true" : "",
               form->stream ? ",\"stream\":true,\"stream_options\":{\"include_usage\":true}" : "");
    buf_fini(&prompt);
}
