/* tools/gbench/gbench.c: what grammars cost: one engine, one run, CPU time of one thread.
 *
 * usage: gbench MODEL SCHEMAS BIG MASK_MIB SEED [PYTHON LLGUIDANCE]
 * MODEL has the vocabulary (what tokenizer_open_path() takes); SCHEMAS has a JSON schema on each line; BIG is the file of one
 * more schema, which is compiled only; PYTHON and LLGUIDANCE are shared objects: then that engine is measured in place of ours.
 * Prints a figure on each line, its name first, for tools/lib/grammar_cost.py, which runs this in turns.
 *
 * Walks are random: of the tokens that the engine itself allows one is drawn, each fourth one among those that begin with what
 * closes a string, a list or an object, or with a comma, so that texts go on behind their first string. */
#include "tools/gbench/engine.h"

#include "base/error.h"
#include "model/text/tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SCHEMAS_MAX 64
#define WALKS       20u
#define STEPS_MAX   100u
#define MASKS_MAX   (SCHEMAS_MAX * WALKS * STEPS_MAX)

struct times {
    double *us; /* owned (n) */
    uint32_t n;
};

/* What is timed: masks of the first walks, those of them that were made or found, the same walks again, tokens taken. */
enum timed { FIRST, MADE, FOUND, AGAIN, ACCEPT, TIMED };
static const char *const timed_names[TIMED] = {"first", "made", "found", "again", "accept"};

struct bench {
    const struct bench_engine *engine;
    void *opened;
    struct bench_tokens tokens;
    uint32_t n_words;
    uint32_t *drawable; /* owned (n_words): text */
    uint32_t *closers;  /* owned (n_words) */
    uint64_t seed;
    struct times times[TIMED];
};

static _Noreturn void gbench_fail(const char *what, const char *why) {
    fprintf(stderr, "gbench: %s: %s\n", what, why);
    exit(1);
}

static void *gbench_get(size_t n) {
    void *block = calloc(1, n + 1);
    if (!block)
        gbench_fail("memory", "none is left");
    return block;
}

static double gbench_now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void gbench_note(struct times *times, double us) {
    if (!times->us)
        times->us = gbench_get(MASKS_MAX * sizeof *times->us);
    times->us[times->n++] = us;
}

static int gbench_by_size(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void gbench_tell(const char *name, struct times *times) {
    if (times->n > 0)
        qsort(times->us, times->n, sizeof *times->us, gbench_by_size);
    printf("%s.n %u\n", name, times->n);
    if (times->n == 0)
        return;
    printf("%s.p50 %.3f\n", name, times->us[times->n / 2]);
    printf("%s.p99 %.3f\n", name, times->us[(uint64_t)times->n * 99 / 100]);
    printf("%s.max %.3f\n", name, times->us[times->n - 1]);
}

static uint32_t gbench_draw(struct bench *bench) {
    bench->seed = bench->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(bench->seed >> 33);
}

/* A random token of mask and `among`; UINT32_MAX: none. */
static uint32_t gbench_draw_token(struct bench *bench, const uint32_t *mask,
                                  const uint32_t *among) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < bench->n_words; i++)
        n += (uint32_t)__builtin_popcount(mask[i] & among[i]);
    if (n == 0)
        return UINT32_MAX;
    uint32_t nth = gbench_draw(bench) % n;
    for (uint32_t i = 0;; i++) {
        uint32_t word = mask[i] & among[i];
        uint32_t here = (uint32_t)__builtin_popcount(word);
        for (; nth < here; nth--, word &= word - 1)
            if (nth == 0)
                return i * 32 + (uint32_t)__builtin_ctz(word);
        nth -= here;
    }
}

static uint32_t gbench_next_token(struct bench *bench, const uint32_t *mask) {
    uint32_t token =
        gbench_draw(bench) % 4 == 0 ? gbench_draw_token(bench, mask, bench->closers) : UINT32_MAX;
    return token != UINT32_MAX ? token : gbench_draw_token(bench, mask, bench->drawable);
}

/* One mask, timed. */
static const uint32_t *gbench_mask(struct bench *bench, void *grammar, bool is_first) {
    const struct bench_engine *engine = bench->engine;
    uint64_t n_made = engine->figures(bench->opened).n_made;
    double begin = gbench_now_us();
    const uint32_t *bits = engine->mask(grammar);
    double us = gbench_now_us() - begin;
    gbench_note(&bench->times[is_first ? FIRST : AGAIN], us);
    if (is_first)
        gbench_note(&bench->times[engine->figures(bench->opened).n_made > n_made ? MADE : FOUND],
                    us);
    return bits;
}

