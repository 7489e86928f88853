#include "base/options/options_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECTION_MAX  49 /* bytes of a section's name */
#define SECTIONS_MAX 256
#define ERRORS_MAX   32 /* a file that is not an INI file should not flood the terminal */
#define BLANKS       " \t\r"

struct options_file_reader {
    struct options *options;
    const char *path;
    FILE *file;
    unsigned line;
    unsigned n_errors;
    bool skip; /* in a section that is wrong or another program's */
    char section[SECTION_MAX + 1];
    enum options_rank rank; /* of the section we are in; RANK_NONE: check the keys, take nothing */
    char *seen_sections[SECTIONS_MAX]; /* owned */
    unsigned n_sections;
    unsigned seen_keys[OPTIONS_MAX]; /* line of the key in this section, or 0 */
    char text[OPTIONS_LINE_MAX + 1];
};

static const char known_sections[] = "cluster router worker bench";

/* False: more was said already than anybody reads. */
static bool options_file_may_complain(struct options_file_reader *reader) {
    if (++reader->n_errors > ERRORS_MAX)
        return false;
    buf_printf(reader->options->errors, "%s:%u: ", reader->path, reader->line);
    return true;
}

/* One line for the mistake in this line of the file. */
#define COMPLAIN(reader, ...)                                                                      \
    do {                                                                                           \
        if (options_file_may_complain(reader))                                                     \
            buf_printf((reader)->options->errors, __VA_ARGS__);                                    \
    } while (0)

