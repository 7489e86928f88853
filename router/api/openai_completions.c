/* OpenAI's completions: text or ids in, text that follows them out. */
#include "base/utf8.h"
#include "router/api/about.h"
#include "router/api/field_table.h"
#include "router/api/fields.h"
#include "router/api/json_put.h"
#include "router/api/openai.h"

#include <string.h>

static enum status openai_completion_add_text(const struct json_get *get, const json_t *value,
                                              struct ask_prompt *prompt) {
    if (!json_is_string(value))
        return json_get_fail(get, STATUS_INVALID, "prompt",
                             "must be a string, a list of strings, a list of ids or a list of "
                             "lists of ids");
    if (json_string_length(value) == 0)
        return json_get_fail(get, STATUS_INVALID, "prompt", "must not be empty");
    if (json_string_length(value) > TOKENIZER_TEXT_MAX)
        return json_get_fail(get, STATUS_INVALID, "prompt", "is too long");
    prompt->text = (struct span){json_string_value(value), json_string_length(value)};
    return STATUS_OK;
}

/* The bound of a prompt that is cut afterwards is a wider one. */
static enum status openai_completion_add_ids(const struct json_get *get, const json_t *list,
                                             const struct ask_limits *limits, bool is_cut,
                                             struct ask_prompt *prompt) {
    size_t n = json_array_size(list);
    if (n == 0)
        return json_get_fail(get, STATUS_INVALID, "prompt", "must not be empty");
    if (!is_cut && n > limits->prompt_max)
        return errors_too_long(get->error, "prompt", limits->prompt_max, n);
    if (n > ASK_UNCUT_IDS_MAX)
        return json_get_fail(get, STATUS_LIMIT, "prompt",
                             "must have at most %u ids before it is cut, not %zu",
                             ASK_UNCUT_IDS_MAX, n);
    prompt->is_ids = true;
    ids_init(&prompt->ids, n);
    return fields_ids(get, "prompt", list, limits->n_tokens, &prompt->ids);
}

/* The four forms: string, [string], [id], [[id]]. */
static enum status openai_completion_read_prompts(const struct json_get *get,
                                                  const struct ask_limits *limits,
                                                  struct ask *ask) {
    const json_t *value = json_get_member(get, "prompt");
    if (!value)
        return json_get_fail(get, STATUS_INVALID, "prompt", "is missing");
    const json_t *first = json_is_array(value) ? json_array_get(value, 0) : NULL;
    bool is_one = !json_is_array(value) || json_is_number(first);
    if (json_is_array(value) && !first)
        return json_get_fail(get, STATUS_INVALID, "prompt", "must not be empty");
    size_t n = is_one ? 1 : json_array_size(value);
    int64_t truncate = 0;
    TRY(fields_int(get, "truncate_prompt_tokens", &truncate));
    if (n > ASK_PROMPTS_MAX)
        return json_get_fail(get, STATUS_INVALID, "prompt", "must have at most %d entries",
                             ASK_PROMPTS_MAX);
    if (ask_set_prompts(ask, (uint32_t)n) != STATUS_OK)
        return error_set(get->error, STATUS_NOMEM, "no memory for the prompts");
    for (size_t i = 0; i < n; i++) {
        const json_t *prompt = is_one ? value : json_array_get(value, i);
        if (json_is_array(prompt))
            TRY(openai_completion_add_ids(get, prompt, limits, truncate > 0, &ask->prompts[i]));
        else
            TRY(openai_completion_add_text(get, prompt, &ask->prompts[i]));
    }
    return STATUS_OK;
}

