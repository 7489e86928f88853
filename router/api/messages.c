/* Anthropic's Messages API: a chat in other words (messages_read.h), and its answer as blocks of what was thought, of text and of calls. */
#include "base/http/sse.h"
#include "router/api/fields.h"
#include "router/api/json_put.h"
#include "router/api/messages_about.h"
#include "router/api/messages_read.h"
#include "router/api/openai.h"
#include "router/api/tool_reader.h"

#include <string.h>
#include <xxhash.h>

static enum status anthropic_parse_as_chat(const struct span *body, bool counts,
                                           const struct ask_limits *limits, struct ask *ask,
                                           struct api_error *error) {
    struct buf chat;
    TRY(ask_read_json(body, ask, error));
    buf_init(&chat, 0);
    enum status status = messages_read(ask->body, counts, &chat, &error->error);
    ask_drop_body(ask);
    if (status == STATUS_OK) {
        const struct span text = {chat.data, chat.n};
        ask->only_tokens = counts;
        status = dialect_chat.parse(&text, limits, ask, error);
    }
    buf_fini(&chat);
    return status;
}

static enum status anthropic_parse_messages(const struct span *body,
                                            const struct ask_limits *limits, struct ask *ask,
                                            struct api_error *error) {
    return anthropic_parse_as_chat(body, false, limits, ask, error);
}

static enum status anthropic_parse_count(const struct span *body, const struct ask_limits *limits,
                                         struct ask *ask, struct api_error *error) {
    return anthropic_parse_as_chat(body, true, limits, ask, error);
}

static void anthropic_put_count(const struct reply *reply, struct buf *out) {
    buf_puts(out, "{\"input_tokens\":");
    json_put_int(out, (int64_t)reply->ask->prompts[0].ids.n);
    buf_putc(out, '}');
}

/* --- how it ended, and what it cost --------------------------------------------------------- */

static const char *anthropic_stop_reason(const struct reply *reply,
                                         const struct reply_choice *choice) {
    uint64_t n = (uint64_t)reply->n_prompt_tokens + reply->n_completion_tokens;
    if (choice->finish == FINISH_LENGTH)
        return n >= reply->context ? "model_context_window_exceeded" : "max_tokens";
    if (choice->stop_string.n > 0)
        return "stop_sequence";
    return choice->reader && tool_reader_n_calls(choice->reader) > 0 ? "tool_use" : "end_turn";
}

/* "stop_reason":...,"stop_sequence":... */
static void anthropic_put_stop(const struct reply *reply, const struct reply_choice *choice,
                               struct buf *out) {
    buf_puts(out, "\"stop_reason\":");
    json_put_string_or_null(out, choice ? anthropic_stop_reason(reply, choice) : NULL);
    buf_puts(out, ",\"stop_sequence\":");
    if (choice && choice->stop_string.n > 0)
        json_put_string(out, choice->stop_string.bytes, choice->stop_string.n);
    else
        buf_puts(out, "null");
}

/* Tokens of the prompt that were in the cache are counted apart. */
static void anthropic_put_usage(const struct reply *reply, struct buf *out) {
    buf_puts(out, "\"usage\":{");
    json_put_number(out, "input_tokens", reply->n_prompt_tokens - reply->n_cached_tokens);
    json_put_number(out, "cache_creation_input_tokens", 0);
    json_put_number(out, "cache_read_input_tokens", reply->n_cached_tokens);
    json_put_number(out, "output_tokens", reply->n_completion_tokens);
    json_put_close(out, '}');
}

/* `"id":...,"type":"message","role":"assistant","model":...,"content":[` */
static void anthropic_put_head(const struct reply *reply, struct buf *out) {
    json_put_member(out, "id", reply->id);
    buf_puts(out, "\"type\":\"message\",\"role\":\"assistant\",\"model\":");
    json_put_string(out, reply->model, strlen(reply->model));
    buf_puts(out, ",\"content\":[");
}

