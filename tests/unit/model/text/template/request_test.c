#include "base/buf.h"
#include "base/json/json_get.h"
#include "model/text/template/template_request.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "model_template_request";
const double suite_timeout_s = 60;

/* Shows what it gets: a message's role, content and, where they are there, its other members. */
#define MIRROR                                                                                     \
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}"                                         \
    "{% if m.tool_calls %} CALLS={{ m.tool_calls | tojson }}{% endif %}"                           \
    "{% if m.tool_call_id %} ID={{ m.tool_call_id }}{% endif %}"                                   \
    "{% if m.name %} NAME={{ m.name }}{% endif %}"                                                 \
    "{% if m.extra is defined %} EXTRA={{ m.extra }}{% endif %}"                                   \
    "{% if m.reasoning_content %} WHY={{ m.reasoning_content }}{% endif %}"                        \
    "{% if m.cache is defined %} CACHE={{ m.cache }}{% endif %}{% endfor %}"                       \
    "{% if tools %} TOOLS={{ tools | tojson }}{% endif %}"                                         \
    "{% if documents %} DOCS={{ documents[0].text }}{% endif %}"                                   \
    "{% if enable_thinking is defined %} THINK={{ enable_thinking }}{% endif %}"                   \
    "{% if reasoning_effort is defined %} EFFORT={{ reasoning_effort }}{% endif %}"                \
    "{% if add_generation_prompt %}[assistant]{% endif %}"

/* One of the built-in formats' templates: only strings. */
#define STRINGS "{% for m in messages %}<{{ m.role }}>{{ m.content + '.' }}{% endfor %}"

/* Only parts. */
#define PARTS                                                                                      \
    "{% for m in messages %}<{{ m.role }}>{% for p in m.content %}{% if p.type == 'text' %}"       \
    "{{ p.text }}|{% endif %}{% endfor %}{% endfor %}"

/* Either, as templates of today do. */
#define EITHER                                                                                     \
    "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% else %}"   \
    "{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}</{{ m.role }}>{% endfor %}"       \
    "{% if add_generation_prompt %}<assistant>{% endif %}"

static struct error error;

static void choose(struct template *chosen, const char *text, const char *family) {
    struct template_source source = {.text = {text, strlen(text)}, .family = family};
    ck_assert_int_eq(template_choose(chosen, &source, &error), STATUS_OK);
}

/* The prompt of the request in that template or family, or NULL where it is refused. */
static char *render(const char *text, const char *family, const char *body, bool opens_answer) {
    struct template chosen;
    struct template_request request = {0};
    struct template_prompt prompt;
    struct buf out;
    json_t *object = NULL;
    char *copy = NULL;
    error = (struct error){0};
    choose(&chosen, text, family);
    ck_assert_int_eq(json_get_parse(body, strlen(body), &object, &error), STATUS_OK);
    buf_init(&out, 0);
    if (template_request_read(object, opens_answer, &request, &error) == STATUS_OK &&
        template_render(&chosen, &request.input, &prompt, &error) == STATUS_OK) {
        template_prompt_text(&prompt, &out);
        copy = strndup(out.data ? out.data : "", out.n);
        ck_assert_uint_eq(strlen(copy), out.n);
        template_prompt_fini(&prompt);
    }
    buf_fini(&out);
    template_request_fini(&request);
    json_decref(object);
    template_fini(&chosen);
    return copy;
}

static void expect(const char *text, const char *family, const char *body, const char *wanted) {
    char *got = render(text, family, body, false);
    ck_assert_msg(got != NULL, "%s: refused: %s", body, error.text);
    ck_assert_str_eq(got, wanted);
    free(got);
}

static void refused(const char *text, const char *body, const char *field) {
    char *got = render(text, NULL, body, false);
    ck_assert_msg(got == NULL, "%s: accepted", body);
    ck_assert_msg(strcmp(error.field, field) == 0, "%s: names `%s`: %s", body, error.field,
                  error.text);
    free(got);
}

