#include "tests/support/suite.h"

#include "tools/lib/sse_client.h"

#include <stdlib.h>
#include <string.h>

const char *const suite_name = "sse_client";
const double suite_timeout_s = 60;

struct seen {
    struct buf text; /* each event's data, a bar behind it */
    size_t n_longest;
};

static void on_event(void *user, const char *data, size_t n) {
    struct seen *seen = user;
    if (n > seen->n_longest)
        seen->n_longest = n;
    if (n > 4096)
        return;
    buf_append(&seen->text, data, n);
    buf_putc(&seen->text, '|');
}

/* Bytes that are others once they were read, as a socket's are: what is kept of them shows. */
static void feed(struct sse_client *sse, const char *bytes, size_t n) {
    char *piece = malloc(n + 1);
    memcpy(piece, bytes, n);
    ck_assert_int_eq(sse_client_feed(sse, piece, n), STATUS_OK);
    memset(piece, '#', n);
    free(piece);
}

/* Feeds the stream in three pieces, and in pieces of one byte where `cut` is 0. */
static void read_cut(const char *stream, size_t n, size_t cut, size_t cut2, struct seen *seen) {
    struct sse_client sse;
    *seen = (struct seen){0};
    buf_init(&seen->text, 0);
    buf_append(&seen->text, "", 0);
    sse_client_init(&sse, on_event, seen);
    if (cut > 0) {
        feed(&sse, stream, cut);
        feed(&sse, stream + cut, cut2 - cut);
        feed(&sse, stream + cut2, n - cut2);
    }
    for (size_t i = 0; i < n && cut == 0; i++)
        feed(&sse, stream + i, 1);
    sse_client_fini(&sse);
}

static const struct {
    const char *stream;
    const char *events;
} streams[] = {
    /* What servers of ours and others send. */
    {": ping\n\ndata: {\"a\":1}\n\ndata:x\r\n\r\nevent: y\ndata: [DONE]\n\n",
     "{\"a\":1}|x|[DONE]|"},
    {"data: a\n: ping\n\n: ping\ndata: b\n\n", "a|b|"},
    /* The standard's rules, one by one: the fields of an event are joined, */
    {"data: high\ndata: low\ndata: 3\n\n", "high\nlow\n3|"},
    /* comments and other fields are not data, and an event without data is none, */
    {": a word\n\ndata: one\nid: 1\n\ndata:two\nid\n\ndata:  three\n\n", "one|two| three|"},
    {"event: add\nid: 9\nretry: 100\n\ndata: x\n\n", "x|"},
    /* a field without a colon has an empty value, and so has one with nothing behind it, */
    {"data\n\ndata\ndata\n\ndata:", "|\n|"},
    {"data:\n\ndata: \n\ndata:\ndata: x\ndata:\n\n", "||\nx\n|"},
    /* one blank behind the colon is not part of the value, */
    {"data:a\n\ndata: a\n\ndata:\ta\n\ndata : a\n\n", "a|a|\ta|"},
    /* names are whole and case counts, */
    {"dat: a\ndata2: b\nDATA: c\n data: d\ndatax\n\ndata: e\n\n", "e|"},
    /* each way to end a line is one end, also beside others, */
    {"data: a\r\rdata: b\rdata: c\r\r", "a|b\nc|"},
    {"data: a\r\n\r\ndata: b\r\ndata: c\r\n\r\n", "a|b\nc|"},
    {"data: a\n\rdata: b\r\n\ndata: c\n\r\ndata: d\r\n\r", "a|b|c|d|"},
    {"\r\n\r\r\n\ndata: a\r\n\r\n\n\n\r", "a|"},
    /* a byte order mark stands at the begin alone, */
    {"\xef\xbb\xbf"
     "data: a\n\n\xef\xbb\xbf"
     "data: b\n\ndata: \xef\xbb\xbf"
     "c\n\n",
     "a|\xef\xbb\xbf"
     "c|"},
    {"\xef\xbb\xbf\n\ndata: a\n\n", "a|"},
    {"\xef\xbb"
     "data: a\n\ndata: b\n\n",
     "b|"},
    /* and what no blank line ended is no event. */
    {"data: a\n\ndata: b\n", "a|"},
    {"data: a\n\ndata: b", "a|"},
    {"", ""},
};

START_TEST(an_event_is_what_the_standard_says_wherever_it_is_cut) {
    const char *stream = streams[_i].stream;
    size_t n = strlen(stream);
    struct seen seen;
    for (size_t cut = 0; cut <= n; cut++)
        for (size_t cut2 = cut; cut2 <= (cut > 0 ? n : 0); cut2++) {
            read_cut(stream, n, cut, cut2, &seen);
            ck_assert_msg(strcmp(seen.text.data, streams[_i].events) == 0, "%d, %zu, %zu: %s", _i,
                          cut, cut2, seen.text.data);
            buf_fini(&seen.text);
        }
}
END_TEST

