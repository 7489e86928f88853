/* The terminals of Lark's grammars/common.lark, as what they match from end to end. */
#include "model/text/grammar/notation/lark.h"

#define INT      "[0-9]+"
#define DECIMAL  "([0-9]+\\.[0-9]*|\\.[0-9]+)"
#define EXPONENT "([eE][+-]?[0-9]+)"
#define FLOAT    "([0-9]+" EXPONENT "|" DECIMAL EXPONENT "?)"
#define NUMBER   "(" FLOAT "|" INT ")"

static const struct {
    const char *name;
    const char *expression;
} terminals[] = {
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[0-9a-fA-F]"},
    {"INT", INT},
    {"SIGNED_INT", "[+-]?" INT},
    {"DECIMAL", DECIMAL},
    {"FLOAT", FLOAT},
    {"SIGNED_FLOAT", "[+-]?" FLOAT},
    {"NUMBER", NUMBER},
    {"SIGNED_NUMBER", "[+-]?" NUMBER},
    {"ESCAPED_STRING", "\"([^\"\\\\\\n]|\\\\[^\\n])*\""},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[a-zA-Z]"},
    {"WORD", "[a-zA-Z]+"},
    {"CNAME", "[_a-zA-Z][_a-zA-Z0-9]*"},
    {"WS_INLINE", "[ \\t]+"},
    {"WS", "[ \\t\\f\\r\\n]+"},
    {"CR", "\\r"},
    {"LF", "\\n"},
    {"NEWLINE", "(\\r?\\n)+"},
    {"SH_COMMENT", "#[^\\n]*"},
    {"CPP_COMMENT", "//[^\\n]*"},
    {"C_COMMENT", "/\\*([^*]|\\*+[^*/])*\\*+/"},
    {"SQL_COMMENT", "--[^\\n]*"},
};

const char *lark_common(struct span name) {
    for (unsigned i = 0; i < sizeof terminals / sizeof *terminals; i++)
        if (span_is(name, terminals[i].name))
            return terminals[i].expression;
    return NULL;
}