enum status openai_read_completion(const json_t *root, const struct ask_limits *limits,
                                   struct ask *ask, struct api_error *error) {
    struct json_get get = {.object = root, .error = &error->error};
    ask->add_special = true;
    ask->parse_special = true;
    TRY(fields_model(&get, limits, error));
    TRY(openai_completion_read_prompts(&get, limits, ask));
    TRY(json_get_bool(&get, "echo", &ask->echo));
    int64_t max_new = ASK_TOKENS_DEFAULT;
    TRY(json_get_int(&get, "max_tokens", ask->echo ? 0 : 1, INT32_MAX, &max_new));
    TRY(fields_int(&get, "max_completion_tokens", &max_new));
    ask->max_new = limits->max_new;
    ask->has_max_new = limits->max_new == 0 || json_get_member(&get, "max_tokens") ||
                       json_get_member(&get, "max_completion_tokens");
    ask->sampling.max_new = (uint32_t)max_new;
    int64_t top = 0;
    TRY(json_get_int(&get, "logprobs", 0, MESSAGE_TOP_MAX, &top));
    ask->sampling.want_logprobs = json_get_member(&get, "logprobs") != NULL;
    ask->sampling.n_top = (uint32_t)top;
    if (ask->echo && ask->sampling.want_logprobs)
        return json_get_fail(&get, STATUS_UNSUPPORTED, "logprobs",
                             "of an echoed prompt are not served");
    return fields_read(&get, limits, ask);
}

static enum status openai_parse_completion(const struct span *body, const struct ask_limits *limits,
                                           struct ask *ask, struct api_error *error) {
    TRY(ask_read_json(body, ask, error));
    return openai_read_completion(ask->body, limits, ask, error);
}

/* A token's name, quoted: its text, or the bytes of one that is no whole character, as OpenAI's API named those:
 * `bytes:\xf0`. Different bytes have different names. */
static void openai_completion_put_name(const struct reply *reply, uint32_t id, struct buf *out) {
    struct span bytes = reply_token_bytes(reply, id);
    if (reply->ask->tokens_as_ids || utf8_valid(bytes.bytes, bytes.n)) {
        reply_put_token(reply, id, out);
        return;
    }
    buf_puts(out, "\"bytes:");
    for (size_t i = 0; i < bytes.n; i++) {
        unsigned char byte = (unsigned char)bytes.bytes[i];
        if (byte < ' ' || byte > '~' || byte == '\\' || byte == '"')
            buf_printf(out, "\\\\x%02x", byte);
        else
            buf_putc(out, (char)byte);
    }
    buf_putc(out, '"');
}

/* Is the last name, which begins at starts[n], one of the n before it? */
static bool openai_completion_is_taken(const struct buf *names, const size_t *starts, uint32_t n) {
    size_t length = names->n - starts[n];
    for (uint32_t i = 0; i < n; i++)
        if (starts[i + 1] - starts[i] == length &&
            memcmp(names->data + starts[i], names->data + starts[n], length) == 0)
            return true;
    return false;
}

/* One token's {"text": logprob, ...}: the best ones and the sampled one, each under a name of its own. The sampled
 * token is named as in the list of tokens; another one whose text is taken is named by its id. */
static void openai_completion_put_top(const struct reply *reply, uint32_t sampled,
                                      const struct token_logprobs *from, struct buf *names,
                                      struct buf *out) {
    uint32_t n =
        reply->ask->sampling.n_top < from->n_top ? reply->ask->sampling.n_top : from->n_top;
    size_t starts[MESSAGE_TOP_MAX + 2]; /* the sampled token's name is the first */
    uint32_t n_names = 1;
    bool is_there = false;
    buf_clear(names);
    openai_completion_put_name(reply, sampled, names);
    starts[0] = 0;
    starts[1] = names->n;
    buf_putc(out, '{');
    for (uint32_t i = 0; i <= n && !(i == n && is_there); i++) {
        uint32_t id = i < n ? from->top_ids[i] : sampled, name = id == sampled ? 0 : n_names;
        is_there |= id == sampled;
        if (name > 0) {
            openai_completion_put_name(reply, id, names);
            if (openai_completion_is_taken(names, starts, name)) {
                buf_truncate(names, starts[name]);
                reply_put_token_id(id, names);
            }
            starts[++n_names] = names->n;
        }
        if (buf_status(names) != STATUS_OK)
            break;
        if (i > 0)
            buf_putc(out, ',');
        buf_append(out, names->data + starts[name], starts[name + 1] - starts[name]);
        buf_putc(out, ':');
        json_put_logprob(out, i < n ? from->top_logprobs[i] : from->logprob);
    }
    buf_putc(out, '}');
}

