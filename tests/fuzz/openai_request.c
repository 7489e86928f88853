/* Bodies of every dialect that parses one: the first byte picks the dialect. Whatever is accepted
 * must hold what later stages rely on, and a conversation becomes a prompt or is refused by a
 * template that writes all of it, with every byte of the request as plain text. */
#include "base/assert.h"
#include "router/api/dialect.h"

#include <stdint.h>

static void check(const struct ask *ask) {
    ASSERT(ask->n_prompts > 0 && ask->n_prompts <= ASK_PROMPTS_MAX);
    ASSERT(ask->n_choices > 0 && ask->n_choices * ask->n_prompts <= ASK_SEQUENCES_MAX);
    ASSERT(ask->n_stops <= ASK_STOPS_MAX);
    for (uint32_t i = 0; i < ask->n_stops; i++)
        ASSERT(ask->stops[i].n > 0 && ask->stops[i].n <= ASK_STOP_BYTES_MAX);
    ASSERT(ask->sampling.n_top <= MESSAGE_TOP_MAX && ask->sampling.n_bias <= MESSAGE_BIAS_MAX);
    ASSERT(ask->sampling.temperature >= 0 && ask->sampling.top_p > 0);
    ASSERT(!ask->is_chat || ask->chat.input.n_messages > 0);
    for (uint32_t i = 0; i < ask->n_prompts; i++)
        ASSERT(ask->is_chat || ask->prompts[i].is_ids || ask->prompts[i].text.n > 0);
}

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
    static const struct dialect *const dialects[] = {&dialect_chat, &dialect_completions,
                                                     &dialect_tokenize, &dialect_detokenize};
    static const struct ask_limits limits = {.model = "m", .n_tokens = 1000, .prompt_max = 64};
    if (size == 0)
        return 0;
    const struct dialect *dialect = dialects[data[0] % 4];
    struct api_error error = {0};
    struct ask ask;
    ask_init(&ask);
    const struct span body = {(const char *)data + 1, size - 1};
    enum status status = dialect->parse(&body, &limits, &ask, &error);
    if (status == STATUS_OK && dialect->writer)
        check(&ask);
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
