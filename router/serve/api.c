#include "router/serve/api.h"

#include <stdio.h>
#include <string.h>

/* What is served: dialect_NAME, of any file. The order is that of the documentation. */
#define DIALECTS(X)                                                                                \
    X(chat)                                                                                        \
    X(completions)                                                                                 \
    X(responses)                                                                                   \
    X(messages)                                                                                    \
    X(count_tokens)                                                                                \
    X(embeddings)                                                                                  \
    X(models)                                                                                      \
    X(model)                                                                                       \
    X(tokenize)                                                                                    \
    X(detokenize)                                                                                  \
    X(tokenizer_info)                                                                              \
    X(props)                                                                                       \
    X(openapi)                                                                                     \
    X(page)                                                                                        \
    X(health)                                                                                      \
    X(ping)                                                                                        \
    X(livez)                                                                                       \
    X(readyz)                                                                                      \
    X(version)                                                                                     \
    X(metrics)                                                                                     \
    X(grpc_generate)                                                                               \
    X(grpc_complete)                                                                               \
    X(grpc_tokenize)                                                                               \
    X(grpc_detokenize)                                                                             \
    X(grpc_models)                                                                                 \
    X(grpc_status)                                                                                 \
    X(grpc_health)                                                                                 \
    X(grpc_health_watch)                                                                           \
    X(grpc_reflection)                                                                             \
    X(grpc_reflection_alpha)                                                                       \
    X(vllm_generate)                                                                               \
    X(vllm_health)                                                                                 \
    X(vllm_model)                                                                                  \
    X(vllm_server)                                                                                 \
    X(vllm_loads)                                                                                  \
    X(vllm_abort)                                                                                  \
    X(status)                                                                                      \
    X(events)                                                                                      \
    X(requests)                                                                                    \
    X(drain)                                                                                       \
    X(kill)                                                                                        \
    X(resume)

#define X(name) extern const struct dialect dialect_##name;
DIALECTS(X)
#undef X

static const struct dialect *const table[] = {
#define X(name) &dialect_##name,
    DIALECTS(X)
#undef X
};
#define N_DIALECTS (sizeof table / sizeof table[0])

const struct dialect *api_dialect(unsigned n) {
    return n < N_DIALECTS ? table[n] : NULL;
}

/* Does the pattern take further segments? "/" is itself alone. */
static bool api_takes_more(const char *pattern, size_t n) {
    return n > 1 && pattern[n - 1] == '/';
}

/* "/v1/models/" takes "/v1/models/x" and, as ids may be ORG/NAME, "/v1/models/x/y": one segment more or several,
 * none of them empty. */
static bool api_path_fits(const char *pattern, const char *path) {
    size_t n = strlen(pattern);
    if (!api_takes_more(pattern, n))
        return strcmp(pattern, path) == 0;
    bool has_rest = strncmp(pattern, path, n) == 0 && path[n] != 0;
    return has_rest && path[n] != '/' && !strstr(path + n, "//") && path[strlen(path) - 1] != '/';
}

const char *api_rest(const struct dialect *dialect, const char *path) {
    size_t n = strlen(dialect->path);
    return api_takes_more(dialect->path, n) ? path + n : "";
}

const struct dialect_form *api_form(const char *content_type) {
    for (size_t i = 0; content_type && i < N_DIALECTS; i++)
        if (table[i]->form->takes(content_type, true))
            return table[i]->form;
    return table[0]->form;
}

static bool api_method_fits(const struct dialect *dialect, const char *method) {
    bool is_get = strcmp(dialect->method, "GET") == 0;
    return strcmp(dialect->method, method) == 0 || (is_get && strcmp(method, "HEAD") == 0);
}

static void api_allow_method(const char *method, char allow[64]) {
    size_t n = strlen(allow);
    snprintf(allow + n, 64 - n, "%s%s", n > 0 ? ", " : "",
             strcmp(method, "GET") == 0 ? "GET, HEAD" : method);
}

void api_find(const char *method, const char *path, struct api_match *match) {
    *match = (struct api_match){.rest = ""};
    for (size_t i = 0; i < N_DIALECTS && !match->dialect; i++) {
        if (!api_path_fits(table[i]->path, path))
            continue;
        if (!match->at_path)
            match->at_path = table[i];
        if (api_method_fits(table[i], method))
            match->dialect = table[i];
        else
            api_allow_method(table[i]->method, match->allow);
    }
    if (match->dialect)
        match->rest = api_rest(match->dialect, path);
    else if (match->at_path)
        api_allow_method("OPTIONS", match->allow);
}

/* The path with single slashes, none at its end. */
static size_t api_tidy(const char *path, char out[256]) {
    size_t n = 0;
    for (; *path && n < 200; path++)
        if (*path != '/' || n == 0 || out[n - 1] != '/')
            out[n++] = *path;
    while (n > 0 && out[n - 1] == '/')
        n--;
    out[n] = 0;
    return n;
}

static bool api_is_served(const char *path) {
    struct api_match match;
    api_find("", path, &match);
    return match.at_path;
}

bool api_near(const char *path, char near[256]) {
    char tidied[256];
    size_t n = api_tidy(path, tidied);
    bool has_front = strncmp(tidied, "/v1/", strlen("/v1/")) == 0;
    const char *const fronts[] = {"", "/v1"};
    for (size_t i = 0; n > 0 && i < sizeof fronts / sizeof *fronts; i++) {
        snprintf(near, 256, "%s%s", fronts[i], tidied);
        if (api_is_served(near))
            return true;
    }
    snprintf(near, 256, "%s", has_front ? tidied + strlen("/v1") : "");
    return api_is_served(near);
}
