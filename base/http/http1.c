#include "base/http/http1.h"

#include "base/assert.h"
#include "base/http/http1_head.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_DIGITS_MAX 15 /* 60 bits: adding to such a size cannot wrap around */

enum state {
    STATE_HEAD,
    STATE_BODY,       /* `left` bytes */
    STATE_CHUNK_LINE, /* size, extensions, CRLF */
    STATE_CHUNK_DATA, /* `left` bytes */
    STATE_CHUNK_END,  /* CRLF */
    STATE_TRAILER,    /* fields until an empty line */
    STATE_DONE,
    STATE_BAD
};

void http1_init(struct http1 *http1, const struct http1_limits *limits) {
    ASSERT(limits->line_bytes <= limits->head_bytes && limits->chunk_extension_bytes <= 65536);
    *http1 = (struct http1){.limits = limits, .head_only = true, .body_max = limits->body_bytes};
}

void http1_fini(struct http1 *http1) {
    if (!http1)
        return;
    free(http1->fields);
    buf_fini(&http1->head);
    buf_fini(&http1->body);
    buf_fini(&http1->line);
    *http1 = (struct http1){0};
}

void http1_reset(struct http1 *http1) {
    const struct http1_limits *limits = http1->limits;
    http1_fini(http1);
    http1_init(http1, limits);
}

bool http1_started(const struct http1 *http1) {
    return http1->head.n > 0 || http1->skipped_blank || http1->state != STATE_HEAD;
}

bool http1_has_head(const struct http1 *http1) {
    return http1->state != STATE_HEAD;
}

bool http1_is_done(const struct http1 *http1) {
    return http1->state == STATE_DONE;
}

bool http1_limit_body(struct http1 *http1, size_t n) {
    ASSERT(http1->head_told);
    if (n < http1->body_max)
        http1->body_max = n;
    return http1->chunked || http1->left <= http1->body_max - http1->body_seen;
}

bool http1_discard_body(struct http1 *http1, size_t n) {
    ASSERT(http1->head_told);
    http1->discards = true;
    buf_fini(&http1->body);
    return http1_is_done(http1) || (!http1->expects_continue && http1_limit_body(http1, n));
}

/* The body is complete, or there is none. */
static void http1_end_request(struct http1 *http1) {
    http1->state = STATE_DONE;
    if (!http1->body.data)
        buf_append(&http1->body, "", 0);
}

/* A line of the head has ended: CR before its LF, and no other. */
static bool http1_check_line_end(struct http1 *http1, const char *line, size_t n) {
    if (n < 2 || line[n - 2] != '\r')
        return http1_refuse(http1, 400, "a line ends without CR");
    if (memchr(line, '\r', n - 2))
        return http1_refuse(http1, 400, "a line holds a bare CR");
    return true;
}

static bool http1_end_head(struct http1 *http1, bool *preface) {
    if (!http1_parse_head(http1, preface))
        return false;
    buf_init(&http1->body, http1->limits->body_bytes);
    if (http1->chunked)
        http1->state = STATE_CHUNK_LINE;
    else if (http1->left > 0)
        http1->state = STATE_BODY;
    else
        http1_end_request(http1);
    return true;
}

/* Takes bytes up to the end of a line of the head. */
static bool http1_feed_head(struct http1 *http1, const char *bytes, size_t n, size_t *used,
                            bool *preface) {
    const char *end = memchr(bytes, '\n', n);
    size_t take = end ? (size_t)(end - bytes) + 1 : n;
    size_t line_bytes = http1->head.n - http1->line_start + take;
    if (line_bytes > http1->limits->line_bytes + 2)
        return http1_refuse(http1, 431, "a line of the head is too long");
    if (http1->head.n + take > http1->limits->head_bytes)
        return http1_refuse(http1, 431, "the head is too large");
    buf_append(&http1->head, bytes, take);
    if (buf_status(&http1->head) != STATUS_OK)
        return http1_refuse(http1, 503, "out of memory");
    *used = take;
    if (!end)
        return true;
    const char *line = http1->head.data + http1->line_start;
    if (!http1_check_line_end(http1, line, line_bytes))
        return false;
    if (line_bytes > 2) {
        http1->line_start = http1->head.n;
        return true;
    }
    if (http1->line_start > 0)
        return http1_end_head(http1, preface);
    if (http1->skipped_blank)
        return http1_refuse(http1, 400, "the request line is missing");
    http1->skipped_blank = true;
    buf_clear(&http1->head);
    return true;
}

static bool http1_feed_data(struct http1 *http1, const char *bytes, size_t n, size_t *used) {
    size_t take = n < http1->left ? n : (size_t)http1->left;
    if (!http1->discards)
        buf_append(&http1->body, bytes, take);
    if (buf_status(&http1->body) != STATUS_OK)
        return http1_refuse(http1, 503, "out of memory");
    http1->body_seen += take;
    http1->left -= take;
    *used = take;
    if (http1->left > 0)
        return true;
    if (http1->state == STATE_BODY)
        http1_end_request(http1);
    else
        http1->state = STATE_CHUNK_END;
    return true;
}

