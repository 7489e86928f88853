/* A request of OpenAI's Responses API as a chat: each kind of item and field, what is refused, and the bounds. */
#include "base/json/json_get.h"
#include "router/api/dialect.h"
#include "router/api/field_table.h"
#include "router/api/responses_about.h"
#include "router/api/responses_read.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "router_api_responses_read";
const double suite_timeout_s = 60;

static json_t *load(const char *text) {
    json_error_t error;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    ck_assert_msg(root != NULL, "%s: %s", error.text, text);
    return root;
}

/* The request read; the caller ends both. */
static enum status read_request(const char *text, struct responses_request *request,
                                struct error *error) {
    json_t *root = load(text);
    *error = (struct error){0};
    enum status status = responses_read(root, request, error);
    json_decref(root);
    return status;
}

static void becomes(const char *text, const char *wanted) {
    struct responses_request request;
    struct error error;
    ck_assert_msg(read_request(text, &request, &error) == STATUS_OK, "%s: %s", text, error.text);
    json_t *chat = load(request.chat.data), *right = load(wanted);
    ck_assert_msg(json_equal(chat, right), "%s became %s", text, request.chat.data);
    json_decref(chat);
    json_decref(right);
    responses_request_fini(&request);
}

#define SAY(role, text)  "{\"role\":\"" role "\",\"content\":\"" text "\"}"
#define CHAT(messages)   "{\"messages\":[" messages "]}"
#define INPUT(items)     "{\"input\":[" items "]}"
#define TEXT(kind, text) "{\"type\":\"" kind "\",\"text\":\"" text "\"}"
#define CALL(id, name)                                                                             \
    "{\"type\":\"function_call\",\"call_id\":\"" id "\",\"name\":\"" name "\",\"arguments\":\"{}"  \
    "\"}"
#define OUTPUT(id) "{\"type\":\"function_call_output\",\"call_id\":\"" id "\",\"output\":\"o\"}"
#define CALLED(id, name)                                                                           \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"" name                      \
    "\",\"arguments\":\"{}\"}}"
#define RESULT(id)     "{\"role\":\"tool\",\"tool_call_id\":\"" id "\",\"content\":\"o\"}"
#define THOUGHT(parts) "{\"type\":\"reasoning\",\"id\":\"rs_1\"," parts "}"
#define HM             "\"content\":[" TEXT("reasoning_text", "hm") "]"

