/* The tokenizer of the pseudo-model `hash`: bytes and 65280 ids that no text has. */
#include "model/text/tokenizer/files/tokenizer_bytes.h"
#include "model/text/tokenizer/files/tokenizer_parts.h"

#define HASH_TOKENS 65536u

enum status tokenizer_open_hash(struct tokenizer **tokenizer, struct error *error) {
    const struct tokenizer_parts parts = {.recipe = SPAN("hash")};
    struct tokenizer *opened;
    TRY(tokenizer_open_bytes(HASH_TOKENS, &opened, error));
    enum status status = tokenizer_fingerprint(opened, &parts, error);
    if (status != STATUS_OK)
        tokenizer_close(opened);
    else
        *tokenizer = opened;
    return status;
}
