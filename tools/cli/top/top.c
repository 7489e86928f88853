/* `tandem top`: asks a server again and again, and shows what it says (top_view, top_layout). */
#include "tools/cli/top/top.h"

#include "base/client/http_client.h"
#include "tools/cli/target.h"
#include "tools/cli/top/top_layout.h"
#include "tools/cli/top/top_terminal.h"
#include "tools/lib/args.h"
#include "tools/lib/http_trust.h"
#include "tools/lib/terminal.h"

#include "base/clock.h"
#include "base/exit.h"
#include "base/net/loop.h"

#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INTERVAL_S_MIN 0.1
#define INTERVAL_S_MAX 3600.0
#define PATIENCE_S_MIN 2.0 /* for an answer: five intervals, but within these */
#define PATIENCE_S_MAX 10.0
#define PLAIN_WIDTH    120

struct top;

/* One of the two questions of a round. */
struct question {
    const char *path;
    void (*take)(struct top *top, int http_status, const char *problem);
    struct top *top;
    struct http_client *client; /* owned */
    struct buf answer;
    bool is_open; /* asked and not answered */
};

struct top {
    struct cli_target target;
    struct http_url url; /* owned */
    double interval_s;
    bool once, plain, is_ascii;
    bool on_screen;           /* the terminal is open */
    bool ended;               /* nothing more is asked or drawn */
    struct loop *loop;        /* owned, with what is made on it: */
    struct loop_timer *next;  /* a round begins */
    struct loop_timer *limit; /* a round has taken too long */
    struct loop_watch *keys, *resize, *ends[2];
    struct terminal terminal;
    struct question status, metrics;
    struct top_view *view; /* owned */
    struct top_look look;
    unsigned n_shown;  /* workers on the screen */
    unsigned n_rounds; /* that were answered */
    uint64_t asked_ns; /* when this round began */
    int code;
};

static void top_read_interval(const struct args_given *given) {
    char *end = NULL;
    double *interval_s = given->at;
    *interval_s = strtod(given->text, &end);
    if (end == given->text || *end ||
        !(*interval_s >= INTERVAL_S_MIN && *interval_s <= INTERVAL_S_MAX))
        argp_error(given->state, "--interval: \"%s\" is not between 0.1 and 3600 seconds",
                   given->text);
}

#define AT(member) offsetof(struct top, member)
static const struct args_row rows[] = {
    {"interval", "SECONDS", top_read_interval, AT(interval_s),
     .help = "time between two looks, 0.1 to 3600 (default: 1)"},
    {"once", NULL, args_switch, AT(once), .help = "print one picture, after two looks, and end"},
    {"plain", NULL, args_switch, AT(plain),
     .help = "print lines, as where standard output is not a terminal"},
    {0}};

/* --- what is shown -------------------------------------------------------------------------- */

static void top_end(struct top *top, int code) {
    top->ended = true;
    top->code = code;
    loop_stop(top->loop);
}

static void top_print_lines(struct top *top) {
    struct top_screen screen;
    struct buf text;
    bool was_blank = true;
    if (top_screen_init(&screen, PLAIN_WIDTH, top_layout_height(top->view), top->is_ascii) !=
        STATUS_OK)
        return;
    top_layout(top->view, &top->look, &screen);
    buf_init(&text, 0);
    for (unsigned y = 0; y < screen.height; y++) {
        buf_clear(&text);
        top_line(&screen, y, &text);
        if (text.n > 0 || !was_blank)
            printf("%s\n", text.n > 0 ? text.data : "");
        was_blank = text.n == 0;
    }
    if (!was_blank && !top->once)
        putchar('\n');
    if (fflush(stdout) != 0 || ferror(stdout))
        top_end(top, 1); /* no terminal shows them */
    buf_fini(&text);
    top_screen_fini(&screen);
}

static void top_draw(struct top *top) {
    struct top_screen screen;
    unsigned width, height;
    top_terminal_size(&width, &height);
    if (top_screen_init(&screen, width, height, top->is_ascii) != STATUS_OK)
        return;
    top->n_shown = top_layout(top->view, &top->look, &screen);
    top_terminal_draw(&screen);
    top_screen_fini(&screen);
}

/* --- rounds of questions -------------------------------------------------------------------- */

static void top_ask(struct question *question);

static double top_patience_s(const struct top *top) {
    double wanted_s = 5 * top->interval_s;
    return wanted_s < PATIENCE_S_MIN   ? PATIENCE_S_MIN
           : wanted_s > PATIENCE_S_MAX ? PATIENCE_S_MAX
                                       : wanted_s;
}

static void top_begin_round(void *user) {
    struct top *top = user;
    top->asked_ns = clock_now_ns();
    top->status.is_open = top->metrics.is_open = true; /* an answer may come at once */
    top_ask(&top->status);
    top_ask(&top->metrics);
    loop_timer_after(top->limit, (uint64_t)(top_patience_s(top) * (double)NS_PER_S));
}

