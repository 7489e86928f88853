#include "base/http/http1_head.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/http/target.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool http1_refuse(struct http1 *http1, unsigned status, const char *reason) {
    http1->status = status;
    http1->reason = reason;
    return false;
}

static bool http1_parse_target(struct http1 *http1, char *text) {
    struct target target;
    if (strcmp(http1->method, "CONNECT") == 0)
        return http1_refuse(http1, 501, target_no_proxy);
    const char *reason = target_read(text, strcmp(http1->method, "OPTIONS") == 0, &target);
    if (reason)
        return http1_refuse(http1, 400, reason);
    http1->path = target.path;
    http1->query = target.query;
    http1->path_as_sent = target.as_sent;
    return true;
}

static bool http1_parse_version(struct http1 *http1, const char *version) {
    if (strncmp(version, "HTTP/", 5) != 0 || strlen(version) != 8 || version[6] != '.' ||
        !strchr("0123456789", version[5]) || !strchr("0123456789", version[7]))
        return http1_refuse(http1, 400, "the request line has no HTTP version");
    if (version[5] != '1' || version[7] > '1')
        return http1_refuse(http1, 505, "only HTTP/1.1, HTTP/1.0 and HTTP/2 are spoken here");
    http1->minor = (unsigned)(version[7] - '0');
    return true;
}

static bool http1_parse_request_line(struct http1 *http1, char *line, bool *preface) {
    char *target = strchr(line, ' ');
    char *version = target ? strchr(target + 1, ' ') : NULL;
    if (!version || strchr(version + 1, ' '))
        return http1_refuse(http1, 400, "the request line is not METHOD TARGET VERSION");
    if (strcmp(line, "PRI * HTTP/2.0") == 0) {
        *preface = true;
        return true;
    }
    *target++ = 0;
    *version++ = 0;
    if (!target_is_token(line, strlen(line)))
        return http1_refuse(http1, 400, "the method is not a token");
    http1->method = line;
    if (!http1_parse_version(http1, version))
        return false;
    return http1_parse_target(http1, target);
}

bool http1_parse_field(struct http1 *http1, char *line, size_t n, struct header *field) {
    if (line[0] == ' ' || line[0] == '\t')
        return http1_refuse(http1, 400, "a header field is folded over two lines");
    char *colon = memchr(line, ':', n);
    if (!colon)
        return http1_refuse(http1, 400, "a header field has no colon");
    if (!target_is_token(line, (size_t)(colon - line)))
        return http1_refuse(http1, 400, "a header field's name is not a token");
    char *value = colon + 1;
    char *end = line + n;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    for (const char *at = value; at < end; at++) {
        unsigned char byte = (unsigned char)*at;
        if ((byte < 0x20 && byte != '\t') || byte == 0x7f)
            return http1_refuse(http1, 400, "a header field holds a control byte");
    }
    *colon = 0;
    *end = 0;
    *field = (struct header){.name = line, .value = value};
    return true;
}

/* The field of that name if there is exactly one or none. False: there are several. */
static bool http1_find_single_header(const struct http1 *http1, const char *name,
                                     const char **value) {
    *value = NULL;
    for (unsigned i = 0; i < http1->n_fields; i++) {
        if (strcasecmp(http1->fields[i].name, name) != 0)
            continue;
        if (*value)
            return false;
        *value = http1->fields[i].value;
    }
    return true;
}

static bool http1_check_host(struct http1 *http1) {
    const char *host;
    if (!http1_find_single_header(http1, "host", &host))
        return http1_refuse(http1, 400, "there are two Host fields");
    if (!host)
        return http1->minor == 0 || http1_refuse(http1, 400, "HTTP/1.1 needs a Host field");
    return target_is_host(host) || http1_refuse(http1, 400, "the Host field is not a host");
}

/* Walks the comma-separated elements of all fields of one name. Start with *at = 0 and *rest =
 * NULL. Answers false at the end; empty elements are answered too. */
