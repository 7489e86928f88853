/* Calls as ChatGLM3 writes them: turns of their own, with arguments in Python, of which a client gets JSON. */
#include "router/api/tool_reader.h"
#include "router/api/tools_parameters.h"
#include "tests/unit/router/api/tool_rig.h"

const char *const suite_name = "router_api_tools_python";
const double suite_timeout_s = 60;

#define TOOL_OF(name)                                                                              \
    "{\"type\":\"function\",\"function\":{\"name\":\"" name "\",\"parameters\":{\"properties\":{"
static const char some_tools[] = TOOL_OF(
    "get") "\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\",\"maximum\":9}},"
           "\"required\":[\"city\",\"days\"]}}}," TOOL_OF(
               "set.x") "\"name\":{\"type\":\"string\"},\"mode\":{\"enum\":[\"a\",\"bee\"]}},"
                        "\"required\":[\"name\"]}}}," TOOL_OF("get_it") "}}}}," TOOL_OF(
                            "deep") "\"o\":{\"$ref\":\"#/$defs/o\"},\"c\":{\"$ref\":\"#/$defs/"
                                    "c\"}},"
                                    "\"$defs\":{\"o\":{\"type\":\"object\",\"properties\":{\"k\":{"
                                    "\"type\":[\"string\",\"null\"]}}},"
                                    "\"c\":{\"type\":\"string\",\"enum\":[\"red\"]}}}}}";

/* Arguments of a call, in ChatGLM3's format. */
#define PYTHON(name, arguments) name "\n```python\ntool_call(" arguments ")\n```"
static const struct turn {
    const char *text;
    bool fits;
} turns[] = {
    {PYTHON("get_it", ""), true},
    {" get_it\n ```python\ntool_call()\n```", true},
    {"  get_it\n```python\ntool_call()\n```", false},
    {"get_it\n  ```python\ntool_call()\n```", false},
    {"get_it\n```\ntool_call()\n```", false},
    {"<|assistant|>" PYTHON("get_it", ""), false},
    {"\n", true},
    {" \nHello", true},
    {"Hello", false},
    {"get_it", false},
    {"\n" PYTHON("get_it", ""), true}, /* a text that only looks like a call */
    {"\nHello<|assistant|> " PYTHON("get_it", ""), true},
    {"\nHello<|assistant|>\nyou", false},
    {"\nHello<|assistant|>", false},
    {PYTHON("get_it", "") "<|assistant|>" PYTHON("get_it", ""), false},
    {PYTHON("get_it", "a=1"), false},
    {PYTHON("get", "city='Paris', days=3"), true},
    {PYTHON("get", "city=\"Paris\", days=3"), true},
    {PYTHON("get", "city='a\"b\\'\\\\\\n', days=3"), true},
    {PYTHON("get", "city=\"it's\", days=3"), true},
    {PYTHON("get", "city='it's', days=3"), false},
    {PYTHON("get", "city='a\nb', days=3"), false},
    {PYTHON("get", "city='\\x41', days=3"), false},
    {PYTHON("get", "city='Paris\", days=3"), false},
    {PYTHON("get", "city='Paris', days=10"), false},
    {PYTHON("get", "city='Paris',days=3"), false},
    {PYTHON("get", "days=3, city='Paris'"), false},
    {PYTHON("get", "city='Paris'"), false},
    {PYTHON("get", "city='Paris', days=3, "), false},
    {PYTHON("get", "'Paris', days=3"), false},
    {PYTHON("set.x", "name='a'"), true},
    {PYTHON("set.x", "name='a', mode='bee'"), true},
    {PYTHON("set.x", "name='a', mode=\"bee\""), true},
    {PYTHON("set.x", "name='a', mode='be'"), false},
    {PYTHON("deep", "o={\"k\": null}, c='red'"), true},
    {PYTHON("deep", "o={\"k\": null}"), true},
    {PYTHON("deep", "c='red'"), true},
    {PYTHON("deep", ""), true},
    {PYTHON("deep", ", c='red'"), false},
    {PYTHON("deep", "o={\"k\": 1}"), false},
};

START_TEST(what_a_turn_may_be) {
    struct ask ask;
    rig_open(tool_format_find("chatglm3"), some_tools, "", &ask);
    ck_assert_msg(rig_takes(&ask, turns[_i].text) == turns[_i].fits, "%s", turns[_i].text);
    ask_fini(&ask);
}
END_TEST