static void anthropic_put_call_id(const struct reply *reply, uint32_t call, struct buf *out) {
    uint64_t hash = XXH3_64bits_withSeed(reply->id, strlen(reply->id), call);
    buf_printf(out, "\"id\":\"toolu_%016llx%08x\"", (unsigned long long)hash, call);
}

/* --- a whole message ------------------------------------------------------------------------ */

/* Each call, its arguments as the object that they are; cut ones are none. */
static void anthropic_put_calls(const struct reply *reply, const struct reply_choice *choice,
                                bool any, struct buf *out) {
    uint32_t n, n_calls = tool_reader_n_calls(choice->reader);
    const struct tool_piece *pieces = tool_reader_pieces(choice->reader, &n);
    for (uint32_t i = 0; i < n; i++) {
        struct span text = tool_reader_text(choice->reader, &pieces[i]);
        if (pieces[i].kind != TOOL_PIECE_NAME)
            continue;
        bool is_cut = pieces[i].call + 1 == n_calls && tool_reader_is_open(choice->reader);
        buf_puts(out, any ? ",{\"type\":\"tool_use\"," : "{\"type\":\"tool_use\",");
        anthropic_put_call_id(reply, pieces[i].call, out);
        buf_puts(out, ",\"name\":");
        json_put_string(out, text.bytes, text.n);
        buf_puts(out, ",\"input\":");
        if (is_cut)
            buf_puts(out, "{}");
        for (; !is_cut && i + 1 < n && pieces[i + 1].kind == TOOL_PIECE_ARGUMENTS; i++) {
            struct span part = tool_reader_text(choice->reader, &pieces[i + 1]);
            buf_append(out, part.bytes, part.n);
        }
        buf_putc(out, '}');
        any = true;
    }
}

static bool anthropic_has_pieces(const struct reply_choice *choice, enum tool_piece_kind kind) {
    uint32_t n = 0;
    const struct tool_piece *pieces =
        choice->reader ? tool_reader_pieces(choice->reader, &n) : NULL;
    for (uint32_t i = 0; i < n; i++)
        if (pieces[i].kind == kind)
            return true;
    return false;
}

/* Blocks whose text grows. */
struct text_block {
    const char *name;   /* its type, and the member that has the text */
    const char *delta;  /* the type of what comes behind its first event */
    const char *behind; /* members behind the text */
};
static const struct text_block content = {"text", "text_delta", ""};
static const struct text_block thinking = {"thinking", "thinking_delta", ",\"signature\":\"\""};

/* The block with the text that has been appended between the two. */
static void anthropic_begin_text(const struct text_block *block, struct buf *out) {
    buf_printf(out, "{\"type\":\"%s\",\"%s\":\"", block->name, block->name);
}

static void anthropic_end_text(const struct text_block *block, struct buf *out) {
    buf_printf(out, "\"%s}", block->behind);
}

/* One block of the pieces of that kind; false: there is none. */
static bool anthropic_put_texts(const struct reply_choice *choice, enum tool_piece_kind kind,
                                const struct text_block *block, struct buf *out) {
    uint32_t n;
    if (!anthropic_has_pieces(choice, kind))
        return false;
    const struct tool_piece *pieces = tool_reader_pieces(choice->reader, &n);
    anthropic_begin_text(block, out);
    for (uint32_t i = 0; i < n; i++) {
        struct span text = tool_reader_text(choice->reader, &pieces[i]);
        if (pieces[i].kind == kind)
            json_put_text(out, text.bytes, text.n);
    }
    anthropic_end_text(block, out);
    return true;
}