static void openai_completion_put_logprobs(const struct reply *reply,
                                           const struct reply_choice *choice, struct buf *out) {
    buf_puts(out, ",\"logprobs\":");
    if (!reply->ask->sampling.want_logprobs || !choice->logprobs || choice->n_tokens == 0) {
        buf_puts(out, "null");
        return;
    }
    uint32_t offset = choice->text_offset;
    buf_puts(out, "{\"text_offset\":[");
    for (uint32_t i = 0; i < choice->n_tokens; i++) {
        if (i > 0)
            buf_putc(out, ',');
        json_put_int(out, offset);
        offset += reply_token_chars(reply, choice->tokens[i]);
    }
    buf_puts(out, "],\"token_logprobs\":[");
    for (uint32_t i = 0; i < choice->n_tokens; i++) {
        if (i > 0)
            buf_putc(out, ',');
        json_put_logprob(out, choice->logprobs[i].logprob);
    }
    buf_puts(out, "],\"tokens\":[");
    for (uint32_t i = 0; i < choice->n_tokens; i++) {
        if (i > 0)
            buf_putc(out, ',');
        openai_completion_put_name(reply, choice->tokens[i], out);
    }
    buf_puts(out, "],\"top_logprobs\":[");
    struct buf scratch;
    buf_init(&scratch, 0);
    for (uint32_t i = 0; i < choice->n_tokens; i++) {
        if (i > 0)
            buf_putc(out, ',');
        openai_completion_put_top(reply, choice->tokens[i], &choice->logprobs[i], &scratch, out);
    }
    buf_fini(&scratch);
    buf_puts(out, "]}");
}

static void openai_completion_put_choice(const struct reply *reply,
                                         const struct reply_choice *choice, struct buf *out) {
    buf_puts(out, "{\"index\":");
    json_put_int(out, choice->index);
    buf_puts(out, ",\"text\":");
    json_put_string(out, choice->text.bytes, choice->text.n);
    openai_completion_put_logprobs(reply, choice, out);
    buf_putc(out, ',');
    reply_put_finish(choice, out);
    reply_put_ids(reply, choice, out);
    buf_putc(out, '}');
}

static void openai_completion_put_chunk(const struct reply *reply,
                                        const struct reply_choice *choice, struct buf *out) {
    openai_begin_event(reply, "text_completion", out);
    buf_puts(out, "\"choices\":[");
    openai_completion_put_choice(reply, choice, out);
    buf_putc(out, ']');
    openai_end_event(reply, out);
}

static void openai_completion_put_end(const struct reply *reply, struct buf *out) {
    openai_end_stream(reply, "text_completion", out);
}

static void openai_completion_put_whole(const struct reply *reply,
                                        const struct reply_choice *choices, uint32_t n,
                                        struct buf *out) {
    buf_putc(out, '{');
    reply_put_head(reply, "text_completion", out);
    buf_puts(out, "\"choices\":[");
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0)
            buf_putc(out, ',');
        openai_completion_put_choice(reply, &choices[i], out);
    }
    buf_putc(out, ']');
    reply_put_usage(reply, true, out);
    buf_putc(out, '}');
}

static const struct dialect_writer writer = {
    .id_prefix = "cmpl-",
    .chunk = openai_completion_put_chunk,
    .end = openai_completion_put_end,
    .whole = openai_completion_put_whole,
};

static const struct dialect_member members[] = {
    {"logprobs", .schema = SCHEMA({"type" : "integer", "minimum" : 0, "maximum" : MESSAGE_TOP_MAX}),
     .says = "of each token, and of so many others in its place"},
    {"max_tokens", .schema = SCHEMA({"type" : "integer", "minimum" : 0, "maximum" : 2147483647}),
     .says = "0 with `echo` alone; without it: 16"},
    {.name = NULL},
};

#define COMPLETION_ENDS "stop", "length", "error"

static const struct dialect_about about = {
    .summary = "Text or ids in, what follows them out",
    .fields = FIELD_COMPLETIONS,
    .members = members,
    .needs = SCHEMA(["prompt"]),
    .answer = OPENAI_ANSWER("text_completion", COMPLETION_ENDS, "text", {"type" : "string"}),
    .events = "`data: ` and a text_completion each, at last `data: [DONE]`",
};

const struct dialect dialect_completions =
    DIALECT_ASK("completions", "/v1/completions", openai_form, openai_parse_completion,
                .writer = &writer, .about = &about);