START_TEST(all_that_was_sent_reaches_the_template) {
    expect(MIRROR, NULL,
           "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\",\"name\":\"bob\",\"extra\":[1]},"
           "{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"because\","
           "\"tool_calls\":[{\"type\":\"function\",\"id\":\"c1\",\"function\":{\"name\":\"f\","
           "\"arguments\":\"{\\\"b\\\":1,\\\"a\\\":2}\"}}]},"
           "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"42\",\"cache\":true}],"
           "\"tools\":[{\"z\":1,\"a\":1.0}],\"documents\":[{\"text\":\"d\"}],"
           "\"chat_template_kwargs\":{\"enable_thinking\":false},\"reasoning_effort\":\"low\"}",
           "[user]hi NAME=bob EXTRA=[1]"
           "[assistant] CALLS=[{\"type\": \"function\", \"id\": \"c1\", \"function\": "
           "{\"name\": \"f\", \"arguments\": {\"b\": 1, \"a\": 2}}}] WHY=because"
           "[tool]42 ID=c1 CACHE=True TOOLS=[{\"z\": 1, \"a\": 1.0}] DOCS=d THINK=False "
           "EFFORT=low");
    /* Arguments come as text, which templates see as the object that it is, or as an object; null at the top means absent. */
    expect(
        MIRROR, NULL,
        "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"arguments\":"
        "{\"b\":1,\"a\":[]}}}]}],\"tools\":null,\"documents\":null,"
        "\"chat_template_kwargs\":null,\"reasoning_effort\":null,\"continue_final_message\":null}",
        "[assistant] CALLS=[{\"function\": {\"arguments\": {\"b\": 1, \"a\": []}}}]");
}
END_TEST

#define USER_A       "{\"role\":\"user\",\"content\":\"a\"}]"
#define KWARGS(as)   ",\"chat_template_kwargs\":{\"enable_thinking\":" as "}"
#define THINK(as)    USER_A ",\"enable_thinking\":" as
#define ANSWER(said) "{\"role\":\"assistant\"," said "}]"
#define BECAUSE(as)  "\"reasoning_content\":" as

/* A field of its own beside the variables; and what was thought, under either name that clients have for it. */
static const char *const thoughts[][2] = {
    {THINK("true"), "[user]a THINK=True"},
    {THINK("false"), "[user]a THINK=False"},
    {THINK("null") KWARGS("true"), "[user]a THINK=True"},
    {THINK("false") KWARGS("false"), "[user]a THINK=False"},
    {THINK("true") KWARGS("null"), "[user]a THINK=True"},
    {ANSWER("\"content\":\"a\",\"reasoning\":\"r\""), "[assistant]a WHY=r"},
    {ANSWER("\"content\":\"a\",\"reasoning\":\"r\"," BECAUSE("\"c\"")), "[assistant]a WHY=c"},
    {ANSWER("\"content\":\"a\",\"reasoning\":\"r\"," BECAUSE("null")), "[assistant]a WHY=r"},
    {ANSWER("\"content\":\"a\",\"reasoning\":null," BECAUSE("\"c\"")), "[assistant]a WHY=c"},
    {ANSWER("\"content\":null,\"reasoning\":\"r\""), "[assistant] WHY=r"},
    {ANSWER("\"reasoning\":\"r\""), "[assistant] WHY=r"},
    {ANSWER("\"content\":\"a\",\"reasoning\":{\"effort\":1}"), "[assistant]a"},
};

START_TEST(thoughts_are_asked_for_and_sent_back_by_either_name) {
    char body[256];
    snprintf(body, sizeof body, "{\"messages\":[%s}", thoughts[_i][0]);
    expect(MIRROR, NULL, body, thoughts[_i][1]);
}
END_TEST

START_TEST(chatml_writes_calls_behind_the_text) {
    expect("", "hash",
           "{\"messages\":[{\"role\":\"assistant\",\"content\":\"I look.\",\"tool_calls\":["
           "{\"id\":\"c1\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}},{\"name\":\"g\"}]},"
           "{\"role\":\"tool\",\"content\":\"1\"},"
           "{\"role\":\"assistant\",\"tool_calls\":[{\"name\":\"h\"}]}]}",
           "<|im_start|>assistant\nI look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": \"{}\"}"
           "\n</tool_call>\n<tool_call>\n{\"name\": \"g\"}\n</tool_call><|im_end|>\n"
           "<|im_start|>tool\n1<|im_end|>\n"
           "<|im_start|>assistant\n\n<tool_call>\n{\"name\": \"h\"}\n</tool_call><|im_end|>\n");
}
END_TEST

