/* `tandem batch`: a file of requests is asked, so many at a time, and their answers are written as they come (batch_lines.h). What
 * cannot be answered now (a server that starts again, a full queue) is asked again; what was answered once never is. */
#include "tools/cli/batch.h"

#include "base/client/http_client.h"
#include "tools/cli/batch_lines.h"
#include "tools/cli/target.h"
#include "tools/lib/args.h"
#include "tools/lib/http_trust.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/exit.h"
#include "base/net/loop.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ASKERS_MAX   256
#define ASKERS_USUAL 16
#define WAIT_USUAL_S 300
#define ANSWER_MAX   ((size_t)256 << 20) /* bytes */
#define AGAIN_NS_MIN (250 * NS_PER_MS)
#define AGAIN_NS_MAX (4 * NS_PER_S)
#define PROGRESS_NS  NS_PER_S

struct batch_run;

/* Asks one request after the other, on a connection of its own. */
struct asker {
    struct batch_run *batch;
    struct http_client *client; /* owned */
    struct loop_timer *again;   /* owned */
    struct batch_line line;     /* owned; without an id: there is none */
    struct buf answer;
    unsigned n_tries; /* in vain, of this line */
};

struct batch_run {
    const char *in, *out, *server, *api_key;
    struct http_trust trust;
    struct http_url url; /* owned */
    long n_askers, wait_s;
    struct loop *loop;
    struct loop_timer *progress; /* owned */
    struct loop_watch *signals[2];
    struct batch_lines *lines;
    struct asker askers[ASKERS_MAX];
    unsigned n_busy;
    uint64_t heard_ns; /* the last answer, or the start */
    bool has_heard, is_over, is_stopped;
    enum status status; /* why it ends early */
    struct error error;
};

static void tandem_batch_read_positive(const struct args_given *given, long most) {
    char *end = NULL;
    long *n = given->at;
    *n = strtol(given->text, &end, 10);
    if (end == given->text || *end || *n < 1 || *n > most)
        argp_error(given->state, "--%s: \"%s\" is not a number from 1 to %ld", given->row->name,
                   given->text, most);
}

static void tandem_batch_read_askers(const struct args_given *given) {
    tandem_batch_read_positive(given, ASKERS_MAX);
}

static void tandem_batch_read_wait(const struct args_given *given) {
    tandem_batch_read_positive(given, 86400);
}

#define AT(member) offsetof(struct batch_run, member)
static const struct args_row rows[] = {
    {"server", "URL", args_text, AT(server),
     .help = "the server (default: TANDEM_SERVER or port 8000 here)"},
    {"api-key", "KEY", args_text, AT(api_key), .help = "default: OPENAI_API_KEY"},
    {"concurrency", "N", tandem_batch_read_askers, AT(n_askers),
     .help = "requests at a time (1 to 256; default 16)"},
    {"wait", "SECONDS", tandem_batch_read_wait, AT(wait_s),
     .help = "give up after so long without any answer (default 300)"},
    {NULL, "IN", args_text, .at = AT(in)},
    {NULL, "OUT", args_text, .at = AT(out)},
    {0}};

static void batch_end(struct batch_run *batch, enum status status) {
    if (batch->status == STATUS_OK)
        batch->status = status;
    batch->is_over = true;
    loop_stop(batch->loop);
}

static void batch_ask_next(struct asker *asker);

static void tandem_batch_on_body(void *user, const char *bytes, size_t n) {
    struct asker *asker = user;
    buf_append(&asker->answer, bytes, n);
}

/* No worker could answer it now: later, unless that has been so for long, or was never otherwise. */
static void batch_ask_again(struct asker *asker, const struct error *error, int http_status) {
    struct batch_run *batch = asker->batch;
    uint64_t wait_ns = AGAIN_NS_MIN << (asker->n_tries < 4 ? asker->n_tries : 4);
    bool is_refused = http_status == 0 && !batch->has_heard && target_hint(error->text)[0];
    bool is_late = clock_now_ns() - batch->heard_ns > (uint64_t)batch->wait_s * NS_PER_S;
    asker->n_tries++;
    if (!is_refused && !is_late) {
        loop_timer_after(asker->again, wait_ns < AGAIN_NS_MAX ? wait_ns : AGAIN_NS_MAX);
        return;
    }
    if (http_status != 0)
        error_set(&batch->error, STATUS_TIMEOUT, "no answer for %ld s: HTTP status %d",
                  batch->wait_s, http_status);
    else
        batch->error = *error;
    batch_end(batch, STATUS_TIMEOUT);
}

static void tandem_batch_on_end(void *user, enum status status, int http_status,
                                const struct error *error) {
    struct asker *asker = user;
    struct batch_run *batch = asker->batch;
    if (batch->is_over)
        return;
    if (status != STATUS_OK || http_status == 429 || http_status == 502 || http_status == 503) {
        batch_ask_again(asker, error, status == STATUS_OK ? http_status : 0);
        return;
    }
    batch->heard_ns = clock_now_ns();
    batch->has_heard = true;
    if (http_status == 401) {
        error_set(&batch->error, STATUS_DENIED,
                  "%s: a valid API key is needed: --api-key, or OPENAI_API_KEY",
                  target_server(batch->server));
        batch_end(batch, STATUS_DENIED);
        return;
    }
    status = buf_status(&asker->answer);
    if (status == STATUS_OK)
        status = batch_lines_answer(batch->lines, &asker->line, http_status,
                                    asker->answer.data ? asker->answer.data : "", asker->answer.n,
                                    &batch->error);
    else
        error_set(&batch->error, status, "an answer has more than %zu MiB", ANSWER_MAX >> 20);
    batch_line_fini(&asker->line);
    batch->n_busy--;
    if (status != STATUS_OK)
        batch_end(batch, status);
    else
        batch_ask_next(asker);
}

