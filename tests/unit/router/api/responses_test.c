/* Answers of OpenAI's Responses API: a stream's events, one by one, against the items that a whole reply has. */
#include "model/text/template/tool_format.h"
#include "router/api/dialect.h"
#include "router/api/thoughts.h"
#include "router/api/tool_reader.h"
#include "router/api/tools.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "router_api_responses";
const double suite_timeout_s = 60;

static struct tokenizer *tokenizer;
static struct ask ask;
static struct reply reply;
static struct buf out;

static void set_up(void) {
    struct error error;
    ck_assert_int_eq(tokenizer_open_hash(&tokenizer, &error), STATUS_OK);
    buf_init(&out, 0);
}

/* A request, and what its reply begins with. */
static void ask_for(const char *fields, enum thought_start start) {
    const struct ask_limits limits = {.model = "m",
                                      .n_tokens = 1000,
                                      .prompt_max = 4000,
                                      .tool_format = tool_format_nth(0),
                                      .thought_format = thought_format_nth(0)};
    struct api_error error = {0};
    char body[2048];
    int n = snprintf(body, sizeof body, "{\"input\":\"x\"%s}", fields);
    const struct span span = {body, (size_t)n};
    ask_init(&ask);
    ck_assert_msg(dialect_responses.parse(&span, &limits, &ask, &error) == STATUS_OK &&
                      thoughts_set(&ask, &limits, start, &error.error) == STATUS_OK &&
                      (!ask.calls || tools_compile(&ask, &error.error) == STATUS_OK),
                  "%s: %s", fields, error.error.text);
    ask_drop_body(&ask);
    reply = (struct reply){.ask = &ask,
                           .tokenizer = tokenizer,
                           .model = "m \"quoted\"",
                           .id = "resp_1",
                           .created = 1700000000,
                           .context = 4096,
                           .n_prompt_tokens = 7,
                           .n_completion_tokens = 3,
                           .n_cached_tokens = 4,
                           .state = calloc(1, dialect_responses.writer->state_size)};
}

static void end_reply(void) {
    dialect_responses.writer->drop(reply.state);
    free(reply.state);
    reply.state = NULL;
    ask_fini(&ask);
    buf_clear(&out);
}

static void tear_down(void) {
    buf_fini(&out);
    tokenizer_close(tokenizer);
}

static json_t *load(const char *text, size_t n) {
    json_error_t error;
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    ck_assert_msg(root != NULL, "%s: %.*s", error.text, (int)n, text);
    return root;
}

/* The answer in these pieces, streamed from its beginning to its end. */
static void stream(const char *const *pieces, enum finish finish) {
    const struct dialect_writer *writer = dialect_responses.writer;
    struct tool_reader *reader = NULL;
    if (tool_reader_is_for(&ask))
        ck_assert_int_eq(tool_reader_new(&ask, &reader), STATUS_OK);
    writer->begin(&reply, &out);
    reply.has_begun = true;
    for (bool ends = false; !ends; pieces++) {
        ends = !pieces[0];
        struct span text = ends ? SPAN("") : span_of(pieces[0]);
        struct reply_choice choice = {.reader = reader, .has_ended = ends, .finish = finish};
        if (reader)
            ck_assert_int_eq(tool_reader_push(reader, text, ends), STATUS_OK);
        else
            choice.text = text;
        writer->chunk(&reply, &choice, &out);
        if (reader)
            tool_reader_clear(reader);
    }
    writer->end(&reply, &out);
    tool_reader_free(reader);
}

static json_t *whole(const char *text, enum finish finish) {
    struct tool_reader *reader = NULL;
    struct reply_choice choice = {.has_ended = true, .finish = finish};
    struct buf whole;
    buf_init(&whole, 0);
    if (tool_reader_is_for(&ask)) {
        ck_assert_int_eq(tool_reader_new(&ask, &reader), STATUS_OK);
        ck_assert_int_eq(tool_reader_push(reader, span_of(text), true), STATUS_OK);
        choice.reader = reader;
    } else {
        choice.text = span_of(text);
    }
    dialect_responses.writer->whole(&reply, &choice, 1, &whole);
    json_t *root = load(whole.data, whole.n);
    tool_reader_free(reader);
    buf_fini(&whole);
    return root;
}