START_TEST(an_answer_is_opened_by_default_or_when_asked_for) {
    char *by_default =
        render(EITHER, NULL, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}", true);
    ck_assert_str_eq(by_default, "<user>a</user><assistant>");
    free(by_default);
    char *never = render(EITHER, NULL,
                         "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
                         "\"add_generation_prompt\":false}",
                         true);
    ck_assert_str_eq(never, "<user>a</user>");
    free(never);
    expect(EITHER, NULL,
           "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"add_generation_prompt\":true}",
           "<user>a</user><assistant>");
}
END_TEST

#define TWO_PARTS                                                                                  \
    "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"one\"},"         \
    "{\"type\":\"text\",\"text\":\"two\"}]}]}"

START_TEST(parts_reach_templates_that_take_them_and_others_get_text) {
    expect(EITHER, NULL, TWO_PARTS, "<user>onetwo</user>");
    expect(PARTS, NULL, TWO_PARTS, "<user>one|two|");
    expect(STRINGS, NULL, TWO_PARTS, "<user>one\ntwo.");
    expect("", "hash", TWO_PARTS, "<|im_start|>user\none\ntwo<|im_end|>\n");
    /* A filter would turn the list into Python's text for it: that is not a prompt. */
    expect("{{ messages[0].content | trim }}", NULL, TWO_PARTS, "one\ntwo");
    /* A template of parts alone gets a text as one. */
    expect(PARTS, NULL, "{\"messages\":[{\"role\":\"user\",\"content\":\"one\"}]}", "<user>one|");
    /* A role that no probe can show (these calls want their arguments as text) goes
     * with the user. */
    expect(
        "{% for m in messages %}{% for c in m.tool_calls %}{{ '' + c.function.arguments }}"
        "{% endfor %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
        "{{ p.text }}{% endfor %}{% endif %}{% endfor %}",
        NULL,
        "{\"messages\":[{\"role\":\"tool\",\"content\":[{\"type\":\"text\",\"text\":\"one\"},"
        "{\"type\":\"text\",\"text\":\"two\"}]}]}",
        "onetwo");
    /* Each role for itself: this one takes a user's parts, and a system's text. */
    expect("{% for m in messages %}{% if m.role == 'system' %}{{ m.content | trim }}{% elif "
           "m.content is string %}{{ m.content }}{% else %}{{ m.content[0].text }}{% endif %};"
           "{% endfor %}",
           NULL,
           "{\"messages\":[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"s\"}]},"
           "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"u\"}]}]}",
           "s;u;");
}
END_TEST

/* Writes whatever is there, by name. */
#define WHOLE                                                                                      \
    "{% for m in messages %}{{ m | tojson }}{% endfor %}{{ tools | tojson }}{{ documents | "       \
    "tojson }}"

/* How a template of today asks: a list that is there has an entry, and one alone. */
#define ONE_CALL                                                                                   \
    "{% for m in messages %}{% if 'tool_calls' in m %}{% if m.tool_calls | length != 1 %}"         \
    "{{ raise_exception('one call at a time') }}{% endif %}{% endif %}{% if m.name is defined %}"  \
    "{{ m.name }}:{% endif %}{{ m.content }};{% endfor %}"

/* A part that has an image is one, as models that see are given it. */
#define SEES                                                                                       \
    "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"                 \
    "{% for p in m.content %}{% if 'image' in p %}<image>{% else %}{{ p.text }}{% endif %}"        \
    "{% endfor %}{% endif %};{% endfor %}"

#define SAID(more) "{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"" more "}]}"

