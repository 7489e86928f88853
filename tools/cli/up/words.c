#include "tools/cli/up/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAIRS_MAX 48
#define TEXT_MAX  1024

/* key=value of a line, in its order; both lie in `text`. */
struct words_pairs {
    char text[TEXT_MAX * 4];
    const char *keys[PAIRS_MAX], *values[PAIRS_MAX];
    unsigned n;
};

struct out {
    char *text;
    size_t n;
};

static void up_words_put_words(struct out *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void up_words_put_words(struct out *out, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(out->text + out->n, WORDS_LINE_MAX - out->n, format, args);
    va_end(args);
    out->n += n > 0 ? (size_t)n : 0;
    if (out->n >= WORDS_LINE_MAX)
        out->n = WORDS_LINE_MAX - 1;
}

/* A value in quotes, without them: \" and \\ stand for themselves, other escapes stay as they are. Answers what follows. */
static char *up_words_unquote(char *at) {
    char *to = at;
    for (; *at && *at != '"'; at++) {
        if (*at == '\\' && (at[1] == '"' || at[1] == '\\'))
            at++;
        *to++ = *at;
    }
    at += *at == '"';
    *to = '\0';
    return at;
}

/* False: not a line of logfmt as the daemons write it. */
static bool up_words_split(const char *line, struct words_pairs *pairs) {
    pairs->n = 0;
    if (strncmp(line, "ts=", 3) != 0 && strncmp(line, "level=", 6) != 0)
        return false;
    snprintf(pairs->text, sizeof pairs->text, "%s", line);
    for (char *at = pairs->text; *at && pairs->n < PAIRS_MAX;) {
        char *equals = strchr(at, '=');
        if (!equals)
            break;
        *equals = '\0';
        pairs->keys[pairs->n] = at;
        at = equals + 1;
        if (*at == '"') {
            pairs->values[pairs->n++] = at + 1;
            char *end = up_words_unquote(at + 1);
            at = end + (*end == ' ');
            continue;
        }
        pairs->values[pairs->n++] = at;
        at += strcspn(at, " ");
        if (*at)
            *at++ = '\0';
    }
    return true;
}

static const char *up_words_value_of(const struct words_pairs *pairs, const char *key) {
    for (unsigned i = 0; i < pairs->n; i++)
        if (strcmp(pairs->keys[i], key) == 0)
            return pairs->values[i];
    return "";
}

static unsigned long up_words_number_of(const struct words_pairs *pairs, const char *key) {
    return strtoul(up_words_value_of(pairs, key), NULL, 10);
}

static void up_words_put_time(struct out *out, unsigned long us) {
    if (us < 10000000)
        up_words_put_words(out, "%lu ms", (us + 500) / 1000);
    else
        up_words_put_words(out, "%.1f s", (double)us / 1e6);
}

/* "chat 200  31+8 tok  110 ms  prefill0 > decode0" */
static void up_words_put_request(const struct words_pairs *pairs, struct out *out) {
    static const char *const stages[] = {"parse_us",    "tokenize_us", "admit_us", "place_us",
                                         "dispatch_us", "stream_us",   "finish_us"};
    const char *error = up_words_value_of(pairs, "error"),
               *outcome = up_words_value_of(pairs, "outcome");
    const char *prefill = up_words_value_of(pairs, "prefill"),
               *decode = up_words_value_of(pairs, "decode");
    unsigned long us = 0, cached = up_words_number_of(pairs, "cached_tokens");
    unsigned long replays = up_words_number_of(pairs, "replays");
    for (unsigned i = 0; i < sizeof stages / sizeof *stages; i++)
        us += up_words_number_of(pairs, stages[i]);
    up_words_put_words(out, "%s %s", up_words_value_of(pairs, "dialect"),
                       up_words_value_of(pairs, "status"));
    if (strcmp(outcome, "ok") != 0)
        up_words_put_words(out, "  %s", error[0] ? error : outcome);
    if (up_words_number_of(pairs, "prompt_tokens") > 0)
        up_words_put_words(out, "  %s+%s tok", up_words_value_of(pairs, "prompt_tokens"),
                           up_words_value_of(pairs, "tokens"));
    if (cached > 0)
        up_words_put_words(out, " (%lu cached)", cached);
    up_words_put_words(out, "  ");
    up_words_put_time(out, us);
    if (prefill[0] && decode[0] && strcmp(prefill, decode) != 0)
        up_words_put_words(out, "  %s > %s", prefill, decode);
    else if (prefill[0] || decode[0])
        up_words_put_words(out, "  %s", decode[0] ? decode : prefill);
    if (replays > 0)
        up_words_put_words(out, replays > 1 ? "  replayed %lu times" : "  replayed", replays);
}

static bool up_words_is_frame(const char *key) {
    static const char *const keys[] = {"ts", "level", "prog", "msg"};
    for (unsigned i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return false;
}

static void up_words_put_spaced(struct out *out, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++)
        up_words_put_words(out, "%c", text[i] == '_' ? ' ' : text[i]);
}

/* "after 136 ms", "requests 2"; a name, and a reason, speak for themselves. */
static void up_words_put_pair(struct out *out, const char *key, const char *value) {
    static const char *const alone[] = {"name", "worker", "peer", "router", "why", "reason"};
    static const struct {
        const char *end, *unit;
    } units[] = {{"_ms", " ms"}, {"_us", " us"}, {"_s", " s"}};
    for (unsigned i = 0; i < sizeof alone / sizeof *alone; i++)
        if (strcmp(key, alone[i]) == 0) {
            if (i < 4)
                up_words_put_words(out, "%s", value);
            else
                up_words_put_spaced(out, value, strlen(value));
            return;
        }
    size_t n = strlen(key);
    const char *unit = "";
    for (unsigned i = 0; i < sizeof units / sizeof *units && !unit[0]; i++) {
        size_t n_end = strlen(units[i].end);
        if (n > n_end && strcmp(key + n - n_end, units[i].end) == 0) {
            unit = units[i].unit;
            n -= n_end;
        }
    }
    up_words_put_spaced(out, key, n);
    up_words_put_words(out, " %s%s", value, unit);
}

/* "worker lost: decode0, link lost, after 136 ms" */
static void up_words_put_any(const struct words_pairs *pairs, const char *who, struct out *out) {
    const char *between = ": ";
    if (who)
        up_words_put_words(out, "%s: ", who);
    up_words_put_words(out, "%s", up_words_value_of(pairs, "msg"));
    for (unsigned i = 0; i < pairs->n; i++) {
        if (up_words_is_frame(pairs->keys[i]) || !pairs->values[i][0])
            continue;
        up_words_put_words(out, "%s", between);
        up_words_put_pair(out, pairs->keys[i], pairs->values[i]);
        between = ", ";
    }
}

bool words_of(const char *line, const char *who, bool all, char words[WORDS_LINE_MAX]) {
    struct words_pairs pairs;
    struct out out = {words, 0};
    words[0] = '\0';
    if (!up_words_split(line, &pairs))
        return false;
    const char *level = up_words_value_of(&pairs, "level"),
               *message = up_words_value_of(&pairs, "msg");
    bool is_bad = strcmp(level, "warn") == 0 || strcmp(level, "error") == 0;
    if (strcmp(message, "request done") == 0) {
        up_words_put_request(&pairs, &out);
        return true;
    }
    if (strcmp(message, "worker joined") == 0 && !all) {
        up_words_put_words(&out, "%s serves", up_words_value_of(&pairs, "name"));
        return true;
    }
    if (!is_bad && !all)
        return true;
    if (is_bad)
        up_words_put_words(&out, "%s: ", strcmp(level, "warn") == 0 ? "warning" : "error");
    up_words_put_any(&pairs, who, &out);
    return true;
}
