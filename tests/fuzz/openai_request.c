/* Bodies of every dialect that parses one: the first byte picks the dialect. Whatever is accepted
 * must hold what later stages rely on. */
#include "base/assert.h"
#include "model/json/json_get.h"
#include "router/api/api.h"

#include <stdint.h>

static void check(const struct ask *ask) {
    ASSERT(ask->n_prompts > 0 && ask->n_prompts <= ASK_PROMPTS_MAX);
    ASSERT(ask->n_choices > 0 && ask->n_choices * ask->n_prompts <= ASK_SEQUENCES_MAX);
    ASSERT(ask->n_stops <= ASK_STOPS_MAX);
    for (uint32_t i = 0; i < ask->n_stops; i++)
        ASSERT(ask->stops[i].n > 0 && ask->stops[i].n <= ASK_STOP_BYTES_MAX);
    ASSERT(ask->sampling.n_top <= MESSAGE_TOP_MAX && ask->sampling.n_bias <= MESSAGE_BIAS_MAX);
    ASSERT(ask->sampling.temperature >= 0 && ask->sampling.top_p > 0);
    ASSERT(!ask->is_chat || ask->n_messages > 0);
    for (uint32_t i = 0; i < ask->n_prompts; i++)
        ASSERT(ask->is_chat || ask->prompts[i].is_ids || ask->prompts[i].text.n > 0);
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
    enum status status = json_get_parse((const char *)data + 1, size - 1, &ask.body, &error.error);
    if (status == STATUS_OK)
        status = dialect->parse(ask.body, &limits, &ask, &error);
    if (status == STATUS_OK && dialect->writer)
        check(&ask);
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