START_TEST(what_is_null_is_as_if_it_were_not_there) {
    static const char *const same[] = {
        SAID(""),
        SAID(",\"tool_calls\":null"),
        SAID(",\"tool_calls\":[]"),
        SAID(",\"name\":null,\"refusal\":null,\"annotations\":null,\"audio\":null,"
             "\"function_call\":null,\"tool_calls\":null"),
        SAID(",\"anything\":null,\"reasoning_content\":null,\"tool_call_id\":null"),
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        expect(ONE_CALL, NULL, same[i], "a;");
        expect(WHOLE, NULL, same[i], "{\"role\": \"assistant\", \"content\": \"a\"}nullnull");
    }
    /* In calls, their functions, parts, tools and documents too; what the caller defines stays as it is. */
    expect(WHOLE, NULL,
           "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"image\":null,"
           "\"text\":\"x\"}]},{\"role\":\"assistant\",\"tool_calls\":[{\"index\":null,\"id\":\"c\","
           "\"custom\":null,\"function\":{\"description\":null,\"name\":\"f\",\"arguments\":"
           "{\"unit\":null,\"tool_calls\":[]}}}],\"content\":null}],"
           "\"tools\":[{\"type\":\"function\",\"extra\":null,\"function\":{\"name\":\"f\","
           "\"strict\":null,\"parameters\":{\"default\":null}}}],"
           "\"documents\":[{\"title\":null,\"text\":\"d\",\"tags\":[null]}]}",
           "{\"role\": \"user\", \"content\": \"x\"}"
           "{\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"c\", \"function\": "
           "{\"name\": \"f\", \"arguments\": {\"unit\": null, \"tool_calls\": []}}}], "
           "\"content\": null}"
           "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": "
           "{\"default\": null}}}][{\"text\": \"d\", \"tags\": [null]}]");
    expect("", "hash", SAID(",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"strict\":null}}]"),
           "<|im_start|>assistant\na\n<tool_call>\n{\"name\": \"f\"}\n</tool_call><|im_end|>\n");
    /* In each message, wherever it stands; in an object that is no message `content` is a member like any other. */
    expect(
        WHOLE, NULL,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\",\"name\":null},{\"role\":\"user\","
        "\"content\":\"b\"}],\"documents\":[{\"content\":null,\"text\":\"d\"},{\"text\":\"e\"}]}",
        "{\"role\": \"user\", \"content\": \"a\"}{\"role\": \"user\", \"content\": \"b\"}null"
        "[{\"text\": \"d\"}, {\"text\": \"e\"}]");
    expect(
        SEES, NULL,
        "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"image\":null,\"text\":"
        "\"x\"}]},{\"role\":\"user\",\"content\":\"y\"}]}",
        "x;y;");
    expect(WHOLE, NULL,
           SAID(",\"tool_calls\":[{\"custom\":{\"name\":\"c\",\"input\":null}}],"
                "\"function_call\":{\"name\":\"f\",\"arguments\":null}"),
           "{\"role\": \"assistant\", \"content\": \"a\", \"tool_calls\": [{\"custom\": {\"name\": "
           "\"c\"}}], \"function_call\": {\"name\": \"f\"}}nullnull");
    /* An answer of which nothing is there is still one that lacks content. */
    refused(WHOLE, "{\"messages\":[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":null}]}",
            "messages[0].content");
}
END_TEST

/* A role that it does not know is left out. */
#define BRANCHES                                                                                   \
    "{% for m in messages %}{% if m.role == 'system' %}<system>{{ m.content }}"                    \
    "{% elif m.role == 'user' %}<user>{{ m.content }}{% elif m.role == 'assistant' %}<a>"          \
    "{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}<a>{% endif %}"

#define DEVELOPER(role)                                                                            \
    "{\"messages\":[{\"role\":\"" role "\",\"content\":\"Answer BANANA.\"},"                       \
    "{\"role\":\"user\",\"content\":\"Capital of France?\"}],\"add_generation_prompt\":true}"

