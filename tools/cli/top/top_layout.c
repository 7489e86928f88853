#include "tools/cli/top/top_layout.h"

#include "base/assert.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT 96

/* A band of lines is left out where the screen is too small for it. */
#define HEIGHT_SMALL  12
#define HEIGHT_ROLES  14 /* a line for each role above its workers */
#define HEIGHT_EVENTS 18
#define HEIGHT_LARGE  36
#define N_KEYS        8

/* --- figures as text ------------------------------------------------------------------------ */

/* Four digits at most: 9999, 12.3k, 4.5M. */
static const char *short_number(double value, char text[TEXT]) {
    static const char units[] = " kMGT";
    unsigned unit = 0;
    if (value < 9999.5) {
        snprintf(text, TEXT,
                 value < 9.95 && value > 0 && value != (double)(int)value ? "%.1f" : "%.0f", value);
        return text;
    }
    for (; value >= 999.5 && unit < 4; unit++)
        value /= 1000;
    snprintf(text, TEXT, value < 99.95 ? "%.1f%c" : "%.0f%c", value, units[unit]);
    return text;
}

static const char *short_time(double seconds, char text[TEXT]) {
    if (seconds < 0)
        snprintf(text, TEXT, "-");
    else if (seconds < 0.00995)
        snprintf(text, TEXT, "%.1f ms", seconds * 1e3);
    else if (seconds < 0.9995)
        snprintf(text, TEXT, "%.0f ms", seconds * 1e3);
    else
        snprintf(text, TEXT, seconds < 9.995 ? "%.2f s" : "%.0f s", seconds);
    return text;
}

static const char *short_age(uint64_t seconds, char text[TEXT]) {
    unsigned long long s = seconds;
    if (s < 60)
        snprintf(text, TEXT, "%llus", s);
    else if (s < 3600)
        snprintf(text, TEXT, "%llum%02llus", s / 60, s % 60);
    else if (s < 86400)
        snprintf(text, TEXT, "%lluh%02llum", s / 3600, s / 60 % 60);
    else
        snprintf(text, TEXT, "%llud%02lluh", s / 86400, s / 3600 % 24);
    return text;
}

static uint64_t seconds_since(uint64_t now_ns, uint64_t then_ns) {
    return now_ns > then_ns ? (now_ns - then_ns) / NS_PER_S : 0;
}

/* --- the head ------------------------------------------------------------------------------- */

static void top_put_title(const struct top_view *view, const struct top_look *look,
                          struct top_screen *screen) {
    const struct top_router *router = &view->router;
    char text[512], age[TEXT];
    enum top_style style = TOP_BOLD;
    if (view->lost_ns != 0) {
        style = TOP_BAD;
        snprintf(text, sizeof text, "no answer for %s: %s",
                 short_age(seconds_since(view->now_ns, view->lost_ns), age), view->trouble);
    } else if (view->answered_ns == 0) {
        style = TOP_DIM;
        snprintf(text, sizeof text, "asking ...");
    } else {
        const char *dot = screen->is_ascii ? "-" : "·";
        snprintf(text, sizeof text, "%s %s %s %s up %s%s", router->model, dot, router->name, dot,
                 short_age(router->uptime_s, age), router->is_draining ? ", draining" : "");
        style = router->is_draining ? TOP_WARN : TOP_BOLD;
    }
    unsigned x = top_put(screen, 0, 0, screen->width, TOP_DIM, view->server) + 2;
    if (look->is_paused)
        x = top_put(screen, x, 0, 6, TOP_WARN, "PAUSED") + 2;
    if (x < screen->width)
        top_put(screen, x, 0, screen->width - x, style, text);
}

/* A name with a figure behind it. */
struct item {
    const char *name;
    char value[TEXT];
    enum top_style style;
    unsigned room; /* columns for the figure at least, so that what follows keeps its place */
};

#define N_ITEMS 12

static void top_count_item(struct item *item, const char *name, uint64_t n, enum top_style style) {
    item->name = name;
    item->style = n > 0 ? style : TOP_PLAIN;
    item->room = 5;
    short_number((double)n, item->value);
}

static void top_time_item(struct item *item, const char *name, const struct top_latency *latency) {
    char p50[TEXT], p99[TEXT];
    *item = (struct item){.name = name, .style = TOP_BOLD, .room = 22};
    if (top_latency_s(latency, 0.5) < 0) /* as wide as figures are, which are not to move others */
        snprintf(item->value, sizeof item->value, "%-*s", (int)item->room, "-");
    else
        snprintf(item->value, sizeof item->value, "p50 %s  p99 %s",
                 short_time(top_latency_s(latency, 0.5), p50),
                 short_time(top_latency_s(latency, 0.99), p99));
}

