/* model/text/template/jinja/value/jinja_text.h: text put together piece by piece, each byte with
 * its origin.
 *
 * Everything that makes a string goes through here, so that no operation loses a mark. */
#pragma once

#include "base/status.h"
#include "model/text/template/jinja/value/jinja_value.h"

struct jinja_run;

/* Text being written, in the run's arena. Zeroed is empty. */
struct jinja_text {
    char *bytes; /* (n of size) */
    size_t n;
    size_t size;
    struct jinja_mark *marks; /* (n_marks of marks_size): neighbours differ */
    size_t n_marks;
    size_t marks_size;
};

/* STATUS_LIMIT past the run's bound for one text. */
NODISCARD enum status jinja_put(struct jinja_run *run, struct jinja_text *text, const char *bytes,
                                size_t n, bool is_plain);
/* The template's own. */
NODISCARD enum status jinja_puts(struct jinja_run *run, struct jinja_text *text,
                                 const char *string);
/* Bytes [from, to) of a string, with their marks. */
NODISCARD enum status jinja_put_slice(struct jinja_run *run, struct jinja_text *text,
                                      const struct jinja_string *string, size_t from, size_t to);
NODISCARD enum status jinja_put_string(struct jinja_run *run, struct jinja_text *text,
                                       const struct jinja_string *string);
/* What stands for a character that is escaped: written into out, which is "" for all others. */
typedef void jinja_escape(uint32_t point, const void *how, char out[16]);
/* The same with the characters that `escape` escapes; `how` is for it. */
NODISCARD enum status jinja_put_escaped(struct jinja_run *run, struct jinja_text *text,
                                        const struct jinja_string *string, jinja_escape *escape,
                                        const void *how);
/* < > & " ' as HTML writes them (Markup); `how` is NULL. */
jinja_escape jinja_escape_html;

/* The text as a value; the builder is empty afterwards. */
NODISCARD enum status jinja_text_done(struct jinja_run *run, struct jinja_text *text,
                                      struct jinja_value *value);

/* A value for bytes that stay where they are (constants, the request's). */
NODISCARD enum status jinja_string_new(struct jinja_run *run, const char *bytes, size_t n,
                                       bool is_plain, struct jinja_value *value);

/* Bytes [from, to) of a string; shares them. */
NODISCARD enum status jinja_string_slice(struct jinja_run *run, const struct jinja_string *string,
                                         size_t from, size_t to, struct jinja_value *value);

/* Whether the byte at an offset is the request's; false behind the end. */
bool jinja_plain_at(const struct jinja_string *string, size_t at);
/* Whether any byte is. */
bool jinja_any_plain(const struct jinja_string *string);

/* Characters. Charges the run for the scan. */
NODISCARD enum status jinja_count_chars(struct jinja_run *run, const struct jinja_string *string,
                                        size_t *n);

/* Length in bytes of the character at bytes[0]; text is valid UTF-8. */
static inline size_t jinja_char_size(const char *bytes) {
    unsigned char c = (unsigned char)*bytes;
    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}
uint32_t jinja_char_at(const char *bytes);

/* As Python's str.isspace() for one character, and what `\s` matches. */
bool jinja_is_space(uint32_t point);

/* Offset of the first byte that is not blank, from `from`; of the end of the last one, up to n. */
size_t jinja_skip_space(const char *bytes, size_t n, size_t from);
size_t jinja_trim_space(const char *bytes, size_t n);
