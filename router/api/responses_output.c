#include "router/api/responses_output.h"

#include "base/http/sse.h"
#include "router/api/json_put.h"
#include "router/api/openai.h"
#include "router/api/responses_input.h"
#include "router/api/tool_reader.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* --- items ---------------------------------------------------------------------------------- */

static const struct {
    const char *id;   /* begins with it */
    const char *type; /* of the item */
    const char
        *text; /* names the events of its text that grows, and the type of a part that has it */
    const char *member; /* where a call has that text; NULL: a part has it */
} kinds[] = {
    [OUTPUT_MESSAGE] = {"msg_", "message", "output_text", NULL},
    [OUTPUT_THOUGHT] = {"rs_", "reasoning", "reasoning_text", NULL},
    [OUTPUT_FUNCTION] = {"fc_", "function_call", "function_call_arguments", "arguments"},
    [OUTPUT_CUSTOM] = {"ctc_", "custom_tool_call", "custom_tool_call_input", "input"},
};

void responses_output_fini(struct responses_output *output) {
    buf_fini(&output->items);
    buf_fini(&output->name);
    buf_fini(&output->text);
    buf_fini(&output->logprobs);
    buf_fini(&output->unsaid);
}

static void responses_output_append(struct buf *out, const struct buf *from) {
    out->failed |= from->failed;
    if (from->n > 0)
        buf_append(out, from->data, from->n);
}

/* Entries with a comma behind each as a list. */
static void responses_put_list(const struct buf *entries, struct buf *out) {
    buf_putc(out, '[');
    responses_output_append(out, entries);
    json_put_close(out, ']');
}

static void responses_put_id(const struct responses_writing *to, struct buf *out) {
    const char *id = to->reply->id;
    uint64_t hash = XXH3_64bits_withSeed(id, strlen(id), to->output->n_items);
    buf_printf(out, "%s%016llx%08x", kinds[to->output->kind].id, (unsigned long long)hash,
               to->output->n_items);
}

/* The part of the open item; `text`: what it has so far. */
static void responses_put_part(const struct responses_writing *to, const struct buf *text,
                               struct buf *out) {
    buf_printf(out, "{\"type\":\"%s\",\"text\":\"", kinds[to->output->kind].text);
    responses_output_append(out, text);
    buf_putc(out, '"');
    if (to->output->kind == OUTPUT_MESSAGE) {
        buf_puts(out, ",\"annotations\":[],\"logprobs\":");
        responses_put_list(&to->output->logprobs, out);
    }
    buf_putc(out, '}');
}

/* What only a call's item has. */
static void responses_put_call(const struct responses_writing *to, struct buf *out) {
    const struct responses_output *output = to->output;
    const char *id = to->reply->id;
    uint64_t hash = XXH3_64bits_withSeed(id, strlen(id), output->call);
    buf_printf(out, ",\"call_id\":\"call_%016llx%08x\",\"name\":\"", (unsigned long long)hash,
               output->call);
    responses_output_append(out, &output->name);
    buf_printf(out, "\",\"%s\":\"", kinds[output->kind].member);
    responses_output_append(out, &output->text);
    buf_putc(out, '"');
}

/* What only a thought's item has; `has_ended`: it is whole. */
static void responses_put_thought(const struct responses_writing *to, bool has_ended,
                                  struct buf *out) {
    buf_puts(out, ",\"summary\":[],\"encrypted_content\":");
    if (!has_ended || !to->reply->ask->seals_thoughts) {
        buf_puts(out, "null");
        return;
    }
    buf_puts(out, "\"" RESPONSES_THOUGHT_MARK);
    responses_output_append(out, &to->output->text);
    buf_putc(out, '"');
}

/* The open item; `status`: "in_progress" as it begins, "completed", or "incomplete". */
static void responses_put_item(const struct responses_writing *to, const char *status,
                               struct buf *out) {
    const struct responses_output *output = to->output;
    bool has_ended = strcmp(status, "in_progress") != 0;
    buf_puts(out, "{\"id\":\"");
    responses_put_id(to, out);
    buf_printf(out, "\",\"type\":\"%s\"", kinds[output->kind].type);
    if (output->kind != OUTPUT_CUSTOM)
        buf_printf(out, ",\"status\":\"%s\"", status);
    if (kinds[output->kind].member) {
        responses_put_call(to, out);
    } else {
        if (output->kind == OUTPUT_THOUGHT)
            responses_put_thought(to, has_ended, out);
        else
            buf_puts(out, ",\"role\":\"assistant\"");
        buf_puts(out, ",\"content\":[");
        if (has_ended)
            responses_put_part(to, &output->text, out);
        buf_putc(out, ']');
    }
    buf_putc(out, '}');
}

