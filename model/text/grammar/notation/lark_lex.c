/* Blanks and names of Lark. */
#include "model/text/grammar/notation/lark.h"

void lark_skip_blank(struct lark *lark, bool takes_lines) {
    struct notation *notation = &lark->notation;
    for (;;) {
        char c = notation_peek(notation, 0);
        if (c == ' ' || c == '\t' || (takes_lines && (c == '\n' || c == '\r'))) {
            notation->at++;
        } else if (c == '#' || (c == '/' && notation_peek(notation, 1) == '/')) {
            while (!notation_at_end(notation) && notation_peek(notation, 0) != '\n')
                notation->at++;
        } else {
            return;
        }
    }
}

static bool lark_is_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

struct span lark_name(struct lark *lark) {
    struct notation *notation = &lark->notation;
    size_t begin = notation->at;
    char first = notation_peek(notation, 0);
    if ((first >= '0' && first <= '9') || first == '-')
        return (struct span){0};
    while (lark_is_name_char(notation_peek(notation, 0)) &&
           !(notation_peek(notation, 0) == '-' && notation_peek(notation, 1) == '>'))
        notation->at++;
    return (struct span){notation->source.bytes + begin, notation->at - begin};
}

bool lark_is_terminal_name(struct span name) {
    size_t i = 0;
    while (i < name.n && name.bytes[i] == '_')
        i++;
    return i < name.n && name.bytes[i] >= 'A' && name.bytes[i] <= 'Z';
}
