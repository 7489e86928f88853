/* Bodies of every dialect that parses one: the first byte picks the dialect. Whatever is accepted
 * must hold what later stages rely on, and a conversation becomes a prompt or is refused by a
 * template that writes all of it, with every byte of the request as plain text. */
#include "model/text/template/tool_format.h"
#include "tests/fuzz/ask_check.h"

#include <stdint.h>

/* Its own bytes are markup, and none of them is a digit. */
static const char mirror[] =
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ m.tool_calls | tojson "
    "if "
    "m.tool_calls }}{{ m.tool_call_id }}{{ m.name }}{{ m.reasoning_content }}{% endfor %}{{ tools "
    "| "
    "tojson }}{{ documents | tojson }}{{ enable_thinking }}{{ reasoning_effort }}"
    "{{ '[answer]' if add_generation_prompt }}";

static void check_prompt(const struct template *chosen, const struct ask *ask) {
    struct error error = {0};
    struct template_prompt prompt;
    struct template_input input = ask->chat.input;
    input.bos = SPAN("<s>");
    if (template_render(chosen, &input, &prompt, &error) != STATUS_OK) {
        ASSERT(error.text[0] != 0);
        return;
    }
    for (size_t i = 0; i < prompt.n; i++)
        for (size_t at = 0; at < prompt.segments[i].text.n; at++)
            ASSERT(prompt.segments[i].kind == TEMPLATE_PLAIN ||
                   prompt.segments[i].text.bytes[at] < '0' ||
                   prompt.segments[i].text.bytes[at] > '9');
    template_prompt_fini(&prompt);
}

static void check_prompts(const struct ask *ask) {
    static struct template chosen[2];
    static const struct template_source sources[2] = {{.text = {mirror, sizeof mirror - 1}},
                                                      {.family = "hash"}};
    struct error error;
    for (size_t i = 0; i < 2; i++) {
        if (!chosen[i].kind)
            ASSERT(template_choose(&chosen[i], &sources[i], &error) == STATUS_OK);
        check_prompt(&chosen[i], ask);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct dialect *const dialects[] = {&dialect_chat,     &dialect_completions,
                                                     &dialect_tokenize, &dialect_detokenize,
                                                     &dialect_messages, &dialect_count_tokens};
    struct ask_limits limits = {.model = "m", .n_tokens = 1000, .prompt_max = 64};
    if (size == 0)
        return 0;
    limits.tool_format = tool_format_nth(data[0] % 192 / 6 % 8); /* or none, behind the last */
    limits.tool_marks_special = size % 2 ? ~0u : 0;
    const struct dialect *dialect = data[0] < 192 ? dialects[data[0] % 6] : &dialect_responses;
    struct api_error error = {0};
    struct ask ask;
    ask_init(&ask);
    const struct span body = {(const char *)data + 1, size - 1};
    enum status status = dialect->parse(&body, &limits, &ask, &error);
    if (status == STATUS_OK && dialect->writer)
        ask_check(&ask);
    if (status == STATUS_OK && ask.is_chat)
        check_prompts(&ask);
    ASSERT(status == STATUS_OK || error.error.text[0] != 0);
    error.status = status;
    struct buf out;
    buf_init(&out, 0);
    errors_put(&error, &out);
    json_t *shown = json_loadb(out.data, out.n, 0, NULL);
    ASSERT(shown); /* what a client reads is JSON, whatever it sent */
    json_decref(shown);
    buf_fini(&out);
    ask_fini(&ask);
    return 0;
}
