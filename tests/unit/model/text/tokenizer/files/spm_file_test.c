/* tokenizer.model files that are wrong: each is refused with a line that names what and where. */
#include "tests/support/suite.h"

#include "model/text/tokenizer/files/spm_tokenizer.h"
#include "tests/support/spm_builder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "model_spm_file";
const double suite_timeout_s = 120;

static void start(struct spm_builder *builder) {
    spm_builder_init(builder);
    spm_builder_bpe(builder);
    spm_builder_normalizer(builder, true, false);
    spm_builder_ends(builder);
    spm_builder_piece(builder, "a", -1, TOKEN_NORMAL);
}

static enum status parse(struct span bytes, struct error *error) {
    struct tokenizer *tokenizer = NULL;
    /* A copy of its own, so that a read past its end is seen. */
    char *copy = malloc(bytes.n + 1);
    memcpy(copy, bytes.bytes, bytes.n);
    char *exact = realloc(copy, bytes.n ? bytes.n : 1);
    enum status status =
        spm_tokenizer_parse((struct span){exact, bytes.n}, "f.model", NULL, &tokenizer, error);
    ck_assert_int_eq(status == STATUS_OK, tokenizer != NULL);
    tokenizer_close(tokenizer);
    free(exact);
    return status;
}

static void no_pieces(struct spm_builder *builder) {
    buf_clear(&builder->pieces);
}

static void two_unknown(struct spm_builder *builder) {
    spm_builder_piece(builder, "<unk2>", 0, TOKEN_UNKNOWN);
}

static void kind_9(struct spm_builder *builder) {
    spm_builder_piece(builder, "x", 0, 9);
}

static void same_piece(struct spm_builder *builder) {
    spm_builder_piece(builder, "a", 0, TOKEN_NORMAL);
}

static void empty_piece(struct spm_builder *builder) {
    spm_builder_piece(builder, "", 0, TOKEN_NORMAL);
}

static void no_utf8(struct spm_builder *builder) {
    spm_builder_piece(builder, "\xff", 0, TOKEN_NORMAL);
}

static void no_number(struct spm_builder *builder) {
    spm_builder_piece(builder, "x", NAN, TOKEN_NORMAL);
}

static void no_finite_number(struct spm_builder *builder) {
    spm_builder_piece(builder, "x", INFINITY, TOKEN_NORMAL);
}

static void long_piece(struct spm_builder *builder) {
    char text[VOCABULARY_BYTES_MAX + 2];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    spm_builder_piece(builder, text, 0, TOKEN_NORMAL);
}

static void one_byte(struct spm_builder *builder) {
    spm_builder_int(&builder->trainer, 35, 1);
    spm_builder_piece(builder, "<0x00>", 0, TOKEN_BYTE);
}

static void bad_byte(struct spm_builder *builder) {
    spm_builder_int(&builder->trainer, 35, 1);
    spm_builder_piece(builder, "<0x0g>", 0, TOKEN_BYTE);
}

static void byte_without_fallback(struct spm_builder *builder) {
    spm_builder_piece(builder, "<0x00>", 0, TOKEN_BYTE);
}

static void word_model(struct spm_builder *builder) {
    spm_builder_int(&builder->trainer, 3, 3);
}

static void type_of_text(struct spm_builder *builder) {
    spm_builder_text(&builder->trainer, 3, SPAN("BPE"));
}

static void long_surface(struct spm_builder *builder) {
    char text[SPM_SURFACE_MAX + 1];
    memset(text, 'x', sizeof text);
    spm_builder_text(&builder->trainer, 44, (struct span){text, sizeof text});
}

static void flag_of_text(struct spm_builder *builder) {
    spm_builder_text(&builder->normalizer, 3, SPAN("1"));
}

static void short_table(struct spm_builder *builder) {
    spm_builder_text(&builder->normalizer, 2, SPAN("\1\0\0"));
}

static void table_of_nothing(struct spm_builder *builder) {
    spm_builder_text(&builder->normalizer, 2, SPAN("\0\4\0\0"));
}

static void table_without_end(struct spm_builder *builder) {
    char blob[4 + 1024 + 1] = {0, 4};
    blob[sizeof blob - 1] = 'x';
    spm_builder_text(&builder->normalizer, 2, (struct span){blob, sizeof blob});
}

static void denormalizer(struct spm_builder *builder) {
    struct buf message;
    buf_init(&message, 0);
    spm_builder_text(&message, 2, SPAN("table"));
    spm_builder_text(&builder->pieces, 5, (struct span){message.data, message.n});
    buf_fini(&message);
}

static void group(struct spm_builder *builder) {
    buf_append(&builder->pieces, "\x0b", 1);
}

static void field_0(struct spm_builder *builder) {
    buf_append(&builder->pieces, "\0\0", 2);
}

