#include "tools/bench/core/answer.h"

#include <string.h>

#define DEPTH_MAX 32 /* of an answer's JSON; servers' have about 6 */

/* What an object or a list of the answer is, by where it stands. */
enum place {
    PLACE_OTHER, /* nothing of it counts */
    PLACE_ROOT,
    PLACE_CHOICES, /* the list */
    PLACE_CHOICE,
    PLACE_DELTA, /* or "message" of an answer in one piece */
    PLACE_CALLS,
    PLACE_USAGE,
    PLACE_CACHED,
    PLACE_TEXTS,  /* vLLM's /generate: a list of strings */
    PLACE_DETAILS /* TGI's /generate */
};

/* What a string or a number of the answer means, by its key. */
enum meaning {
    MEANS_NOTHING,
    MEANS_CONTENT,
    MEANS_WHOLE, /* content, and the answer has no choices */
    MEANS_FINISH,
    MEANS_MODEL,
    MEANS_PROMPT,
    MEANS_OUTPUT,
    MEANS_CACHED
};

/* One row for each member that counts. */
static const struct member {
    enum place in;
    uint8_t n_key;
    const char *key;
    enum place place;     /* of an object or list behind it */
    enum meaning meaning; /* of a string or number */
} members[] = {
#define KEY(text) sizeof text - 1, text
    {PLACE_ROOT, KEY("choices"), PLACE_CHOICES, MEANS_NOTHING},
    {PLACE_ROOT, KEY("model"), PLACE_OTHER, MEANS_MODEL},
    {PLACE_ROOT, KEY("usage"), PLACE_USAGE, MEANS_NOTHING},
    {PLACE_ROOT, KEY("text"), PLACE_TEXTS, MEANS_NOTHING},
    {PLACE_ROOT, KEY("generated_text"), PLACE_OTHER, MEANS_WHOLE},
    {PLACE_ROOT, KEY("details"), PLACE_DETAILS, MEANS_NOTHING},
    {PLACE_CHOICE, KEY("delta"), PLACE_DELTA, MEANS_NOTHING},
    {PLACE_CHOICE, KEY("message"), PLACE_DELTA, MEANS_NOTHING},
    {PLACE_CHOICE, KEY("text"), PLACE_OTHER, MEANS_CONTENT},
    {PLACE_CHOICE, KEY("finish_reason"), PLACE_OTHER, MEANS_FINISH},
    {PLACE_DELTA, KEY("content"), PLACE_OTHER, MEANS_CONTENT},
    {PLACE_DELTA, KEY("reasoning"), PLACE_OTHER, MEANS_CONTENT},
    {PLACE_DELTA, KEY("reasoning_content"), PLACE_OTHER, MEANS_CONTENT},
    {PLACE_DELTA, KEY("tool_calls"), PLACE_CALLS, MEANS_NOTHING},
    {PLACE_USAGE, KEY("prompt_tokens"), PLACE_OTHER, MEANS_PROMPT},
    {PLACE_USAGE, KEY("completion_tokens"), PLACE_OTHER, MEANS_OUTPUT},
    {PLACE_USAGE, KEY("prompt_tokens_details"), PLACE_CACHED, MEANS_NOTHING},
    {PLACE_CACHED, KEY("cached_tokens"), PLACE_OTHER, MEANS_CACHED},
    {PLACE_DETAILS, KEY("generated_tokens"), PLACE_OTHER, MEANS_OUTPUT},
};
#undef KEY

struct reader {
    const char *at;
    const char *end;
    const char *model; /* that was asked for; NULL: any */
    bool has_choices;
    bool has_choice; /* one at least */
    bool has_error;
    bool has_text;
    bool is_other_model;
    bool has_usage;
    bool has_details; /* of TGI: the output alone is counted */
    enum finish finish;
    uint32_t n_prompt, n_output, n_cached;
};

static const struct member nothing = {PLACE_OTHER, 0, "", PLACE_OTHER, MEANS_NOTHING};

static const struct member *find_member(enum place in, const char *key, size_t n) {
    for (unsigned i = 0; in != PLACE_OTHER && i < sizeof members / sizeof *members; i++)
        if (members[i].in == in && members[i].n_key == n && memcmp(members[i].key, key, n) == 0)
            return &members[i];
    return &nothing;
}

static void skip_blanks(struct reader *reader) {
    while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\t' ||
                                        *reader->at == '\r' || *reader->at == '\n'))
        reader->at++;
}

/* Passes over `byte` and the blanks in front of it; false when something else stands there. */
static bool take(struct reader *reader, char byte) {
    skip_blanks(reader);
    if (reader->at == reader->end || *reader->at != byte)
        return false;
    reader->at++;
    return true;
}

/* A string, its quotes passed over; escapes stay as they are. */
static bool read_string(struct reader *reader, const char **text, size_t *n) {
    if (!take(reader, '"'))
        return false;
    const char *begin = reader->at;
    for (;;) {
        const char *quote = memchr(reader->at, '"', (size_t)(reader->end - reader->at));
        if (!quote)
            return false;
        const char *back = quote;
        while (back > begin && back[-1] == '\\')
            back--;
        reader->at = quote + 1;
        if ((quote - back) % 2 == 0) {
            *text = begin;
            *n = (size_t)(quote - begin);
            return true;
        }
    }
}

/* Servers may answer with a longer or shorter name of the same model: one begins the other. */
static bool is_other_model(const char *name, size_t n, const char *asked) {
    size_t n_asked = strlen(asked);
    return memchr(name, '\\', n) == NULL && strncmp(name, asked, n < n_asked ? n : n_asked) != 0;
}

