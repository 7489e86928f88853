/* What formats of calls are recognised by, what may stand beside their calls, and what becomes of schemas and names in them. */
#include "base/random.h"
#include "router/api/tools_parameters.h"
#include "tests/unit/router/api/tool_rig.h"

const char *const suite_name = "router_api_tool_cases";
const double suite_timeout_s = 60;

#define TOOL(name, strict, parameters)                                                             \
    "{\"type\":\"function\",\"function\":{\"name\":\"" name "\",\"strict\":" strict                \
    ",\"parameters\":" parameters "}}"
#define OBJECT(properties, more) "{\"type\":\"object\",\"properties\":{" properties "}" more "}"

static const char some_tools[] =
    TOOL("get", "false", OBJECT("\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\",\"maximum\":9}", ",\"required\":[\"city\",\"days\"]")) "," TOOL(
        "set.x", "false",
        OBJECT(
            "\"name\":{\"type\":\"string\"},\"mode\":{\"enum\":[\"a\",\"bee\"]}",
            ",\"required\":[\"name\"]")) "," TOOL("get_it", "false",
                                                  OBJECT(
                                                      "",
                                                      "")) "," TOOL("deep", "false",
                                                                    OBJECT(
                                                                        "\"o\":{\"$ref\":\"#/$defs/"
                                                                        "o\"},\"c\":{\"$ref\":\"#/"
                                                                        "$defs/c\"}",
                                                                        ",\"$defs\":{\"o\":{"
                                                                        "\"type\":\"object\","
                                                                        "\"properties\":{\"k\":{"
                                                                        "\"type\":[\"string\","
                                                                        "\"null\"]}}},\"c\":{"
                                                                        "\"type\":\"string\","
                                                                        "\"enum\":[\"red\"]}}"));

/* What real templates have, shortened, and what only resembles it. */
static const struct recognised {
    const char *text, *name;
} recognised[] = {
    {"<tool_call>\n{\"name\": \"' + name + '\", \"arguments\": ' + x + '}\n</tool_call>", "hermes"},
    {"<tool_call>\n<function=' + name + '>\n<parameter=' + k + '>\\n' + v + '\\n</parameter>\n"
     "</function>\n</tool_call>",
     "qwen3-coder"},
    {"<seed:tool_call>\n<function=' + name + '>\n<parameter=' + k + '>' + v + '</parameter>", NULL},
    {"<tool_call>' + name + '\n<arg_key>' + k + '</arg_key>\n</tool_call>", NULL},
    {"<tool_call></tool_call> <tool_calls>[{\"name\": , \"arguments\": }]</tool_calls>", NULL},
    {"[TOOL_CALLS][' + (call.function | tojson)[:-1] + ', \"id\": \"' + call.id", "mistral-list"},
    {"[TOOL_CALLS]' + name + '[CALL_ID]' + id + '[ARGS]' + arguments", "mistral-id"},
    {"[TOOL_CALLS]' + name + '[ARGS]' + arguments", "mistral"},
    {"[TOOL_RESULTS]' + content + '[ARGS]", NULL},
    {"<|eot_id|> ipython '{\"name\": \"' + name + '\", \"parameters\": ' + x + '}'", "llama3"},
    {"<|eot_id|> '{\"name\": \"' + name + '\", \"parameters\": ' + x + '}'", NULL},
    {"<|assistant|>' + name + '\n```python\ntool_call(' + x + ')\n```<|observation|>", "chatglm3"},
    {"<|assistant|>' + name + '\n' + arguments + '<|observation|>", NULL},
    {"<|eot_id|> ipython <function=' + name + '>{\"name\": \"parameters\": }", NULL},
    {"", NULL},
};

START_TEST(a_template_says_its_format) {
    for (size_t i = 0; i < sizeof recognised / sizeof *recognised; i++) {
        const struct tool_format *format = tool_format_of(span_of(recognised[i].text));
        const char *name = recognised[i].name;
        ck_assert_msg(!format == !name && (!name || strcmp(format->name, name) == 0), "%s: %s",
                      recognised[i].text, format ? format->name : "none");
    }
}
END_TEST