/* A schema of one parameter `a` that need not come, what may stand in its place, and what a client gets of it; NULL: it is not taken. */
static const struct literal {
    const char *schema, *strict, *literal, *json;
} literals[] = {
    {"{\"type\":\"boolean\"}", "false", "True", "true"},
    {"{\"type\":\"boolean\"}", "false", "true", NULL},
    {"{\"type\":[\"string\",\"null\"]}", "true", "None", "null"},
    {"{\"type\":[\"string\",\"null\"]}", "true", "'\\'x\"'", "\"'x\\\"\""},
    {"{\"type\":[\"string\",\"null\"]}", "true", "\"\\u00e9'\"", "\"\\u00e9'\""},
    {"{\"type\":[\"string\",\"null\"]}", "true", "False", NULL},
    {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"null\"}],\"default\":null}", "false", "None",
     "null"},
    {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"null\"}]}", "true", "-70", "-70"},
    {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"null\"}]}", "true", "'7'", NULL},
    {"{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"array\",\"items\":{\"type\":\"string\"}}]}",
     "false", "[\"T'F\", \"N\"]", "[\"T'F\", \"N\"]"},
    {"{\"enum\":[\"it's\",true,null,-3]}", "true", "'it\\'s'", "\"it's\""},
    {"{\"enum\":[\"it's\",true,null,-3]}", "true", "\"it's\"", "\"it's\""},
    {"{\"enum\":[\"it's\",true,null,-3]}", "true", "True", "true"},
    {"{\"enum\":[\"it's\",true,null,-3]}", "true", "None", "null"},
    {"{\"enum\":[\"it's\",true,null,-3]}", "true", "-3", "-3"},
    {"{\"enum\":[\"it's\",true,null,-3]}", "true", "3", NULL},
    {"{\"enum\":[1.5,[\"x\"]]}", "true", "[\"x\"]", "[\"x\"]"},
    {"{\"enum\":[1.5,[\"x\"]]}", "true", "1.5", "1.5"},
    {"{\"type\":\"string\",\"enum\":[\"x\",7]}", "false", "\"x\"", "\"x\""},
    {"{\"type\":\"string\",\"enum\":[\"x\",7]}", "false", "7", NULL},
    {"{\"type\":\"integer\",\"enum\":[7,8]}", "false", "8", "8"},
    {"{\"const\":\"a\\\"b\"}", "false", "'a\"b'", "\"a\\\"b\""},
    {"{\"const\":null}", "false", "None", "null"},
    {"{\"const\":null}", "false", "True", NULL},
    /* Of which more is said: kept, as JSON. */
    {"{\"type\":\"string\",\"pattern\":\"^x+$\"}", "false", "\"xx\"", "\"xx\""},
    {"{\"type\":\"string\",\"pattern\":\"^x+$\"}", "false", "'xx'", NULL},
    {"{\"type\":\"string\",\"pattern\":\"^x+$\"}", "true", "\"y\"", NULL},
    {"{\"type\":\"string\",\"maxLength\":2,\"title\":\"t\"}", "true", "\"xxx\"", NULL},
    {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"boolean\"}}", "true",
     "{\"True\": true, \"None\": false}", "{\"True\": true, \"None\": false}"},
    /* Of which nothing is said. */
    {"{}", "false", "[1, \"'\"]", "[1, \"'\"]"},
    {"{\"$ref\":\"#/$defs/a\"}", "true", "False", "false"},
    {"{\"$ref\":\"#/$defs/a\"}", "true", "'x'", NULL},
};

