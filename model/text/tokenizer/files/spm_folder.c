/* Tokenizers from a tokenizer.model and what lies beside it. */
#include "base/buf.h"
#include "base/file.h"
#include "model/text/tokenizer/files/spm_file.h"
#include "model/text/tokenizer/files/spm_tokenizer.h"
#include "model/text/tokenizer/files/token_table.h"
#include "model/text/tokenizer/files/tokenizer_class.h"
#include "model/text/tokenizer/files/tokenizer_extras.h"

#include <stdlib.h>

/* ChatGLM3's classes put these behind the file's pieces (its tokenization_chatglm.py). */
static const char *const chatglm_tokens[] = {"[MASK]",   "[gMASK]",       "[sMASK]",
                                             "sop",      "eop",           "<|system|>",
                                             "<|user|>", "<|assistant|>", "<|observation|>"};
#define N_CHATGLM_TOKENS ((uint32_t)(sizeof chatglm_tokens / sizeof *chatglm_tokens))

/* Baichuan2 writes its turns with <reserved_106> and <reserved_107>. No user's text may become one
 * of these, with any type in the file. */
static bool spm_folder_is_reserved(struct span text) {
    static const char begin[] = "<reserved_";
    size_t n = sizeof begin - 1;
    if (text.n < n + 2 || !span_begins(text, begin) || !span_ends(text, ">"))
        return false;
    for (size_t i = n; i < text.n - 1; i++)
        if (text.bytes[i] < '0' || text.bytes[i] > '9')
            return false;
    return true;
}

/* The file's pieces by id, and room for what the folder adds: ids between them are there, but never put
 * out. */
static enum status spm_folder_table_init(struct token_table *table, struct spm_file *file,
                                         const struct tokenizer_extras *extras,
                                         struct error *error) {
    uint32_t n = file->n_pieces;
    if (tokenizer_class_is_chatglm(extras))
        n += N_CHATGLM_TOKENS;
    if (extras->n_added > 0 && extras->added[extras->n_added - 1].id >= n)
        n = extras->added[extras->n_added - 1].id + 1;
    TRY(token_table_reach(table, n - 1, error));
    for (uint32_t id = 0; id < file->n_pieces; id++) {
        table->tokens[id] = file->pieces[id];
        file->kinds[id] = spm_folder_is_reserved(file->pieces[id])
                              ? TOKEN_CONTROL
                              : vocabulary_kind(file->pieces[id], file->kinds[id]);
    }
    return STATUS_OK;
}

/* A piece that the folder names as an added token is matched like those, no longer as a piece. */
static void spm_folder_add_token(struct token_table *table, struct spm_file *file,
                                 const struct tokenizer_added *added) {
    uint8_t kind = table->kinds[added->id];
    if (kind == TOKEN_BYTE)
        return; /* what a byte stands for is not the folder's to say */
    table->tokens[added->id] = added->content;
    table->flags[added->id] = (uint8_t)(added->flags & ~TOKEN_NORMALIZED);
    if (kind == TOKEN_CONTROL || kind == TOKEN_UNKNOWN)
        return;
    table->kinds[added->id] =
        vocabulary_kind(added->content, added->is_special ? TOKEN_CONTROL : TOKEN_USER_DEFINED);
    if (added->id < file->n_pieces)
        file->kinds[added->id] = TOKEN_CONTROL;
}

static void spm_folder_add_tokens(struct token_table *table, struct spm_file *file,
                                  const struct tokenizer_extras *extras) {
    spm_source_kinds(&file->source, table->kinds);
    if (tokenizer_class_is_chatglm(extras)) {
        for (uint32_t i = 0; i < N_CHATGLM_TOKENS; i++) {
            const char *text = chatglm_tokens[i];
            table->tokens[file->n_pieces + i] = (struct span){text, strlen(text)};
            table->kinds[file->n_pieces + i] = TOKEN_CONTROL;
        }
    }
    for (size_t i = 0; i < extras->n_added; i++)
        spm_folder_add_token(table, file, &extras->added[i]);
}

static enum status spm_folder_build(struct spm_file *file, const struct tokenizer_extras *extras,
                                    struct token_table *table, struct tokenizer **tokenizer,
                                    struct error *error) {
    TRY(spm_folder_table_init(table, file, extras, error));
    spm_folder_add_tokens(table, file, extras);
    file->source.prefix_always = extras->legacy != ANSWER_NO;
    struct tokenizer_tokens tokens = token_table_tokens(table);
    const struct tokenizer_class_file said = {.bos = file->bos, .eos = file->eos};
    tokens.add_bos = extras->add_bos == ANSWER_YES;
    tokens.add_eos = extras->add_eos == ANSWER_YES;
    TRY(tokenizer_class_ends(extras, &said, &tokens, error));
    tokens.add_bos = tokens.add_bos && tokens.bos_id != TOKEN_NONE;
    tokens.add_eos = tokens.add_eos && tokens.eos_id != TOKEN_NONE;
    return spm_tokenizer_new(&(struct spm_parts){&file->source, tokens}, tokenizer, error);
}

enum status spm_tokenizer_parse(struct span bytes, const char *name,
                                const struct tokenizer_extras *extras, struct tokenizer **tokenizer,
                                struct error *error) {
    static const struct tokenizer_extras nothing;
    struct spm_file file;
    struct token_table table = {0};
    TRY(spm_file_init(&file, bytes, name, error));
    enum status status = error_within(
        error, spm_folder_build(&file, extras ? extras : &nothing, &table, tokenizer, error), "%s",
        name);
    token_table_fini(&table);
    spm_file_fini(&file);
    return status;
}

enum status tokenizer_open_sentencepiece(const char *path, const struct tokenizer_extras *extras,
                                         struct tokenizer **tokenizer, struct error *error) {
    struct buf bytes;
    buf_init(&bytes, 0);
    enum status status = file_read(path, SPM_FILE_BYTES_MAX, &bytes, error);
    if (status == STATUS_OK)
        status = spm_tokenizer_parse((struct span){bytes.data ? bytes.data : "", bytes.n}, path,
                                     extras, tokenizer, error);
    buf_fini(&bytes);
    return status;
}