/* What of a call is only read past, and what may not stand there. */
static const struct variant {
    const char *format, *text;
    bool fits;
} variants[] = {
    {"mistral-list", "[TOOL_CALLS] [{\"name\": \"get_it\", \"arguments\": {}}]", true},
    {"mistral-list", "[TOOL_CALLS][{\"name\": \"get_it\", \"arguments\": {}}]", true},
    {"mistral-list", "[TOOL_CALLS]  [{\"name\": \"get_it\", \"arguments\": {}}]", false},
    {"mistral-list",
     "[TOOL_CALLS][{\"name\": \"get_it\", \"arguments\": {}, \"id\": \"abcdefgh1\"}]", true},
    {"mistral-list",
     "[TOOL_CALLS][{\"name\": \"get_it\", \"arguments\": {}, \"id\": \"abcdefgh\"}]", false},
    {"mistral-list",
     "[TOOL_CALLS][{\"name\": \"get_it\", \"arguments\": {}, \"id\": \"abcdefgh12\"}]", false},
    {"mistral-list", "[TOOL_CALLS][]", false},
    {"mistral-list", "[TOOL_CALLS][{\"name\": \"get_it\", \"arguments\": {}}, ]", false},
    {"mistral", "[TOOL_CALLS]get_it[ARGS]{}[TOOL_CALLS]get_it[ARGS]{}", true},
    {"mistral", "[TOOL_CALLS]get_it[CALL_ID]abcdefgh1[ARGS]{}", false},
    {"mistral", "[TOOL_CALLS]get_it{}", false},
    {"mistral-id", "[TOOL_CALLS]get_it[CALL_ID]abcdefgh1[ARGS]{}", true},
    {"mistral-id", "[TOOL_CALLS]get_it[ARGS]{}", true},
    {"mistral-id", "[TOOL_CALLS]get_it[CALL_ID]abcdefgh[ARGS]{}", false},
    {"mistral-id", "[TOOL_CALLS]get_it[CALL_ID]abcdefgh12[ARGS]{}", false},
    {"llama3", "{\"name\": \"get_it\", \"parameters\": {}}", true},
    {"llama3", "<|python_tag|>{\"name\": \"get_it\", \"parameters\": {}}", true},
    {"llama3", "{\"name\": \"get_it\", \"parameters\": []}", false},
    {"llama3", "{\"name\": \"get_it\", \"arguments\": {}}", false},
    {"llama3", "{\"name\": \"get_it\"}", false},
    {"llama3",
     "{\"name\": \"get_it\", \"parameters\": {}}{\"name\": \"get_it\", \"parameters\": {}}", false},
    {"llama3", "{\"name\": \"get_i\", \"parameters\": []}", true},
    {"llama3", "{\"name\": \"get_it2\"}", true},
    {"llama3", "{\"name\": \"Bob\", \"age\": 7}", true},
    {"llama3", "{\"name\"", true},
    {"llama3", "{", true},
    {"llama3", "<|python_ta", true},
    {"llama3", "<|python_tag|>", false},
    {"llama3", "<|python_tag|>print(1)", false},
    {"llama3", "x {\"name\": \"get_it\"}", true},
    {"llama3", "\n\xc3\xa9", true},
    {"qwen3-coder", "<tool_call>\n<function=get_it>\n</function>\n</tool_call>", true},
    {"qwen3-coder",
     "<tool_call>\n<function=get_it>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
     false},
    {"qwen3-coder",
     "<tool_call>\n<function=get>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n</"
     "parameter>\n</function>\n</tool_call>",
     true},
    {"qwen3-coder",
     "<tool_call>\n<function=get>\n<parameter=days>\n3\n</parameter>\n<parameter=city>\nParis\n</"
     "parameter>\n</function>\n</tool_call>",
     false},
    {"qwen3-coder",
     "<tool_call>\n<function=get>\n<parameter=city>\nParis\n</parameter>\n</function>\n</"
     "tool_call>",
     false},
    {"qwen3-coder",
     "<tool_call>\n<function=get>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n10\n</"
     "parameter>\n</function>\n</tool_call>",
     false},
    {"qwen3-coder",
     "<tool_call>\n<function=get>\n<parameter=city>\n\n</parameter>\n<parameter=days>\n3\n</"
     "parameter>\n</function>\n</tool_call>",
     true},
    {"qwen3-coder",
     "<tool_call>\n<function=set.x>\n<parameter=name>\na\n</parameter>\n</function>\n</tool_call>",
     true},
    {"qwen3-coder",
     "<tool_call>\n<function=set.x>\n<parameter=name>\na\n</parameter>\n<parameter=mode>\nbee\n</"
     "parameter>\n</function>\n</tool_call>",
     true},
    {"qwen3-coder",
     "<tool_call>\n<function=set.x>\n<parameter=name>\na\n</parameter>\n<parameter=mode>\nbe\n</"
     "parameter>\n</function>\n</tool_call>",
     false},
    {"qwen3-coder",
     "<tool_call>\n<function=set.x>\n<parameter=name>\na\n</parameter>\n<parameter=name>\na\n</"
     "parameter>\n</function>\n</tool_call>",
     false},
    {"qwen3-coder",
     "<tool_call>\n<function=deep>\n<parameter=o>\n{\"k\": "
     "null}\n</parameter>\n<parameter=c>\nred\n</parameter>\n</function>\n</tool_call>",
     true},
    {"qwen3-coder",
     "<tool_call>\n<function=deep>\n<parameter=o>\n{\"k\": "
     "null}\n</parameter>\n<parameter=c>\n\"red\"\n</parameter>\n</function>\n</tool_call>",
     false},
    {"qwen3-coder",
     "<tool_call>\n<function=deep>\n<parameter=o>\n{\"k\": "
     "1}\n</parameter>\n</function>\n</tool_call>",
     false},
    {"qwen3-coder",
     "<tool_call>\n<function=get_it>\n</function>\n</tool_call>\n<tool_call>\n<function=get_it>\n</"
     "function>\n</tool_call>\n",
     true},
    {"qwen3-coder",
     "<tool_call>\n<function=get_it>\n</function>\n</tool_call><tool_call>\n<function=get_it>\n</"
     "function>\n</tool_call>",
     true},
    {"qwen3-coder",
     "<tool_call>\n<function=get>\n<parameter=city>\na</parameter>\n<parameter=days>\n3\n</"
     "parameter>\n</function>\n</tool_call>",
     false},
};

