#include "worker/step/grammars.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "base/random.h"
#include "model/text/grammar/grammar.h"
#include "model/text/grammar/pack.h"
#include "model/text/grammar/vocabulary.h"
#include "model/text/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <xxhash.h>

#define UNPACK_BYTES ((size_t)1 << 20)

/* In the list `kept`, or only held by jobs once newer ones took its place. */
struct kept_grammar {
    struct list at;
    uint64_t hash;
    struct buf packed;
    uint32_t n_holders; /* jobs, and the list */
    bool is_done;       /* compiled, or not to be: then it is in the list no more */
    bool is_tried;      /* the maker's, as the next two until it is done */
    enum status status;
    struct grammar *grammar; /* owned */
};

struct grammar_job {
    struct list at;
    struct kept_grammar *kept; /* held */
    struct grammars_made made;
    uint64_t compile_ns; /* 0: it compiled nothing */
    uint32_t n_ids;
    uint32_t ids[]; /* (n_ids) of the output */
};

/* The maker thread. */

static enum status grammars_need_vocabulary(struct grammars *grammars, struct error *error) {
    if (grammars->vocabulary)
        return STATUS_OK;
    TRY(grammar_vocabulary_of(grammars->tokenizer, grammars->options.n_mask_bytes,
                              &grammars->vocabulary, error));
    tokenizer_close(grammars->tokenizer);
    grammars->tokenizer = NULL;
    return STATUS_OK;
}

static enum status grammars_compile(struct grammars *grammars, struct kept_grammar *kept,
                                    struct error *error) {
    struct grammar_limits limits = grammar_limits;
    const struct grammar_part *part;
    struct arena arena;
    TRY(grammars_need_vocabulary(grammars, error));
    limits.n_mask_steps = GRAMMARS_MASK_STEPS + 8 * (uint64_t)grammars->vocabulary->n_nodes;
    arena_init(&arena, UNPACK_BYTES);
    enum status status =
        grammar_unpack((struct span){kept->packed.data, kept->packed.n}, &arena, &part, error);
    if (status == STATUS_OK)
        status = grammar_compile(part, grammars->vocabulary, &limits, &kept->grammar, error);
    arena_fini(&arena);
    return status;
}

static enum status grammars_follow(struct grammar *grammar, const uint32_t *ids, uint32_t n,
                                   struct grammars_made *made) {
    TRY(grammar_state_new(grammar, GRAMMARS_BACK, &made->state));
    for (made->n_followed = 0; made->n_followed < n; made->n_followed++) {
        enum status status = grammar_accept(made->state, ids[made->n_followed]);
        if (status == STATUS_OK)
            continue;
        grammar_state_free(made->state);
        made->state = NULL;
        return status;
    }
    return STATUS_OK;
}

static void grammars_make(struct grammars *grammars, struct grammar_job *job) {
    struct kept_grammar *kept = job->kept;
    struct error error;
    if (!kept->is_tried) {
        uint64_t begin_ns = clock_now_ns();
        kept->is_tried = true;
        kept->status = grammars_compile(grammars, kept, &error);
        job->compile_ns = clock_now_ns() - begin_ns;
        char why[ERROR_TEXT_MAX];
        if (kept->status != STATUS_OK)
            log_warn("grammar cannot be compiled", "bytes=%zu why=%s", kept->packed.n,
                     log_text(why, sizeof why, error.text));
    }
    job->made.status = kept->status;
    if (kept->status == STATUS_OK)
        job->made.status = grammars_follow(kept->grammar, job->ids, job->n_ids, &job->made);
}

static void *grammars_run_maker(void *of) {
    struct grammars *grammars = of;
    pthread_mutex_lock(&grammars->lock);
    while (!grammars->ends) {
        struct list *first = list_first(&grammars->asked);
        if (!first) {
            pthread_cond_wait(&grammars->wake, &grammars->lock);
            continue;
        }
        list_remove(first);
        pthread_mutex_unlock(&grammars->lock);
        grammars_make(grammars, list_entry(first, struct grammar_job, at));
        pthread_mutex_lock(&grammars->lock);
        list_push_back(&grammars->made, first);
        atomic_fetch_add(&grammars->n_made, 1);
        eventfd_write(grammars->fd, 1);
    }
    pthread_mutex_unlock(&grammars->lock);
    return NULL;
}

