/* Which trace a call belongs to, and what its span says. */
#include "base/clock.h"
#include "base/http/exchange.h"
#include "base/net/loop.h"
#include "model/text/template/tool_format.h"
#include "router/api/tool_reader.h"
#include "router/api/tools.h"
#include "router/call/call.h"
#include "router/call/quota.h"
#include "router/call/serving.h"
#include "router/trace/traceparent.h"
#include "router/trace/tracer.h"
#include "tests/support/suite.h"

#include <string.h>

const char *const suite_name = "router_call_trace";
const double suite_timeout_s = 60;

#define TRACE  "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"

static const struct dialect_writer writer = {.id_prefix = "cmpl-"};
static const struct dialect dialect = {.name = "completions", .writer = &writer};
static struct loop *loop;
static struct serving serving;

/* ratio below 0: traces go nowhere. */
static void open_serving(double ratio) {
    const struct tracer_config config = {.url = "http://127.0.0.1:9",
                                         .header = "",
                                         .ratio = ratio,
                                         .resource = {"tandem-router", "1", "r", "h"}};
    struct error error;
    serving = (struct serving){.model = "m", .random.state = 5};
    ck_assert_int_eq(loop_new(&loop), STATUS_OK);
    if (ratio >= 0)
        ck_assert_int_eq(tracer_new(loop, &config, &serving.tracer, &error), STATUS_OK);
}

static void close_serving(void) {
    tracer_free(serving.tracer);
    loop_free(loop);
}

static struct call begun(const char *parent, const char *state) {
    struct header headers[] = {{"traceparent", parent}, {"tracestate", state}};
    const struct exchange exchange = {.headers = headers + (parent ? 0 : 1),
                                      .n_headers = (parent ? 1 : 0) + (state ? 1 : 0)};
    struct call call = {.serving = &serving, .dialect = &dialect};
    call_trace_begin(&call, &exchange);
    return call;
}

START_TEST(without_a_collector_a_trace_is_passed_on_as_it_came) {
    open_serving(-1);
    struct call call = begun("00-" TRACE "-" PARENT "-01", "a=b");
    ck_assert(call.trace.is_known && !call.trace.is_recorded && !call.trace.state);
    ck_assert_uint_eq(call.trace.trace.span_id[0], 0xb7);
    ck_assert_uint_eq(call.trace.trace.flags, 1);
    ck_assert_str_eq(call.traceparent, "00-" TRACE "-" PARENT "-01");
    call = begun("00-" TRACE "-" PARENT "-0", NULL);
    ck_assert(!call.trace.is_known && !call.trace.is_recorded);
    ck_assert_str_eq(call.traceparent, "");
    close_serving();
}
END_TEST

START_TEST(a_flag_decides_for_a_trace_that_comes_in) {
    for (int ratio = 0; ratio < 2; ratio++) {
        open_serving(ratio);
        struct call call = begun("00-" TRACE "-" PARENT "-fd", "a=b");
        ck_assert(call.trace.is_known && call.trace.is_recorded && call.trace.has_parent);
        ck_assert_uint_eq(call.trace.trace.trace_id[0], 0x0a);
        ck_assert_uint_eq(call.trace.parent_id[0], 0xb7);
        ck_assert(memcmp(call.trace.parent_id, call.trace.trace.span_id, 8) != 0);
        ck_assert_uint_eq(call.trace.trace.flags, 1); /* the only one that we know */
        ck_assert_str_eq(call.trace.state, "a=b");
        call_trace_fini(&call.trace);
        call = begun("00-" TRACE "-" PARENT "-fe", "a=b");
        ck_assert(call.trace.is_known && !call.trace.is_recorded && !call.trace.state);
        ck_assert_uint_eq(call.trace.trace.flags, 0);
        close_serving();
    }
}
END_TEST

