#include "tools/bench/core/answer.h"

#include <string.h>

#define DEPTH_MAX 32 /* of an answer's JSON; servers' have about 6 */

/* What an object or a list of the answer is, by where it stands. */
enum place {
    PLACE_OTHER, /* nothing of it counts */
    PLACE_ROOT,
    PLACE_CHOICE,
    PLACE_DELTA, /* or "message" of an answer in one piece */
    PLACE_USAGE,
    PLACE_CACHED,
    PLACE_DETAILS, /* of TGI's /generate */
    PLACE_CHOICES, /* lists */
    PLACE_CALLS,
    PLACE_TEXTS, /* of vLLM's /generate: strings */
    PLACE_N
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

/* A member that counts. */
struct answer_member {
    uint8_t n_key;
    const char *key;
    enum place place;     /* of an object or list behind it */
    enum meaning meaning; /* of a string or number */
};

#define KEY(text) sizeof text - 1, text
static const struct answer_member root_members[] = {
    {KEY("choices"), PLACE_CHOICES, MEANS_NOTHING},
    {KEY("model"), PLACE_OTHER, MEANS_MODEL},
    {KEY("usage"), PLACE_USAGE, MEANS_NOTHING},
    {KEY("text"), PLACE_TEXTS, MEANS_NOTHING},
    {KEY("generated_text"), PLACE_OTHER, MEANS_WHOLE},
    {KEY("details"), PLACE_DETAILS, MEANS_NOTHING},
};
static const struct answer_member choice_members[] = {
    {KEY("delta"), PLACE_DELTA, MEANS_NOTHING},
    {KEY("message"), PLACE_DELTA, MEANS_NOTHING},
    {KEY("text"), PLACE_OTHER, MEANS_CONTENT},
    {KEY("finish_reason"), PLACE_OTHER, MEANS_FINISH},
};
static const struct answer_member delta_members[] = {
    {KEY("content"), PLACE_OTHER, MEANS_CONTENT},
    {KEY("reasoning"), PLACE_OTHER, MEANS_CONTENT},
    {KEY("reasoning_content"), PLACE_OTHER, MEANS_CONTENT},
    {KEY("tool_calls"), PLACE_CALLS, MEANS_NOTHING},
};
static const struct answer_member usage_members[] = {
    {KEY("prompt_tokens"), PLACE_OTHER, MEANS_PROMPT},
    {KEY("completion_tokens"), PLACE_OTHER, MEANS_OUTPUT},
    {KEY("prompt_tokens_details"), PLACE_CACHED, MEANS_NOTHING},
};
static const struct answer_member cached_members[] = {
    {KEY("cached_tokens"), PLACE_OTHER, MEANS_CACHED},
};
static const struct answer_member details_members[] = {
    {KEY("generated_tokens"), PLACE_OTHER, MEANS_OUTPUT},
};
#undef KEY

/* The members that count, of each place. */
static const struct {
    const struct answer_member *members;
    uint32_t n;
} known[PLACE_N] = {
#define OF(members)                                                                                \
    { members, sizeof members / sizeof *members }
    [PLACE_ROOT] = OF(root_members),     [PLACE_CHOICE] = OF(choice_members),
    [PLACE_DELTA] = OF(delta_members),   [PLACE_USAGE] = OF(usage_members),
    [PLACE_CACHED] = OF(cached_members), [PLACE_DETAILS] = OF(details_members),
#undef OF
};

struct answer_reader {
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

static const struct answer_member nothing = {0, "", PLACE_OTHER, MEANS_NOTHING};

static const struct answer_member *bench_answer_find_member(enum place in, const char *key,
                                                            size_t n) {
    const struct answer_member *members = known[in].members;
    for (uint32_t i = 0; i < known[in].n; i++)
        if (members[i].n_key == n && members[i].key[0] == *key &&
            memcmp(members[i].key, key, n) == 0)
            return &members[i];
    return &nothing;
}

static inline void bench_answer_skip_blanks(struct answer_reader *reader) {
    const char *at = reader->at;
    while (at < reader->end && (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n'))
        at++;
    reader->at = at;
}

/* Passes over `byte`, which is no blank, and the blanks in front of it; false when something else
 * stands there. */
static inline bool answer_take(struct answer_reader *reader, char byte) {
    if (reader->at < reader->end && *reader->at <= ' ')
        bench_answer_skip_blanks(reader);
    bool is_there = reader->at < reader->end && *reader->at == byte;
    reader->at += is_there;
    return is_there;
}

/* The bytes of `word`, one of eight, that are `byte` have their highest bit set; so may bytes above
 * the lowest of these. */
static inline uint64_t bench_answer_mark_byte(uint64_t word, unsigned char byte) {
    const uint64_t ones = 0x0101010101010101;
    uint64_t differs = word ^ (ones * byte);
    return (differs - ones) & ~differs & (ones << 7);
}

/* The first quote or backslash; `end`: none. Eight bytes at a time, as reading strings is most of
 * what reading a line costs. */
static inline const char *bench_answer_find_stop(const char *at, const char *end) {
    _Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
                   "the lowest mark is the first byte's");
    for (; end - at >= 8; at += 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        uint64_t marks = bench_answer_mark_byte(word, '"') | bench_answer_mark_byte(word, '\\');
        if (marks)
            return at + __builtin_ctzll(marks) / 8;
    }
    while (at < end && *at != '"' && *at != '\\')
        at++;
    return at;
}

/* A string, its quotes passed over; escapes stay as they are. */
static inline bool bench_answer_read_string(struct answer_reader *reader, const char **text,
                                            size_t *n) {
    if (!answer_take(reader, '"'))
        return false;
    const char *at = bench_answer_find_stop(reader->at, reader->end);
    while (at < reader->end && *at == '\\')
        at = reader->end - at > 2 ? bench_answer_find_stop(at + 2, reader->end) : reader->end;
    if (at >= reader->end)
        return false;
    *text = reader->at;
    *n = (size_t)(at - reader->at);
    reader->at = at + 1;
    return true;
}

/* Servers may answer with a longer or shorter name of the same model: one begins the other. */
static bool bench_answer_is_other_model(const char *name, size_t n, const char *asked) {
    size_t n_asked = strlen(asked);
    return memchr(name, '\\', n) == NULL && strncmp(name, asked, n < n_asked ? n : n_asked) != 0;
}

static bool bench_answer_take_string(struct answer_reader *reader, enum meaning meaning) {
    const char *text;
    size_t n;
    if (!bench_answer_read_string(reader, &text, &n))
        return false;
    reader->has_choice |= meaning == MEANS_WHOLE;
    if (meaning == MEANS_CONTENT || meaning == MEANS_WHOLE)
        reader->has_text |= n > 0;
    else if (meaning == MEANS_MODEL && reader->model)
        reader->is_other_model = bench_answer_is_other_model(text, n, reader->model);
    else if (meaning == MEANS_FINISH)
        reader->finish = n == 6 && memcmp(text, "length", n) == 0 ? FINISH_LENGTH
                         : n == 4 && memcmp(text, "stop", n) == 0 ? FINISH_STOP
                                                                  : FINISH_OTHER;
    return true;
}

static bool bench_answer_is_numeric(char c) {
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

/* A whole number's value is taken where it means something; of any other its digits are. */
static bool bench_answer_take_number(struct answer_reader *reader, enum meaning meaning) {
    const char *begin = reader->at;
    uint32_t value = 0;
    for (; reader->at < reader->end && bench_answer_is_numeric(*reader->at); reader->at++)
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

/* null, true or false. */
static bool bench_answer_take_word(struct answer_reader *reader) {
    const char *word = *reader->at == 'n' ? "null" : *reader->at == 't' ? "true" : "false";
    size_t n = *word == 'f' ? 5 : 4;
    if ((size_t)(reader->end - reader->at) < n || memcmp(reader->at, word, n) != 0)
        return false;
    reader->at += n;
    return true;
}

static bool bench_answer_read_value(struct answer_reader *reader,
                                    const struct answer_member *member, unsigned depth);

static bool bench_answer_read_list(struct answer_reader *reader, enum place place, unsigned depth) {
    static const struct answer_member choice = {0, "", PLACE_CHOICE, MEANS_NOTHING};
    static const struct answer_member text = {0, "", PLACE_OTHER, MEANS_WHOLE};
    const struct answer_member *element = place == PLACE_CHOICES ? &choice
                                          : place == PLACE_TEXTS ? &text
                                                                 : &nothing;
    reader->has_choices |= place == PLACE_CHOICES;
    if (answer_take(reader, ']'))
        return true;
    reader->has_choice |= place == PLACE_CHOICES;
    reader->has_text |= place == PLACE_CALLS;
    do {
        if (!bench_answer_read_value(reader, element, depth))
            return false;
    } while (answer_take(reader, ','));
    return answer_take(reader, ']');
}

static bool bench_answer_read_object(struct answer_reader *reader, enum place place,
                                     unsigned depth) {
    reader->has_usage |= place == PLACE_USAGE;
    reader->has_details |= place == PLACE_DETAILS;
    if (answer_take(reader, '}'))
        return true;
    do {
        const char *key;
        size_t n;
        if (!bench_answer_read_string(reader, &key, &n) || !answer_take(reader, ':'))
            return false;
        const struct answer_member *member = bench_answer_find_member(place, key, n);
        reader->has_error |= place == PLACE_ROOT && n == 5 && memcmp(key, "error", n) == 0;
        if (!bench_answer_read_value(reader, member, depth))
            return false;
    } while (answer_take(reader, ','));
    return answer_take(reader, '}');
}

static bool bench_answer_read_value(struct answer_reader *reader,
                                    const struct answer_member *member, unsigned depth) {
    if (depth == DEPTH_MAX)
        return false;
    if (answer_take(reader, '{'))
        return bench_answer_read_object(reader, member->place, depth + 1);
    if (reader->at >= reader->end)
        return false;
    switch (*reader->at) {
    case '"':
        return bench_answer_take_string(reader, member->meaning);
    case '[':
        reader->at++;
        return bench_answer_read_list(reader, member->place, depth + 1);
    case 'n':
    case 't':
    case 'f':
        return bench_answer_take_word(reader);
    default:
        return bench_answer_take_number(reader, member->meaning);
    }
}

/* The whole line is one JSON object. */
static bool bench_answer_read_line(struct answer_reader *reader) {
    if (!answer_take(reader, '{') || !bench_answer_read_object(reader, PLACE_ROOT, 1))
        return false;
    bench_answer_skip_blanks(reader);
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
    struct answer_reader reader = {
        .at = data, .end = data + n, .model = answer->has_checked ? NULL : answer->model};
    answer->has_checked = true;
    if (!bench_answer_read_line(&reader))
        *fault = FAULT_MALFORMED;
    else if (!reader.has_choices && reader.has_error)
        *fault = FAULT_EVENT;
    else if (reader.is_other_model)
        *fault = FAULT_MODEL;
    if (*fault != FAULT_NONE)
        return 0;
    answer->has_finish |= reader.finish != FINISH_NONE;
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

bool answer_is_over(const struct answer *answer) {
    return answer->is_done || answer->has_finish;
}
