/* Tools and calls of any kind, as templates get them. */
#include "model/text/template/template_tools.h"

#include "base/json/json_get.h"
#include "model/text/template/template_request.h"
#include "tests/support/suite.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "model_template_tools";
const double suite_timeout_s = 60;

#define HEAD   "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}"
#define USER   HEAD "],\"tools\":["
#define SAID   HEAD ",{\"role\":\"assistant\",\"content\":null,\"tool_calls\":["
#define BEHIND "]}]}"

/* The request's list, as the template sees it: of tools, or of the second message's calls. */
static void expect(const char *body, bool of_calls, const char *wanted) {
    struct template_request request;
    struct error error;
    json_t *object;
    ck_assert_int_eq(json_get_parse(body, strlen(body), &object, &error), STATUS_OK);
    ck_assert_int_eq(template_request_read(object, true, &request, &error), STATUS_OK);
    const json_t *message = json_array_get(request.input.json_messages, 1);
    const json_t *list = of_calls ? json_object_get(message, "tool_calls") : request.input.tools;
    char *got = json_dumps(list, JSON_COMPACT);
    ck_assert_msg(wanted ? got && strcmp(got, wanted) == 0 : !list, "%s, not %s", got, wanted);
    free(got);
    template_request_fini(&request);
    json_decref(object);
}

START_TEST(hosted_tools_reach_no_template) {
    expect(USER
           "{\"type\":\"mcp\"},{\"type\":\"function\",\"x\":1},{\"type\":\"web_search\"},{\"y\":2},"
           "{\"type\":\"computer_use_preview\",\"name\":\"c\"},{\"type\":\"functions\"}]}",
           false, "[{\"type\":\"function\",\"x\":1},{\"y\":2}]");
    /* Where no other is left, there are none. */
    expect(USER "{\"type\":\"bash_20250124\"}]}", false, NULL);
    expect(USER "{\"type\":\"namespace\"},{\"type\":\"tool_search\"}]}", false, NULL);
    /* What has no type that is a name stays as it is, and so does a list without hosted ones. */
    expect(USER "{\"type\":\"\"},{\"type\":3}]}", false, "[{\"type\":\"\"},{\"type\":3}]");
    expect(USER "]}", false, "[]");
}
END_TEST

#define FUNCTION(name, more)                                                                       \
    "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"," more                             \
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"input\":{\"type\":\"string\""
#define END "}},\"required\":[\"input\"]}}}"

START_TEST(custom_tools_are_functions_of_a_text) {
    expect(
        USER
        "{\"type\":\"custom\",\"custom\":{\"name\":\"a\",\"description\":\"does\"}},"
        "{\"type\":\"custom\",\"name\":\"b\",\"format\":{\"type\":\"text\"}},{\"type\":\"mcp\"}]}",
        false, "[" FUNCTION("a", "\"description\":\"does\",") END "," FUNCTION("b", "") END "]");
    expect(USER "{\"type\":\"custom\",\"custom\":{\"name\":\"a\",\"format\":{\"type\":\"grammar\","
                "\"grammar\":{\"syntax\":\"lark\",\"definition\":\"start: \\\"x\\\"\"}}}}]}",
           false,
           "[" FUNCTION("a", "") ",\"description\":\"A text of this grammar, in Lark's notation:\\n"
                                 "start: \\\"x\\\"\"" END "]");
    expect(
        USER "{\"type\":\"custom\",\"name\":\"b\",\"format\":{\"type\":\"grammar\",\"syntax\":"
             "\"regex\",\"definition\":\"[0-9]\\u0000\"}}]}",
        false,
        "[" FUNCTION("b", "") ",\"description\":\"A text that this regular expression matches:\\n"
                              "[0-9]\\u0000\"" END "]");
}
END_TEST

START_TEST(calls_of_custom_tools_are_calls_of_functions) {
    expect(
        SAID
        "{\"id\":\"c1\",\"type\":\"custom\",\"custom\":{\"name\":\"f\",\"input\":\"a\\n\\\"b\\u0000"
        "\"}},"
        "{\"id\":\"c2\",\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}"
        "}" BEHIND,
        true,
        "[{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
        "\"{\\\"input\\\": \\\"a\\\\n\\\\\\\"b\\\\u0000\\\"}\"}},"
        "{\"id\":\"c2\",\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}"
        "]");
    expect(SAID "{\"type\":\"custom\",\"custom\":{\"name\":\"f\",\"input\":\"\"}}" BEHIND, true,
           "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"input\\\": "
           "\\\"\\\"}\"}}]");
    expect(SAID "{\"type\":\"custom\",\"custom\":3},{\"custom\":{}}" BEHIND, true,
           "[{\"type\":\"custom\",\"custom\":3},{\"custom\":{}}]");
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, hosted_tools_reach_no_template);
    tcase_add_test(tests, custom_tools_are_functions_of_a_text);
    tcase_add_test(tests, calls_of_custom_tools_are_calls_of_functions);
}
