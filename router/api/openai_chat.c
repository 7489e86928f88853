/* OpenAI's chat completions: messages in, one assistant message per choice out. */
#include "model/text/generation.h"
#include "router/api/about.h"
#include "router/api/field_table.h"
#include "router/api/fields.h"
#include "router/api/json_put.h"
#include "router/api/openai.h"
#include "router/api/tool_reader.h"
#include "router/api/tools.h"

#include <string.h>
#include <xxhash.h>

/* The conversation and all else that a template sees. */
static enum status openai_chat_read_prompt(const struct json_get *get, struct ask *ask) {
    TRY(template_request_read(get->object, true, &ask->chat, get->error));
    ask->is_continued = ask->chat.input.continue_final_message;
    if (ask_set_prompts(ask, 1) != STATUS_OK)
        return error_set(get->error, STATUS_NOMEM, "no memory for the messages");
    return STATUS_OK;
}

static enum status openai_chat_read_max_new(const struct json_get *get,
                                            const struct ask_limits *limits, struct ask *ask) {
    const struct generation *generation = limits->generation;
    int64_t max_new = 0;
    TRY(fields_int(get, "max_tokens", &max_new));
    TRY(fields_int(get, "max_completion_tokens", &max_new));
    ask->has_max_new = max_new > 0;
    ask->max_new = limits->max_new;
    if (ask->max_new == 0 && generation && generation->has[GENERATION_MAX_NEW])
        ask->max_new = (uint32_t)generation->value[GENERATION_MAX_NEW];
    ask->sampling.max_new = (uint32_t)max_new;
    return STATUS_OK;
}

static enum status openai_chat_read_logprobs(const struct json_get *get, struct ask *ask) {
    TRY(json_get_bool(get, "logprobs", &ask->sampling.want_logprobs));
    int64_t top = 0;
    TRY(fields_int(get, "top_logprobs", &top));
    if (top > 0 && !ask->sampling.want_logprobs)
        return json_get_fail(get, STATUS_INVALID, "top_logprobs", "needs `logprobs`: true");
    ask->sampling.n_top = (uint32_t)top;
    return STATUS_OK;
}

/* What becomes of what the model thinks before it answers. */
static enum status openai_chat_read_thoughts(const struct json_get *get, struct ask *ask) {
    bool shown = true, apart = true;
    TRY(json_get_bool(get, "include_reasoning", &shown));
    TRY(json_get_bool(get, "separate_reasoning", &apart));
    ask->hides_thoughts = !shown;
    ask->joins_thoughts = !apart && shown;
    return STATUS_OK;
}

enum status openai_read_chat(const json_t *root, const struct ask_limits *limits, struct ask *ask,
                             struct api_error *error) {
    struct json_get get = {.object = root, .error = &error->error};
    ask->is_chat = true;
    TRY(fields_model(&get, limits, error));
    TRY(openai_chat_read_prompt(&get, ask));
    TRY(openai_chat_read_max_new(&get, limits, ask));
    TRY(openai_chat_read_logprobs(&get, ask));
    TRY(openai_chat_read_thoughts(&get, ask));
    TRY(fields_read(&get, limits, ask));
    return tools_read(&get, limits, ask);
}

static enum status openai_parse_chat(const struct span *body, const struct ask_limits *limits,
                                     struct ask *ask, struct api_error *error) {
    TRY(ask_read_json(body, ask, error));
    return openai_read_chat(ask->body, limits, ask, error);
}

static void openai_chat_put_logprob_of(const struct reply *reply, uint32_t id, float logprob,
                                       struct buf *out) {
    struct span bytes = reply_token_bytes(reply, id);
    buf_puts(out, "{\"token\":");
    reply_put_token(reply, id, out);
    buf_puts(out, ",\"logprob\":");
    json_put_logprob(out, logprob);
    buf_puts(out, ",\"bytes\":");
    json_put_bytes(out, bytes.bytes, bytes.n);
}

/* As many as were asked for, best first; the sampled token is always among them and takes the last
 * place where it is not one of the best. */