static unsigned edit_distance(const char *a, const char *b) {
    enum { N = 64 };
    size_t na = strlen(a), nb = strlen(b);
    if (na >= N || nb >= N)
        return N;
    unsigned row[N];
    for (unsigned j = 0; j <= nb; j++)
        row[j] = j;
    for (unsigned i = 1; i <= na; i++) {
        unsigned diagonal = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= nb; j++) {
            unsigned best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[nb];
}

static void options_file_unknown_key(struct options_file_reader *reader, const char *key) {
    const struct options_program *program = reader->options->program;
    char best[64] = "", candidate[64];
    unsigned least = (unsigned)strlen(key) / 3 + 1;
    for (unsigned i = 0; i < program->n_options; i++) {
        unsigned d =
            edit_distance(key, options_key(&program->table[i], candidate, sizeof candidate));
        if (program->table[i].sections && d <= least && d < 64) {
            least = d;
            memcpy(best, candidate, sizeof best);
        }
    }
    if (!options_file_may_complain(reader))
        return;
    buf_printf(reader->options->errors, "unknown key \"%s\" in [%s]", key, reader->section);
    if (best[0])
        buf_printf(reader->options->errors, " (did you mean \"%s\"?)", best);
    buf_putc(reader->options->errors, '\n');
}

/* The part of a section's name before the dot: "worker" of "worker.decode0". */
static size_t section_kind_length(const char *section) {
    return strcspn(section, ".");
}

static void options_file_take_key(struct options_file_reader *reader, const char *key,
                                  const char *value) {
    struct options *options = reader->options;
    const struct options_program *program = options->program;
    unsigned at = 0;
    char candidate[64];
    while (at < program->n_options &&
           strcmp(key, options_key(&program->table[at], candidate, sizeof candidate)) != 0)
        at++;
    bool shared = reader->rank == RANK_CLUSTER;
    if (at == program->n_options) {
        if (!shared || options_word(program->other_keys, key, strlen(key)) < 0)
            options_file_unknown_key(reader, key);
        return;
    }
    const struct option_spec *option = &program->table[at];
    if (options_word(option->sections, reader->section, section_kind_length(reader->section)) < 0) {
        COMPLAIN(reader, "key \"%s\" does not belong in [%s]\n", key, reader->section);
        return;
    }
    if (reader->seen_keys[at] && option->type != OPTION_LIST) {
        COMPLAIN(reader, "key \"%s\" is already set in line %u\n", key, reader->seen_keys[at]);
        return;
    }
    reader->seen_keys[at] = reader->line;
    if (reader->rank == RANK_NONE)
        return;
    char where[512];
    snprintf(where, sizeof where, "%s:%u", reader->path, reader->line);
    options_set(options, at, reader->rank, value, where);
}

/* RANK_INSTANCE for our own [worker.NAME], RANK_NONE for another's. */
static enum options_rank section_rank_of(struct options_file_reader *reader) {
    const struct options_program *program = reader->options->program;
    const char *dot = strchr(reader->section, '.');
    if (strcmp(reader->section, "cluster") == 0)
        return RANK_CLUSTER;
    if (!dot)
        return RANK_SECTION;
    for (unsigned i = 0; program->instance && i < program->n_options; i++)
        if (strcmp(program->table[i].name, program->instance) == 0 &&
            reader->options->values[i].text &&
            strcmp(reader->options->values[i].text, dot + 1) == 0)
            return RANK_INSTANCE;
    return RANK_NONE;
}

/* Notes a section and decides whether its keys are ours to read. */
static void options_file_enter_section(struct options_file_reader *reader, const char *name,
                                       size_t n) {
    const char *own = reader->options->program->section;
    reader->skip = true;
    memset(reader->seen_keys, 0, sizeof reader->seen_keys);
    if (n == 0 || n > SECTION_MAX) {
        COMPLAIN(reader, "a section's name has 1 to %d bytes\n", SECTION_MAX);
        return;
    }
    memcpy(reader->section, name, n);
    reader->section[n] = 0;
    size_t kind = section_kind_length(reader->section);
    bool named = reader->section[kind] == '.';
    if (options_word(known_sections, reader->section, kind) < 0 ||
        (named && (strncmp(reader->section, "worker.", 7) != 0 || n == kind + 1))) {
        COMPLAIN(reader,
                 "unknown section [%s] (known: [cluster] [router] [worker] "
                 "[worker.NAME] [bench])\n",
                 reader->section);
        return;
    }
    for (unsigned i = 0; i < reader->n_sections; i++) {
        if (strcmp(reader->seen_sections[i], reader->section) == 0) {
            COMPLAIN(reader, "section [%s] appears twice\n", reader->section);
            return;
        }
    }
    char *copy = reader->n_sections < SECTIONS_MAX ? strdup(reader->section) : NULL;
    if (!copy) {
        COMPLAIN(reader, "more than %d sections\n", SECTIONS_MAX);
        return;
    }
    reader->seen_sections[reader->n_sections++] = copy;
    reader->skip = strcmp(reader->section, "cluster") != 0 &&
                   (!own || strlen(own) != kind || strncmp(reader->section, own, kind) != 0);
    reader->rank = section_rank_of(reader);
    reader->options->lacks_instance &= reader->rank != RANK_INSTANCE;
}

/* Reads one line into reader->text without its end. False at the end of the file. *bad: it is too
 * long or has control bytes. */
static bool options_file_read_line(struct options_file_reader *reader, bool *bad) {
    size_t n = 0;
    int byte = 0;
    *bad = false;
    while ((byte = getc(reader->file)) != EOF && byte != '\n') {
        if ((byte < ' ' && byte != '\t' && byte != '\r') || byte == 0x7f || n == OPTIONS_LINE_MAX)
            *bad = true;
        else
            reader->text[n++] = (char)byte;
    }
    if (byte == EOF && n == 0 && !*bad)
        return false;
    reader->line++;
    while (n > 0 && strchr(BLANKS, reader->text[n - 1]))
        n--;
    reader->text[n] = 0;
    return true;
}

/* "[section]", with nothing behind it. */
static void options_file_read_section(struct options_file_reader *reader, const char *at) {
    const char *end = strchr(at, ']');
    if (end && end[1 + strspn(end + 1, BLANKS)] == 0) {
        options_file_enter_section(reader, at + 1, (size_t)(end - at - 1));
        return;
    }
    reader->skip = true;
    COMPLAIN(reader, "expected [section] and nothing after it\n");
}

/* "key = value" or "key: value", with blanks around both. */
static void options_file_read_key(struct options_file_reader *reader, char *key) {
    size_t n = strcspn(key, "=:");
    if (n == 0 || key[n] == 0) {
        COMPLAIN(reader, "expected key = value\n");
        return;
    }
    const char *value = key + n + 1 + strspn(key + n + 1, BLANKS);
    while (n > 0 && strchr(BLANKS, key[n - 1]))
        n--;
    key[n] = 0;
    options_file_take_key(reader, key, value);
}

/* One line of the file; a comment begins where a line begins. */
static void options_file_take_line(struct options_file_reader *reader, bool bad) {
    if (bad) {
        COMPLAIN(reader, "a line has at most %d bytes and no control bytes\n", OPTIONS_LINE_MAX);
        return;
    }
    char *at = reader->text;
    if (reader->line == 1 && strncmp(at, "\xef\xbb\xbf", 3) == 0)
        at += 3;
    at += strspn(at, BLANKS);
    if (*at == 0 || *at == ';' || *at == '#')
        return;
    if (*at == '[') {
        options_file_read_section(reader, at);
        return;
    }
    if (!reader->section[0] && !reader->skip) {
        COMPLAIN(reader, "expected a [section] first\n");
        reader->skip = true;
    }
    if (!reader->skip)
        options_file_read_key(reader, at);
}

/* Reads the whole file; the caller frees what the reader saw. */
static void options_file_read(struct options_file_reader *reader) {
    bool bad;
    while (options_file_read_line(reader, &bad))
        options_file_take_line(reader, bad);
    if (ferror(reader->file))
        buf_printf(reader->options->errors, "%s: cannot read it\n", reader->path);
    if (reader->n_errors > ERRORS_MAX)
        buf_printf(reader->options->errors, "%s: and %u more\n", reader->path,
                   reader->n_errors - ERRORS_MAX);
}

static struct options_file_reader *options_file_open(struct options *options, const char *path) {
    struct options_file_reader *reader = calloc(1, sizeof *reader);
    FILE *file = reader ? fopen(path, "re") : NULL;
    if (!file) {
        buf_printf(options->errors, "%s: cannot read it: %s\n", path, strerror(errno));
        free(reader);
        return NULL;
    }
    *reader = (struct options_file_reader){.options = options, .path = path, .file = file};
    return reader;
}

static void options_file_close(struct options_file_reader *reader) {
    for (unsigned i = 0; i < reader->n_sections; i++)
        free(reader->seen_sections[i]);
    fclose(reader->file);
    free(reader);
}

void options_read_file(struct options *options, const char *path) {
    struct options_file_reader *reader = options_file_open(options, path);
    if (!reader)
        return;
    options->lacks_instance = true;
    options_file_read(reader);
    options_file_close(reader);
}

enum status options_instances(const char *path, const char *section, struct buf *names) {
    /* A program that reads no section and has no option: every mistake is somebody else's. */
    static const struct options_program nobody = {.name = "", .other_keys = NULL};
    struct buf errors;
    struct options options = {.program = &nobody, .errors = &errors};
    size_t n = strlen(section);
    buf_init(&errors, 65536);
    struct options_file_reader *reader = options_file_open(&options, path);
    if (reader) {
        options_file_read(reader);
        for (unsigned i = 0; i < reader->n_sections; i++) {
            const char *seen = reader->seen_sections[i];
            if (strncmp(seen, section, n) == 0 && seen[n] == '.')
                buf_printf(names, "%s\n", seen + n + 1);
        }
        options_file_close(reader);
    }
    buf_fini(&errors);
    return reader ? STATUS_OK : STATUS_IO;
}
