#include "base/net/pool.h"

#include "base/assert.h"
#include "base/net/loop.h"
#include "base/signals.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t more;  /* the queue got a job, or stopping */
    struct list queue;    /* under lock */
    struct list finished; /* under lock */
    bool stopping;        /* under lock */

    /* The loop's thread alone. */
    struct loop_wakeup *wakeup; /* owned */
    uint32_t n_jobs;
    uint32_t n_queued_max;
    unsigned n_threads;
    pthread_t *threads; /* owned (n_threads) */
};

static void *pool_work(void *user) {
    struct pool *pool = user;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!pool->stopping && list_empty(&pool->queue))
            pthread_cond_wait(&pool->more, &pool->lock);
        if (pool->stopping)
            break;
        struct list *link = list_first(&pool->queue);
        struct pool_job *job = list_entry(link, struct pool_job, link);
        list_remove(link);
        job->is_queued = false;
        pthread_mutex_unlock(&pool->lock);
        job->run(job);
        pthread_mutex_lock(&pool->lock);
        list_push_back(&pool->finished, link);
        loop_wakeup_signal(pool->wakeup);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static void pool_hand_back(struct pool *pool, struct list *from, enum status status) {
    for (;;) {
        pthread_mutex_lock(&pool->lock);
        struct list *link = list_first(from);
        if (link)
            list_remove(link);
        pthread_mutex_unlock(&pool->lock);
        if (!link)
            return;
        struct pool_job *job = list_entry(link, struct pool_job, link);
        job->is_queued = false; /* the threads are gone, or it has run */
        pool->n_jobs--;
        job->done(job, status);
    }
}

static void pool_on_finished(void *user) {
    struct pool *pool = user;
    pool_hand_back(pool, &pool->finished, STATUS_OK);
}

enum status pool_new(struct loop *loop, unsigned n_threads, uint32_t n_queued_max,
                     struct pool **out) {
    ASSERT(n_threads > 0 && n_queued_max > 0);
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return STATUS_NOMEM;
    list_init(&pool->queue);
    list_init(&pool->finished);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->more, NULL);
    pool->n_queued_max = n_queued_max;
    pool->threads = calloc(n_threads, sizeof *pool->threads);
    if (!pool->threads || loop_wakeup_new(loop, pool_on_finished, pool, &pool->wakeup) != STATUS_OK)
        goto fail;
    /* Signals belong to the loop's thread. */
    sigset_t before;
    signals_leave(&before);
    while (pool->n_threads < n_threads &&
           pthread_create(&pool->threads[pool->n_threads], NULL, pool_work, pool) == 0)
        pool->n_threads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pool->n_threads < n_threads)
        goto fail;
    *out = pool;
    return STATUS_OK;

fail:
    pool_free(pool);
    return STATUS_NOMEM;
}

void pool_free(struct pool *pool) {
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->more);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->n_threads; i++)
        pthread_join(pool->threads[i], NULL);
    pool_hand_back(pool, &pool->finished, STATUS_OK);
    pool_hand_back(pool, &pool->queue, STATUS_CLOSED);
    loop_wakeup_free(pool->wakeup);
    pthread_cond_destroy(&pool->more);
    pthread_mutex_destroy(&pool->lock);
    free(pool->threads);
    free(pool);
}

enum status pool_submit(struct pool *pool, struct pool_job *job) {
    if (pool->n_jobs == pool->n_queued_max)
        return STATUS_BUSY;
    pool->n_jobs++;
    pthread_mutex_lock(&pool->lock);
    list_init(&job->link);
    list_push_back(&pool->queue, &job->link);
    job->is_queued = true;
    pthread_cond_signal(&pool->more);
    pthread_mutex_unlock(&pool->lock);
    return STATUS_OK;
}

bool pool_take_back(struct pool *pool, struct pool_job *job) {
    pthread_mutex_lock(&pool->lock);
    bool is_queued = job->is_queued;
    if (is_queued)
        list_remove(&job->link);
    job->is_queued = false;
    pthread_mutex_unlock(&pool->lock);
    pool->n_jobs -= is_queued;
    return is_queued;
}
