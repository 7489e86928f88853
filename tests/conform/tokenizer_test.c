/* What every kind of tokenizer must do: text comes back byte for byte, whatever is in it. */
#include "tests/support/suite.h"

#include "base/random.h"
#include "base/utf8.h"
#include "model/gguf/gguf.h"
#include "model/text/tokenizer/detokenize.h"
#include "model/text/tokenizer/files/spm_tokenizer.h"
#include "model/text/tokenizer/files/tokenizer_extras.h"
#include "model/text/tokenizer/files/tokenizer_files.h"
#include "model/text/tokenizer/tokenizer.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/spm_builder.h"

#include <jansson.h>
#include <string.h>

const char *const suite_name = "conform_tokenizer";
const double suite_timeout_s = 60;

static struct tokenizer *open_bpe(void) {
    struct gguf_builder builder;
    struct gguf *gguf;
    struct tokenizer *tokenizer;
    struct error error;
    gguf_builder_init(&builder);
    gguf_builder_llama(&builder);
    gguf_builder_finish(&builder, 0);
    ck_assert_int_eq(gguf_parse(builder.bytes.data, builder.bytes.n, "f", &gguf, &error),
                     STATUS_OK);
    ck_assert_int_eq(tokenizer_open_gguf(gguf, &tokenizer, &error), STATUS_OK);
    gguf_close(gguf);
    gguf_builder_fini(&builder);
    return tokenizer;
}

static struct tokenizer *open_bytes(void) {
    struct tokenizer *tokenizer;
    struct error error;
    ck_assert_int_eq(tokenizer_open_hash(&tokenizer, &error), STATUS_OK);
    return tokenizer;
}

#define BLANK "\xe2\x96\x81"

/* Llama 2's kind: bytes for what is not a piece, a blank before a text. */
static struct tokenizer *open_spm(void) {
    struct spm_builder builder;
    struct tokenizer *tokenizer;
    struct error error;
    spm_builder_init(&builder);
    spm_builder_bpe(&builder);
    spm_builder_normalizer(&builder, true, false);
    spm_builder_ends(&builder);
    spm_builder_bytes(&builder);
    spm_builder_piece(&builder, "a", -3, TOKEN_NORMAL);
    spm_builder_piece(&builder, BLANK, -4, TOKEN_NORMAL);
    spm_builder_piece(&builder, BLANK "a", -1, TOKEN_NORMAL);
    spm_builder_piece(&builder, BLANK "x", -1, TOKEN_NORMAL);
    spm_builder_piece(&builder, BLANK BLANK, -2, TOKEN_NORMAL);
    struct span file = spm_builder_finish(&builder);
    ck_assert_int_eq(spm_tokenizer_parse(file, "made", NULL, &tokenizer, &error), STATUS_OK);
    spm_builder_fini(&builder);
    return tokenizer;
}

