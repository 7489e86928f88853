#include "base/buf.h"
#include "base/file.h"
#include "router/api/dialect.h"
#include "router/api/field_table.h"
#include "router/api/responses_about.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "router_api_fields";
const double suite_timeout_s = 60;

static const struct ask_limits limits = {.model = "m", .n_tokens = 1000, .prompt_max = 4096};

/* The status of an otherwise good request with `"name":value`; *error is what it says. */
static enum status parse(const struct dialect *dialect, const char *name, const char *value,
                         struct api_error *error, char unknown[64]) {
    struct ask ask;
    char body[512];
    bool is_chat = dialect == &dialect_chat;
    *error = (struct api_error){0};
    snprintf(body, sizeof body, "{%s,\"%s\":%s}",
             is_chat ? "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]" : "\"prompt\":\"a\"",
             name, value);
    ask_init(&ask);
    const struct span bytes = {body, strlen(body)};
    enum status status = dialect->parse(&bytes, &limits, &ask, error);
    ck_assert_msg(ask.body || strstr(value, "e999"), "%s: %s", body, error->error.text);
    snprintf(unknown, 64, "%s", ask.unknown);
    ask_fini(&ask);
    return status;
}

static const struct {
    const struct dialect *dialect;
    unsigned bit;
} routes[] = {{&dialect_chat, FIELD_CHAT}, {&dialect_completions, FIELD_COMPLETIONS}};

START_TEST(rows_are_in_order_and_say_one_thing_of_a_route) {
    for (size_t i = 0; field_nth(i); i++) {
        const struct field_row *row = field_nth(i);
        ck_assert_ptr_eq(field_find(row->name), row);
        ck_assert_msg(i == 0 || strcmp(field_nth(i - 1)->name, row->name) < 0, "%s", row->name);
        ck_assert_msg((row->served & row->refused) == 0 && (row->idle & row->refused) == 0 &&
                          (row->served & row->idle) == 0 &&
                          (row->served | row->refused | row->idle) != 0,
                      "%s", row->name);
        ck_assert_msg(row->min <= row->max, "%s", row->name);
        ck_assert_msg(row->at == 0 || row->served, "%s", row->name);
        for (size_t k = 0; row->at > 0 && k < i; k++)
            ck_assert_msg(field_nth(k)->at != row->at, "%s: as %s", row->name, field_nth(k)->name);
    }
    ck_assert_ptr_null(field_find("frobnicate"));
}
END_TEST

START_TEST(every_refused_field_is_named_on_its_routes) {
    unsigned n = 0;
    for (size_t i = 0; field_nth(i); i++) {
        const struct field_row *row = field_nth(i);
        if (strcmp(row->name, "messages") == 0 || strcmp(row->name, "prompt") == 0)
            continue; /* beside the other they are refused before */
        for (size_t r = 0; r < 2; r++) {
            struct api_error error;
            char unknown[64];
            if (!(row->refused & routes[r].bit))
                continue;
            enum status status = parse(routes[r].dialect, row->name, "{\"a\":1}", &error, unknown);
            ck_assert_msg(status == STATUS_UNSUPPORTED, "%s is not refused", row->name);
            ck_assert_str_eq(error.error.field, row->name);
            n++;
        }
    }
    ck_assert_uint_gt(n, 150);
}
END_TEST

