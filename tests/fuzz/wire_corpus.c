/* Writes the corpus of fuzz_wire: one input per message type. Usage: wire_corpus FOLDER */
#include "proto/codec.h"
#include "tests/support/message_random.h"

#include <stdio.h>

#define INPUT_BYTES_MAX 2048

static int write_input(const char *folder, const char *name, const struct frames *frames) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file)
        return 1;
    uint32_t n_raw = (uint32_t)frames->n_raw;
    fwrite(&n_raw, sizeof n_raw, 1, file);
    fwrite(frames->head, 1, frames->n_head, file);
    if (n_raw > 0)
        fwrite(frames->raw, 1, n_raw, file);
    return fclose(file) != 0;
}

int main(int argc, char **argv) {
    struct random random = {.state = 1};
    struct codec codec;
    struct arena arena;
    int n_failed = 0;
    if (argc != 2 || codec_init(&codec) != STATUS_OK)
        return 1;
    arena_init(&arena, 64u << 20);
    for (int type = MESSAGE_NONE + 1; type < MESSAGE_TYPES; type++) {
        struct message message;
        struct frames frames = {0};
        do { /* small inputs are mutated faster */
            arena_reset(&arena);
            message_random(&random, &arena, (enum message_type)type, &message);
            if (codec_encode(&codec, &message, &frames) != STATUS_OK)
                return 1;
        } while (frames.n_head + frames.n_raw > INPUT_BYTES_MAX);
        n_failed += write_input(argv[1], message_name(message.type), &frames);
    }
    arena_fini(&arena);
    codec_fini(&codec);
    return n_failed != 0;
}
