#include "router/trace/traceparent.h"

#include "base/hex.h"

#include <stdlib.h>
#include <string.h>

/* n bytes of small digits; false: another character, or nothing but zeros. */
static bool traceparent_read_id(const char *digits, uint8_t *id, size_t n) {
    uint8_t any = 0;
    for (size_t i = 0; i < n; i++) {
        int high = hex_value(digits[2 * i]), low = hex_value(digits[2 * i + 1]);
        id[i] = (uint8_t)(high << 4 | low);
        any |= id[i];
    }
    return any != 0;
}

bool traceparent_read(const char *text, struct trace *trace) {
    static const char form[] = "hh-hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh-hhhhhhhhhhhhhhhh-hh";
    _Static_assert(sizeof form == TRACEPARENT_BYTES, "as long as a valid one");
    size_t n = sizeof form - 1;
    if (!text || strnlen(text, n) < n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (form[i] == '-' ? text[i] != '-' : !text[i] || !strchr("0123456789abcdef", text[i]))
            return false;
    bool is_first = text[0] == '0' && text[1] == '0', is_none = text[0] == 'f' && text[1] == 'f';
    if (is_none || (text[n] != 0 && (is_first || text[n] != '-')))
        return false;
    struct trace read = {.flags = (uint32_t)(hex_value(text[n - 2]) << 4 | hex_value(text[n - 1]))};
    if (!traceparent_read_id(text + 3, read.trace_id, sizeof read.trace_id) ||
        !traceparent_read_id(text + 36, read.span_id, sizeof read.span_id))
        return false;
    *trace = read;
    return true;
}

static uint64_t traceparent_draw_bits(struct random *random) {
    uint64_t bits;
    do {
        bits = random_next(random);
    } while (bits == 0);
    return bits;
}

void traceparent_draw_span(struct random *random, uint8_t span_id[MESSAGE_SPAN_BYTES]) {
    uint64_t bits = traceparent_draw_bits(random);
    memcpy(span_id, &bits, sizeof bits);
}

void traceparent_draw(struct random *random, struct trace *trace) {
    for (size_t i = 0; i < sizeof trace->trace_id; i += sizeof(uint64_t))
        traceparent_draw_span(random, trace->trace_id + i);
    traceparent_draw_span(random, trace->span_id);
    trace->flags = 0;
}

bool traceparent_is_within(const struct trace *trace, double ratio) {
    uint64_t number = 0;
    if (ratio >= 1)
        return true;
    for (size_t i = sizeof trace->trace_id - sizeof number; i < sizeof trace->trace_id; i++)
        number = number << 8 | trace->trace_id[i];
    return number >> 1 < (uint64_t)(ratio * 0x1p63);
}

bool traceparent_keeps_state(const char *state) {
    size_t n = strnlen(state, TRACE_STATE_BYTES + 1);
    for (size_t i = 0; i < n; i++)
        if (state[i] < ' ' || state[i] > '~')
            return false;
    return n > 0 && n <= TRACE_STATE_BYTES;
}

bool traceparent_read_ratio(const char *text, double *ratio) {
    char *end;
    size_t n = strspn(text, "0123456789.");
    double value = n > 0 ? strtod(text, &end) : -1;
    if (n == 0 || text[n] || *end || !(value >= 0 && value <= 1))
        return false;
    *ratio = value;
    return true;
}
