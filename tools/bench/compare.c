/* tools/bench/compare.c: `tandem-bench compare A B ...`: runs and the published tables side by side,
 * row by row, with each column's ratio to the first. Loads are compared with loads: their one row has
 * the honest figures, since no format of loads was published. */
#include "tools/bench/commands.h"

#include "base/exit.h"
#include "tools/bench/rows/reference.h"

#include <jansson.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define SIDES_MAX   8
#define ENTRIES_MAX 256

/* The columns that both formats have, and those of one of them. */
enum column {
    COLUMN_REQUESTS,
    COLUMN_TOKENS,
    COLUMN_LATENCY,
    COLUMN_TTFT,
    COLUMN_ITL,
    COLUMN_PER_TOKEN,
    COLUMN_PER_OUTPUT,
    COLUMN_N
};

static const struct {
    const char *name;
    const char *member; /* of "published" in a run's JSON */
    size_t published;   /* in a row of the tables */
} columns[COLUMN_N] = {
    {"requests/s", "requests_per_s", offsetof(struct reference_row, requests_per_s)},
    {"output token/s", "output_tok_per_s", offsetof(struct reference_row, tokens_per_s)},
    {"latency s", "latency_s", offsetof(struct reference_row, latency_s)},
    {"TTFT ms", "ttft_ms", offsetof(struct reference_row, ttft_ms)},
    {"ITL ms", "itl_ms", offsetof(struct reference_row, itl_ms)},
    {"ms per token", "ms_per_token", offsetof(struct reference_row, ms_per_token)},
    {"ms per output token", "ms_per_output_token",
     offsetof(struct reference_row, ms_per_output_token)},
};

struct compare_entry {
    char key[48]; /* what rows of several sides are matched by: "128x512", "rate 3" */
    double values[COLUMN_N];
    char marks[MARK_TEXT_MAX];
};

struct side {
    char name[200];
    struct compare_entry entries[ENTRIES_MAX];
    uint32_t n;
};

/* Whether each part of "mistral-7b-awq/vllm/..." is in the field of its place. */
static bool bench_compare_is_named(const struct reference_row *row, const char *name) {
    const char *const fields[] = {row->table, row->system, row->model, row->hardware};
    char copy[200];
    unsigned i = 0;
    snprintf(copy, sizeof copy, "%s", name);
    char *rest = copy;
    for (char *part = strsep(&rest, "/"); part; part = strsep(&rest, "/"))
        if (i == 4 || !strstr(fields[i++], part))
            return false;
    return true;
}

/* Sweep levels are matched by place: rates differ between servers. */
static void bench_compare_make_key(struct compare_entry *entry, bool is_sweep, const char *label,
                                   double rate, uint32_t *n_rates, uint32_t n_input,
                                   uint32_t n_output) {
    if (!is_sweep)
        snprintf(entry->key, sizeof entry->key, "%ux%u", n_input, n_output);
    else if (rate > 0)
        snprintf(entry->key, sizeof entry->key, "rate %u", ++*n_rates);
    else
        snprintf(entry->key, sizeof entry->key, "%.*s", (int)strcspn(label, "@"), label);
}

static bool bench_compare_add_reference(struct side *side, const char *name) {
    const struct reference_row *first = NULL;
    uint32_t n_rates = 0;
    for (size_t i = 0; i < reference_n_rows && side->n < ENTRIES_MAX; i++) {
        const struct reference_row *row = &reference_rows[i];
        if (first ? !reference_is_same(first, row) : !bench_compare_is_named(row, name))
            continue;
        if (!first)
            snprintf(side->name, sizeof side->name, "%s, %s, %s, %s", row->table, row->system,
                     row->model, row->hardware);
        first = row;
        struct compare_entry *entry = &side->entries[side->n++];
        bench_compare_make_key(entry, row->level[0] != 0, row->level,
                               strncmp(row->level, "async", 5) == 0, &n_rates, row->n_input,
                               row->n_output);
        for (unsigned column = 0; column < COLUMN_N; column++)
            memcpy(&entry->values[column], (const char *)row + columns[column].published,
                   sizeof *entry->values);
    }
    return first != NULL;
}

static void bench_compare_add_row(struct side *side, const json_t *row, bool is_sweep,
                                  uint32_t *n_rates) {
    struct compare_entry *entry = &side->entries[side->n++];
    const char *label = json_string_value(json_object_get(row, "label"));
    const char *marks = json_string_value(json_object_get(row, "marks"));
    const json_t *published = json_object_get(row, "published");
    bench_compare_make_key(entry, is_sweep, label ? label : "",
                           json_number_value(json_object_get(row, "asked_per_s")), n_rates,
                           (uint32_t)json_integer_value(json_object_get(row, "input_len")),
                           (uint32_t)json_integer_value(json_object_get(row, "output_len")));
    for (unsigned i = 0; i < COLUMN_N; i++)
        entry->values[i] = json_number_value(json_object_get(published, columns[i].member));
    snprintf(entry->marks, sizeof entry->marks, "%s", marks ? marks : "");
}