START_TEST(the_share_decides_for_a_trace_that_begins_here) {
    for (int ratio = 0; ratio < 2; ratio++) {
        open_serving(ratio);
        struct call call = begun(NULL, "a=b"), other = begun("00-x", "a=b");
        ck_assert(call.trace.is_known && other.trace.is_known);
        ck_assert(call.trace.is_recorded == (ratio == 1));
        ck_assert_uint_eq(call.trace.trace.flags, ratio);
        ck_assert(!call.trace.has_parent && !call.trace.state && !other.trace.state);
        ck_assert(memcmp(&call.trace.trace, &other.trace.trace, 16) != 0);
        close_serving();
    }
}
END_TEST

/* --- the span ------------------------------------------------------------------------------- */

static const struct trace_attribute *attribute(const struct call_span *made, const char *key) {
    for (uint32_t i = 0; i < made->span.n_attributes; i++)
        if (strcmp(made->span.attributes[i].key, key) == 0)
            return &made->span.attributes[i];
    return NULL;
}

static void expect_text(const struct call_span *made, const char *key, const char *text) {
    const struct trace_attribute *found = attribute(made, key);
    if (!text) {
        ck_assert_msg(!found, "%s", key);
        return;
    }
    ck_assert_msg(found != NULL, "%s", key);
    ck_assert_str_eq(found->text, text);
}

static void expect_number(const struct call_span *made, const char *key, int64_t number) {
    const struct trace_attribute *found = attribute(made, key);
    ck_assert_msg(found != NULL, "%s", key);
    ck_assert_int_eq(found->number, number);
}

/* A call of 1 ms to 100 ms, of two choices, that went well. */
static struct call ended(struct sequence sequences[2]) {
    struct call call = {.serving = &serving,
                        .dialect = &dialect,
                        .left = STAGE_FINISH,
                        .made = MADE_REPLY,
                        .sequences = sequences,
                        .n_sequences = 2,
                        .n_replays = 3,
                        .received_ns = 1 * NS_PER_MS,
                        .admitted_ns = 5 * NS_PER_MS,
                        .first_token_ns = 50 * NS_PER_MS,
                        .since_ns = 100 * NS_PER_MS,
                        .request_id = "req-1"};
    const uint64_t ms[STAGE_COUNT] = {1, 2, 9, 10, 20, 60, 7};
    for (unsigned i = 0; i < STAGE_COUNT; i++)
        call.stage_ns[i] = ms[i] * NS_PER_MS;
    call.ask.n_choices = 2;
    call.ask.has_max_new = true;
    call.ask.sampling.max_new = 7;
    call.reply.n_prompt_tokens = 11;
    call.reply.n_completion_tokens = 14;
    call.reply.n_cached_tokens = 5;
    memcpy(call.reply.id, "cmpl-1", sizeof "cmpl-1");
    memset(sequences, 0, 2 * sizeof *sequences);
    sequences[0].end = (struct request_end){.finish = FINISH_LENGTH,
                                            .attempt = {{0xa, 0xb}, 2},
                                            .prefill_worker = "p0",
                                            .decode_worker = "d0"};
    sequences[1].end.finish = FINISH_STOP;
    return call;
}

