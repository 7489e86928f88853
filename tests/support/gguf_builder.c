#include "tests/support/gguf_builder.h"

#include "base/assert.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

enum { U32 = 4, I32 = 5, F32 = 6, BOOL = 7, STRING = 8, ARRAY = 9 };

void gguf_builder_init(struct gguf_builder *builder) {
    *builder = (struct gguf_builder){0};
    buf_init(&builder->bytes, 0);
    buf_append(&builder->bytes, "GGUF", 4);
    gguf_builder_u32_raw(builder, 3);
    gguf_builder_u64_raw(builder, 0);
    gguf_builder_u64_raw(builder, 0);
}

void gguf_builder_fini(struct gguf_builder *builder) {
    buf_fini(&builder->bytes);
}

static void append(struct gguf_builder *builder, const void *bytes, size_t n) {
    buf_append(&builder->bytes, bytes, n);
    ASSERT(buf_status(&builder->bytes) == STATUS_OK);
}

void gguf_builder_u32_raw(struct gguf_builder *builder, uint32_t value) {
    append(builder, &value, sizeof value);
}

void gguf_builder_u64_raw(struct gguf_builder *builder, uint64_t value) {
    append(builder, &value, sizeof value);
}

void gguf_builder_text_raw(struct gguf_builder *builder, const char *bytes, size_t n) {
    gguf_builder_u64_raw(builder, n);
    append(builder, bytes, n);
}

void gguf_builder_key(struct gguf_builder *builder, const char *key, uint32_t type) {
    gguf_builder_text_raw(builder, key, strlen(key));
    gguf_builder_u32_raw(builder, type);
    builder->n_values++;
}

void gguf_builder_u32(struct gguf_builder *builder, const char *key, uint32_t value) {
    gguf_builder_key(builder, key, U32);
    gguf_builder_u32_raw(builder, value);
}

void gguf_builder_f32(struct gguf_builder *builder, const char *key, float value) {
    gguf_builder_key(builder, key, F32);
    append(builder, &value, sizeof value);
}

void gguf_builder_bool(struct gguf_builder *builder, const char *key, uint8_t value) {
    gguf_builder_key(builder, key, BOOL);
    append(builder, &value, sizeof value);
}

void gguf_builder_string(struct gguf_builder *builder, const char *key, const char *value) {
    gguf_builder_key(builder, key, STRING);
    gguf_builder_text_raw(builder, value, strlen(value));
}

void gguf_builder_strings(struct gguf_builder *builder, const char *key, const char *const *values,
                          size_t n) {
    gguf_builder_key(builder, key, ARRAY);
    gguf_builder_u32_raw(builder, STRING);
    gguf_builder_u64_raw(builder, n);
    for (size_t i = 0; i < n; i++)
        gguf_builder_text_raw(builder, values[i], strlen(values[i]));
}

void gguf_builder_i32s(struct gguf_builder *builder, const char *key, const int32_t *values,
                       size_t n) {
    gguf_builder_key(builder, key, ARRAY);
    gguf_builder_u32_raw(builder, I32);
    gguf_builder_u64_raw(builder, n);
    append(builder, values, n * sizeof *values);
}

void gguf_builder_f32s(struct gguf_builder *builder, const char *key, const float *values,
                       size_t n) {
    gguf_builder_key(builder, key, ARRAY);
    gguf_builder_u32_raw(builder, F32);
    gguf_builder_u64_raw(builder, n);
    append(builder, values, n * sizeof *values);
}

void gguf_builder_tensor_raw(struct gguf_builder *builder, const char *name, uint32_t n_dims,
                             const uint64_t *dims, uint32_t type, uint64_t offset) {
    gguf_builder_text_raw(builder, name, strlen(name));
    gguf_builder_u32_raw(builder, n_dims);
    append(builder, dims, n_dims * sizeof *dims);
    gguf_builder_u32_raw(builder, type);
    gguf_builder_u64_raw(builder, offset);
    builder->n_tensors++;
}

