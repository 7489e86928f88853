/* tests/support/tiny_gguf_cli.c: writes a tiny random llama for scripts.
 *
 *   tiny_gguf_cli FORMAT SEED tied|own FILE [wide|odd] */
#include "tests/support/tiny_gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    struct buf file;
    bool wide = argc == 6 && strcmp(argv[5], "wide") == 0;
    bool odd = argc == 6 && strcmp(argv[5], "odd") == 0;
    if (argc != 5 && !wide && !odd) {
        fprintf(stderr, "usage: tiny_gguf_cli FORMAT SEED tied|own FILE [wide|odd]\n");
        return 78;
    }
    buf_init(&file, 0);
    tiny_gguf_write(&file, &(struct tiny_gguf){.format = argv[1],
                                               .seed = strtoull(argv[2], NULL, 10),
                                               .tied_head = strcmp(argv[3], "tied") == 0,
                                               .wide = wide,
                                               .odd = odd});
    FILE *out = fopen(argv[4], "wb");
    bool written = out && fwrite(file.data, 1, file.n, out) == file.n;
    if (!out || fclose(out) != 0 || !written) {
        fprintf(stderr, "tiny_gguf_cli: cannot write %s\n", argv[4]);
        return 1;
    }
    buf_fini(&file);
    return 0;
}