START_TEST(each_item_becomes_a_message) {
    becomes("{\"input\":\"a\\u0000\\\"\"}", CHAT(SAY("user", "a\\u0000\\\"")));
    becomes("{\"input\":\"a\",\"instructions\":\"b\"}",
            CHAT(SAY("system", "b") "," SAY("user", "a")));
    becomes("{\"input\":\"a\",\"instructions\":\"\"}", CHAT(SAY("user", "a")));
    becomes(INPUT(SAY("developer", "a") "," SAY("system", "b")),
            CHAT(SAY("developer", "a") "," SAY("system", "b")));
    becomes(INPUT("{\"type\":\"message\",\"role\":\"user\",\"content\":[" TEXT(
                "input_text", "a") "," TEXT("input_text", "b") "]}"),
            CHAT("{\"role\":\"user\",\"content\":[" TEXT("text", "a") "," TEXT("text", "b") "]}"));
    becomes(INPUT("{\"type\":\"message\",\"role\":\"assistant\",\"id\":\"m\",\"status\":"
                  "\"completed\",\"content\":[" TEXT(
                      "output_text", "a") ",{\"type\":\"refusal\",\"refusal\":\"b\"}]}"),
            CHAT(SAY("assistant", "ab")));
    becomes(
        INPUT("{\"type\":\"custom_tool_call\",\"call_id\":\"c\",\"name\":\"p\",\"input\":\"+a\"}"),
        CHAT("{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c\",\"type\":"
             "\"custom\",\"custom\":{\"name\":"
             "\"p\",\"input\":\"+a\"}}]}"));
    becomes(INPUT("{\"type\":\"custom_tool_call_output\",\"call_id\":\"c\",\"output\":[" TEXT(
                "input_text", "a") "]}"),
            CHAT("{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":[" TEXT("text", "a") "]}"));
}
END_TEST

/* What the model wrote in one go, it is shown as one message. */
START_TEST(items_of_one_turn_are_one_message) {
    becomes(
        INPUT(THOUGHT(HM) "," SAY("assistant", "a") "," CALL("1", "f") "," CALL(
            "2", "g") "," OUTPUT("1") "," OUTPUT("2")),
        CHAT("{\"role\":\"assistant\",\"content\":\"a\",\"reasoning_content\":\"hm\",\"tool_"
             "calls\":[" CALLED("1", "f") "," CALLED("2", "g") "]}," RESULT("1") "," RESULT("2")));
    becomes(INPUT(CALL("1", "f") "," OUTPUT("1") "," CALL("2", "g") "," OUTPUT("2")),
            CHAT("{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[" CALLED(
                "1", "f") "]}," RESULT("1") ",{\"role\":\"assistant\",\"content\":null,\"tool_"
                                            "calls\":[" CALLED("2", "g") "]}," RESULT("2")));
    becomes(INPUT(SAY("assistant", "a") "," SAY("assistant", "b")),
            CHAT(SAY("assistant", "a") "," SAY("assistant", "b")));
    becomes(INPUT(CALL("1", "f") "," SAY("assistant", "b")),
            CHAT("{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[" CALLED(
                "1", "f") "]}," SAY("assistant", "b")));
    becomes(
        INPUT(SAY("assistant", "a") "," THOUGHT(HM) "," SAY("assistant", "b")),
        CHAT(SAY("assistant",
                 "a") ",{\"role\":\"assistant\",\"content\":\"b\",\"reasoning_content\":\"hm\"}"));
    becomes(INPUT(SAY("assistant", "a") "," SAY("user", "b")),
            CHAT(SAY("assistant", "a") "," SAY("user", "b")));
    becomes(INPUT(THOUGHT(HM) "," THOUGHT(HM)),
            CHAT("{\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":\"hmhm\"}"));
    becomes(INPUT(SAY("assistant", "")), CHAT(SAY("assistant", "")));
}
END_TEST

START_TEST(a_thought_is_what_the_item_has_of_it) {
#define THINKS(text) CHAT("{\"role\":\"assistant\",\"content\":\"\"" text "}")
#define SUMMARY      "\"summary\":[" TEXT("summary_text", "s") "]"
    becomes(INPUT(THOUGHT(HM "," SUMMARY ",\"encrypted_content\":\"thought:e\"")),
            THINKS(",\"reasoning_content\":\"hm\""));
    becomes(INPUT(THOUGHT("\"content\":[]," SUMMARY ",\"encrypted_content\":\"thought:e\"")),
            THINKS(",\"reasoning_content\":\"e\""));
    becomes(INPUT(THOUGHT("\"content\":null," SUMMARY ",\"encrypted_content\":\"gAAAAABpK7mPz\"")),
            THINKS(",\"reasoning_content\":\"s\""));
    becomes(INPUT(THOUGHT("\"summary\":[],\"encrypted_content\":\"though\"")), THINKS(""));
    becomes(INPUT(THOUGHT("\"summary\":[],\"encrypted_content\":\"thought:\"")), THINKS(""));
}
END_TEST

#define HI          "{\"input\":\"x\","
#define HI_CHAT     "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]"
#define FIELD(a, b) becomes(HI a "}", HI_CHAT b "}")

START_TEST(each_field_becomes_the_chats) {
    FIELD(
        "\"max_output_tokens\":7,\"temperature\":0.5,\"top_p\":1,\"stream\":true,\"seed\":3",
        ",\"max_completion_tokens\":7,\"temperature\":0.5,\"top_p\":1,\"stream\":true,\"seed\":3");
    FIELD("\"store\":true,\"user\":\"u\",\"stream_options\":{\"include_obfuscation\":false},"
          "\"service_tier\":\"auto\"",
          "");
    FIELD("\"previous_response_id\":null,\"background\":false,\"conversation\":null,\"tools\":[]",
          "");
    FIELD("\"x_new\":{\"a\":1}", ",\"x_new\":null");
    FIELD("\"suffix\":\"a\"", ",\"suffix\":\"a\"");
    FIELD("\"reasoning\":{\"effort\":\"low\",\"summary\":\"auto\"}",
          ",\"reasoning_effort\":\"low\"");
    FIELD("\"reasoning\":{\"effort\":\"none\"}",
          ",\"reasoning_effort\":\"none\",\"enable_thinking\":false");
    FIELD("\"reasoning\":{\"effort\":\"none\"},\"enable_thinking\":true",
          ",\"reasoning_effort\":\"none\",\"enable_thinking\":true");
    FIELD("\"reasoning\":{\"effort\":null}", "");
    FIELD("\"text\":{\"verbosity\":\"low\",\"format\":{\"type\":\"text\"}}", "");
    FIELD("\"text\":{\"format\":{\"type\":\"json_object\"}}",
          ",\"response_format\":{\"type\":\"json_object\"}");
    FIELD("\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\",\"strict\":true,"
          "\"description\":\"d\",\"schema\":{\"type\":\"integer\"}}}",
          ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\","
          "\"schema\":{\"type\":\"integer\"},\"strict\":true}}");
    FIELD("\"include\":[\"message.output_text.logprobs\",\"file_search_call.results\"]",
          ",\"logprobs\":true,\"top_logprobs\":0");
    FIELD("\"top_logprobs\":20", ",\"logprobs\":true,\"top_logprobs\":20");
    FIELD("\"include\":[\"reasoning.encrypted_content\"],\"top_logprobs\":0", "");
    FIELD("\"tool_choice\":{\"type\":\"function\",\"name\":\"f\"},\"parallel_tool_calls\":false",
          ",\"tool_choice\":{\"type\":\"function\",\"name\":\"f\"},\"parallel_tool_calls\":false");
    FIELD("\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"description\":\"d\",\"parameters\":{"
          "\"type\":\"object\"},\"strict\":null},{\"type\":"
          "\"custom\",\"name\":\"p\"},{\"type\":\"web_search\"}]",
          ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\","
          "\"parameters\":{\"type\":\"object\"}}},{\"type\":"
          "\"custom\",\"name\":\"p\"},{\"type\":\"web_search\"}]");
}
END_TEST

/* The field of a request that is refused, by the dialect as a whole. */
static void refuses(const char *text, const char *field, enum status wanted, const char *word) {
    const struct ask_limits limits = {.model = "m", .n_tokens = 1000, .prompt_max = 4096};
    const struct span body = span_of(text);
    struct api_error error = {0};
    struct ask ask;
    ask_init(&ask);
    ck_assert_msg(dialect_responses.parse(&body, &limits, &ask, &error) == wanted, "%s: %s", text,
                  error.error.text);
    ck_assert_msg(strcmp(error.error.field, field) == 0, "%s names %s", text, error.error.field);
    ck_assert_msg(strstr(error.error.text, word) != NULL, "%s: %s", text, error.error.text);
    ask_fini(&ask);
}

#define NO(text, field, word)  refuses(text, field, STATUS_UNSUPPORTED, word)
#define BAD(text, field, word) refuses(text, field, STATUS_INVALID, word)

START_TEST(what_is_refused_is_named) {
    NO(HI "\"previous_response_id\":\"resp_1\"}", "previous_response_id", "nothing is stored");
    NO(HI "\"conversation\":{\"id\":\"c\"}}", "conversation", "nothing is stored");
    NO(HI "\"background\":true}", "background", "leave it out");
    NO(HI "\"prompt\":{\"id\":\"p\"}}", "prompt", "stored");
    NO(HI "\"n\":2}", "n", "not a field of this route");
    NO(HI "\"messages\":[]}", "messages", "not a field of this route");
    NO(HI "\"functions\":[{}]}", "functions", "not served");
    NO(HI "\"text\":{\"format\":{\"type\":\"regex\"}}}", "text.format.type", "json_schema");
    NO(INPUT("{\"role\":\"user\",\"content\":[{\"type\":\"input_image\",\"image_url\":\"u\"}]}"),
       "input[0].content[0].type", "`input_image`");
    NO(INPUT("{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":[{\"type\":\"input_"
             "file\"}]}"),
       "input[0].output[0].type", "input_file");
    NO(INPUT(SAY("user", "a") ",{\"type\":\"item_reference\",\"id\":\"rs_1\"}"), "input[1].type",
       "send the item itself");
    NO(INPUT("{\"type\":\"web_search_call\",\"id\":\"w\"}"), "input[0].type", "web_search_call");
    BAD("{}", "input", "missing");
    BAD("{\"input\":5}", "input", "list of items");
    BAD("{\"input\":[]}", "input", "at least one");
    BAD(INPUT("5"), "input[0]", "object");
    BAD(INPUT("{\"role\":\"tool\",\"content\":\"x\"}"), "input[0].role", "developer");
    BAD(INPUT("{\"content\":\"x\"}"), "input[0].role", "missing");
    BAD(INPUT("{\"role\":\"user\"}"), "input[0].content", "missing");
    BAD(INPUT("{\"role\":\"user\",\"content\":7}"), "input[0].content", "parts");
    BAD(INPUT("{\"role\":\"user\",\"content\":[7]}"), "input[0].content", "number 0");
    BAD(INPUT("{\"role\":\"user\",\"content\":[{\"type\":\"input_text\"}]}"),
        "input[0].content[0].text", "missing");
    BAD(INPUT("{\"type\":\"function_call\",\"name\":\"f\",\"arguments\":\"{}\"}"),
        "input[0].call_id", "missing");
    BAD(INPUT("{\"type\":\"function_call\",\"call_id\":\"c\",\"arguments\":\"{}\"}"),
        "input[0].name", "missing");
    BAD(INPUT("{\"type\":\"custom_tool_call\",\"call_id\":\"c\",\"name\":\"f\"}"), "input[0].input",
        "missing");
    BAD(INPUT("{\"type\":\"custom_tool_call_output\",\"output\":\"x\"}"), "input[0].call_id",
        "missing");
    BAD(INPUT("{\"type\":\"function_call_output\",\"call_id\":\"c\"}"), "input[0].output",
        "missing");
    BAD(HI "\"instructions\":[]}", "instructions", "string");
    BAD(HI "\"metadata\":[]}", "metadata", "object");
    BAD(HI "\"truncation\":\"middle\"}", "truncation", "auto");
    BAD(HI "\"include\":[5]}", "include", "strings");
    BAD(HI "\"top_logprobs\":21}", "top_logprobs", "20");
    BAD(HI "\"max_output_tokens\":0}", "max_output_tokens", "1");
    BAD(HI "\"temperature\":-1}", "temperature", "0");
    BAD(HI "\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\"}}}", "text.format.schema",
        "missing");
    BAD(HI "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]}", "tools[0].name",
        "beside `type`");
    refuses(HI "\"model\":\"other\"}", "model", STATUS_NOT_FOUND, "other");
}
END_TEST

static char *repeated(const char *before, const char *entry, size_t n, const char *after) {
    struct buf text;
    buf_init(&text, 0);
    buf_puts(&text, before);
    for (size_t i = 0; i < n; i++) {
        buf_puts(&text, i > 0 ? "," : "");
        buf_puts(&text, entry);
    }
    buf_puts(&text, after);
    return buf_take(&text);
}

static enum status status_of(char *text) {
    struct responses_request request;
    struct error error;
    enum status status = read_request(text, &request, &error);
    responses_request_fini(&request);
    free(text);
    return status;
}

START_TEST(bounds_hold_at_their_last_value) {
    const char *one = SAY("user", "a"), *part = TEXT("input_text", "a");
    const char *parts = "{\"input\":[{\"role\":\"user\",\"content\":[",
               *words = "{\"input\":\"x\",\"include\":[";
    ck_assert_int_eq(status_of(repeated("{\"input\":[", one, 4096, "]}")), STATUS_OK);
    ck_assert_int_eq(status_of(repeated("{\"input\":[", one, 4097, "]}")), STATUS_INVALID);
    ck_assert_int_eq(status_of(repeated(parts, part, 1024, "]}]}")), STATUS_OK);
    ck_assert_int_eq(status_of(repeated(parts, part, 1025, "]}]}")), STATUS_INVALID);
    ck_assert_int_eq(status_of(repeated(words, "\"a\"", 64, "]}")), STATUS_OK);
    ck_assert_int_eq(status_of(repeated(words, "\"a\"", 65, "]}")), STATUS_INVALID);
}
END_TEST

/* Its members as an object. */
static json_t *repeated_by(const char *text, size_t *n) {
    struct responses_request request;
    struct error error;
    ck_assert_msg(read_request(text, &request, &error) == STATUS_OK, "%s", error.text);
    struct buf object;
    buf_init(&object, 0);
    buf_putc(&object, '{');
    buf_append(&object, request.repeated.data, request.repeated.n);
    ck_assert_int_eq(object.data[object.n - 1], ',');
    object.data[object.n - 1] = '}';
    json_t *root = load(object.data);
    *n = request.repeated.n;
    buf_fini(&object);
    responses_request_fini(&request);
    return root;
}

START_TEST(a_reply_repeats_its_request) {
    size_t n;
    json_t *root = repeated_by(HI "\"instructions\":\"i\",\"metadata\":{\"a\":\"b\"},\"tool_"
                                  "choice\":\"none\",\"text\":{\"verbosity\":\"low\"},"
                                  "\"tools\":[{\"type\":\"function\",\"name\":\"f\"},{\"type\":"
                                  "\"function\",\"name\":\"g\",\"parameters\":{},"
                                  "\"strict\":true},{\"type\":\"mcp\"}]}",
                               &n);
    json_t *right = load("{\"instructions\":\"i\",\"max_output_tokens\":null,\"max_tool_calls\":"
                         "null,\"prompt_cache_key\":null,"
                         "\"safety_identifier\":null,\"user\":null,\"metadata\":{\"a\":\"b\"},"
                         "\"parallel_tool_calls\":true,"
                         "\"reasoning\":{\"effort\":null,\"summary\":null},\"tool_choice\":"
                         "\"none\",\"top_logprobs\":0,"
                         "\"truncation\":\"disabled\",\"text\":{\"format\":{\"type\":\"text\"},"
                         "\"verbosity\":\"low\"},\"tools\":[{\"type\":"
                         "\"function\",\"name\":\"f\",\"parameters\":null,\"strict\":false},{"
                         "\"type\":\"function\",\"name\":\"g\","
                         "\"parameters\":{},\"strict\":true},{\"type\":\"mcp\"}]}");
    ck_assert(json_equal(root, right));
    json_decref(right);
    json_decref(root);
}
END_TEST

START_TEST(what_is_too_long_is_not_repeated) {
    size_t n_short, n;
    json_decref(repeated_by(HI "\"instructions\":\"\"}", &n_short));
    for (size_t more = 0; more < 2; more++) {
        size_t n_text = RESPONSES_REPEATED_MAX - n_short + more;
        char *text = malloc(n_text + 64), *at = text + sprintf(text, HI "\"instructions\":\"");
        memset(at, 'a', n_text);
        memcpy(at + n_text, "\"}", 3);
        json_t *root = repeated_by(text, &n);
        const json_t *told = json_object_get(root, "instructions");
        ck_assert_uint_eq(json_string_length(told), more ? 0 : n_text);
        ck_assert_int_eq(json_is_null(told), more > 0);
        if (!more)
            ck_assert_uint_eq(n, RESPONSES_REPEATED_MAX);
        json_decref(root);
        free(text);
    }
}
END_TEST

START_TEST(rows_are_in_order_and_name_the_chats_fields) {
    size_t n = 0;
    for (const struct dialect_member *row = responses_members; row->name; row++, n++) {
        enum responses_use use = responses_use(row);
        const struct field_row *field = row->as ? field_find(row->as) : NULL;
        ck_assert_msg(n == 0 || strcmp(row[-1].name, row->name) < 0, "%s", row->name);
        ck_assert_msg(!row->as == (use != RESPONSES_COPIED), "%s", row->name);
        ck_assert_msg(!row->as || (field && (field->served & FIELD_CHAT)), "%s", row->name);
        ck_assert_msg(row->says || (use != RESPONSES_READ && use != RESPONSES_REFUSED), "%s",
                      row->name);
    }
    ck_assert_uint_eq(n, RESPONSES_MEMBERS);
}
END_TEST

START_TEST(a_request_is_kept_as_an_ask) {
    static const char text[] =
        HI "\"x_new\":1,\"stream\":true,\"include\":[\"reasoning.encrypted_content\"],\"text\":{"
           "\"format\":{\"type\":"
           "\"json_schema\",\"name\":\"n\",\"schema\":{\"type\":\"integer\"}}}}";
    const struct ask_limits limits = {.model = "m", .n_tokens = 1000, .prompt_max = 4096};
    const struct span body = {text, sizeof text - 1};
    struct api_error error = {0};
    struct ask ask;
    ask_init(&ask);
    ck_assert_msg(dialect_responses.parse(&body, &limits, &ask, &error) == STATUS_OK, "%s",
                  error.error.text);
    ck_assert(ask.stream && ask.is_chat && ask.seals_thoughts && ask.repeated.n > 0);
    ck_assert_str_eq(ask.unknown, "x_new");
    ck_assert_str_eq(ask.format_field, "text.format.schema");
    ask_fini(&ask);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, each_item_becomes_a_message);
    tcase_add_test(tests, items_of_one_turn_are_one_message);
    tcase_add_test(tests, a_thought_is_what_the_item_has_of_it);
    tcase_add_test(tests, each_field_becomes_the_chats);
    tcase_add_test(tests, what_is_refused_is_named);
    tcase_add_test(tests, bounds_hold_at_their_last_value);
    tcase_add_test(tests, a_reply_repeats_its_request);
    tcase_add_test(tests, what_is_too_long_is_not_repeated);
    tcase_add_test(tests, rows_are_in_order_and_name_the_chats_fields);
    tcase_add_test(tests, a_request_is_kept_as_an_ask);
}
