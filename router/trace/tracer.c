#include "router/trace/tracer.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/client/http_client.h"
#include "base/clock.h"
#include "base/log/log.h"
#include "base/net/address.h"
#include "base/net/dns.h"
#include "base/net/loop.h"
#include "base/random.h"
#include "router/trace/traceparent.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARN_EVERY_NS     (60 * NS_PER_S)
#define RETRY_AFTER_S_MAX 300u /* of what a collector asks for */

/* What the timer ends. */
enum tracer_state {
    TRACER_IDLE,    /* nothing is there to be sent */
    TRACER_GATHERS, /* a batch that is not full */
    TRACER_SENDS,   /* an answer is waited for */
    TRACER_WAITS    /* after a failure */
};

struct tracer {
    struct loop *loop; /* borrowed */
    struct tracer_times times;
    struct trace_resource resource;
    const char *header;
    double ratio;
    struct http_url url; /* its TLS is owned */
    struct http_client *client;
    struct dns *dns;         /* owned; NULL: the host is an address */
    struct dns_answer known; /* where the host is */
    struct loop_timer *timer;
    struct random random;
    struct trace_queue queue;
    enum tracer_state state;
    struct buf batch; /* that is being sent, or sent again */
    uint32_t n_batch; /* spans of it; 0: none */
    uint64_t batch_since_ns;
    uint32_t n_failures; /* in a row */
    struct buf answer;
    uint64_t warned_ns; /* 0: never */
    uint64_t end_ns;    /* tracer_end(): the time for the rest; 0: it was not called */
    struct tracer_counts counts;
};

static const struct tracer_times default_times = {.gather_ns = NS_PER_S,
                                                  .answer_ns = 10 * NS_PER_S,
                                                  .backoff_ns_min = NS_PER_S,
                                                  .backoff_ns_max = 30 * NS_PER_S,
                                                  .retry_ns = 60 * NS_PER_S,
                                                  .end_ns = NS_PER_S};

/* --- what it is told ------------------------------------------------------------------------- */

enum status tracer_read_url(const char *text, struct http_url *url, struct error *error) {
    struct http_url read;
    for (const char *at = text; *at; at++)
        if (*at <= ' ' || *at > '~' || *at == '#' || *at == '@')
            return error_set(error, STATUS_INVALID,
                             "a URL has no blank, '#', '@' nor other letters than those of ASCII");
    if (strncmp(text, "http://", 7) != 0 && strncmp(text, "https://", 8) != 0)
        return error_set(error, STATUS_INVALID, "must begin with http:// or https://");
    TRY(http_url_parse(text, &read, error));
    if (!read.base[0])
        snprintf(read.base, sizeof read.base, "/v1/traces");
    *url = read;
    return STATUS_OK;
}

const char *tracer_header_fault(const char *header) {
    static const char token[] = "!#$%&'*+-.^_`|~0123456789"
                                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t n = strspn(header, token);
    if (n == 0 || header[n] != ':')
        return "is not of the form \"name: value\"";
    for (const char *at = header + n; *at; at++)
        if (*at < ' ' || *at > '~')
            return "has a value that is not printable ASCII";
    return NULL;
}

/* --- a batch on its way ---------------------------------------------------------------------- */

static void tracer_send(struct tracer *tracer);

static void tracer_wait(struct tracer *tracer, enum tracer_state state, uint64_t delay_ns) {
    tracer->state = state;
    loop_timer_after(tracer->timer, delay_ns);
}

/* Once a minute, since a collector that is gone would fill the log. */
static void tracer_warn(struct tracer *tracer, const char *reason) {
    char shown[ERROR_TEXT_MAX + 64], pair[ADDRESS_TEXT_MAX];
    uint64_t now_ns = clock_now_ns();
    if (tracer->warned_ns > 0 && now_ns - tracer->warned_ns < WARN_EVERY_NS)
        return;
    tracer->warned_ns = now_ns;
    log_warn("traces do not come to the collector",
             "collector=%s reason=%s sent=%llu dropped=%llu failed=%llu",
             address_join(tracer->url.host, tracer->url.port, pair),
             log_text(shown, sizeof shown, reason), (unsigned long long)tracer->counts.n_sent,
             (unsigned long long)tracer->counts.n_dropped,
             (unsigned long long)tracer->counts.n_failed);
}