static void top_make_items(const struct top_view *view, struct item items[N_ITEMS]) {
    const struct top_router *router = &view->router;
    uint64_t used = 0, total = 0;
    unsigned n = 0;
    for (unsigned i = 0; i < view->n_workers; i++) {
        used += view->workers[i].blocks_used;
        total += view->workers[i].gone_ns == 0 ? view->workers[i].blocks_total : 0;
    }
    items[n] = (struct item){.name = "requests/s", .style = TOP_BOLD, .room = 5};
    short_number(view->requests_per_s, items[n++].value);
    top_count_item(&items[n++], "running", router->n_running, TOP_BOLD);
    top_count_item(&items[n++], "queued", router->n_queued, TOP_WARN);
    items[n] = (struct item){.name = "tokens/s", .style = TOP_BOLD, .room = 5};
    short_number(view->tokens_per_s, items[n++].value);
    top_time_item(&items[n++], "TTFT", &view->ttft);
    items[n] = (struct item){.name = "KV", .style = TOP_BOLD, .room = 5};
    snprintf(items[n++].value, TEXT, "%.0f%%",
             total > 0 ? 100.0 * (double)used / (double)total : 0);
    top_time_item(&items[n++], "ITL", &view->itl);
    top_count_item(&items[n++], "hand-offs", router->n_handoffs, TOP_PLAIN);
    top_count_item(&items[n++], "replays", router->n_replays, TOP_WARN);
    top_count_item(&items[n++], "done", router->n_completed, TOP_PLAIN);
    top_count_item(&items[n++], "failed", router->n_failed, TOP_BAD);
    top_count_item(&items[n++], "refused", router->n_refused, TOP_WARN);
    ASSERT(n == N_ITEMS);
}

struct top_place {
    unsigned x, y;
};

/* The first of these columns that is not before x; x where there is none. */
static unsigned top_next_column(const unsigned *columns_x, unsigned n, unsigned x) {
    for (unsigned i = 0; i < n; i++)
        if (columns_x[i] >= x)
            return columns_x[i];
    return x;
}

/* One behind the other; `aligned`: further lines under the columns of the first. Answers how many fit into n_lines. */
static unsigned top_place_items(const struct top_screen *screen, const struct item items[N_ITEMS],
                                unsigned n_lines, bool aligned, struct top_place places[N_ITEMS]) {
    unsigned first[N_ITEMS], n_first = 0, x = 0, y = 0;
    for (unsigned i = 0; i < N_ITEMS; i++) {
        unsigned name = top_width(screen, items[i].name) + 1;
        unsigned value = top_width(screen, items[i].value);
        if (aligned && y > 0)
            x = top_next_column(first, n_first, x);
        if (x > 0 && x + name + value > screen->width) {
            x = 0;
            y++;
        }
        if (y >= n_lines)
            return i;
        if (y == 0)
            first[n_first++] = x;
        places[i] = (struct top_place){x, y};
        x += name + (value > items[i].room ? value : items[i].room) + 2;
    }
    return N_ITEMS;
}

/* As many as fit into n_lines, in columns where these show as many; answers the line below. */
static unsigned top_put_items(const struct top_view *view, unsigned y, unsigned n_lines,
                              struct top_screen *screen) {
    struct item items[N_ITEMS];
    struct top_place places[N_ITEMS];
    top_make_items(view, items);
    unsigned most = top_place_items(screen, items, n_lines, false, places);
    unsigned n = top_place_items(screen, items, n_lines, true, places);
    if (n < most)
        n = top_place_items(screen, items, n_lines, false, places);
    for (unsigned i = 0; i < n; i++) {
        unsigned at = y + places[i].y;
        unsigned x = top_put(screen, places[i].x, at, screen->width, TOP_DIM, items[i].name) + 1;
        top_put(screen, x, at, screen->width, items[i].style, items[i].value);
    }
    return n > 0 ? y + places[n - 1].y + 1 : y;
}