static double bench_compare_mean_of(const json_t *root, const char *member) {
    return json_number_value(json_object_get(json_object_get(root, member), "mean"));
}

static void bench_compare_add_load(struct side *side, const json_t *root) {
    struct compare_entry *entry = &side->entries[side->n++];
    const char *marks = json_string_value(json_object_get(root, "marks"));
    snprintf(entry->key, sizeof entry->key, "load");
    entry->values[COLUMN_REQUESTS] = json_number_value(json_object_get(root, "requests_per_s"));
    entry->values[COLUMN_TOKENS] = json_number_value(json_object_get(root, "output_tokens_per_s"));
    entry->values[COLUMN_LATENCY] = bench_compare_mean_of(root, "latency_s");
    entry->values[COLUMN_TTFT] = bench_compare_mean_of(root, "ttft_ms");
    entry->values[COLUMN_ITL] = bench_compare_mean_of(root, "itl_ms");
    snprintf(entry->marks, sizeof entry->marks, "%s", marks ? marks : "");
}

static enum status bench_compare_add_run(struct side *side, const char *path, struct error *error) {
    json_error_t problem;
    json_t *root = json_load_file(path, 0, &problem);
    const char *kind = json_string_value(json_object_get(root, "kind"));
    const char *model =
        json_string_value(json_object_get(json_object_get(root, "environment"), "model"));
    bool is_sweep = kind && strcmp(kind, "sweep") == 0;
    bool is_load = kind && strcmp(kind, "load") == 0;
    const json_t *rows = json_object_get(root, is_sweep ? "levels" : "cells");
    enum status status = STATUS_OK;
    uint32_t n_rates = 0;
    size_t n = json_array_size(rows);
    if (!root)
        status =
            error_set(error, STATUS_INVALID, "%s: line %d: %s", path, problem.line, problem.text);
    else if (is_load)
        bench_compare_add_load(side, root);
    else if (n == 0 || n > ENTRIES_MAX)
        status =
            error_set(error, STATUS_INVALID, "%s: not the JSON of a load, a grid or a sweep", path);
    snprintf(side->name, sizeof side->name, "%s (%s)", path, model ? model : "?");
    for (size_t i = 0; status == STATUS_OK && i < n; i++)
        bench_compare_add_row(side, json_array_get(rows, i), is_sweep, &n_rates);
    json_decref(root);
    return status;
}

static const struct compare_entry *bench_compare_find_entry(const struct side *side,
                                                            const char *key) {
    for (uint32_t i = 0; i < side->n; i++)
        if (strcmp(side->entries[i].key, key) == 0)
            return &side->entries[i];
    return NULL;
}

static void bench_compare_print_cell(const struct compare_entry *entry,
                                     const struct compare_entry *base, unsigned column,
                                     bool is_first) {
    double value = entry ? entry->values[column] : 0;
    if (value <= 0)
        printf(" - |");
    else if (is_first || !base || base->values[column] <= 0)
        printf(" %.4g %s|", value, entry->marks);
    else
        printf(" %.4g %s(x%.2f) |", value, entry->marks, value / base->values[column]);
}

static void bench_compare_print_sides(const struct side *sides, int n) {
    for (int i = 0; i < n; i++)
        printf("%c: %s\n", 'A' + i, sides[i].name);
    printf("\n| row | column |");
    for (int i = 0; i < n; i++)
        printf(" %c |", 'A' + i);
    printf("\n|---|---|");
    for (int i = 0; i < n; i++)
        printf("---|");
    printf("\n");
    for (uint32_t e = 0; e < sides[0].n; e++)
        for (unsigned column = 0; column < COLUMN_N; column++) {
            const struct compare_entry *base = &sides[0].entries[e];
            if (base->values[column] <= 0)
                continue;
            printf("| %s | %s |", base->key, columns[column].name);
            for (int i = 0; i < n; i++)
                bench_compare_print_cell(i ? bench_compare_find_entry(&sides[i], base->key) : base,
                                         base, column, i == 0);
            printf("\n");
        }
}

int compare_command(char **paths, int n_paths) {
    struct error error;
    if (n_paths > SIDES_MAX)
        return exit_with(EXIT_CONFIG, "compare: at most 8 runs and tables");
    struct side *sides = calloc((size_t)n_paths, sizeof *sides);
    enum status status =
        sides ? STATUS_OK : error_set(&error, STATUS_NOMEM, "compare: out of memory");
    for (int i = 0; i < n_paths && status == STATUS_OK; i++)
        if (!bench_compare_add_reference(&sides[i], paths[i]))
            status = bench_compare_add_run(&sides[i], paths[i], &error);
    if (status == STATUS_OK)
        bench_compare_print_sides(sides, n_paths);
    free(sides);
    return status == STATUS_OK ? 0 : exit_with(EXIT_CONFIG, error.text);
}
