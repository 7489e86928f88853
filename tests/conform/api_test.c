/* Every dialect of the table, whoever adds it: found by its path, complete, and sound against what
 * every request may hold. */
#include "router/api/openai.h"
#include "router/serve/api.h"
#include "tests/support/suite.h"

#include <jansson.h>
#include <string.h>

const char *const suite_name = "conform_api";
const double suite_timeout_s = 60;

static const struct ask_limits limits = {.model = "m", .n_tokens = 1000, .prompt_max = 4096};

#define EACH(dialect)                                                                              \
    const struct dialect *dialect;                                                                 \
    for (unsigned n_ = 0; (dialect = api_dialect(n_)); n_++)

START_TEST(each_dialect_has_what_the_seam_asks) {
    unsigned n = 0;
    EACH(dialect) {
        n++;
        ck_assert_ptr_nonnull(dialect->name);
        ck_assert(strcmp(dialect->method, "GET") == 0 || strcmp(dialect->method, "POST") == 0);
        ck_assert_int_eq(dialect->path[0], '/');
        ck_assert_msg(!dialect->answer != !dialect->parse, "%s", dialect->name);
        const struct dialect_form *form = dialect->form;
        ck_assert_msg(form && form->content_type && form->stream_type && form->takes &&
                          form->refuse,
                      "%s", dialect->name);
        ck_assert_msg(form->takes(form->content_type, true), "%s", dialect->name);
        ck_assert_msg(!form->takes("text/css", false), "%s", dialect->name);
        ck_assert_msg(form->error_event || form->n_trailers > 0 ||
                          (dialect->writer && dialect->writer->failed),
                      "%s: a stream cannot tell that it failed", dialect->name);
        ck_assert_uint_le(form->n_stream_headers, DIALECT_HEADERS_MAX);
        ck_assert(api_form(form->content_type)->takes(form->content_type, true));
        if (dialect->parse)
            ck_assert_msg(!dialect->reply != !dialect->writer, "%s", dialect->name);
        if (dialect->writer) {
            ck_assert(dialect->writer->chunk && dialect->writer->whole);
            ck_assert_ptr_nonnull(dialect->writer->id_prefix);
        }
    }
    ck_assert_uint_ge(n, 13);
}
END_TEST

START_TEST(each_dialect_is_found_and_other_methods_are_told_what_is_allowed) {
    EACH(dialect) {
        char path[128];
        struct api_match match;
        size_t n = strlen(dialect->path);
        bool takes_more = n > 1 && dialect->path[n - 1] == '/';
        const char *rest = takes_more ? "some-name" : "";
        snprintf(path, sizeof path, "%s%s", dialect->path, rest);
        api_find(dialect->method, path, &match);
        ck_assert_ptr_eq(match.dialect, dialect);
        ck_assert_str_eq(match.rest, rest);
        ck_assert_str_eq(api_rest(dialect, path), rest);
        api_find("DELETE", path, &match);
        ck_assert_ptr_null(match.dialect);
        ck_assert_ptr_nonnull(match.at_path);
        ck_assert_ptr_nonnull(strstr(match.allow, dialect->method));
        api_find("HEAD", path, &match);
        if (strcmp(dialect->method, "GET") == 0)
            ck_assert_ptr_eq(match.dialect, dialect);
        snprintf(path, sizeof path, "%s/x//y", dialect->path); /* an id has no empty part */
        api_find(dialect->method, path, &match);
        ck_assert_ptr_null(match.dialect);
        ck_assert_ptr_null(match.at_path);
        ck_assert_str_eq(match.allow, "");
    }
}
END_TEST

