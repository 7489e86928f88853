#include "base/options/options_internal.h"

#include <stdio.h>
#include <string.h>

const char *options_key(const struct option_spec *option, char *out, size_t size) {
    snprintf(out, size, "%s", option->name);
    for (char *at = out; *at; at++)
        if (*at == '-')
            *at = '_';
    return out;
}

void options_put_help(const struct option_spec *option, struct buf *out) {
    buf_puts(out, option->help);
    if (option->type == OPTION_CHOICE || option->type == OPTION_WORD) {
        buf_puts(out, "; one of: ");
        options_put_words(option, out);
    }
}

/* An option is printed in the first of the sections that may have it. */
static bool option_is_printed_in(const struct option_spec *option, const char *section) {
    size_t n = option->sections ? strcspn(option->sections, " ") : 0;
    return n > 0 && strlen(section) == n && memcmp(option->sections, section, n) == 0;
}

static void options_print_value(const struct options_value *value, struct buf *out) {
    for (unsigned i = 0; i < value->n_list; i++)
        buf_printf(out, "%s %s", i ? "," : "", value->list[i]);
    if (value->n_list == 0 && value->text && value->text[0])
        buf_printf(out, " %s", value->text);
}

static void options_print_row(const struct option_spec *option, const struct options_value *value,
                              struct buf *out) {
    char key[64];
    buf_puts(out, "# ");
    options_put_help(option, out);
    buf_printf(out, "\n%s%s =", value->rank > RANK_DEFAULT ? "" : "#",
               options_key(option, key, sizeof key));
    options_print_value(value, out);
    buf_putc(out, '\n');
}

void options_print(const struct options *options, struct buf *out) {
    const struct options_program *program = options->program;
    const char *const sections[] = {"cluster", program->section};
    for (unsigned s = 0; s < 2; s++) {
        buf_printf(out, "%s[%s]\n", s ? "\n" : "", sections[s]);
        for (unsigned i = 0; i < program->n_options; i++)
            if (option_is_printed_in(&program->table[i], sections[s]))
                options_print_row(&program->table[i], &options->values[i], out);
    }
}