/* tokenizer.json of the same kind, whose texts are characters with bytes for the others. */
static struct tokenizer *open_json(void) {
    const struct tokenizer_extras extras = {0};
    struct tokenizer *tokenizer;
    struct error error;
    json_error_t problem;
    struct buf text;
    buf_init(&text, 0);
    buf_puts(&text, "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":"
                    "\"Prepend\",\"prepend\":\"" BLANK "\"},{\"type\":\"Replace\",\"pattern\":"
                    "{\"String\":\" \"},\"content\":\"" BLANK "\"}]},\"decoder\":{\"type\":"
                    "\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":"
                    "\"" BLANK "\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":"
                    "\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},"
                    "\"model\":{\"byte_fallback\":true,\"vocab\":{");
    for (unsigned byte = 0; byte < 256; byte++)
        buf_printf(&text, "\"<0x%02X>\":%u,", byte, byte);
    buf_puts(&text,
             "\"x\":261,\"" BLANK "x\":262,\"a\":256,\"b\":257,\"ab\":258,\"" BLANK
             "\":259,\"" BLANK "ab\":260},\"merges\":[\"" BLANK " x\",\"a b\",\"" BLANK " ab\"]}}");
    json_t *root = json_loadb(text.data, text.n, 0, &problem);
    ck_assert_msg(root != NULL, "%s", problem.text);
    enum status status = tokenizer_parse_json(root, &extras, &tokenizer, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    json_decref(root);
    buf_fini(&text);
    return tokenizer;
}

static const struct {
    const char *kind;
    struct tokenizer *(*open)(void);
} members[] = {
    {"bpe", open_bpe}, {"bytes", open_bytes}, {"sentencepiece", open_spm}, {"bpe", open_json}};

static size_t make_text(struct random *random, char *text, size_t n_max) {
    size_t n = 0;
    size_t n_points = (size_t)random_below(random, n_max / 4);
    for (size_t i = 0; i < n_points; i++) {
        static const uint32_t ranges[][2] = {{0, 0x20},        {'a', 'c'},         {' ', ' '},
                                             {'0', '9'},       {0x300, 0x36f},     {0x4e00, 0x4e20},
                                             {0x2000, 0x20ff}, {0x1f600, 0x1f640}, {0, 0xd7ff}};
        const uint32_t *range = ranges[random_below(random, sizeof ranges / sizeof *ranges)];
        uint32_t point = range[0] + (uint32_t)random_below(random, range[1] - range[0] + 1);
        if (point == 0x2581) /* SentencePiece's own spelling of a blank: it comes back as one */
            point = ' ';
        n += utf8_encode(point, text + n);
    }
    return n;
}

START_TEST(text_comes_back_byte_for_byte) {
    struct tokenizer *tokenizer = members[_i].open();
    struct tokenizer_scratch *scratch = tokenizer_scratch_new();
    struct random random = {.state = 77};
    ck_assert_str_eq(tokenizer->kind->name, members[_i].kind);
    for (int round = 0; round < 500; round++) {
        char text[512];
        struct span span = {text, make_text(&random, text, sizeof text)};
        struct detokenizer detokenizer;
        struct error error;
        struct ids ids;
        struct buf out;
        ids_init(&ids, 0);
        buf_init(&out, 0);
        ck_assert_int_eq(tokenizer_encode(tokenizer, scratch, span, 0, &ids, &error), STATUS_OK);
        detokenizer_init(&detokenizer, true);
        for (size_t i = 0; i < ids.n; i++) {
            ck_assert_uint_lt(ids.at[i], tokenizer_n_tokens(tokenizer));
            ck_assert(!tokenizer_is_special(tokenizer, ids.at[i]));
            ck_assert_int_eq(detokenizer_push(&detokenizer, tokenizer, ids.at[i], &out), STATUS_OK);
        }
        ck_assert_int_eq(detokenizer_flush(&detokenizer, &out), STATUS_OK);
        ck_assert_uint_eq(out.n, span.n);
        if (span.n > 0)
            ck_assert_mem_eq(out.data, text, span.n);
        buf_fini(&out);
        ids_fini(&ids);
    }
    tokenizer_scratch_free(scratch);
    tokenizer_close(tokenizer);
}
END_TEST

START_TEST(broken_text_is_refused_and_the_list_left_alone) {
    struct tokenizer *tokenizer = members[_i].open();
    struct tokenizer_scratch *scratch = tokenizer_scratch_new();
    struct error error;
    struct ids ids;
    ids_init(&ids, 3);
    ck_assert_int_eq(tokenizer_encode(tokenizer, scratch, SPAN("x y"), 0, &ids, &error), STATUS_OK);
    ck_assert_int_eq(tokenizer_encode(tokenizer, scratch, SPAN("\xff"), 0, &ids, &error),
                     STATUS_INVALID);
    ck_assert_int_eq(tokenizer_encode(tokenizer, scratch, SPAN("z"), 0, &ids, &error),
                     STATUS_LIMIT);
    ck_assert_uint_eq(ids.n, 3);
    ids_fini(&ids);
    tokenizer_scratch_free(scratch);
    tokenizer_close(tokenizer);
}
END_TEST

void suite_add(TCase *tests) {
    int n = (int)(sizeof members / sizeof *members);
    tcase_add_loop_test(tests, text_comes_back_byte_for_byte, 0, n);
    tcase_add_loop_test(tests, broken_text_is_refused_and_the_list_left_alone, 0, n);
}
