/* Bodies of gRPC calls: the first byte picks the call and the compression. Frames are taken off one by
 * one within their bounds, and what a dialect accepts holds what later stages rely on. */
#include "base/http/grpc.h"
#include "router/api/grpc.h"
#include "tests/fuzz/ask_check.h"

#include <stdint.h>
#include <stdio.h>

#define SMALL_MAX 4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_frames(struct span left, const char *encoding) {
    const char *end = left.bytes + left.n;
    struct buf room;
    struct error error = {0};
    enum status status;
    buf_init(&room, 0);
    do {
        const char *before = left.bytes;
        struct span message;
        status = grpc_take(&left, encoding, SMALL_MAX, &room, &message, &error);
        ASSERT(left.bytes + left.n == end);
        ASSERT((status == STATUS_OK) == (left.bytes > before));
        ASSERT(status != STATUS_OK || message.n <= SMALL_MAX);
        ASSERT(status == STATUS_OK || status == STATUS_BUSY || error.text[0] != 0);
    } while (status == STATUS_OK);
    buf_fini(&room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct dialect *const dialects[] = {
        &dialect_grpc_generate, &dialect_grpc_complete, &dialect_grpc_tokenize,
        &dialect_grpc_detokenize, &dialect_vllm_generate};
    static const struct ask_limits limits = {.model = "m", .n_tokens = 1000, .prompt_max = 64};
    if (size == 0)
        return 0;
    const struct dialect *dialect = dialects[data[0] & 8 ? 4 : data[0] % 4];
    const char *encoding = data[0] & 4 ? "gzip" : NULL;
    const struct span body = {(const char *)data + 1, size - 1};
    check_frames(body, encoding);

    struct api_error error = {0};
    struct ask ask;
    ask_init(&ask);
    snprintf(ask.encoding, sizeof ask.encoding, "%s", encoding ? encoding : "");
    error.status = dialect->parse(&body, &limits, &ask, &error);
    if (error.status == STATUS_OK && dialect->writer)
        ask_check(&ask);
    ASSERT(error.status == STATUS_OK || error.error.text[0] != 0);
    struct buf none;
    struct dialect_refusal refusal = {.body = &none};
    buf_init(&none, 0);
    dialect->form->refuse(&error, &refusal);
    ASSERT(refusal.n_headers >= 2 && none.n == 0); /* a status and its words, in the head */
    for (unsigned i = 0; i < refusal.n_headers; i++)
        for (const char *at = refusal.headers[i].value; *at; at++)
            ASSERT(*at >= ' ' && *at < 0x7f);
    buf_fini(&none);
    ask_fini(&ask);
    return 0;
}