/* Says why there is no answer, with the server's address once. */
static int top_fail(const struct top_view *view) {
    const char *address = strstr(view->server, "://");
    address = address ? address + 3 : view->server;
    bool is_named = strncmp(view->trouble, address, strlen(address)) == 0;
    return exit_fail(1, "%s%s%s%s", is_named ? "" : view->server, is_named ? "" : ": ",
                     view->trouble, target_hint(view->trouble));
}

static void top_end_round(struct top *top) {
    uint64_t interval_ns = (uint64_t)(top->interval_s * (double)NS_PER_S);
    loop_timer_stop(top->limit);
    if (top->ended)
        return;
    bool is_lost = top->view->lost_ns != 0;
    top->n_rounds += !is_lost;
    if (top->once && is_lost)
        top_end(top, top_fail(top->view));
    else if (top->on_screen && !top->look.is_paused)
        top_draw(top);
    else if (!top->on_screen && (!top->once || top->n_rounds == 2))
        top_print_lines(top);
    if (top->once && top->n_rounds == 2)
        top_end(top, 0);
    uint64_t next_ns = top->asked_ns + interval_ns, now_ns = clock_now_ns();
    loop_timer_at(top->next, next_ns > now_ns ? next_ns : now_ns);
}

static void top_on_limit(void *user) {
    struct top *top = user;
    struct question *both[] = {&top->status, &top->metrics};
    char words[64];
    snprintf(words, sizeof words, "no answer within %.3g s", top_patience_s(top));
    for (unsigned i = 0; i < 2; i++) {
        if (!both[i]->is_open)
            continue;
        http_client_abort(both[i]->client);
        both[i]->is_open = false;
        both[i]->take(top, 0, words);
    }
    top_end_round(top);
}

static void top_on_body(void *user, const char *bytes, size_t n) {
    struct question *question = user;
    buf_append(&question->answer, bytes, n);
}

static void top_on_end(void *user, enum status status, int http_status, const struct error *error) {
    struct question *question = user;
    struct top *top = question->top;
    question->is_open = false;
    question->take(top, http_status, status == STATUS_OK ? NULL : error->text);
    if (!top->status.is_open && !top->metrics.is_open)
        top_end_round(top);
}

static void top_ask(struct question *question) {
    struct http_events events = {top_on_body, top_on_end, question};
    struct http_ask what = {
        .method = "GET", .path = question->path, .api_key = question->top->target.key};
    buf_clear(&question->answer);
    http_client_start(question->client, &what, &events);
}

static void top_take_status(struct top *top, int http_status, const char *problem) {
    const struct buf *answer = &top->status.answer;
    uint64_t now_ns = clock_now_ns();
    struct error error;
    char words[64];
    if (!problem && (http_status == 401 || http_status == 403))
        problem = "it wants an admin key (--admin-key-file FILE or TANDEM_ADMIN_KEY)";
    snprintf(words, sizeof words, "HTTP status %d: no Tandem server?", http_status);
    if (!problem && http_status != 200)
        problem = words;
    if (!problem && top_view_status(top->view, answer->data ? answer->data : "", answer->n, now_ns,
                                    &error) != STATUS_OK)
        problem = error.text;
    if (problem)
        top_view_lost(top->view, problem, now_ns);
}

static void top_take_metrics(struct top *top, int http_status, const char *problem) {
    const struct buf *answer = &top->metrics.answer;
    if (!problem && http_status == 200 && answer->n > 0)
        top_view_metrics(top->view, answer->data, answer->n, clock_now_ns());
}

/* --- keys ----------------------------------------------------------------------------------- */

static void top_change_interval(struct top *top, double times) {
    double to_s = top->interval_s * times;
    top->interval_s = to_s < INTERVAL_S_MIN ? INTERVAL_S_MIN : to_s > 60 ? 60 : to_s;
}

/* False: the program ends. */
static bool top_on_key(struct top *top, enum top_key key) {
    struct top_look *look = &top->look;
    unsigned page = top->n_shown > 1 ? top->n_shown - 1 : 1;
    switch (key) {
    case TOP_KEY_QUIT:
        return false;
    case TOP_KEY_HELP:
        look->has_help = !look->has_help;
        break;
    case TOP_KEY_SORT:
        look->sort = (look->sort + 1) % TOP_SORTS;
        break;
    case TOP_KEY_SORT_BACK:
        look->sort = (look->sort + TOP_SORTS - 1) % TOP_SORTS;
        break;
    case TOP_KEY_REVERSE:
        look->is_reversed = !look->is_reversed;
        break;
    case TOP_KEY_PAUSE:
        look->is_paused = !look->is_paused;
        break;
    case TOP_KEY_UP:
        look->first -= look->first > 0;
        break;
    case TOP_KEY_DOWN:
        look->first++;
        break;
    case TOP_KEY_PAGE_UP:
        look->first = look->first > page ? look->first - page : 0;
        break;
    case TOP_KEY_PAGE_DOWN:
        look->first += page;
        break;
    case TOP_KEY_FIRST:
        look->first = 0;
        break;
    case TOP_KEY_LAST:
        look->first = TOP_WORKERS_MAX;
        break;
    case TOP_KEY_FASTER:
        top_change_interval(top, 0.5);
        break;
    case TOP_KEY_SLOWER:
        top_change_interval(top, 2);
        break;
    case TOP_KEY_REDRAW:
        top_terminal_redraw();
        break;
    case TOP_KEY_NONE:
    case TOP_KEY_OTHER:
        break;
    }
    return true;
}

