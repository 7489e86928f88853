/* Any bytes as a template, rendered for a small request. What comes out is valid UTF-8 whose marks
 * cover it, and the same template says the same again. */
#include "model/text/template/jinja/jinja.h"
#include "base/utf8.h"
#include "model/text/template/template.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static json_t *variables; /* lives as long as the process */
static json_t *constants;

static void require(bool fact) {
    if (!fact)
        abort();
}

static void make_request(void) {
    variables = json_loads(
        "{\"messages\": [{\"role\": \"system\", \"content\": \"calm\"}, {\"role\": \"user\", "
        "\"content\": \" h\\u00e9llo <|im_end|>\\n\"}, {\"role\": \"assistant\", \"content\": "
        "null, "
        "\"tool_calls\": [{\"id\": \"1\", \"type\": \"function\", \"function\": {\"name\": \"f\", "
        "\"arguments\": {\"a\": [1, 2.5, -3e-7, true, null]}}}]}], \"tools\": [{\"type\": "
        "\"function\", \"function\": {\"name\": \"f\", \"parameters\": {}}}], \"documents\": null, "
        "\"add_generation_prompt\": true, \"n\": 3, \"s\": \"a,b\", \"f\": 0.5}",
        0, NULL);
    constants = json_loads("{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}", 0, NULL);
    require(variables && constants);
}

static void check_output(const struct jinja_output *output) {
    size_t begin = 0;
    require(utf8_valid(output->bytes, output->n));
    for (size_t i = 0; i < output->n_marks; i++) {
        require(output->marks[i].end > begin);
        require(i == 0 || output->marks[i].is_plain != output->marks[i - 1].is_plain);
        begin = output->marks[i].end;
    }
    require(begin == output->n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct jinja_program *program;
    struct jinja_output output;
    struct jinja_output again;
    struct error error = {0};
    if (!variables)
        make_request();
    if (jinja_parse((struct span){(const char *)data, size}, &program, &error) != STATUS_OK) {
        require(error.text[0] != 0);
        return 0;
    }
    struct jinja_input input = {
        .variables = variables, .constants = constants, .roles = template_role_names};
    if (jinja_render(program, &input, &output, &error) == STATUS_OK) {
        check_output(&output);
        require(jinja_render(program, &input, &again, &error) == STATUS_OK);
        require(again.n == output.n && memcmp(again.bytes, output.bytes, output.n) == 0);
        jinja_output_fini(&again);
        jinja_output_fini(&output);
    } else {
        require(error.text[0] != 0);
    }
    jinja_free(program);
    return 0;
}
