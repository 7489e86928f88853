#include "tools/bench/rows/all.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const char *const own_names[] = {"limit", "tandem-exact", "tandem-fast", "goal"};

static bool bench_rows_is_published(const char *name) {
    for (size_t i = 0; i < reference_n_rows; i++)
        if (strcmp(reference_rows[i].system, name) == 0)
            return true;
    return false;
}

static void bench_rows_take_program_rows(struct all *all) {
    for (size_t i = 0; i < sizeof own_names / sizeof *own_names; i++)
        all->efficiencies[all->n_efficiencies++] = *efficiencies_find(own_names[i]);
    for (const struct efficiencies *row = efficiencies_table; row->name[0]; row++)
        if (bench_rows_is_published(row->name))
            all->published[all->n_published++] = *row;
}

static bool bench_rows_is_wanted(const struct reference_row *row, const char *table,
                                 const char *system) {
    return (!table || strcmp(row->table, table) == 0) &&
           (!system || strcmp(row->system, system) == 0);
}

enum status all_init(struct all *all, const char *table, const char *system, struct error *error) {
    *all = (struct all){0};
    size_t n = reference_configurations(all->configurations);
    bench_rows_take_program_rows(all);
    all->rows = calloc(reference_n_rows, sizeof *all->rows);
    if (!all->rows)
        return error_set(error, STATUS_NOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const struct reference_configuration *own = &all->configurations[i];
        for (size_t k = 0; k < own->n_rows && bench_rows_is_wanted(own->rows, table, system); k++)
            all->rows[all->n_rows++] = (struct all_row){.configuration = own, .row = &own->rows[k]};
    }
    if (all->n_rows == 0) {
        all_fini(all);
        return error_set(error, STATUS_INVALID, "unknown table \"%s\" of the system \"%s\"",
                         table ? table : "(any)", system ? system : "(any)");
    }
    return STATUS_OK;
}

void all_fini(struct all *all) {
    free(all->rows);
    all->rows = NULL;
}

enum status all_efficiencies(struct all *all, const char *text, size_t n_bytes,
                             struct error *error) {
    struct efficiencies rows[ALL_EFFICIENCIES_MAX];
    size_t n;
    TRY(efficiencies_read(text, n_bytes, rows, ALL_EFFICIENCIES_MAX, &n, error));
    all->n_efficiencies = 0;
    for (size_t i = 0; i < n; i++) {
        if (!bench_rows_is_published(rows[i].name)) {
            all->efficiencies[all->n_efficiencies++] = rows[i];
            continue;
        }
        size_t k = 0;
        while (k < all->n_published && strcmp(all->published[k].name, rows[i].name) != 0)
            k++;
        if (k == ALL_EFFICIENCIES_MAX)
            return error_set(error, STATUS_INVALID, "row \"%s\": more than %u published systems",
                             rows[i].name, ALL_EFFICIENCIES_MAX);
        all->published[k] = rows[i];
        all->n_published += k == all->n_published;
    }
    return STATUS_OK;
}

/* Threads take the next row and answer into its own place. */
struct work {
    struct all *all;
    atomic_size_t next;
    atomic_int status; /* the first that failed */
};

static enum status bench_rows_predict_row(struct all *all, struct all_row *row) {
    for (size_t i = 0; i < all->n_published; i++)
        if (strcmp(all->published[i].name, row->row->system) == 0)
            row->own_row = &all->published[i];
    if (row->own_row)
        TRY(predict_published(row->configuration, row->row, row->own_row, &row->own));
    for (size_t i = 0; i < all->n_efficiencies; i++)
        TRY(predict_tandem(row->configuration, row->row, &all->efficiencies[i], &row->tandem[i]));
    return STATUS_OK;
}

static void *bench_rows_work_main(void *argument) {
    struct work *work = argument;
    for (;;) {
        size_t i = atomic_fetch_add(&work->next, 1);
        if (i >= work->all->n_rows || atomic_load(&work->status) != STATUS_OK)
            return NULL;
        int ok = STATUS_OK, status = (int)bench_rows_predict_row(work->all, &work->all->rows[i]);
        atomic_compare_exchange_strong(&work->status, &ok, status);
    }
}

enum status all_predict(struct all *all, unsigned n_threads) {
    struct work work = {.all = all};
    pthread_t threads[ALL_THREADS_MAX];
    unsigned n = 0;
    while (n + 1 < n_threads && n < ALL_THREADS_MAX &&
           pthread_create(&threads[n], NULL, bench_rows_work_main, &work) == 0)
        n++;
    bench_rows_work_main(&work); /* this thread too, so that one is enough */
    while (n > 0)
        pthread_join(threads[--n], NULL);
    return (enum status)atomic_load(&work.status);
}
