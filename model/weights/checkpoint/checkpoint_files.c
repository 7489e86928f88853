/* The members over files: thin shells around the readers. */
#include "model/weights/checkpoint/checkpoint.h"

#include "base/fingerprint.h"
#include "model/gguf/gguf.h"
#include "model/weights/checkpoint/safetensors.h"

#include <stdlib.h>

#define SAMPLE_BYTES ((uint64_t)64)

/* A GGUF file holds a tokenizer as well, whose readers know nothing of this seam. */
struct gguf_checkpoint {
    struct checkpoint head;
    struct gguf *gguf; /* owned */
};

static struct gguf *gguf_of(const struct checkpoint *checkpoint) {
    return ((const struct gguf_checkpoint *)checkpoint)->gguf;
}

static struct safetensors *safetensors_of(const struct checkpoint *checkpoint) {
    return (struct safetensors *)checkpoint;
}

/* Three samples of each of the tensors: reading all bytes would cost as much as loading them. */
static void checkpoint_hash_samples(const struct checkpoint *checkpoint,
                                    struct fingerprint *fingerprint) {
    const struct tensor *tensor;
    for (uint32_t i = 0; (tensor = checkpoint->kind->nth(checkpoint, i)); i++) {
        const unsigned char *data = tensor->data;
        uint64_t n = tensor->n_bytes < SAMPLE_BYTES ? tensor->n_bytes : SAMPLE_BYTES;
        fingerprint_add(fingerprint, data, n);
        fingerprint_add(fingerprint, data + (tensor->n_bytes - n) / 2, n);
        fingerprint_add(fingerprint, data + (tensor->n_bytes - n), n);
    }
}

/* Size, whole header (metadata and tensor table), samples. Two models that differ in a shape, a
 * key, a type or their training differ in this; a few changed weights in the midst of a tensor may
 * not show, which does not happen by accident. Parts count each by itself, as shards do, so a set differs from
 * the same file in one piece: else the whole file would need another fingerprint than other releases
 * give it, and a cluster could not be upgraded host by host. */
static void gguf_member_hash(const struct checkpoint *checkpoint, struct fingerprint *fingerprint) {
    const struct gguf *gguf = gguf_of(checkpoint);
    for (uint32_t i = 0; i <= gguf->n_others; i++) {
        const struct gguf *part = gguf_part(gguf, i);
        fingerprint_add(fingerprint, &part->n_bytes, sizeof part->n_bytes);
        fingerprint_add(fingerprint, part->bytes, part->data_offset);
    }
    checkpoint_hash_samples(checkpoint, fingerprint);
}

static void safetensors_member_hash(const struct checkpoint *checkpoint,
                                    struct fingerprint *fingerprint) {
    const struct safetensors *files = safetensors_of(checkpoint);
    for (uint32_t i = 0; i < files->n_files; i++) {
        const struct safetensors_file *file = &files->files[i];
        fingerprint_add(fingerprint, &file->n_bytes, sizeof file->n_bytes);
        fingerprint_add(fingerprint, file->bytes, file->data_offset);
    }
    checkpoint_hash_samples(checkpoint, fingerprint);
}

static void gguf_member_close(struct checkpoint *checkpoint) {
    gguf_close(gguf_of(checkpoint));
    free(checkpoint);
}

static void safetensors_member_close(struct checkpoint *checkpoint) {
    safetensors_close(safetensors_of(checkpoint));
}

/* The hooks of a kind that only hand on to its reader, and its table. */
#define KIND_OF_FILES(type, find_tensor)                                                           \
    static const struct tensor *type##_member_find(const struct checkpoint *checkpoint,            \
                                                   const char *name) {                             \
        return find_tensor(type##_of(checkpoint), name);                                           \
    }                                                                                              \
    static const struct tensor *type##_member_nth(const struct checkpoint *checkpoint,             \
                                                  uint32_t n) {                                    \
        const struct type *files = type##_of(checkpoint);                                          \
        return n < files->n_tensors ? &files->tensors[n] : NULL;                                   \
    }                                                                                              \
    static enum status type##_member_check(const struct checkpoint *checkpoint,                    \
                                           struct error *error) {                                  \
        return type##_check(type##_of(checkpoint), error);                                         \
    }                                                                                              \
    static void type##_member_drop(const struct checkpoint *checkpoint) {                          \
        type##_drop_pages(type##_of(checkpoint));                                                  \
    }                                                                                              \
    static const struct checkpoint_kind kind_##type = {                                            \
        .name = #type,                                                                             \
        .find = type##_member_find,                                                                \
        .nth = type##_member_nth,                                                                  \
        .hash = type##_member_hash,                                                                \
        .check = type##_member_check,                                                              \
        .drop = type##_member_drop,                                                                \
        .close = type##_member_close,                                                              \
    };
KIND_OF_FILES(gguf, gguf_tensor)
KIND_OF_FILES(safetensors, safetensors_find)

enum status checkpoint_from_gguf(struct gguf *gguf, struct checkpoint **checkpoint,
                                 struct error *error) {
    struct gguf_checkpoint *made = calloc(1, sizeof *made);
    if (!made) {
        enum status status = error_set(error, STATUS_NOMEM, "%s: no memory", gguf->name);
        gguf_close(gguf);
        return status;
    }
    *made = (struct gguf_checkpoint){.head.kind = &kind_gguf, .gguf = gguf};
    *checkpoint = &made->head;
    return STATUS_OK;
}

enum status checkpoint_from_safetensors(const char *path, struct checkpoint **checkpoint,
                                        struct error *error) {
    struct safetensors *files;
    TRY(safetensors_open(path, &files, error));
    files->head.kind = &kind_safetensors;
    *checkpoint = &files->head;
    return STATUS_OK;
}
