#include "model/weights/dummy.h"

/* A pool of each kind of content is 16 MiB of a memfd, mapped one behind the other into address
 * space as long as the longest tensor; tensors begin at different places of it. Logits of such a
 * model mean nothing, but their arithmetic is finite: values are small, gains one,
 * scales positive. */
#include "base/arena.h"
#include "base/checked.h"
#include "base/fingerprint.h"
#include "base/map.h"
#include "base/random.h"
#include "base/span.h"
#include "model/weights/checkpoint/checkpoint.h"
#include "model/weights/config/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#define POOL_BYTES   ((uint64_t)16 << 20)
#define REGIONS_MAX  64u /* of a pool: each is at least twice the one before */
#define TENSORS_MAX  131072u
#define ARENA_BYTES  ((size_t)512 << 20)
#define REGION_ALIGN 64u

enum content {
    VALUES_F32,
    VALUES_F16,
    VALUES_BF16,
    ONES_F32,
    ONES_F16,
    ONES_BF16,
    SCALES_F16,
    INTS,
    ZEROS_4,    /* every field is 8: AWQ, GPTQ v2 */
    ZEROS_4_V1, /* 7, which means 8 */
    ZEROS_8,
    ZEROS_8_V1,
    N_CONTENTS
};

struct region {
    unsigned char *bytes;
    uint64_t n_bytes;
};

struct dummy_pool {
    int fd; /* -1: not made yet */
    uint32_t n_regions;
    struct region regions[REGIONS_MAX]; /* the last is the longest; all stay, tensors lie in them */
};

struct dummy {
    struct checkpoint head;
    uint64_t seed;
    const char *plain; /* constant: "f32", "f16" or "bf16" */
    struct model_config config;
    struct dummy_pool pools[N_CONTENTS];
    struct arena arena;      /* the tensors */
    struct tensor **tensors; /* owned (n_tensors), in the order they were asked for */
    struct map by_name;      /* hash of name -> index */
    uint32_t n_tensors;
    uint32_t size;
};

/* IEEE binary16, rounded to nearest; what is below its normal numbers becomes zero. For the small
 * finite values of the pools. */
static uint16_t dummy_half_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t magnitude = (bits & 0x7fffffff) + 0x1000;
    if (magnitude < 113u << 23)
        return (uint16_t)sign;
    return (uint16_t)(sign | (magnitude - (112u << 23)) >> 13);
}

static uint16_t dummy_brain_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x8000u) >> 16);
}

/* About normal with a deviation of 0.02: the sum of four uniform numbers (Irwin-Hall). */
static float dummy_small_normal(uint64_t bits) {
    float sum = 0;
    for (unsigned i = 0; i < 4; i++)
        sum += (float)(bits >> 16 * i & 0xffff) * 0x1p-16f;
    return (sum - 2) * (0.02f * 1.7320508f);
}

/* Of the contents that are not drawn. */
static const uint32_t constant_words[N_CONTENTS] = {
    [ONES_F32] = 0x3f800000u,   [ONES_F16] = 0x3c003c00u,   [ONES_BF16] = 0x3f803f80u,
    [ZEROS_4] = 0x88888888u,    [ZEROS_4_V1] = 0x77777777u, [ZEROS_8] = 0x80808080u,
    [ZEROS_8_V1] = 0x7f7f7f7fu,
};

static uint32_t dummy_draw_word(enum content content, uint64_t bits) {
    float value = dummy_small_normal(bits);
    uint32_t word;
    switch (content) {
    case VALUES_F32:
        memcpy(&word, &value, sizeof word);
        return word;
    case VALUES_F16:
        return dummy_half_of(value) | (uint32_t)dummy_half_of(-0.5f * value) << 16;
    case VALUES_BF16:
        return dummy_brain_of(value) | (uint32_t)dummy_brain_of(-0.5f * value) << 16;
    case SCALES_F16:
        /* With integers around 8 (or 128) the products have about the values' deviation. */
        return dummy_half_of(0.002f + 0.002f * random_unit(bits)) |
               (uint32_t)dummy_half_of(0.002f + 0.002f * random_unit(mix64(bits))) << 16;
    default:
        return (uint32_t)bits; /* INTS */
    }
}

