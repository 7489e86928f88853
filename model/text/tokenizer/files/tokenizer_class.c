#include "model/text/tokenizer/files/tokenizer_class.h"

#include "model/text/tokenizer/files/tokenizer_extras.h"
#include "model/text/tokenizer/files/tokenizer_parts.h"

/* Classes that begin a text with their BOS unless they are told otherwise, and end it with their EOS
 * if they are told so. */
static const struct class_row {
    const char *name; /* classes begin with it: LlamaTokenizer, LlamaTokenizerFast */
    const char *bos;  /* where no file names one */
    const char *eos;
} rows[] = {
    {"Llama", "<s>", "</s>"},
    {"CodeLlama", "<s>", "</s>"},
    {"Gemma", "<bos>", "<eos>"},
    {"Cohere", "<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>"},
};

static const struct class_row *tokenizer_class_find_row(struct span class) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (span_begins(class, rows[i].name))
            return &rows[i];
    return NULL;
}

bool tokenizer_class_is_chatglm(const struct tokenizer_extras *extras) {
    return span_is(tokenizer_extras_class(extras), "ChatGLMTokenizer");
}

/* The special token of this text, else any. */
static uint32_t tokenizer_class_find(const struct tokenizer_tokens *tokens, struct span text,
                                     bool any) {
    uint32_t found = TOKEN_NONE;
    for (uint32_t id = 0; id < tokens->n && text.n > 0; id++) {
        if (!span_equal(tokens->texts[id], text))
            continue;
        if (tokens->kinds[id] == TOKEN_CONTROL)
            return id;
        found = any && found == TOKEN_NONE ? id : found;
    }
    return found;
}

/* What the folder names; where it names nothing the class's own, else the vocabulary file's. */
static uint32_t tokenizer_class_choose(const struct tokenizer_tokens *tokens, struct span said,
                                       const char *own, struct span file) {
    if (said.n > 0)
        return tokenizer_class_find(tokens, said, true);
    uint32_t id = own ? tokenizer_class_find(tokens, span_of(own), true) : TOKEN_NONE;
    return id != TOKEN_NONE ? id : tokenizer_class_find(tokens, file, true);
}

/* [gMASK] sop, whatever add_bos_token says. "sop" is also a word: only a special token counts. */
static enum status tokenizer_class_add_chatglm(struct tokenizer_tokens *tokens,
                                               struct error *error) {
    uint32_t mask = tokenizer_class_find(tokens, SPAN("[gMASK]"), false);
    uint32_t start = tokenizer_class_find(tokens, SPAN("sop"), false);
    if (start == TOKEN_NONE)
        start = tokenizer_class_find(tokens, SPAN("<sop>"), false);
    tokens->add_bos = tokens->add_eos = false;
    if (mask == TOKEN_NONE || start == TOKEN_NONE)
        return STATUS_OK;
    TRY(tokenizer_ends_add(&tokens->before, mask, error));
    return tokenizer_ends_add(&tokens->before, start, error);
}

enum status tokenizer_class_ends(const struct tokenizer_extras *extras,
                                 const struct tokenizer_class_file *file,
                                 struct tokenizer_tokens *tokens, struct error *error) {
    const struct class_row *row = tokenizer_class_find_row(tokenizer_extras_class(extras));
    tokens->bos_id = tokenizer_class_choose(tokens, extras->bos, row ? row->bos : NULL, file->bos);
    tokens->eos_id = tokenizer_class_choose(tokens, extras->eos, row ? row->eos : NULL, file->eos);
    if (tokenizer_class_is_chatglm(extras))
        return file->says_ends ? STATUS_OK : tokenizer_class_add_chatglm(tokens, error);
    if (!row || (file->is_json && extras->ends_in_file))
        return STATUS_OK;
    bool wants_bos = extras->add_bos != ANSWER_NO;
    bool wants_eos = extras->add_eos == ANSWER_YES;
    if (!wants_bos || tokens->bos_id != TOKEN_NONE) {
        tokens->before.n = 0;
        tokens->add_bos = wants_bos;
    }
    if (!wants_eos || tokens->eos_id != TOKEN_NONE) {
        tokens->behind.n = 0;
        tokens->add_eos = wants_eos;
    }
    return STATUS_OK;
}
