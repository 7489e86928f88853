/* Readers that are not there yet. */
#include "model/tokenizer.h"
#include "model/tokenizer_files.h"

enum status tokenizer_open_sentencepiece(const char *path, const struct tokenizer_extras *extras,
                                         struct tokenizer **tokenizer, struct error *error) {
    (void)extras;
    (void)tokenizer;
    return error_set(error, STATUS_UNSUPPORTED, "%s: SentencePiece is not supported yet", path);
}

enum status tokenizer_open_json(const char *path, const struct tokenizer_extras *extras,
                                struct tokenizer **tokenizer, struct error *error) {
    (void)extras;
    (void)tokenizer;
    return error_set(error, STATUS_UNSUPPORTED, "%s: not supported yet", path);
}

enum status tokenizer_open_tiktoken(const char *path, const struct tokenizer_extras *extras,
                                    struct tokenizer **tokenizer, struct error *error) {
    (void)extras;
    (void)tokenizer;
    return error_set(error, STATUS_UNSUPPORTED, "%s: not supported yet", path);
}

enum status tokenizer_open_merges(const char *vocab_path, const char *merges_path,
                                  const struct tokenizer_extras *extras,
                                  struct tokenizer **tokenizer, struct error *error) {
    (void)merges_path;
    (void)extras;
    (void)tokenizer;
    return error_set(error, STATUS_UNSUPPORTED, "%s: not supported yet", vocab_path);
}