START_TEST(what_a_format_lets_stand_beside) {
    const struct variant *variant = &variants[_i];
    struct ask ask;
    rig_open(tool_format_find(variant->format), some_tools, "", &ask);
    ck_assert_msg(rig_takes(&ask, variant->text) == variant->fits, "%s: %s", variant->format,
                  variant->text);
    ask_fini(&ask);
}
END_TEST

/* Names that share nothing: so many that texts are told from calls by each of them, and so many more that any name is one. */
START_TEST(many_long_names_are_served) {
    static const struct {
        int n, length;
        bool text_of_a_name;
    } cases[] = {{1, 128, true}, {40, 30, true}, {12, 128, true}, {128, 128, false}};
    char *tools = malloc(1 << 16);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct random random = {.state = i};
        struct ask ask;
        int n = 0;
        for (int tool = 0; tool < cases[i].n; tool++) {
            n += sprintf(tools + n, "%s{\"type\":\"function\",\"function\":{\"name\":\"",
                         tool > 0 ? "," : "");
            for (int at = 0; at < cases[i].length; at++)
                tools[n++] = (char)('a' + random_below(&random, 26));
            n += sprintf(tools + n, "\"}}");
        }
        rig_open(tool_format_find("llama3"), tools, "", &ask);
        ck_assert(rig_takes(&ask, "text"));
        ck_assert_int_eq(rig_takes(&ask, "{\"name\": \"Bob\"}"), cases[i].text_of_a_name);
        ask_fini(&ask);
    }
    free(tools);
}
END_TEST

/* A schema, and the parameters of a call in tags. */
#define P(name, value) "<parameter=" name ">\n" value "\n</parameter>\n"
#define CUSTOM(format) "{\"type\":\"custom\",\"name\":\"f\"" format "}"
#define OF(syntax, definition)                                                                     \
    ",\"format\":{\"type\":\"grammar\",\"syntax\":\"" syntax "\",\"definition\":\"" definition "\"}"