static const char *text_at(const json_t *event, const char *name) {
    const char *text = json_string_value(json_object_get(event, name));
    ck_assert_msg(text != NULL, "%s", name);
    return text;
}

/* All events, each under its name and number. */
static json_t *read_events(void) {
    json_t *events = json_array();
    const char *at = out.data;
    ck_assert_int_eq(buf_status(&out), STATUS_OK);
    while (*at) {
        char name[64];
        const char *line = strchr(at, '\n'), *end = strstr(at, "\n\n");
        ck_assert_msg(end && strncmp(at, "event: ", 7) == 0 && strncmp(line, "\ndata: ", 7) == 0,
                      "%s", at);
        json_t *event = load(line + 7, (size_t)(end - line - 7));
        snprintf(name, sizeof name, "%.*s", (int)(line - at - 7), at + 7);
        ck_assert_str_eq(text_at(event, "type"), name);
        ck_assert_uint_eq((size_t)json_integer_value(json_object_get(event, "sequence_number")),
                          json_array_size(events));
        json_array_append_new(events, event);
        at = end + 2;
    }
    return events;
}

/* What begins the name of an item of that type. */
static const char *id_front(const char *type) {
    return strcmp(type, "message") == 0         ? "msg_"
           : strcmp(type, "reasoning") == 0     ? "rs_"
           : strcmp(type, "function_call") == 0 ? "fc_"
                                                : "ctc_";
}

/* The items, as a client puts them together, checked at every event. */
static json_t *put_together(const json_t *events) {
    json_t *items = json_array(), *event;
    struct buf text;
    const char *id = NULL;
    size_t i;
    buf_init(&text, 0);
    json_array_foreach((json_t *)events, i, event) {
        const char *type = text_at(event, "type");
        const json_t *item = json_object_get(event, "item"), *part = json_object_get(event, "part");
        const char *texts[] = {"text", "arguments", "input"};
        if (json_object_get(event, "output_index"))
            ck_assert_uint_eq((size_t)json_integer_value(json_object_get(event, "output_index")),
                              json_array_size(items));
        if (json_object_get(event, "item_id")) {
            bool is_call = strncmp(id, "fc_", 3) == 0 || strncmp(id, "ctc_", 4) == 0;
            bool is_text = strstr(type, "output_text") != NULL;
            ck_assert_str_eq(text_at(event, "item_id"), id);
            ck_assert_int_eq(json_is_integer(json_object_get(event, "content_index")), !is_call);
            ck_assert_int_eq(json_integer_value(json_object_get(event, "content_index")), 0);
            ck_assert_int_eq(json_is_array(json_object_get(event, "logprobs")), is_text);
        }
        if (strcmp(type, "response.output_item.added") == 0) {
            const char *front = id_front(text_at(item, "type"));
            id = text_at(item, "id");
            ck_assert_msg(strncmp(id, front, strlen(front)) == 0, "%s", id);
            ck_assert_uint_eq(json_array_size(json_object_get(item, "content")), 0);
            buf_clear(&text);
        } else if (strcmp(type, "response.output_item.done") == 0) {
            ck_assert_str_eq(text_at(item, "id"), id);
            json_array_append(items, (json_t *)item);
        } else if (strstr(type, ".delta")) {
            buf_puts(&text, text_at(event, "delta"));
        } else if (strcmp(type, "response.content_part.added") == 0) {
            ck_assert_str_eq(text_at(part, "text"), "");
        } else if (strcmp(type, "response.content_part.done") == 0) {
            ck_assert_str_eq(text_at(part, "text"), text.n > 0 ? text.data : "");
        } else if (strstr(type, ".done")) {
            for (size_t k = 0; k < 3; k++)
                if (json_object_get(event, texts[k]))
                    ck_assert_str_eq(text_at(event, texts[k]), text.n > 0 ? text.data : "");
        }
    }
    buf_fini(&text);
    return items;
}

