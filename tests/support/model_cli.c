/* tests/support/model_cli.c: `tandem model tokenize`, `detokenize`, `render`, `info` of a template and
 * `export-tokenizer` on their own, for the oracles. */
#include "model/text/tokenizer/tokenizer.h"
#include "tools/cli/model/model_export.h"
#include "tools/cli/model/model_render.h"
#include "tools/cli/model/model_tokenize.h"

#include <string.h>

int main(int argc, char **argv) {
    const char *path = NULL;
    unsigned flags = TOKENIZER_ADD_BOS;
    bool skip_special = false;
    if (argc == 4 && strcmp(argv[1], "export-tokenizer") == 0)
        return model_export(argv[2], argv[3]);
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--no-special") == 0)
            flags &= ~(unsigned)TOKENIZER_ADD_BOS;
        else if (strcmp(argv[i], "--parse-special") == 0)
            flags |= TOKENIZER_PARSE_SPECIAL;
        else if (strcmp(argv[i], "--skip-special") == 0)
            skip_special = true;
        else if (argv[i][0] != '-' && !path)
            path = argv[i];
        else
            return 2;
    }
    if (path && strcmp(argv[1], "tokenize") == 0)
        return model_tokenize(path, flags, stdin, stdout);
    if (path && strcmp(argv[1], "detokenize") == 0)
        return model_detokenize(path, skip_special, stdin, stdout);
    if (path && strcmp(argv[1], "render") == 0)
        return model_render(path, stdin, stdout);
    if (path && strcmp(argv[1], "info") == 0)
        return model_render_about(path, stdout);
    fprintf(stderr, "usage: model_cli tokenize|render MODEL [--no-special] [--parse-special]\n"
                    "       model_cli detokenize MODEL [--skip-special]\n"
                    "       model_cli info TEMPLATE\n"
                    "       model_cli export-tokenizer MODEL FOLDER\n");
    return 2;
}
