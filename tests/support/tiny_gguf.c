#include "tests/support/tiny_gguf.h"

#include "base/assert.h"
#include "base/random.h"
#include "tests/support/gguf_builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_LAYERS = 2 };

static const struct shape {
    uint32_t dim, n_heads, n_kv_heads, head_dim, ffn_dim;
} shapes[4] = {{96, 3, 1, 32, 160}, {256, 8, 2, 32, 416}, {45, 8, 2, 10, 43}, {96, 4, 2, 64, 160}};

static const struct shape *shape_of(const struct tiny_gguf *tiny) {
    return &shapes[tiny->odd ? 2 : tiny->large_heads ? 3 : tiny->wide];
}

struct tensor_spec {
    char name[64];
    uint32_t n_rows; /* 0: a vector */
    uint32_t n_columns;
};

/* Formats by name: ggml's type number, elements and bytes of a block. */
static const struct format {
    const char *name;
    uint32_t type;
    uint32_t n;
    uint32_t n_bytes;
} formats[] = {
    {"f32", 0, 1, 4},    {"f16", 1, 1, 2},    {"bf16", 30, 1, 2},
    {"q4_0", 2, 32, 18}, {"q4_1", 3, 32, 20}, {"q8_0", 8, 32, 34},
};

static const struct format *find_format(const char *name) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    ASSERT(!"no such format");
    abort();
}

static void put16(unsigned char *at, uint32_t value) {
    at[0] = (unsigned char)value;
    at[1] = (unsigned char)(value >> 8);
}

/* Uniform in (-bound, bound). */
static float number(struct random *random, float bound) {
    return (2 * random_unit(random_next(random)) - 1) * bound;
}

/* A binary16 in [2^-9, 2^-5): scales of this size keep the activations near 1. */
static uint32_t half(struct random *random) {
    return (uint32_t)((6 + random_below(random, 4)) << 10 | random_below(random, 1024));
}

static void put_float(unsigned char *at, const struct format *format, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (format->type == 0) {
        memcpy(at, &bits, sizeof bits);
    } else if (format->type == 30) {
        put16(at, bits >> 16);
    } else { /* binary16 of a normal number below 1, cut */
        int exponent = (int)(bits >> 23 & 255) - 127 + 15;
        put16(at, exponent <= 0
                      ? 0
                      : (bits >> 31) << 15 | (uint32_t)exponent << 10 | (bits >> 13 & 1023));
    }
}

static void put_matrix(unsigned char *at, const struct format *format, uint64_t n,
                       struct random *random) {
    for (uint64_t i = 0; i < n; i += format->n, at += format->n_bytes) {
        if (format->n == 1) {
            put_float(at, format, number(random, 0.2f));
            continue;
        }
        for (uint32_t b = 2; b < format->n_bytes; b++)
            at[b] = (unsigned char)random_next(random);
        put16(at, format->type == 8 ? half(random) - (3u << 10) : half(random));
        if (format->type == 3) /* a negative minimum in the midst of the values */
            put16(at + 2, (half(random) + (2u << 10)) | 0x8000u);
    }
}

static uint32_t list_tensors(struct tensor_spec *specs, const struct tiny_gguf *tiny) {
    const struct shape *shape = shape_of(tiny);
    const uint32_t dim = shape->dim, ffn_dim = shape->ffn_dim;
    const uint32_t q_dim = shape->n_heads * shape->head_dim;
    const uint32_t kv_dim = shape->n_kv_heads * shape->head_dim;
    const struct {
        const char *name;
        uint32_t n_rows, n_columns;
    } of_layer[] = {
        {"attn_norm", 0, dim},      {"attn_q", q_dim, dim},      {"attn_k", kv_dim, dim},
        {"attn_v", kv_dim, dim},    {"attn_output", dim, q_dim}, {"ffn_norm", 0, dim},
        {"ffn_gate", ffn_dim, dim}, {"ffn_up", ffn_dim, dim},    {"ffn_down", dim, ffn_dim},
    };
    uint32_t n = 0;
    specs[n++] = (struct tensor_spec){"token_embd.weight", TINY_N_VOCAB, dim};
    specs[n++] = (struct tensor_spec){"output_norm.weight", 0, dim};
    if (!tiny->tied_head)
        specs[n++] = (struct tensor_spec){"output.weight", TINY_N_VOCAB, dim};
    for (uint32_t layer = 0; layer < N_LAYERS; layer++) {
        for (size_t i = 0; i < sizeof of_layer / sizeof *of_layer; i++, n++) {
            specs[n] = (struct tensor_spec){"", of_layer[i].n_rows, of_layer[i].n_columns};
            snprintf(specs[n].name, sizeof specs[n].name, "blk.%u.%s.weight", layer,
                     of_layer[i].name);
        }
    }
    return n;
}