static void tracer_drop_batch(struct tracer *tracer) {
    tracer->n_batch = 0;
    buf_clear(&tracer->batch);
}

/* The batch is over: the next one, if there is one. */
static void tracer_go_on(struct tracer *tracer) {
    tracer_drop_batch(tracer);
    if (tracer->queue.n == 0) {
        tracer->state = TRACER_IDLE;
        loop_timer_stop(tracer->timer);
    } else if (tracer->end_ns > 0 || tracer->queue.n >= TRACE_BATCH_SPANS) {
        tracer_wait(tracer, TRACER_GATHERS, 0);
    } else {
        tracer_wait(tracer, TRACER_GATHERS, tracer->times.gather_ns);
    }
}

/* Twice as long after each failure, and somewhere in the upper half of that, so that routers do not
 * come together; at least as long as the collector asks. */
static uint64_t tracer_backoff_ns(struct tracer *tracer, uint32_t retry_after_s) {
    uint64_t ns = tracer->times.backoff_ns_min;
    for (uint32_t i = 1; i < tracer->n_failures && ns < tracer->times.backoff_ns_max; i++)
        ns *= 2;
    if (ns > tracer->times.backoff_ns_max)
        ns = tracer->times.backoff_ns_max;
    ns = ns / 2 + random_below(&tracer->random, ns / 2 + 1);
    if (retry_after_s > RETRY_AFTER_S_MAX)
        retry_after_s = RETRY_AFTER_S_MAX;
    return ns > retry_after_s * NS_PER_S ? ns : retry_after_s * NS_PER_S;
}

/* A failure that may pass: the batch is sent again, unless that was tried for long enough or the
 * router ends. */
static void tracer_put_off(struct tracer *tracer, const char *reason, uint32_t retry_after_s) {
    tracer->n_failures++;
    if (tracer->end_ns > 0 || clock_now_ns() - tracer->batch_since_ns >= tracer->times.retry_ns) {
        tracer->counts.n_failed += tracer->n_batch;
        tracer_drop_batch(tracer);
    }
    tracer_warn(tracer, reason);
    if (tracer->end_ns > 0)
        tracer_go_on(tracer);
    else
        tracer_wait(tracer, TRACER_WAITS, tracer_backoff_ns(tracer, retry_after_s));
}

static void tracer_took(struct tracer *tracer) {
    char why[256], text[320];
    uint64_t n_rejected =
        trace_queue_read_answer(tracer->answer.data, tracer->answer.n, why, sizeof why);
    if (n_rejected > tracer->n_batch)
        n_rejected = tracer->n_batch;
    tracer->n_failures = 0;
    tracer->counts.n_failed += n_rejected;
    tracer->counts.n_sent += tracer->n_batch - n_rejected;
    if (n_rejected > 0) {
        snprintf(text, sizeof text, "it rejects spans: %s", why);
        tracer_warn(tracer, text);
    }
    tracer_go_on(tracer);
}

/* https://opentelemetry.io/docs/specs/otlp/#failures-1: these four may be tried again. */
static void tracer_answered(struct tracer *tracer, int status, uint32_t retry_after_s) {
    char reason[64];
    snprintf(reason, sizeof reason, "it answers with status %d", status);
    if (status >= 200 && status < 300) {
        tracer_took(tracer);
    } else if (status == 429 || status == 502 || status == 503 || status == 504) {
        tracer_put_off(tracer, reason, retry_after_s);
    } else {
        tracer->n_failures = 0;
        tracer->counts.n_failed += tracer->n_batch;
        tracer_warn(tracer, reason);
        tracer_go_on(tracer);
    }
}

