#include "tools/bench/texts.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/json/json_read.h"
#include "base/span.h"
#include "tools/bench/conversations.h"
#include "tools/bench/core/workload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRACE_LINES_MAX 10000000u

void texts_free(char **texts, uint32_t n_texts) {
    for (uint32_t i = 0; texts && i < n_texts; i++)
        free(texts[i]);
    free(texts);
}

/* Of a pipe, too; a byte order mark at its begin is left out. The caller ends *all. */
static enum status bench_texts_read_whole(const char *path, struct buf *all, struct error *error) {
    char bytes[65536];
    FILE *file = fopen(path, "r");
    buf_init(all, 0);
    if (!file)
        return error_set(error, STATUS_IO, "%s: %s", path, strerror(errno));
    buf_append(all, "", 0); /* nothing at all is a text, too */
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, file)) > 0;)
        buf_append(all, bytes, n);
    enum status status = ferror(file) ? STATUS_IO : buf_status(all);
    fclose(file);
    if (status != STATUS_OK)
        return error_set(error, status, "%s cannot be read", path);
    if (span_begins((struct span){all->data, all->n}, "\xef\xbb\xbf"))
        buf_consume(all, 3);
    return STATUS_OK;
}

/* What ends at the first NUL would be read as if that were all. */
static enum status bench_texts_check_text(const char *path, const struct buf *all,
                                          struct error *error) {
    return strlen(all->data) == all->n
               ? STATUS_OK
               : error_set(error, STATUS_INVALID, "%s: not text: it contains NUL bytes", path);
}

static enum status bench_texts_read_plain(const char *path, struct buf *all, char ***texts,
                                          uint32_t *n_texts, struct error *error) {
    TRY(bench_texts_check_text(path, all, error));
    if (!all->data[strspn(all->data, " \t\r\n")])
        return error_set(error, STATUS_INVALID, "%s: contains no words", path);
    char **made = malloc(sizeof *made);
    char *text = made ? buf_take(all) : NULL;
    if (!text) {
        free(made);
        return error_set(error, STATUS_NOMEM, "%s: out of memory", path);
    }
    made[0] = text;
    *texts = made;
    *n_texts = 1;
    return STATUS_OK;
}

enum status texts_read(const char *path, char ***texts, uint32_t *n_texts, struct error *error) {
    struct buf all;
    enum status status = bench_texts_read_whole(path, &all, error);
    struct span text = {all.data, all.n};
    if (status == STATUS_OK)
        status = conversations_begin(text)
                     ? conversations_read(path, text, texts, n_texts, error)
                     : bench_texts_read_plain(path, &all, texts, n_texts, error);
    buf_fini(&all);
    return status;
}

void trace_free(struct trace_line *lines, uint32_t n_lines) {
    for (uint32_t i = 0; lines && i < n_lines; i++)
        free(lines[i].hash_ids);
    free(lines);
}

/* The ids, where the line has some. As many as cover the prompt are wanted: with fewer, what a
 * replay shares would not be what the trace shared. */
static enum status bench_texts_read_hash_ids(const json_t *ids, struct trace_line *line) {
    size_t n = json_array_size(ids);
    uint32_t n_wanted = (line->n_prompt + TRACE_BLOCK_TOKENS - 1) / TRACE_BLOCK_TOKENS;
    if (!ids)
        return STATUS_OK;
    if (!json_is_array(ids) || n < n_wanted)
        return STATUS_INVALID;
    line->hash_ids = calloc(n, sizeof *line->hash_ids);
    if (!line->hash_ids)
        return STATUS_NOMEM;
    for (; line->n_hash_ids < n; line->n_hash_ids++) {
        const json_t *id = json_array_get(ids, line->n_hash_ids);
        if (!json_is_integer(id))
            return STATUS_INVALID;
        line->hash_ids[line->n_hash_ids] = (uint64_t)json_integer_value(id);
    }
    return STATUS_OK;
}

/* *line is left for trace_free() also on failure. */
static enum status bench_texts_read_trace_line(const char *path, uint32_t number, const char *text,
                                               struct trace_line *line, struct error *error) {
    json_error_t problem;
    json_t *root = json_read(text, strlen(text), 0, &problem);
    *line = (struct trace_line){0};
    if (!root)
        return error_set(error, STATUS_CORRUPT, "%s: line %u, column %d: %s", path, number,
                         problem.column, problem.text);
    if (!json_is_object(root)) {
        json_decref(root);
        return error_set(error, STATUS_CORRUPT, "%s: line %u: not a JSON object", path, number);
    }
    double at_ms = json_number_value(json_object_get(root, "timestamp"));
    json_int_t n_input = json_integer_value(json_object_get(root, "input_length"));
    json_int_t n_output = json_integer_value(json_object_get(root, "output_length"));
    bool is_good = at_ms >= 0 && at_ms <= 1e12 && n_input >= 1 && n_output >= 1 &&
                   n_input <= 10000000 && n_output <= 10000000;
    enum status status = STATUS_OK;
    if (is_good) {
        line->at_ns = (uint64_t)(at_ms * (double)NS_PER_MS);
        line->n_prompt = (uint32_t)n_input;
        line->n_output = (uint32_t)n_output;
        status = bench_texts_read_hash_ids(json_object_get(root, "hash_ids"), line);
    }
    json_decref(root);
    if (!is_good)
        return error_set(error, STATUS_INVALID,
                         "%s: line %u: needs timestamp (ms), input_length and output_length", path,
                         number);
    if (status == STATUS_INVALID)
        return error_set(error, status,
                         "%s: line %u: hash_ids must be whole numbers, one for each %d tokens of "
                         "input_length",
                         path, number, TRACE_BLOCK_TOKENS);
    return status == STATUS_OK
               ? STATUS_OK
               : error_set(error, status, "%s: line %u: out of memory", path, number);
}

enum status trace_read(const char *path, struct trace_line **lines, uint32_t *n_lines,
                       struct error *error) {
    struct buf all;
    struct trace_line *made = NULL;
    uint32_t n = 0, size = 0, number = 0;
    enum status status = bench_texts_read_whole(path, &all, error);
    if (status == STATUS_OK)
        status = bench_texts_check_text(path, &all, error);
    for (char *line, *next = all.data; status == STATUS_OK && (line = strsep(&next, "\n"));) {
        number++;
        if (!line[strspn(line, " \t\r")])
            continue;
        if (n == size) {
            size = size ? 2 * size : 1024;
            struct trace_line *grown = realloc(made, size * sizeof *made);
            if (!grown || size > TRACE_LINES_MAX) {
                made = grown ? grown : made;
                status = error_set(error, STATUS_LIMIT, "%s: too many lines", path);
                break;
            }
            made = grown;
        }
        status = bench_texts_read_trace_line(path, number, line, &made[n], error);
        if (status == STATUS_OK && n > 0 && made[n].at_ns < made[n - 1].at_ns)
            status = error_set(error, STATUS_INVALID, "%s: line %u: earlier than the line before",
                               path, number);
        n++;
    }
    buf_fini(&all);
    if (status == STATUS_OK && n == 0)
        status = error_set(error, STATUS_INVALID, "%s: no lines", path);
    if (status != STATUS_OK) {
        trace_free(made, n);
        return status;
    }
    *lines = made;
    *n_lines = n;
    return STATUS_OK;
}