static void long_number(struct spm_builder *builder) {
    buf_append(&builder->pieces, "\x30\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 11);
}

static void past_the_end(struct spm_builder *builder) {
    buf_append(&builder->pieces, "\x32\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11);
}

static const struct {
    void (*spoil)(struct spm_builder *builder);
    enum status status;
    const char *line; /* is in the error's */
} cases[] = {
    {no_pieces, STATUS_CORRUPT, "0 of 0 pieces are of type UNKNOWN"},
    {two_unknown, STATUS_CORRUPT, "2 of 5 pieces are of type UNKNOWN"},
    {kind_9, STATUS_CORRUPT, "pieces.type 9 is not known"},
    {same_piece, STATUS_CORRUPT, "tokens 3 and 4 are the same"},
    {empty_piece, STATUS_CORRUPT, "piece 4 is empty"},
    {no_utf8, STATUS_CORRUPT, "piece 4 is not valid UTF-8"},
    {no_number, STATUS_CORRUPT, "the score of piece 4"},
    {no_finite_number, STATUS_CORRUPT, "the score of piece 4"},
    {long_piece, STATUS_LIMIT, "token 4 has 1025 bytes"},
    {one_byte, STATUS_CORRUPT, "piece <0x01> is missing"},
    {bad_byte, STATUS_CORRUPT, "piece 4 is of type BYTE, but spelled \"<0x0g>\""},
    {byte_without_fallback, STATUS_CORRUPT, "piece 4 is a byte, but byte_fallback is not set"},
    {word_model, STATUS_UNSUPPORTED, "a model of type 3 (WORD) is not supported"},
    {type_of_text, STATUS_CORRUPT, "trainer_spec.model_type has wire type 2"},
    {long_surface, STATUS_LIMIT, "unk_surface"},
    {flag_of_text, STATUS_CORRUPT, "normalizer_spec.add_dummy_prefix has wire type 2"},
    {short_table, STATUS_CORRUPT, "precompiled_charsmap: a trie of 0 bytes in 3"},
    {table_of_nothing, STATUS_CORRUPT, "precompiled_charsmap: a trie of 0 bytes in 4"},
    {table_without_end, STATUS_CORRUPT, "precompiled_charsmap: the last text has no end"},
    {denormalizer, STATUS_UNSUPPORTED, "denormalizer_spec"},
    {group, STATUS_CORRUPT, "a wire type that is not read"},
    {field_0, STATUS_CORRUPT, "a field number that cannot be"},
    {long_number, STATUS_CORRUPT, "a number of more than 64 bits"},
    {past_the_end, STATUS_CORRUPT, "reaches past its message's end"},
};

START_TEST(malformed_file_is_refused_by_name) {
    struct spm_builder builder;
    struct error error = {0};
    start(&builder);
    cases[_i].spoil(&builder);
    enum status status = parse(spm_builder_finish(&builder), &error);
    ck_assert_msg(status == cases[_i].status, "%s: %s", status_name(status), error.text);
    ck_assert_msg(strstr(error.text, cases[_i].line) && strstr(error.text, "f.model"), "%s",
                  error.text);
    spm_builder_fini(&builder);
}
END_TEST

START_TEST(errors_name_the_byte) {
    struct error error = {0};
    ck_assert_int_eq(parse(SPAN("\x0a\x09\x0a\x05xx"), &error), STATUS_CORRUPT);
    ck_assert_str_eq(error.text, "f.model: at byte 0: a field that reaches past its message's end");
    ck_assert_int_eq(parse(SPAN("\x0a\x03\x0a\x05x"), &error), STATUS_CORRUPT);
    ck_assert_str_eq(error.text, "f.model: at byte 2: a field that reaches past its message's end");
}
END_TEST

START_TEST(every_cut_file_is_read_or_refused) {
    struct spm_builder builder;
    struct error error;
    start(&builder);
    spm_builder_bytes(&builder);
    struct span file = spm_builder_finish(&builder);
    ck_assert_int_eq(parse(file, &error), STATUS_OK);
    for (size_t n = 0; n < file.n; n += n < 200 ? 1 : 17)
        (void)!parse((struct span){file.bytes, n}, &error);
    spm_builder_fini(&builder);
}
END_TEST

START_TEST(file_that_is_not_there_is_said_to_be) {
    struct tokenizer *tokenizer;
    struct error error;
    ck_assert_int_eq(tokenizer_open_sentencepiece("/nonexistent/t.model", NULL, &tokenizer, &error),
                     STATUS_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "/nonexistent/t.model"));
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, malformed_file_is_refused_by_name, 0,
                        (int)(sizeof cases / sizeof *cases));
    tcase_add_test(tests, errors_name_the_byte);
    tcase_add_test(tests, every_cut_file_is_read_or_refused);
    tcase_add_test(tests, file_that_is_not_there_is_said_to_be);
}
