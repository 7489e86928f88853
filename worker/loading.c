#include "worker/loading.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "base/notify.h"
#include "proto/bus.h"
#include "worker/links/links.h"
#include "worker/ranks/weights.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define ANNOUNCE_AFTER_NS (500 * NS_PER_MS) /* what is loaded by then is ready at once */
#define SAY_NS            (2 * NS_PER_S)
#define LOOK_MS           200
#define EXTEND_S          60
#define EVENTS_MAX        256

struct loading {
    struct links *links; /* borrowed; may be NULL */
    struct links_self self;
    uint64_t began_ns;
    uint64_t said_ns; /* 0: not yet */
    uint64_t n_seen;  /* bytes that were packed then */
    uint64_t n_told;  /* bytes that the program that started us knows of */
    int end_fd;
    pthread_t thread;
};

static uint32_t loading_percent_of(struct weights_progress progress) {
    return progress.n_bytes > 0 ? (uint32_t)(progress.n_packed * 100 / progress.n_bytes) : 0;
}

static void loading_say(struct loading *loading, enum log_level level, const char *message,
                        uint64_t now_ns) {
    char name[2 * MESSAGE_NAME_MAX];
    struct weights_progress progress = weights_progress();
    double seconds = (double)(now_ns - loading->began_ns) / 1e9;
    loading->said_ns = now_ns;
    /* A start may take as long as weights still come, and not longer. */
    if (progress.n_packed != loading->n_seen)
        notify_extend(EXTEND_S);
    loading->n_seen = progress.n_packed;
    notify_status("loading the model: %u %%", loading_percent_of(progress));
    log_line(level, message,
             "name=%s percent=%u bytes=%llu of_bytes=%llu seconds=%.1f mb_per_s=%.0f",
             log_text(name, sizeof name, loading->self.name), loading_percent_of(progress),
             (unsigned long long)progress.n_packed, (unsigned long long)progress.n_bytes, seconds,
             seconds > 0 ? (double)progress.n_packed / 1e6 / seconds : 0);
}

/* No router has a session with us yet: what is not about our announcements is from an unknown sender. */
static void loading_take_event(void *context, const struct bus_event *event) {
    (void)links_took(context, event);
}

/* `tandem up` draws it; a variable of ours, which systemd passes over. */
static void loading_tell(struct loading *loading, struct weights_progress progress) {
    char text[96];
    if (progress.n_bytes == 0 || (loading->n_told == progress.n_packed && loading->n_told > 0))
        return;
    loading->n_told = progress.n_packed;
    snprintf(text, sizeof text, "X_TANDEM_LOADED=%llu/%llu", (unsigned long long)progress.n_packed,
             (unsigned long long)progress.n_bytes);
    notify_send(text);
}

static void loading_look(struct loading *loading, uint64_t now_ns) {
    struct weights_progress progress = weights_progress();
    loading_tell(loading, progress);
    if (progress.n_bytes > 0 && loading->said_ns == 0)
        loading_say(loading, LOG_INFO, "loading the model", now_ns);
    else if (progress.n_bytes > 0 && now_ns - loading->said_ns >= SAY_NS)
        /* A service manager that hears STATUS has it from there. */
        loading_say(loading, notify_is_on() ? LOG_DEBUG : LOG_INFO, "still loading", now_ns);
    if (!loading->links || now_ns - loading->began_ns < ANNOUNCE_AFTER_NS)
        return;
    loading->self.loading = 1 + loading_percent_of(progress);
    bus_dispatch(loading->links->control, EVENTS_MAX, 0, loading_take_event, loading->links);
    links_announce(loading->links, now_ns, &loading->self);
}

static void *loading_run(void *user) {
    struct loading *loading = user;
    struct pollfd end = {.fd = loading->end_fd, .events = POLLIN};
    while (poll(&end, 1, LOOK_MS) <= 0)
        loading_look(loading, clock_now_ns());
    return NULL;
}

enum status loading_begin(struct links *links, const struct links_self *self,
                          struct loading **loading, struct error *error) {
    struct loading *made = calloc(1, sizeof *made);
    if (!made)
        return error_set(error, STATUS_NOMEM, "out of memory");
    *made = (struct loading){.links = links, .self = *self, .began_ns = clock_now_ns()};
    weights_progress_reset();
    made->end_fd = eventfd(0, EFD_CLOEXEC);
    if (made->end_fd < 0 || pthread_create(&made->thread, NULL, loading_run, made) != 0) {
        if (made->end_fd >= 0)
            close(made->end_fd);
        free(made);
        return error_set(error, STATUS_LIMIT, "cannot start a thread: %s", strerror(errno));
    }
    *loading = made;
    return STATUS_OK;
}

void loading_end(struct loading *loading) {
    if (!loading)
        return;
    eventfd_write(loading->end_fd, 1);
    pthread_join(loading->thread, NULL);
    if (loading->said_ns != 0)
        loading_say(loading, LOG_INFO, "model loaded", clock_now_ns());
    if (loading->links)
        loading->links->announce_ns = 0; /* the next turn says that we are ready */
    close(loading->end_fd);
    free(loading);
}
