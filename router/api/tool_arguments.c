#include "router/api/tool_arguments.h"

#include "router/api/json_put.h"
#include "router/api/tools.h"

#include <string.h>

/* Bytes of a text, which are UTF-8 when they have all come. */
static void tool_arguments_put_text(const char *bytes, size_t n, struct buf *json) {
    for (size_t at = 0, end; at < n; at = end) {
        bool is_ascii = (unsigned char)bytes[at] < 0x80;
        for (end = at + 1; end < n && ((unsigned char)bytes[end] < 0x80) == is_ascii;)
            end++;
        if (is_ascii)
            json_put_text(json, bytes + at, end - at);
        else
            buf_append(json, bytes + at, end - at);
    }
}

/* A name without a value is that of an empty text. */
static void tool_arguments_end_value(struct tool_arguments *arguments, struct buf *json) {
    if (arguments->at == TOOL_ARGUMENTS_NAMED)
        buf_puts(json, "\": \"\"");
    if (arguments->at == TOOL_ARGUMENTS_TEXT)
        buf_putc(json, '"');
}

static void tool_arguments_begin_value(struct tool_arguments *arguments, bool is_text,
                                       struct buf *json) {
    if (arguments->at == TOOL_ARGUMENTS_NAMED)
        buf_puts(json, is_text ? "\": \"" : "\": ");
    arguments->at = is_text ? TOOL_ARGUMENTS_TEXT : TOOL_ARGUMENTS_VALUE;
}

/* A value as Python or JSON writes it; the grammar lets only whole ones come. Of a word, its first letter says all. */
static void tool_arguments_put_literal(struct tool_arguments *arguments, const char *bytes,
                                       size_t n, struct buf *json) {
    for (size_t i = 0; i < n; i++) {
        const char c = bytes[i], quote = arguments->quote;
        if (arguments->is_escaped) {
            arguments->is_escaped = false;
            buf_puts(json, c == '\'' ? "" : "\\");
            buf_putc(json, c);
        } else if (quote && c == '\\') {
            arguments->is_escaped = true;
        } else if (quote && c != quote) {
            buf_puts(json, c == '"' ? "\\" : "");
            buf_putc(json, c);
        } else if (c == '"' || c == '\'') {
            arguments->quote = quote ? '\0' : c;
            buf_putc(json, '"');
        } else if (c == 'N' || arguments->is_null) {
            arguments->is_null = c != 'e';
            buf_puts(json, c == 'N' ? "null" : "");
        } else {
            buf_putc(json, c == 'T' ? 't' : c == 'F' ? 'f' : c);
        }
    }
}

bool tool_arguments_take(struct tool_arguments *arguments, const char *region, const char *bytes,
                         size_t n, struct buf *json) {
    if (strcmp(region, TOOLS_PARAMETER) == 0) {
        if (arguments->at != TOOL_ARGUMENTS_NAME) {
            tool_arguments_end_value(arguments, json);
            buf_puts(json, arguments->at == TOOL_ARGUMENTS_NONE ? "{\"" : ", \"");
        }
        arguments->at = TOOL_ARGUMENTS_NAME;
        tool_arguments_put_text(bytes, n, json);
    } else if (strcmp(region, TOOLS_TEXT) == 0) {
        tool_arguments_begin_value(arguments, true, json);
        tool_arguments_put_text(bytes, n, json);
    } else if (strcmp(region, TOOLS_VALUE) == 0) {
        tool_arguments_begin_value(arguments, false, json);
        buf_append(json, bytes, n);
    } else if (strcmp(region, TOOLS_LITERAL) == 0) {
        tool_arguments_begin_value(arguments, false, json);
        tool_arguments_put_literal(arguments, bytes, n, json);
    } else if (strcmp(region, TOOLS_END) == 0) {
        if (arguments->at == TOOL_ARGUMENTS_WHOLE)
            return true;
        tool_arguments_end_value(arguments, json);
        buf_puts(json, arguments->at == TOOL_ARGUMENTS_NONE ? "{}" : "}");
        arguments->at = TOOL_ARGUMENTS_WHOLE;
    } else {
        if (arguments->at == TOOL_ARGUMENTS_NAME)
            arguments->at = TOOL_ARGUMENTS_NAMED;
        return false;
    }
    return true;
}