static void batch_ask(void *user) {
    struct asker *asker = user;
    const struct http_events events = {tandem_batch_on_body, tandem_batch_on_end, asker};
    const struct http_ask what = {.method = "POST",
                                  .path = asker->line.url,
                                  .api_key = asker->batch->api_key,
                                  .body = asker->line.body};
    buf_clear(&asker->answer);
    http_client_start(asker->client, &what, &events);
}

/* The last one ends the batch. */
static void batch_ask_next(struct asker *asker) {
    struct batch_run *batch = asker->batch;
    enum status status = batch_lines_next(batch->lines, &asker->line, &batch->error);
    asker->n_tries = 0;
    if (status == STATUS_OK) {
        batch->n_busy++;
        batch_ask(asker);
    } else if (status != STATUS_CLOSED) {
        batch_end(batch, status);
    } else if (batch->n_busy == 0) {
        batch_end(batch, STATUS_OK);
    }
}

static void tandem_batch_on_interrupt(void *user, unsigned number) {
    struct batch_run *batch = user;
    (void)number;
    batch->is_stopped = true;
    batch_end(batch, STATUS_OK);
}

static void batch_say(const struct batch_run *batch, const char *ending) {
    fprintf(stderr, "%zu of %zu answered", batch_lines_n_answered(batch->lines),
            batch_lines_n(batch->lines));
    if (batch_lines_n_refused(batch->lines) > 0)
        fprintf(stderr, ", %zu of them refused: %s says why", batch_lines_n_refused(batch->lines),
                batch->out);
    fputs(ending, stderr);
}

static void tandem_batch_on_progress(void *user) {
    struct batch_run *batch = user;
    fputs("\r\033[K", stderr);
    batch_say(batch, "");
    loop_timer_after(batch->progress, PROGRESS_NS);
}

static enum status tandem_batch_open_all(struct batch_run *batch) {
    struct error *error = &batch->error;
    TRY(batch_lines_open(batch->in, batch->out, &batch->lines, error));
    TRY(http_url_open(target_server(batch->server), &batch->trust, &batch->url, error));
    error_set(error, STATUS_NOMEM, "no memory for a batch");
    TRY(loop_new(&batch->loop));
    TRY(loop_timer_new(batch->loop, tandem_batch_on_progress, batch, &batch->progress));
    TRY(loop_signal_new(batch->loop, SIGINT, tandem_batch_on_interrupt, batch, &batch->signals[0]));
    TRY(loop_signal_new(batch->loop, SIGTERM, tandem_batch_on_interrupt, batch,
                        &batch->signals[1]));
    for (long i = 0; i < batch->n_askers; i++) {
        struct asker *asker = &batch->askers[i];
        asker->batch = batch;
        buf_init(&asker->answer, ANSWER_MAX);
        TRY(http_client_new(batch->loop, &batch->url, &asker->client));
        TRY(loop_timer_new(batch->loop, batch_ask, asker, &asker->again));
    }
    return STATUS_OK;
}

static void batch_run(struct batch_run *batch) {
    batch->heard_ns = clock_now_ns();
    if (isatty(STDERR_FILENO))
        loop_timer_after(batch->progress, PROGRESS_NS);
    for (long i = 0; i < batch->n_askers && !batch->is_over; i++)
        batch_ask_next(&batch->askers[i]);
    if (!batch->is_over || batch->n_busy > 0)
        loop_run(batch->loop);
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
    batch_say(batch, batch->is_stopped ? "; the same command goes on\n" : "\n");
}

static void tandem_batch_close_all(struct batch_run *batch) {
    for (long i = 0; i < batch->n_askers; i++) {
        struct asker *asker = &batch->askers[i];
        http_client_free(asker->client);
        loop_timer_free(asker->again);
        batch_line_fini(&asker->line);
        buf_fini(&asker->answer);
    }
    for (unsigned i = 0; i < 2; i++)
        loop_watch_free(batch->signals[i]);
    loop_timer_free(batch->progress);
    http_url_close(&batch->url);
    loop_free(batch->loop);
    batch_lines_close(batch->lines);
}

int batch_command(int argc, char **argv) {
    static const struct args args = {
        "IN OUT",
        "Asks the requests of a file, a line each as OpenAI's Batch API has them, and writes their "
        "answers to another one as they "
        "come. Run again after a break it asks what has no answer yet.",
        .parts = {{rows, 0}, {http_trust_rows, AT(trust)}}};
    static struct batch_run batch = {.n_askers = ASKERS_USUAL, .wait_s = WAIT_USUAL_S};
    batch.api_key = getenv("OPENAI_API_KEY");
    args_parse(&args, argc, argv, &batch);
    if (!batch.out)
        return exit_fail(EXIT_CONFIG, "which files? tandem batch IN.jsonl OUT.jsonl");
    enum status status = tandem_batch_open_all(&batch);
    if (status == STATUS_OK)
        batch_run(&batch);
    if (status == STATUS_OK)
        status = batch.status;
    int code = batch.is_stopped ? 1 : 0;
    tandem_batch_close_all(&batch);
    return status == STATUS_OK
               ? code
               : exit_fail(1, "%s%s", batch.error.text, target_hint(batch.error.text));
}
