/* tests/support/tokenize_cli.c: `tandem model tokenize` on its own, for the tokenizer's oracle. */
#include "model/tokenizer.h"
#include "tools/model_tokenize.h"

#include <string.h>

int main(int argc, char **argv) {
    const char *path = NULL;
    unsigned flags = TOKENIZER_ADD_BOS;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--no-special") == 0)
            flags &= ~(unsigned)TOKENIZER_ADD_BOS;
        else if (strcmp(argv[i], "--parse-special") == 0)
            flags |= TOKENIZER_PARSE_SPECIAL;
        else if (argv[i][0] != '-' && !path)
            path = argv[i];
        else
            return 2;
    }
    return path ? model_tokenize(path, flags, stdin, stdout) : 2;
}