static void tracer_on_body(void *user, const char *bytes, size_t n) {
    struct tracer *tracer = user;
    if (tracer->answer.n + n <= TRACER_ANSWER_BYTES) {
        buf_append(&tracer->answer, bytes, n);
        return;
    }
    int status = http_client_status(tracer->client);
    uint32_t retry_after_s = http_client_retry_after_s(tracer->client);
    http_client_abort(tracer->client);
    buf_clear(&tracer->answer); /* cut, it says nothing */
    tracer_answered(tracer, status, retry_after_s);
}

static void tracer_on_end(void *user, enum status status, int http_status,
                          const struct error *error) {
    struct tracer *tracer = user;
    if (status == STATUS_OK)
        tracer_answered(tracer, http_status, http_client_retry_after_s(tracer->client));
    else
        tracer_put_off(tracer, error->text, 0);
}

/* Fills the batch, if there is none, and starts its request. */
static void tracer_send(struct tracer *tracer) {
    static const struct http_events events = {.on_body = tracer_on_body, .on_end = tracer_on_end};
    struct http_events calls = events;
    if (tracer->n_batch == 0) {
        if (tracer->queue.n == 0) {
            tracer_go_on(tracer);
            return;
        }
        tracer->batch_since_ns = clock_now_ns();
        if (trace_queue_take(&tracer->queue, &tracer->resource, &tracer->batch, &tracer->n_batch) !=
            STATUS_OK) {
            tracer->counts.n_dropped += tracer->n_batch;
            tracer_go_on(tracer);
            return;
        }
    }
    if (tracer->dns)
        dns_take(tracer->dns, 0, &tracer->known);
    if (tracer->known.n == 0) {
        tracer_put_off(tracer, tracer->known.why[0] ? tracer->known.why : "its name has no address",
                       0);
        return;
    }
    calls.user = tracer;
    buf_clear(&tracer->answer);
    tracer_wait(tracer, TRACER_SENDS, tracer->times.answer_ns);
    http_client_start(tracer->client,
                      &(struct http_ask){.method = "POST",
                                         .path = "",
                                         .header = tracer->header[0] ? tracer->header : NULL,
                                         .body = tracer->batch.data,
                                         .n_body = tracer->batch.n,
                                         .content_type = "application/x-protobuf"},
                      &calls);
}

static void tracer_on_timer(void *user) {
    struct tracer *tracer = user;
    if (tracer->state != TRACER_SENDS) {
        tracer_send(tracer);
        return;
    }
    http_client_abort(tracer->client);
    tracer_put_off(tracer, "it does not answer", 0);
}

/* --- the whole ------------------------------------------------------------------------------- */

bool tracer_records(const struct tracer *tracer, const struct trace *trace) {
    return traceparent_is_within(trace, tracer->ratio);
}

void tracer_add(struct tracer *tracer, const struct trace_span *span) {
    if (trace_queue_add(&tracer->queue, span) != STATUS_OK) {
        tracer->counts.n_dropped++;
        tracer_warn(tracer, "more spans wait than the queue holds");
        return;
    }
    if (tracer->state == TRACER_IDLE)
        tracer_wait(tracer, TRACER_GATHERS, tracer->times.gather_ns);
    else if (tracer->state == TRACER_GATHERS && tracer->queue.n == TRACE_BATCH_SPANS)
        tracer_wait(tracer, TRACER_GATHERS, 0);
}

void tracer_end(struct tracer *tracer) {
    if (tracer->end_ns > 0)
        return;
    tracer->end_ns = clock_now_ns() + tracer->times.end_ns;
    if (tracer->state == TRACER_GATHERS || tracer->state == TRACER_WAITS)
        tracer_wait(tracer, TRACER_GATHERS, 0);
}

bool tracer_has_ended(const struct tracer *tracer) {
    return tracer->state == TRACER_IDLE || clock_now_ns() >= tracer->end_ns;
}

