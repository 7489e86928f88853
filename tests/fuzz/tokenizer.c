/* Any bytes as text: what is valid UTF-8 comes back byte for byte, the rest is refused. The first
 * byte chooses flags and the cuts of the detokenizer's test. */
#include "model/text/tokenizer/tokenizer.h"
#include "base/utf8.h"
#include "model/gguf/gguf.h"
#include "model/text/tokenizer/detokenize.h"
#include "tests/support/gguf_builder.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tokenizer *tokenizer;
static struct tokenizer *bytes; /* `hash`: each byte is a token */
static struct tokenizer_scratch *scratch;

/* Once; they live as long as the process. */
static void open_tokenizers(void) {
    struct gguf_builder builder;
    struct gguf *gguf;
    struct error error;
    gguf_builder_init(&builder);
    gguf_builder_llama(&builder);
    gguf_builder_finish(&builder, 0);
    scratch = tokenizer_scratch_new();
    if (gguf_parse(builder.bytes.data, builder.bytes.n, "made", &gguf, &error) != STATUS_OK ||
        tokenizer_open_gguf(gguf, &tokenizer, &error) != STATUS_OK ||
        tokenizer_open_hash(&bytes, &error) != STATUS_OK || !scratch)
        abort();
    gguf_close(gguf);
    gguf_builder_fini(&builder);
}

static void require(bool fact) {
    if (!fact)
        abort();
}

static void decode(const struct tokenizer *with, const struct ids *ids, struct buf *out) {
    struct detokenizer detokenizer;
    detokenizer_init(&detokenizer, false);
    for (size_t i = 0; i < ids->n; i++) {
        size_t before = out->n; /* each part must be valid by itself */
        require(detokenizer_push(&detokenizer, with, ids->at[i], out) == STATUS_OK);
        require(out->n == before || utf8_valid(out->data + before, out->n - before));
    }
    require(detokenizer_flush(&detokenizer, out) == STATUS_OK);
    require(utf8_valid(out->data ? out->data : "", out->n));
}

static void round_trip(struct span text, unsigned flags) {
    struct error error;
    struct ids ids;
    struct buf out;
    bool valid = utf8_valid(text.bytes, text.n);
    ids_init(&ids, 0);
    buf_init(&out, 0);
    enum status status = tokenizer_encode(tokenizer, scratch, text, flags, &ids, &error);
    require(status == (valid ? STATUS_OK : STATUS_INVALID));
    if (valid) {
        decode(tokenizer, &ids, &out);
        require(out.n == text.n && (out.n == 0 || memcmp(out.data, text.bytes, out.n) == 0));
    }
    buf_fini(&out);
    ids_fini(&ids);
}

static void any_bytes_decode(struct span text) {
    struct ids ids;
    struct buf out;
    ids_init(&ids, 0);
    buf_init(&out, 0);
    for (size_t i = 0; i < text.n; i++)
        require(ids_push(&ids, (uint8_t)text.bytes[i]) == STATUS_OK);
    decode(bytes, &ids, &out);
    if (utf8_valid(text.bytes, text.n))
        require(out.n == text.n);
    buf_fini(&out);
    ids_fini(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!tokenizer)
        open_tokenizers();
    if (size == 0)
        return 0;
    struct span text = {(const char *)data + 1, size - 1};
    round_trip(text, data[0] & 1 ? TOKENIZER_PARSE_SPECIAL : TOKENIZER_PLAIN);
    any_bytes_decode(text);
    return 0;
}
