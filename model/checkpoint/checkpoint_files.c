/* The members over files: thin shells around the readers. */
#include "model/checkpoint/checkpoint.h"

#include "model/checkpoint/gguf.h"
#include "model/checkpoint/safetensors.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define SAMPLE_BYTES ((uint64_t)64)

void checkpoint_hash_samples(const struct checkpoint *checkpoint, void *state) {
    const struct tensor *tensor;
    for (uint32_t i = 0; (tensor = checkpoint->kind->nth(checkpoint, i)); i++) {
        const unsigned char *data = tensor->data;
        uint64_t n = tensor->n_bytes < SAMPLE_BYTES ? tensor->n_bytes : SAMPLE_BYTES;
        if (n == 0)
            continue;
        XXH3_128bits_update(state, data, n);
        XXH3_128bits_update(state, data + (tensor->n_bytes - n) / 2, n);
        XXH3_128bits_update(state, data + (tensor->n_bytes - n), n);
    }
}

static void end_hash(XXH3_state_t *state, uint8_t half[16]) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
    XXH3_freeState(state);
    memcpy(half, canonical.digest, 16);
}

struct gguf_checkpoint {
    struct checkpoint head;
    struct gguf *gguf; /* owned */
};

static struct gguf *gguf_of(const struct checkpoint *checkpoint) {
    return ((const struct gguf_checkpoint *)checkpoint)->gguf;
}

static const struct tensor *gguf_member_find(const struct checkpoint *checkpoint,
                                             const char *name) {
    return gguf_tensor(gguf_of(checkpoint), name);
}

static const struct tensor *gguf_member_nth(const struct checkpoint *checkpoint, uint32_t n) {
    const struct gguf *gguf = gguf_of(checkpoint);
    return n < gguf->n_tensors ? &gguf->tensors[n] : NULL;
}

/* Size, whole header (metadata and tensor table), samples. Two models that differ in a shape, a
 * key, a type or their training differ in this; a few changed weights in the midst of a tensor may
 * not show, which nobody does by accident. */
static enum status gguf_member_hash(const struct checkpoint *checkpoint, uint64_t seed,
                                    uint8_t half[16]) {
    const struct gguf *gguf = gguf_of(checkpoint);
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return STATUS_NOMEM;
    XXH3_128bits_reset_withSeed(state, seed);
    XXH3_128bits_update(state, &gguf->n_bytes, sizeof gguf->n_bytes);
    XXH3_128bits_update(state, gguf->bytes, gguf->data_offset);
    checkpoint_hash_samples(checkpoint, state);
    end_hash(state, half);
    return STATUS_OK;
}

static enum status gguf_member_check(const struct checkpoint *checkpoint, struct error *error) {
    return gguf_check(gguf_of(checkpoint), error);
}

static void gguf_member_drop(const struct checkpoint *checkpoint) {
    gguf_drop_pages(gguf_of(checkpoint));
}

static void gguf_member_close(struct checkpoint *checkpoint) {
    if (!checkpoint)
        return;
    gguf_close(gguf_of(checkpoint));
    free(checkpoint);
}

static const struct checkpoint_kind kind_gguf = {
    .name = "gguf",
    .find = gguf_member_find,
    .nth = gguf_member_nth,
    .hash = gguf_member_hash,
    .check = gguf_member_check,
    .drop = gguf_member_drop,
    .close = gguf_member_close,
};

enum status checkpoint_from_gguf(struct gguf *gguf, struct checkpoint **checkpoint,
                                 struct error *error) {
    struct gguf_checkpoint *opened = calloc(1, sizeof *opened);
    if (!opened) {
        gguf_close(gguf);
        return error_set(error, STATUS_NOMEM, "no memory for a checkpoint");
    }
    *opened = (struct gguf_checkpoint){.head = {.kind = &kind_gguf}, .gguf = gguf};
    *checkpoint = &opened->head;
    return STATUS_OK;
}

struct safetensors_checkpoint {
    struct checkpoint head;
    struct safetensors *files; /* owned */
};

static struct safetensors *files_of(const struct checkpoint *checkpoint) {
    return ((const struct safetensors_checkpoint *)checkpoint)->files;
}

static const struct tensor *safetensors_member_find(const struct checkpoint *checkpoint,
                                                    const char *name) {
    return safetensors_find(files_of(checkpoint), name);
}

static const struct tensor *safetensors_member_nth(const struct checkpoint *checkpoint,
                                                   uint32_t n) {
    const struct safetensors *files = files_of(checkpoint);
    return n < files->n_tensors ? &files->tensors[n] : NULL;
}

static enum status safetensors_member_hash(const struct checkpoint *checkpoint, uint64_t seed,
                                           uint8_t half[16]) {
    const struct safetensors *files = files_of(checkpoint);
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return STATUS_NOMEM;
    XXH3_128bits_reset_withSeed(state, seed);
    for (uint32_t i = 0; i < files->n_files; i++) {
        const struct safetensors_file *file = &files->files[i];
        XXH3_128bits_update(state, &file->n_bytes, sizeof file->n_bytes);
        XXH3_128bits_update(state, file->bytes, file->data_offset);
    }
    checkpoint_hash_samples(checkpoint, state);
    end_hash(state, half);
    return STATUS_OK;
}

static enum status safetensors_member_check(const struct checkpoint *checkpoint,
                                            struct error *error) {
    return safetensors_check(files_of(checkpoint), error);
}

static void safetensors_member_drop(const struct checkpoint *checkpoint) {
    safetensors_drop_pages(files_of(checkpoint));
}

static void safetensors_member_close(struct checkpoint *checkpoint) {
    if (!checkpoint)
        return;
    safetensors_close(files_of(checkpoint));
    free(checkpoint);
}

static const struct checkpoint_kind kind_safetensors = {
    .name = "safetensors",
    .find = safetensors_member_find,
    .nth = safetensors_member_nth,
    .hash = safetensors_member_hash,
    .check = safetensors_member_check,
    .drop = safetensors_member_drop,
    .close = safetensors_member_close,
};

enum status checkpoint_from_safetensors(const char *path, struct checkpoint **checkpoint,
                                        struct error *error) {
    struct safetensors *files;
    TRY(safetensors_open(path, &files, error));
    struct safetensors_checkpoint *opened = calloc(1, sizeof *opened);
    if (!opened) {
        safetensors_close(files);
        return error_set(error, STATUS_NOMEM, "%s: no memory", path);
    }
    *opened = (struct safetensors_checkpoint){.head = {.kind = &kind_safetensors}, .files = files};
    *checkpoint = &opened->head;
    return STATUS_OK;
}
