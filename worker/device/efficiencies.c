#include "worker/device/efficiencies.h"

#include "base/buf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a row can say, in the order in which it is written. */
static const struct efficiencies_field {
    const char *key;
    size_t offset;
    unsigned n;       /* numbers; 0: a text */
    size_t size;      /* of a text */
    double low, high; /* of each number, both included */
} fields[] = {
#define TEXT(member)                                                                               \
    {                                                                                              \
#member, offsetof(struct efficiencies, member), 0,                                         \
            sizeof((struct efficiencies *)0)->member, 0, 0                                         \
    }
#define NUMBER(member, low, high)                                                                  \
    { #member, offsetof(struct efficiencies, member), 1, 0, low, high }
#define THREE(member, low, high)                                                                   \
    { #member, offsetof(struct efficiencies, member), EFFICIENCY_FORMATS, 0, low, high }
    TEXT(name),
    TEXT(device),
    TEXT(source),
    THREE(weights, 1e-6, 2),
    THREE(unit, 0, EFFICIENCY_UNITS - 1),
    THREE(few, 1e-6, 100),
    THREE(mid, 1e-6, 100),
    THREE(many, 1e-6, 100),
    NUMBER(experts, 1e-6, 2),
    NUMBER(overlap, 0, 100),
    NUMBER(kv, 1e-6, 2),
    NUMBER(kv_heads, 0, 1),
    NUMBER(attend_unit, 0, EFFICIENCY_UNITS - 1),
    NUMBER(attend, 1e-6, 2),
    NUMBER(layer_us, 0, 1e6),
    NUMBER(step_us, 0, 1e6),
    NUMBER(seq_us, 0, 1e6),
    NUMBER(nvlink, 1e-6, 2),
    NUMBER(pcie, 1e-6, 2),
    NUMBER(sum_us, 0, 1e6),
    NUMBER(sum_bytes, 1, 8),
    NUMBER(host_bytes_s, 0, 1e15),
#undef TEXT
#undef NUMBER
#undef THREE
};
#define N_FIELDS (sizeof fields / sizeof *fields)

const struct efficiencies *efficiencies_find(const char *name) {
    for (const struct efficiencies *row = efficiencies_table; row->name[0]; row++)
        if (strcmp(row->name, name) == 0)
            return row;
    return NULL;
}

static double *efficiencies_numbers_of(struct efficiencies *row,
                                       const struct efficiencies_field *field) {
    return (double *)(void *)((char *)row + field->offset);
}

static enum status efficiencies_read_numbers(struct efficiencies *row,
                                             const struct efficiencies_field *field,
                                             const char *text, unsigned line, struct error *error) {
    for (unsigned i = 0; i < field->n; i++) {
        char *end;
        double value = strtod(text, &end);
        if (end == text || !(value >= field->low && value <= field->high))
            return error_set(error, STATUS_INVALID,
                             "line %u: %s: expected %u number%s from %g to %g", line, field->key,
                             field->n, field->n > 1 ? "s" : "", field->low, field->high);
        efficiencies_numbers_of(row, field)[i] = value;
        text = end;
    }
    if (text[strspn(text, " \t\r")])
        return error_set(error, STATUS_INVALID, "line %u: %s: more than %u numbers", line,
                         field->key, field->n);
    return STATUS_OK;
}

static enum status efficiencies_read_text(struct efficiencies *row,
                                          const struct efficiencies_field *field, const char *text,
                                          unsigned line, struct error *error) {
    size_t n = strlen(text);
    while (n > 0 && strchr(" \t\r", text[n - 1]))
        n--;
    if (n >= field->size)
        return error_set(error, STATUS_INVALID, "line %u: %s: is longer than %zu bytes", line,
                         field->key, field->size - 1);
    memcpy((char *)row + field->offset, text, n);
    ((char *)row + field->offset)[n] = '\0';
    return STATUS_OK;
}

struct efficiencies_reader {
    struct efficiencies *rows;
    size_t n_max, n;
    unsigned line;
};

static enum status efficiencies_read_line(struct efficiencies_reader *reader, char *line,
                                          struct error *error) {
    char *key = line + strspn(line, " \t\r"), *colon = strchr(key, ':');
    if (*key == '\0' || *key == '#')
        return STATUS_OK;
    if (!colon)
        return error_set(error, STATUS_INVALID, "line %u: not of the form \"key: value\"",
                         reader->line);
    *colon = '\0';
    const char *value = colon + 1 + strspn(colon + 1, " \t");
    const struct efficiencies_field *field = fields;
    while (field < fields + N_FIELDS && strcmp(field->key, key) != 0)
        field++;
    if (field == fields + N_FIELDS)
        return error_set(error, STATUS_INVALID, "line %u: unknown key \"%.40s\"", reader->line,
                         key);
    if (field == fields) { /* a row begins with its name */
        if (reader->n == reader->n_max)
            return error_set(error, STATUS_INVALID, "line %u: more than %zu rows", reader->line,
                             reader->n_max);
        reader->rows[reader->n++] = efficiencies_table[0];
        reader->rows[reader->n - 1].source[0] = '\0';
    }
    if (reader->n == 0)
        return error_set(error, STATUS_INVALID, "line %u: a row begins with \"name:\"",
                         reader->line);
    struct efficiencies *row = &reader->rows[reader->n - 1];
    return field->n ? efficiencies_read_numbers(row, field, value, reader->line, error)
                    : efficiencies_read_text(row, field, value, reader->line, error);
}

enum status efficiencies_read(const char *text, size_t n_bytes, struct efficiencies *rows,
                              size_t n_max, size_t *n, struct error *error) {
    struct efficiencies_reader reader = {.rows = rows, .n_max = n_max};
    char line[EFFICIENCY_SOURCE_MAX + 64];
    for (size_t at = 0; at < n_bytes;) {
        const char *end = memchr(text + at, '\n', n_bytes - at);
        size_t length = end ? (size_t)(end - text) - at : n_bytes - at;
        reader.line++;
        if (length >= sizeof line || memchr(text + at, '\0', length))
            return error_set(error, STATUS_INVALID,
                             "line %u: is longer than %zu bytes, or holds a zero byte", reader.line,
                             sizeof line - 1);
        memcpy(line, text + at, length);
        line[length] = '\0';
        TRY(efficiencies_read_line(&reader, line, error));
        at += length + 1;
    }
    for (size_t i = 0; i < reader.n; i++)
        if (!rows[i].name[0])
            return error_set(error, STATUS_INVALID, "row %zu: name: is empty", i + 1);
    if (reader.n == 0)
        return error_set(error, STATUS_INVALID, "contains no row that begins with \"name:\"");
    *n = reader.n;
    return STATUS_OK;
}

void efficiencies_write(const struct efficiencies *row, struct buf *out) {
    struct efficiencies copy = *row;
    for (const struct efficiencies_field *field = fields; field < fields + N_FIELDS; field++) {
        const char *text = (const char *)&copy + field->offset;
        if (field->n == 0 && *text)
            buf_printf(out, "%s: %s\n", field->key, text);
        if (field->n == 0)
            continue;
        buf_printf(out, "%s:", field->key);
        for (unsigned i = 0; i < field->n; i++)
            buf_printf(out, " %.4g", efficiencies_numbers_of(&copy, field)[i]);
        buf_puts(out, "\n");
    }
}
