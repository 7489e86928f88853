#include "router/api/chat_said.h"

void chat_said_init(struct chat_said *said) {
    buf_init(&said->text, 0);
    buf_init(&said->thoughts, 0);
    buf_init(&said->calls, 0);
}

void chat_said_fini(struct chat_said *said) {
    buf_fini(&said->text);
    buf_fini(&said->thoughts);
    buf_fini(&said->calls);
}

void chat_said_clear(struct chat_said *said) {
    buf_clear(&said->text);
    buf_clear(&said->thoughts);
    buf_clear(&said->calls);
}

/* A member behind others, where there is something of it. */
static void chat_said_put_member(const char *before, const struct buf *said, const char *behind,
                                 struct buf *out) {
    out->failed |= said->failed;
    if (said->n == 0)
        return;
    buf_puts(out, before);
    buf_append(out, said->data, said->n);
    buf_puts(out, behind);
}

void chat_said_put(const struct chat_said *said, struct buf *out) {
    buf_puts(out, "{\"role\":\"assistant\"");
    if (said->text.n == 0)
        buf_puts(out, said->calls.n > 0 ? ",\"content\":null" : ",\"content\":\"\"");
    chat_said_put_member(",\"content\":\"", &said->text, "\"", out);
    chat_said_put_member(",\"reasoning_content\":\"", &said->thoughts, "\"", out);
    chat_said_put_member(",\"tool_calls\":[", &said->calls, "]", out);
    buf_putc(out, '}');
}
