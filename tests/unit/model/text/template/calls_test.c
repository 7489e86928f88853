/* Calls of earlier messages in the format of ChatGLM3, whose prompts are no text in the language of templates. */
#include "model/text/template/template_calls.h"

#include "base/json/json_get.h"
#include "model/text/template/template_request.h"
#include "model/text/template/tool_format.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "model_template_calls";
const double suite_timeout_s = 60;

static struct error error;

/* The prompt of these messages and this end of the body, each piece that is tokenized by itself in brackets; or NULL. */
static char *render(const char *messages, const char *end) {
    const struct template_source source = {.family = "chatglm"};
    struct template chosen;
    struct template_request request = {0};
    struct template_prompt prompt;
    struct buf body, out;
    json_t *object = NULL;
    char *shown = NULL;
    buf_init(&body, 0);
    buf_init(&out, 0);
    buf_printf(&body, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}%s]%s}", messages, end);
    error = (struct error){0};
    ck_assert_int_eq(template_choose(&chosen, &source, &error), STATUS_OK);
    ck_assert_str_eq(chosen.tool_format->name, "chatglm3");
    ck_assert_int_eq(json_get_parse(body.data, body.n, &object, &error), STATUS_OK);
    if (template_request_read(object, true, &request, &error) == STATUS_OK &&
        template_render(&chosen, &request.input, &prompt, &error) == STATUS_OK) {
        for (size_t i = 0; i < prompt.n; i++) {
            const struct template_segment *segment = &prompt.segments[i];
            buf_puts(&out, segment->is_cut ? "[" : "");
            buf_append(&out, segment->text.bytes, segment->text.n);
        }
        shown = strndup(out.data, out.n);
        template_prompt_fini(&prompt);
    }
    buf_fini(&body);
    buf_fini(&out);
    template_request_fini(&request);
    json_decref(object);
    template_fini(&chosen);
    return shown;
}

#define CALL(name, arguments)                                                                      \
    "{\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":\"" name                           \
    "\",\"arguments\":\"" arguments "\"}}"
#define SAID(content, calls)                                                                       \
    ",{\"role\":\"assistant\",\"content\":" content ",\"tool_calls\":[" calls "]}"
#define RESULT           ",{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"22\"}"
#define BEGIN            "[gMASK]sop<|user|>[\n[a"
#define TURN(name, code) "<|assistant|>[" name "\n[```python\ntool_call(" code ")\n```"

static const struct {
    const char *messages, *prompt;
} cases[] = {
    {SAID("null", CALL("get", "{\\\"city\\\": \\\"Oslo\\\", \\\"days\\\": 3}")) RESULT,
     BEGIN TURN("get", "city=\"Oslo\", days=3") "<|observation|>[\n[22<|assistant|>"},
    {SAID("\"Let me see.\"", CALL("get", "{}")),
     BEGIN "<|assistant|>[\n[Let me see." TURN("get", "") "<|assistant|>"},
    {SAID("\"\"", CALL("a", "{\\\"x\\\": null}") "," CALL("b", "{\\\"y\\\": true}")) RESULT RESULT,
     BEGIN TURN("a", "x=None")
         TURN("b", "y=True") "<|observation|>[\n[22<|observation|>[\n[22<|assistant|>"},
    {SAID("null", CALL("f", "{\\\"o\\\":{\\\"k\\\":[false,1.5,\\\"\\u00e9'\\\\\\\"\\\\n\\\"],"
                            "\\\"\\\":{}},\\\"l\\\":[]}")),
     BEGIN TURN("f",
                "o={\"k\": [False, 1.5, \"\xc3\xa9'\\\"\\n\"], \"\": {}}, l=[]") "<|assistant|>"},
    {SAID("null",
          "{\"id\":\"c\",\"type\":\"custom\",\"custom\":{\"name\":\"p\",\"input\":\"a\\n\"}}"),
     BEGIN TURN("p", "input=\"a\\n\"") "<|assistant|>"},
    /* Without calls it is a text as any other. */
    {SAID("\"b\"", ""), BEGIN "<|assistant|>[\n[b<|assistant|>"},
};

START_TEST(calls_are_turns_of_their_own) {
    char *shown = render(cases[_i].messages, "");
    ck_assert_msg(shown && strcmp(shown, cases[_i].prompt) == 0, "%s, not %s: %s", shown,
                  cases[_i].prompt, error.text);
    free(shown);
}
END_TEST

static const struct {
    const char *messages, *end, *field;
} bad[] = {
    {SAID("null", CALL("get", "[]")), "", "messages[1].tool_calls[0]"},
    {SAID("null", CALL("get", "{}") "," CALL("get", "{")), "", "messages[1].tool_calls[1]"},
    {RESULT SAID("null", CALL("", "{}")), "", "messages[2].tool_calls[0]"},
    {SAID("null", "{\"id\":\"c\"}"), "", "messages[1].tool_calls[0]"},
    {SAID("\"a\"", CALL("get", "{}")), ",\"continue_final_message\":true",
     "continue_final_message"},
};

START_TEST(a_call_that_cannot_be_shown_is_named) {
    char *shown = render(bad[_i].messages, bad[_i].end);
    ck_assert_msg(!shown && strcmp(error.field, bad[_i].field) == 0, "%s: `%s`: %s", shown,
                  error.field, error.text);
    free(shown);
}
END_TEST

/* As in the lists that the model was trained with: without what stands around a function elsewhere. */
START_TEST(tools_are_told_as_functions) {
    static const char list[] = "\n[\n    {\n        \"name\": \"get\"\n    },\n    {\n"
                               "        \"name\": \"b\"\n    }\n]<|user|>[\n[a<|assistant|>";
    char *shown = render("", ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"get\"}},"
                             "{\"name\":\"b\"}]");
    ck_assert_ptr_nonnull(shown);
    ck_assert_msg(strstr(shown, "access to the following tools:") && strstr(shown, list), "%s",
                  shown);
    free(shown);
    shown = render("", ",\"tools\":[]");
    ck_assert_str_eq(shown, BEGIN "<|assistant|>");
    free(shown);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, calls_are_turns_of_their_own, 0, sizeof cases / sizeof *cases);
    tcase_add_loop_test(tests, a_call_that_cannot_be_shown_is_named, 0, sizeof bad / sizeof *bad);
    tcase_add_test(tests, tools_are_told_as_functions);
}