static void dummy_fill_pool(enum content content, uint64_t seed, unsigned char *bytes) {
    struct random random = {.state = mix64(seed ^ content)};
    for (uint64_t at = 0; at < POOL_BYTES; at += 4) {
        uint32_t word = constant_words[content];
        if (word == 0)
            word = dummy_draw_word(content, random_next(&random));
        memcpy(bytes + at, &word, sizeof word);
    }
}

static enum status dummy_make_pool(struct dummy *dummy, enum content content, struct error *error) {
    struct dummy_pool *pool = &dummy->pools[content];
    int fd = memfd_create("tandem-dummy", MFD_CLOEXEC);
    void *bytes = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, (off_t)POOL_BYTES) == 0)
        bytes = mmap(NULL, POOL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) {
        if (fd >= 0)
            close(fd);
        return error_set(error, STATUS_NOMEM, "no memory for a dummy model's values: %s",
                         strerror(errno));
    }
    dummy_fill_pool(content, dummy->seed, bytes);
    munmap(bytes, POOL_BYTES);
    pool->fd = fd;
    return STATUS_OK;
}

/* Address space of n_bytes, the pool again and again. */
static enum status dummy_grow_pool(struct dummy_pool *pool, uint64_t n_bytes, struct error *error) {
    if (pool->n_regions == REGIONS_MAX)
        return error_set(error, STATUS_LIMIT, "a dummy model with too many lengths of tensors");
    unsigned char *bytes =
        mmap(NULL, n_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bytes == MAP_FAILED)
        return error_set(error, STATUS_NOMEM, "no address space for a dummy tensor");
    for (uint64_t at = 0; at < n_bytes; at += POOL_BYTES) {
        if (mmap(bytes + at, POOL_BYTES, PROT_READ, MAP_SHARED | MAP_FIXED, pool->fd, 0) ==
            MAP_FAILED) {
            munmap(bytes, n_bytes);
            return error_set(error, STATUS_NOMEM, "no address space for a dummy tensor");
        }
    }
    pool->regions[pool->n_regions++] = (struct region){bytes, n_bytes};
    return STATUS_OK;
}

/* n bytes of the content. They start where the name says, so that tensors differ. */
static enum status dummy_place(struct dummy *dummy, enum content content, const char *name,
                               uint64_t n, const void **data, struct error *error) {
    struct dummy_pool *pool = &dummy->pools[content];
    uint64_t wanted;
    if (!checked_add(n, 2 * POOL_BYTES - 1, &wanted) || wanted > SIZE_MAX / 4)
        return error_set(error, STATUS_LIMIT, "tensor %s is larger than memory can be", name);
    wanted -= wanted % POOL_BYTES;
    if (pool->fd < 0)
        TRY(dummy_make_pool(dummy, content, error));
    const struct region *last = pool->n_regions ? &pool->regions[pool->n_regions - 1] : NULL;
    if (!last || last->n_bytes < wanted) {
        uint64_t twice = last ? 2 * last->n_bytes : 0;
        TRY(dummy_grow_pool(pool, wanted > twice ? wanted : twice, error));
        last = &pool->regions[pool->n_regions - 1];
    }
    uint64_t start = XXH3_64bits_withSeed(name, strlen(name), dummy->seed) % POOL_BYTES;
    *data = last->bytes + (start - start % REGION_ALIGN);
    return STATUS_OK;
}

