/* Any bytes as a tokenizer.model, and a text for it: the first byte is the text's length. A model
 * that opens gives ids of its own for valid text, never a control token's, and text for any ids. */
#include "base/utf8.h"
#include "model/text/tokenizer/detokenize.h"
#include "model/text/tokenizer/files/spm_tokenizer.h"
#include "model/text/tokenizer/files/tokenizer_extras.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tokenizer_scratch *scratch;

static void require(bool fact) {
    if (!fact)
        abort();
}

static void decode(const struct tokenizer *tokenizer, const struct ids *ids, bool skip_special) {
    struct detokenizer detokenizer;
    struct buf out;
    buf_init(&out, 0);
    detokenizer_init(&detokenizer, skip_special);
    for (size_t i = 0; i < ids->n; i++) {
        size_t before = out.n; /* each part must be valid by itself */
        require(detokenizer_push(&detokenizer, tokenizer, ids->at[i], &out) == STATUS_OK);
        require(out.n == before || utf8_valid(out.data + before, out.n - before));
    }
    require(detokenizer_flush(&detokenizer, &out) == STATUS_OK);
    require(utf8_valid(out.data ? out.data : "", out.n));
    buf_fini(&out);
}

static void use(const struct tokenizer *tokenizer, struct span text) {
    struct error error;
    struct ids ids;
    ids_init(&ids, 0);
    enum status status = tokenizer_encode(tokenizer, scratch, text, TOKENIZER_PLAIN, &ids, &error);
    require(status == (utf8_valid(text.bytes, text.n) ? STATUS_OK : STATUS_INVALID));
    for (size_t i = 0; i < ids.n; i++) {
        require(ids.at[i] < tokenizer_n_tokens(tokenizer));
        require(tokenizer->vocabulary.kinds[ids.at[i]] != TOKEN_CONTROL);
    }
    decode(tokenizer, &ids, true);
    ids_clear(&ids);
    for (size_t i = 0; i < text.n; i++) /* the same bytes as ids of whatever the model has */
        require(ids_push(&ids, (uint8_t)text.bytes[i] % tokenizer_n_tokens(tokenizer)) ==
                STATUS_OK);
    decode(tokenizer, &ids, false);
    ids_fini(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tokenizer_extras extras = {.class = SPAN("ChatGLMTokenizer"), .legacy = ANSWER_NO};
    struct tokenizer *tokenizer = NULL;
    struct error error;
    if (size == 0 || data[0] > size - 1)
        return 0;
    struct span text = {(const char *)data + 1, data[0]};
    struct span file = {text.bytes + text.n, size - 1 - text.n};
    if (!scratch)
        scratch = tokenizer_scratch_new();
    require(scratch != NULL);
    const struct tokenizer_extras *with = data[0] & 1 ? &extras : NULL;
    if (spm_tokenizer_parse(file, "made", with, &tokenizer, &error) == STATUS_OK)
        use(tokenizer, text);
    tokenizer_close(tokenizer);
    return 0;
}
