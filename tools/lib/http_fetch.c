#include "tools/lib/http_fetch.h"

#include "base/clock.h"

#define FETCH_S_MAX 120.0
#define JSON_MAX    (16u << 20)

struct fetch {
    struct loop *loop;
    struct buf *answer;
    struct error *error;
    enum status status;
    int http_status;
    double timeout_s;
};

static void http_fetch_on_timeout(void *user) {
    struct fetch *fetch = user;
    fetch->status =
        error_set(fetch->error, STATUS_TIMEOUT, "no answer within %.3g s", fetch->timeout_s);
    loop_stop(fetch->loop);
}

static void http_fetch_on_body(void *user, const char *bytes, size_t n) {
    struct fetch *fetch = user;
    buf_append(fetch->answer, bytes, n);
}

static void http_fetch_on_end(void *user, enum status status, int http_status,
                              const struct error *error) {
    struct fetch *fetch = user;
    fetch->status = status;
    fetch->http_status = http_status;
    if (error)
        *fetch->error = *error;
    loop_stop(fetch->loop);
}

enum status http_fetch(const struct http_url *url, const struct http_ask *ask, double timeout_s,
                       int *http_status, struct buf *answer, struct error *error) {
    bool has_limit = timeout_s > 0 && timeout_s < FETCH_S_MAX;
    struct fetch fetch = {.answer = answer,
                          .error = error,
                          .status = STATUS_CLOSED,
                          .timeout_s = has_limit ? timeout_s : FETCH_S_MAX};
    struct http_client *client = NULL;
    struct loop_timer *timeout = NULL;
    TRY(loop_new(&fetch.loop));
    enum status status = loop_timer_new(fetch.loop, http_fetch_on_timeout, &fetch, &timeout);
    if (status == STATUS_OK)
        status = http_client_new(fetch.loop, url, &client);
    if (status == STATUS_OK) {
        loop_timer_after(timeout, (uint64_t)(fetch.timeout_s * (double)NS_PER_S));
        struct http_events events = {http_fetch_on_body, http_fetch_on_end, &fetch};
        http_client_start(client, ask, &events);
        loop_run(fetch.loop);
        status = fetch.status;
        *http_status = fetch.http_status;
    }
    http_client_free(client);
    loop_timer_free(timeout);
    loop_free(fetch.loop);
    return status;
}

enum status http_fetch_json(const struct http_url *url, const struct http_ask *ask,
                            double timeout_s, int *http_status, json_t **root,
                            struct error *error) {
    struct buf answer;
    buf_init(&answer, JSON_MAX);
    enum status status = http_fetch(url, ask, timeout_s, http_status, &answer, error);
    if (status == STATUS_OK)
        *root = json_loadb(answer.data ? answer.data : "", answer.n, 0, NULL);
    buf_fini(&answer);
    return status;
}