/* Norm gains are ones, and a quantized layer's parts go by their suffix. */
static enum content dummy_content_of(const struct dummy *dummy, const char *name,
                                     const char *format) {
    bool v1 = dummy->config.quant.method == CONFIG_METHOD_GPTQ && !dummy->config.quant.zero_as_is;
    struct span text = span_of(name);
    if (span_ends(text, ".qzeros"))
        return dummy->config.quant.bits == 8 ? (v1 ? ZEROS_8_V1 : ZEROS_8)
                                             : (v1 ? ZEROS_4_V1 : ZEROS_4);
    if (span_ends(text, ".scales"))
        return SCALES_F16;
    if (strcmp(format, "i32") == 0)
        return INTS;
    bool is_gain = span_ends(text, ".weight") && (strstr(name, "norm") || strstr(name, ".ln_1") ||
                                                  strstr(name, ".ln_2") || strstr(name, ".ln_f"));
    if (strcmp(format, "f32") == 0)
        return is_gain ? ONES_F32 : VALUES_F32;
    if (strcmp(format, "f16") == 0)
        return is_gain ? ONES_F16 : VALUES_F16;
    return is_gain ? ONES_BF16 : VALUES_BF16;
}

static struct map_key dummy_hash_name(const struct dummy *dummy, const char *name) {
    XXH128_hash_t hash = XXH3_128bits_withSeed(name, strlen(name), dummy->seed);
    return (struct map_key){.hi = hash.high64, .lo = hash.low64};
}

static const struct tensor *dummy_find(const struct checkpoint *checkpoint, const char *name) {
    const struct dummy *dummy = (const struct dummy *)checkpoint;
    uint32_t index;
    if (map_get(&dummy->by_name, dummy_hash_name(dummy, name), &index) != STATUS_OK)
        return NULL;
    return dummy->tensors[index];
}

static const struct tensor *dummy_nth_tensor(const struct checkpoint *checkpoint, uint32_t n) {
    const struct dummy *dummy = (const struct dummy *)checkpoint;
    return n < dummy->n_tensors ? dummy->tensors[n] : NULL;
}

/* Room for twice as many tensors. */
static enum status dummy_grow(struct dummy *dummy) {
    uint32_t size = dummy->size ? 2 * dummy->size : 256;
    struct tensor **tensors = realloc(dummy->tensors, size * sizeof *tensors);
    if (!tensors)
        return STATUS_NOMEM;
    dummy->tensors = tensors;
    struct map by_name;
    TRY(map_init(&by_name, size, dummy->seed));
    for (uint32_t i = 0; i < dummy->n_tensors; i++)
        TRY(map_put(&by_name, dummy_hash_name(dummy, tensors[i]->name), i)); /* has room for all */
    map_fini(&dummy->by_name);
    dummy->by_name = by_name;
    dummy->size = size;
    return STATUS_OK;
}

static enum status dummy_append_tensor(struct dummy *dummy, struct tensor *tensor,
                                       struct error *error) {
    if (dummy->n_tensors == TENSORS_MAX)
        return error_set(error, STATUS_LIMIT, "a dummy model of more than %u tensors", TENSORS_MAX);
    if (dummy->n_tensors == dummy->size && dummy_grow(dummy) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "no memory for a dummy tensor");
    TRY(map_put(&dummy->by_name, dummy_hash_name(dummy, tensor->name), dummy->n_tensors));
    dummy->tensors[dummy->n_tensors++] = tensor;
    return STATUS_OK;
}

static enum status dummy_make(struct checkpoint *checkpoint, const struct checkpoint_want *want,
                              const struct tensor **tensor, struct error *error) {
    struct dummy *dummy = (struct dummy *)checkpoint;
    const char *format = want->format ? want->format : dummy->plain;
    uint64_t n_bytes = strcmp(format, "f32") == 0 || strcmp(format, "i32") == 0 ? 4 : 2;
    size_t n = strlen(want->name);
    for (uint32_t i = 0; i < want->n_dims; i++)
        if (!checked_mul(n_bytes, want->shape[i], &n_bytes))
            return error_set(error, STATUS_LIMIT, "tensor %.128s is larger than memory can be",
                             want->name);
    if (n > TENSOR_NAME_MAX)
        return error_set(error, STATUS_LIMIT, "the name of tensor %.128s is too long", want->name);
    struct tensor *made = arena_alloc(&dummy->arena, sizeof *made);
    if (!made)
        return error_set(error, STATUS_NOMEM, "no memory for a dummy tensor");
    memcpy(made->name, want->name, n + 1);
    made->format = format;
    made->n_dims = want->n_dims;
    memcpy(made->shape, want->shape, sizeof made->shape);
    made->n_bytes = n_bytes;
    TRY(dummy_place(dummy, dummy_content_of(dummy, made->name, format), made->name, n_bytes,
                    &made->data, error));
    TRY(dummy_append_tensor(dummy, made, error));
    *tensor = made;
    return STATUS_OK;
}