/* Draws a text; the tokens (n) are kept. */
static uint32_t gbench_walk(struct bench *bench, void *grammar, uint32_t *tokens) {
    const struct bench_engine *engine = bench->engine;
    uint32_t n = 0;
    while (n < STEPS_MAX) {
        const uint32_t *bits = gbench_mask(bench, grammar, true);
        uint32_t token = bits ? gbench_next_token(bench, bits) : UINT32_MAX;
        if (token == UINT32_MAX || (engine->may_end(grammar) && gbench_draw(bench) % 3 == 0))
            break;
        double begin = gbench_now_us();
        bool is_taken = engine->accept(grammar, token);
        gbench_note(&bench->times[ACCEPT], gbench_now_us() - begin);
        if (!is_taken)
            gbench_fail(engine->name, "does not take what its mask allows");
        tokens[n++] = token;
    }
    return n;
}

static void gbench_walks(struct bench *bench, void *grammar) {
    const struct bench_engine *engine = bench->engine;
    static uint32_t tokens[WALKS][STEPS_MAX];
    uint32_t n[WALKS];
    for (uint32_t i = 0; i < WALKS; i++) {
        if (!engine->reset(grammar))
            gbench_fail(engine->name, "cannot begin anew");
        n[i] = gbench_walk(bench, grammar, tokens[i]);
    }
    for (uint32_t i = 0; i < WALKS; i++) {
        if (!engine->reset(grammar))
            gbench_fail(engine->name, "cannot begin anew");
        for (uint32_t k = 0; k < n[i]; k++) {
            gbench_mask(bench, grammar, false);
            if (!engine->accept(grammar, tokens[i][k]))
                gbench_fail(engine->name, "does not take what it took before");
        }
    }
}

/* Its compiler's time; the grammar, or NULL where it is refused. */
static void *gbench_compile(struct bench *bench, const char *name, const char *schema,
                            bool lenient) {
    char error[512] = "";
    double begin = gbench_now_us();
    void *grammar = bench->engine->compile(bench->opened, schema, lenient, error, sizeof error);
    double us = gbench_now_us() - begin;
    error[strcspn(error, "\n")] = 0;
    if (grammar)
        printf("%s %.4f\n", name, us / 1e3);
    else
        printf("%s.refused %.4f ms: %.200s\n", name, us / 1e3, error);
    return grammar;
}

static void small(struct bench *bench, uint32_t i, const char *schema) {
    char name[64];
    snprintf(name, sizeof name, "compile.%u", i);
    void *grammar = gbench_compile(bench, name, schema, false);
    if (!grammar)
        return;
    const struct times *all = &bench->times[FIRST];
    uint32_t n_before = all->n;
    gbench_walks(bench, grammar);
    struct times own = {.us = gbench_get((all->n - n_before) * sizeof *own.us),
                        .n = all->n - n_before};
    memcpy(own.us, all->us + n_before, own.n * sizeof *own.us);
    snprintf(name, sizeof name, "schema.%u", i);
    gbench_tell(name, &own);
    free(own.us);
    snprintf(name, sizeof name, "compile_again.%u", i);
    void *again = gbench_compile(bench, name, schema, false);
    if (again)
        bench->engine->free(again);
    bench->engine->free(grammar);
}

/* A file's text, ended by a zero; the caller frees it. */
static char *gbench_read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    char *text = gbench_get((size_t)4 << 20);
    if (!file)
        gbench_fail(path, "cannot be opened");
    size_t n = fread(text, 1, (size_t)4 << 20, file);
    fclose(file);
    text[n] = 0;
    return text;
}

