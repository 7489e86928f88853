/* *.tiktoken (openai/tiktoken, load_tiktoken_bpe): a line has a token in base64, a blank and its
 * rank, which is its id. What is not in the file is Qwen's (tokenization_qwen.py of its models). */
#include "base/buf.h"
#include "base/file.h"
#include "model/text/tokenizer/bpe/pretokenize_names.h"
#include "model/text/tokenizer/files/token_table.h"
#include "model/text/tokenizer/files/tokenizer_extras.h"
#include "model/text/tokenizer/files/tokenizer_files.h"
#include "model/text/tokenizer/files/tokenizer_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define TIKTOKEN_FILE_MAX  ((uint64_t)32 << 20)
#define TIKTOKEN_TOKEN_MAX 256u /* bytes of one token: every way to cut it in two is tried */
#define QWEN_EXTRAS        205u

static int tiktoken_base64_digit(char c) {
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes text with its padding (RFC 4648) into out; false when it is not base64. */
static bool tiktoken_base64_decode(struct span text, char *out, size_t *n_out) {
    size_t n = text.n;
    uint32_t bits = 0;
    unsigned n_bits = 0;
    *n_out = 0;
    if (n == 0 || n % 4 != 0)
        return false;
    for (int i = 0; i < 2 && text.bytes[n - 1] == '='; i++)
        n--;
    for (size_t i = 0; i < n; i++) {
        int digit = tiktoken_base64_digit(text.bytes[i]);
        if (digit < 0)
            return false;
        bits = (bits << 6 | (uint32_t)digit) & 0xffffff;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            out[(*n_out)++] = (char)(bits >> n_bits & 0xff);
        }
    }
    return (bits & ((1u << n_bits) - 1)) == 0;
}

/* One line; the token's bytes go to *blob, which they move on. */
static enum status tiktoken_read_line(struct span line, char **blob, struct token_table *table,
                                      struct error *error) {
    size_t n = 0;
    uint64_t rank = 0;
    const char *blank = memchr(line.bytes, ' ', line.n);
    size_t cut = blank ? (size_t)(blank - line.bytes) : line.n;
    if (!blank || cut + 1 == line.n || line.n - cut > 10)
        return error_set(error, STATUS_CORRUPT, "the line is not a token in base64 and its rank");
    for (size_t i = cut + 1; i < line.n; i++) {
        if (line.bytes[i] < '0' || line.bytes[i] > '9')
            return error_set(error, STATUS_CORRUPT, "the rank is not a number");
        rank = rank * 10 + (uint64_t)(line.bytes[i] - '0');
    }
    if (cut > (TIKTOKEN_TOKEN_MAX + 2) / 3 * 4)
        return error_set(error, STATUS_LIMIT, "a token of more than %u bytes", TIKTOKEN_TOKEN_MAX);
    if (!tiktoken_base64_decode((struct span){line.bytes, cut}, *blob, &n))
        return error_set(error, STATUS_CORRUPT, "the token is not base64");
    TRY(token_table_put(table, rank, (struct span){*blob, n}, error));
    *blob += n;
    return STATUS_OK;
}

static enum status tiktoken_read_lines(struct span text, char *blob, struct token_table *table,
                                       struct error *error) {
    size_t n_lines = 0;
    for (size_t at = 0; at < text.n;) {
        const char *end = memchr(text.bytes + at, '\n', text.n - at);
        size_t next = end ? (size_t)(end - text.bytes) + 1 : text.n;
        struct span line = {text.bytes + at, next - at - (end != NULL)};
        n_lines++;
        if (line.n > 0 && line.bytes[line.n - 1] == '\r')
            line.n--;
        if (line.n > 0)
            TRY(error_within(error, tiktoken_read_line(line, &blob, table, error), "line %zu",
                             n_lines));
        at = next;
    }
    for (uint32_t id = 0; id < table->n_tokens; id++)
        if (table->kinds[id] == TOKEN_UNUSED)
            return error_set(error, STATUS_CORRUPT, "no token has the rank %u", id);
    return STATUS_OK;
}