START_TEST(a_span_says_what_was_asked_and_answered) {
    struct sequence sequences[2];
    struct call_span made;
    struct quota quota = {.name = "team-a"};
    open_serving(1);
    struct call call = ended(sequences);
    call.quota = &quota;
    call_trace_make(&call, 200, &made);
    ck_assert_str_eq(made.span.name, "text_completion m");
    expect_text(&made, "gen_ai.operation.name", "text_completion");
    expect_text(&made, "gen_ai.response.id", "cmpl-1");
    expect_number(&made, "gen_ai.request.max_tokens", 7);
    expect_number(&made, "gen_ai.request.choice.count", 2);
    expect_number(&made, "gen_ai.usage.input_tokens", 11);
    expect_number(&made, "gen_ai.usage.output_tokens", 14);
    expect_number(&made, "gen_ai.usage.cache_read.input_tokens", 5);
    expect_number(&made, "http.response.status_code", 200);
    expect_text(&made, "tandem.key", "team-a");
    expect_text(&made, "tandem.request", "a.b.2");
    expect_text(&made, "tandem.request_id", "req-1");
    expect_text(&made, "tandem.prefill_worker", "p0");
    expect_text(&made, "tandem.decode_worker", "d0");
    expect_number(&made, "tandem.replays", 3);
    expect_text(&made, "error.type", NULL);
    ck_assert_ptr_null(made.span.error);
    const struct trace_attribute *finishes = attribute(&made, "gen_ai.response.finish_reasons");
    ck_assert_uint_eq(finishes->n_texts, 2);
    ck_assert_str_eq(finishes->texts[0], "length");
    ck_assert_str_eq(finishes->texts[1], "stop");
    call.ask.is_chat = true;
    call_trace_make(&call, 200, &made);
    ck_assert_str_eq(made.span.name, "chat m");
    close_serving();
}
END_TEST

/* A reader of an answer that called a tool. */
static struct tool_reader *reader_of_a_call(struct ask *ask) {
    static const char body[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":"
                               "[{\"type\":\"function\",\"function\":{\"name\":\"get\"}}]}";
    const struct ask_limits limits = {
        .model = "m", .n_tokens = 1000, .prompt_max = 4000, .tool_format = tool_format_nth(0)};
    const struct span bytes = {body, sizeof body - 1};
    struct api_error error = {0};
    struct tool_reader *reader;
    ask_init(ask);
    ck_assert_int_eq(dialect_chat.parse(&bytes, &limits, ask, &error), STATUS_OK);
    ck_assert_int_eq(tools_compile(ask, &error.error), STATUS_OK);
    ask_drop_body(ask);
    ck_assert_int_eq(tool_reader_new(ask, &reader), STATUS_OK);
    const struct span text =
        SPAN("<tool_call>\n{\"name\": \"get\", \"arguments\": {}}\n</tool_call>");
    ck_assert_int_eq(tool_reader_push(reader, text, true), STATUS_OK);
    ck_assert_uint_eq(tool_reader_n_calls(reader), 1);
    return reader;
}

START_TEST(calls_of_tools_are_how_an_answer_ended) {
    struct sequence sequences[2];
    struct call_span made;
    struct ask ask;
    open_serving(1);
    struct call call = ended(sequences);
    struct tool_reader *reader = reader_of_a_call(&ask);
    sequences[0].reader = sequences[1].reader = reader;
    call_trace_make(&call, 200, &made);
    const struct trace_attribute *finishes = attribute(&made, "gen_ai.response.finish_reasons");
    ck_assert_str_eq(finishes->texts[0], "length"); /* cut behind the call */
    ck_assert_str_eq(finishes->texts[1], "tool_calls");
    tool_reader_free(reader);
    ask_fini(&ask);
    close_serving();
}
END_TEST

/* The core's stages begin within admit: their times come from the core. */
START_TEST(events_are_when_each_stage_began) {
    static const struct {
        const char *name;
        unsigned at_ms; /* behind the call's beginning */
    } wanted[] = {{"parse", 0},     {"tokenize", 1}, {"admit", 3},        {"place", 4},
                  {"dispatch", 14}, {"stream", 34},  {"first_token", 49}, {"finish", 92}};
    struct sequence sequences[2];
    struct call_span made;
    open_serving(1);
    struct call call = ended(sequences);
    uint64_t before_ns = clock_unix_ns();
    call_trace_make(&call, 200, &made);
    ck_assert_uint_eq(made.span.n_events, sizeof wanted / sizeof *wanted);
    ck_assert_uint_eq(made.span.end_ns - made.span.start_ns, 99 * NS_PER_MS);
    for (unsigned i = 0; i < made.span.n_events; i++) {
        ck_assert_str_eq(made.span.events[i].name, wanted[i].name);
        ck_assert_uint_eq(made.span.events[i].at_ns - made.span.start_ns,
                          wanted[i].at_ms * NS_PER_MS);
    }
    /* The monotonic clock's 1 ms, in Unix time. */
    uint64_t zero_ns = made.span.start_ns - NS_PER_MS, after_ns = clock_unix_ns();
    ck_assert_uint_ge(zero_ns + clock_now_ns(), before_ns);
    ck_assert_uint_le(zero_ns, after_ns);
    close_serving();
}
END_TEST

START_TEST(a_failure_has_its_words_unless_they_may_quote_the_request) {
    static const struct {
        enum status status;
        const char *words, *type, *field;
    } rows[] = {{STATUS_INVALID, "invalid: top_p", "invalid", "top_p"},
                {STATUS_INVALID, "invalid", "invalid", ""},
                {STATUS_NOT_FOUND, "not_found: model", "not_found", "model"},
                {STATUS_TIMEOUT, "said", "deadline_exceeded", ""},
                {STATUS_BUSY, "said", "server_is_overloaded", ""},
                {STATUS_IO, "said", "internal_error", ""}};
    struct sequence sequences[2];
    struct call_span made;
    open_serving(1);
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct call call = ended(sequences);
        call.failed = true;
        call.error.status = error_field(&call.error.error, rows[i].status, rows[i].field, "said");
        call_trace_make(&call, 500, &made);
        ck_assert_str_eq(made.span.error, rows[i].words);
        expect_text(&made, "error.type", rows[i].type);
        ck_assert_ptr_null(attribute(&made, "gen_ai.response.finish_reasons"));
    }
    close_serving();
}
END_TEST