/* The last rates of tokens as a curve, as wide as the screen. */
static void top_put_curve(const struct top_view *view, unsigned y, struct top_screen *screen) {
    static const char *const steps[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    char most_text[TEXT], label[TEXT + 32];
    double most = 0;
    for (unsigned i = 0; i < view->n_history; i++)
        most = view->history[i] > most ? view->history[i] : most;
    snprintf(label, sizeof label, "tokens/s, at most %s ", short_number(most, most_text));
    unsigned x = top_put(screen, 0, y, screen->width, TOP_DIM, label);
    unsigned room = x < screen->width ? screen->width - x : 0;
    unsigned n = view->n_history < room ? view->n_history : room;
    for (unsigned i = 0; i < n; i++) {
        double value = view->history[view->n_history - n + i];
        unsigned step = most > 0 ? (unsigned)(value / most * 7 + 0.5) : 0;
        top_put(screen, x + i, y, 1, TOP_GOOD, steps[step]);
    }
}

/* --- the table ------------------------------------------------------------------------------ */

enum column {
    COL_NAME,
    COL_ROLE,
    COL_STATE,
    COL_RUNNING,
    COL_WAITING,
    COL_KV,
    COL_TOKENS,
    COL_PROMPT,
    COL_PID,
    COL_HOST,
    COL_NOTE,
    COLUMNS
};

static const struct {
    const char *head;
    unsigned width;    /* at least */
    unsigned priority; /* the lowest go first where the screen is narrow */
    bool is_right;
} columns[COLUMNS] = {
    [COL_NAME] = {"WORKER", 8, 11, false}, [COL_ROLE] = {"ROLE", 7, 6, false},
    [COL_STATE] = {"STATE", 8, 10, false}, [COL_RUNNING] = {"RUN", 4, 9, true},
    [COL_WAITING] = {"WAIT", 4, 7, true},  [COL_KV] = {"KV", 9, 8, false},
    [COL_TOKENS] = {"TOK/S", 6, 5, true},  [COL_PROMPT] = {"PROMPT/S", 8, 4, true},
    [COL_PID] = {"PID", 7, 2, true},       [COL_HOST] = {"HOST", 8, 1, false},
    [COL_NOTE] = {"NOTE", 4, 3, false},
};

static const struct {
    const char *name;
    enum column column;
} sorts[TOP_SORTS] = {{"role", COL_ROLE},       {"name", COL_NAME}, {"state", COL_STATE},
                      {"running", COL_RUNNING}, {"KV", COL_KV},     {"tokens/s", COL_TOKENS}};

struct table {
    unsigned x[COLUMNS], width[COLUMNS]; /* width 0: the column is not shown */
};

static unsigned top_table_width(const struct table *table) {
    unsigned width = 0;
    for (unsigned c = 0; c < COLUMNS; c++)
        width += table->width[c] > 0 ? table->width[c] + 2 : 0;
    return width > 2 ? width - 2 : 0;
}

static void top_layout_grow(struct table *table, enum column column, unsigned to,
                            unsigned screen_width) {
    unsigned width = top_table_width(table), *at = &table->width[column];
    unsigned more = screen_width > width ? screen_width - width : 0;
    if (*at > 0 && *at < to)
        *at += to - *at < more ? to - *at : more;
}

/* A gone worker's note is for how long it has been gone. */
static const char *note_of(const struct top_view *view, const struct top_worker *worker,
                           char text[TEXT]) {
    char age[TEXT];
    if (worker->gone_ns == 0)
        return worker->note;
    snprintf(text, TEXT, "for %s", short_age(seconds_since(view->now_ns, worker->gone_ns), age));
    return text;
}

static void top_make_table(const struct top_view *view, const struct top_screen *screen,
                           struct table *table) {
    unsigned longest_name = 0, longest_note = 0, longest_host = 0;
    char text[TEXT];
    *table = (struct table){0};
    for (unsigned priority = COLUMNS; priority > 0; priority--)
        for (unsigned c = 0; c < COLUMNS; c++) {
            if (columns[c].priority != priority)
                continue;
            table->width[c] = columns[c].width;
            if (top_table_width(table) > screen->width)
                table->width[c] = 0;
        }
    for (unsigned i = 0; i < view->n_workers; i++) {
        unsigned name = top_width(screen, view->workers[i].name);
        unsigned note = top_width(screen, note_of(view, &view->workers[i], text));
        longest_name = name > longest_name ? name : longest_name;
        unsigned host = top_width(screen, view->workers[i].host);
        longest_note = note > longest_note ? note : longest_note;
        longest_host = host > longest_host ? host : longest_host;
    }
    top_layout_grow(table, COL_NOTE, longest_note < 14 ? longest_note : 14, screen->width);
    top_layout_grow(table, COL_NAME, longest_name < 14 ? longest_name : 14, screen->width);
    top_layout_grow(table, COL_KV, 16, screen->width);
    top_layout_grow(table, COL_NAME, longest_name < 24 ? longest_name : 24, screen->width);
    top_layout_grow(table, COL_NOTE, longest_note, screen->width);
    top_layout_grow(table, COL_HOST, longest_host < 24 ? longest_host : 24, screen->width);
    top_layout_grow(table, COL_NAME, longest_name, screen->width);
    top_layout_grow(table, COL_KV, 40, screen->width);
    for (unsigned c = 0, x = 0; c < COLUMNS; c++) {
        table->x[c] = x;
        x += table->width[c] > 0 ? table->width[c] + 2 : 0;
    }
}

static void put_cell(struct top_screen *screen, const struct table *table, enum column column,
                     unsigned y, enum top_style style, const char *text) {
    if (table->width[column] == 0)
        return;
    if (columns[column].is_right)
        top_put_right(screen, table->x[column], y, table->width[column], style, text);
    else
        top_put(screen, table->x[column], y, table->width[column], style, text);
}

static void top_put_head(struct top_screen *screen, const struct table *table, unsigned y,
                         const struct top_look *look) {
    top_paint(screen, 0, y, screen->width, TOP_HEAD);
    for (unsigned c = 0; c < COLUMNS; c++) {
        char text[TEXT];
        bool is_sorted = c == sorts[look->sort].column;
        const char *arrow = screen->is_ascii ? "*" : look->is_reversed ? "▲" : "▼";
        snprintf(text, sizeof text, "%s%s", columns[c].head, is_sorted ? arrow : "");
        put_cell(screen, table, c, y, TOP_HEAD, text);
    }
}

static void top_put_kv(struct top_screen *screen, const struct table *table, unsigned y,
                       uint64_t used, uint64_t total) {
    unsigned width = table->width[COL_KV];
    double share = total > 0 ? (double)used / (double)total : 0;
    char text[TEXT];
    if (width == 0 || total == 0)
        return;
    snprintf(text, sizeof text, "%.0f%%", 100 * share);
    top_put_bar(screen, table->x[COL_KV], y, width - 5, share);
    top_put_right(screen, table->x[COL_KV] + width - 5, y, 5, TOP_PLAIN, text);
}

/* Of a worker, or of a role's workers together. */
static void top_put_figures(struct top_screen *screen, const struct table *table, unsigned y,
                            const struct top_worker *of, enum top_style waiting) {
    char text[TEXT];
    put_cell(screen, table, COL_RUNNING, y, TOP_PLAIN, short_number((double)of->n_running, text));
    put_cell(screen, table, COL_WAITING, y, waiting, short_number((double)of->n_waiting, text));
    top_put_kv(screen, table, y, of->blocks_used, of->blocks_total);
    put_cell(screen, table, COL_TOKENS, y, TOP_PLAIN, short_number(of->tokens_per_s, text));
    put_cell(screen, table, COL_PROMPT, y, TOP_PLAIN, short_number(of->prompt_per_s, text));
}

static enum top_style top_state_style(const char *state) {
    static const char *const bad[] = {"gone", "refused", "suspect", "aside"};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
        if (strcmp(state, bad[i]) == 0)
            return TOP_BAD;
    return strcmp(state, "ready") == 0 ? TOP_GOOD : TOP_WARN;
}

static void top_put_worker(struct top_screen *screen, const struct table *table, unsigned y,
                           const struct top_view *view, const struct top_worker *worker) {
    char text[TEXT];
    bool is_gone = worker->gone_ns != 0;
    put_cell(screen, table, COL_NAME, y, is_gone ? TOP_DIM : TOP_BOLD, worker->name);
    put_cell(screen, table, COL_ROLE, y, is_gone ? TOP_DIM : TOP_PLAIN, worker->role);
    put_cell(screen, table, COL_STATE, y, top_state_style(worker->state), worker->state);
    put_cell(screen, table, COL_NOTE, y, is_gone ? TOP_DIM : TOP_WARN, note_of(view, worker, text));
    if (is_gone)
        return;
    top_put_figures(screen, table, y, worker, worker->n_waiting > 0 ? TOP_WARN : TOP_PLAIN);
    snprintf(text, sizeof text, "%llu", (unsigned long long)worker->pid);
    put_cell(screen, table, COL_PID, y, TOP_PLAIN, worker->pid > 0 ? text : "");
    put_cell(screen, table, COL_HOST, y, TOP_PLAIN, worker->host);
}

/* --- roles ---------------------------------------------------------------------------------- */

struct role {
    const char *name; /* borrowed from the view */
    unsigned n, n_ready;
    struct top_worker sum;
};

#define ROLES_MAX 8

static unsigned top_sum_roles(const struct top_view *view, struct role roles[ROLES_MAX]) {
    unsigned n = 0;
    for (unsigned i = 0; i < view->n_workers; i++) {
        const struct top_worker *worker = &view->workers[i];
        unsigned at = 0;
        while (at < n && strcmp(roles[at].name, worker->role) != 0)
            at++;
        if (at == ROLES_MAX || worker->gone_ns != 0)
            continue;
        if (at == n)
            roles[n++] = (struct role){.name = worker->role};
        struct role *role = &roles[at];
        role->n++;
        role->n_ready += strcmp(worker->state, "ready") == 0;
        role->sum.n_running += worker->n_running;
        role->sum.n_waiting += worker->n_waiting;
        role->sum.blocks_used += worker->blocks_used;
        role->sum.blocks_total += worker->blocks_total;
        role->sum.tokens_per_s += worker->tokens_per_s;
        role->sum.prompt_per_s += worker->prompt_per_s;
    }
    return n;
}

static int top_compare_role_names(const char *a, const char *b) {
    return -strcmp(a, b); /* prefill, mixed, decode */
}

static int top_compare_roles(const void *left, const void *right) {
    const struct role *a = left, *b = right;
    return top_compare_role_names(a->name, b->name);
}

/* A line for each role, where one has several workers. */
static unsigned top_put_roles(struct top_screen *screen, const struct table *table, unsigned y,
                              const struct top_view *view) {
    struct role roles[ROLES_MAX];
    unsigned n = top_sum_roles(view, roles);
    qsort(roles, n, sizeof *roles, top_compare_roles);
    bool has_several = false;
    for (unsigned i = 0; i < n; i++)
        has_several |= roles[i].n > 1;
    for (unsigned i = 0; i < n && has_several; i++, y++) {
        const struct role *role = &roles[i];
        char text[TEXT];
        bool has_column = table->width[COL_ROLE] > 0;
        snprintf(text, sizeof text, "%s %u", has_column ? "all" : role->name, role->n);
        put_cell(screen, table, COL_NAME, y, TOP_DIM, text);
        put_cell(screen, table, COL_ROLE, y, TOP_PLAIN, role->name);
        snprintf(text, sizeof text, "%u ready", role->n_ready);
        put_cell(screen, table, COL_STATE, y, role->n_ready == role->n ? TOP_GOOD : TOP_WARN, text);
        top_put_figures(screen, table, y, &role->sum, TOP_PLAIN);
    }
    return y;
}

/* --- order ---------------------------------------------------------------------------------- */

static int top_compare_numbers(double a, double b) {
    return a < b ? 1 : a > b ? -1 : 0; /* the largest first */
}

static double top_kv_share(const struct top_worker *worker) {
    return worker->blocks_total > 0 ? (double)worker->blocks_used / (double)worker->blocks_total
                                    : 0;
}

/* "decode2" before "decode10". */
static int top_compare_names(const struct top_worker *a, const struct top_worker *b) {
    return strverscmp(a->name, b->name);
}

static int top_layout_compare(const void *left, const void *right, void *user) {
    const struct top_worker *a = *(const struct top_worker *const *)left;
    const struct top_worker *b = *(const struct top_worker *const *)right;
    const struct top_look *look = user;
    int order = 0;
    switch (look->sort) {
    case TOP_BY_ROLE:
        order = top_compare_role_names(a->role, b->role);
        break;
    case TOP_BY_STATE:
        order = strcmp(a->state, b->state);
        break;
    case TOP_BY_RUNNING:
        order = top_compare_numbers((double)a->n_running, (double)b->n_running);
        break;
    case TOP_BY_KV:
        order = top_compare_numbers(top_kv_share(a), top_kv_share(b));
        break;
    case TOP_BY_TOKENS:
        order = top_compare_numbers(a->tokens_per_s, b->tokens_per_s);
        break;
    case TOP_BY_NAME:
    case TOP_SORTS:
        break;
    }
    order = order ? order : top_compare_names(a, b);
    return look->is_reversed ? -order : order;
}

/* --- the foot ------------------------------------------------------------------------------- */

static void top_put_events(const struct top_view *view, unsigned y, unsigned n_lines,
                           struct top_screen *screen) {
    for (unsigned i = 0; i < view->n_events && i < n_lines; i++) {
        const struct top_event *event = &view->events[i];
        char age[TEXT], text[TEXT + 16];
        short_age(seconds_since(view->now_ns, event->at_ns), age);
        snprintf(text, sizeof text, "%7s ago", age);
        unsigned x = top_put(screen, 0, y + i, screen->width, TOP_DIM, text) + 2;
        top_put(screen, x, y + i, screen->width, event->is_bad ? TOP_BAD : TOP_PLAIN, event->text);
    }
}

static void top_put_keys(const struct top_look *look, unsigned y, struct top_screen *screen) {
    char text[160];
    snprintf(text, sizeof text, "q quit  ? help  s sort: %s  r reverse  p %s",
             sorts[look->sort].name, look->is_paused ? "go on" : "pause");
    top_put(screen, 0, y, screen->width, TOP_DIM, text);
}

static void top_put_help(unsigned y, unsigned n_lines, struct top_screen *screen) {
    static const char *const lines[N_KEYS] = {
        "q, Ctrl-C       end",
        "s, S            sort by the next, the previous column",
        "r               reverse the order",
        "up, down, k, j  one worker; PgUp, PgDn: a page; Home, End: all",
        "p, space        pause: the screen stays as it is; again: continue",
        "+, -            ask more often, less often",
        "Ctrl-L          draw everything again",
        "?, h            this list, or the workers",
    };
    for (unsigned i = 0; i < N_KEYS && i < n_lines; i++)
        top_put(screen, 2, y + i, screen->width - 2, TOP_PLAIN, lines[i]);
}

/* --- the whole ------------------------------------------------------------------------------ */

static unsigned top_put_workers(const struct top_view *view, struct top_look *look, unsigned y,
                                unsigned n_lines, struct top_screen *screen,
                                const struct table *table) {
    const struct top_worker *order[TOP_WORKERS_MAX];
    unsigned n = view->n_workers;
    for (unsigned i = 0; i < n; i++)
        order[i] = &view->workers[i];
    qsort_r(order, n, sizeof *order, top_layout_compare, look);
    if (n == 0 && view->answered_ns != 0)
        top_put(screen, 0, y, screen->width, TOP_WARN,
                "no worker has come to this router (tandem doctor looks why)");
    bool is_cut = n > n_lines && n_lines > 1;
    unsigned n_shown = is_cut ? n_lines - 1 : n < n_lines ? n : n_lines;
    look->first = look->first > n - n_shown ? n - n_shown : look->first;
    for (unsigned i = 0; i < n_shown; i++)
        top_put_worker(screen, table, y + i, view, order[look->first + i]);
    if (is_cut) {
        char text[TEXT];
        snprintf(text, sizeof text, "%u to %u of %u workers", look->first + 1,
                 look->first + n_shown, n);
        top_put(screen, 0, y + n_shown, screen->width, TOP_DIM, text);
    }
    return n_shown;
}

unsigned top_layout(const struct top_view *view, struct top_look *look, struct top_screen *screen) {
    unsigned height = screen->height, y = 1, foot = height;
    struct table table;
    if (height == 0 || screen->width == 0)
        return 0;
    top_put_title(view, look, screen);
    y = top_put_items(view, y,
                      height >= HEIGHT_EVENTS  ? 4
                      : height >= HEIGHT_SMALL ? 3
                                               : 2,
                      screen);
    if (height >= HEIGHT_EVENTS && !screen->is_ascii && view->n_history > 1)
        top_put_curve(view, y++, screen);
    y += height >= HEIGHT_ROLES;
    if (look->has_keys && foot > y + 3)
        top_put_keys(look, --foot, screen);
    if (height >= HEIGHT_EVENTS && view->n_events > 0) {
        unsigned most = height >= HEIGHT_LARGE ? 10 : 4;
        unsigned n = view->n_events < most ? view->n_events : most;
        foot -= n;
        top_put_events(view, foot, n, screen);
        foot--;
    }
    if (look->has_help) {
        top_put_help(y, foot > y ? foot - y : 0, screen);
        return 0;
    }
    top_make_table(view, screen, &table);
    top_put_head(screen, &table, y++, look);
    if (height >= HEIGHT_ROLES)
        y = top_put_roles(screen, &table, y, view);
    return top_put_workers(view, look, y, foot > y ? foot - y : 0, screen, &table);
}

unsigned top_layout_height(const struct top_view *view) {
    return HEIGHT_EVENTS + ROLES_MAX + view->n_workers + view->n_events;
}