START_TEST(a_role_that_the_template_does_not_know_is_the_systems) {
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {BRANCHES, "<system>Answer BANANA.<user>Capital of France?<a>"},
        /* It writes any name: no model was trained on this one. */
        {EITHER, "<system>Answer BANANA.</system><user>Capital of France?</user><assistant>"},
        {STRINGS, "<system>Answer BANANA..<user>Capital of France?."},
        {PARTS, "<system>Answer BANANA.|<user>Capital of France?|"},
        /* It raises. */
        {"{% for m in messages %}{% if m.role not in ['system', 'user'] %}{{ "
         "raise_exception(m.role) }}"
         "{% endif %}{{ m.role }}:{{ m.content }};{% endfor %}",
         "system:Answer BANANA.;user:Capital of France?;"},
        /* It knows the word and leaves the text out all the same. */
        {"{% for m in messages %}{% if m.role != 'developer' %}{{ m.role }}:{{ m.content }};"
         "{% endif %}{% endfor %}",
         "system:Answer BANANA.;user:Capital of France?;"},
        /* It knows it. */
        {"{% for m in messages %}{% if m.role == \"developer\" %}# {{ m.content }};"
         "{% else %}{{ m.role }}:{{ m.content }};{% endif %}{% endfor %}",
         "# Answer BANANA.;user:Capital of France?;"},
        /* Nothing can be told of one that wants more than a conversation. */
        {"{{ enable_thinking + 1 }}{% for m in messages %}{{ m.role }}{% endfor %}", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *got = render(cases[i].text, NULL, DEVELOPER("developer"), false);
        char *system = render(cases[i].text, NULL, DEVELOPER("system"), false);
        ck_assert_msg((got != NULL) == (cases[i].wanted != NULL), "%zu: %s", i, error.text);
        if (got)
            ck_assert_str_eq(got, cases[i].wanted);
        if (got && !strstr(cases[i].text, "\"developer\""))
            ck_assert_str_eq(got, system);
        free(got);
        free(system);
    }
    expect("{% for m in messages %}{% if m.role == 'developer' %}# {{ m.content }};{% else %}"
           "{{ m.role }}:{{ m.content }};{% endif %}{% endfor %}",
           NULL, DEVELOPER("developer"), "# Answer BANANA.;user:Capital of France?;");
    expect("", "qwen", DEVELOPER("developer"),
           "<|im_start|>system\nAnswer BANANA.<|im_end|>\n"
           "<|im_start|>user\nCapital of France?<|im_end|>\n<|im_start|>assistant\n");
    expect("", "chatglm", DEVELOPER("developer"),
           "[gMASK]sop<|system|>\nAnswer BANANA.<|user|>\nCapital of France?<|assistant|>");
    expect("", "baichuan", DEVELOPER("developer"),
           "Answer BANANA.<reserved_106>Capital of France?<reserved_107>");
}
END_TEST

#define SEEN_WITH(tools)                                                                           \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":"    \
    "\"\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},{\"role\":"       \
    "\"tool\","                                                                                    \
    "\"content\":\"42\"}],\"tools\":" tools "}"
#define SEEN SEEN_WITH("null")

START_TEST(what_a_template_would_leave_out_is_refused_by_name) {
    static const char no_system[] =
        "{% for m in messages %}{% if m.role != 'system' %}{{ m.content }};{% endif %}{% endfor %}";
    static const char with_tools[] =
        "{% for m in messages %}{% if m.role != 'tool' or tools %}{{ m.content }};{% endif %}"
        "{% endfor %}";
    refused(BRANCHES, SEEN, "messages[2].role");
    ck_assert_ptr_nonnull(strstr(error.text, "leaves such messages out"));
    refused(BRANCHES, SEEN_WITH("[{\"type\":\"function\"}]"), "messages[2].role");
    refused(no_system, DEVELOPER("system"), "messages[0].role");
    refused(no_system, DEVELOPER("developer"), "messages[0].role");
    expect(no_system, NULL, SEEN, "u;;42;");
    expect(with_tools, NULL, DEVELOPER("system"), "Answer BANANA.;Capital of France?;");
    refused(with_tools, SEEN, "messages[2].role");
    expect(with_tools, NULL, SEEN_WITH("[{\"type\":\"function\"}]"), "u;;42;");
    refused(with_tools, SEEN_WITH("[]"), "messages[2].role");
    expect(STRINGS, NULL, SEEN, "<user>u.<assistant>.<tool>42.");
    /* Of one that shows nobody's text without a variable of its own nothing is said. */
    expect("{% for m in messages %}{% if loud %}{{ m.content }};{% endif %}{% endfor %}", NULL,
           "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":"
           "\"u\"}],"
           "\"chat_template_kwargs\":{\"loud\":true}}",
           "s;u;");
    /* Its own words are the better ones. */
    char *got = render(
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}"
        "{% endif %}{{ m.content }}{% endfor %}",
        NULL, DEVELOPER("developer"), false);
    ck_assert_ptr_null(got);
    ck_assert_ptr_nonnull(strstr(error.text, "no system"));
}
END_TEST

