#include "tests/support/safetensors_builder.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void safetensors_builder_init(struct safetensors_builder *builder) {
    buf_init(&builder->header, 0);
    buf_init(&builder->data, 0);
    buf_init(&builder->file, 0);
}

void safetensors_builder_fini(struct safetensors_builder *builder) {
    buf_fini(&builder->header);
    buf_fini(&builder->data);
    buf_fini(&builder->file);
}

static void append_zeros(struct buf *buf, size_t n) {
    for (size_t i = 0; i < n; i++)
        buf_putc(buf, 0);
}

void safetensors_builder_add(struct safetensors_builder *builder, const char *name,
                             const char *dtype, size_t item_bytes, uint64_t n_rows,
                             uint64_t n_columns, const void *items) {
    size_t n = (size_t)(n_columns * (n_rows ? n_rows : 1)) * item_bytes;
    size_t begin = builder->data.n;
    if (items)
        buf_append(&builder->data, items, n);
    else
        append_zeros(&builder->data, n);
    buf_printf(&builder->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[",
               builder->header.n ? "," : "", name, dtype);
    if (n_rows)
        buf_printf(&builder->header, "%" PRIu64 ",", n_rows);
    buf_printf(&builder->header, "%" PRIu64 "],\"data_offsets\":[%zu,%zu]}", n_columns, begin,
               begin + n);
}

static void put_file(struct safetensors_builder *builder, const struct buf *header) {
    uint64_t n = header->n;
    buf_clear(&builder->file);
    buf_append(&builder->file, &n, sizeof n);
    buf_append(&builder->file, header->data, header->n);
    if (builder->data.n)
        buf_append(&builder->file, builder->data.data, builder->data.n);
    ASSERT(buf_status(&builder->file) == STATUS_OK);
}

void safetensors_builder_finish(struct safetensors_builder *builder, size_t align) {
    struct buf header;
    buf_init(&header, 0);
    buf_puts(&header, "{\"__metadata__\":{\"format\":\"pt\"}");
    if (builder->header.n) {
        buf_putc(&header, ',');
        buf_append(&header, builder->header.data, builder->header.n);
    }
    buf_putc(&header, '}');
    while (header.n % align != 0)
        buf_putc(&header, ' ');
    put_file(builder, &header);
    buf_fini(&header);
}

void safetensors_builder_raw(struct safetensors_builder *builder, const char *header,
                             size_t n_data) {
    struct buf text;
    buf_init(&text, 0);
    buf_puts(&text, header);
    buf_clear(&builder->data);
    append_zeros(&builder->data, n_data);
    put_file(builder, &text);
    buf_fini(&text);
}

void safetensors_builder_write(const char *folder, const char *name, const void *bytes, size_t n) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    ASSERT(file);
    ASSERT(fwrite(bytes, 1, n, file) == n);
    ASSERT(fclose(file) == 0);
}