/* Collects a line behind the head into http1->line. *whole: it is there, without its CRLF. */
static bool http1_feed_line(struct http1 *http1, const char *bytes, size_t n, size_t *used,
                            size_t limit, unsigned status, bool *whole) {
    const char *end = memchr(bytes, '\n', n);
    size_t take = end ? (size_t)(end - bytes) + 1 : n;
    *whole = false;
    if (http1->line.n + take > limit + 2)
        return http1_refuse(http1, status, "a line of the chunked body is too long");
    buf_append(&http1->line, bytes, take);
    if (buf_status(&http1->line) != STATUS_OK)
        return http1_refuse(http1, 503, "out of memory");
    *used = take;
    if (!end)
        return true;
    if (!http1_check_line_end(http1, http1->line.data, http1->line.n))
        return false;
    http1->line.n -= 2;
    http1->line.data[http1->line.n] = 0;
    *whole = true;
    return true;
}

static bool http1_parse_chunk_size(struct http1 *http1) {
    const char *line = http1->line.data;
    size_t digits = strspn(line, "0123456789abcdefABCDEF");
    size_t extension = http1->line.n - digits;
    if (digits == 0 || digits > CHUNK_DIGITS_MAX || (extension > 0 && line[digits] != ';'))
        return http1_refuse(http1, 400, "a chunk's size is not a hexadecimal number");
    for (const char *at = line + digits; at < line + http1->line.n; at++)
        if (((unsigned char)*at < 0x20 && *at != '\t') || *at == 0x7f)
            return http1_refuse(http1, 400, "a chunk extension holds a control byte");
    http1->extension_bytes += extension;
    if (extension > http1->limits->chunk_extension_bytes ||
        http1->extension_bytes > 16 * http1->limits->chunk_extension_bytes)
        return http1_refuse(http1, 413, "the chunk extensions are too long");
    http1->left = strtoull(line, NULL, 16);
    if (http1->body_seen > http1->body_max || http1->left > http1->body_max - http1->body_seen)
        return http1_refuse(http1, 413, "the body is too large");
    http1->state = http1->left ? STATE_CHUNK_DATA : STATE_TRAILER;
    return true;
}

static bool http1_feed_chunk_line(struct http1 *http1, const char *bytes, size_t n, size_t *used) {
    bool whole;
    size_t limit = CHUNK_DIGITS_MAX + http1->limits->chunk_extension_bytes;
    if (!http1_feed_line(http1, bytes, n, used, limit, 413, &whole))
        return false;
    if (!whole)
        return true;
    if (!http1_parse_chunk_size(http1))
        return false;
    buf_clear(&http1->line);
    return true;
}

static bool http1_feed_chunk_end(struct http1 *http1, const char *bytes, size_t n, size_t *used) {
    bool whole;
    if (!http1_feed_line(http1, bytes, n, used, 0, 400, &whole))
        return false;
    if (whole) {
        buf_clear(&http1->line);
        http1->state = STATE_CHUNK_LINE;
    }
    return true;
}

/* Trailers are checked like fields, then dropped: nothing here needs them, and merging them into
 * the head is how they are abused. */
static bool http1_feed_trailer(struct http1 *http1, const char *bytes, size_t n, size_t *used) {
    struct header field;
    bool whole;
    if (!http1_feed_line(http1, bytes, n, used, http1->limits->line_bytes, 431, &whole))
        return false;
    if (!whole)
        return true;
    if (http1->line.n == 0) {
        buf_fini(&http1->line);
        http1_end_request(http1);
        return true;
    }
    http1->trailer_bytes += http1->line.n;
    if (++http1->n_trailers > http1->limits->n_fields ||
        http1->trailer_bytes > http1->limits->head_bytes)
        return http1_refuse(http1, 431, "there are too many trailer fields");
    if (!http1_parse_field(http1, http1->line.data, http1->line.n, &field))
        return false;
    buf_clear(&http1->line);
    return true;
}

static bool http1_feed_once(struct http1 *http1, const char *bytes, size_t n, size_t *used,
                            bool *preface) {
    switch ((enum state)http1->state) {
    case STATE_HEAD:
        return http1_feed_head(http1, bytes, n, used, preface);
    case STATE_BODY:
    case STATE_CHUNK_DATA:
        return http1_feed_data(http1, bytes, n, used);
    case STATE_CHUNK_LINE:
        return http1_feed_chunk_line(http1, bytes, n, used);
    case STATE_CHUNK_END:
        return http1_feed_chunk_end(http1, bytes, n, used);
    case STATE_TRAILER:
        return http1_feed_trailer(http1, bytes, n, used);
    case STATE_DONE:
    case STATE_BAD:
        break;
    }
    return true;
}

enum http1_event http1_feed(struct http1 *http1, const char *bytes, size_t n, size_t *used) {
    bool preface = false;
    size_t at = 0;
    while (at < n && http1->state != STATE_DONE && http1->state != STATE_BAD) {
        size_t taken = 0;
        if (http1->state != STATE_HEAD)
            http1->head_only = false;
        if (!http1_feed_once(http1, bytes + at, n - at, &taken, &preface)) {
            http1->state = STATE_BAD;
            break;
        }
        at += taken;
        if (preface) {
            *used = at;
            return HTTP1_PREFACE;
        }
        if (http1->state != STATE_HEAD && !http1->head_told) {
            http1->head_told = true;
            *used = at;
            return HTTP1_HEAD;
        }
    }
    *used = at;
    if (http1->state == STATE_DONE)
        return HTTP1_REQUEST;
    if (http1->state == STATE_BAD)
        return HTTP1_BAD;
    if (http1->state != STATE_HEAD && http1->head_only && http1->expects_continue) {
        http1->expects_continue = false;
        return HTTP1_CONTINUE;
    }
    return HTTP1_MORE;
}
