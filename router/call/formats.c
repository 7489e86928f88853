#include "router/call/formats.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "router/api/format.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <xxhash.h>

struct formats {
    pthread_mutex_t lock; /* of all below */
    XXH128_hash_t kept[FORMATS_KEPT];
    struct formats_counts counts;
};

enum status formats_new(struct formats **formats) {
    struct formats *made = calloc(1, sizeof *made);
    if (!made)
        return STATUS_NOMEM;
    pthread_mutex_init(&made->lock, NULL);
    *formats = made;
    return STATUS_OK;
}

void formats_free(struct formats *formats) {
    if (!formats)
        return;
    pthread_mutex_destroy(&formats->lock);
    free(formats);
}

static bool formats_is_known(struct formats *formats, XXH128_hash_t hash) {
    pthread_mutex_lock(&formats->lock);
    bool known = XXH128_isEqual(formats->kept[hash.low64 % FORMATS_KEPT], hash);
    formats->counts.n_known += known;
    pthread_mutex_unlock(&formats->lock);
    return known;
}

enum status formats_check(struct formats *formats, const struct ask *ask, struct error *error) {
    const struct sampling *sampling = &ask->sampling;
    XXH128_hash_t hash = XXH3_128bits(sampling->grammar, sampling->n_grammar);
    if (formats_is_known(formats, hash))
        return STATUS_OK;
    uint64_t begin_ns = clock_now_ns();
    struct format_loss loss;
    enum status status = format_check(ask, &loss, error);
    uint64_t spent_ns = clock_now_ns() - begin_ns;
    pthread_mutex_lock(&formats->lock);
    formats->counts.ns += spent_ns;
    formats->counts.n_compiled += status == STATUS_OK;
    formats->counts.n_refused += status != STATUS_OK;
    if (status == STATUS_OK)
        formats->kept[hash.low64 % FORMATS_KEPT] = hash;
    pthread_mutex_unlock(&formats->lock);
    if (status == STATUS_OK && loss.n > 0) {
        char keyword[2 * sizeof loss.keyword], path[2 * sizeof loss.path];
        log_info("keywords of tools are not enforced", "n=%u first=%s at=%s", loss.n,
                 log_text(keyword, sizeof keyword, loss.keyword),
                 log_text(path, sizeof path, loss.path));
    }
    return status;
}

struct formats_counts formats_counts(struct formats *formats) {
    pthread_mutex_lock(&formats->lock);
    struct formats_counts counts = formats->counts;
    pthread_mutex_unlock(&formats->lock);
    return counts;
}