/* The names of the events of items, without `response.`, in one line. */
static void names(const json_t *events, char line[1024]) {
    size_t n = json_array_size(events), at = 0;
    line[0] = 0;
    for (size_t i = 2; i + 1 < n; i++)
        at += (size_t)snprintf(line + at, 1024 - at, "%s%s", i > 2 ? " " : "",
                               text_at(json_array_get(events, i), "type") + strlen("response."));
}

/* Streams the pieces, and expects these events of items, and those items of a whole reply. */
static void answers(const char *const *pieces, enum finish finish, const char *wanted_names,
                    const char *wanted) {
    char line[1024], text[256] = "";
    for (size_t i = 0; pieces[i]; i++)
        strcat(text, pieces[i]);
    stream(pieces, finish);
    json_t *events = read_events(), *one = whole(text, finish);
    names(events, line);
    ck_assert_str_eq(line, wanted_names);
    const char *status = finish == FINISH_LENGTH ? "incomplete" : "completed";
    const json_t *last = json_array_get(events, json_array_size(events) - 1);
    ck_assert_str_eq(text_at(json_array_get(events, 0), "type"), "response.created");
    ck_assert_str_eq(text_at(json_array_get(events, 1), "type"), "response.in_progress");
    ck_assert_str_eq(text_at(last, "type") + strlen("response."), status);
    const json_t *response = json_object_get(last, "response");
    json_t *items = put_together(events), *output = json_object_get(response, "output");
    ck_assert_msg(json_equal(items, output) && json_equal(response, one), "%s", out.data);
    ck_assert_str_eq(text_at(response, "status"), status);
    json_t *right = load(wanted, strlen(wanted)), *item;
    size_t i;
    json_array_foreach(output, i, item) {
        json_object_del(item, "id");
        json_object_del(item, "call_id");
    }
    ck_assert_msg(json_equal(output, right), "%s", out.data);
    json_decref(right);
    json_decref(items);
    json_decref(events);
    json_decref(one);
    end_reply();
}

#define PIECES(...)      ((const char *const[]){__VA_ARGS__, NULL})
#define BEGIN            "output_item.added content_part.added"
#define END(text)        text ".done content_part.done output_item.done"
#define SAYS             "output_text.delta"
#define THINKS           "reasoning_text.delta"
#define PART(kind, text) "{\"type\":\"" kind "\",\"text\":\"" text "\""
#define DONE(status)     "\"status\":\"" status "\","
#define SAID(status, text)                                                                         \
    "{\"type\":\"message\"," DONE(status) "\"role\":\"assistant\",\"content\":[" PART(             \
        "output_text", text) ",\"annotations\":[],\"logprobs\":[]}]}"
#define THOUGHT(status, text, sealed)                                                              \
    "{\"type\":\"reasoning\"," DONE(status) "\"summary\":[],\"encrypted_content\":" sealed         \
                                            ",\"content\":[" PART("reasoning_text", text) "}]}"
#define CALLED(status, name, arguments)                                                            \
    "{\"type\":\"function_call\"," DONE(status) "\"name\":\"" name "\",\"arguments\":\"" arguments \
                                                "\"}"
#define TOOLS                                                                                      \
    ",\"tools\":[{\"type\":\"function\",\"name\":\"get\"},{\"type\":\"custom\",\"name\":"          \
    "\"patch\"}]"
#define CALL(name, arguments)                                                                      \
    "<tool_call>\n{\"name\": \"" name "\", \"arguments\": " arguments "}\n</tool_call>"

START_TEST(a_text_is_a_message) {
    ask_for("", THOUGHT_NONE);
    answers(PIECES("He\"", "llo"), FINISH_STOP, BEGIN " " SAYS " " SAYS " " END("output_text"),
            "[" SAID("completed", "He\\\"llo") "]");
    ask_for("", THOUGHT_NONE);
    answers(PIECES("Hello"), FINISH_LENGTH, BEGIN " " SAYS " " END("output_text"),
            "[" SAID("incomplete", "Hello") "]");
    ask_for("", THOUGHT_NONE);
    answers(PIECES(""), FINISH_STOP, BEGIN " " END("output_text"), "[" SAID("completed", "") "]");
}
END_TEST