static bool take_string(struct reader *reader, enum meaning meaning) {
    const char *text;
    size_t n;
    if (!read_string(reader, &text, &n))
        return false;
    reader->has_choice |= meaning == MEANS_WHOLE;
    if (meaning == MEANS_CONTENT || meaning == MEANS_WHOLE)
        reader->has_text |= n > 0;
    else if (meaning == MEANS_MODEL && reader->model)
        reader->is_other_model = is_other_model(text, n, reader->model);
    else if (meaning == MEANS_FINISH)
        reader->finish = n == 6 && memcmp(text, "length", n) == 0 ? FINISH_LENGTH
                         : n == 4 && memcmp(text, "stop", n) == 0 ? FINISH_STOP
                                                                  : FINISH_OTHER;
    return true;
}

static bool is_numeric(char c) {
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

/* A whole number's value is taken where it means something; of any other its digits are. */
static bool take_number(struct reader *reader, enum meaning meaning) {
    const char *begin = reader->at;
    uint32_t value = 0;
    for (; reader->at < reader->end && is_numeric(*reader->at); reader->at++)
        if (*reader->at >= '0' && *reader->at <= '9')
            value = value * 10 + (uint32_t)(*reader->at - '0');
    if (meaning == MEANS_PROMPT)
        reader->n_prompt = value;
    else if (meaning == MEANS_OUTPUT)
        reader->n_output = value;
    else if (meaning == MEANS_CACHED)
        reader->n_cached = value;
    return reader->at > begin;
}

static bool take_word(struct reader *reader) {
    static const char *const words[] = {"null", "false", "true"};
    size_t n_left = (size_t)(reader->end - reader->at);
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i]);
        if (n <= n_left && memcmp(reader->at, words[i], n) == 0) {
            reader->at += n;
            return true;
        }
    }
    return false;
}

static bool read_value(struct reader *reader, const struct member *member, unsigned depth);

static bool read_list(struct reader *reader, enum place place, unsigned depth) {
    static const struct member choice = {PLACE_CHOICES, 0, "", PLACE_CHOICE, MEANS_NOTHING};
    static const struct member text = {PLACE_TEXTS, 0, "", PLACE_OTHER, MEANS_WHOLE};
    const struct member *element = place == PLACE_CHOICES ? &choice
                                   : place == PLACE_TEXTS ? &text
                                                          : &nothing;
    reader->has_choices |= place == PLACE_CHOICES;
    if (take(reader, ']'))
        return true;
    reader->has_choice |= place == PLACE_CHOICES;
    reader->has_text |= place == PLACE_CALLS;
    do {
        if (!read_value(reader, element, depth))
            return false;
    } while (take(reader, ','));
    return take(reader, ']');
}

static bool read_object(struct reader *reader, enum place place, unsigned depth) {
    reader->has_usage |= place == PLACE_USAGE;
    reader->has_details |= place == PLACE_DETAILS;
    if (take(reader, '}'))
        return true;
    do {
        const char *key;
        size_t n;
        if (!read_string(reader, &key, &n) || !take(reader, ':'))
            return false;
        const struct member *member = find_member(place, key, n);
        reader->has_error |= place == PLACE_ROOT && n == 5 && memcmp(key, "error", n) == 0;
        if (!read_value(reader, member, depth))
            return false;
    } while (take(reader, ','));
    return take(reader, '}');
}

static bool read_value(struct reader *reader, const struct member *member, unsigned depth) {
    if (depth == DEPTH_MAX)
        return false;
    if (take(reader, '{'))
        return read_object(reader, member->place, depth + 1);
    if (take(reader, '['))
        return read_list(reader, member->place, depth + 1);
    if (reader->at == reader->end)
        return false;
    return *reader->at == '"'        ? take_string(reader, member->meaning)
           : is_numeric(*reader->at) ? take_number(reader, member->meaning)
                                     : take_word(reader);
}

/* The whole line is one JSON object. */
static bool read_line(struct reader *reader) {
    if (!take(reader, '{') || !read_object(reader, PLACE_ROOT, 1))
        return false;
    skip_blanks(reader);
    return reader->at == reader->end;
}

unsigned answer_line(struct answer *answer, const char *data, size_t n, struct event events[2],
                     enum fault *fault) {
    unsigned n_events = 0;
    *fault = FAULT_NONE;
    answer->n_lines++;
    if (n == 6 && memcmp(data, "[DONE]", n) == 0) {
        answer->is_done = true;
        return 0;
    }
    struct reader reader = {
        .at = data, .end = data + n, .model = answer->has_checked ? NULL : answer->model};
    answer->has_checked = true;
    if (!read_line(&reader))
        *fault = FAULT_MALFORMED;
    else if (!reader.has_choices && reader.has_error)
        *fault = FAULT_EVENT;
    else if (reader.is_other_model)
        *fault = FAULT_MODEL;
    if (*fault != FAULT_NONE)
        return 0;
    if (reader.has_choice)
        events[n_events++] = (struct event){.kind = EVENT_CHUNK,
                                            .chunk = reader.has_text ? CHUNK_TEXT : CHUNK_BARE,
                                            .finish = reader.finish};
    if (reader.has_usage || reader.has_details)
        events[n_events++] = (struct event){.kind = EVENT_USAGE,
                                            .n_prompt = reader.n_prompt,
                                            .n_output = reader.n_output,
                                            .n_cached = reader.n_cached,
                                            .no_prompt = !reader.has_usage};
    return n_events;
}
