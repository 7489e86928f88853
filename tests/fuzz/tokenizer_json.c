/* Any bytes as a tokenizer file: tokenizer.json when they begin with a brace, else *.tiktoken. What
 * opens must encode every text of a list without ever giving a control token that was not asked
 * for, and decode what it gave, and every id, to valid UTF-8. */
#include "base/utf8.h"
#include "model/text/tokenizer/detokenize.h"
#include "model/text/tokenizer/files/tokenizer_extras.h"
#include "model/text/tokenizer/files/tokenizer_files.h"
#include "model/text/tokenizer/tokenizer.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const texts[] = {"", " ", "ab  ab", "\xc3\xa9\xe4\xb8\xad 12\n<s></s>",
                                    "a\xcc\x81 Fox\t\xf0\x9f\x98\x80"};

static void require(bool fact) {
    if (!fact)
        abort();
}

static enum status parse(struct span bytes, struct tokenizer **tokenizer, struct error *error) {
    const struct tokenizer_extras extras = {0};
    json_error_t problem;
    if (bytes.n == 0 || bytes.bytes[0] != '{')
        return tokenizer_parse_tiktoken(bytes, &extras, tokenizer, error);
    json_t *root =
        json_loadb(bytes.bytes, bytes.n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &problem);
    enum status status = STATUS_CORRUPT;
    if (root)
        status = tokenizer_parse_json(root, &extras, tokenizer, error);
    json_decref(root);
    return status;
}

static void decode(const struct tokenizer *tokenizer, const uint32_t *ids, size_t n) {
    struct detokenizer detokenizer;
    struct buf out;
    buf_init(&out, 0);
    detokenizer_init(&detokenizer, false);
    for (size_t i = 0; i < n; i++) {
        size_t before = out.n; /* each part must be valid by itself */
        require(detokenizer_push(&detokenizer, tokenizer, ids[i], &out) == STATUS_OK);
        require(out.n == before || utf8_valid(out.data + before, out.n - before));
    }
    require(detokenizer_flush(&detokenizer, &out) == STATUS_OK);
    buf_fini(&out);
}

static void encode(const struct tokenizer *tokenizer, struct tokenizer_scratch *scratch,
                   const char *text, unsigned flags) {
    struct error error;
    struct ids ids;
    ids_init(&ids, 4096);
    enum status status = tokenizer_encode(tokenizer, scratch, (struct span){text, strlen(text)},
                                          flags, &ids, &error);
    require(status == STATUS_OK || status == STATUS_LIMIT);
    for (size_t i = 0; i < ids.n; i++) {
        require(ids.at[i] < tokenizer_n_tokens(tokenizer));
        require(flags != TOKENIZER_PLAIN || !tokenizer_is_special(tokenizer, ids.at[i]) ||
                ids.at[i] == tokenizer->bpe.options.unknown_id);
    }
    decode(tokenizer, ids.at, ids.n);
    ids_fini(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tokenizer *tokenizer = NULL;
    struct error error;
    if (parse((struct span){(const char *)data, size}, &tokenizer, &error) != STATUS_OK)
        return 0;
    struct tokenizer_scratch *scratch = tokenizer_scratch_new();
    require(scratch != NULL);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        encode(tokenizer, scratch, texts[i], TOKENIZER_PLAIN);
        encode(tokenizer, scratch, texts[i], TOKENIZER_PARSE_SPECIAL | TOKENIZER_ADD_BOS);
    }
    for (uint32_t id = 0; id < tokenizer_n_tokens(tokenizer) && id < 1000; id++)
        decode(tokenizer, &id, 1);
    tokenizer_scratch_free(scratch);
    tokenizer_close(tokenizer);
    return 0;
}