/* The engine thread. */

static void grammars_let_go(struct kept_grammar *kept) {
    if (--kept->n_holders > 0)
        return;
    grammar_unref(kept->grammar);
    buf_fini(&kept->packed);
    free(kept);
}

static void grammars_drop(struct grammars *grammars, struct kept_grammar *kept) {
    list_remove(&kept->at);
    grammars->figures.n_kept--;
    grammars_let_go(kept);
}

static void grammars_free_job(struct grammars *grammars, struct grammar_job *job) {
    grammars_let_go(job->kept);
    free(job);
    grammars->n_jobs--;
}

enum status grammars_open(struct grammars *grammars, const struct grammars_options *options) {
    *grammars = (struct grammars){
        .options = *options, .tokenizer = options->tokenizer, .hash_seed = random_seed(), .fd = -1};
    list_init(&grammars->kept);
    list_init(&grammars->asked);
    list_init(&grammars->made);
    pthread_mutex_init(&grammars->lock, NULL);
    pthread_cond_init(&grammars->wake, NULL);
    grammars->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (grammars->fd >= 0)
        return STATUS_OK;
    grammars_close(grammars);
    return STATUS_IO;
}

static void grammars_free_jobs(struct grammars *grammars, struct list *jobs) {
    struct list *first;
    while ((first = list_first(jobs)) != NULL) {
        struct grammar_job *job = list_entry(first, struct grammar_job, at);
        list_remove(first);
        grammar_state_free(job->made.state);
        grammars_free_job(grammars, job);
    }
}

void grammars_close(struct grammars *grammars) {
    if (!grammars->kept.next)
        return;
    if (grammars->has_thread) {
        pthread_mutex_lock(&grammars->lock);
        grammars->ends = true;
        pthread_cond_signal(&grammars->wake);
        pthread_mutex_unlock(&grammars->lock);
        pthread_join(grammars->thread, NULL);
    }
    grammars_free_jobs(grammars, &grammars->asked);
    grammars_free_jobs(grammars, &grammars->made);
    while (!list_empty(&grammars->kept))
        grammars_drop(grammars, list_entry(grammars->kept.next, struct kept_grammar, at));
    grammar_vocabulary_free(grammars->vocabulary);
    tokenizer_close(grammars->tokenizer);
    if (grammars->fd >= 0)
        close(grammars->fd);
    pthread_cond_destroy(&grammars->wake);
    pthread_mutex_destroy(&grammars->lock);
    memset(grammars, 0, sizeof *grammars);
}

static struct kept_grammar *grammars_find(struct grammars *grammars, struct span packed,
                                          uint64_t hash) {
    list_each_entry(kept, &grammars->kept, struct kept_grammar, at) {
        if (kept->hash == hash &&
            span_equal((struct span){kept->packed.data, kept->packed.n}, packed))
            return kept;
    }
    return NULL;
}

static size_t grammars_bytes_of(const struct kept_grammar *kept) {
    return kept->packed.n + (kept->is_done ? grammar_figures(kept->grammar).n_bytes : 0);
}

/* Room for one more: what was not asked for the longest leaves. */
static void grammars_make_room(struct grammars *grammars) {
    size_t n_bytes = 0;
    list_each_entry(kept, &grammars->kept, struct kept_grammar, at) n_bytes +=
        grammars_bytes_of(kept);
    while (grammars->figures.n_kept > 0 &&
           (grammars->figures.n_kept >= grammars->options.n_kept_max ||
            n_bytes > grammars->options.n_bytes_max)) {
        struct kept_grammar *last = list_entry(grammars->kept.prev, struct kept_grammar, at);
        n_bytes -= grammars_bytes_of(last);
        grammars_drop(grammars, last);
    }
}