START_TEST(literals_become_json) {
    const struct literal *of = &literals[_i];
    char tool[512], text[256], said[256], got[256] = "";
    struct ask ask;
    snprintf(tool, sizeof tool,
             "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":%s,\"parameters\":{"
             "\"properties\":{\"a\":%s},\"$defs\":{\"a\":{\"type\":\"boolean\"}}}}}",
             of->strict, of->schema);
    snprintf(text, sizeof text, PYTHON("f", "a=%s"), of->literal);
    snprintf(said, sizeof said, "{\"a\": %s}", of->json ? of->json : "");
    rig_open(tool_format_find("chatglm3"), tool, "", &ask);
    ck_assert_msg(rig_takes(&ask, text) == (of->json != NULL), "%s: %s", of->schema, text);
    for (size_t step = 1; of->json && step < 4; step++) {
        struct tool_reader *reader;
        uint32_t n;
        got[0] = '\0';
        ck_assert_int_eq(tool_reader_new(&ask, &reader), STATUS_OK);
        for (size_t at = 0, length = strlen(text); at < length; at += step)
            ck_assert_int_eq(
                tool_reader_push(reader,
                                 (struct span){text + at, length - at < step ? length - at : step},
                                 at + step >= length),
                STATUS_OK);
        const struct tool_piece *pieces = tool_reader_pieces(reader, &n);
        for (uint32_t i = 0; i < n; i++)
            if (pieces[i].kind == TOOL_PIECE_ARGUMENTS)
                strncat(got, tool_reader_text(reader, &pieces[i]).bytes, pieces[i].n);
        ck_assert_msg(strcmp(got, said) == 0 && !tool_reader_is_open(reader), "%s: %s, not %s",
                      text, got, said);
        tool_reader_free(reader);
    }
    ask_fini(&ask);
}
END_TEST

/* Any of the arguments may be left out, and commas stand between the others. */
START_TEST(arguments_that_may_come_are_parted_by_commas) {
    for (unsigned must = 0; must < 32; must++) {
        char tool[1024] = TOOL_OF("f"), required[128] = "";
        struct ask ask;
        for (int i = 0; i < 5; i++) {
            snprintf(tool + strlen(tool), sizeof tool - strlen(tool),
                     "%s\"p%d\":{\"type\":\"integer\"}", i > 0 ? "," : "", i);
            if (must >> i & 1)
                snprintf(required + strlen(required), sizeof required - strlen(required),
                         "%s\"p%d\"", required[0] ? "," : "", i);
        }
        snprintf(tool + strlen(tool), sizeof tool - strlen(tool), "},\"required\":[%s]}}}",
                 required);
        rig_open(tool_format_find("chatglm3"), tool, "", &ask);
        for (unsigned some = 0; some < 32; some++) {
            char arguments[128] = "", text[256];
            for (int i = 0; i < 5; i++)
                if (some >> i & 1)
                    sprintf(arguments + strlen(arguments), "%sp%d=%d", arguments[0] ? ", " : "", i,
                            i);
            snprintf(text, sizeof text, PYTHON("f", "%s"), arguments);
            ck_assert_msg(rig_takes(&ask, text) == ((some & must) == must), "%s of %s", text,
                          required);
        }
        ask_fini(&ask);
    }
}
END_TEST

/* What has more parameters than are written one by one takes arguments of any name, but where it is strict. */
START_TEST(arguments_are_any_where_schemas_are_too_long) {
    static const int n_all[] = {20, TOOLS_PARAMETERS_MAX, TOOLS_PARAMETERS_MAX + 1, 2000};
    for (size_t i = 0; i < sizeof n_all / sizeof *n_all; i++) {
        const bool is_any = i > 0;
        struct ask ask;
        struct api_error error;
        ck_assert_msg(rig_parse_many("chatglm3", n_all[i], "false", &ask, &error) == STATUS_OK,
                      "%d: %s", n_all[i], error.error.text);
        ck_assert(rig_takes(&ask, PYTHON("f", "p0='x', p19=\"y\"")));
        ck_assert(rig_takes(&ask, PYTHON("f", "")));
        ck_assert_int_eq(rig_takes(&ask, PYTHON("f", "other=None, p3=[1, {}], b=True")), is_any);
        ck_assert(!rig_takes(&ask, PYTHON("f", "p0='x' p19=\"y\"")));
        ask_fini(&ask);
        enum status status = rig_parse_many("chatglm3", n_all[i], "true", &ask, &error);
        ck_assert_msg(status == (is_any ? STATUS_INVALID : STATUS_OK), "%d: %s", n_all[i],
                      status_name(status));
        if (is_any)
            ck_assert_str_eq(error.error.field, "tools");
        ask_fini(&ask);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, what_a_turn_may_be, 0, sizeof turns / sizeof *turns);
    tcase_add_loop_test(tests, literals_become_json, 0, sizeof literals / sizeof *literals);
    tcase_add_test(tests, arguments_that_may_come_are_parted_by_commas);
    tcase_add_test(tests, arguments_are_any_where_schemas_are_too_long);
}