/* --- events of items ------------------------------------------------------------------------ */

void responses_begin_event(const struct responses_writing *to, const char *name) {
    sse_begin_named(name, to->events);
    buf_printf(to->events, "{\"type\":\"%s\",\"sequence_number\":%u", name, to->output->n_events++);
}

void responses_end_event(const struct responses_writing *to) {
    buf_putc(to->events, '}');
    sse_end(to->events);
}

/* An event of the open item as a whole. */
static void responses_put_item_event(const struct responses_writing *to, const char *name,
                                     const char *status) {
    responses_begin_event(to, name);
    buf_printf(to->events, ",\"output_index\":%u,\"item\":", to->output->n_items);
    responses_put_item(to, status, to->events);
    responses_end_event(to);
}

/* An event of what is in it: `response.` NAME `.` VERB. */
static void responses_begin_inner_event(const struct responses_writing *to, const char *name,
                                        const char *verb) {
    char whole[64];
    snprintf(whole, sizeof whole, "response.%s.%s", name, verb);
    responses_begin_event(to, whole);
    buf_puts(to->events, ",\"item_id\":\"");
    responses_put_id(to, to->events);
    buf_printf(to->events, "\",\"output_index\":%u", to->output->n_items);
    if (!kinds[to->output->kind].member)
        buf_puts(to->events, ",\"content_index\":0");
}

static void responses_put_part_event(const struct responses_writing *to, const char *verb,
                                     const struct buf *text) {
    responses_begin_inner_event(to, "content_part", verb);
    buf_puts(to->events, ",\"part\":");
    responses_put_part(to, text, to->events);
    responses_end_event(to);
}

static void responses_put_delta(const struct responses_writing *to, struct span text) {
    responses_begin_inner_event(to, kinds[to->output->kind].text, "delta");
    buf_puts(to->events, ",\"delta\":");
    json_put_string(to->events, text.bytes, text.n);
    if (to->output->kind == OUTPUT_MESSAGE) {
        buf_puts(to->events, ",\"logprobs\":");
        responses_put_list(&to->output->unsaid, to->events);
    }
    responses_end_event(to);
}

static void responses_put_done(const struct responses_writing *to) {
    const char *member = kinds[to->output->kind].member;
    responses_begin_inner_event(to, kinds[to->output->kind].text, "done");
    buf_printf(to->events, ",\"%s\":\"", member ? member : "text");
    responses_output_append(to->events, &to->output->text);
    buf_putc(to->events, '"');
    if (to->output->kind == OUTPUT_MESSAGE) {
        buf_puts(to->events, ",\"logprobs\":");
        responses_put_list(&to->output->logprobs, to->events);
    }
    responses_end_event(to);
    if (!member)
        responses_put_part_event(to, "done", &to->output->text);
}

/* --- an item's life -------------------------------------------------------------------------- */

/* More of the open item's text, and the log-probabilities of its tokens. */
static void responses_output_say(const struct responses_writing *to, struct span text) {
    struct responses_output *output = to->output;
    json_put_text(&output->text, text.bytes, text.n);
    if (to->events)
        responses_put_delta(to, text);
    if (output->kind != OUTPUT_MESSAGE)
        return;
    responses_output_append(&output->logprobs, &output->unsaid);
    buf_clear(&output->unsaid);
}

static void responses_end_item(const struct responses_writing *to, const char *status) {
    struct responses_output *output = to->output;
    if (output->kind == OUTPUT_NONE)
        return;
    if (output->kind == OUTPUT_MESSAGE && output->unsaid.n > 0)
        responses_output_say(to, SPAN(""));
    if (to->events) {
        responses_put_done(to);
        responses_put_item_event(to, "response.output_item.done", status);
    }
    responses_put_item(to, status, &output->items);
    buf_putc(&output->items, ',');
    output->n_items++;
    output->kind = OUTPUT_NONE;
    buf_clear(&output->name);
    buf_clear(&output->text);
    buf_clear(&output->logprobs);
}

