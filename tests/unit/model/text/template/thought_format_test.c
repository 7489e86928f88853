/* Between which marks a model thinks, and whether an answer begins inside of them. */
#include "model/text/template/template.h"
#include "model/text/template/thought_format.h"
#include "model/text/template/thought_start.h"
#include "tests/support/suite.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

const char *const suite_name = "model_thought_format";
const double suite_timeout_s = 60;

START_TEST(a_template_tells_its_marks) {
    static const struct {
        const char *text, *name;
    } rows[] = {
        {"", NULL},
        {"{{ messages[0].content }} think", NULL},
        {"<think", NULL},
        {"{{ '<think>\n' }}", "think"},
        {"{% set c = c.split('</think>')[-1] %}", "think"},
        {"a <think>b</think>", "think"},
        {"[THINK]{{ t }}[/THINK]", "mistral"},
        {"{{ '<seed:think>' }}", "seed"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct span text = {rows[i].text, strlen(rows[i].text)};
        const struct thought_format *format = thought_format_of(text);
        ck_assert_msg((format != NULL) == (rows[i].name != NULL), "%s", rows[i].text);
        if (format)
            ck_assert_str_eq(format->name, rows[i].name);
    }
    ck_assert_ptr_null(thought_format_nth(1000));
}
END_TEST

/* Marks that are a part of each other, or no line ends behind them, would be read wrongly. */
START_TEST(rows_hold_what_readers_need) {
    const struct thought_format *format;
    for (size_t i = 0; (format = thought_format_nth(i)) != NULL; i++) {
        ck_assert(format->mark.n > 1 && format->mark.n <= 32);
        ck_assert(format->end_mark.n > 1 && format->end_mark.n <= 32);
        ck_assert_ptr_null(
            memmem(format->end_mark.bytes, format->end_mark.n, format->mark.bytes, format->mark.n));
        for (size_t k = 0; k < format->behind.n; k++)
            ck_assert_int_eq(format->behind.bytes[k], '\n');
    }
}
END_TEST

/* As Qwen3's: thinking by itself, told not to, or told to by the prompt. */
static const char hybrid[] =
    "{%- for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ '<|end|>\n' if not (loop.last and "
    "bare) }}{% endfor %}{%- if add_generation_prompt %}<|assistant|>\n"
    "{%- if enable_thinking is defined and enable_thinking is false %}{{ '<think>\n\n</think>\n\n' "
    "}}{%- elif opens %}{{ '<think>' + ('\n' * opens) }}{%- endif %}{%- endif %}";

static enum thought_start start_of(const char *said, const char *kwargs, bool generation,
                                   bool continued) {
    struct template chosen;
    struct template_prompt prompt;
    struct error error;
    const struct template_source source = {.text = {hybrid, strlen(hybrid)}};
    const struct template_message messages[2] = {
        {TEMPLATE_USER, SPAN("hi"), {0}, false},
        {continued ? TEMPLATE_ASSISTANT : TEMPLATE_USER, {said, strlen(said)}, {0}, false}};
    json_t *variables = json_loads(kwargs, 0, NULL);
    json_t *all = json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "user", "content", "hi", "role",
                            continued ? "assistant" : "user", "content", said);
    const struct template_input input = {.messages = messages,
                                         .n_messages = 2,
                                         .json_messages = all,
                                         .kwargs = variables,
                                         .add_generation_prompt = generation,
                                         .continue_final_message = continued};
    ck_assert_int_eq(template_choose(&chosen, &source, &error), STATUS_OK);
    ck_assert_ptr_eq(chosen.thought_format, thought_format_nth(0));
    enum status status = template_render(&chosen, &input, &prompt, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    enum thought_start start = thought_start_of(chosen.thought_format, &input, &prompt);
    ck_assert_int_eq(thought_start_of(NULL, &input, &prompt), THOUGHT_NONE);
    template_prompt_fini(&prompt);
    template_fini(&chosen);
    json_decref(variables);
    json_decref(all);
    return start;
}

START_TEST(the_prompt_tells_how_an_answer_begins) {
    ck_assert_int_eq(start_of("x", "{}", true, false), THOUGHT_MAYBE);
    ck_assert_int_eq(start_of("x", "{\"enable_thinking\":true}", true, false), THOUGHT_MAYBE);
    ck_assert_int_eq(start_of("x", "{\"enable_thinking\":false}", true, false), THOUGHT_NONE);
    for (unsigned n = 1; n < 100; n += 33) { /* line ends behind the mark */
        char kwargs[32];
        snprintf(kwargs, sizeof kwargs, "{\"opens\":%u}", n);
        ck_assert_int_eq(start_of("x", kwargs, true, false), THOUGHT_OPEN);
    }
}
END_TEST

/* What users say is no mark, also where nothing stands behind it. */
START_TEST(marks_of_users_do_not_count) {
    ck_assert_int_eq(start_of("say <think>", "{\"bare\":true}", false, false), THOUGHT_MAYBE);
    ck_assert_int_eq(start_of("</think>", "{\"bare\":true}", false, false), THOUGHT_MAYBE);
    ck_assert_int_eq(start_of("<think>", "{}", true, false), THOUGHT_MAYBE);
}
END_TEST

START_TEST(a_continued_answer_thinks_where_it_has_begun_to) {
    ck_assert_int_eq(start_of("yes", "{}", false, true), THOUGHT_NONE);
    ck_assert_int_eq(start_of("<think>", "{}", false, true), THOUGHT_OPEN);
    ck_assert_int_eq(start_of("<think>\nWell, ", "{}", false, true), THOUGHT_OPEN);
    ck_assert_int_eq(start_of("<think>Well</think>", "{}", false, true), THOUGHT_NONE);
    ck_assert_int_eq(start_of("<think>a</think>b <think>c", "{}", false, true), THOUGHT_OPEN);
    ck_assert_int_eq(start_of("</think><think>c</think", "{}", false, true), THOUGHT_OPEN);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_template_tells_its_marks);
    tcase_add_test(tests, rows_hold_what_readers_need);
    tcase_add_test(tests, the_prompt_tells_how_an_answer_begins);
    tcase_add_test(tests, marks_of_users_do_not_count);
    tcase_add_test(tests, a_continued_answer_thinks_where_it_has_begun_to);
}
