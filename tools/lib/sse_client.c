#include "tools/lib/sse_client.h"

#include <string.h>

void sse_client_init(struct sse_client *sse,
                     void (*on_event)(void *user, const char *data, size_t n), void *user) {
    *sse = (struct sse_client){.on_event = on_event, .user = user};
    buf_init(&sse->line, SSE_EVENT_MAX);
    buf_init(&sse->data, SSE_EVENT_MAX);
}

void sse_client_fini(struct sse_client *sse) {
    buf_fini(&sse->line);
    buf_fini(&sse->data);
}

void sse_client_reset(struct sse_client *sse) {
    buf_clear(&sse->line);
    buf_clear(&sse->data);
    sse->value = (struct span){0};
    sse->has_data = sse->has_line = sse->has_cr = false;
}

static enum status sse_client_state(const struct sse_client *sse) {
    TRY(buf_status(&sse->line));
    return buf_status(&sse->data);
}

/* What the event has so far stays when the bytes at hand are gone. */
static void sse_client_keep_value(struct sse_client *sse) {
    if (sse->value.bytes)
        buf_append(&sse->data, sse->value.bytes, sse->value.n);
    sse->value = (struct span){0};
}

static void sse_client_add_data(struct sse_client *sse, struct span value) {
    sse_client_keep_value(sse);
    if (!sse->has_data) {
        sse->value = value;
    } else {
        buf_putc(&sse->data, '\n');
        buf_append(&sse->data, value.bytes, value.n);
    }
    sse->has_data = true;
}

static void sse_client_end_event(struct sse_client *sse) {
    struct span data = sse->value;
    if (!data.bytes)
        data = (struct span){sse->data.data ? sse->data.data : "", sse->data.n};
    if (sse->has_data && sse_client_state(sse) == STATUS_OK) {
        sse->on_event(sse->user, data.bytes, data.n);
        buf_clear(&sse->data);
    }
    sse->has_data = false;
    sse->value = (struct span){0};
}

/* A line without its end. */
static void sse_client_take_line(struct sse_client *sse, const char *line, size_t n) {
    static const char mark[] = "\xef\xbb\xbf";
    if (!sse->has_line && n >= 3 && memcmp(line, mark, 3) == 0) {
        line += 3;
        n -= 3;
    }
    sse->has_line = true;
    if (n == 0) {
        sse_client_end_event(sse);
        return;
    }
    if (n < 4 || memcmp(line, "data", 4) != 0 || (n > 4 && line[4] != ':'))
        return;
    size_t skip = n == 4 ? 4 : n > 5 && line[5] == ' ' ? 6 : 5;
    sse_client_add_data(sse, (struct span){line + skip, n - skip});
}

static void sse_client_end_line(struct sse_client *sse, const char *rest, size_t n) {
    if (sse->line.n == 0 && n <= SSE_EVENT_MAX) { /* most lines come whole: no copy */
        sse_client_take_line(sse, rest, n);
        return;
    }
    buf_append(&sse->line, rest, n);
    if (buf_status(&sse->line) != STATUS_OK)
        return;
    sse_client_take_line(sse, sse->line.data, sse->line.n);
    sse_client_keep_value(sse);
    buf_clear(&sse->line);
}

enum status sse_client_feed(struct sse_client *sse, const char *bytes, size_t n) {
    const char *at = bytes, *end = bytes + n;
    while (at < end && sse_client_state(sse) == STATUS_OK) {
        const char *begin = at;
        if (sse->has_cr && *at == '\n')
            begin = ++at;
        sse->has_cr = false;
        while (at < end && *at != '\n' && *at != '\r')
            at++;
        if (at == end) {
            buf_append(&sse->line, begin, (size_t)(end - begin));
            break;
        }
        sse->has_cr = *at == '\r';
        sse_client_end_line(sse, begin, (size_t)(at - begin));
        at++;
    }
    sse_client_keep_value(sse);
    return sse_client_state(sse);
}
