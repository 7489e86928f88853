#include "base/json/json_read.h"

#include "base/span.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_MIN  19u  /* of the shortest integer that may not fit into 64 bits */
#define DIGITS_MAX  309u /* of the longest one that may fit into a double */
#define DIGITS_REAL 17   /* tell any double from all others */

/* The text on its way to the parser, in pieces: strings, numbers and what lies between them. A number
 * that has to be a real is written as one of the same length, so that places stay what they are. */
struct feed {
    const char *at; /* not yet cut into pieces */
    const char *end;
    struct span piece; /* what is left of the one that is being handed over */
    char number[DIGITS_MAX + 2];
};

static bool json_is_digit(char byte) {
    return byte >= '0' && byte <= '9';
}

/* A run of n digits covers every n-th byte, or lies between two of them. */
static bool json_has_long_number(const char *bytes, size_t n) {
    for (size_t i = DIGITS_MIN - 1; i < n; i += DIGITS_MIN) {
        if (!json_is_digit(bytes[i]))
            continue;
        size_t begin = i, end = i + 1;
        while (begin > 0 && json_is_digit(bytes[begin - 1]))
            begin--;
        while (end < n && json_is_digit(bytes[end]))
            end++;
        if (end - begin >= DIGITS_MIN)
            return true;
        i = end;
    }
    return false;
}

/* Writes the number as 17 digits and an exponent with zeros in front, in as many bytes as it had. */
static void json_write_real(char *text, size_t n_digits) {
    char found[DIGITS_REAL + 32];
    char digits[DIGITS_REAL + 1];
    size_t n = 0;
    char *out = text + (text[0] == '-');
    snprintf(found, sizeof found, "%.*e", DIGITS_REAL - 1, strtod(out, NULL));
    for (const char *at = found; *at != 'e'; at++)
        if (json_is_digit(*at))
            digits[n++] = *at;
    digits[n] = 0;
    int exponent = atoi(strchr(found, 'e') + 1) - (DIGITS_REAL - 1);
    snprintf(out, n_digits + 1, "%se%0*d", digits, (int)n_digits - DIGITS_REAL - 1, exponent);
}

/* Puts the number in the feed's own place and makes it a real there, if it is an integer that only a
 * double can hold. */
static bool json_make_real(struct feed *feed, struct span number) {
    bool is_negative = number.bytes[0] == '-';
    size_t n_digits = number.n - is_negative;
    if (n_digits < DIGITS_MIN || n_digits > DIGITS_MAX || number.bytes[is_negative] == '0')
        return false;
    for (size_t i = is_negative; i < number.n; i++)
        if (!json_is_digit(number.bytes[i]))
            return false;
    memcpy(feed->number, number.bytes, number.n);
    feed->number[number.n] = 0;
    errno = 0;
    (void)!strtoll(feed->number, NULL, 10);
    if (errno != ERANGE || isinf(strtod(feed->number, NULL)))
        return false;
    json_write_real(feed->number, n_digits);
    return true;
}

static const char *json_end_of_string(const char *at, const char *end) {
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\' && ++at == end)
            return end;
    return at < end ? at + 1 : end;
}

static bool json_starts_number(char byte) {
    return byte == '-' || json_is_digit(byte);
}

static const char *json_end_of_number(const char *at, const char *end) {
    while (at < end &&
           (json_starts_number(*at) || *at == '+' || *at == '.' || *at == 'e' || *at == 'E'))
        at++;
    return at;
}

static bool json_read_next_piece(struct feed *feed) {
    const char *from = feed->at;
    if (feed->piece.n > 0 || from == feed->end)
        return feed->piece.n > 0;
    if (*from == '"')
        feed->at = json_end_of_string(from, feed->end);
    else if (json_starts_number(*from))
        feed->at = json_end_of_number(from, feed->end);
    else
        while (feed->at < feed->end && *feed->at != '"' && !json_starts_number(*feed->at))
            feed->at++;
    feed->piece = (struct span){from, (size_t)(feed->at - from)};
    if (json_starts_number(*from) && json_make_real(feed, feed->piece))
        feed->piece.bytes = feed->number;
    return true;
}

/* json_load_callback_t */
static size_t json_read_hand_over(void *buffer, size_t size, void *data) {
    struct feed *feed = data;
    size_t n = 0;
    while (n < size && json_read_next_piece(feed)) {
        size_t n_taken = feed->piece.n < size - n ? feed->piece.n : size - n;
        memcpy((char *)buffer + n, feed->piece.bytes, n_taken);
        feed->piece.bytes += n_taken;
        feed->piece.n -= n_taken;
        n += n_taken;
    }
    return n;
}

json_t *json_read(const char *bytes, size_t n, size_t flags, json_error_t *error) {
    json_error_t shown;
    if (n == 0 || !json_has_long_number(bytes, n))
        return json_loadb(n > 0 ? bytes : "", n, flags, error);
    struct feed feed = {.at = bytes, .end = bytes + n};
    json_t *read = json_load_callback(json_read_hand_over, &feed, flags, error);
    if (read || json_error_code(error) == json_error_out_of_memory)
        return read;
    /* The same error, with the text as it was sent. */
    json_t *again = json_loadb(bytes, n, flags | JSON_DECODE_INT_AS_REAL, &shown);
    if (!again)
        *error = shown;
    json_decref(again);
    return NULL;
}
