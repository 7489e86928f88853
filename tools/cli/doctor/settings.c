#include "tools/cli/doctor/settings.h"

#include "tools/cli/sibling.h"

#include <stdio.h>
#include <string.h>

#define QUESTIONS_MAX 3

enum status settings_ask(const struct settings_source *source, const char *program,
                         const char *name, const char *const *questions, struct buf *out,
                         struct buf *errors, int *code, struct error *error) {
    const char *args[QUESTIONS_MAX + 5] = {NULL};
    char folder[4096];
    struct sibling sibling;
    char config[1200], model[1200], named[80];
    unsigned n = 1; /* behind the path */
    for (unsigned i = 0; i < QUESTIONS_MAX && questions[i]; i++)
        args[n++] = questions[i];
    if (source->config) {
        snprintf(config, sizeof config, "--config=%s", source->config);
        args[n++] = config;
    }
    if (source->model) {
        snprintf(model, sizeof model, "--model=%s", source->model);
        args[n++] = model;
    }
    if (name[0]) {
        snprintf(named, sizeof named, "--name=%s", name);
        args[n++] = named;
    }
    TRY(sibling_folder(folder, sizeof folder, error));
    TRY(sibling_start(&sibling, folder, program, args, error));
    return sibling_end(&sibling, out, errors, code, error);
}

bool settings_get(const struct settings *settings, const char *key, char value[VALUE_MAX]) {
    const char *line = settings->text.n > 0 ? settings->text.data : NULL;
    size_t n = strlen(key);
    value[0] = '\0';
    while (line) {
        const char *name = line + (line[0] == '#');
        if (strncmp(name, key, n) == 0 && strncmp(name + n, " =", 2) == 0) {
            name += n + 2;
            name += *name == ' ';
            snprintf(value, VALUE_MAX, "%.*s", (int)strcspn(name, "\n"), name);
            return true;
        }
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return false;
}

bool settings_next(const struct settings *settings, const char *key, unsigned *at,
                   char value[VALUE_MAX]) {
    char all[VALUE_MAX], *rest = NULL;
    if (!settings_get(settings, key, all))
        return false;
    unsigned i = 0;
    for (char *one = strtok_r(all, ", ", &rest); one; one = strtok_r(NULL, ", ", &rest))
        if (i++ == *at) {
            (*at)++;
            snprintf(value, VALUE_MAX, "%s", one);
            return true;
        }
    return false;
}