static void anthropic_put_whole(const struct reply *reply, const struct reply_choice *choices,
                                uint32_t n, struct buf *out) {
    const struct reply_choice *choice = &choices[0];
    (void)n; /* one */
    buf_putc(out, '{');
    anthropic_put_head(reply, out);
    bool any = anthropic_put_texts(choice, TOOL_PIECE_REASONING, &thinking, out);
    if (any && anthropic_has_pieces(choice, TOOL_PIECE_CONTENT))
        buf_putc(out, ',');
    any |= anthropic_put_texts(choice, TOOL_PIECE_CONTENT, &content, out);
    if (!any && (!choice->reader || tool_reader_n_calls(choice->reader) == 0)) {
        anthropic_begin_text(&content, out);
        json_put_text(out, choice->text.bytes, choice->text.n);
        anthropic_end_text(&content, out);
    }
    if (choice->reader)
        anthropic_put_calls(reply, choice, any, out);
    buf_puts(out, "],");
    anthropic_put_stop(reply, choice, out);
    buf_putc(out, ',');
    anthropic_put_usage(reply, out);
    buf_putc(out, '}');
}

/* --- a stream ------------------------------------------------------------------------------- */

struct state {
    uint32_t n_blocks;             /* begun */
    bool is_open;                  /* the last of them, */
    const struct text_block *text; /* and its kind where it has a text that grows, else NULL */
};

static void anthropic_put_begin(const struct reply *reply, struct buf *out) {
    sse_begin_named("message_start", out);
    buf_puts(out, "{\"type\":\"message_start\",\"message\":{");
    anthropic_put_head(reply, out);
    buf_puts(out, "],");
    anthropic_put_stop(reply, NULL, out);
    buf_putc(out, ',');
    anthropic_put_usage(reply, out);
    buf_puts(out, "}}");
    sse_end(out);
}

static void anthropic_close_block(struct state *state, struct buf *out) {
    if (!state->is_open)
        return;
    state->is_open = false;
    state->text = NULL;
    sse_begin_named("content_block_stop", out);
    buf_printf(out, "{\"type\":\"content_block_stop\",\"index\":%u}", state->n_blocks - 1);
    sse_end(out);
}

static void anthropic_begin_block(struct state *state, struct buf *out) {
    anthropic_close_block(state, out);
    sse_begin_named("content_block_start", out);
    buf_printf(out, "{\"type\":\"content_block_start\",\"index\":%u,\"content_block\":",
               state->n_blocks++);
    state->is_open = true;
}

static void anthropic_put_delta(const struct state *state, const char *type, const char *member,
                                struct span text, struct buf *out) {
    sse_begin_named("content_block_delta", out);
    buf_printf(out,
               "{\"type\":\"content_block_delta\",\"index\":%u,\"delta\":{\"type\":\"%s\",\"%s\":",
               state->n_blocks - 1, type, member);
    json_put_string(out, text.bytes, text.n);
    buf_puts(out, "}}");
    sse_end(out);
}

static void anthropic_put_text(struct state *state, const struct text_block *block,
                               struct span text, struct buf *out) {
    if (text.n == 0)
        return;
    if (state->text != block) {
        anthropic_begin_block(state, out);
        anthropic_begin_text(block, out);
        anthropic_end_text(block, out);
        buf_putc(out, '}');
        sse_end(out);
        state->text = block;
    }
    anthropic_put_delta(state, block->delta, block->name, text, out);
}

static void anthropic_put_piece(const struct reply *reply, const struct tool_piece *piece,
                                struct span text, struct buf *out) {
    struct state *state = reply->state;
    if (piece->kind == TOOL_PIECE_CONTENT) {
        anthropic_put_text(state, &content, text, out);
    } else if (piece->kind == TOOL_PIECE_REASONING) {
        anthropic_put_text(state, &thinking, text, out);
    } else if (piece->kind == TOOL_PIECE_NAME) {
        anthropic_begin_block(state, out);
        buf_puts(out, "{\"type\":\"tool_use\",");
        anthropic_put_call_id(reply, piece->call, out);
        buf_puts(out, ",\"name\":");
        json_put_string(out, text.bytes, text.n);
        buf_puts(out, ",\"input\":{}}}");
        sse_end(out);
    } else {
        anthropic_put_delta(state, "input_json_delta", "partial_json", text, out);
    }
}

