#include "tools/bench/lengths.h"

#include <stdlib.h>
#include <string.h>

#define PIECE_WORDS 16

void lengths_fini(struct lengths *lengths) {
    for (uint32_t i = 0; i < lengths->n_pieces; i++)
        free(lengths->pieces[i].text);
    free(lengths->pieces);
    *lengths = (struct lengths){0};
}

/* What `text` costs behind the first word. False: it is not counted. */
static bool bench_lengths_cost_of(struct counter *counter, const char *text, uint32_t n_first,
                                  uint32_t *n_tokens) {
    struct buf both;
    uint32_t n = 0;
    buf_init(&both, 0);
    buf_printf(&both, "%s %s", words_text(0), text);
    bool is_counted = buf_status(&both) == STATUS_OK &&
                      counter_text(counter, (struct span){both.data, both.n}, &n) && n > n_first;
    buf_fini(&both);
    *n_tokens = n - n_first;
    return is_counted;
}

/* All words at once tell whether each is one token, as in most vocabularies; else each is asked
 * for. */
static void bench_lengths_learn_words(struct counter *counter, uint32_t n_first,
                                      struct words *words) {
    struct buf all;
    uint32_t costs[WORDS_N], n_all = 0;
    words_init(words, NULL);
    buf_init(&all, 0);
    (void)words_put(words, &all, 0, 1, 4 * WORDS_N);
    for (uint32_t i = 0; i < WORDS_N; i++)
        buf_printf(&all, " %s", words_text(i));
    bool is_counted = all.data && bench_lengths_cost_of(counter, all.data, n_first, &n_all);
    buf_fini(&all);
    if (!is_counted || n_all == 5 * WORDS_N)
        return;
    for (uint32_t i = 0; i < WORDS_N; i++)
        if (!bench_lengths_cost_of(counter, words_text(i), n_first, &costs[i]) ||
            costs[i] > WORDS_COST_MAX)
            return;
    words_init(words, costs);
}

/* What a prompt has beyond its words, by the server's usage. */
static void bench_lengths_learn_overhead(struct counter *counter, struct workload *workload) {
    struct buf text;
    uint32_t n = 0;
    buf_init(&text, 0);
    buf_puts(&text, words_text(0));
    uint32_t n_words = workload->words.cost[0] +
                       words_put(&workload->words, &text, 0, workload->seed, 4 * WORDS_COST_MAX);
    if (buf_status(&text) == STATUS_OK &&
        counter_prompt(counter, (struct span){text.data, text.n}, &n))
        workload->overhead = (int32_t)n - (int32_t)n_words;
    buf_fini(&text);
}

/* The next PIECE_WORDS words of a text with one blank between them; NULL at its end. */
static char *bench_lengths_next_piece(const char **text) {
    struct buf out;
    buf_init(&out, 0);
    for (uint32_t i = 0; i < PIECE_WORDS; i++) {
        *text += strspn(*text, " \t\r\n\f\v");
        size_t n = strcspn(*text, " \t\r\n\f\v");
        if (n == 0)
            break;
        if (i > 0)
            buf_putc(&out, ' ');
        buf_append(&out, *text, n);
        *text += n;
    }
    return buf_take(&out);
}

/* Pieces of the texts, a run of them from each that is reached, until as many are made as may be
 * counted. Without a counter a word counts as a token. */
static enum status bench_lengths_learn_pieces(char *const *texts, uint32_t n_texts,
                                              struct counter *counter, uint32_t n_first,
                                              struct lengths *lengths) {
    uint32_t n_max = counter_budget(counter);
    lengths->pieces = calloc(n_max, sizeof *lengths->pieces);
    if (!lengths->pieces)
        return STATUS_NOMEM;
    for (uint32_t i = 0; i < n_texts; i++) {
        const char *at = texts[i];
        char *text = NULL;
        while (lengths->n_pieces < n_max && (text = bench_lengths_next_piece(&at)) != NULL) {
            struct piece *piece = &lengths->pieces[lengths->n_pieces++];
            piece->text = text;
            if (n_first > 0 && bench_lengths_cost_of(counter, text, n_first, &piece->n_tokens))
                continue;
            piece->n_tokens = 1;
            for (const char *c = text; *c; c++)
                piece->n_tokens += *c == ' ';
        }
    }
    return STATUS_OK;
}

enum status lengths_learn(const struct counter_spec *by, char *const *texts, uint32_t n_texts,
                          struct workload *workload, struct lengths *lengths, struct error *error) {
    struct counter *counter = NULL;
    struct span first = {words_text(0), strlen(words_text(0))};
    uint32_t n_first = 0;
    *lengths = (struct lengths){.counted_by = "nothing"};
    words_init(&workload->words, NULL);
    workload->overhead = 0;
    if (workload->source == SOURCE_IDS)
        return STATUS_OK;
    TRY(counter_new(by, &counter, error));
    enum status status = STATUS_OK;
    if (counter_text(counter, first, &n_first)) {
        bench_lengths_learn_words(counter, n_first, &workload->words);
        bench_lengths_learn_overhead(counter, workload);
    }
    if (workload->source == SOURCE_TEXTS)
        status = bench_lengths_learn_pieces(texts, n_texts, counter, n_first, lengths);
    lengths->counted_by = counter_name(counter);
    counter_free(counter);
    workload->pieces = lengths->pieces;
    workload->n_pieces = lengths->n_pieces;
    return status == STATUS_OK ? STATUS_OK : error_set(error, status, "out of memory for texts");
}