START_TEST(a_thought_is_an_item_of_its_own) {
    ask_for("", THOUGHT_OPEN);
    answers(PIECES("h", "m</think>\n\nYes"), FINISH_STOP,
            BEGIN " " THINKS " " THINKS " " END("reasoning_text") " " BEGIN " " SAYS
                                                                  " " END("output_text"),
            "[" THOUGHT("completed", "hm", "null") "," SAID("completed", "Yes") "]");
    ask_for(",\"include\":[\"reasoning.encrypted_content\"]", THOUGHT_OPEN);
    answers(PIECES("h\"m"), FINISH_LENGTH, BEGIN " " THINKS " " END("reasoning_text"),
            "[" THOUGHT("incomplete", "h\\\"m", "\"thought:h\\\"m\"") "]");
}
END_TEST

START_TEST(each_call_is_an_item) {
#define CALLS "output_item.added function_call_arguments.delta"
    ask_for(TOOLS, THOUGHT_NONE);
    answers(PIECES("See:", CALL("get", "{\"a\": 1}"), "\n" CALL("patch", "{\"input\": \"+a\\n\"}")),
            FINISH_STOP,
            BEGIN " " SAYS " " END("output_text") " " CALLS
                                                  " function_call_arguments.done output_item.done "
                                                  "output_item.added custom_tool_call_input.delta "
                                                  "custom_tool_call_input.done output_item.done",
            "[" SAID("completed", "See:") "," CALLED(
                "completed", "get",
                "{\\\"a\\\": 1}") ",{\"type\":\"custom_tool_call\",\"name\":\"patch\",\"input\":"
                                  "\"+a\\n\"}]");
    ask_for(TOOLS, THOUGHT_NONE);
    answers(PIECES("<tool_call>\n{\"name\": \"get\", \"arguments\": {\"a\": "), FINISH_LENGTH,
            CALLS " function_call_arguments.done output_item.done",
            "[" CALLED("incomplete", "get", "{\\\"a\\\": ") "]");
    ask_for(TOOLS, THOUGHT_NONE);
    answers(PIECES(CALL("get", "{}")), FINISH_LENGTH,
            CALLS " function_call_arguments.done output_item.done",
            "[" CALLED("completed", "get", "{}") "]");
}
END_TEST

START_TEST(items_and_calls_have_names_of_their_own) {
    ask_for(TOOLS, THOUGHT_NONE);
    json_t *root = whole("a" CALL("get", "{}") CALL("get", "{}"), FINISH_STOP);
    const json_t *output = json_object_get(root, "output");
    ck_assert_uint_eq(json_array_size(output), 3);
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < i; k++)
            ck_assert_str_ne(text_at(json_array_get(output, i), "id"),
                             text_at(json_array_get(output, k), "id"));
    ck_assert_str_ne(text_at(json_array_get(output, 1), "call_id"),
                     text_at(json_array_get(output, 2), "call_id"));
    json_decref(root);
    end_reply();
}
END_TEST

