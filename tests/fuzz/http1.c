/* The HTTP/1.1 parser: any bytes, cut in any pieces, give the same requests and the same refusal,
 * and what is accepted keeps the parser's promises. */
#include "base/http/http1.h"

#include "base/assert.h"
#include "base/utf8.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct http1_limits limits = {.head_bytes = 2048,
                                           .line_bytes = 512,
                                           .n_fields = 16,
                                           .body_bytes = 256,
                                           .chunk_extension_bytes = 32};

static void check_text(const char *text) {
    for (; *text; text++)
        ASSERT((unsigned char)*text >= 0x20 || *text == '\t');
}

static uint64_t add(uint64_t sum, const char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ (unsigned char)bytes[i]) * 0x100000001b3ull;
    return (sum ^ n) * 0x100000001b3ull;
}

/* Folds an accepted request into a sum, so that two ways of cutting can be compared. */
static uint64_t check_request(const struct http1 *http1, uint64_t sum) {
    ASSERT(http1->path[0] == '/' || strcmp(http1->path, "*") == 0);
    ASSERT(utf8_valid(http1->path, strlen(http1->path)));
    ASSERT(http1->body.n <= limits.body_bytes && http1->n_fields <= limits.n_fields);
    ASSERT(!header_find(http1->fields, http1->n_fields, "content-length") ||
           !header_find(http1->fields, http1->n_fields, "transfer-encoding"));
    ASSERT(http1->minor == 0 || header_find(http1->fields, http1->n_fields, "host"));
    check_text(http1->path);
    check_text(http1->query);
    sum = add(sum, http1->method, strlen(http1->method));
    sum = add(sum, http1->path, strlen(http1->path));
    sum = add(sum, http1->query, strlen(http1->query));
    for (unsigned i = 0; i < http1->n_fields; i++) {
        check_text(http1->fields[i].value);
        sum = add(sum, http1->fields[i].name, strlen(http1->fields[i].name));
        sum = add(sum, http1->fields[i].value, strlen(http1->fields[i].value));
    }
    return add(sum, http1->body.data, http1->body.n);
}

static uint64_t parse(const char *bytes, size_t n, size_t step) {
    struct http1 http1;
    uint64_t sum = 0xcbf29ce484222325ull;
    http1_init(&http1, &limits);
    for (size_t at = 0; at < n;) {
        size_t piece = n - at < step ? n - at : step;
        size_t used = 0;
        char *copy = malloc(piece); /* of its own size: the sanitizer sees a look beyond it */
        if (!copy)
            abort();
        memcpy(copy, bytes + at, piece);
        enum http1_event event = http1_feed(&http1, copy, piece, &used);
        if (event == HTTP1_HEAD) {
            size_t more = 0;
            ASSERT(http1.body.n == 0 && http1.body_seen == 0);
            event = http1_feed(&http1, copy + used, piece - used, &more);
            ASSERT(event != HTTP1_HEAD);
            used += more;
        }
        free(copy);
        ASSERT(used <= piece);
        at += used;
        if (event == HTTP1_BAD) {
            sum = sum * 31 + http1.status;
            break;
        }
        if (event == HTTP1_PREFACE) {
            sum = sum * 31 + 2;
            break;
        }
        if (event == HTTP1_REQUEST) {
            sum = check_request(&http1, sum);
            http1_reset(&http1);
        } else if (event == HTTP1_MORE) {
            ASSERT(used == piece);
        }
    }
    http1_fini(&http1);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1)
        return 0;
    const char *bytes = (const char *)data + 1;
    uint64_t whole = parse(bytes, size - 1, size);
    ASSERT(parse(bytes, size - 1, 1 + data[0] % 64u) == whole);
    ASSERT(parse(bytes, size - 1, 1) == whole);
    return 0;
}
