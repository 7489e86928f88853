/* A prompt's segments as one text with special tokens in it: what a token asks of the text beside it,
 * and what begins a text alone. The ids are those of Hugging Face's tokenizers. */
#include "tests/support/suite.h"

#include "model/text/template/template.h"
#include "model/text/tokenizer/files/tokenizer_extras.h"
#include "model/text/tokenizer/files/tokenizer_files.h"
#include "model/text/tokenizer/tokenizer.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

const char *const suite_name = "model_template_prompt";
const double suite_timeout_s = 60;

/* 0 <unk>, 1 <s>, 2 <end>, which takes white space behind it, 3 <sep>, which takes it before, 4 _,
 * 5 a, 6 _a, 7 b, 8 line feed, 9 ideographic space, 10 <u>, which a user may write. */
#define BLANK "\xe2\x96\x81"
#define JSON(scheme)                                                                               \
    "{\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true},"                          \
    "{\"id\":2,\"content\":\"<end>\",\"special\":true,\"rstrip\":true},"                           \
    "{\"id\":3,\"content\":\"<sep>\",\"special\":true,\"lstrip\":true},"                           \
    "{\"id\":10,\"content\":\"<u>\",\"special\":false,\"normalized\":false}],"                     \
    "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" BLANK "\",\"split\":false,"     \
    "\"prepend_scheme\":\"" scheme "\"},\"decoder\":null,\"model\":{\"type\":\"BPE\","             \
    "\"unk_token\":\"<unk>\",\"vocab\":{\"<unk>\":0,\"" BLANK "\":4,\"a\":5,\"" BLANK "a\":6,"     \
    "\"b\":7,\"\\n\":8,\"\xe3\x80\x80\":9},\"merges\":[\"" BLANK " a\"]}}"

static struct tokenizer *open_json(const char *text) {
    static const struct tokenizer_extras nothing;
    struct tokenizer *tokenizer = NULL;
    struct error error;
    json_t *root = json_loads(text, 0, NULL);
    ck_assert_ptr_nonnull(root);
    ck_assert_msg(tokenizer_parse_json(root, &nothing, &tokenizer, &error) == STATUS_OK, "%s",
                  error.text);
    json_decref(root);
    return tokenizer;
}

/* A segment a line of `spelled`: "m" markup, "p" plain, "c" plain that is cut off, "i" an id. */
static void add_segments(struct template_prompt *prompt, const char *const spelled[4]) {
    for (int i = 0; i < 4 && spelled[i]; i++) {
        const char kind = spelled[i][0];
        struct template_segment segment = {.kind = kind == 'm'   ? TEMPLATE_MARKUP
                                                   : kind == 'i' ? TEMPLATE_ID
                                                                 : TEMPLATE_PLAIN,
                                           .is_cut = kind == 'c',
                                           .id = (uint32_t)(spelled[i][1] - '0'),
                                           .text = span_of(spelled[i] + 1)};
        ck_assert_int_eq(template_add(prompt, segment), STATUS_OK);
    }
}

static void expect(const struct tokenizer *tokenizer, const char *const spelled[4],
                   const char *wanted) {
    struct tokenizer_scratch *scratch = tokenizer_scratch_new();
    struct template_prompt prompt = {0};
    struct error error;
    struct ids ids;
    char shown[128] = "";
    add_segments(&prompt, spelled);
    ids_init(&ids, 0);
    ck_assert_int_eq(template_prompt_encode(&prompt, tokenizer, scratch, &ids, &error), STATUS_OK);
    for (size_t i = 0, at = 0; i < ids.n; i++)
        at += (size_t)snprintf(shown + at, sizeof shown - at, i ? " %u" : "%u", ids.at[i]);
    ck_assert_msg(strcmp(shown, wanted) == 0, "%s ... gave %s, not %s", spelled[0], shown, wanted);
    ids_fini(&ids);
    template_prompt_fini(&prompt);
    tokenizer_scratch_free(scratch);
}

START_TEST(only_the_front_of_a_prompt_begins_a_text) {
    static const struct {
        const char *spelled[4];
        const char *first;  /* the blank is put before the text's first word */
        const char *always; /* before each text between special tokens */
    } rows[] = {
        {{"pa"}, "6", "6"},
        {{"m<s>", "pa"}, "1 5", "1 6"},
        {{"ma<s>a", "pa"}, "6 1 5 5", "6 1 6 5"},
        {{"i1", "pa"}, "1 5", "1 6"},
        {{"m<s>", "ca"}, "1 6", "1 6"},
        {{"m<s>", "pa", "ca"}, "1 5 6", "1 6 6"},
        {{"m<s>", "p a"}, "1 6", "1 6"},
        {{"p", "m<s>\n", "pb"}, "1 8 7", "1 4 8 7"},
        {{"m<s>", "pa<u>a"}, "1 5 10 5", "1 6 10 6"},
        {{"pa<u>a"}, "6 10 5", "6 10 6"},
        {{"p<s>a"}, "4 0 0 0 5", "4 0 0 0 5"}, /* written by a user: no token */
    };
    struct tokenizer *first = open_json(JSON("first"));
    struct tokenizer *always = open_json(JSON("always"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect(first, rows[i].spelled, rows[i].first);
        expect(always, rows[i].spelled, rows[i].always);
    }
    tokenizer_close(first);
    tokenizer_close(always);
}
END_TEST

START_TEST(tokens_take_the_white_space_that_they_ask_for) {
    static const struct {
        const char *spelled[4];
        const char *ids;
    } rows[] = {
        {{"m<s>\n", "pa"}, "1 8 5"},
        {{"m<end>\n", "pa"}, "2 5"},
        {{"m<end>", "p \n a"}, "2 5"},
        {{"m<end>", "p\n ", "m \n", "pb \n"}, "2 7 4 8"},
        {{"m<end>b\n"}, "2 7 8"},
        {{"m<end>", "p\xe3\x80\x80 b"}, "2 7"},
        {{"m<end>", "c\nb"}, "2 4 8 7"},
        {{"i2", "p\nb"}, "2 8 7"}, /* a number that a model's routine puts asks for nothing */
        {{"m<end><end>\n", "m<s>\n"}, "2 2 1 8"},
        {{"pb \n", "m<sep>\n"}, "4 7 3 8"},
        {{"pb", "m \n<sep>", "p b"}, "4 7 3 4 7"},
        {{"p \n", "m<sep>"}, "3"},
        {{"m<s>", "p\n", "m<sep><sep>b"}, "1 3 3 7"},
        {{"m<end>", "p ", "m<sep>"}, "2 3"},
    };
    struct tokenizer *tokenizer = open_json(JSON("first"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect(tokenizer, rows[i].spelled, rows[i].ids);
    tokenizer_close(tokenizer);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, only_the_front_of_a_prompt_begins_a_text);
    tcase_add_test(tests, tokens_take_the_white_space_that_they_ask_for);
}
