#include "router/api/thought_reader.h"

#include <stdint.h>
#include <string.h>

void thought_reader_init(struct thought_reader *reader, const struct thought_format *format,
                         enum thought_start start, bool is_exact) {
    *reader =
        (struct thought_reader){.format = format,
                                .place = start == THOUGHT_OPEN ? THOUGHT_WITHIN : THOUGHT_BEFORE,
                                .n_skip = is_exact ? format->behind.n : SIZE_MAX};
    buf_init(&reader->held, 0);
}

void thought_reader_fini(struct thought_reader *reader) {
    buf_fini(&reader->held);
}

static bool thought_reader_is_line_end(char c) {
    return c == '\n' || c == '\r';
}

/* How many bytes at the end of the text could begin the mark. */
static size_t thought_reader_begun(struct span mark, const char *text, size_t n) {
    size_t length = mark.n - 1 < n ? mark.n - 1 : n;
    while (length > 0 && memcmp(text + n - length, mark.bytes, length) != 0)
        length--;
    return length;
}

/* Blanks, then the opening mark, or this is no thought. False: more must come to tell. */
static bool thought_reader_read_begin(struct thought_reader *reader, bool is_last) {
    const struct span mark = reader->format->mark;
    const char *text = reader->held.data;
    size_t at = 0, n = reader->held.n;
    while (at < n && (thought_reader_is_line_end(text[at]) || text[at] == ' '))
        at++;
    size_t common = n - at < mark.n ? n - at : mark.n;
    bool fits = memcmp(text + at, mark.bytes, common) == 0;
    if (fits && common < mark.n && !is_last)
        return false;
    fits = fits && common == mark.n;
    reader->place = fits ? THOUGHT_WITHIN : THOUGHT_OVER;
    if (fits)
        buf_consume(&reader->held, at + mark.n);
    return true;
}

/* Up to the closing mark. False: it has not come yet. */
static bool thought_reader_read_within(struct thought_reader *reader, bool is_last,
                                       struct buf *thought) {
    const struct span mark = reader->format->end_mark;
    size_t begin = 0, n = reader->held.n;
    const char *text = reader->held.data;
    const char *hit = memmem(text, n, mark.bytes, mark.n);
    size_t end = hit ? (size_t)(hit - text) : is_last ? n : n - thought_reader_begun(mark, text, n);
    while (!reader->has_said && begin < end && thought_reader_is_line_end(text[begin]))
        begin++;
    size_t behind = end;
    while (end > begin && thought_reader_is_line_end(text[end - 1]))
        end--;
    reader->has_said |= end > begin;
    buf_append(thought, text + begin, end - begin);
    if (hit) {
        reader->place = THOUGHT_BEHIND;
        reader->n_thought = reader->n_read - n + behind + mark.n;
    }
    buf_consume(&reader->held, hit ? behind + mark.n : is_last ? n : end);
    return hit != NULL;
}

static void thought_reader_read_behind(struct thought_reader *reader) {
    size_t n = 0;
    while (n < reader->held.n && n < reader->n_skip &&
           thought_reader_is_line_end(reader->held.data[n]))
        n++;
    if (reader->n_skip != SIZE_MAX)
        reader->n_skip -= n;
    buf_consume(&reader->held, n);
    if (reader->held.n > 0)
        reader->place = THOUGHT_OVER;
}

enum status thought_read(struct thought_reader *reader, struct span text, bool is_last,
                         struct buf *thought, struct buf *rest) {
    struct buf *held = &reader->held;
    if (reader->place == THOUGHT_OVER) {
        buf_append(rest, text.bytes, text.n);
        return buf_status(rest);
    }
    buf_append(held, text.bytes, text.n);
    reader->n_read += text.n;
    if (buf_status(held) != STATUS_OK || held->n == 0)
        return buf_status(held);
    bool goes_on = reader->place != THOUGHT_BEFORE || thought_reader_read_begin(reader, is_last);
    if (goes_on && reader->place == THOUGHT_WITHIN)
        goes_on = thought_reader_read_within(reader, is_last, thought);
    if (goes_on && reader->place == THOUGHT_BEHIND)
        thought_reader_read_behind(reader);
    if (reader->place == THOUGHT_OVER) {
        buf_append(rest, held->data, held->n);
        buf_fini(held);
    }
    TRY(buf_status(thought));
    return buf_status(rest);
}
