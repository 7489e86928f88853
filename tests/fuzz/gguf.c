/* Any bytes as a GGUF file, or as two parts of one: header, tensor table, config, tokenizer, chat template. */
#include "model/gguf/gguf.h"
#include "model/text/template/template.h"
#include "model/text/tokenizer/tokenizer.h"
#include "model/weights/config/config.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads the ends of every tensor: they must lie in the file. */
static unsigned touch_tensors(const struct gguf *gguf) {
    unsigned sum = 0;
    for (uint32_t i = 0; i < gguf->n_tensors; i++) {
        const unsigned char *bytes = gguf->tensors[i].data;
        if (gguf_tensor(gguf, gguf->tensors[i].name) != &gguf->tensors[i])
            abort();
        sum += bytes[0];
        sum += bytes[gguf->tensors[i].n_bytes - 1];
    }
    return sum;
}

static void use_tokenizer(const struct gguf *gguf) {
    struct tokenizer *tokenizer;
    struct error error;
    struct ids ids;
    if (tokenizer_open_gguf(gguf, &tokenizer, &error) != STATUS_OK)
        return;
    struct tokenizer_scratch *scratch = tokenizer_scratch_new();
    ids_init(&ids, 1000);
    struct span text = SPAN("Hello  12 ab ab<|im_end|> it's \xc3\xa9\n\n");
    unsigned flags = TOKENIZER_ADD_BOS | TOKENIZER_PARSE_SPECIAL;
    if (scratch && tokenizer_encode(tokenizer, scratch, text, flags, &ids, &error) == STATUS_OK)
        for (size_t i = 0; i < ids.n; i++)
            if (ids.at[i] >= tokenizer_n_tokens(tokenizer))
                abort();
    ids_fini(&ids);
    tokenizer_scratch_free(scratch);
    tokenizer_close(tokenizer);
}

/* Two parts where "GGUF" stands a second time, else one file. */
static enum status parse(const uint8_t *data, size_t size, struct gguf **gguf,
                         struct error *error) {
    struct gguf *parts[2];
    const uint8_t *second = size > 4 ? memmem(data + 4, size - 4, "GGUF", 4) : NULL;
    if (!second)
        return gguf_parse(data, size, "fuzz", gguf, error);
    size_t n = (size_t)(second - data);
    TRY(gguf_parse(data, n, "first", &parts[0], error));
    enum status status = gguf_parse(second, size - n, "second", &parts[1], error);
    if (status == STATUS_OK)
        return gguf_join(parts, 2, gguf, error);
    gguf_close(parts[0]);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct gguf *gguf;
    struct model_config config;
    struct template template;
    struct span source = {0};
    struct error error;
    if (parse(data, size, &gguf, &error) != STATUS_OK)
        return 0;
    volatile unsigned sum = touch_tensors(gguf);
    (void)sum;
    if (config_from_gguf(gguf, &config, &error) == STATUS_OK &&
        config_check(&config, &error) != STATUS_OK)
        abort();
    use_tokenizer(gguf);
    if (gguf_string(gguf, "tokenizer.chat_template", &source, &error) == STATUS_OK &&
        template_choose(&template, &(struct template_source){.text = source}, &error) == STATUS_OK)
        template_fini(&template);
    gguf_close(gguf);
    return 0;
}
