/* A request over gRPC as the JSON of its HTTP twin. */
#include "base/arena.h"
#include "base/buf.h"
#include "proto/message.h"
#include "router/api/field_table.h"
#include "router/api/grpc.h"
#include "tests/support/suite.h"

#include <math.h>
#include <string.h>
#include <tandem_inference.pb-c.h>

const char *const suite_name = "router_api_grpc_json";
const double suite_timeout_s = 60;

typedef Tandem__V1__GenerateRequest request;

static struct error error;
static struct buf json;

static ProtobufCBinaryData bytes(const char *text) {
    return (ProtobufCBinaryData){strlen(text), (uint8_t *)(uintptr_t)text};
}

static enum status put(const ProtobufCMessage *message) {
    buf_fini(&json);
    buf_init(&json, 0);
    error = (struct error){0};
    return grpc_put_json(message, &json, &error);
}

static void expect(const ProtobufCMessage *message, const char *text) {
    ck_assert_msg(put(message) == STATUS_OK, "%s", error.text);
    buf_putc(&json, 0);
    ck_assert_str_eq(json.data, text);
}

static void tear_down(void) {
    buf_fini(&json);
}

START_TEST(numbers_have_presence) {
    request from;
    tandem__v1__generate_request__init(&from);
    expect(&from.base, "{}");
    from._max_tokens_case = TANDEM__V1__GENERATE_REQUEST___MAX_TOKENS_MAX_TOKENS;
    from._temperature_case = TANDEM__V1__GENERATE_REQUEST___TEMPERATURE_TEMPERATURE;
    from._ignore_eos_case = TANDEM__V1__GENERATE_REQUEST___IGNORE_EOS_IGNORE_EOS;
    from._seed_case = TANDEM__V1__GENERATE_REQUEST___SEED_SEED;
    from.seed = INT64_MIN;
    expect(
        &from.base,
        "{\"max_tokens\":0,\"temperature\":0,\"seed\":-9223372036854775808,\"ignore_eos\":false}");
    from.temperature = nextafterf(0.3f, 1); /* nine digits tell it from 0.3f */
    ck_assert_int_eq(put(&from.base), STATUS_OK);
    buf_putc(&json, 0);
    ck_assert_float_eq(strtof(strstr(json.data, "temperature\":") + 13, NULL), nextafterf(0.3f, 1));
}
END_TEST

START_TEST(a_prompt_is_part_of_the_request_even_when_empty) {
    request from;
    Tandem__V1__TokenIds ids;
    tandem__v1__generate_request__init(&from);
    tandem__v1__token_ids__init(&ids);
    from.input_case = TANDEM__V1__GENERATE_REQUEST__INPUT_TOKEN_IDS;
    from.token_ids = &ids;
    expect(&from.base, "{\"prompt\":[]}");
    ids.n_ids = 2;
    ids.ids = (uint32_t[]){7, 4294967295u};
    from._n_case = TANDEM__V1__GENERATE_REQUEST___N_N;
    from.n = 2;
    expect(&from.base, "{\"prompt\":[7,4294967295],\"n\":2}");
    from.input_case = TANDEM__V1__GENERATE_REQUEST__INPUT_TEXT;
    from.text = bytes("a \"b\"\n");
    expect(&from.base, "{\"prompt\":\"a \\\"b\\\"\\n\",\"n\":2}");
}
END_TEST