static void responses_begin_item(const struct responses_writing *to, enum output_kind kind) {
    static const struct buf nothing;
    responses_end_item(to, "completed");
    to->output->kind = kind;
    if (!to->events)
        return;
    responses_put_item_event(to, "response.output_item.added", "in_progress");
    if (!kinds[kind].member)
        responses_put_part_event(to, "added", &nothing);
}

static void responses_say_as(const struct responses_writing *to, enum output_kind kind,
                             struct span text) {
    if (text.n == 0)
        return;
    if (to->output->kind != kind)
        responses_begin_item(to, kind);
    responses_output_say(to, text);
}

static void responses_begin_call(const struct responses_writing *to, const struct tool_piece *piece,
                                 struct span name) {
    responses_end_item(to, "completed");
    to->output->call = piece->call;
    json_put_text(&to->output->name, name.bytes, name.n);
    responses_begin_item(to, piece->is_custom ? OUTPUT_CUSTOM : OUTPUT_FUNCTION);
}

/* The tokens of what is said behind a thought. Which of them are text and which a call is not known where tools may be called. */
static void responses_note_logprobs(const struct responses_writing *to,
                                    const struct reply_choice *choice) {
    const struct ask *ask = to->reply->ask;
    struct buf *out = &to->output->unsaid;
    uint64_t n_thought = 0;
    enum tool_reader_thought thought =
        choice->reader ? tool_reader_thought(choice->reader, &n_thought) : TOOL_READER_NO_THOUGHT;
    if (!ask->sampling.want_logprobs || !choice->logprobs || ask->calls)
        return;
    for (uint32_t i = 0; i < choice->n_tokens; i++) {
        bool is_thought = thought == TOOL_READER_IN_THOUGHT ||
                          (thought == TOOL_READER_BEHIND_IT && to->output->n_read < n_thought);
        to->output->n_read += reply_token_bytes(to->reply, choice->tokens[i]).n;
        if (is_thought)
            continue;
        openai_put_logprob(to->reply, choice->tokens[i], &choice->logprobs[i], out);
        buf_putc(out, ',');
    }
}

static void responses_put_pieces(const struct responses_writing *to,
                                 const struct reply_choice *choice) {
    uint32_t n = 0;
    const struct tool_piece *pieces =
        choice->reader ? tool_reader_pieces(choice->reader, &n) : NULL;
    responses_note_logprobs(to, choice);
    responses_say_as(to, OUTPUT_MESSAGE, choice->text);
    for (uint32_t i = 0; i < n; i++) {
        struct span text = tool_reader_text(choice->reader, &pieces[i]);
        if (pieces[i].kind == TOOL_PIECE_CONTENT)
            responses_say_as(to, OUTPUT_MESSAGE, text);
        else if (pieces[i].kind == TOOL_PIECE_REASONING)
            responses_say_as(to, OUTPUT_THOUGHT, text);
        else if (pieces[i].kind == TOOL_PIECE_NAME)
            responses_begin_call(to, &pieces[i], text);
        else if (text.n > 0)
            responses_output_say(to, text);
    }
    if (to->output->kind == OUTPUT_MESSAGE && to->output->unsaid.n > 0)
        responses_output_say(to, SPAN(""));
}

/* An answer that says nothing is an empty message. */
static void responses_end_items(const struct responses_writing *to,
                                const struct reply_choice *choice) {
    struct responses_output *output = to->output;
    output->is_cut = choice->finish == FINISH_LENGTH;
    if (output->n_items == 0 && output->kind == OUTPUT_NONE)
        responses_begin_item(to, OUTPUT_MESSAGE);
    bool is_call = output->kind == OUTPUT_FUNCTION || output->kind == OUTPUT_CUSTOM;
    bool is_whole = is_call && !tool_reader_is_open(choice->reader);
    responses_end_item(to, output->is_cut && !is_whole ? "incomplete" : "completed");
}

void responses_output_read(const struct responses_writing *to, const struct reply_choice *choice) {
    responses_put_pieces(to, choice);
    if (choice->has_ended)
        responses_end_items(to, choice);
}

void responses_output_put(const struct responses_output *output, struct buf *out) {
    responses_put_list(&output->items, out);
}