static bool http1_next_element(const struct http1 *http1, const char *name, unsigned *at,
                               const char **rest, const char **element, size_t *n) {
    while (!*rest) {
        if (*at == http1->n_fields)
            return false;
        const struct header *field = &http1->fields[(*at)++];
        if (strcasecmp(field->name, name) == 0)
            *rest = field->value;
    }
    const char *begin = *rest + strspn(*rest, " \t");
    const char *end = begin + strcspn(begin, ",");
    *rest = *end ? end + 1 : NULL;
    while (end > begin && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *element = begin;
    *n = (size_t)(end - begin);
    return true;
}

static bool http1_is_word(const char *element, size_t n, const char *word) {
    return n == strlen(word) && strncasecmp(element, word, n) == 0;
}

static bool http1_check_transfer_coding(struct http1 *http1) {
    unsigned at = 0, n_chunked = 0, n_other = 0;
    const char *rest = NULL, *element;
    size_t n;
    bool last_chunked = false;
    while (http1_next_element(http1, "transfer-encoding", &at, &rest, &element, &n)) {
        last_chunked = http1_is_word(element, n, "chunked");
        n_chunked += last_chunked;
        n_other += !last_chunked;
    }
    if (n_chunked + n_other == 0)
        return true;
    if (http1->minor == 0)
        return http1_refuse(http1, 400, "HTTP/1.0 has no Transfer-Encoding");
    if (header_find(http1->fields, http1->n_fields, "content-length"))
        return http1_refuse(http1, 400, "both Transfer-Encoding and Content-Length are set");
    if (!last_chunked || n_chunked > 1)
        return http1_refuse(http1, 400, "the last transfer coding, and no other, must be chunked");
    if (n_other)
        return http1_refuse(http1, 501, "no transfer coding but chunked is understood");
    http1->chunked = true;
    return true;
}

static bool http1_check_length(struct http1 *http1) {
    const char *text;
    uint64_t length = 0;
    if (!http1_find_single_header(http1, "content-length", &text))
        return http1_refuse(http1, 400, "there are two Content-Length fields");
    if (!text)
        return true;
    if (*text == 0 || strspn(text, "0123456789") != strlen(text) || (*text == '0' && text[1]))
        return http1_refuse(http1, 400, "Content-Length is not a number");
    for (; *text; text++)
        if (!checked_mul(length, 10, &length) ||
            !checked_add(length, (uint64_t)(*text - '0'), &length) || length > INT64_MAX)
            return http1_refuse(http1, 400, "Content-Length is not a possible number");
    if (length > http1->limits->body_bytes)
        return http1_refuse(http1, 413, "the body is too large");
    http1->left = length;
    return true;
}

static bool http1_check_expectation(struct http1 *http1) {
    unsigned at = 0;
    const char *rest = NULL, *element;
    size_t n;
    while (http1_next_element(http1, "expect", &at, &rest, &element, &n)) {
        if (!http1_is_word(element, n, "100-continue"))
            return http1_refuse(http1, 417, "no expectation but 100-continue is met");
        http1->expects_continue = http1->minor == 1; /* RFC 9110, 10.1.1: ignored in HTTP/1.0 */
    }
    return true;
}

static void http1_find_connection(struct http1 *http1) {
    unsigned at = 0;
    const char *rest = NULL, *element;
    size_t n;
    http1->keep_alive = http1->minor == 1;
    while (http1_next_element(http1, "connection", &at, &rest, &element, &n))
        if (http1_is_word(element, n, "close"))
            http1->keep_alive = false;
}

bool http1_parse_head(struct http1 *http1, bool *preface) {
    char *line = http1->head.data;
    char *end = line + http1->head.n - 2; /* before the empty line */
    unsigned n_lines = 0;
    if (memchr(line, 0, http1->head.n))
        return http1_refuse(http1, 400, "the head holds a NUL byte");
    for (const char *at = line; at < end; at++)
        n_lines += *at == '\n';
    if (n_lines - 1 > http1->limits->n_fields)
        return http1_refuse(http1, 431, "there are too many header fields");
    char *stop = strchr(line, '\r');
    *stop = 0;
    if (!http1_parse_request_line(http1, line, preface))
        return false;
    if (*preface)
        return n_lines == 1 || http1_refuse(http1, 400, "HTTP/2 begins with its preface alone");
    ASSERT(http1->n_fields == 0);
    http1->fields = calloc(n_lines, sizeof *http1->fields);
    if (!http1->fields)
        return http1_refuse(http1, 503, "out of memory");
    for (line = stop + 2; line < end; line = stop + 2) {
        stop = memchr(line, '\r', (size_t)(end - line));
        if (!http1_parse_field(http1, line, (size_t)(stop - line), &http1->fields[http1->n_fields]))
            return false;
        http1->n_fields++;
    }
    http1_find_connection(http1);
    return http1_check_host(http1) && http1_check_transfer_coding(http1) &&
           http1_check_length(http1) && http1_check_expectation(http1);
}
