/* Readers that are not there yet. */
#include "model/tokenizer.h"

enum status tokenizer_open_sentencepiece(const char *path, const struct tokenizer_extras *extras,
                                         struct tokenizer **tokenizer, struct error *error) {
    (void)extras;
    (void)tokenizer;
    return error_set(error, STATUS_UNSUPPORTED, "%s: SentencePiece is not supported yet", path);
}