static const struct tagged {
    const char *tool, *parameters;
    bool fits;
} tagged[] = {
    /* Texts, and what is said of strings beside: kept where it is strict. */
    {TOOL("f", "false", OBJECT("\"a\":{\"type\":\"string\",\"pattern\":\"^x+$\"}", "")),
     P("a", "y"), true},
    {TOOL("f", "true", OBJECT("\"a\":{\"type\":\"string\",\"pattern\":\"^x+$\"}", "")), P("a", "y"),
     false},
    {TOOL("f", "true", OBJECT("\"a\":{\"type\":\"string\",\"pattern\":\"^x+$\"}", "")),
     P("a", "\"y\""), false},
    {TOOL("f", "true", OBJECT("\"a\":{\"type\":\"string\",\"pattern\":\"^x+$\"}", "")),
     P("a", "\"xx\""), true},
    {TOOL("f", "true", OBJECT("\"a\":{\"type\":\"string\",\"maxLength\":2}", "")),
     P("a", "\"xxx\""), false},
    {TOOL("f", "true", OBJECT("\"a\":{\"type\":\"string\",\"maxLength\":2}", "")), P("a", "\"xx\""),
     true},
    {TOOL("f", "true", OBJECT("\"a\":{\"type\":\"string\",\"description\":\"d\"}", "")),
     P("a", "\"x"), true},
    /* Their lists. */
    {TOOL("f", "true", OBJECT("\"a\":{\"const\":\"one\"}", "")), P("a", "one"), true},
    {TOOL("f", "true", OBJECT("\"a\":{\"const\":\"one\"}", "")), P("a", "two"), false},
    {TOOL("f", "true", OBJECT("\"a\":{\"enum\":[\"x\",1]}", "")), P("a", "x"), false},
    {TOOL("f", "true", OBJECT("\"a\":{\"enum\":[\"x\",1]}", "")), P("a", "\"x\""), true},
    {TOOL("f", "true", OBJECT("\"a\":{\"enum\":[\"x\",1]}", "")), P("a", "1"), true},
    {TOOL("f", "true", OBJECT("\"a\":{\"enum\":[\"\",\"x\"]}", "")), P("a", "\"\""), true},
    {TOOL("f", "true", OBJECT("\"a\":{\"enum\":[\"\\n</parameter>\"]}", "")),
     P("a", "\"\\n</parameter>\""), true},
    {TOOL("f", "true", OBJECT("\"a\":{\"type\":\"integer\",\"enum\":[1,2]}", "")), P("a", "2"),
     true},
    /* Others are JSON. */
    {TOOL("f", "true", OBJECT("\"a\":{\"type\":[\"string\",\"null\"]}", "")), P("a", "null"), true},
    {TOOL("f", "true", OBJECT("\"a\":{\"type\":[\"string\",\"null\"]}", "")), P("a", "x"), false},
    {TOOL("f", "true", OBJECT("\"a\":{}", "")), P("a", "[1, {}]"), true},
    {TOOL("f", "true", OBJECT("\"a\":true", "")), P("a", "\"x\""), true},
    {TOOL("f", "true",
          OBJECT("\"a\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/definitions/i\"}}",
                 ",\"definitions\":{\"i\":{\"type\":\"integer\"}}")),
     P("a", "[1]"), true},
    {TOOL("f", "true",
          OBJECT("\"a\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/definitions/i\"}}",
                 ",\"definitions\":{\"i\":{\"type\":\"integer\"}}")),
     P("a", "[true]"), false},
    /* The object, which a reference may name; what must come, and what is no property. */
    {TOOL("f", "true",
          "{\"$ref\":\"#/$defs/o\",\"$defs\":{\"o\":" OBJECT("\"a\":{\"type\":\"string\"}",
                                                             ",\"required\":[\"a\"]") "}}"),
     P("a", "x"), true},
    {TOOL("f", "true",
          "{\"$ref\":\"#/$defs/o\",\"$defs\":{\"o\":" OBJECT("\"a\":{\"type\":\"string\"}",
                                                             ",\"required\":[\"a\"]") "}}"),
     "", false},
    {TOOL("f", "true", OBJECT("\"a\":{\"type\":\"string\"}", ",\"required\":[\"b\"]")), P("a", "x"),
     false},
    {TOOL("f", "true", OBJECT("\"a\":{\"type\":\"string\"}", ",\"required\":[\"b\"]")),
     P("a", "x") P("b", "{}"), true},
    {TOOL("f", "true", OBJECT("", ",\"required\":[\"b\",\"b\"]")), P("b", "1"), true},
    {TOOL("f", "true", OBJECT("\"\":{\"type\":\"string\"}", "")), "", true},
    {TOOL("f", "false", "{\"$ref\":\"#/$defs/o\",\"$defs\":{\"o\":{\"$ref\":\"#/$defs/o\"}}}"), "",
     true},
    {"{\"type\":\"function\",\"function\":{\"name\":\"f\"}}", "", true},
    /* Custom tools: any text as it is, one of a grammar as JSON. */
    {CUSTOM(""), P("input", "any \"text\"\\n\n</param>"), true},
    {CUSTOM(""), P("input", ""), true},
    {CUSTOM(""), "", false},
    {CUSTOM(""), P("other", "a"), false},
    {CUSTOM(""), P("input", "a") P("input", "a"), false},
    {CUSTOM(OF("regex", "ab{1,2}")), P("input", "\"ab\""), true},
    {CUSTOM(OF("regex", "ab{1,2}")), P("input", "\"abb\""), true},
    {CUSTOM(OF("regex", "ab{1,2}")), P("input", "\"abbb\""), false},
    {CUSTOM(OF("regex", "ab{1,2}")), P("input", "ab"), false},
    {CUSTOM(OF("lark", "start: \\\"a\\\" /b\\\\n/")), P("input", "\"ab\\n\""), true},
    {CUSTOM(OF("lark", "start: \\\"a\\\" /b\\\\n/")), P("input", "\"ab\n\""), false},
};

