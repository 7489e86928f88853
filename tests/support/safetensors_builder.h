/* tests/support/safetensors_builder.h: makes safetensors files in memory and on disk, good ones and
 * bad ones. Every append aborts the test when memory is short. */
#pragma once

#include "base/buf.h"

#include <stddef.h>
#include <stdint.h>

struct safetensors_builder {
    struct buf header; /* owned: the JSON so far, without its braces */
    struct buf data;   /* owned */
    struct buf file;   /* owned: after safetensors_builder_finish() */
};

void safetensors_builder_init(struct safetensors_builder *builder);
void safetensors_builder_fini(struct safetensors_builder *builder);

/* A tensor of shape (n_rows, n_columns), or (n_columns) for n_rows = 0, behind the others. `items`
 * (of item_bytes each) are copied; NULL: zeros. */
void safetensors_builder_add(struct safetensors_builder *builder, const char *name,
                             const char *dtype, size_t item_bytes, uint64_t n_rows,
                             uint64_t n_columns, const void *items);

/* Puts length, header and data together, the header padded with spaces to `align` bytes. */
void safetensors_builder_finish(struct safetensors_builder *builder, size_t align);

/* A whole file from any header text, and n_data zeros, into `file`. */
void safetensors_builder_raw(struct safetensors_builder *builder, const char *header,
                             size_t n_data);

/* Writes bytes to folder/name. */
void safetensors_builder_write(const char *folder, const char *name, const void *bytes, size_t n);