START_TEST(a_response_has_all_members) {
    ask_for(",\"temperature\":0.7,\"top_p\":0.25,\"max_output_tokens\":9", THOUGHT_NONE);
    reply.counts_thoughts = true;
    reply.n_thought_tokens = 2;
    json_t *root = whole("Hi", FINISH_LENGTH);
    json_object_del(root, "output");
    static const char wanted[] =
        "{\"id\":\"resp_1\",\"object\":\"response\",\"created_at\":1700000000,\"status\":"
        "\"incomplete\",\"background\":false,\"previous_response_id\":null,\"error\":null,"
        "\"incomplete_details\":{\"reason\":\"max_output_tokens\"},\"model\":\"m \\\"quoted\\\"\","
        "\"temperature\":0.7,\"top_p\":0.25,\"instructions\":null,\"max_output_tokens\":9,"
        "\"max_tool_calls\":null,\"prompt_cache_key\":null,\"safety_identifier\":null,\"user\":"
        "null,\"metadata\":{},\"parallel_tool_calls\":true,\"reasoning\":{\"effort\":null,"
        "\"summary\":null},\"tool_choice\":\"auto\",\"top_logprobs\":0,\"truncation\":\"disabled\","
        "\"text\":{\"format\":{\"type\":\"text\"}},\"tools\":[],\"usage\":{\"input_tokens\":7,"
        "\"input_tokens_details\":{\"cached_tokens\":4,\"cache_write_tokens\":0},"
        "\"output_tokens\":3,\"output_tokens_details\":{\"reasoning_tokens\":2},"
        "\"total_tokens\":10}}";
    json_t *right = load(wanted, sizeof wanted - 1);
    char *shown = json_dumps(root, 0);
    ck_assert_msg(json_equal(root, right), "%s", shown);
    free(shown);
    json_decref(right);
    json_decref(root);
    reply.misses_thoughts = true;
    root = whole("Hi", FINISH_STOP);
    const json_t *details =
        json_object_get(json_object_get(root, "usage"), "output_tokens_details");
    ck_assert_int_eq(json_integer_value(json_object_get(details, "reasoning_tokens")), 0);
    ck_assert(json_is_null(json_object_get(root, "incomplete_details")));
    json_decref(root);
    end_reply();
}
END_TEST

/* A letter a token. */
static struct reply_choice letters(const char *text, const uint32_t *ids,
                                   const struct token_logprobs *logprobs, size_t from, size_t n) {
    return (struct reply_choice){.text = {text + from, n},
                                 .n_tokens = (uint32_t)n,
                                 .tokens = ids + from,
                                 .logprobs = logprobs + from};
}

START_TEST(logprobs_are_of_the_text_that_they_stand_with) {
    static const uint32_t ids[] = {'a', 'b', 'c'};
    const struct token_logprobs logprobs[] = {{.logprob = -1}, {.logprob = -2}, {.logprob = -3}};
    ask_for(",\"include\":[\"message.output_text.logprobs\"]", THOUGHT_NONE);
    struct reply_choice choice = letters("abc", ids, logprobs, 0, 1);
    choice.text.n = 0; /* held back */
    dialect_responses.writer->chunk(&reply, &choice, &out);
    ck_assert_uint_eq(out.n, 0);
    choice = letters("abc", ids, logprobs, 1, 1);
    choice.text = SPAN("ab");
    dialect_responses.writer->chunk(&reply, &choice, &out);
    choice = letters("abc", ids, logprobs, 2, 1);
    choice.text.n = 0; /* no text comes with it */
    dialect_responses.writer->chunk(&reply, &choice, &out);
    choice = (struct reply_choice){.has_ended = true};
    dialect_responses.writer->chunk(&reply, &choice, &out);
    json_t *events = read_events();
    static const size_t n_wanted[] = {2, 1};
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i), *list = json_object_get(event, "logprobs");
        if (strstr(text_at(event, "type"), "output_text.delta"))
            ck_assert_uint_eq(json_array_size(list), n_wanted[n++]);
        if (strstr(text_at(event, "type"), "output_text.done")) {
            ck_assert_uint_eq(json_array_size(list), 3);
            ck_assert_str_eq(text_at(json_array_get(list, 2), "token"), "c");
        }
    }
    ck_assert_uint_eq(n, 2);
    json_decref(events);
    end_reply();
}
END_TEST