/* Both engines' forms of the tokens, and which of them are drawn. */
static void gbench_prepare(struct bench *bench, const struct tokenizer *tokenizer,
                           size_t n_mask_bytes) {
    uint32_t n = tokenizer_n_tokens(tokenizer);
    size_t n_bytes = 0;
    uint32_t *lengths = gbench_get(n * sizeof *lengths);
    bench->n_words = (n + 31) / 32;
    bench->drawable = gbench_get(bench->n_words * sizeof *bench->drawable);
    bench->closers = gbench_get(bench->n_words * sizeof *bench->closers);
    for (uint32_t id = 0; id < n; id++)
        n_bytes +=
            vocabulary_bytes(&tokenizer->vocabulary, id).n + 1 + tokenizer_bytes(tokenizer, id).n;
    uint8_t *bytes = gbench_get(n_bytes);
    bench->tokens = (struct bench_tokens){.tokenizer = tokenizer,
                                          .lengths = lengths,
                                          .bytes = bytes,
                                          .n = n,
                                          .n_mask_bytes = n_mask_bytes};
    uint8_t *at = bytes;
    for (uint32_t id = 0; id < n; id++) {
        bool is_special =
            tokenizer_is_special(tokenizer, id) || tokenizer->vocabulary.kinds[id] == TOKEN_UNUSED;
        struct span text = is_special ? vocabulary_bytes(&tokenizer->vocabulary, id)
                                      : tokenizer_bytes(tokenizer, id);
        if (is_special) {
            *at++ = 0xff;
            bench->tokens.end = id;
        }
        if (text.n > 0)
            memcpy(at, text.bytes, text.n);
        at += text.n;
        lengths[id] = (uint32_t)text.n + is_special;
        if (is_special || text.n == 0)
            continue;
        bench->drawable[id / 32] |= 1u << id % 32;
        if (memchr("\"}],", text.bytes[0], 4))
            bench->closers[id / 32] |= 1u << id % 32;
    }
}

static double gbench_resident_mib(void) {
    unsigned long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%lu %lu", &pages, &resident) != 2)
        gbench_fail("/proc/self/statm", "cannot be read");
    fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static void gbench_run(struct bench *bench, char *schemas, const char *big) {
    char error[512] = "";
    double before = gbench_resident_mib();
    double begin = gbench_now_us();
    bench->opened = bench->engine->open(&bench->tokens, error, sizeof error);
    double us = gbench_now_us() - begin;
    if (!bench->opened)
        gbench_fail(bench->engine->name, error);
    printf("tokens %u\nvocabulary %.3f\n", bench->tokens.n, us / 1e3);
    printf("vocabulary_mib %.1f\n", gbench_resident_mib() - before);
    uint32_t n = 0;
    char *save = NULL;
    for (char *line = strtok_r(schemas, "\n", &save); line && n < SCHEMAS_MAX;
         line = strtok_r(NULL, "\n", &save))
        small(bench, n++, line);
    for (int lenient = 0; lenient < 2; lenient++) {
        void *grammar = gbench_compile(bench, lenient ? "big_lenient" : "big", big, lenient);
        if (grammar)
            bench->engine->free(grammar);
    }
    for (enum timed i = 0; i < TIMED; i++)
        gbench_tell(timed_names[i], &bench->times[i]);
    struct bench_figures figures = bench->engine->figures(bench->opened);
    printf("kept_bytes %llu\nkept_bytes_max %llu\ndropped %llu\nmemory_mib %.1f\n",
           (unsigned long long)figures.n_bytes, (unsigned long long)figures.n_bytes_max,
           (unsigned long long)figures.n_dropped, gbench_resident_mib() - before);
    bench->engine->close(bench->opened);
}

static void gbench_time_clock(void) {
    struct times times = {0};
    for (uint32_t i = 0; i < 10000; i++) {
        double begin = gbench_now_us();
        gbench_note(&times, gbench_now_us() - begin);
    }
    gbench_tell("clock", &times);
    free(times.us);
}

int main(int argc, char **argv) {
    struct bench bench = {.engine = &bench_ours};
    struct tokenizer *tokenizer;
    struct error error;
    char why[512] = "";
    if (argc != 6 && argc != 8) {
        fprintf(stderr, "usage: %s MODEL SCHEMAS BIG MASK_MIB SEED [PYTHON LLGUIDANCE]\n", argv[0]);
        return 2;
    }
    if (argc == 8) {
        bench.engine = &bench_llguidance;
        if (!bench_llguidance_load(argv[6], argv[7], why, sizeof why))
            gbench_fail(argv[7], why);
    }
    if (tokenizer_open_path(argv[1], &tokenizer, &error) != STATUS_OK)
        gbench_fail(argv[1], error.text);
    bench.seed = strtoull(argv[5], NULL, 10);
    gbench_prepare(&bench, tokenizer, (size_t)strtoull(argv[4], NULL, 10) << 20);
    char *schemas = gbench_read_file(argv[2]), *big = gbench_read_file(argv[3]);
    gbench_time_clock();
    gbench_run(&bench, schemas, big);
    free(schemas);
    free(big);
    free((void *)(uintptr_t)bench.tokens.lengths);
    free((void *)(uintptr_t)bench.tokens.bytes);
    free(bench.drawable);
    free(bench.closers);
    for (enum timed i = 0; i < TIMED; i++)
        free(bench.times[i].us);
    tokenizer_close(tokenizer);
    return fflush(stdout) == 0 ? 0 : 1;
}
