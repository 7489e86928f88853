#include "model/text/grammar/regex/regex.h"

#include "model/text/grammar/regex/regex_reader.h"

#include <stdlib.h>

static enum status regex_read_either(struct reader *reader, uint32_t depth, uint32_t *made);

static enum status regex_read_group(struct reader *reader, uint32_t depth, uint32_t *made) {
    unsigned flags = reader->flags;
    if (depth >= reader->depth_max)
        return reader_fail(reader, STATUS_LIMIT, "brackets nest too deep");
    if (reader_take(reader, "?")) {
        if (reader_take(reader, "P<") ||
            (reader_peek(reader) == '<' && reader->at + 1 < reader->source.n &&
             !strchr("=!", reader->source.bytes[reader->at + 1]))) {
            const char *rest = reader->source.bytes + reader->at;
            const char *close = memchr(rest, '>', reader->source.n - reader->at);
            if (!close)
                return reader_fail(reader, STATUS_INVALID, "expected '>'");
            reader->at += (size_t)(close - rest) + 1;
        } else if (reader_take(reader, "i:")) {
            reader->flags |= REGEX_IGNORE_CASE;
        } else if (reader_take(reader, "s:")) {
            reader->flags |= REGEX_DOT_ALL;
        } else if (!reader_take(reader, ":")) {
            return reader_fail(reader, STATUS_UNSUPPORTED,
                               "look-around, conditions and flags in groups");
        }
    }
    TRY(regex_read_either(reader, depth + 1, made));
    reader->flags = flags;
    return reader_take(reader, ")") ? STATUS_OK
                                    : reader_fail(reader, STATUS_INVALID, "expected ')'");
}

static enum status regex_read_atom(struct reader *reader, uint32_t depth, uint32_t *made) {
    if (reader_take(reader, "("))
        return regex_read_group(reader, depth, made);
    if (reader_take(reader, "["))
        return reader_set(reader, made);
    if (reader_take(reader, "."))
        return reader_dot(reader, made);
    if (reader_peek(reader) == '^' || reader_peek(reader) == '$') {
        if (reader->flags & REGEX_TERMINAL)
            return reader_fail(reader, STATUS_UNSUPPORTED, "anchors in a terminal");
        reader->regex->has_anchors = true;
        uint8_t kind = reader_peek(reader) == '^' ? REGEX_BEGIN : REGEX_END;
        reader->at++;
        return reader_add(reader, (struct regex_node){.kind = kind}, made);
    }
    if (reader_is(reader_peek(reader), "*+?"))
        return reader_fail(reader, STATUS_INVALID, "nothing to repeat");
    return reader_take(reader, "\\") ? reader_escape(reader, made) : reader_plain(reader, made);
}

/* At most REGEX_REPEAT_MAX + 1, however many digits there are. */
static bool regex_read_number(struct reader *reader, uint32_t *value) {
    size_t begin = reader->at;
    *value = 0;
    for (; reader_peek(reader) >= '0' && reader_peek(reader) <= '9'; reader->at++) {
        *value = *value * 10 + (uint32_t)(reader_peek(reader) - '0');
        if (*value > REGEX_REPEAT_MAX)
            *value = REGEX_REPEAT_MAX + 1;
    }
    return reader->at > begin;
}

/* {m}, {m,}, {m,n}; what is none is text (*is_repeat), as in both dialects. */
static enum status regex_read_braces(struct reader *reader, uint32_t *min, uint32_t *max,
                                     bool *is_repeat) {
    size_t begin = reader->at++;
    bool has_min = regex_read_number(reader, min);
    bool has_max = false;
    *max = *min;
    if (reader_take(reader, ",")) {
        has_max = regex_read_number(reader, max);
        if (!has_max)
            *max = UINT32_MAX;
    }
    *is_repeat = (has_min || has_max) && reader_take(reader, "}");
    if (*is_repeat && !has_min)
        return reader_fail(reader, STATUS_UNSUPPORTED,
                           "{,n} is a repeat in Python and text in ECMA-262");
    if (!*is_repeat)
        reader->at = begin;
    return STATUS_OK;
}