/* What no dialect may take for a request. */
START_TEST(each_parser_refuses_foreign_bodies_with_a_reason) {
    static const char *const bodies[] = {"{}", "{\"model\":5}", "{\"prompt\":{}}",
                                         "{\"messages\":{}}", "{\"tokens\":{}}"};
    EACH(dialect) {
        bool is_json = strcmp(dialect->form->content_type, "application/json") == 0;
        for (size_t i = 0; dialect->parse && i < sizeof bodies / sizeof bodies[0]; i++) {
            struct ask ask;
            struct api_error error = {0};
            ask_init(&ask);
            const struct span body = {bodies[i], strlen(bodies[i])};
            enum status status = dialect->parse(&body, &limits, &ask, &error);
            ck_assert_msg(status == (is_json ? STATUS_INVALID : STATUS_CORRUPT), "%s took %s",
                          dialect->name, bodies[i]);
            ck_assert_msg(error.error.text[0] && (error.error.field[0] || !is_json), "%s: %s",
                          dialect->name, bodies[i]);
            ask_fini(&ask);
        }
    }
}
END_TEST

/* A body good for every parser: each reads its own and ignores the rest. */
START_TEST(each_parser_takes_unknown_and_null_fields) {
    static const char chat[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
                               "\"model\":null,\"n\":null,\"x_unknown\":[1]}";
    static const char other[] = "{\"prompt\":\"a\",\"tokens\":[1],\"model\":null,\"n\":null,"
                                "\"x_unknown\":[1]}";
    EACH(dialect) {
        if (!dialect->parse || dialect->form != &openai_form)
            continue;
        const char *body = dialect == &dialect_chat ? chat : other;
        struct ask ask;
        struct api_error error = {0};
        ask_init(&ask);
        const struct span bytes = {body, strlen(body)};
        enum status status = dialect->parse(&bytes, &limits, &ask, &error);
        ck_assert_msg(status == STATUS_OK, "%s: %s", dialect->name, error.error.text);
        ask_fini(&ask);
    }
}
END_TEST

/* Chunks and whole replies carry the same choice. */
START_TEST(each_writer_makes_json_events_with_the_same_head) {
    struct tokenizer *tokenizer;
    struct error error;
    ck_assert_int_eq(tokenizer_open_hash(&tokenizer, &error), STATUS_OK);
    EACH(dialect) {
        if (!dialect->writer || dialect->form != &openai_form)
            continue;
        struct ask ask;
        ask_init(&ask);
        ask.include_usage = true;
        struct reply reply = {
            .ask = &ask, .tokenizer = tokenizer, .model = "m", .id = "x-1", .created = 5};
        struct reply_choice choice = {.index = 3, .text = SPAN("a\xff"), .is_first = true};
        struct buf out;
        buf_init(&out, 0);
        for (int kind = 0; kind < 3; kind++) {
            buf_clear(&out);
            if (kind == 0)
                dialect->writer->chunk(&reply, &choice, &out);
            else if (kind == 1)
                dialect->writer->end(&reply, &out);
            else
                dialect->writer->whole(&reply, &choice, 1, &out);
            size_t skip = kind < 2 ? strlen("data: ") : 0;
            json_t *root =
                json_loads(out.data + skip, JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK, NULL);
            ck_assert_msg(root != NULL, "%s: %s", dialect->name, out.data);
            ck_assert_str_eq(json_string_value(json_object_get(root, "id")), "x-1");
            ck_assert_str_eq(json_string_value(json_object_get(root, "model")), "m");
            ck_assert_int_eq(json_integer_value(json_object_get(root, "created")), 5);
            ck_assert_ptr_nonnull(json_object_get(root, "object"));
            ck_assert_uint_eq(json_array_size(json_object_get(root, "choices")), kind != 1);
            json_decref(root);
        }
        buf_fini(&out);
        ask_fini(&ask);
    }
    tokenizer_close(tokenizer);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, each_dialect_has_what_the_seam_asks);
    tcase_add_test(tests, each_dialect_is_found_and_other_methods_are_told_what_is_allowed);
    tcase_add_test(tests, each_parser_refuses_foreign_bodies_with_a_reason);
    tcase_add_test(tests, each_parser_takes_unknown_and_null_fields);
    tcase_add_test(tests, each_writer_makes_json_events_with_the_same_head);
}
