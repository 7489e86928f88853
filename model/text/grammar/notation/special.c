#include "model/text/grammar/notation/special.h"

#include "model/text/grammar/vocabulary.h"

/* Behind "<[". */
static enum status notation_read_token_id(struct notation *notation, struct element *element) {
    const struct grammar_vocabulary *vocabulary = notation->compile->vocabulary;
    size_t begin = notation->at;
    uint64_t id = 0;
    while (notation_peek(notation, 0) >= '0' && notation_peek(notation, 0) <= '9' &&
           id < GRAMMAR_TOKEN_NONE)
        id = id * 10 + (uint64_t)(notation->source.bytes[notation->at++] - '0');
    if (notation->at == begin || !notation_take(notation, "]>"))
        return notation_fail(notation, STATUS_INVALID, "expected the id of one token and \"]>\"");
    if (!vocabulary || id >= vocabulary->n_tokens || !vocabulary->is_special[id])
        return notation_fail(notation, STATUS_UNSUPPORTED,
                             "%llu is not a special token of the model", (unsigned long long)id);
    program_token(notation->program, element->begin, (uint32_t)id, element->end);
    return STATUS_OK;
}

enum status special_read(struct notation *notation, struct element *element) {
    const struct grammar_vocabulary *vocabulary = notation->compile->vocabulary;
    size_t begin = notation->at;
    if (notation->program->in_json)
        return notation_fail(notation, STATUS_UNSUPPORTED,
                             "a special token cannot be part of a JSON string");
    if (notation_take(notation, "<["))
        return notation_read_token_id(notation, element);
    while (!notation_at_end(notation) && notation_peek(notation, 0) != '>' &&
           (unsigned char)notation_peek(notation, 0) > ' ')
        notation->at++;
    if (!notation_take(notation, ">")) {
        notation->at = begin;
        return notation_fail(notation, STATUS_INVALID, "a special token without its '>'");
    }
    struct span text = {notation->source.bytes + begin, notation->at - begin};
    uint32_t token = vocabulary ? grammar_vocabulary_special(vocabulary, text) : GRAMMAR_TOKEN_NONE;
    if (token == GRAMMAR_TOKEN_NONE) {
        notation->at = begin;
        return notation_fail(notation, STATUS_INVALID, "the model has no special token \"%.*s\"",
                             span_shown(text), text.bytes);
    }
    program_token(notation->program, element->begin, token, element->end);
    return STATUS_OK;
}
