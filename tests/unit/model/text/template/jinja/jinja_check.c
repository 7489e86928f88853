#include "tests/unit/model/text/template/jinja/jinja_check.h"

#include "model/text/template/template.h"

#include <string.h>

/* As tests/e2e/jinja_snippets.py has them. */
const char *jinja_check_variables =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"n\": 3, \"s\": \"h\\u00e9llo\", "
    "\"l\": [1, 2, 3], \"d\": {\"b\": 2, \"a\": \"x\"}, \"none_here\": null, \"yes\": true, \"f\": "
    "2.5, \"words\": [\"one\", \"Two\", \"three\"], \"people\": [{\"name\": \"Ann\", \"age\": 3}, "
    "{\"name\": \"bob\", \"age\": 5}], \"items\": 1, \"text\": \"  a b\\n\\n c\\td  \", \"deep\": "
    "{\"a\": {\"b\": [{\"c\": 1}]}}, \"html\": \"<a href='x'>&\\\"</a>\", \"big\": 1e+300, "
    "\"schema\": {\"items\": {\"type\": \"string\"}, \"keys\": 1, \"values\": null, \"get\": "
    "\"g\"}, \"empty\": \"\", \"zero\": 0}";

enum status jinja_check_run(const char *source, struct jinja_output *output, struct error *error) {
    struct jinja_program *program;
    json_t *variables = json_loads(jinja_check_variables, 0, NULL);
    json_t *constants = json_pack("{s:s}", "bos_token", "<s>");
    struct jinja_input input = {.variables = variables,
                                .constants = constants,
                                .roles = template_role_names,
                                .now_s = 86400 * 365};
    struct span text = {source, strlen(source)};
    ck_assert_ptr_nonnull(variables);
    enum status status = jinja_parse(text, &program, error);
    if (status == STATUS_OK) {
        status = jinja_render(program, &input, output, error);
        jinja_free(program);
    }
    json_decref(variables);
    json_decref(constants);
    return status;
}

void jinja_check_text(const char *source, const char *wanted) {
    struct jinja_output output;
    struct error error = {0};
    enum status status = jinja_check_run(source, &output, &error);
    ck_assert_msg(status == STATUS_OK, "%s: %s", source, error.text);
    ck_assert_msg(strcmp(output.bytes, wanted) == 0, "%s gives \"%s\", not \"%s\"", source,
                  output.bytes, wanted);
    jinja_output_fini(&output);
}

void jinja_check_refused(const char *source, enum status status, const char *words) {
    struct jinja_output output;
    struct error error = {0};
    enum status got = jinja_check_run(source, &output, &error);
    if (got == STATUS_OK)
        jinja_output_fini(&output);
    ck_assert_msg(got == status, "%.80s: %s, not %s: %s", source, status_name(got),
                  status_name(status), error.text);
    ck_assert_msg(strstr(error.text, words) != NULL, "%.80s: \"%s\" lacks \"%s\"", source,
                  error.text, words);
}