/* Qwen's special tokens follow the ranks. *names is the caller's. */
static enum status tiktoken_add_specials(struct token_table *table, char **names,
                                         struct error *error) {
    static const char *const first[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    const size_t name_bytes = 16;
    uint32_t id = table->n_tokens;
    *names = calloc(3 + QWEN_EXTRAS, name_bytes);
    if (!*names)
        return error_set(error, STATUS_NOMEM, "no memory for the special tokens");
    for (uint32_t i = 0; i < 3 + QWEN_EXTRAS; i++) {
        char *name = *names + i * name_bytes;
        if (i < 3)
            snprintf(name, name_bytes, "%s", first[i]);
        else
            snprintf(name, name_bytes, "<|extra_%u|>", i - 3);
        TRY(token_table_add(table,
                            &(struct tokenizer_added){
                                .id = id + i, .content = {name, strlen(name)}, .is_special = true},
                            error));
    }
    return STATUS_OK;
}

static enum status tokenizer_tiktoken_build(struct token_table *table,
                                            const struct tokenizer_extras *extras,
                                            struct tokenizer **tokenizer, struct error *error) {
    const struct pretokenize_name *name = pretokenize_find(SPAN("qwen2")); /* the same pattern */
    struct tokenizer_parts parts = {
        .tokens = token_table_tokens(table),
        .spelling = SPELLED_AS_IS,
        .options = {.by_rank = true, .ignores_merges = true, .unknown_id = TOKEN_NONE},
        .recipe = SPAN("tiktoken qwen")};
    parts.tokens.bos_id = token_table_find(table, extras->bos);
    parts.tokens.eos_id = token_table_find(table, extras->eos);
    if (parts.tokens.eos_id == TOKEN_NONE)
        parts.tokens.eos_id = token_table_find(table, SPAN("<|endoftext|>"));
    enum status status = pretokenizer_init(&parts.pretokenizer, name, error);
    if (status == STATUS_OK)
        status = normalizer_add(&parts.normalizer, NORMALIZE_NFC, error);
    if (status == STATUS_OK)
        status = tokenizer_build(&parts, tokenizer, error);
    tokenizer_parts_fini(&parts);
    return status;
}

enum status tokenizer_parse_tiktoken(struct span text, const struct tokenizer_extras *extras,
                                     struct tokenizer **tokenizer, struct error *error) {
    struct token_table table = {0};
    char *names = NULL;
    char *blob = malloc(text.n + 1); /* base64 shrinks */
    enum status status = blob ? STATUS_OK : STATUS_NOMEM;
    if (extras->class.n > 0 &&
        (extras->class.n < 4 || strncasecmp(extras->class.bytes, "qwen", 4) != 0))
        status = error_field(error, STATUS_UNSUPPORTED, "tokenizer_class",
                             "a .tiktoken file of a %.*s is not supported; Qwen's is",
                             span_shown(extras->class), extras->class.bytes);
    else if (!blob)
        error_set(error, status, "no memory for a vocabulary");
    if (status == STATUS_OK)
        status = tiktoken_read_lines(text, blob, &table, error);
    if (status == STATUS_OK)
        status = tiktoken_add_specials(&table, &names, error);
    if (status == STATUS_OK)
        status = token_table_add_extras(&table, extras, error);
    if (status == STATUS_OK)
        status = tokenizer_tiktoken_build(&table, extras, tokenizer, error);
    token_table_fini(&table);
    free(names);
    free(blob);
    return status;
}

enum status tokenizer_open_tiktoken(const char *path, const struct tokenizer_extras *extras,
                                    struct tokenizer **tokenizer, struct error *error) {
    struct buf text;
    buf_init(&text, 0);
    enum status status = file_read(path, TIKTOKEN_FILE_MAX, &text, error);
    struct span lines = {text.data ? text.data : "", text.n};
    if (status == STATUS_OK)
        status = error_within(error, tokenizer_parse_tiktoken(lines, extras, tokenizer, error),
                              "%s", path);
    buf_fini(&text);
    return status;
}