void gguf_builder_tensor(struct gguf_builder *builder, const char *name, uint64_t n_rows,
                         uint64_t n_columns) {
    uint64_t dims[2] = {n_columns, n_rows};
    uint64_t n_items = n_columns * (n_rows == 0 ? 1 : n_rows);
    gguf_builder_tensor_raw(builder, name, n_rows == 0 ? 1 : 2, dims, 0, builder->data_bytes);
    builder->data_bytes += (n_items * sizeof(float) + 31) / 32 * 32;
}

void gguf_builder_finish(struct gguf_builder *builder, size_t extra) {
    memcpy(builder->bytes.data + 8, &builder->n_tensors, sizeof builder->n_tensors);
    memcpy(builder->bytes.data + 16, &builder->n_values, sizeof builder->n_values);
    static const char zeros[4096];
    size_t n_left = (32 - builder->bytes.n % 32) % 32 + builder->data_bytes + extra;
    for (size_t n; n_left > 0; n_left -= n) {
        n = n_left < sizeof zeros ? n_left : sizeof zeros;
        append(builder, zeros, n);
    }
}

void gguf_builder_patch(struct gguf_builder *builder, const char *key, uint32_t value) {
    size_t n = strlen(key);
    char *at = memmem(builder->bytes.data, builder->bytes.n, key, n);
    ASSERT(at);
    memcpy(at + n + sizeof(uint32_t), &value, sizeof value);
}

/* The 256 bytes as GPT-2 spells them, then two joins and three control tokens. */
static void add_vocabulary(struct gguf_builder *builder) {
    static const char *const more[] = {"ab", "\304\240ab", "<|endoftext|>", "<|im_start|>",
                                       "<|im_end|>"};
    static const char *const merges[] = {"a b", "\xc4\xa0 ab"};
    char spelled[256][5];
    const char *tokens[256 + 5];
    int32_t kinds[256 + 5];
    uint32_t nth = 0;
    for (uint32_t byte = 0; byte < 256; byte++) {
        bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
        unsigned n = utf8_encode(printable ? byte : 0x100 + nth++, spelled[byte]);
        spelled[byte][n] = 0;
        tokens[byte] = spelled[byte];
    }
    for (unsigned i = 0; i < 5; i++)
        tokens[256 + i] = more[i];
    for (unsigned i = 0; i < 261; i++)
        kinds[i] = i < 258 ? 1 : 3;
    gguf_builder_string(builder, "tokenizer.ggml.model", "gpt2");
    gguf_builder_string(builder, "tokenizer.ggml.pre", "smollm");
    gguf_builder_strings(builder, "tokenizer.ggml.tokens", tokens, 261);
    gguf_builder_i32s(builder, "tokenizer.ggml.token_type", kinds, 261);
    gguf_builder_strings(builder, "tokenizer.ggml.merges", merges, 2);
    gguf_builder_u32(builder, "tokenizer.ggml.bos_token_id", 259);
    gguf_builder_u32(builder, "tokenizer.ggml.eos_token_id", 260);
}

static void add_number(struct gguf_builder *builder, const char *architecture, const char *suffix,
                       uint32_t value) {
    char key[96];
    snprintf(key, sizeof key, "%s.%s", architecture, suffix);
    gguf_builder_u32(builder, key, value);
}

void gguf_builder_model(struct gguf_builder *builder, const char *architecture) {
    char key[96];
    gguf_builder_string(builder, "general.architecture", architecture);
    add_number(builder, architecture, "block_count", 2);
    add_number(builder, architecture, "context_length", 128);
    add_number(builder, architecture, "embedding_length", 32);
    add_number(builder, architecture, "feed_forward_length", 64);
    add_number(builder, architecture, "attention.head_count", 4);
    add_number(builder, architecture, "attention.head_count_kv", 2);
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", architecture);
    gguf_builder_f32(builder, key, 1e-5f);
    add_vocabulary(builder);
}

void gguf_builder_llama(struct gguf_builder *builder) {
    gguf_builder_model(builder, "llama");
}