/* How many tokens of `hm</think>yes` a message has, all at once and one by one. */
START_TEST(tokens_of_a_thought_have_no_logprobs) {
    static const char text[] = "hm</think>yes";
    const size_t n_text = sizeof text - 1;
    uint32_t ids[sizeof text];
    static const struct token_logprobs logprobs[sizeof text];
    for (size_t i = 0; i < n_text; i++)
        ids[i] = (unsigned char)text[i];
    for (size_t step = 1; step <= n_text; step += n_text - 1) {
        struct tool_reader *reader;
        size_t n = 0;
        ask_for(",\"top_logprobs\":1", THOUGHT_OPEN);
        ck_assert_int_eq(tool_reader_new(&ask, &reader), STATUS_OK);
        for (size_t i = 0; i < n_text; i += step) {
            struct reply_choice choice = letters(text, ids, logprobs, i, step);
            ck_assert_int_eq(tool_reader_push(reader, choice.text, i + step == n_text), STATUS_OK);
            choice.text.n = 0;
            choice.reader = reader;
            dialect_responses.writer->chunk(&reply, &choice, &out);
            tool_reader_clear(reader);
        }
        json_t *events = read_events();
        for (size_t i = 0; i < json_array_size(events); i++) {
            const json_t *event = json_array_get(events, i);
            if (strstr(text_at(event, "type"), "output_text.delta"))
                n += json_array_size(json_object_get(event, "logprobs"));
        }
        ck_assert_uint_eq(n, 3);
        json_decref(events);
        tool_reader_free(reader);
        end_reply();
    }
}
END_TEST

/* A failure behind a first delta, and before anything was said. */
START_TEST(a_stream_that_fails_says_so_twice) {
    static const struct {
        enum status status;
        const char *code, *of_response;
    } cases[] = {{STATUS_CLOSED, "no_worker", "server_error"},
                 {STATUS_BUSY, "server_is_overloaded", "rate_limit_exceeded"},
                 {STATUS_INVALID, NULL, "invalid_prompt"}};
    for (size_t k = 0; k < 6; k++) {
        struct api_error error = {.status = cases[k / 2].status};
        struct reply_choice choice = {.text = SPAN("a")};
        error_set(&error.error, error.status, "it \"failed\"");
        if (k < 2)
            snprintf(error.error.field, sizeof error.error.field, "input");
        ask_for("", THOUGHT_NONE);
        reply.has_begun = k % 2;
        if (reply.has_begun) {
            dialect_responses.writer->begin(&reply, &out);
            dialect_responses.writer->chunk(&reply, &choice, &out);
        }
        dialect_responses.writer->failed(&reply, &error, &out);
        json_t *events = read_events();
        size_t n = json_array_size(events);
        const json_t *told = json_array_get(events, n - 2);
        const json_t *response = json_object_get(json_array_get(events, n - 1), "response");
        ck_assert_uint_eq(n, reply.has_begun ? 7 : 4);
        ck_assert_str_eq(text_at(json_array_get(events, 0), "type"), "response.created");
        ck_assert_str_eq(text_at(told, "type"), "error");
        ck_assert_str_eq(text_at(told, "message"), "it \"failed\"");
        ck_assert_str_eq(k < 2 ? text_at(told, "param") : "input", "input");
        ck_assert_int_eq(json_is_null(json_object_get(told, "param")), k >= 2);
        if (cases[k / 2].code)
            ck_assert_str_eq(text_at(told, "code"), cases[k / 2].code);
        else
            ck_assert(json_is_null(json_object_get(told, "code")));
        ck_assert_str_eq(text_at(json_array_get(events, n - 1), "type"), "response.failed");
        ck_assert_str_eq(text_at(response, "status"), "failed");
        ck_assert_str_eq(text_at(json_object_get(response, "error"), "code"),
                         cases[k / 2].of_response);
        ck_assert_str_eq(text_at(json_object_get(response, "error"), "message"), "it \"failed\"");
        ck_assert(json_is_null(json_object_get(response, "usage")));
        json_decref(events);
        end_reply();
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_text_is_a_message);
    tcase_add_test(tests, a_thought_is_an_item_of_its_own);
    tcase_add_test(tests, each_call_is_an_item);
    tcase_add_test(tests, items_and_calls_have_names_of_their_own);
    tcase_add_test(tests, a_response_has_all_members);
    tcase_add_test(tests, logprobs_are_of_the_text_that_they_stand_with);
    tcase_add_test(tests, tokens_of_a_thought_have_no_logprobs);
    tcase_add_test(tests, a_stream_that_fails_says_so_twice);
}