START_TEST(a_client_that_left_is_no_error) {
    struct sequence sequences[2];
    struct call_span made;
    open_serving(1);
    struct call call = ended(sequences);
    call.client.state = CLIENT_GONE;
    call_trace_make(&call, 499, &made);
    ck_assert_ptr_null(made.span.error);
    expect_text(&made, "error.type", "client_gone");
    expect_number(&made, "http.response.status_code", 499);
    ck_assert_ptr_null(attribute(&made, "gen_ai.response.finish_reasons"));
    close_serving();
}
END_TEST

START_TEST(a_call_that_was_not_understood_has_its_dialects_name) {
    struct sequence sequences[2];
    struct call_span made;
    open_serving(1);
    struct call call = ended(sequences);
    call.left = STAGE_PARSE;
    call.n_sequences = 0;
    for (unsigned i = STAGE_TOKENIZE; i < STAGE_FINISH; i++)
        call.stage_ns[i] = CALL_NEVER;
    call_trace_make(&call, 400, &made);
    ck_assert_str_eq(made.span.name, "completions m");
    ck_assert_ptr_null(attribute(&made, "gen_ai.request.max_tokens"));
    ck_assert_ptr_null(attribute(&made, "gen_ai.usage.input_tokens"));
    ck_assert_ptr_null(attribute(&made, "tandem.replays"));
    close_serving();
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, without_a_collector_a_trace_is_passed_on_as_it_came);
    tcase_add_test(tests, a_flag_decides_for_a_trace_that_comes_in);
    tcase_add_test(tests, the_share_decides_for_a_trace_that_begins_here);
    tcase_add_test(tests, a_span_says_what_was_asked_and_answered);
    tcase_add_test(tests, calls_of_tools_are_how_an_answer_ended);
    tcase_add_test(tests, events_are_when_each_stage_began);
    tcase_add_test(tests, a_failure_has_its_words_unless_they_may_quote_the_request);
    tcase_add_test(tests, a_client_that_left_is_no_error);
    tcase_add_test(tests, a_call_that_was_not_understood_has_its_dialects_name);
}