static void dummy_hash(const struct checkpoint *checkpoint, struct fingerprint *fingerprint) {
    const struct dummy *dummy = (const struct dummy *)checkpoint;
    const struct model_config *config = &dummy->config;
    const uint32_t numbers[] = {config->n_layers,       config->dim,
                                config->n_heads,        config->n_kv_heads,
                                config->head_dim,       config->ffn_dim,
                                config->n_vocab,        config->moe.n_experts,
                                config->moe.expert_dim, config->moe.shared_dim,
                                config->quant.method,   config->quant.bits,
                                config->quant.group,    config->quant.zero_as_is};
    fingerprint_add(fingerprint, &dummy->seed, sizeof dummy->seed);
    fingerprint_add(fingerprint, numbers, sizeof numbers);
    fingerprint_add(fingerprint, config->family, strlen(config->family) + 1);
    fingerprint_add(fingerprint, dummy->plain, strlen(dummy->plain) + 1);
}

static enum status dummy_check(const struct checkpoint *checkpoint, struct error *error) {
    (void)checkpoint;
    (void)error;
    return STATUS_OK;
}

static void dummy_drop(const struct checkpoint *checkpoint) {
    const struct dummy *dummy = (const struct dummy *)checkpoint;
    for (unsigned i = 0; i < N_CONTENTS; i++)
        for (uint32_t j = 0; j < dummy->pools[i].n_regions; j++)
            madvise(dummy->pools[i].regions[j].bytes, dummy->pools[i].regions[j].n_bytes,
                    MADV_DONTNEED);
}

static void dummy_close(struct checkpoint *checkpoint) {
    struct dummy *dummy = (struct dummy *)checkpoint;
    if (!dummy)
        return;
    for (unsigned i = 0; i < N_CONTENTS; i++) {
        struct dummy_pool *pool = &dummy->pools[i];
        for (uint32_t j = 0; j < pool->n_regions; j++)
            munmap(pool->regions[j].bytes, pool->regions[j].n_bytes);
        if (pool->fd >= 0)
            close(pool->fd);
    }
    arena_fini(&dummy->arena);
    map_fini(&dummy->by_name);
    free(dummy->tensors);
    free(dummy);
}

static const struct checkpoint_kind kind_dummy = {
    .name = "dummy",
    .find = dummy_find,
    .nth = dummy_nth_tensor,
    .make = dummy_make,
    .hash = dummy_hash,
    .check = dummy_check,
    .drop = dummy_drop,
    .close = dummy_close,
};

enum status dummy_open(const struct model_config *config, uint64_t seed,
                       struct checkpoint **checkpoint, struct error *error) {
    struct dummy *dummy = calloc(1, sizeof *dummy);
    if (!dummy)
        return error_set(error, STATUS_NOMEM, "no memory for a dummy model");
    dummy->head.kind = &kind_dummy;
    dummy->seed = seed;
    dummy->config = *config;
    dummy->plain = strcmp(config->dtype, "f32") == 0   ? "f32"
                   : strcmp(config->dtype, "f16") == 0 ? "f16"
                                                       : "bf16";
    for (unsigned i = 0; i < N_CONTENTS; i++)
        dummy->pools[i].fd = -1;
    arena_init(&dummy->arena, ARENA_BYTES);
    if (dummy_grow(dummy) != STATUS_OK) {
        dummy_close(&dummy->head);
        return error_set(error, STATUS_NOMEM, "no memory for a dummy model");
    }
    *checkpoint = &dummy->head;
    return STATUS_OK;
}