static void anthropic_put_chunk(const struct reply *reply, const struct reply_choice *choice,
                                struct buf *out) {
    struct state *state = reply->state;
    uint32_t n = 0;
    const struct tool_piece *pieces =
        choice->reader ? tool_reader_pieces(choice->reader, &n) : NULL;
    anthropic_put_text(state, &content, choice->text, out);
    for (uint32_t i = 0; i < n; i++)
        anthropic_put_piece(reply, &pieces[i], tool_reader_text(choice->reader, &pieces[i]), out);
    if (!choice->has_ended)
        return;
    anthropic_close_block(state, out);
    sse_begin_named("message_delta", out);
    buf_puts(out, "{\"type\":\"message_delta\",\"delta\":{");
    anthropic_put_stop(reply, choice, out);
    buf_puts(out, "},");
    anthropic_put_usage(reply, out);
    buf_putc(out, '}');
    sse_end(out);
}

static void anthropic_put_end(const struct reply *reply, struct buf *out) {
    (void)reply;
    sse_begin_named("message_stop", out);
    buf_puts(out, "{\"type\":\"message_stop\"}");
    sse_end(out);
}

/* --- errors, in this API's form ------------------------------------------------------------- */

static void anthropic_put_error(const struct api_error *error, struct buf *out) {
    static const struct {
        int http;
        const char *type;
    } types[] = {{401, "authentication_error"}, {403, "permission_error"},
                 {404, "not_found_error"},      {413, "request_too_large"},
                 {429, "rate_limit_error"},     {503, "overloaded_error"},
                 {504, "timeout_error"}};
    int http = errors_http(error);
    const char *type = http >= 500 ? "api_error" : "invalid_request_error";
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        type = types[i].http == http ? types[i].type : type;
    buf_puts(out, "{\"type\":\"error\",\"error\":{");
    json_put_member(out, "type", type);
    json_put_member(out, "message", error->error.text);
    json_put_close(out, '}');
    buf_putc(out, '}');
}

static void anthropic_refuse(const struct api_error *error, struct dialect_refusal *refusal) {
    refusal->http = (unsigned)errors_http(error);
    anthropic_put_error(error, refusal->body);
}

static void anthropic_put_error_event(const struct api_error *error, struct buf *out) {
    sse_begin_named("error", out);
    anthropic_put_error(error, out);
    sse_end(out);
}

static void anthropic_put_ping(struct buf *out) {
    sse_begin_named("ping", out);
    buf_puts(out, "{\"type\":\"ping\"}");
    sse_end(out);
}

static bool anthropic_takes(const char *content_type, bool is_strict) {
    return openai_form.takes(content_type, is_strict);
}

static const struct dialect_form form = {
    .content_type = "application/json",
    .stream_type = SSE_CONTENT_TYPE,
    .stream_headers = openai_stream_headers,
    .n_stream_headers = OPENAI_STREAM_HEADERS,
    .error_name = "MessagesError",
    .error = messages_error,
    .takes = anthropic_takes,
    .refuse = anthropic_refuse,
    .error_event = anthropic_put_error_event,
    .ping = anthropic_put_ping,
};

static const struct dialect_writer writer = {
    .id_prefix = "msg_",
    .splits_end = true,
    .splits_thoughts = true,
    .state_size = sizeof(struct state),
    .begin = anthropic_put_begin,
    .chunk = anthropic_put_chunk,
    .end = anthropic_put_end,
    .whole = anthropic_put_whole,
};

const struct dialect dialect_messages =
    DIALECT_ASK("messages", "/v1/messages", form, anthropic_parse_messages, .writer = &writer,
                .about = &messages_about);
const struct dialect dialect_count_tokens =
    DIALECT_ASK("count_tokens", "/v1/messages/count_tokens", form, anthropic_parse_count,
                .reply = anthropic_put_count, .about = &messages_about_count);