/* What a client calls JSON becomes part of ours: it must not reach beyond its member. */
START_TEST(json_of_the_client_stays_within_its_member) {
    static const struct {
        const char *text;
        bool fits;
    } told[] = {
        {"{}", true},
        {" [1, {\"a\":\"]}\"}]\n", true},
        {"{\"a\":\"\\\"}\"}", true},
        {"", false},
        {"1", false},
        {"\"x\"", false},
        {"{},\"model\":\"other\"", false},
        {"{}}", false},
        {"{} x", false},
        {"{", false},
        {"{\"a", false},
        {"{\"a\\", false},
    };
    request from;
    Tandem__V1__Chat chat;
    tandem__v1__generate_request__init(&from);
    tandem__v1__chat__init(&chat);
    from.input_case = TANDEM__V1__GENERATE_REQUEST__INPUT_CHAT;
    from.chat = &chat;
    chat._template_kwargs_json_case = TANDEM__V1__CHAT___TEMPLATE_KWARGS_JSON_TEMPLATE_KWARGS_JSON;
    for (unsigned i = 0; i < sizeof told / sizeof *told; i++) {
        chat.template_kwargs_json = bytes(told[i].text);
        ck_assert_msg((put(&from.base) == STATUS_OK) == told[i].fits, "%s: %s", told[i].text,
                      error.text);
        if (!told[i].fits)
            ck_assert_str_eq(error.field, "template_kwargs_json");
    }
    chat.template_kwargs_json = bytes("{}");
    expect(&from.base, "{\"messages\":[],\"chat_template_kwargs\":{}}");
}
END_TEST

START_TEST(what_json_cannot_hold_is_refused_by_name) {
    request from;
    tandem__v1__generate_request__init(&from);
    from._top_p_case = TANDEM__V1__GENERATE_REQUEST___TOP_P_TOP_P;
    from.top_p = NAN;
    ck_assert_int_eq(put(&from.base), STATUS_INVALID);
    ck_assert_str_eq(error.field, "top_p");
    from.top_p = INFINITY;
    ck_assert_int_eq(put(&from.base), STATUS_INVALID);
    from.top_p = 1;
    from.input_case = TANDEM__V1__GENERATE_REQUEST__INPUT_TEXT;
    from.text = bytes("a\xff");
    ck_assert_int_eq(put(&from.base), STATUS_INVALID);
    ck_assert_str_eq(error.field, "text");
}
END_TEST

/* Protobuf: the last of equal keys counts. */
START_TEST(a_map_has_each_key_once) {
    request from;
    Tandem__V1__GenerateRequest__LogitBiasEntry entries[3];
    Tandem__V1__GenerateRequest__LogitBiasEntry *list[3];
    static const uint32_t keys[] = {5, 6, 5};
    tandem__v1__generate_request__init(&from);
    for (unsigned i = 0; i < 3; i++) {
        tandem__v1__generate_request__logit_bias_entry__init(&entries[i]);
        entries[i].key = keys[i];
        entries[i].value = (float)i;
        list[i] = &entries[i];
    }
    from.n_logit_bias = 3;
    from.logit_bias = list;
    expect(&from.base, "{\"logit_bias\":{\"6\":1,\"5\":2}}");
}
END_TEST

/* Bytes of nothing but empty parts take far more memory than they are: that has a bound. */
START_TEST(a_map_has_a_bound) {
    request from;
    static Tandem__V1__GenerateRequest__LogitBiasEntry entries[MESSAGE_BIAS_MAX + 1];
    static Tandem__V1__GenerateRequest__LogitBiasEntry *list[MESSAGE_BIAS_MAX + 1];
    tandem__v1__generate_request__init(&from);
    for (unsigned i = 0; i <= MESSAGE_BIAS_MAX; i++) {
        tandem__v1__generate_request__logit_bias_entry__init(&entries[i]);
        entries[i].key = i;
        list[i] = &entries[i];
    }
    from.logit_bias = list;
    from.n_logit_bias = MESSAGE_BIAS_MAX;
    ck_assert_int_eq(put(&from.base), STATUS_OK);
    from.n_logit_bias = MESSAGE_BIAS_MAX + 1;
    ck_assert_int_eq(put(&from.base), STATUS_INVALID);
    ck_assert_str_eq(error.field, "logit_bias");
}
END_TEST