static void top_on_keys(void *user, unsigned events) {
    struct top *top = user;
    (void)events;
    bool goes_on = true;
    for (enum top_key key; goes_on && (key = top_terminal_key()) != TOP_KEY_NONE;)
        goes_on = top_on_key(top, key);
    if (!goes_on || top_terminal_is_gone())
        top_end(top, 0);
    else
        top_draw(top);
}

static void top_on_resize(void *user, unsigned number) {
    (void)number;
    top_terminal_resized();
    top_draw(user);
}

static void top_on_terminal_gone(void *user) {
    top_end(user, 0);
}

static void top_on_end_signal(void *user, unsigned number) {
    (void)number;
    top_end(user, 0);
}

/* --- up and down ---------------------------------------------------------------------------- */

static bool top_is_set(const char *variable) {
    const char *text = getenv(variable);
    return text && text[0];
}

static enum status top_open_screen(struct top *top) {
    bool wants = !top->plain && !top->once && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    top->on_screen = wants && top_terminal_open(!top_is_set("NO_COLOR"));
    if (wants && !top->on_screen)
        fputs("no full screen: this build has no ncurses, or the terminal (TERM) is unknown. "
              "Printing lines, as --plain does.\n",
              stderr);
    top->look.has_keys = top->on_screen;
    if (!top->on_screen)
        return STATUS_OK;
    TRY(loop_watch_new(top->loop, STDIN_FILENO, top_on_keys, top, &top->keys));
    TRY(loop_watch_set(top->keys, LOOP_READ));
    return loop_signal_new(top->loop, SIGWINCH, top_on_resize, top, &top->resize);
}

static enum status top_open_all(struct top *top) {
    top->status.take = top_take_status;
    top->metrics.take = top_take_metrics;
    top->status.path = "/admin/status";
    top->metrics.path = "/metrics";
    top->status.top = top->metrics.top = top;
    top->view = calloc(1, sizeof *top->view);
    if (!top->view)
        return STATUS_NOMEM;
    top_view_init(top->view, target_server(top->target.server));
    TRY(loop_new(&top->loop));
    TRY(loop_timer_new(top->loop, top_begin_round, top, &top->next));
    TRY(loop_timer_new(top->loop, top_on_limit, top, &top->limit));
    TRY(http_client_new(top->loop, &top->url, &top->status.client));
    TRY(http_client_new(top->loop, &top->url, &top->metrics.client));
    TRY(top_open_screen(top));
    TRY(terminal_init(&top->terminal, top->loop,
                      isatty(STDIN_FILENO) ? STDIN_FILENO : STDOUT_FILENO, top_on_terminal_gone,
                      top));
    TRY(loop_signal_new(top->loop, SIGINT, top_on_end_signal, top, &top->ends[0]));
    return loop_signal_new(top->loop, SIGTERM, top_on_end_signal, top, &top->ends[1]);
}

static void top_close_all(struct top *top) {
    top_terminal_close();
    loop_watch_free(top->keys);
    loop_watch_free(top->resize);
    loop_watch_free(top->ends[0]);
    loop_watch_free(top->ends[1]);
    http_client_free(top->status.client);
    http_client_free(top->metrics.client);
    loop_timer_free(top->next);
    loop_timer_free(top->limit);
    terminal_fini(&top->terminal);
    loop_free(top->loop);
    http_url_close(&top->url);
    buf_fini(&top->status.answer);
    buf_fini(&top->metrics.answer);
    target_forget(&top->target);
    free(top->view);
}

int top_command(int argc, char **argv) {
    static const struct args args = {
        "",
        "A live view of a running server: its workers, queue, tokens per second, times to "
        "first "
        "token. Keys: q ends, ? lists the others. Where standard output is not a terminal: "
        "lines.",
        .parts = {{rows, 0}, {target_rows, AT(target)}, {http_trust_rows, AT(target.trust)}}};
    static struct top top = {.interval_s = 1};
    struct error error;
    args_parse(&args, argc, argv, &top);
    setlocale(LC_CTYPE, "");
    top.is_ascii = strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
    buf_init(&top.status.answer, 16u << 20);
    buf_init(&top.metrics.answer, 16u << 20);
    if (target_find_key(&top.target, &error) != STATUS_OK ||
        http_url_open(target_server(top.target.server), &top.target.trust, &top.url, &error) !=
            STATUS_OK) {
        target_forget(&top.target);
        return exit_fail(EXIT_CONFIG, "%s", error.text);
    }
    enum status status = top_open_all(&top);
    if (status == STATUS_OK) {
        if (top.on_screen)
            top_draw(&top);
        top_begin_round(&top);
        loop_run(top.loop);
    }
    top_close_all(&top);
    return status == STATUS_OK ? top.code : exit_fail(1, "cannot begin: %s", status_name(status));
}