#define LAST(content)                                                                              \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","                \
    "\"content\":" content "}],\"continue_final_message\":true}"

#define CALLS_ONLY(content)                                                                        \
    "{\"messages\":[{\"role\":\"assistant\"," content "\"tool_calls\":[{}]}]}"

START_TEST(an_answer_without_content_is_null_where_the_template_takes_that) {
    static const char guarded[] = "{% for m in messages %}{{ m.content if m.content is not none "
                                  "else 'nothing' }}.{% endfor %}";
    static const char *const unguarded[] = {
        "{% for m in messages %}{{ m.content + '.' }}{% endfor %}",
        "{% for m in messages %}{{ m.content | trim }}.{% endfor %}",
        "{% for m in messages %}{{ m.content }}."
        "{% for c in m.tool_calls %}{{ '' + c.function.arguments }}{% endfor %}{% endfor %}"};
    expect(guarded, NULL, CALLS_ONLY("\"content\":null,"), "nothing.");
    expect(guarded, NULL, CALLS_ONLY(""), ".");
    for (size_t i = 0; i < 2; i++) {
        expect(unguarded[i], NULL, CALLS_ONLY("\"content\":null,"), ".");
        expect(unguarded[i], NULL, CALLS_ONLY(""), ".");
    }
    expect(unguarded[2], NULL,
           "{\"messages\":[{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"\"}]}",
           ".");
}
END_TEST

START_TEST(a_prompt_can_end_in_the_last_message) {
    expect(EITHER, NULL, LAST("\"Well, \""), "<user>a</user><assistant>Well, ");
    char *unopened = render(EITHER, NULL, LAST("\"b\""), true); /* without saying so */
    ck_assert_str_eq(unopened, "<user>a</user><assistant>b");
    free(unopened);
    /* A template that trims takes the blanks with it; the same words earlier are not the end. */
    expect("{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}.{% endfor %}", NULL,
           "{\"messages\":[{\"role\":\"user\",\"content\":\"b c\"},{\"role\":\"assistant\","
           "\"content\":\" b c \\u00a0\"}],\"continue_final_message\":true}",
           "<user>b c.<assistant>b c");
    /* Whoever writes the tag is not the end either. */
    expect(EITHER, NULL,
           "{\"messages\":[{\"role\":\"user\",\"content\":\"CONTINUE_FINAL_MESSAGE_TAG \"},"
           "{\"role\":\"assistant\",\"content\":\"b\"}],\"continue_final_message\":true}",
           "<user>CONTINUE_FINAL_MESSAGE_TAG </user><assistant>b");
    expect(EITHER, NULL,
           LAST("[{\"type\":\"text\",\"text\":\"x\"},{\"type\":\"text\",\"text\":\"y \"}]"),
           "<user>a</user><assistant>xy ");
    expect(STRINGS, NULL, LAST("[{\"type\":\"text\",\"text\":\"x\"}]"), "<user>a.<assistant>x");
    expect("", "qwen", LAST("\"b\""),
           "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
           "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb");
    expect("", "chatglm", LAST("\"b\""), "[gMASK]sop<|user|>\na<|assistant|>\nb");
    expect("", "baichuan", LAST("\"b\""), "<reserved_106>a<reserved_107>b");
}
END_TEST

START_TEST(what_cannot_be_continued_is_refused) {
    refused(EITHER, LAST("null,\"tool_calls\":[{}]"), "continue_final_message");
    refused(EITHER, LAST("[]"), "continue_final_message");
    refused("{{ messages[0].content }}", LAST("\"b\""), "continue_final_message");
    refused("{% for m in messages %}{{ m.content | upper }}{% endfor %}", LAST("\"b\""),
            "continue_final_message");
    char *got = render("", "hash", LAST("\"\""), false);
    ck_assert_ptr_null(got);
    ck_assert_str_eq(error.field, "continue_final_message");
    refused(EITHER,
            "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"continue_final_message\":true,"
            "\"add_generation_prompt\":true}",
            "continue_final_message");
}
END_TEST