static enum status regex_read_repeat(struct reader *reader, uint32_t depth, uint32_t *made) {
    TRY(regex_read_atom(reader, depth, made));
    for (unsigned n = 0; !reader_at_end(reader); n++) {
        uint32_t min = 0;
        uint32_t max = UINT32_MAX;
        if (reader_take(reader, "*")) {
        } else if (reader_take(reader, "+")) {
            min = 1;
        } else if (reader_take(reader, "?")) {
            max = 1;
        } else if (reader_peek(reader) == '{') {
            bool is_repeat;
            TRY(regex_read_braces(reader, &min, &max, &is_repeat));
            if (!is_repeat)
                break;
        } else {
            break;
        }
        if (n > 0)
            return reader_fail(reader, STATUS_INVALID, "a repeat of a repeat");
        if (min > REGEX_REPEAT_MAX || (max != UINT32_MAX && max > REGEX_REPEAT_MAX))
            return reader_fail(reader, STATUS_LIMIT, "repeats of more than 100000");
        if (min > max)
            return reader_fail(reader, STATUS_INVALID, "a repeat whose most is below its least");
        if (reader_take(reader, "+"))
            return reader_fail(reader, STATUS_UNSUPPORTED, "possessive repeats");
        if (reader_take(reader, "?") && reader->flags & REGEX_TERMINAL)
            return reader_fail(reader, STATUS_UNSUPPORTED, "lazy repeats in a terminal");
        uint8_t kind = reader->regex->nodes[*made].kind;
        if (kind == REGEX_BEGIN || kind == REGEX_END)
            return reader_fail(reader, STATUS_INVALID, "a repeat of an anchor");
        TRY(reader_add(
            reader, (struct regex_node){.kind = REGEX_REPEAT, .a = *made, .min = min, .max = max},
            made));
    }
    return STATUS_OK;
}

static enum status regex_read_cat(struct reader *reader, uint32_t depth, uint32_t *made) {
    bool is_empty = true;
    while (!reader_at_end(reader) && reader_peek(reader) != '|' && reader_peek(reader) != ')') {
        uint32_t next;
        TRY(regex_read_repeat(reader, depth, &next));
        if (is_empty)
            *made = next;
        else
            TRY(reader_add(reader, (struct regex_node){.kind = REGEX_CAT, .a = *made, .b = next},
                           made));
        is_empty = false;
    }
    return is_empty ? reader_add(reader, (struct regex_node){.kind = REGEX_EMPTY}, made)
                    : STATUS_OK;
}

static enum status regex_read_either(struct reader *reader, uint32_t depth, uint32_t *made) {
    TRY(regex_read_cat(reader, depth, made));
    while (reader_take(reader, "|")) {
        uint32_t next;
        TRY(regex_read_cat(reader, depth, &next));
        TRY(reader_add(reader, (struct regex_node){.kind = REGEX_EITHER, .a = *made, .b = next},
                       made));
    }
    return STATUS_OK;
}

enum status regex_parse(struct span source, unsigned flags, uint32_t depth_max, struct regex *regex,
                        struct error *error) {
    struct reader reader = {
        .source = source, .flags = flags, .depth_max = depth_max, .regex = regex, .error = error};
    *regex = (struct regex){0};
    for (;;) { /* flags at the front */
        if (reader_take(&reader, "(?i)"))
            reader.flags |= REGEX_IGNORE_CASE;
        else if (reader_take(&reader, "(?s)"))
            reader.flags |= REGEX_DOT_ALL;
        else
            break;
    }
    enum status status = regex_read_either(&reader, 0, &regex->root);
    if (status == STATUS_OK && !reader_at_end(&reader))
        status = reader_fail(&reader, STATUS_INVALID, "a ')' too many");
    if (status != STATUS_OK)
        regex_parse_fini(regex);
    return status;
}

void regex_parse_fini(struct regex *regex) {
    free(regex->nodes);
    free(regex->ranges);
    *regex = (struct regex){0};
}