/* Byte tokens spelled in the byte-level alphabet (openai/gpt-2 encoder.py, bytes_to_unicode). */
static void put_tokens(struct gguf_builder *builder) {
    static char spelled[TINY_N_VOCAB][8];
    const char *tokens[TINY_N_VOCAB];
    int32_t kinds[TINY_N_VOCAB];
    uint32_t next = 256;
    for (uint32_t byte = 0; byte < 256; byte++) {
        bool shown = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
        uint32_t point = shown ? byte : next++;
        if (point < 0x80)
            snprintf(spelled[byte], sizeof spelled[byte], "%c", (int)point);
        else
            snprintf(spelled[byte], sizeof spelled[byte], "%c%c", (int)(0xc0 | point >> 6),
                     (int)(0x80 | (point & 63)));
    }
    for (uint32_t i = 0; i < TINY_N_VOCAB; i++) {
        if (i >= 256)
            snprintf(spelled[i], sizeof spelled[i], "<s%u>", i - 256);
        tokens[i] = spelled[i];
        kinds[i] = i < 256 ? 1 : 3;
    }
    gguf_builder_strings(builder, "tokenizer.ggml.tokens", tokens, TINY_N_VOCAB);
    gguf_builder_i32s(builder, "tokenizer.ggml.token_type", kinds, TINY_N_VOCAB);
}

static void put_values(struct gguf_builder *builder, const struct tiny_gguf *tiny) {
    const struct shape *shape = shape_of(tiny);
    gguf_builder_string(builder, "general.architecture", "llama");
    gguf_builder_u32(builder, "llama.block_count", N_LAYERS);
    gguf_builder_u32(builder, "llama.embedding_length", shape->dim);
    gguf_builder_u32(builder, "llama.feed_forward_length", shape->ffn_dim);
    gguf_builder_u32(builder, "llama.context_length", tiny->context ? tiny->context : 512);
    gguf_builder_u32(builder, "llama.attention.head_count", shape->n_heads);
    gguf_builder_u32(builder, "llama.attention.head_count_kv", shape->n_kv_heads);
    if (tiny->odd || tiny->large_heads) { /* else what the heads share of the width */
        gguf_builder_u32(builder, "llama.attention.key_length", shape->head_dim);
        gguf_builder_u32(builder, "llama.attention.value_length", shape->head_dim);
    }
    gguf_builder_f32(builder, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    gguf_builder_f32(builder, "llama.rope.freq_base", 10000);
    gguf_builder_string(builder, "tokenizer.ggml.model", "gpt2");
    gguf_builder_string(builder, "tokenizer.ggml.pre", "smollm");
    put_tokens(builder);
    const char *merges[] = {"a b"};
    gguf_builder_strings(builder, "tokenizer.ggml.merges", merges, 0);
    gguf_builder_u32(builder, "tokenizer.ggml.bos_token_id", 257);
    gguf_builder_u32(builder, "tokenizer.ggml.eos_token_id", 258);
}

static uint32_t spoil(struct tensor_spec *specs, uint32_t n, const struct tiny_gguf *tiny) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (tiny->without && strcmp(specs[i].name, tiny->without) == 0)
            continue;
        if (tiny->one_short && strcmp(specs[i].name, tiny->one_short) == 0) {
            if (specs[i].n_rows)
                specs[i].n_rows--;
            else
                specs[i].n_columns--;
        }
        specs[kept++] = specs[i];
    }
    return kept;
}

void tiny_gguf_write(struct buf *file, const struct tiny_gguf *tiny) {
    struct gguf_builder builder;
    struct tensor_spec specs[3 + 9 * N_LAYERS];
    uint64_t offsets[3 + 9 * N_LAYERS];
    const struct format *matrix = find_format(tiny->format), *vector = find_format("f32");
    uint32_t n = list_tensors(specs, tiny);
    uint64_t at = 0;
    n = spoil(specs, n, tiny);
    gguf_builder_init(&builder);
    put_values(&builder, tiny);
    for (uint32_t i = 0; i < n; i++) {
        const struct format *format = specs[i].n_rows ? matrix : vector;
        uint64_t n_elements =
            (uint64_t)(specs[i].n_rows ? specs[i].n_rows : 1) * specs[i].n_columns;
        uint64_t dims[] = {specs[i].n_columns, specs[i].n_rows};
        offsets[i] = at;
        gguf_builder_tensor_raw(&builder, specs[i].name, specs[i].n_rows ? 2 : 1, dims,
                                format->type, at);
        at += (n_elements / format->n * format->n_bytes + 31) / 32 * 32;
    }
    gguf_builder_finish(&builder, at);

    struct random random = {tiny->seed};
    unsigned char *data = (unsigned char *)builder.bytes.data + builder.bytes.n - at;
    for (uint32_t i = 0; i < n; i++) {
        if (specs[i].n_rows) {
            put_matrix(data + offsets[i], matrix, (uint64_t)specs[i].n_rows * specs[i].n_columns,
                       &random);
            continue;
        }
        for (uint32_t c = 0; c < specs[i].n_columns; c++)
            put_float(data + offsets[i] + c * 4, vector, 1 + number(&random, 0.25f));
    }
    buf_append(file, builder.bytes.data, builder.bytes.n);
    ASSERT(buf_status(file) == STATUS_OK);
    gguf_builder_fini(&builder);
}