struct tracer_counts tracer_counts(const struct tracer *tracer) {
    return tracer ? tracer->counts : (struct tracer_counts){.n_sent = 0};
}

static uint64_t tracer_time(uint64_t ns, uint64_t usual_ns) {
    return ns > 0 ? ns : usual_ns;
}

static struct tracer_times tracer_times_of(const struct tracer_times *given) {
    const struct tracer_times *usual = &default_times;
    return (struct tracer_times){
        .gather_ns = tracer_time(given->gather_ns, usual->gather_ns),
        .answer_ns = tracer_time(given->answer_ns, usual->answer_ns),
        .backoff_ns_min = tracer_time(given->backoff_ns_min, usual->backoff_ns_min),
        .backoff_ns_max = tracer_time(given->backoff_ns_max, usual->backoff_ns_max),
        .retry_ns = tracer_time(given->retry_ns, usual->retry_ns),
        .end_ns = tracer_time(given->end_ns, usual->end_ns)};
}

static void tracer_know(struct tracer *tracer, const char *address) {
    char *to = tracer->known.addresses[tracer->known.n++];
    snprintf(to, sizeof tracer->known.addresses[0], "%s", address);
}

/* An address is known as it stands, and so is localhost (RFC 6761), for which c-ares 1.18 loses ten
 * bytes a question. Another name is asked for by a thread. */
static enum status tracer_open_name(struct tracer *tracer, struct error *error) {
    const char *host = tracer->url.host;
    struct in_addr v4;
    bool is_address = inet_pton(AF_INET, host, &v4) == 1 || address_is_v6(host);
    tracer->url.known = &tracer->known;
    if (strcmp(host, "localhost") == 0) {
        tracer_know(tracer, "127.0.0.1");
        tracer_know(tracer, "::1");
    } else if (is_address && strlen(host) < sizeof tracer->known.addresses[0]) {
        tracer_know(tracer, host);
    } else {
        return dns_new(&host, 1, "", &tracer->dns, error);
    }
    return STATUS_OK;
}

static enum status tracer_open(struct tracer *tracer, const char *url, struct error *error) {
    const struct http_trust trust = {.ca = NULL};
    TRY(tracer_read_url(url, &tracer->url, error));
    TRY(http_url_trust(&tracer->url, &trust, error));
    TRY(tracer_open_name(tracer, error));
    if (http_client_new(tracer->loop, &tracer->url, &tracer->client) != STATUS_OK ||
        loop_timer_new(tracer->loop, tracer_on_timer, tracer, &tracer->timer) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "no memory for the collector's connection");
    return STATUS_OK;
}

enum status tracer_new(struct loop *loop, const struct tracer_config *config, struct tracer **out,
                       struct error *error) {
    struct tracer *tracer = calloc(1, sizeof *tracer);
    if (!tracer)
        return error_set(error, STATUS_NOMEM, "no memory for traces");
    tracer->loop = loop;
    tracer->times = tracer_times_of(&config->times);
    tracer->resource = config->resource;
    tracer->header = config->header;
    tracer->ratio = config->ratio;
    tracer->random.state = random_seed();
    trace_queue_init(&tracer->queue);
    buf_init(&tracer->batch, 0);
    buf_init(&tracer->answer, 0);
    enum status status = tracer_open(tracer, config->url, error);
    if (status != STATUS_OK)
        tracer_free(tracer);
    else
        *out = tracer;
    return status;
}

void tracer_free(struct tracer *tracer) {
    if (!tracer)
        return;
    uint64_t n_lost = (uint64_t)tracer->n_batch + tracer->queue.n;
    if (n_lost > 0)
        log_warn("spans are lost with the router's end", "n=%llu", (unsigned long long)n_lost);
    http_client_free(tracer->client);
    loop_timer_free(tracer->timer);
    dns_free(tracer->dns);
    http_url_close(&tracer->url);
    trace_queue_fini(&tracer->queue);
    buf_fini(&tracer->batch);
    buf_fini(&tracer->answer);
    free(tracer);
}
