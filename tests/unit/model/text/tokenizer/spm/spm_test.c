/* SentencePiece models: how text becomes pieces and pieces become text, on small made models. */
#include "tests/support/suite.h"

#include "base/utf8.h"
#include "model/gguf/gguf.h"
#include "model/text/tokenizer/detokenize.h"
#include "model/text/tokenizer/files/spm_tokenizer.h"
#include "model/text/tokenizer/files/tokenizer_extras.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/spm_builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "model_spm";
const double suite_timeout_s = 120;

#define BLANK    "\xe2\x96\x81"
#define FFFD     "\xef\xbf\xbd"
#define IDS(...) ((const uint32_t[]){__VA_ARGS__, UINT32_MAX})

enum { UNK, BOS, EOS };

static struct tokenizer *open_with(struct spm_builder *builder,
                                   const struct tokenizer_extras *extras) {
    struct tokenizer *tokenizer = NULL;
    struct error error;
    struct span file = spm_builder_finish(builder);
    enum status status = spm_tokenizer_parse(file, "made", extras, &tokenizer, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    spm_builder_fini(builder);
    return tokenizer;
}

static void expect_flags(const struct tokenizer *tokenizer, const char *text, unsigned flags,
                         const uint32_t *wanted) {
    struct tokenizer_scratch *scratch = tokenizer_scratch_new();
    struct span span = {text, strlen(text)};
    struct error error;
    struct ids ids;
    size_t n = 0;
    ids_init(&ids, 0);
    ck_assert_int_eq(tokenizer_encode(tokenizer, scratch, span, flags, &ids, &error), STATUS_OK);
    while (wanted[n] != UINT32_MAX)
        n++;
    ck_assert_msg(ids.n == n && (n == 0 || memcmp(ids.at, wanted, n * sizeof *wanted) == 0),
                  "\"%s\" gave %zu ids, the first is %u", text, ids.n, ids.n > 0 ? ids.at[0] : 0);
    ids_fini(&ids);
    tokenizer_scratch_free(scratch);
}

static void expect(const struct tokenizer *tokenizer, const char *text, const uint32_t *wanted) {
    expect_flags(tokenizer, text, 0, wanted);
}

/* Each part must be whole characters, and all of them together `text`. */
static void expect_text(const struct tokenizer *tokenizer, bool skip_special, const uint32_t *ids,
                        const char *text) {
    struct detokenizer detokenizer;
    struct buf out;
    buf_init(&out, 0);
    detokenizer_init(&detokenizer, skip_special);
    for (; *ids != UINT32_MAX; ids++) {
        ck_assert_int_eq(detokenizer_push(&detokenizer, tokenizer, *ids, &out), STATUS_OK);
        ck_assert(utf8_valid(out.data ? out.data : "", out.n));
    }
    ck_assert_int_eq(detokenizer_flush(&detokenizer, &out), STATUS_OK);
    ck_assert_str_eq(out.data ? out.data : "", text);
    buf_fini(&out);
}

/* Llama's kind: bytes, a blank before a text, nothing else changed. */
static void start_llama(struct spm_builder *builder, bool prefix, bool squeezes) {
    spm_builder_init(builder);
    spm_builder_bpe(builder);
    spm_builder_normalizer(builder, prefix, squeezes);
    spm_builder_ends(builder);
    spm_builder_bytes(builder);
}

enum { BYTES = 3, A = 259, B, C, AB, BC, BLANK_ONE, BLANK_A, BLANK_TWO, BLANK_AB };

static struct tokenizer *open_llama(bool prefix, bool squeezes,
                                    const struct tokenizer_extras *extras) {
    struct spm_builder builder;
    start_llama(&builder, prefix, squeezes);
    spm_builder_piece(&builder, "a", -10, TOKEN_NORMAL);
    spm_builder_piece(&builder, "b", -11, TOKEN_NORMAL);
    spm_builder_piece(&builder, "c", -12, TOKEN_NORMAL);
    spm_builder_piece(&builder, "ab", -2, TOKEN_NORMAL);
    spm_builder_piece(&builder, "bc", -2, TOKEN_NORMAL);
    spm_builder_piece(&builder, BLANK, -13, TOKEN_NORMAL);
    spm_builder_piece(&builder, BLANK "a", -3, TOKEN_NORMAL);
    spm_builder_piece(&builder, BLANK BLANK, -4, TOKEN_NORMAL);
    spm_builder_piece(&builder, BLANK "ab", -5, TOKEN_NORMAL);
    return open_with(&builder, extras);
}

START_TEST(best_score_merges_first_and_the_leftmost_of_equals) {
    struct tokenizer *tokenizer = open_llama(false, false, NULL);
    ck_assert_str_eq(tokenizer->kind->name, "sentencepiece");
    expect(tokenizer, "", IDS(UINT32_MAX));
    expect(tokenizer, "abc", IDS(AB, C));
    expect(tokenizer, "bcab", IDS(BC, AB));
    expect(tokenizer, "abcabc", IDS(AB, C, AB, C));
    expect(tokenizer, " abc", IDS(BLANK_AB, C));
    expect(tokenizer, " a", IDS(BLANK_A));
    expect(tokenizer, "a   a", IDS(A, BLANK_TWO, BLANK_A));
    expect(tokenizer, "a" BLANK "a", IDS(A, BLANK_A));
    tokenizer_close(tokenizer);
}
END_TEST

START_TEST(unknown_characters_become_their_bytes) {
    struct tokenizer *tokenizer = open_llama(false, false, NULL);
    expect(tokenizer, "ax\n\xc3\xa9",
           IDS(A, BYTES + 'x', BYTES + '\n', BYTES + 0xc3, BYTES + 0xa9));
    tokenizer_close(tokenizer);
}
END_TEST

START_TEST(a_text_begins_with_a_blank_that_decoding_takes_away) {
    struct tokenizer *tokenizer = open_llama(true, false, NULL);
    expect(tokenizer, "a", IDS(BLANK_A));
    expect(tokenizer, " a", IDS(BLANK_ONE, BLANK_A));
    expect_text(tokenizer, true, IDS(BLANK_TWO, A), " a");
    expect_text(tokenizer, true, IDS(BLANK_A, BLANK_A), "a a");
    expect_text(tokenizer, true, IDS(BLANK_ONE, BLANK_A), " a");
    expect_text(tokenizer, true, IDS(A, BLANK_A), "a a");
    expect_text(tokenizer, true, IDS(BYTES + 'x', BLANK_A), "x a");
    expect_text(tokenizer, true, IDS(BOS, BLANK_A), "a");
    expect_text(tokenizer, false, IDS(BOS, BLANK_A), "<s> a");
    tokenizer_close(tokenizer);
}
END_TEST

START_TEST(a_text_that_goes_on_keeps_its_first_blank) {
    struct tokenizer *tokenizer = open_llama(true, false, NULL);
    struct detokenizer detokenizer;
    struct buf out;
    buf_init(&out, 0);
    detokenizer_init(&detokenizer, true);
    detokenizer_continue(&detokenizer);
    ck_assert_int_eq(detokenizer_push(&detokenizer, tokenizer, BLANK_A, &out), STATUS_OK);
    ck_assert_str_eq(out.data, " a");
    buf_fini(&out);
    tokenizer_close(tokenizer);
}
END_TEST

START_TEST(blanks_are_squeezed_where_the_model_says_so) {
    struct tokenizer *tokenizer = open_llama(true, true, NULL);
    expect(tokenizer, "   ", IDS(UINT32_MAX));
    expect(tokenizer, "  a   ab  ", IDS(BLANK_A, BLANK_AB));
    /* Nothing but blanks at the front: every piece loses the one it begins with. */
    expect_text(tokenizer, true, IDS(BLANK_ONE, BLANK_ONE, BLANK_A, BLANK_A), "a a");
    expect_text(tokenizer, true, IDS(BLANK_TWO, BLANK_A), "  a");
    tokenizer_close(tokenizer);
}
END_TEST

START_TEST(text_that_shrinks_is_not_refused_by_its_length) {
    struct tokenizer *tokenizer = open_llama(true, true, NULL);
    struct tokenizer_scratch *scratch = tokenizer_scratch_new();
    struct error error;
    struct ids ids;
    char blanks[4096];
    memset(blanks, ' ', sizeof blanks);
    ids_init(&ids, 1);
    ck_assert_int_eq(
        tokenizer_encode(tokenizer, scratch, (struct span){blanks, sizeof blanks}, 0, &ids, &error),
        STATUS_OK);
    ck_assert_uint_eq(ids.n, 0);
    ids_fini(&ids);
    tokenizer_scratch_free(scratch);
    tokenizer_close(tokenizer);
}
END_TEST

START_TEST(bytes_are_joined_to_characters) {
    struct tokenizer *tokenizer = open_llama(true, false, NULL);
    expect_text(tokenizer, true, IDS(BYTES + 0xe4, BYTES + 0xb8, BYTES + 0xad, A),
                "\xe4\xb8\xad"
                "a");
    expect_text(tokenizer, true, IDS(BYTES + 0xe4, BYTES + 0xb8), FFFD FFFD);
    expect_text(tokenizer, true, IDS(BYTES + 0xe4, BYTES + 0xb8, A), FFFD FFFD "a");
    expect_text(tokenizer, true, IDS(BYTES + 0xe4, BYTES + 0xc3, BYTES + 0xa9), FFFD "\xc3\xa9");
    expect_text(tokenizer, true, IDS(BYTES + 0xff, BYTES + 0x80), FFFD FFFD);
    /* What is not shown still stands between. */
    expect_text(tokenizer, true, IDS(BYTES + 0xc3, EOS, BYTES + 0xa9), FFFD FFFD);
    tokenizer_close(tokenizer);
}
END_TEST

START_TEST(control_pieces_come_from_trusted_text_alone) {
    struct tokenizer *tokenizer = open_llama(false, false, NULL);
    expect(tokenizer, "<s>", IDS(BYTES + '<', BYTES + 's', BYTES + '>'));
    expect_flags(tokenizer, "a<s>b", TOKENIZER_PARSE_SPECIAL, IDS(A, BOS, B));
    ck_assert_uint_eq(tokenizer->bos_id, BOS);
    ck_assert_uint_eq(tokenizer->eos_id, EOS);
    ck_assert(!tokenizer_adds_bos(tokenizer));
    ck_assert(tokenizer_is_special(tokenizer, UNK));
    ck_assert(!tokenizer_is_special(tokenizer, BYTES));
    ck_assert(span_is(tokenizer_bytes(tokenizer, BLANK_AB), " ab"));
    ck_assert(span_is(tokenizer_bytes(tokenizer, BYTES + 'x'), "x"));
    ck_assert_uint_eq(tokenizer_find(tokenizer, SPAN("</s>")), EOS);
    tokenizer_close(tokenizer);
}
END_TEST

START_TEST(folder_says_how_texts_begin) {
    struct tokenizer_extras extras = {.class = SPAN("LlamaTokenizer"), .add_eos = ANSWER_YES};
    struct tokenizer *tokenizer = open_llama(true, false, &extras);
    expect_flags(tokenizer, "a", TOKENIZER_ADD_BOS, IDS(BOS, BLANK_A, EOS));
    expect_flags(tokenizer, "a<s>a", TOKENIZER_PARSE_SPECIAL, IDS(BLANK_A, BOS, BLANK_A));
    tokenizer_close(tokenizer);
    extras = (struct tokenizer_extras){.model_class = SPAN("LlamaTokenizer")};
    tokenizer = open_llama(true, false, &extras);
    expect_flags(tokenizer, "a", TOKENIZER_ADD_BOS, IDS(BOS, BLANK_A));
    tokenizer_close(tokenizer);
    extras = (struct tokenizer_extras){.add_bos = ANSWER_NO, .legacy = ANSWER_NO};
    tokenizer = open_llama(true, false, &extras);
    expect_flags(tokenizer, "a", TOKENIZER_ADD_BOS, IDS(BLANK_A));
    expect_flags(tokenizer, "a<s>a", TOKENIZER_PARSE_SPECIAL, IDS(BLANK_A, BOS, A));
    tokenizer_close(tokenizer);
}
END_TEST

START_TEST(added_tokens_stand_behind_the_pieces) {
    struct tokenizer_added added[] = {
        {.id = BC, .content = SPAN("bc"), .is_special = true},
        {.id = 268, .content = SPAN("<|im_end|>"), .is_special = true},
        {.id = 270, .content = SPAN("<x>")},
    };
    struct tokenizer_extras extras = {.added = added, .n_added = 3, .eos = SPAN("<|im_end|>")};
    struct tokenizer *tokenizer = open_llama(false, false, &extras);
    ck_assert_uint_eq(tokenizer_n_tokens(tokenizer), 271);
    ck_assert_uint_eq(tokenizer->eos_id, 268);
    expect(tokenizer, "bc", IDS(B, C)); /* special now, no piece any more */
    expect_flags(tokenizer, "bc", TOKENIZER_PARSE_SPECIAL, IDS(BC));
    expect(tokenizer, "a<x>a", IDS(A, 270, A));
    expect_flags(tokenizer, "<|im_end|>", TOKENIZER_PARSE_SPECIAL, IDS(268));
    expect_text(tokenizer, false, IDS(A, 269, 268, 270), "a<|im_end|><x>");
    tokenizer_close(tokenizer);
}
END_TEST

START_TEST(chatglm_has_nine_tokens_behind_its_pieces) {
    struct tokenizer_extras extras = {.class = SPAN("ChatGLMTokenizer")};
    struct tokenizer *tokenizer = open_llama(true, false, &extras);
    ck_assert_uint_eq(tokenizer_n_tokens(tokenizer), 268 + 9);
    ck_assert_uint_eq(tokenizer_find(tokenizer, SPAN("[MASK]")), 268);
    ck_assert_uint_eq(tokenizer_find(tokenizer, SPAN("[gMASK]")), 269);
    ck_assert_uint_eq(tokenizer_find(tokenizer, SPAN("sop")), 271);
    ck_assert_uint_eq(tokenizer_find(tokenizer, SPAN("<|user|>")), 274);
    ck_assert_uint_eq(tokenizer_find(tokenizer, SPAN("<|observation|>")), 276);
    ck_assert(tokenizer_is_special(tokenizer, 274));
    expect(tokenizer, "sop", IDS(BLANK_ONE, BYTES + 's', BYTES + 'o', BYTES + 'p'));
    expect(tokenizer, "a", IDS(BLANK_A));
    expect_flags(tokenizer, "a", TOKENIZER_ADD_BOS, IDS(269, 271, BLANK_A));
    ck_assert(!tokenizer_adds_bos(tokenizer));
    tokenizer_close(tokenizer);
    /* Whatever the answers are, and where config.json alone tells the class. */
    extras = (struct tokenizer_extras){
        .model_class = SPAN("ChatGLMTokenizer"), .add_bos = ANSWER_YES, .add_eos = ANSWER_YES};
    tokenizer = open_llama(true, false, &extras);
    expect_flags(tokenizer, "a", TOKENIZER_ADD_BOS, IDS(269, 271, BLANK_A));
    tokenizer_close(tokenizer);
}
END_TEST

START_TEST(reserved_pieces_are_nobodys_text) {
    struct spm_builder builder;
    start_llama(&builder, false, false);
    uint32_t reserved = spm_builder_piece(&builder, "<reserved_106>", 0, TOKEN_USER_DEFINED);
    uint32_t other = spm_builder_piece(&builder, "<reserved_x>", 0, TOKEN_USER_DEFINED);
    struct tokenizer *tokenizer = open_with(&builder, NULL);
    expect(tokenizer, "<reserved_x>", IDS(other));
    ck_assert(tokenizer_is_special(tokenizer, reserved));
    expect_flags(tokenizer, "<reserved_106>", TOKENIZER_PARSE_SPECIAL, IDS(reserved));
    expect(tokenizer, "<reserved_106>",
           IDS(BYTES + '<', BYTES + 'r', BYTES + 'e', BYTES + 's', BYTES + 'e', BYTES + 'r',
               BYTES + 'v', BYTES + 'e', BYTES + 'd', BYTES + '_', BYTES + '1', BYTES + '0',
               BYTES + '6', BYTES + '>'));
    tokenizer_close(tokenizer);
}
END_TEST

START_TEST(markers_of_roles_are_nobodys_text) {
    struct tokenizer_added added[] = {{.id = 260, .content = SPAN("<|b|>")}};
    struct tokenizer_extras extras = {.added = added, .n_added = 1, .eos = SPAN("<|b|>")};
    struct spm_builder builder;
    start_llama(&builder, false, false);
    uint32_t piece = spm_builder_piece(&builder, "<|a|>", 0, TOKEN_USER_DEFINED);
    struct tokenizer *tokenizer = open_with(&builder, &extras);
    ck_assert_uint_eq(piece, 259);
    ck_assert_uint_eq(tokenizer->eos_id, 260);
    expect(tokenizer, "<|a|>",
           IDS(BYTES + '<', BYTES + '|', BYTES + 'a', BYTES + '|', BYTES + '>'));
    expect(tokenizer, "<|b|>",
           IDS(BYTES + '<', BYTES + '|', BYTES + 'b', BYTES + '|', BYTES + '>'));
    expect_flags(tokenizer, "<|a|><|b|>", TOKENIZER_PARSE_SPECIAL, IDS(259, 260));
    tokenizer_close(tokenizer);
}
END_TEST

START_TEST(user_defined_pieces_come_first_and_never_merge) {
    struct spm_builder builder;
    start_llama(&builder, false, false);
    uint32_t a = spm_builder_piece(&builder, "a", -1, TOKEN_NORMAL);
    uint32_t aa = spm_builder_piece(&builder, "aa", -2, TOKEN_NORMAL);
    uint32_t ba = spm_builder_piece(&builder, "ba", 0, TOKEN_USER_DEFINED);
    uint32_t bab = spm_builder_piece(&builder, "bab", 0, TOKEN_USER_DEFINED);
    spm_builder_piece(&builder, "baa", 0, TOKEN_NORMAL);
    struct tokenizer *tokenizer = open_with(&builder, NULL);
    expect(tokenizer, "aabaa", IDS(aa, ba, a));
    expect(tokenizer, "babaa", IDS(bab, aa));
    tokenizer_close(tokenizer);
}
END_TEST

START_TEST(unused_pieces_fall_apart_again) {
    struct spm_builder builder;
    start_llama(&builder, false, false);
    uint32_t a = spm_builder_piece(&builder, "a", -9, TOKEN_NORMAL);
    uint32_t ab = spm_builder_piece(&builder, "ab", -1, TOKEN_UNUSED);
    uint32_t abab = spm_builder_piece(&builder, "abab", -2, TOKEN_NORMAL);
    uint32_t alone = spm_builder_piece(&builder, "c", -3, TOKEN_UNUSED);
    struct tokenizer *tokenizer = open_with(&builder, NULL);
    expect(tokenizer, "ab", IDS(a, BYTES + 'b'));
    expect(tokenizer, "ababab", IDS(abab, a, BYTES + 'b'));
    expect(tokenizer, "c", IDS(alone));
    ck_assert_uint_ne(ab, alone);
    tokenizer_close(tokenizer);
}
END_TEST

START_TEST(without_bytes_a_run_of_unknown_text_is_one_piece) {
    struct spm_builder builder;
    spm_builder_init(&builder);
    spm_builder_bpe(&builder);
    spm_builder_normalizer(&builder, false, false);
    spm_builder_ends(&builder);
    uint32_t a = spm_builder_piece(&builder, "a", 0, TOKEN_NORMAL);
    struct tokenizer *tokenizer = open_with(&builder, NULL);
    expect(tokenizer, "xyzax y", IDS(UNK, a, UNK));
    expect_text(tokenizer, false, IDS(UNK, a), " \xe2\x81\x87 a");
    expect_text(tokenizer, true, IDS(UNK, a), "a");
    tokenizer_close(tokenizer);
}
END_TEST

START_TEST(unigram_takes_the_best_sum) {
    struct spm_builder builder;
    spm_builder_init(&builder);
    spm_builder_normalizer(&builder, false, false);
    spm_builder_ends(&builder);
    uint32_t a = spm_builder_piece(&builder, "a", -3, TOKEN_NORMAL);
    uint32_t b = spm_builder_piece(&builder, "b", -3, TOKEN_NORMAL);
    uint32_t ab = spm_builder_piece(&builder, "ab", -5, TOKEN_NORMAL);
    uint32_t ba = spm_builder_piece(&builder, "ba", -7, TOKEN_NORMAL);
    uint32_t bb = spm_builder_piece(&builder, "bb", -6, TOKEN_NORMAL);
    uint32_t bbb = spm_builder_piece(&builder, "bbb", -1, TOKEN_UNUSED);
    struct tokenizer *tokenizer = open_with(&builder, NULL);
    expect(tokenizer, "ab", IDS(ab));
    expect(tokenizer, "ba", IDS(b, a));
    expect(tokenizer, "bab", IDS(b, ab));
    expect(tokenizer, "bb", IDS(bb)); /* as good as b b, and found first */
    expect(tokenizer, "xxabx", IDS(UNK, ab, UNK));
    ck_assert_uint_ne(ba, bbb);
    tokenizer_close(tokenizer);
}
END_TEST

/* A double array of one rule, "A" to `to`: the root's children at 0x100, the value at 0x140. */
static void add_charsmap(struct spm_builder *builder, const char *to) {
    uint32_t units[512] = {
        [0] = 0x100u << 10, [0x141] = 1u << 10 | 0x100 | 'A', [0x140] = 0x80000000u};
    uint32_t n_units = sizeof units;
    struct buf blob;
    buf_init(&blob, 0);
    buf_append(&blob, &n_units, sizeof n_units);
    buf_append(&blob, units, sizeof units);
    buf_append(&blob, to, strlen(to) + 1);
    spm_builder_text(&builder->normalizer, 2, (struct span){blob.data, blob.n});
    buf_fini(&blob);
}

START_TEST(table_of_replacements_is_followed) {
    struct spm_builder builder;
    start_llama(&builder, false, true);
    add_charsmap(&builder, "b ");
    uint32_t b = spm_builder_piece(&builder, "b", -1, TOKEN_NORMAL);
    uint32_t blank_b = spm_builder_piece(&builder, BLANK "b", -1, TOKEN_NORMAL);
    struct tokenizer *tokenizer = open_with(&builder, NULL);
    expect(tokenizer, "AA b", IDS(b, blank_b, blank_b));
    tokenizer_close(tokenizer);
}
END_TEST

START_TEST(blank_can_stand_behind_a_text) {
    struct spm_builder builder;
    start_llama(&builder, true, false);
    spm_builder_int(&builder.trainer, 24, 1);
    uint32_t a = spm_builder_piece(&builder, "a", -2, TOKEN_NORMAL);
    uint32_t a_blank = spm_builder_piece(&builder, "a" BLANK, -1, TOKEN_NORMAL);
    struct tokenizer *tokenizer = open_with(&builder, NULL);
    expect(tokenizer, "a aa", IDS(a_blank, a, a_blank));
    tokenizer_close(tokenizer);
}
END_TEST

START_TEST(fingerprint_tells_models_apart) {
    struct tokenizer *one = open_llama(true, false, NULL);
    struct tokenizer *same = open_llama(true, false, NULL);
    struct tokenizer *other = open_llama(false, false, NULL);
    ck_assert_mem_eq(one->fingerprint, same->fingerprint, 32);
    ck_assert_mem_ne(one->fingerprint, other->fingerprint, 32);
    tokenizer_close(one);
    tokenizer_close(same);
    tokenizer_close(other);
}
END_TEST

START_TEST(long_words_take_no_square_of_time) {
    struct tokenizer *tokenizer = open_llama(true, false, NULL);
    struct tokenizer_scratch *scratch = tokenizer_scratch_new();
    struct error error;
    struct ids ids;
    size_t n = (size_t)1 << 20;
    char *text = malloc(n);
    memset(text, 'a', n);
    for (size_t i = 1; i < n; i += 2)
        text[i] = 'b';
    ids_init(&ids, 0);
    ck_assert_int_eq(tokenizer_encode(tokenizer, scratch, (struct span){text, n}, 0, &ids, &error),
                     STATUS_OK);
    ck_assert_uint_eq(ids.n, n / 2);
    ck_assert_uint_eq(ids.at[0], BLANK_AB);
    ids_fini(&ids);
    free(text);
    tokenizer_scratch_free(scratch);
    tokenizer_close(tokenizer);
}
END_TEST

static const char *const gguf_tokens[] = {"<unk>", "<s>", "</s>",    BLANK, "a",
                                          "b",     "ab",  BLANK "a", "<x>", BLANK BLANK};
static const int32_t gguf_kinds[] = {2, 3, 3, 1, 1, 1, 1, 1, 4, 4};
static const float gguf_scores[] = {0, 0, 0, -9, -9, -9, -1, -2, 0, 0};

static enum status finish_gguf(struct gguf_builder *builder, struct tokenizer **tokenizer,
                               struct error *error) {
    struct gguf *gguf;
    gguf_builder_finish(builder, 0);
    ck_assert_int_eq(gguf_parse(builder->bytes.data, builder->bytes.n, "f", &gguf, error),
                     STATUS_OK);
    enum status status = tokenizer_open_gguf(gguf, tokenizer, error);
    gguf_close(gguf);
    gguf_builder_fini(builder);
    return status;
}

static enum status open_gguf(const char *flag, uint8_t value, size_t n_scores,
                             struct tokenizer **tokenizer, struct error *error) {
    struct gguf_builder builder;
    gguf_builder_init(&builder);
    gguf_builder_string(&builder, "tokenizer.ggml.model", "llama");
    gguf_builder_strings(&builder, "tokenizer.ggml.tokens", gguf_tokens, 10);
    gguf_builder_f32s(&builder, "tokenizer.ggml.scores", gguf_scores, n_scores);
    gguf_builder_i32s(&builder, "tokenizer.ggml.token_type", gguf_kinds, 10);
    if (flag)
        gguf_builder_bool(&builder, flag, value);
    return finish_gguf(&builder, tokenizer, error);
}

START_TEST(gguf_vocabulary_is_read_as_llama_cpp_does) {
    struct tokenizer *tokenizer;
    struct error error;
    ck_assert_int_eq(open_gguf(NULL, 0, 10, &tokenizer, &error), STATUS_OK);
    /* What the file does not say: bos is 1 and put first, eos is 2, texts begin with a blank. */
    expect_flags(tokenizer, "ab", TOKENIZER_ADD_BOS, IDS(1, 3, 6));
    ck_assert_uint_eq(tokenizer->eos_id, 2);
    expect(tokenizer, "a<x>a", IDS(7, 8, 7)); /* a blank behind each token that is cut out */
    expect(tokenizer, "  b", IDS(9, 3, 5));
    expect_text(tokenizer, true, IDS(7, 8, 7), "a<x> a");
    tokenizer_close(tokenizer);
    ck_assert_int_eq(open_gguf("tokenizer.ggml.add_space_prefix", 0, 10, &tokenizer, &error),
                     STATUS_OK);
    expect(tokenizer, "a<x>a", IDS(4, 8, 4));
    expect_text(tokenizer, true, IDS(7, 8, 7), " a<x> a");
    tokenizer_close(tokenizer);
    ck_assert_int_eq(open_gguf("tokenizer.ggml.add_bos_token", 0, 10, &tokenizer, &error),
                     STATUS_OK);
    expect_flags(tokenizer, "a", TOKENIZER_ADD_BOS, IDS(7));
    tokenizer_close(tokenizer);
    ck_assert_int_eq(open_gguf(NULL, 0, 9, &tokenizer, &error), STATUS_CORRUPT);
    ck_assert_ptr_nonnull(strstr(error.text, "10 tokens, but 9 scores"));
}
END_TEST

/* Before tokenizer.ggml.token_type existed. */
START_TEST(types_follow_from_texts_where_the_file_has_none) {
    char texts[256 + 3][8] = {"<unk>", "<s>", "</s>"};
    const char *tokens[256 + 3];
    float scores[256 + 3] = {0};
    struct gguf_builder builder;
    struct tokenizer *tokenizer;
    struct error error;
    for (unsigned i = 0; i < 256 + 3; i++) {
        if (i >= 3)
            snprintf(texts[i], sizeof texts[i], "<0x%02X>", i - 3);
        tokens[i] = texts[i];
    }
    gguf_builder_init(&builder);
    gguf_builder_string(&builder, "tokenizer.ggml.model", "llama");
    gguf_builder_strings(&builder, "tokenizer.ggml.tokens", tokens, 256 + 3);
    gguf_builder_f32s(&builder, "tokenizer.ggml.scores", scores, 256 + 3);
    gguf_builder_u32(&builder, "tokenizer.ggml.unknown_token_id", 0);
    gguf_builder_bool(&builder, "tokenizer.ggml.add_space_prefix", 0);
    ck_assert_int_eq(finish_gguf(&builder, &tokenizer, &error), STATUS_OK);
    expect(tokenizer, "a", IDS(3 + 'a'));
    ck_assert(tokenizer_is_special(tokenizer, 0));
    ck_assert(tokenizer_is_special(tokenizer, 1));
    expect_text(tokenizer, true, IDS(1, 3 + 0xc3, 3 + 0xa9, 2), "\xc3\xa9");
    tokenizer_close(tokenizer);
}
END_TEST

START_TEST(tokens_of_phi_3_take_the_blanks_behind_them) {
    static const char *const tokens[] = {"<unk>", "<s>", "</s>", BLANK, "a", "<|user|>"};
    static const int32_t kinds[] = {2, 3, 3, 1, 1, TOKEN_USER_DEFINED};
    static const float scores[] = {0, 0, 0, 0, 0, 0};
    struct gguf_builder builder;
    struct tokenizer *tokenizer;
    struct error error;
    gguf_builder_init(&builder);
    gguf_builder_string(&builder, "general.name", "Phi 3 of Phi-3");
    gguf_builder_string(&builder, "tokenizer.ggml.model", "llama");
    gguf_builder_strings(&builder, "tokenizer.ggml.tokens", tokens, 6);
    gguf_builder_f32s(&builder, "tokenizer.ggml.scores", scores, 6);
    gguf_builder_i32s(&builder, "tokenizer.ggml.token_type", kinds, 6);
    gguf_builder_bool(&builder, "tokenizer.ggml.add_space_prefix", 0);
    ck_assert_int_eq(finish_gguf(&builder, &tokenizer, &error), STATUS_OK);
    expect_flags(tokenizer, "<|user|>\n a", TOKENIZER_PARSE_SPECIAL, IDS(5, 4));
    expect_flags(tokenizer, "<s> a", TOKENIZER_PARSE_SPECIAL, IDS(1, 3, 4));
    expect(tokenizer, "<|user|>", IDS(0)); /* a user's is not a marker, but unknown text */
    tokenizer_close(tokenizer);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, best_score_merges_first_and_the_leftmost_of_equals);
    tcase_add_test(tests, unknown_characters_become_their_bytes);
    tcase_add_test(tests, a_text_begins_with_a_blank_that_decoding_takes_away);
    tcase_add_test(tests, a_text_that_goes_on_keeps_its_first_blank);
    tcase_add_test(tests, blanks_are_squeezed_where_the_model_says_so);
    tcase_add_test(tests, text_that_shrinks_is_not_refused_by_its_length);
    tcase_add_test(tests, bytes_are_joined_to_characters);
    tcase_add_test(tests, control_pieces_come_from_trusted_text_alone);
    tcase_add_test(tests, folder_says_how_texts_begin);
    tcase_add_test(tests, added_tokens_stand_behind_the_pieces);
    tcase_add_test(tests, chatglm_has_nine_tokens_behind_its_pieces);
    tcase_add_test(tests, reserved_pieces_are_nobodys_text);
    tcase_add_test(tests, markers_of_roles_are_nobodys_text);
    tcase_add_test(tests, user_defined_pieces_come_first_and_never_merge);
    tcase_add_test(tests, unused_pieces_fall_apart_again);
    tcase_add_test(tests, without_bytes_a_run_of_unknown_text_is_one_piece);
    tcase_add_test(tests, unigram_takes_the_best_sum);
    tcase_add_test(tests, table_of_replacements_is_followed);
    tcase_add_test(tests, blank_can_stand_behind_a_text);
    tcase_add_test(tests, fingerprint_tells_models_apart);
    tcase_add_test(tests, long_words_take_no_square_of_time);
    tcase_add_test(tests, gguf_vocabulary_is_read_as_llama_cpp_does);
    tcase_add_test(tests, types_follow_from_texts_where_the_file_has_none);
    tcase_add_test(tests, tokens_of_phi_3_take_the_blanks_behind_them);
}
