#include "tools/bench/core/answer.h"

#include <stdlib.h>
#include <string.h>

/* The value behind "key": in text, after blanks; NULL when the key is not there. */
static const char *value_of(const char *text, const char *key) {
    size_t n = strlen(key);
    for (const char *at = strstr(text, key); at; at = strstr(at + n, key)) {
        const char *value = at + n;
        value += strspn(value, " ");
        if (*value++ == ':')
            return value + strspn(value, " ");
    }
    return NULL;
}

/* A non-empty "content", "text" or "reasoning" string. */
static bool has_content(const char *data) {
    static const char *const keys[] = {"\"content\"", "\"text\"", "\"reasoning\"",
                                       "\"reasoning_content\""};
    for (unsigned i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *value = value_of(data, keys[i]);
        if (value && value[0] == '"' && value[1] != '"')
            return true;
    }
    return strstr(data, "\"tool_calls\":[{") != NULL;
}

static enum finish read_finish(const char *data) {
    const char *value = value_of(data, "\"finish_reason\"");
    if (!value || *value != '"')
        return FINISH_NONE;
    return strncmp(value, "\"length\"", 8) == 0 ? FINISH_LENGTH
           : strncmp(value, "\"stop\"", 6) == 0 ? FINISH_STOP
                                                : FINISH_OTHER;
}

static uint32_t read_number(const char *text, const char *key) {
    const char *value = value_of(text, key);
    return value ? (uint32_t)strtoul(value, NULL, 10) : 0;
}

/* Servers may answer with a longer or shorter name of the same model: one begins the other. */
static bool is_other_model(const char *data, const char *asked) {
    const char *value = value_of(data, "\"model\"");
    if (!value || *value != '"')
        return false;
    value++;
    size_t n_asked = strlen(asked), n = strcspn(value, "\"");
    return memchr(value, '\\', n) == NULL && strncmp(value, asked, n < n_asked ? n : n_asked) != 0;
}

unsigned answer_line(struct answer *answer, const char *data, size_t n, struct event events[2],
                     enum fault *fault) {
    unsigned n_events = 0;
    *fault = FAULT_NONE;
    answer->n_lines++;
    if (strcmp(data, "[DONE]") == 0) {
        answer->is_done = true;
        return 0;
    }
    while (n > 0 && (data[n - 1] == ' ' || data[n - 1] == '\t'))
        n--;
    const char *choices = strstr(data, "\"choices\"");
    if (n < 2 || data[0] != '{' || data[n - 1] != '}' || strlen(data) < n)
        *fault = FAULT_MALFORMED;
    else if (!choices && strstr(data, "\"error\""))
        *fault = FAULT_EVENT;
    else if (answer->model && !answer->has_checked && is_other_model(data, answer->model))
        *fault = FAULT_MODEL;
    answer->has_checked = true;
    if (*fault != FAULT_NONE)
        return 0;
    const char *usage = value_of(data, "\"usage\"");
    bool has_usage = usage && *usage == '{';
    bool is_empty = choices && strncmp(choices, "\"choices\":[]", 12) == 0;
    if (choices && !is_empty && strncmp(choices, "\"choices\": []", 13) != 0)
        events[n_events++] = (struct event){.kind = EVENT_CHUNK,
                                            .chunk = has_content(data) ? CHUNK_TEXT : CHUNK_BARE,
                                            .finish = read_finish(data)};
    if (has_usage)
        events[n_events++] = (struct event){.kind = EVENT_USAGE,
                                            .n_prompt = read_number(usage, "\"prompt_tokens\""),
                                            .n_output = read_number(usage, "\"completion_tokens\""),
                                            .n_cached = read_number(usage, "\"cached_tokens\"")};
    return n_events;
}
