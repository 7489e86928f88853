#include "base/http/http1.h"

#include "base/http/sse.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

const char *const suite_name = "base_http1";
const double suite_timeout_s = 120;

#define HOST   "Host: h\r\n"
#define GET    "GET / HTTP/1.1\r\n" HOST
#define POST   "POST /p HTTP/1.1\r\n" HOST
#define CHUNKS POST "Transfer-Encoding: chunked\r\n\r\n"
#define X16    "xxxxxxxxxxxxxxxx"
#define X256   X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16

/* status: 0 for an accepted request, 1 for one that is not complete, 2 for the HTTP/2 preface,
 * else what it is refused with. `size` where the text holds a NUL, else 0. */
struct test_case {
    const char *name; /* H.. are the classes of the hostile-input catalogue */
    unsigned status;
    const char *text;
    size_t size;
    const char *path; /* of an accepted one; NULL: not checked */
    const char *body;
};

#define RAW(text) text, sizeof(text) - 1

static const struct test_case cases[] = {
    /* Accepted. */
    {"plain", 0, GET "\r\n", 0, "/", ""},
    {"query", 0, "GET /a?b=%zz&c HTTP/1.1\r\n" HOST "\r\n", 0, "/a", ""},
    {"escape", 0, "GET /a%20b%C3%A9 HTTP/1.1\r\n" HOST "\r\n", 0, "/a b\xc3\xa9", ""},
    {"escape once", 0, "GET /%2541 HTTP/1.1\r\n" HOST "\r\n", 0, "/%41", ""},
    {"H06 double slash", 0, "GET //v1 HTTP/1.1\r\n" HOST "\r\n", 0, "//v1", ""},
    {"H03 absolute form", 0, "GET http://h:80/a/b?c HTTP/1.1\r\n" HOST "\r\n", 0, "/a/b", ""},
    {"absolute form, root", 0, "GET HTTP://h HTTP/1.1\r\n" HOST "\r\n", 0, "/", ""},
    {"absolute form, query", 0, "GET http://h?x HTTP/1.1\r\n" HOST "\r\n", 0, "/", ""},
    {"options of everything", 0, "OPTIONS * HTTP/1.1\r\n" HOST "\r\n", 0, "*", ""},
    {"length", 0, POST "Content-Length: 3\r\n\r\nabc", 0, "/p", "abc"},
    {"length zero", 0, POST "Content-Length: 0\r\n\r\n", 0, "/p", ""},
    {"chunks", 0, CHUNKS "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", 0, "/p", "abcde"},
    {"chunk extension", 0, CHUNKS "3;a=\"b\"\r\nabc\r\n0;z\r\n\r\n", 0, "/p", "abc"},
    {"chunk digits", 0, CHUNKS "00A\r\n0123456789\r\n0\r\n\r\n", 0, "/p", "0123456789"},
    {"trailer dropped", 0, CHUNKS "1\r\na\r\n0\r\nContent-Length: 9\r\nx: y\r\n\r\n", 0, "/p", "a"},
    {"chunked by case", 0, POST "transfer-encoding:CHUNKED\r\n\r\n0\r\n\r\n", 0, "/p", ""},
    {"no blank after colon", 0, "GET / HTTP/1.1\r\nHost:h\r\n\r\n", 0, "/", ""},
    {"tab in a value", 0, GET "a: b\tc\r\n\r\n", 0, "/", ""},
    {"bytes above 127 in a value", 0, GET "a: \xff\xfe\r\n\r\n", 0, "/", ""},
    {"empty value", 0, GET "a:\r\n\r\n", 0, "/", ""},
    {"empty host", 0, "GET / HTTP/1.1\r\nHost:\r\n\r\n", 0, "/", ""},
    {"IPv6 host", 0, "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", 0, "/", ""},
    {"HTTP/1.0 without host", 0, "GET / HTTP/1.0\r\n\r\n", 0, "/", ""},
    {"one empty line before", 0, "\r\n" GET "\r\n", 0, "/", ""},
    {"H03 upgrade h2c ignored", 0, GET "Upgrade: h2c\r\nHTTP2-Settings: A\r\n\r\n", 0, "/", ""},
    {"expectation in HTTP/1.0", 0, "GET / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n", 0, "/", ""},
    {"odd method is a token", 0, "M-SEARCH / HTTP/1.1\r\n" HOST "\r\n", 0, "/", ""},
    {"preface", 2, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0, NULL, NULL},

    /* Not complete. */
    {"half a head", 1, GET "a: b\r\n", 0, NULL, NULL},
    {"half a body", 1, POST "Content-Length: 4\r\n\r\nabc", 0, NULL, NULL},
    {"no last chunk", 1, CHUNKS "3\r\nabc\r\n", 0, NULL, NULL},
    {"no end of trailers", 1, CHUNKS "0\r\n", 0, NULL, NULL},

    /* Framing: what smuggles requests. */
    {"H03 CL and TE", 400, POST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 0, 0, 0},
    {"H03 TE and CL", 400, POST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", 0, 0, 0},
    {"H03 two CL", 400, POST "Content-Length: 0\r\nContent-Length: 35\r\n\r\n", 0, 0, 0},
    {"H03 two equal CL", 400, POST "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 0, 0, 0},
    {"H03 list of CL", 400, POST "Content-Length: 3, 3\r\n\r\nabc", 0, 0, 0},
    {"H03 CL with plus", 400, POST "Content-Length: +5\r\n\r\n12345", 0, 0, 0},
    {"H03 CL with minus", 400, POST "Content-Length: -5\r\n\r\n", 0, 0, 0},
    {"H03 CL hexadecimal", 400, POST "Content-Length: 0x5\r\n\r\n12345", 0, 0, 0},
    {"H03 CL with blank inside", 400, POST "Content-Length: 1 2\r\n\r\n", 0, 0, 0},
    {"H03 CL with leading zero", 400, POST "Content-Length: 03\r\n\r\nabc", 0, 0, 0},
    {"H03 CL empty", 400, POST "Content-Length:\r\n\r\n", 0, 0, 0},
    {"H03 CL of 20 digits", 400, POST "Content-Length: 99999999999999999999\r\n\r\n", 0, 0, 0},
    {"H03 CL above 2^63", 400, POST "Content-Length: 9223372036854775808\r\n\r\n", 0, 0, 0},
    {"H03 CL above 2^64", 400, POST "Content-Length: 18446744073709551616\r\n\r\n", 0, 0, 0},
    {"H03 TE xchunked", 400, POST "Transfer-Encoding: xchunked\r\n\r\n", 0, 0, 0},
    {"H03 TE chunked, identity", 400, POST "Transfer-Encoding: chunked, identity\r\n\r\n", 0, 0, 0},
    {"H03 TE identity", 400, POST "Transfer-Encoding: identity\r\n\r\n", 0, 0, 0},
    {"H03 TE twice chunked", 400, POST "Transfer-Encoding: chunked, chunked\r\n\r\n", 0, 0, 0},
    {"H03 two TE fields", 400,
     POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 0, 0, 0},
    {"H03 TE with parameter", 400, POST "Transfer-Encoding: chunked;q=1\r\n\r\n", 0, 0, 0},
    {"H03 TE empty", 400, POST "Transfer-Encoding:\r\n\r\n", 0, 0, 0},
    {"H03 TE with vertical tab", 400, POST "Transfer-Encoding: \vchunked\r\n\r\n", 0, 0, 0},
    {"H03 TE in HTTP/1.0", 400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0,
     0, 0},
    {"TE gzip, chunked", 501, POST "Transfer-Encoding: gzip, chunked\r\n\r\n", 0, 0, 0},
    {"TE in two fields", 501, POST "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
     0, 0, 0},

    /* Chunks. */
    {"H03 chunk size 0x5", 400, CHUNKS "0x5\r\n12345\r\n0\r\n\r\n", 0, 0, 0},
    {"H03 chunk size +5", 400, CHUNKS "+5\r\n12345\r\n0\r\n\r\n", 0, 0, 0},
    {"H03 chunk size -1", 400, CHUNKS "-1\r\n", 0, 0, 0},
    {"chunk size empty", 400, CHUNKS "\r\n", 0, 0, 0},
    {"chunk size of 16 digits", 400, CHUNKS "0000000000000005\r\n", 0, 0, 0},
    {"chunk size overflows", 400, CHUNKS "FFFFFFFFFFFFFFFFF\r\n", 0, 0, 0},
    {"chunk size with blank", 400, CHUNKS "5 \r\n12345\r\n", 0, 0, 0},
    {"chunk line with bare LF", 400, CHUNKS "5\n12345\r\n", 0, 0, 0},
    {"chunk data longer than said", 400, CHUNKS "3\r\nabcd\r\n0\r\n\r\n", 0, 0, 0},
    {"chunk data ends with bare LF", 400, CHUNKS "3\r\nabc\n0\r\n\r\n", 0, 0, 0},
    {"chunk extension with control byte", 400, CHUNKS "3;a\001\r\nabc\r\n", 0, 0, 0},
    {"chunk extension with bare CR", 400, CHUNKS "3;a\rb\r\nabc\r\n", 0, 0, 0},
    {"H02 chunk extension too long", 413, CHUNKS "3;" X256 "\r\nabc\r\n", 0, 0, 0},
    {"trailer without colon", 400, CHUNKS "0\r\nabc\r\n\r\n", 0, 0, 0},
    {"trailer folded", 400, CHUNKS "0\r\na: b\r\n c\r\n\r\n", 0, 0, 0},
    {"trailer with NUL", 400, RAW(CHUNKS "0\r\na: b\0\r\n\r\n"), 0, 0},

    /* Lines. */
    {"H03 bare LF everywhere", 400, "GET / HTTP/1.1\nHost: h\n\n", 0, 0, 0},
    {"H03 bare LF after a field", 400, GET "a: b\n\r\n", 0, 0, 0},
    {"H03 bare LF at the end", 400, GET "\n", 0, 0, 0},
    {"H03 bare CR in a value", 400, GET "a: b\rc\r\n\r\n", 0, 0, 0},
    {"bare CR in the request line", 400, "GET /\rx HTTP/1.1\r\n" HOST "\r\n", 0, 0, 0},
    {"bare CR for the first line's end", 400, "GET / HTTP/1.1\rXHost: a\r\n\r\n", 0, 0, 0},
    {"two CR", 400, GET "a: b\r\r\n\r\n", 0, 0, 0},
    {"H03 obs-fold", 400, GET "a: b\r\n c\r\n\r\n", 0, 0, 0},
    {"obs-fold with tab", 400, GET "a: b\r\n\tc\r\n\r\n", 0, 0, 0},
    {"blank before the first field", 400, "GET / HTTP/1.1\r\n Host: h\r\n\r\n", 0, 0, 0},
    {"H03 blank before the colon", 400, GET "a : b\r\n\r\n", 0, 0, 0},
    {"tab before the colon", 400, GET "a\t: b\r\n\r\n", 0, 0, 0},
    {"H03 field without colon", 400, GET "abc\r\n\r\n", 0, 0, 0},
    {"empty name", 400, GET ": b\r\n\r\n", 0, 0, 0},
    {"name is not a token", 400, GET "a(b): c\r\n\r\n", 0, 0, 0},
    {"name above 127", 400, GET "a\xff: c\r\n\r\n", 0, 0, 0},
    {"H03 NUL in a value", 400, RAW(GET "a: b\0c\r\n\r\n"), 0, 0},
    {"NUL in a name", 400, RAW(GET "a\0: c\r\n\r\n"), 0, 0},
    {"NUL in the target", 400, RAW("GET /\0 HTTP/1.1\r\n" HOST "\r\n"), 0, 0},
    {"NUL after the version", 400, RAW("GET / HTTP/1.1\0\r\n" HOST "\r\n"), 0, 0},
    {"escape byte in a value", 400, GET "a: \033[2J\r\n\r\n", 0, 0, 0},
    {"DEL in a value", 400, GET "a: \177\r\n\r\n", 0, 0, 0},
    {"two empty lines before", 400, "\r\n\r\n" GET "\r\n", 0, 0, 0},

    /* Hosts. */
    {"H03 no host", 400, "GET / HTTP/1.1\r\n\r\n", 0, 0, 0},
    {"H03 two hosts", 400, GET HOST "\r\n", 0, 0, 0},
    {"two hosts in HTTP/1.0", 400, "GET / HTTP/1.0\r\n" HOST "host: g\r\n\r\n", 0, 0, 0},
    {"host with a slash", 400, "GET / HTTP/1.1\r\nHost: h/x\r\n\r\n", 0, 0, 0},
    {"host with a blank", 400, "GET / HTTP/1.1\r\nHost: h g\r\n\r\n", 0, 0, 0},
    {"host with a user", 400, "GET / HTTP/1.1\r\nHost: u@h\r\n\r\n", 0, 0, 0},

    /* Request lines. */
    {"H03 version 9.9", 505, "GET / HTTP/9.9\r\n" HOST "\r\n", 0, 0, 0},
    {"version 2.0", 505, "GET / HTTP/2.0\r\n" HOST "\r\n", 0, 0, 0},
    {"version 1.2", 505, "GET / HTTP/1.2\r\n" HOST "\r\n", 0, 0, 0},
    {"version in small letters", 400, "GET / http/1.1\r\n" HOST "\r\n", 0, 0, 0},
    {"version of three digits", 400, "GET / HTTP/1.10\r\n" HOST "\r\n", 0, 0, 0},
    {"version without dot", 400, "GET / HTTP/11\r\n" HOST "\r\n", 0, 0, 0},
    {"no version (HTTP/0.9)", 400, "GET /\r\n" HOST "\r\n", 0, 0, 0},
    {"two blanks", 400, "GET  / HTTP/1.1\r\n" HOST "\r\n", 0, 0, 0},
    {"blank at the end", 400, "GET / HTTP/1.1 \r\n" HOST "\r\n", 0, 0, 0},
    {"tab as blank", 400, "GET\t/ HTTP/1.1\r\n" HOST "\r\n", 0, 0, 0},
    {"blank at the beginning", 400, " GET / HTTP/1.1\r\n" HOST "\r\n", 0, 0, 0},
    {"method is not a token", 400, "G(T / HTTP/1.1\r\n" HOST "\r\n", 0, 0, 0},
    {"TLS hello", 400, RAW("\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\r\n\r\n"), 0, 0},
    {"connect", 501, "CONNECT h:80 HTTP/1.1\r\n" HOST "\r\n", 0, 0, 0},
    {"get of everything", 400, "GET * HTTP/1.1\r\n" HOST "\r\n", 0, 0, 0},
    {"no slash", 400, "GET a HTTP/1.1\r\n" HOST "\r\n", 0, 0, 0},
    {"other scheme", 400, "GET ftp://h/ HTTP/1.1\r\n" HOST "\r\n", 0, 0, 0},
    {"no authority", 400, "GET http:///a HTTP/1.1\r\n" HOST "\r\n", 0, 0, 0},
    {"user in the authority", 400, "GET http://u@h/a HTTP/1.1\r\n" HOST "\r\n", 0, 0, 0},
    {"fragment", 400, "GET /a#b HTTP/1.1\r\n" HOST "\r\n", 0, 0, 0},
    {"raw byte above 127", 400, "GET /\xc3\xa9 HTTP/1.1\r\n" HOST "\r\n", 0, 0, 0},
    {"H06 escaped NUL", 400, "GET /a%00x HTTP/1.1\r\n" HOST "\r\n", 0, 0, 0},
    {"H06 escaped line break", 400, "GET /a%0d%0a HTTP/1.1\r\n" HOST "\r\n", 0, 0, 0},
    {"H06 escaped dots", 400, "GET /v1/%2e%2e/ HTTP/1.1\r\n" HOST "\r\n", 0, 0, 0},
    {"H06 dots", 400, "GET /v1/../x HTTP/1.1\r\n" HOST "\r\n", 0, 0, 0},
    {"H06 dot at the end", 400, "GET /v1/. HTTP/1.1\r\n" HOST "\r\n", 0, 0, 0},
    {"H06 escaped slash and dots", 400, "GET /v1%2f..%2fx HTTP/1.1\r\n" HOST "\r\n", 0, 0, 0},
    {"broken escape", 400, "GET /%zz HTTP/1.1\r\n" HOST "\r\n", 0, 0, 0},
    {"escape cut short", 400, "GET /% HTTP/1.1\r\n" HOST "\r\n", 0, 0, 0},
    {"escape of half a character", 400, "GET /%C3 HTTP/1.1\r\n" HOST "\r\n", 0, 0, 0},
    {"escape of an overlong slash", 400, "GET /%C0%AF HTTP/1.1\r\n" HOST "\r\n", 0, 0, 0},
    {"preface with a field", 400, "PRI * HTTP/2.0\r\na: b\r\n\r\n", 0, 0, 0},

    /* Expectations. */
    {"unknown expectation", 417, POST "Expect: 200-ok\r\nContent-Length: 1\r\n\r\na", 0, 0, 0},
    {"two expectations", 417, POST "Expect: 100-continue, x\r\n\r\n", 0, 0, 0},
    {"empty expectation", 417, POST "Expect:\r\n\r\n", 0, 0, 0},
};

static const struct http1_limits limits = HTTP1_LIMITS_DEFAULT;

/* As http1_feed(), but for the pause behind the head, where no one here has anything to decide. */
static enum http1_event feed_on(struct http1 *http1, const char *bytes, size_t n, size_t *used) {
    size_t more = 0;
    enum http1_event event = http1_feed(http1, bytes, n, used);
    if (event != HTTP1_HEAD)
        return event;
    ck_assert(http1_has_head(http1));
    ck_assert_uint_eq(http1->body.n, 0);
    event = http1_feed(http1, bytes + *used, n - *used, &more);
    *used += more;
    return event;
}

/* Feeds in pieces of `step` bytes, each in a heap block of its own size, so that the sanitizer
 * sees any look beyond it. Answers as in struct test_case. */
static unsigned feed_all(struct http1 *http1, const char *text, size_t n, size_t step) {
    for (size_t at = 0; at < n;) {
        size_t piece = n - at < step ? n - at : step;
        char *copy = malloc(piece);
        size_t used = 0;
        memcpy(copy, text + at, piece);
        enum http1_event event = feed_on(http1, copy, piece, &used);
        free(copy);
        ck_assert_uint_le(used, piece);
        at += used;
        if (event == HTTP1_BAD) {
            ck_assert_ptr_nonnull(http1->reason);
            ck_assert_ptr_null(strchr(http1->reason, '"'));
            return http1->status;
        }
        if (event == HTTP1_REQUEST)
            return 0;
        if (event == HTTP1_PREFACE)
            return 2;
        ck_assert_uint_eq(used, piece);
    }
    return 1;
}

START_TEST(every_case_has_its_status_however_it_is_cut) {
    unsigned n_cases = sizeof cases / sizeof *cases;
    ck_assert_uint_ge(n_cases, 100);
    for (unsigned i = 0; i < n_cases; i++) {
        const struct test_case *test = &cases[i];
        size_t n = test->size ? test->size : strlen(test->text);
        for (size_t step = 1; step <= n; step = step < 8 || step + 1 >= n ? step + 1 : step * 2) {
            struct http1 http1;
            http1_init(&http1, &limits);
            unsigned status = feed_all(&http1, test->text, n, step);
            ck_assert_msg(status == test->status, "%s: %u, not %u (%s), in pieces of %zu",
                          test->name, status, test->status, http1.reason ? http1.reason : "", step);
            if (test->path)
                ck_assert_str_eq(http1.path, test->path);
            if (test->body)
                ck_assert_str_eq(http1.body.data, test->body);
            http1_fini(&http1);
        }
    }
}
END_TEST

/* `n` copies of `piece` behind `before`, then `after`. */
static unsigned feed_many(const char *before, const char *piece, size_t n, const char *after,
                          const struct http1_limits *bounds) {
    struct buf text;
    struct http1 http1;
    buf_init(&text, 0);
    buf_puts(&text, before);
    for (size_t i = 0; i < n; i++)
        buf_puts(&text, piece);
    buf_puts(&text, after);
    http1_init(&http1, bounds);
    unsigned status = feed_all(&http1, text.data, text.n, 4096);
    ck_assert_uint_le(http1.head.size, 2 * bounds->head_bytes);
    http1_fini(&http1);
    buf_fini(&text);
    return status;
}

START_TEST(limits_are_exact) {
    static const struct http1_limits small = {.head_bytes = 1000,
                                              .line_bytes = 200,
                                              .n_fields = 10,
                                              .body_bytes = 50,
                                              .chunk_extension_bytes = 16};
    /* "Host: h" is the first field. */
    ck_assert_uint_eq(feed_many(GET, "a: b\r\n", 9, "\r\n", &small), 0);
    ck_assert_uint_eq(feed_many(GET, "a: b\r\n", 10, "\r\n", &small), 431);
    ck_assert_uint_eq(feed_many(GET "a: ", "x", 197, "\r\n\r\n", &small), 0);
    ck_assert_uint_eq(feed_many(GET "a: ", "x", 198, "\r\n\r\n", &small), 431);
    ck_assert_uint_eq(feed_many("GET /", "x", 200 - 14, " HTTP/1.1\r\n" HOST "\r\n", &small), 0);
    ck_assert_uint_eq(feed_many("GET /", "x", 200 - 13, " HTTP/1.1\r\n" HOST "\r\n", &small), 431);
    ck_assert_uint_eq(feed_many("GET /", "x", 100000, "", &small), 431);
    /* Request line and host 25, eight fields of 114, one of 61 or 62, the empty line 2. */
    static const char field[] = "a: " X16 X16 X16 X16 X16 X16 "xxxxxxxxxxxxx\r\n";
    static const char fits[] = "a: " X16 X16 X16 "xxxxxxxx\r\n\r\n";
    static const char over[] = "a: " X16 X16 X16 "xxxxxxxxx\r\n\r\n";
    ck_assert_uint_eq(25 + 8 * (sizeof field - 1) + sizeof fits - 1, 1000);
    ck_assert_uint_eq(feed_many(GET, field, 8, fits, &small), 0);
    ck_assert_uint_eq(feed_many(GET, field, 8, over, &small), 431);
    ck_assert_uint_eq(feed_many(POST "Content-Length: 50\r\n\r\n", "x", 50, "", &small), 0);
    ck_assert_uint_eq(feed_many(POST "Content-Length: 51\r\n\r\n", "x", 51, "", &small), 413);
    ck_assert_uint_eq(feed_many(CHUNKS, "1\r\nx\r\n", 50, "0\r\n\r\n", &small), 0);
    ck_assert_uint_eq(feed_many(CHUNKS, "1\r\nx\r\n", 51, "0\r\n\r\n", &small), 413);
    ck_assert_uint_eq(feed_many(CHUNKS "33\r\n", "x", 51, "\r\n0\r\n\r\n", &small), 413);
    ck_assert_uint_eq(feed_many(CHUNKS "fffffffffffffff\r\n", "x", 51, "", &small), 413);
    ck_assert_uint_eq(feed_many(CHUNKS, "1;890123456789012\r\nx\r\n", 16, "0\r\n\r\n", &small), 0);
    ck_assert_uint_eq(feed_many(CHUNKS, "1;8901234567890123\r\nx\r\n", 1, "0\r\n\r\n", &small),
                      413);
    ck_assert_uint_eq(feed_many(CHUNKS, "1;890123456789012\r\nx\r\n", 17, "0\r\n\r\n", &small),
                      413);
    ck_assert_uint_eq(feed_many(CHUNKS "0\r\n", "a: b\r\n", 10, "\r\n", &small), 0);
    ck_assert_uint_eq(feed_many(CHUNKS "0\r\n", "a: b\r\n", 11, "\r\n", &small), 431);
}
END_TEST

START_TEST(a_million_chunks_of_one_byte_are_a_megabyte) {
    ck_assert_uint_eq(feed_many(CHUNKS, "1\r\nx\r\n", 1000000, "0\r\n\r\n", &limits), 0);
}
END_TEST

START_TEST(continue_is_asked_for_only_when_the_body_waits) {
    static const char head[] = POST "Content-Length: 2\r\nExpect: 100-Continue\r\n\r\n";
    struct http1 http1;
    size_t used;
    http1_init(&http1, &limits);
    ck_assert_int_eq(feed_on(&http1, head, sizeof head - 1, &used), HTTP1_CONTINUE);
    ck_assert_uint_eq(used, sizeof head - 1);
    ck_assert_int_eq(feed_on(&http1, "a", 1, &used), HTTP1_MORE);
    ck_assert_int_eq(feed_on(&http1, "b", 1, &used), HTTP1_REQUEST);
    ck_assert_str_eq(http1.body.data, "ab");
    http1_reset(&http1);
    char both[sizeof head + 2];
    memcpy(both, head, sizeof head - 1);
    memcpy(both + sizeof head - 1, "ab", 2);
    ck_assert_int_eq(feed_on(&http1, both, sizeof head + 1, &used), HTTP1_REQUEST);
    http1_reset(&http1);
    static const char none[] = POST "Expect: 100-continue\r\n\r\n";
    ck_assert_int_eq(feed_on(&http1, none, sizeof none - 1, &used), HTTP1_REQUEST);
    http1_fini(&http1);
}
END_TEST

START_TEST(a_body_can_be_bounded_once_its_head_is_known) {
    static const char known[] = POST "Content-Length: 12\r\n\r\n";
    static const char chunked[] = CHUNKS;
    struct http1 http1;
    size_t used;
    http1_init(&http1, &limits);
    ck_assert_int_eq(http1_feed(&http1, known, sizeof known - 1, &used), HTTP1_HEAD);
    ck_assert(http1_limit_body(&http1, 12));
    ck_assert(!http1_limit_body(&http1, 11));
    ck_assert(!http1_limit_body(&http1, 4096)); /* it only gets lower */
    http1_reset(&http1);
    ck_assert_int_eq(http1_feed(&http1, chunked, sizeof chunked - 1, &used), HTTP1_HEAD);
    ck_assert(http1_limit_body(&http1, 5));
    ck_assert_int_eq(http1_feed(&http1, "3\r\nabc\r\n2\r\nde\r\n", 15, &used), HTTP1_MORE);
    ck_assert_int_eq(http1_feed(&http1, "1\r\n", 3, &used), HTTP1_BAD);
    ck_assert_uint_eq(http1.status, 413);
    http1_fini(&http1);
}
END_TEST

START_TEST(what_is_left_of_an_answered_request_is_read_and_not_kept) {
    static const char known[] = POST "Content-Length: 5\r\n\r\nabcdeGET";
    static const char chunked[] = CHUNKS "3\r\nabc\r\n0\r\n\r\n";
    static const char waits[] = POST "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    struct http1 http1;
    size_t used, more;
    http1_init(&http1, &limits);
    ck_assert_int_eq(http1_feed(&http1, known, sizeof known - 1, &used), HTTP1_HEAD);
    ck_assert(!http1_is_done(&http1));
    ck_assert(http1_discard_body(&http1, 5));
    ck_assert_int_eq(http1_feed(&http1, known + used, sizeof known - 1 - used, &more),
                     HTTP1_REQUEST);
    ck_assert_uint_eq(used + more, sizeof known - 1 - 3); /* the next request begins there */
    ck_assert_uint_eq(http1.body.n, 0);
    ck_assert_uint_eq(http1.body_seen, 5);
    http1_reset(&http1);
    ck_assert_int_eq(http1_feed(&http1, known, sizeof known - 1, &used), HTTP1_HEAD);
    ck_assert(!http1_discard_body(&http1, 4));
    http1_reset(&http1);
    ck_assert_int_eq(http1_feed(&http1, chunked, sizeof chunked - 1, &used), HTTP1_HEAD);
    ck_assert(http1_discard_body(&http1, 2));
    ck_assert_int_eq(http1_feed(&http1, chunked + used, sizeof chunked - 1 - used, &more),
                     HTTP1_BAD);
    http1_reset(&http1);
    ck_assert_int_eq(http1_feed(&http1, waits, sizeof waits - 1, &used), HTTP1_HEAD);
    ck_assert(!http1_discard_body(&http1, 5)); /* nobody knows whether its body will come */
    http1_fini(&http1);
}
END_TEST

START_TEST(pipelined_requests_come_one_by_one) {
    static const char text[] =
        POST "Content-Length: 1\r\n\r\na" CHUNKS "1\r\nb\r\n0\r\n\r\n" GET "\r\n";
    struct http1 http1;
    size_t at = 0, used;
    http1_init(&http1, &limits);
    static const char *const bodies[] = {"a", "b", ""};
    for (unsigned i = 0; i < 3; i++) {
        ck_assert(!http1_started(&http1));
        ck_assert_int_eq(feed_on(&http1, text + at, sizeof text - 1 - at, &used), HTTP1_REQUEST);
        ck_assert_str_eq(http1.body.data, bodies[i]);
        at += used;
        http1_reset(&http1);
    }
    ck_assert_uint_eq(at, sizeof text - 1);
    http1_fini(&http1);
}
END_TEST

START_TEST(connections_stay_open_as_the_client_says) {
    static const struct {
        const char *text;
        bool keep_alive;
    } told[] = {
        {GET "\r\n", true},
        {GET "Connection: close\r\n\r\n", false},
        {GET "Connection: foo, CLOSE\r\n\r\n", false},
        {GET "Connection: foo\r\nConnection: close\r\n\r\n", false},
        {GET "Connection: closed\r\n\r\n", true},
        {"GET / HTTP/1.0\r\n\r\n", false},
        {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", false},
    };
    for (unsigned i = 0; i < sizeof told / sizeof *told; i++) {
        struct http1 http1;
        http1_init(&http1, &limits);
        ck_assert_uint_eq(feed_all(&http1, told[i].text, strlen(told[i].text), 9), 0);
        ck_assert_msg(http1.keep_alive == told[i].keep_alive, "%s", told[i].text);
        http1_fini(&http1);
    }
}
END_TEST

START_TEST(fields_are_found_without_case_and_without_blanks) {
    struct http1 http1;
    const char *text = GET "X-Request-ID: \t a b \t\r\nx-request-id: second\r\n\r\n";
    http1_init(&http1, &limits);
    ck_assert_uint_eq(feed_all(&http1, text, strlen(text), 1000), 0);
    ck_assert_str_eq(header_find(http1.fields, http1.n_fields, "x-request-id"), "a b");
    ck_assert_ptr_null(header_find(http1.fields, http1.n_fields, "x-request"));
    http1_fini(&http1);
}
END_TEST

START_TEST(events_are_written_as_every_client_reads_them) {
    struct buf out;
    buf_init(&out, 0);
    sse_begin(&out);
    buf_puts(&out, "{\"a\":1}");
    sse_end(&out);
    sse_ping(&out);
    sse_done(&out);
    ck_assert_str_eq(out.data, "data: {\"a\":1}\n\n: ping\ndata: [DONE]\n\n");
    buf_fini(&out);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, every_case_has_its_status_however_it_is_cut);
    tcase_add_test(tests, limits_are_exact);
    tcase_add_test(tests, a_million_chunks_of_one_byte_are_a_megabyte);
    tcase_add_test(tests, continue_is_asked_for_only_when_the_body_waits);
    tcase_add_test(tests, a_body_can_be_bounded_once_its_head_is_known);
    tcase_add_test(tests, what_is_left_of_an_answered_request_is_read_and_not_kept);
    tcase_add_test(tests, pipelined_requests_come_one_by_one);
    tcase_add_test(tests, connections_stay_open_as_the_client_says);
    tcase_add_test(tests, fields_are_found_without_case_and_without_blanks);
    tcase_add_test(tests, events_are_written_as_every_client_reads_them);
}