START_TEST(values_that_ask_for_nothing_are_taken) {
    for (size_t i = 0; field_nth(i); i++) {
        const struct field_row *row = field_nth(i);
        for (size_t r = 0; r < 2; r++) {
            struct api_error error;
            char unknown[64];
            if (strcmp(row->name, "messages") == 0 || strcmp(row->name, "prompt") == 0 ||
                !((row->refused | row->idle) & routes[r].bit))
                continue;
            ck_assert_int_eq(parse(routes[r].dialect, row->name, "null", &error, unknown),
                             STATUS_OK);
            ck_assert_str_eq(unknown, "");
            if (row->idle)
                ck_assert_int_eq(parse(routes[r].dialect, row->name, "7", &error, unknown),
                                 STATUS_OK);
        }
    }
    static const char *const pairs[][3] = {
        /* asks for nothing; asks for something */
        {"typical_p", "1.0", "0.9"},
        {"mirostat", "0", "1"},
        {"top_n_sigma", "-1", "1"},
        {"structural_tag", "\"\"", "{\"type\":\"x\"}"},
        {"lora", "[]", "[{\"id\":0}]"},
        {"modalities", "[\"text\"]", "[\"text\",\"audio\"]"},
        {"function_call", "\"none\"", "\"auto\""},
        {"do_sample", "true", "false"},
        {"do_sample", "\"true\"", "0"}, /* a number is no word */
        {"modalities", "\"text\"", "0"},
        {"use_beam_search", "false", "true"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct api_error error;
        char unknown[64];
        for (size_t r = 0; r < 2; r++) {
            const struct dialect *dialect = routes[r].dialect;
            ck_assert_msg(parse(dialect, pairs[i][0], pairs[i][1], &error, unknown) == STATUS_OK,
                          "%s: %s: %s", pairs[i][0], pairs[i][1], error.error.text);
            ck_assert_msg(parse(dialect, pairs[i][0], pairs[i][2], &error, unknown) ==
                              STATUS_UNSUPPORTED,
                          "%s: %s", pairs[i][0], pairs[i][2]);
        }
    }
    struct api_error error;
    char unknown[64];
    ck_assert_int_eq(parse(&dialect_completions, "chat_template_kwargs", "{}", &error, unknown),
                     STATUS_OK);
    ck_assert_int_eq(parse(&dialect_completions, "max_completion_tokens", "5", &error, unknown),
                     STATUS_OK);
    ck_assert_int_eq(parse(&dialect_completions, "return_token_strs", "true", &error, unknown),
                     STATUS_OK);
    ck_assert_str_eq(unknown, "return_token_strs");
}
END_TEST

static void put_names(struct buf *out, const struct field_row *row, bool is_first) {
    buf_printf(out, "%s`%s`", is_first ? "" : ", ", row->name);
    if (row->neutral && row->refused == (FIELD_CHAT | FIELD_COMPLETIONS))
        buf_printf(out, " (%s)", row->neutral);
}

static const char *use_of(const struct field_row *row, unsigned bit) {
    return row->served & bit ? "served" : row->refused & bit ? "refused" : "";
}

static void put_bounds(struct buf *out, const struct field_row *row) {
    if (row->type == FIELD_STRING && row->max != 0)
        buf_printf(out, ", at most %g bytes", row->max);
    else if (row->type == FIELD_IDS)
        buf_printf(out, ", at most %g%s", row->max, row->has_text ? ", each with text" : "");
    else if (row->is_above)
        buf_printf(out, ", above %g, at most %g", row->min, row->max);
    else if (row->min != 0 || row->max != 0)
        buf_printf(out, ", %.10g to %.10g", row->min, row->max);
}

/* The three lists of docs/http-api.md. */
static void put_docs(struct buf *out) {
    static const char *const types[] = {
        [FIELD_ANY] = "any",         [FIELD_BOOL] = "bool",
        [FIELD_INT] = "integer",     [FIELD_INT64] = "integer, any of 64 bits",
        [FIELD_REAL] = "number",     [FIELD_STRING] = "string",
        [FIELD_IDS] = "list of ids", [FIELD_LIST] = "list",
        [FIELD_OBJECT] = "object"};
    buf_puts(out, "| field | type and bounds | without it | chat | completions |\n"
                  "|---|---|---|---|---|\n");
    for (size_t i = 0; field_nth(i); i++) {
        const struct field_row *row = field_nth(i);
        if (!row->served)
            continue;
        buf_printf(out, "| `%s` | %s", row->name, types[row->type]);
        put_bounds(out, row);
        if (row->says)
            buf_printf(out, "; %s", row->says);
        buf_printf(out, " | %s | %s | %s |\n", row->otherwise ? row->otherwise : "",
                   use_of(row, FIELD_CHAT), use_of(row, FIELD_COMPLETIONS));
    }
    buf_puts(out, "\nRefused on both routes, unless null, false, empty or the value in brackets: ");
    bool is_first = true;
    for (size_t i = 0; field_nth(i); i++)
        if (!field_nth(i)->served && field_nth(i)->refused) {
            put_names(out, field_nth(i), is_first);
            is_first = false;
        }
    buf_puts(out, ".\n\nWithout meaning here, and not looked at: ");
    is_first = true;
    for (size_t i = 0; field_nth(i); i++)
        if (field_nth(i)->idle) {
            put_names(out, field_nth(i), is_first);
            is_first = false;
        }
    buf_puts(out, ".\n");
}

/* The members of a request of /v1/responses. */
static void put_responses(struct buf *out) {
    buf_puts(out, "| field | of the chat | and |\n|---|---|---|\n");
    for (const struct dialect_member *row = responses_members; row->name; row++) {
        enum responses_use use = responses_use(row);
        if (use != RESPONSES_COPIED && use != RESPONSES_READ)
            continue;
        buf_printf(out, "| `%s` | ", row->name);
        if (row->as)
            buf_printf(out, "`%s`", row->as);
        buf_printf(out, " | %s |\n", row->says ? row->says : "");
    }
    buf_puts(out, "\nA 400 that says why, unless null or false:\n\n");
    for (const struct dialect_member *row = responses_members; row->name; row++)
        if (responses_use(row) == RESPONSES_REFUSED)
            buf_printf(out, "- `%s` %s.\n", row->name, row->says);
    buf_puts(out, "\nTaken, and without meaning here:\n\n");
    for (const struct dialect_member *row = responses_members; row->name; row++)
        if (responses_use(row) == RESPONSES_IDLE)
            buf_printf(out, "- `%s`%s%s\n", row->name, row->says ? ": " : "",
                       row->says ? row->says : "");
}

/* Writes a document again with `wanted` between its marks; [from, until) is what stands there now. */
static void splice(const char *path, const struct buf *document, const char *from,
                   const char *until, const struct buf *wanted) {
    FILE *file = fopen(path, "w");
    ck_assert_msg(file != NULL, "%s cannot be written", path);
    fwrite(document->data, 1, (size_t)(from - document->data), file);
    fwrite(wanted->data, 1, wanted->n, file);
    fputs(until, file);
    ck_assert_int_eq(fclose(file), 0);
}

/* What stands between marks of docs/http-api.md. With FIELDS_WRITE=FILE in the environment that document is written again. */
static void compare_docs(const char *begin, void (*put)(struct buf *out)) {
    static const char end[] = "<!-- end of fields -->";
    const char *to = getenv("FIELDS_WRITE");
    const char *path = to ? to : SOURCE_DIR "/docs/http-api.md";
    struct error error;
    struct buf wanted, docs;
    buf_init(&wanted, 0);
    buf_init(&docs, 0);
    put(&wanted);
    ck_assert_int_eq(file_read(path, 1u << 20, &docs, &error), STATUS_OK);
    buf_putc(&docs, 0);
    const char *from = strstr(docs.data, begin);
    const char *until = from ? strstr(from, end) : NULL;
    ck_assert_ptr_nonnull(until);
    from += strlen(begin);
    bool same = (size_t)(until - from) == wanted.n && memcmp(from, wanted.data, wanted.n) == 0;
    if (to)
        splice(path, &docs, from, until, &wanted);
    ck_assert_msg(same || to, "docs/http-api.md does not say what the tables say: "
                              "FIELDS_WRITE=docs/http-api.md test_router_api_fields writes it");
    buf_fini(&wanted);
    buf_fini(&docs);
}

START_TEST(the_documentation_says_what_the_tables_say) {
    compare_docs("<!-- fields: from router/api/field_table.c -->\n", put_docs);
    compare_docs("<!-- fields: from router/api/responses_about.c -->\n", put_responses);
}
END_TEST

/* It is valid JSON: what does not look at a field does not mind it. */
START_TEST(an_integer_beyond_64_bits_concerns_its_field_alone) {
    static const char *const huge[] = {"18446744073709551615", "-9223372036854775809",
                                       "1000000000000000019884624838656"};
    static const char *const fine[][2] = {
        {"metadata", "{\"id\":18446744073709551615}"},
        {"x_unknown", "18446744073709551615"},
        {"response_format", "{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\",\"schema\":"
                            "{\"type\":\"integer\",\"maximum\":18446744073709551615}}}"},
        {"user", "\"18446744073709551615\""},
    };
    static const char *const lists[][2] = {
        {"stop_token_ids", "[18446744073709551615]"},
        {"allowed_token_ids", "[3,-9223372036854775809]"},
        {"logit_bias", "{\"5\":18446744073709551615}"},
    };
    struct api_error error;
    char unknown[64];
    for (size_t r = 0; r < 2; r++) {
        const struct dialect *dialect = routes[r].dialect;
        for (size_t i = 0; field_nth(i); i++) {
            const char *name = field_nth(i)->name;
            if (strcmp(name, "messages") == 0 || strcmp(name, "prompt") == 0)
                continue; /* they would be there twice */
            enum status status = parse(dialect, name, huge[i % 3], &error, unknown);
            ck_assert_msg(status == STATUS_OK || strcmp(error.error.field, name) == 0, "%s: %s",
                          name, error.error.text);
        }
        for (size_t i = 0; i < 3; i++) {
            ck_assert_int_eq(parse(dialect, "seed", huge[i], &error, unknown), STATUS_INVALID);
            ck_assert_str_eq(error.error.text, "`seed` must be between -9223372036854775808 and "
                                               "9223372036854775807");
            ck_assert_int_eq(parse(dialect, lists[i][0], lists[i][1], &error, unknown),
                             STATUS_INVALID);
            ck_assert_str_eq(error.error.field, lists[i][0]);
        }
        for (size_t i = 0; i < sizeof fine / sizeof *fine; i++)
            ck_assert_msg(parse(dialect, fine[i][0], fine[i][1], &error, unknown) == STATUS_OK,
                          "%s: %s", fine[i][0], error.error.text);
    }
    ck_assert_int_eq(parse(&dialect_chat, "seed", "1e999", &error, unknown), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(error.error.text, "real number overflow near '1e999'"));
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, rows_are_in_order_and_say_one_thing_of_a_route);
    tcase_add_test(tests, every_refused_field_is_named_on_its_routes);
    tcase_add_test(tests, values_that_ask_for_nothing_are_taken);
    tcase_add_test(tests, the_documentation_says_what_the_tables_say);
    tcase_add_test(tests, an_integer_beyond_64_bits_concerns_its_field_alone);
}
