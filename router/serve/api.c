#include "router/serve/api.h"

#include "router/api/grpc.h"

#include <stdio.h>
#include <string.h>

extern const struct dialect dialect_page, dialect_models, dialect_model, dialect_tokenizer_info,
    dialect_health, dialect_livez, dialect_readyz, dialect_version, dialect_metrics, dialect_status,
    dialect_events, dialect_requests, dialect_drain, dialect_resume, dialect_grpc_models,
    dialect_grpc_status, dialect_grpc_health, dialect_grpc_health_watch, dialect_grpc_reflection,
    dialect_grpc_reflection_alpha, dialect_vllm_health, dialect_vllm_model, dialect_vllm_server,
    dialect_vllm_loads, dialect_vllm_abort;

/* What is served. The order is that of the documentation. */
static const struct dialect *const table[] = {
    &dialect_chat,
    &dialect_completions,
    &dialect_models,
    &dialect_model,
    &dialect_tokenize,
    &dialect_detokenize,
    &dialect_tokenizer_info,
    &dialect_page,
    &dialect_health,
    &dialect_livez,
    &dialect_readyz,
    &dialect_version,
    &dialect_metrics,
    &dialect_grpc_generate,
    &dialect_grpc_complete,
    &dialect_grpc_tokenize,
    &dialect_grpc_detokenize,
    &dialect_grpc_models,
    &dialect_grpc_status,
    &dialect_grpc_health,
    &dialect_grpc_health_watch,
    &dialect_grpc_reflection,
    &dialect_grpc_reflection_alpha,
    &dialect_vllm_generate,
    &dialect_vllm_health,
    &dialect_vllm_model,
    &dialect_vllm_server,
    &dialect_vllm_loads,
    &dialect_vllm_abort,
    &dialect_status,
    &dialect_events,
    &dialect_requests,
    &dialect_drain,
    &dialect_resume,
};
#define N_DIALECTS (sizeof table / sizeof table[0])

const struct dialect *api_dialect(unsigned n) {
    return n < N_DIALECTS ? table[n] : NULL;
}

/* "/v1/models/" takes "/v1/models/x" and, as ids may be ORG/NAME, "/v1/models/x/y": one segment more or several,
 * none of them empty. "/" is itself alone. */
static bool path_fits(const char *pattern, const char *path, const char **rest) {
    size_t n = strlen(pattern);
    *rest = "";
    if (n == 1 || pattern[n - 1] != '/')
        return strcmp(pattern, path) == 0;
    bool has_rest = strncmp(pattern, path, n) == 0 && path[n] != 0;
    if (!has_rest || path[n] == '/' || strstr(path + n, "//") || path[strlen(path) - 1] == '/')
        return false;
    *rest = path + n;
    return true;
}

const struct dialect *api_at(const char *path) {
    const char *rest;
    for (size_t i = 0; i < N_DIALECTS; i++)
        if (path_fits(table[i]->path, path, &rest))
            return table[i];
    return NULL;
}

const struct dialect_form *api_form(const char *content_type) {
    for (size_t i = 0; content_type && i < N_DIALECTS; i++)
        if (table[i]->form->takes(content_type, true))
            return table[i]->form;
    return table[0]->form;
}

static bool method_fits(const struct dialect *dialect, const char *method) {
    bool is_get = strcmp(dialect->method, "GET") == 0;
    return strcmp(dialect->method, method) == 0 || (is_get && strcmp(method, "HEAD") == 0);
}

const struct dialect *api_find(const char *method, const char *path, const char **rest,
                               char allow[64]) {
    allow[0] = 0;
    for (size_t i = 0; i < N_DIALECTS; i++) {
        if (!path_fits(table[i]->path, path, rest))
            continue;
        if (method_fits(table[i], method))
            return table[i];
        size_t n = strlen(allow);
        snprintf(allow + n, 64 - n, "%s%s", n > 0 ? ", " : "",
                 strcmp(table[i]->method, "GET") == 0 ? "GET, HEAD" : table[i]->method);
    }
    size_t n = strlen(allow);
    if (n > 0)
        snprintf(allow + n, 64 - n, ", OPTIONS");
    return NULL;
}

/* The path with single slashes, none at its end. */
static size_t tidy(const char *path, char out[256]) {
    size_t n = 0;
    for (; *path && n < 200; path++)
        if (*path != '/' || n == 0 || out[n - 1] != '/')
            out[n++] = *path;
    while (n > 0 && out[n - 1] == '/')
        n--;
    out[n] = 0;
    return n;
}

static bool is_served(const char *path) {
    char allow[64];
    const char *rest;
    api_find("", path, &rest, allow);
    return allow[0] != 0;
}

bool api_near(const char *path, char near[256]) {
    char tidied[256];
    size_t n = tidy(path, tidied);
    bool has_front = strncmp(tidied, "/v1/", strlen("/v1/")) == 0;
    const char *const fronts[] = {"", "/v1"};
    for (size_t i = 0; n > 0 && i < sizeof fronts / sizeof *fronts; i++) {
        snprintf(near, 256, "%s%s", fronts[i], tidied);
        if (is_served(near))
            return true;
    }
    snprintf(near, 256, "%s", has_front ? tidied + strlen("/v1") : "");
    return is_served(near);
}