START_TEST(schemas_become_parameters) {
    struct ask ask;
    char text[512];
    rig_open(tool_format_find("qwen3-coder"), tagged[_i].tool, "", &ask);
    snprintf(text, sizeof text, "<tool_call>\n<function=f>\n%s</function>\n</tool_call>",
             tagged[_i].parameters);
    ck_assert_msg(rig_takes(&ask, text) == tagged[_i].fits, "%s: %s", tagged[_i].tool, text);
    ask_fini(&ask);
}
END_TEST

/* What is said of the object, and cannot be kept. */
START_TEST(strict_objects_are_kept_or_refused) {
    static const struct {
        const char *tool;
        enum status status;
    } cases[] = {
        {TOOL("f", "true", OBJECT("", ",\"minProperties\":1")), STATUS_UNSUPPORTED},
        {TOOL("f", "true", OBJECT("", ",\"anyOf\":[{}]")), STATUS_UNSUPPORTED},
        {TOOL("f", "true", OBJECT("", ",\"$ref\":\"#/$defs/o\"")), STATUS_UNSUPPORTED},
        {TOOL("f", "true", "{\"type\":\"array\"}"), STATUS_UNSUPPORTED},
        {TOOL("f", "false", OBJECT("", ",\"minProperties\":1")), STATUS_OK},
        {TOOL("f", "true", OBJECT("", ",\"additionalProperties\":true,\"title\":\"t\"")),
         STATUS_OK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ask ask;
        struct api_error error;
        enum status status =
            rig_parse(tool_format_find("qwen3-coder"), cases[i].tool, "", &ask, &error);
        ck_assert_msg(status == cases[i].status, "%s: %s: %s", cases[i].tool, status_name(status),
                      error.error.text);
        if (status != STATUS_OK)
            ck_assert_str_eq(error.error.field, "tools");
        ask_fini(&ask);
    }
}
END_TEST

/* Each of them, in formats that take a schema apart, in a strict one. */
START_TEST(what_is_for_readers_says_nothing_of_values) {
    static const char *const told[] = {"title",    "description", "default",  "examples",
                                       "$comment", "deprecated",  "readOnly", "writeOnly"};
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        char tool[512];
        struct ask ask;
        snprintf(
            tool, sizeof tool,
            "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":true,"
            "\"parameters\":{\"%s\":1,\"properties\":{\"a\":{\"type\":\"string\",\"%s\":1}}}}}",
            told[i], told[i]);
        rig_open(tool_format_find("qwen3-coder"), tool, "", &ask);
        ck_assert_msg(rig_takes(&ask, "<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n"
                                      "</function>\n</tool_call>"),
                      "%s", tool);
        ask_fini(&ask);
        rig_open(tool_format_find("chatglm3"), tool, "", &ask);
        ck_assert_msg(rig_takes(&ask, "f\n```python\ntool_call(a='x')\n```"), "%s", tool);
        ask_fini(&ask);
        rig_open(tool_format_find("hermes"), tool, "", &ask);
        ck_assert_ptr_null(
            memmem(ask.sampling.grammar, ask.sampling.n_grammar, told[i], strlen(told[i])));
        ask_fini(&ask);
    }
}
END_TEST

START_TEST(parameters_in_tags_are_bounded) {
    static const struct {
        int n;
        enum status status;
    } cases[] = {{TOOLS_PARAMETERS_MAX, STATUS_OK},
                 {TOOLS_PARAMETERS_MAX + 1, STATUS_INVALID},
                 {2000, STATUS_INVALID}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ask ask;
        struct api_error error;
        enum status status = rig_parse_many("qwen3-coder", cases[i].n, "false", &ask, &error);
        ck_assert_msg(status == cases[i].status, "%d: %s: %s", cases[i].n, status_name(status),
                      error.error.text);
        if (status != STATUS_OK)
            ck_assert_str_eq(error.error.field, "tools");
        ask_fini(&ask);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_template_says_its_format);
    tcase_add_loop_test(tests, what_a_format_lets_stand_beside, 0,
                        sizeof variants / sizeof *variants);
    tcase_add_test(tests, what_is_for_readers_says_nothing_of_values);
    tcase_add_test(tests, many_long_names_are_served);
    tcase_add_loop_test(tests, schemas_become_parameters, 0, sizeof tagged / sizeof *tagged);
    tcase_add_test(tests, strict_objects_are_kept_or_refused);
    tcase_add_test(tests, parameters_in_tags_are_bounded);
}