/* The grammar of these bytes, in front of the list. */
static struct kept_grammar *grammars_keep(struct grammars *grammars, struct span packed) {
    uint64_t hash = XXH3_64bits_withSeed(packed.bytes, packed.n, grammars->hash_seed);
    struct kept_grammar *kept = grammars_find(grammars, packed, hash);
    grammars->figures.n_asked++;
    if (kept) {
        grammars->figures.n_hits++;
        list_remove(&kept->at);
        list_push_front(&grammars->kept, &kept->at);
        return kept;
    }
    grammars_make_room(grammars);
    kept = calloc(1, sizeof *kept);
    if (!kept)
        return NULL;
    kept->hash = hash;
    kept->n_holders = 1;
    buf_init(&kept->packed, 0);
    buf_append(&kept->packed, packed.bytes, packed.n);
    list_push_front(&grammars->kept, &kept->at);
    grammars->figures.n_kept++;
    if (buf_status(&kept->packed) == STATUS_OK)
        return kept;
    grammars_drop(grammars, kept);
    return NULL;
}

static bool grammars_need_thread(struct grammars *grammars) {
    if (!grammars->has_thread)
        grammars->has_thread =
            pthread_create(&grammars->thread, NULL, grammars_run_maker, grammars) == 0;
    return grammars->has_thread;
}

enum status grammars_ask(struct grammars *grammars, struct span packed, uint32_t slot,
                         uint64_t serial, const uint32_t *ids, uint32_t n,
                         struct grammars_made *made) {
    struct grammars_made asked = {.slot = slot, .serial = serial};
    struct kept_grammar *kept = grammars_keep(grammars, packed);
    if (!kept)
        return STATUS_NOMEM;
    if (kept->is_done && n <= GRAMMARS_INLINE) {
        TRY(grammars_follow(kept->grammar, NULL, 0, &asked));
        *made = asked;
        return STATUS_OK;
    }
    struct grammar_job *job =
        grammars->n_jobs < grammars->options.n_jobs_max && grammars_need_thread(grammars)
            ? calloc(1, sizeof *job + n * sizeof *ids)
            : NULL;
    if (!job)
        return STATUS_NOMEM;
    job->kept = kept;
    job->made = asked;
    job->n_ids = n;
    if (n > 0)
        memcpy(job->ids, ids, n * sizeof *ids);
    kept->n_holders++;
    grammars->n_jobs++;
    pthread_mutex_lock(&grammars->lock);
    list_push_back(&grammars->asked, &job->at);
    pthread_cond_signal(&grammars->wake);
    pthread_mutex_unlock(&grammars->lock);
    return STATUS_BUSY;
}

/* What a job says of its grammar. One that cannot be had is not kept: the next that asks for it tries
 * again. */
static void grammars_settle(struct grammars *grammars, const struct grammar_job *job) {
    struct kept_grammar *kept = job->kept;
    grammars->figures.compile_ns += job->compile_ns;
    if (kept->is_done)
        return;
    kept->is_done = kept->status == STATUS_OK;
    grammars->figures.n_compiled += kept->is_done;
    if (!kept->is_done && !list_empty(&kept->at))
        grammars_drop(grammars, kept);
}

bool grammars_next(struct grammars *grammars, struct grammars_made *made) {
    if (atomic_load(&grammars->n_made) == 0)
        return false;
    eventfd_t ignored;
    pthread_mutex_lock(&grammars->lock);
    struct list *first = list_first(&grammars->made);
    list_remove(first);
    if (atomic_fetch_sub(&grammars->n_made, 1) == 1)
        (void)eventfd_read(grammars->fd, &ignored);
    pthread_mutex_unlock(&grammars->lock);
    struct grammar_job *job = list_entry(first, struct grammar_job, at);
    grammars_settle(grammars, job);
    *made = job->made;
    grammars_free_job(grammars, job);
    return true;
}