/* The data, a NUL in it as well, has a length. */
START_TEST(data_may_hold_any_byte_but_the_ends_of_lines) {
    static const char stream[] = "data: a\0b\xff\n\n";
    struct seen seen;
    for (size_t cut = 0; cut < sizeof stream; cut += 5) {
        read_cut(stream, sizeof stream - 1, cut, cut, &seen);
        ck_assert_uint_eq(seen.n_longest, 4);
        ck_assert_mem_eq(seen.text.data, "a\0b\xff|", 5);
        buf_fini(&seen.text);
    }
}
END_TEST

/* Wherever a stream ends, it leaves nothing to the next one. */
START_TEST(a_new_stream_knows_nothing_of_the_one_before) {
    static const char *const before[] = {
        "",          "da", "data: a", "data: a\n", "data: a\ndata: b\n",
        "data: a\r", "\r", "\n",      "\xef\xbb"};
    static const char *const after[][2] = {
        {"\ndata: x\n\n", "x|"},
        {"ta: x\n\n", ""},
        {"\xef\xbb\xbf"
         "data: x\n\n",
         "x|"},
        {"\n\xef\xbb\xbf"
         "data: x\n\n",
         ""},
    };
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        for (size_t k = 0; k < sizeof after / sizeof *after; k++) {
            struct seen seen = {0};
            struct sse_client sse;
            buf_init(&seen.text, 0);
            buf_append(&seen.text, "", 0);
            sse_client_init(&sse, on_event, &seen);
            feed(&sse, before[i], strlen(before[i]));
            sse_client_reset(&sse);
            feed(&sse, after[k][0], strlen(after[k][0]));
            ck_assert_msg(strcmp(seen.text.data, after[k][1]) == 0, "%zu, %zu: %s", i, k,
                          seen.text.data);
            sse_client_fini(&sse);
            buf_fini(&seen.text);
        }
}
END_TEST

/* Feeds `text` n times over, whole lines or parts of one. */
static enum status feed_many(struct sse_client *sse, const char *text, size_t n) {
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n; i++)
        status = sse_client_feed(sse, text, strlen(text));
    return status;
}

/* A line, cut or in one piece, and the lines of an event together: one byte more than the bound is refused, and what follows too. */
START_TEST(an_event_without_an_end_is_bounded) {
    char *line = malloc(SSE_EVENT_MAX + 3);
    for (size_t more = 0; more < 2; more++) {
        size_t n = SSE_EVENT_MAX + more;
        enum status wanted = more ? STATUS_LIMIT : STATUS_OK;
        struct seen seen = {0};
        struct sse_client sse;
        sse_client_init(&sse, on_event, &seen);
        memset(line, 'x', n);
        memcpy(line, "data:", 5);
        memcpy(line + n, "\n\n", 2);
        ck_assert_int_eq(sse_client_feed(&sse, line, n + 2), wanted);
        ck_assert_uint_eq(seen.n_longest, more ? 0 : n - 5);

        sse_client_reset(&sse);
        seen.n_longest = 0;
        ck_assert_int_eq(sse_client_feed(&sse, line, n - 9), STATUS_OK);
        ck_assert_int_eq(sse_client_feed(&sse, line + n - 9, 11), wanted);
        ck_assert_int_eq(sse_client_feed(&sse, "data: y\n\n", 9), wanted);
        ck_assert_uint_eq(seen.n_longest, more ? 0 : n - 5);

        sse_client_reset(&sse);
        seen.n_longest = 0;
        n = SSE_EVENT_MAX;
        memcpy(line + n / 2, "\ndata:", 6); /* an LF counts, "data:" does not */
        ck_assert_int_eq(sse_client_feed(&sse, line, n), STATUS_OK);
        ck_assert_int_eq(sse_client_feed(&sse, "zzzzzzzzzz\n", 11), STATUS_OK);
        ck_assert_int_eq(sse_client_feed(&sse, more ? "data:\n\n" : "\n", more ? 7 : 1), wanted);
        ck_assert_uint_eq(seen.n_longest, more ? 0 : n);

        sse_client_reset(&sse);
        ck_assert_int_eq(feed_many(&sse, "data: y\n\n", 3), STATUS_OK);
        ck_assert_str_eq(seen.text.data + strlen(seen.text.data) - 6, "y|y|y|");
        sse_client_fini(&sse);
        buf_fini(&seen.text);
    }
    free(line);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, an_event_is_what_the_standard_says_wherever_it_is_cut, 0,
                        (int)(sizeof streams / sizeof *streams));
    tcase_add_test(tests, data_may_hold_any_byte_but_the_ends_of_lines);
    tcase_add_test(tests, a_new_stream_knows_nothing_of_the_one_before);
    tcase_add_test(tests, an_event_without_an_end_is_bounded);
}