static void openai_chat_put_top(const struct reply *reply, uint32_t sampled,
                                const struct token_logprobs *from, struct buf *out) {
    uint32_t n =
        reply->ask->sampling.n_top < from->n_top ? reply->ask->sampling.n_top : from->n_top;
    bool is_there = false;
    for (uint32_t i = 0; i < n; i++)
        is_there |= from->top_ids[i] == sampled;
    buf_puts(out, ",\"top_logprobs\":[");
    for (uint32_t i = 0; i < n; i++) {
        bool swap = !is_there && i == n - 1;
        if (i > 0)
            buf_putc(out, ',');
        openai_chat_put_logprob_of(reply, swap ? sampled : from->top_ids[i],
                                   swap ? from->logprob : from->top_logprobs[i], out);
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
}

void openai_put_logprob(const struct reply *reply, uint32_t token,
                        const struct token_logprobs *logprobs, struct buf *out) {
    openai_chat_put_logprob_of(reply, token, logprobs->logprob, out);
    openai_chat_put_top(reply, token, logprobs, out);
    buf_putc(out, '}');
}

static void openai_chat_put_logprobs(const struct reply *reply, const struct reply_choice *choice,
                                     struct buf *out) {
    buf_puts(out, ",\"logprobs\":");
    if (!reply->ask->sampling.want_logprobs || !choice->logprobs || choice->n_tokens == 0) {
        buf_puts(out, "null");
        return;
    }
    buf_puts(out, "{\"content\":[");
    for (uint32_t i = 0; i < choice->n_tokens; i++) {
        if (i > 0)
            buf_putc(out, ',');
        openai_put_logprob(reply, choice->tokens[i], &choice->logprobs[i], out);
    }
    buf_puts(out, "]}");
}

/* vLLM puts a chat's prompt ids beside `choices`; ours are in each choice as well. */
static void openai_chat_put_prompt_ids(const struct reply *reply, const struct reply_choice *choice,
                                       struct buf *out) {
    if (!reply->ask->return_token_ids || !choice->is_first)
        return;
    buf_puts(out, ",\"prompt_token_ids\":");
    json_put_ids(out, choice->prompt, choice->n_prompt);
}

/* A call's id: the same however the answer is written. */
static void openai_chat_put_call_id(const struct reply *reply, const struct reply_choice *choice,
                                    uint32_t call, struct buf *out) {
    uint64_t name = (uint64_t)choice->index << 32 | call;
    uint64_t hash = XXH3_64bits_withSeed(reply->id, strlen(reply->id), name);
    buf_printf(out, "\"id\":\"call_%016llx%08x\"", (unsigned long long)hash, call);
}

/* "tool_calls":[...] of the pieces; in a chunk an entry goes on with its arguments alone. */
static void openai_chat_put_calls(const struct reply *reply, const struct reply_choice *choice,
                                  bool is_chunk, struct buf *out) {
    uint32_t n;
    const struct tool_piece *pieces = tool_reader_pieces(choice->reader, &n);
    const char *opens = "\"tool_calls\":[", *closes = "";
    for (uint32_t i = 0; i < n; i++) {
        struct span text = tool_reader_text(choice->reader, &pieces[i]);
        if (pieces[i].kind != TOOL_PIECE_NAME && pieces[i].kind != TOOL_PIECE_ARGUMENTS)
            continue;
        bool begins = pieces[i].kind == TOOL_PIECE_NAME;
        const char *type = pieces[i].is_custom ? "custom" : "function";
        if (begins || !*closes) {
            buf_puts(out, closes);
            buf_puts(out, opens);
            buf_putc(out, '{');
            if (is_chunk)
                json_put_number(out, "index", pieces[i].call);
            if (begins) {
                openai_chat_put_call_id(reply, choice, pieces[i].call, out);
                buf_puts(out, ",\"type\":\"");
                buf_puts(out, type);
                buf_puts(out, "\",");
            }
            buf_putc(out, '"');
            buf_puts(out, type);
            buf_puts(out, "\":{");
            if (begins) {
                buf_puts(out, "\"name\":");
                json_put_string(out, text.bytes, text.n);
                buf_putc(out, ',');
            }
            buf_puts(out, pieces[i].is_custom ? "\"input\":\"" : "\"arguments\":\"");
        }
        if (!begins)
            json_put_text(out, text.bytes, text.n);
        opens = ",", closes = "\"}}";
    }
    buf_puts(out, closes);
    if (*closes)
        buf_putc(out, ']');
}

/* `"content":"..."`, of the pieces of that kind. */
static void openai_chat_put_texts(const struct reply_choice *choice, enum tool_piece_kind kind,
                                  const char *name, struct buf *out) {
    uint32_t n;
    const struct tool_piece *pieces = tool_reader_pieces(choice->reader, &n);
    buf_printf(out, "\"%s\":\"", name);
    for (uint32_t i = 0; i < n; i++) {
        struct span text = tool_reader_text(choice->reader, &pieces[i]);
        if (pieces[i].kind == kind)
            json_put_text(out, text.bytes, text.n);
    }
    buf_putc(out, '"');
}

/* What is decided of an answer that has parts: "reasoning" in both names that clients know, "content" and "tool_calls", as far
 * as there is any; a whole message has content in any case, and null where it only thinks or calls. */
static void openai_chat_put_pieces(const struct reply *reply, const struct reply_choice *choice,
                                   struct buf *out) {
    uint32_t n, n_content = 0, n_thoughts = 0;
    const struct tool_piece *pieces = tool_reader_pieces(choice->reader, &n);
    for (uint32_t i = 0; i < n; i++) {
        n_content += pieces[i].kind == TOOL_PIECE_CONTENT;
        n_thoughts += pieces[i].kind == TOOL_PIECE_REASONING;
    }
    bool is_chunk = reply->ask->stream, calls = n_content + n_thoughts < n;
    const char *comma = "";
    if (n_thoughts > 0) {
        openai_chat_put_texts(choice, TOOL_PIECE_REASONING, "reasoning", out);
        buf_putc(out, ',');
        openai_chat_put_texts(choice, TOOL_PIECE_REASONING, "reasoning_content", out);
        comma = ",";
    }
    if (n_content > 0 || (!is_chunk && n == 0)) {
        buf_puts(out, comma);
        openai_chat_put_texts(choice, TOOL_PIECE_CONTENT, "content", out);
        comma = ",";
    } else if (!is_chunk || choice->is_first) {
        buf_puts(out, comma);
        buf_puts(out, "\"content\":null");
        comma = ",";
    }
    if (calls) {
        buf_puts(out, comma);
        openai_chat_put_calls(reply, choice, is_chunk, out);
    }
}

static void openai_chat_put_chunk(const struct reply *reply, const struct reply_choice *choice,
                                  struct buf *out) {
    openai_begin_event(reply, "chat.completion.chunk", out);
    buf_puts(out, "\"choices\":[{\"index\":");
    json_put_int(out, choice->index);
    buf_puts(out, ",\"delta\":{");
    if (choice->is_first)
        buf_puts(out, "\"role\":\"assistant\",");
    if (choice->reader) {
        openai_chat_put_pieces(reply, choice, out);
    } else if (choice->is_first || choice->text.n > 0 || !choice->has_ended) {
        buf_puts(out, "\"content\":");
        json_put_string(out, choice->text.bytes, choice->text.n);
    }
    buf_putc(out, '}');
    openai_chat_put_logprobs(reply, choice, out);
    buf_putc(out, ',');
    reply_put_finish(choice, out);
    reply_put_ids(reply, choice, out);
    buf_puts(out, "}]");
    openai_chat_put_prompt_ids(reply, choice, out);
    openai_end_event(reply, out);
}

static void openai_chat_put_end(const struct reply *reply, struct buf *out) {
    openai_end_stream(reply, "chat.completion.chunk", out);
}

static void openai_chat_put_whole(const struct reply *reply, const struct reply_choice *choices,
                                  uint32_t n, struct buf *out) {
    buf_putc(out, '{');
    reply_put_head(reply, "chat.completion", out);
    buf_puts(out, "\"choices\":[");
    for (uint32_t i = 0; i < n; i++) {
        buf_puts(out, i > 0 ? ",{\"index\":" : "{\"index\":");
        json_put_int(out, choices[i].index);
        buf_puts(out, ",\"message\":{\"role\":\"assistant\",");
        if (choices[i].reader) {
            openai_chat_put_pieces(reply, &choices[i], out);
        } else {
            buf_puts(out, "\"content\":");
            json_put_string(out, choices[i].text.bytes, choices[i].text.n);
        }
        buf_putc(out, '}');
        openai_chat_put_logprobs(reply, &choices[i], out);
        buf_putc(out, ',');
        reply_put_finish(&choices[i], out);
        reply_put_ids(reply, &choices[i], out);
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
    reply_put_usage(reply, true, out);
    openai_chat_put_prompt_ids(reply, &choices[0], out);
    buf_putc(out, '}');
}

static const struct dialect_writer writer = {
    .id_prefix = "chatcmpl-",
    .splits_end = true,
    .splits_thoughts = true,
    .chunk = openai_chat_put_chunk,
    .end = openai_chat_put_end,
    .whole = openai_chat_put_whole,
};

static const struct dialect_member members[] = {
    {"logprobs", .schema = SCHEMA({"type" : "boolean"}), .says = "of each token"},
    {.name = NULL},
};

#define CHAT_ENDS "stop", "length", "tool_calls", "error"

static const struct dialect_about about = {
    .summary = "A conversation in, one message of the assistant out for each choice",
    .fields = FIELD_CHAT,
    .members = members,
    .needs = SCHEMA(["messages"]),
    .answer = OPENAI_ANSWER("chat.completion", CHAT_ENDS, "message", {
        "type" : "object",
        "required" : [ "role", "content" ],
        "properties" : {
            "role" : {"const" : "assistant"},
            "content" : {"type" : [ "string", "null" ]},
            "reasoning" : {"type" : "string"},
            "reasoning_content" : {"type" : "string"},
            "tool_calls" : {
                "type" : "array",
                "items" : {
                    "type" : "object",
                    "required" : [ "id", "type" ],
                    "properties" :
                        {"id" : {"type" : "string"},
                         "type" : {"enum" : [ "function", "custom" ]}}
                }
            }
        }
    }),
    .events = "`data: ` and a chat.completion.chunk each, at last `data: [DONE]`",
};

const struct dialect dialect_chat =
    DIALECT_ASK("chat", "/v1/chat/completions", openai_form, openai_parse_chat, .writer = &writer,
                .about = &about);
