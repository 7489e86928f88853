/* Prompts of ids and special tokens, and how far they may go beyond what the model takes. */
#include "base/buf.h"
#include "tests/unit/router/api/parse_rig.h"

#include <stdlib.h>

const char *const suite_name = "router_api_prompts";
const double suite_timeout_s = 60;

#define USER "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]"

/* A body whose prompt is `before`, n ids and `after`. */
static char *with_ids(const char *before, size_t n, const char *after) {
    struct buf body;
    buf_init(&body, 0);
    buf_puts(&body, before);
    for (size_t i = 0; i < n; i++)
        buf_puts(&body, i > 0 ? ",7" : "7");
    buf_puts(&body, after);
    char *text = strndup(body.data, body.n);
    buf_fini(&body);
    return text;
}

START_TEST(a_prompt_of_ids_that_is_cut_may_be_longer_first) {
    static const struct {
        const char *before, *after;
        bool is_cut;
    } forms[] = {
        {"{\"prompt\":[", "]}", false},
        {"{\"prompt\":[[1],[", "]]}", false},
        {"{\"truncate_prompt_tokens\":null,\"prompt\":[", "]}", false},
        {"{\"truncate_prompt_tokens\":100,\"prompt\":[", "]}", true},
        {"{\"prompt\":[[1],[", "]],\"truncate_prompt_tokens\":4096}", true},
        {"{\"prompt\":[", "],\"truncate_prompt_tokens\":1}", true},
    };
    const size_t lengths[] = {limits.prompt_max, limits.prompt_max + 1u, 9000};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
            struct ask ask;
            struct api_error error;
            char *body = with_ids(forms[i].before, lengths[k], forms[i].after);
            bool fits = forms[i].is_cut || lengths[k] <= limits.prompt_max;
            ck_assert_int_eq(parse_all(&dialect_completions, body, &ask, &error),
                             fits ? STATUS_OK : STATUS_LIMIT);
            if (fits)
                ck_assert_uint_eq(ask.prompts[ask.n_prompts - 1].ids.n, lengths[k]);
            else
                ck_assert_str_eq(error.error.field, "prompt");
            ask_fini(&ask);
            free(body);
        }
    }
}
END_TEST

START_TEST(a_prompt_that_is_cut_has_a_bound_too) {
    for (size_t above = 0; above < 2; above++) {
        struct ask ask;
        struct api_error error;
        char *body =
            with_ids("{\"prompt\":[", ASK_UNCUT_IDS_MAX + above, "],\"truncate_prompt_tokens\":5}");
        ck_assert_int_eq(parse_all(&dialect_tokenize, body, &ask, &error),
                         above ? STATUS_LIMIT : STATUS_OK);
        if (above)
            ck_assert_ptr_nonnull(strstr(error.error.text, "at most 1048576 ids before it is cut"));
        ask_fini(&ask);
        free(body);
    }
}
END_TEST

START_TEST(special_tokens_of_raw_prompts_are_special_unless_switched_off) {
    static const struct {
        const struct dialect *dialect;
        const char *body;
        enum status status;
        bool parse_special;
    } rows[] = {
        {&dialect_completions, "{\"prompt\":\"a\"}", STATUS_OK, true},
        {&dialect_completions, "{\"prompt\":\"a\",\"parse_special\":null}", STATUS_OK, true},
        {&dialect_completions, "{\"prompt\":[\"a\",\"b\"],\"parse_special\":true}", STATUS_OK,
         true},
        {&dialect_completions, "{\"prompt\":\"a\",\"parse_special\":false}", STATUS_OK, false},
        {&dialect_completions, "{\"prompt\":\"a\",\"parse_special\":1}", STATUS_INVALID, true},
        {&dialect_tokenize, "{\"prompt\":\"a\"}", STATUS_OK, true},
        {&dialect_tokenize, "{\"prompt\":\"a\",\"parse_special\":false}", STATUS_OK, false},
        {&dialect_chat, "{" USER "}", STATUS_OK, false},
        {&dialect_chat, "{" USER ",\"parse_special\":false}", STATUS_OK, false},
        {&dialect_chat, "{" USER ",\"parse_special\":true}", STATUS_UNSUPPORTED, false},
        {&dialect_tokenize, "{" USER ",\"parse_special\":true}", STATUS_UNSUPPORTED, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ask ask;
        struct api_error error;
        ck_assert_int_eq(parse_all(rows[i].dialect, rows[i].body, &ask, &error), rows[i].status);
        if (rows[i].status == STATUS_OK)
            ck_assert_int_eq(ask.parse_special, rows[i].parse_special);
        else
            ck_assert_str_eq(error.error.field, "parse_special");
        ask_fini(&ask);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_prompt_of_ids_that_is_cut_may_be_longer_first);
    tcase_add_test(tests, a_prompt_that_is_cut_has_a_bound_too);
    tcase_add_test(tests, special_tokens_of_raw_prompts_are_special_unless_switched_off);
}