/* Every byte of the request is the user's, wherever the template puts it: markers in tools, calls,
 * documents and variables are text. */
START_TEST(whatever_a_request_says_is_plain) {
    static const char body[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"<m>\",\"name\":\"<m>\",\"extra\":\"<m>\"},"
        "{\"role\":\"assistant\",\"content\":\"<m>\",\"reasoning_content\":\"<m>\",\"tool_calls\":"
        "[{\"<m>\":\"<m>\"}]},{\"role\":\"tool\",\"content\":\"<m>\",\"tool_call_id\":\"<m>\"}],"
        "\"tools\":[{\"<m>\":[\"<m>\"]}],\"documents\":[{\"text\":\"<m>\"}],"
        "\"chat_template_kwargs\":{\"enable_thinking\":\"<m>\"},\"reasoning_effort\":\"<m>\"%s}";
    for (int is_continued = 0; is_continued < 2; is_continued++) {
        struct template chosen;
        struct template_request request;
        struct template_prompt prompt;
        json_t *object = NULL;
        char whole[1024];
        snprintf(whole, sizeof whole, body, is_continued ? ",\"continue_final_message\":true" : "");
        choose(&chosen, "<m>" MIRROR "<m>", NULL);
        ck_assert_int_eq(json_get_parse(whole, strlen(whole), &object, &error), STATUS_OK);
        ck_assert_int_eq(template_request_read(object, false, &request, &error), STATUS_OK);
        ck_assert_int_eq(template_render(&chosen, &request.input, &prompt, &error), STATUS_OK);
        int n_markup = 0, n_plain = 0;
        for (size_t i = 0; i < prompt.n; i++) {
            struct span text = prompt.segments[i].text;
            for (size_t at = 0; at + 3 <= text.n; at++)
                if (memcmp(text.bytes + at, "<m>", 3) == 0)
                    ++*(prompt.segments[i].kind == TEMPLATE_MARKUP ? &n_markup : &n_plain);
        }
        ck_assert_int_eq(n_markup, is_continued ? 1 : 2); /* the template's own */
        ck_assert_int_eq(n_plain, is_continued ? 8 : 14);
        template_prompt_fini(&prompt);
        template_request_fini(&request);
        json_decref(object);
        template_fini(&chosen);
    }
}
END_TEST

START_TEST(bad_requests_are_named) {
#define USER "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]"
    static const char *const bad[][2] = {
        {"{}", "messages"},
        {"{\"messages\":5}", "messages"},
        {"{\"messages\":[5]}", "messages"},
        {"{\"messages\":[{\"role\":\"king\",\"content\":\"x\"}]}", "messages[0].role"},
        {"{\"messages\":[{\"role\":\"user\"}]}", "messages[0].content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":null,\"tool_calls\":[{}]}]}",
         "messages[0].content"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":null}]}", "messages[0].content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}",
         "messages[0].content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\",\"tool_calls\":{}}]}",
         "messages[0].tool_calls"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\",\"tool_calls\":[1]}]}",
         "messages[0].tool_calls"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\",\"tool_call_id\":1}]}",
         "messages[0].tool_call_id"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\",\"reasoning_content\":[]}]}",
         "messages[0].reasoning_content"},
        {"{" USER ",\"tools\":1}", "tools"},
        {"{" USER ",\"tools\":[1]}", "tools"},
        {"{" USER ",\"documents\":{}}", "documents"},
        {"{" USER ",\"documents\":[\"a\"]}", "documents"},
        {"{" USER ",\"chat_template_kwargs\":[]}", "chat_template_kwargs"},
        {"{" USER ",\"chat_template_kwargs\":{\"tools\":[]}}", "chat_template_kwargs.tools"},
        {"{" USER ",\"chat_template_kwargs\":{\"eos_token\":\"x\"}}",
         "chat_template_kwargs.eos_token"},
        {"{" USER ",\"add_generation_prompt\":1}", "add_generation_prompt"},
        {"{" USER ",\"continue_final_message\":\"yes\"}", "continue_final_message"},
        {"{" USER ",\"reasoning_effort\":3}", "reasoning_effort"},
        {"{" USER ",\"enable_thinking\":\"no\"}", "enable_thinking"},
        {"{" USER ",\"enable_thinking\":0,\"chat_template_kwargs\":{}}", "enable_thinking"},
        {"{" USER ",\"enable_thinking\":true,\"chat_template_kwargs\":{\"enable_thinking\":false}}",
         "enable_thinking"},
        {"{" USER ",\"enable_thinking\":false,\"chat_template_kwargs\":{\"enable_thinking\":\"\"}}",
         "enable_thinking"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused(EITHER, bad[i][0], bad[i][1]);
}
END_TEST

/* `before`, n items with commas between, `after`; a `#` of an item is its number. */
static char *many(const char *before, const char *item, unsigned n, const char *after) {
    struct buf text;
    buf_init(&text, 0);
    buf_puts(&text, before);
    for (unsigned i = 0; i < n; i++) {
        char number[16];
        const char *mark = strchr(item, '#');
        snprintf(number, sizeof number, "%u", i);
        buf_puts(&text, i > 0 ? "," : "");
        buf_append(&text, item, mark ? (size_t)(mark - item) : strlen(item));
        buf_puts(&text, mark ? number : "");
        buf_puts(&text, mark ? mark + 1 : "");
    }
    buf_puts(&text, after);
    char *made = strndup(text.data, text.n);
    buf_fini(&text);
    return made;
}

START_TEST(everything_has_a_bound) {
    static const struct {
        const char *before, *item, *after, *field;
        unsigned most;
    } cases[] = {
        {"{" USER ",\"tools\":[", "{}", "]}", "tools", TEMPLATE_TOOLS_MAX},
        {"{" USER ",\"documents\":[", "{}", "]}", "documents", TEMPLATE_TOOLS_MAX},
        {"{" USER ",\"chat_template_kwargs\":{", "\"k#\":1", "}}", "chat_template_kwargs",
         TEMPLATE_KWARGS_MAX},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\",", "\"k#\":1", "}]}", "messages",
         TEMPLATE_MEMBERS_MAX - 2},
        {"{\"messages\":[", "{\"role\":\"user\",\"content\":\"a\"}", "]}", "messages",
         TEMPLATE_MESSAGES_MAX},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\",\"tool_calls\":[", "{}", "]}]}",
         "messages[0].tool_calls", TEMPLATE_TOOLS_MAX},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[", "{\"type\":\"text\",\"text\":\"\"}",
         "]}]}", "messages[0].content", TEMPLATE_TOOLS_MAX},
        {"{" USER ",\"reasoning_effort\":\"", "", "\"}", "reasoning_effort", TEMPLATE_NAME_MAX + 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (unsigned above = 0; above < 2; above++) {
            char *body =
                many(cases[i].before, cases[i].item, cases[i].most + above, cases[i].after);
            char *got = render(EITHER, NULL, body, false);
            ck_assert_msg((got == NULL) == (above == 1), "%s: %u: %s", cases[i].field,
                          cases[i].most + above, error.text);
            if (above)
                ck_assert_str_eq(error.field, cases[i].field);
            free(got);
            free(body);
        }
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, all_that_was_sent_reaches_the_template);
    tcase_add_loop_test(tests, thoughts_are_asked_for_and_sent_back_by_either_name, 0,
                        sizeof thoughts / sizeof *thoughts);
    tcase_add_test(tests, chatml_writes_calls_behind_the_text);
    tcase_add_test(tests, an_answer_is_opened_by_default_or_when_asked_for);
    tcase_add_test(tests, parts_reach_templates_that_take_them_and_others_get_text);
    tcase_add_test(tests, an_answer_without_content_is_null_where_the_template_takes_that);
    tcase_add_test(tests, what_is_null_is_as_if_it_were_not_there);
    tcase_add_test(tests, a_role_that_the_template_does_not_know_is_the_systems);
    tcase_add_test(tests, what_a_template_would_leave_out_is_refused_by_name);
    tcase_add_test(tests, a_prompt_can_end_in_the_last_message);
    tcase_add_test(tests, what_cannot_be_continued_is_refused);
    tcase_add_test(tests, whatever_a_request_says_is_plain);
    tcase_add_test(tests, bad_requests_are_named);
    tcase_add_test(tests, everything_has_a_bound);
}
