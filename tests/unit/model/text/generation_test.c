/* A model's own sampling defaults. */
#include "model/text/generation.h"

#include "model/gguf/gguf.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/suite.h"

#include <jansson.h>
#include <string.h>

const char *const suite_name = "model generation";
const double suite_timeout_s = 60;

static struct generation read_json(const char *text) {
    struct generation generation = {0};
    json_t *object = json_loads(text, 0, NULL);
    ck_assert_ptr_nonnull(object);
    generation_from_json(object, "f.json", &generation);
    json_decref(object);
    return generation;
}

START_TEST(every_field_is_read_and_null_is_absent) {
    struct generation got =
        read_json("{\"temperature\":0.6,\"top_p\":0.95,\"top_k\":20,\"min_p\":0.05,\"repetition_"
                  "penalty\":1.1,"
                  "\"max_new_tokens\":2048,\"do_sample\":false,\"eos_token_id\":[1]}");
    static const double wanted[] = {0.6, 0.95, 20, 0.05, 1.1, 2048};
    for (unsigned field = 0; field < GENERATION_FIELDS; field++) {
        ck_assert(got.has[field]);
        ck_assert(got.value[field] == wanted[field]);
    }
    ck_assert_str_eq(got.ignored, "");
    got = read_json("{\"temperature\":null,\"top_k\":-1}");
    ck_assert(!got.has[GENERATION_TEMPERATURE]);
    ck_assert(got.has[GENERATION_TOP_K] && got.value[GENERATION_TOP_K] == 0);
    ck_assert_str_eq(got.ignored, "");
    struct generation none = {0};
    generation_from_json(NULL, "f.json", &none);
    ck_assert(!none.has[GENERATION_TOP_P]);
}
END_TEST

START_TEST(what_no_request_could_say_is_left_out_and_named) {
    static const char *const bad[][2] = {
        {"{\"temperature\":-0.1}", "temperature"},
        {"{\"temperature\":100.5}", "temperature"},
        {"{\"temperature\":\"1\"}", "temperature"},
        {"{\"top_p\":-0.001}", "top_p"},
        {"{\"top_p\":1.01}", "top_p"},
        {"{\"top_k\":-2}", "top_k"},
        {"{\"top_k\":1.5}", "top_k"},
        {"{\"min_p\":-1}", "min_p"},
        {"{\"min_p\":2}", "min_p"},
        {"{\"repetition_penalty\":0}", "repetition"},
        {"{\"repetition_penalty\":101}", "repetit"},
        {"{\"max_new_tokens\":0}", "max_new_tokens"},
        {"{\"max_new_tokens\":1e12}", "max_new"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct generation got = read_json(bad[i][0]);
        ck_assert_msg(strncmp(got.ignored, "f.json: ", 8) == 0 && strstr(got.ignored, bad[i][1]),
                      "%s: %s", bad[i][0], got.ignored);
        for (unsigned field = 0; field < GENERATION_FIELDS; field++)
            ck_assert(!got.has[field]);
    }
    struct generation got = read_json("{\"repetition_penalty\":0,\"min_p\":7,\"top_k\":3}");
    ck_assert_str_eq(got.ignored,
                     "f.json: min_p must be a number from 0, at most 1; it is not used; "
                     "repetition_penalty must be a number above 0, at most 100; it is "
                     "not used");
    ck_assert(got.has[GENERATION_TOP_K]);
}
END_TEST

/* 0 keeps the best token alone. */
START_TEST(a_top_p_from_0_to_1_is_used) {
    static const char *const files[] = {"{\"top_p\":0}", "{\"top_p\":0.0}", "{\"top_p\":1e-320}",
                                        "{\"top_p\":1}"};
    static const double values[] = {0, 0, 1e-320, 1};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct generation got = read_json(files[i]);
        ck_assert_str_eq(got.ignored, "");
        ck_assert(got.has[GENERATION_TOP_P] && got.value[GENERATION_TOP_P] == values[i]);
    }
    struct gguf_builder builder;
    struct gguf *gguf;
    struct error error;
    struct generation got = {0};
    gguf_builder_init(&builder);
    gguf_builder_f32(&builder, "general.sampling.top_p", 0.0f);
    gguf_builder_finish(&builder, 0);
    ck_assert_int_eq(gguf_parse(builder.bytes.data, builder.bytes.n, "m.gguf", &gguf, &error),
                     STATUS_OK);
    generation_from_gguf(gguf, &got);
    ck_assert_str_eq(got.ignored, "");
    ck_assert(got.has[GENERATION_TOP_P] && got.value[GENERATION_TOP_P] == 0);
    gguf_close(gguf);
    gguf_builder_fini(&builder);
}
END_TEST

START_TEST(gguf_files_have_keys_for_them) {
    struct gguf_builder builder;
    struct gguf *gguf;
    struct error error;
    struct generation got = {0};
    gguf_builder_init(&builder);
    gguf_builder_f32(&builder, "general.sampling.temp", 0.5f);
    gguf_builder_f32(&builder, "general.sampling.top_p", 0.75f);
    gguf_builder_u32(&builder, "general.sampling.top_k", 20);
    gguf_builder_f32(&builder, "general.sampling.penalty_repeat", 1.25f);
    gguf_builder_string(&builder, "general.sampling.min_p", "0.1");
    gguf_builder_finish(&builder, 0);
    ck_assert_int_eq(gguf_parse(builder.bytes.data, builder.bytes.n, "m.gguf", &gguf, &error),
                     STATUS_OK);
    generation_from_gguf(gguf, &got);
    ck_assert(got.value[GENERATION_TEMPERATURE] == 0.5 && got.value[GENERATION_TOP_P] == 0.75);
    ck_assert(got.value[GENERATION_TOP_K] == 20 && got.value[GENERATION_REPETITION] == 1.25);
    ck_assert(!got.has[GENERATION_MIN_P] && !got.has[GENERATION_MAX_NEW]);
    ck_assert_ptr_nonnull(strstr(got.ignored, "m.gguf: general.sampling.min_p must be"));
    gguf_close(gguf);
    gguf_builder_fini(&builder);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, every_field_is_read_and_null_is_absent);
    tcase_add_test(tests, what_no_request_could_say_is_left_out_and_named);
    tcase_add_test(tests, gguf_files_have_keys_for_them);
    tcase_add_test(tests, a_top_p_from_0_to_1_is_used);
}