START_TEST(many_empty_parts_are_a_message_too_large) {
    struct arena arena;
    struct api_error told = {0};
    ProtobufCMessage *message = NULL;
    static char body[5 + 8 + (1 << 20)];
    size_t n = 1 << 20;
    arena_init(&arena, 1 << 20);
    body[5] = 4 << 3 | 2; /* chat, of n bytes */
    body[6] = (char)(0x80 | (n & 127));
    body[7] = (char)(0x80 | (n >> 7 & 127));
    body[8] = (char)(n >> 14);
    for (size_t i = 0; i < n; i += 2)
        body[9 + i] = 1 << 3 | 2; /* a message of no bytes */
    n += 4;
    for (unsigned i = 0; i < 4; i++)
        body[1 + i] = (char)(n >> (24 - 8 * i));
    const struct span bytes_of = {body, 5 + n};
    enum status status = grpc_unpack(&bytes_of, "", &tandem__v1__generate_request__descriptor,
                                     &arena, &message, &told);
    ck_assert_msg(status == STATUS_LIMIT, "%s", told.error.text);
    ck_assert_str_eq(told.code, "body_too_large");
    ck_assert_int_eq(errors_grpc(&told), 8);
    arena_fini(&arena);
}
END_TEST

static bool has(const ProtobufCMessageDescriptor *type, const char *name) {
    return protobuf_c_message_descriptor_get_field_by_name(type, name) != NULL;
}

/* A field that HTTP serves and gRPC forgets would be a feature of one door. */
START_TEST(every_field_that_http_serves_has_its_place) {
    static const struct {
        const char *name, *where;
    } elsewhere[] = {
        {"prompt", "text"},
        {"messages", NULL}, /* of Chat */
        {"chat_template_kwargs", "template_kwargs_json"},
        {"max_completion_tokens", "max_tokens"},
        {"top_logprobs", "logprobs"},
        {"stream", NULL},         /* Generate streams, Complete does not */
        {"stream_options", NULL}, /* the usage always comes */
        {"best_of", NULL},        /* n, and nothing else */
        {"response_format", "response_format_json"},
        {"structured_outputs", "response_format_json"}, /* and the words below */
        {"guided_json", "json_schema"},
        {"guided_regex", "regex"},
        {"guided_grammar", "grammar"},
        {"ebnf", "grammar"},
        {"stream_interval", NULL},            /* nothing but 1 is served */
        {"timeout", NULL},                    /* grpc-timeout */
        {"return_tokens_as_token_ids", NULL}, /* logprobs have both */
        {"return_token_strs", NULL},          /* Tokenize's reply has them */
        {"parallel_tool_calls", NULL},        /* calls are text of the answer there */
    };
    for (size_t i = 0; field_nth(i); i++) {
        const struct field_row *row = field_nth(i);
        char as_json[64];
        bool is_told = false;
        if (!(row->served & (FIELD_CHAT | FIELD_COMPLETIONS)))
            continue;
        for (unsigned k = 0; k < sizeof elsewhere / sizeof *elsewhere; k++)
            is_told |= strcmp(elsewhere[k].name, row->name) == 0;
        snprintf(as_json, sizeof as_json, "%s_json", row->name);
        bool stands = has(&tandem__v1__generate_request__descriptor, row->name) ||
                      has(&tandem__v1__chat__descriptor, row->name) ||
                      has(&tandem__v1__chat__descriptor, as_json);
        ck_assert_msg(stands || is_told, "%s is served over HTTP alone", row->name);
    }
    for (unsigned k = 0; k < sizeof elsewhere / sizeof *elsewhere; k++) {
        ck_assert_msg(field_find(elsewhere[k].name), "%s", elsewhere[k].name);
        if (elsewhere[k].where)
            ck_assert(has(&tandem__v1__generate_request__descriptor, elsewhere[k].where) ||
                      has(&tandem__v1__chat__descriptor, elsewhere[k].where));
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, NULL, tear_down);
    tcase_add_test(tests, numbers_have_presence);
    tcase_add_test(tests, a_prompt_is_part_of_the_request_even_when_empty);
    tcase_add_test(tests, json_of_the_client_stays_within_its_member);
    tcase_add_test(tests, what_json_cannot_hold_is_refused_by_name);
    tcase_add_test(tests, a_map_has_each_key_once);
    tcase_add_test(tests, a_map_has_a_bound);
    tcase_add_test(tests, many_empty_parts_are_a_message_too_large);
    tcase_add_test(tests, every_field_that_http_serves_has_its_place);
}
