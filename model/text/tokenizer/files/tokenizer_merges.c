/* vocab.json and merges.txt, as GPT-2 was published with (openai/gpt-2, transformers). */
#include "base/buf.h"
#include "base/file.h"
#include "base/json/json_text.h"
#include "model/text/tokenizer/files/token_table.h"
#include "model/text/tokenizer/files/tokenizer_extras.h"
#include "model/text/tokenizer/files/tokenizer_files.h"
#include "model/text/tokenizer/tokenizer.h"

#include <jansson.h>
#include <stdlib.h>

#define MERGES_FILE_MAX ((uint64_t)64 << 20)

/* The lines of merges.txt but for "#version" at the top and empty ones. *merges is the caller's. */
static enum status tokenizer_merges_split_lines(struct span text, struct span **merges, size_t *n,
                                                struct error *error) {
    size_t n_lines = 1;
    for (size_t i = 0; i < text.n; i++)
        n_lines += text.bytes[i] == '\n';
    if (n_lines > BPE_MERGES_MAX)
        return error_set(error, STATUS_LIMIT, "%zu lines, at most %u are read", n_lines,
                         BPE_MERGES_MAX);
    *merges = calloc(n_lines, sizeof **merges);
    if (!*merges)
        return error_set(error, STATUS_NOMEM, "no memory for %zu merges", n_lines);
    *n = 0;
    for (size_t at = 0; at < text.n;) {
        const char *end = memchr(text.bytes + at, '\n', text.n - at);
        size_t next = end ? (size_t)(end - text.bytes) + 1 : text.n;
        struct span line = {text.bytes + at, next - at - (end != NULL)};
        bool is_version = at == 0 && span_begins(line, "#version");
        if (line.n > 0 && line.bytes[line.n - 1] == '\r')
            line.n--;
        if (line.n > 0 && !is_version)
            (*merges)[(*n)++] = line;
        at = next;
    }
    return STATUS_OK;
}

/* What a class of transformers does without saying so in a file. */
static enum status tokenizer_merges_by_class(struct tokenizer_source *source,
                                             struct tokenizer_extras *extras, struct error *error) {
    struct span class = extras->class;
    source->model = SPAN("gpt2");
    if (span_begins(tokenizer_extras_class(extras), "Qwen2Tokenizer")) {
        source->pre = SPAN("qwen2");
        return STATUS_OK;
    }
    if (class.n > 0 && !span_begins(class, "GPT2Tokenizer"))
        return error_field(error, STATUS_UNSUPPORTED, "tokenizer_class",
                           "vocab.json and merges.txt of a %.*s are not supported; those of "
                           "GPT2Tokenizer and Qwen2Tokenizer are",
                           span_shown(class), class.bytes);
    source->pre = SPAN("gpt-2");
    if (extras->bos.n == 0)
        extras->bos = SPAN("<|endoftext|>");
    if (extras->eos.n == 0)
        extras->eos = SPAN("<|endoftext|>");
    return STATUS_OK;
}

static void tokenizer_merges_mark_special(struct token_table *table, struct span text) {
    uint32_t id = token_table_find(table, text);
    if (id != TOKEN_NONE && table->kinds[id] == TOKEN_NORMAL)
        table->kinds[id] = TOKEN_CONTROL;
}

static enum status tokenizer_merges_open_table(struct token_table *table, struct span merges_text,
                                               const struct tokenizer_extras *given,
                                               struct tokenizer **tokenizer, struct error *error) {
    struct tokenizer_extras extras = *given; /* borrowed, with what its class adds */
    struct tokenizer_source source = {0};
    struct span *merges = NULL;
    TRY(tokenizer_merges_by_class(&source, &extras, error));
    TRY(token_table_add_extras(table, &extras, error));
    tokenizer_merges_mark_special(table, extras.bos);
    tokenizer_merges_mark_special(table, extras.eos);
    tokenizer_merges_mark_special(table, extras.unk);
    tokenizer_merges_mark_special(table, extras.pad);
    for (uint32_t id = 0; id < table->n_tokens; id++)
        table->flags[id] &= (uint8_t)~TOKEN_NORMALIZED; /* these classes match plain text */
    TRY(tokenizer_merges_split_lines(merges_text, &merges, &source.n_merges, error));
    source.merges = merges;
    source.tokens = token_table_tokens(table);
    source.tokens.bos_id = token_table_find(table, extras.bos);
    source.tokens.eos_id = token_table_find(table, extras.eos);
    source.tokens.add_bos = extras.add_bos == ANSWER_YES;
    source.tokens.add_eos = extras.add_eos == ANSWER_YES;
    enum status status = tokenizer_open(&source, tokenizer, error);
    free(merges);
    return status;
}

enum status tokenizer_open_merges(const char *vocab_path, const char *merges_path,
                                  const struct tokenizer_extras *extras,
                                  struct tokenizer **tokenizer, struct error *error) {
    json_t *vocabulary = NULL;
    struct token_table table = {0};
    struct buf merges;
    buf_init(&merges, 0);
    enum status status = json_text_load(vocab_path, &json_limits_tokenizer, &vocabulary, error);
    if (status == STATUS_OK)
        status =
            error_within(error, json_read_vocabulary(vocabulary, &table, error), "%s", vocab_path);
    if (status == STATUS_OK)
        status = file_read(merges_path, MERGES_FILE_MAX, &merges, error);
    struct span text = {merges.data ? merges.data : "", merges.n};
    if (status == STATUS_OK)
        status =
            error_within(error, tokenizer_merges_open_table(&table, text, extras, tokenizer, error),
                         "%s", merges_path);
    token_table_fini(&table);
    buf_fini(&merges);
    json_decref(vocabulary);
    return status;
}
