/* Tokenizers of more tokens than their model has rows, of every kind of file. */
#include "tests/support/suite.h"

#include "model/text/tokenizer/detokenize.h"
#include "model/text/tokenizer/tokenizer.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/spm_builder.h"
#include "tests/unit/model/text/tokenizer/folder_rig.h"

#include <string.h>
#include <unistd.h>

const char *const suite_name = "model_tokenizer_limit";
const double suite_timeout_s = 60;

static struct remarks remarks; /* of the tokenizer that was cut last */

/* The folder's tokenizer, or that of its m.gguf. */
static struct tokenizer *open_whole(void) {
    struct tokenizer *tokenizer = NULL;
    struct error error;
    char path[128];
    path_of(path, "m.gguf");
    enum status status =
        tokenizer_open_path(access(path, F_OK) == 0 ? path : folder, &tokenizer, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    return tokenizer;
}

static struct tokenizer *open_cut(uint32_t n_rows) {
    struct tokenizer *tokenizer = open_whole();
    struct error error = {0};
    remarks = (struct remarks){0};
    enum status status = tokenizer_limit(tokenizer, n_rows, &remarks, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    return tokenizer;
}

/* The folder's answer for a text, cut to so many rows. */
static void expect_cut(uint32_t n_rows, const char *text, unsigned flags, const char *wanted) {
    struct tokenizer *tokenizer = open_cut(n_rows);
    expect(tokenizer, text, flags, wanted);
    tokenizer_close(tokenizer);
}

static void expect_remarks(unsigned n, const char *line) {
    ck_assert_msg(remarks.n == n && (n == 0 || strcmp(remarks.lines[n - 1], line) == 0),
                  "%u remarks, the last: %s", remarks.n, n > 0 ? remarks.lines[remarks.n - 1] : "");
}

static void expect_refusal(uint32_t n_rows, const char *says) {
    struct tokenizer *tokenizer = open_whole();
    struct error error = {0};
    uint8_t before[32];
    remarks = (struct remarks){0};
    memcpy(before, tokenizer->fingerprint, sizeof before);
    uint32_t n_tokens = tokenizer_n_tokens(tokenizer);
    ck_assert_msg(tokenizer_limit(tokenizer, n_rows, &remarks, &error) == STATUS_CORRUPT &&
                      strstr(error.text, says),
                  "%s: \"%s\"", says, error.text);
    ck_assert_str_eq(error.field, "vocab_size");
    ck_assert_uint_eq(remarks.n, 0);
    ck_assert_uint_eq(tokenizer_n_tokens(tokenizer), n_tokens);
    ck_assert_mem_eq(before, tokenizer->fingerprint, sizeof before);
    tokenizer_close(tokenizer);
}

#define SPECIAL(id, text) "{\"id\":" #id ",\"content\":\"" text "\",\"special\":true}"
#define JSON(added, more, vocabulary, merges)                                                      \
    "{\"added_tokens\":[" added                                                                    \
    "],\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}," \
    "\"decoder\":{\"type\":\"ByteLevel\"}," more                                                   \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{" vocabulary "},\"merges\":[" merges "]}}"

/* The last row is taken, the one behind it is not. */
START_TEST(a_token_behind_the_last_row_is_plain_text) {
    struct buf out;
    buf_init(&out, 0);
    make_folder();
    write_file("tokenizer.json", JSON(SPECIAL(3, "<|over|>") "," SPECIAL(4, "<|over|>x"), "",
                                      "\"a\":0,\"b\":1,\"x\":2", ""));
    expect_cut(5, "a<|over|>xb", TOKENIZER_PARSE_SPECIAL, "0 4 1");
    expect_remarks(0, NULL);
    expect_cut(4, "a<|over|>xb", TOKENIZER_PARSE_SPECIAL, "0 3 2 1");
    expect_remarks(1, "the embedding has 4 rows, so that 1 token of the tokenizer is not used: 4 "
                      "\"<|over|>x\"");
    expect_cut(3, "a<|over|>xb", TOKENIZER_PARSE_SPECIAL, "0 2 1");
    expect_remarks(1, "the embedding has 3 rows, so that 2 tokens of the tokenizer are not used: 3 "
                      "\"<|over|>\", 4 \"<|over|>x\"");
    struct tokenizer *tokenizer = open_cut(4);
    struct detokenizer detokenizer;
    detokenizer_init(&detokenizer, false);
    ck_assert_uint_eq(tokenizer_n_tokens(tokenizer), 4);
    ck_assert_uint_eq(tokenizer_find(tokenizer, SPAN("<|over|>")), 3);
    ck_assert_uint_eq(tokenizer_find(tokenizer, SPAN("<|over|>x")), TOKEN_NONE);
    ck_assert_int_eq(detokenizer_push(&detokenizer, tokenizer, 3, &out), STATUS_OK);
    ck_assert_int_eq(detokenizer_push(&detokenizer, tokenizer, 4, &out), STATUS_INVALID);
    ck_assert_str_eq(out.data, "<|over|>");
    tokenizer_close(tokenizer);
    buf_fini(&out);
    remove_folder();
}
END_TEST

/* Routers and workers that see another number of rows must not meet. */
START_TEST(the_fingerprint_tells_the_rows) {
    uint8_t prints[4][32];
    static const uint32_t rows[] = {5, 9, 4, 3};
    make_folder();
    write_file("tokenizer.json", JSON(SPECIAL(3, "<|over|>") "," SPECIAL(4, "<|more|>"), "",
                                      "\"a\":0,\"b\":1,\"x\":2", ""));
    for (size_t i = 0; i < 4; i++) {
        struct tokenizer *tokenizer = open_cut(rows[i]);
        memcpy(prints[i], tokenizer->fingerprint, sizeof prints[i]);
        tokenizer_close(tokenizer);
    }
    ck_assert_mem_eq(prints[0], prints[1], 32); /* padded rows change nothing */
    ck_assert_mem_ne(prints[0], prints[2], 32);
    ck_assert_mem_ne(prints[2], prints[3], 32);
    struct tokenizer *tokenizer = open_cut(4);
    ck_assert_mem_eq(prints[2], tokenizer->fingerprint, 32);
    tokenizer_close(tokenizer);
    write_file("tokenizer.json", JSON(SPECIAL(3, "<|over|>") "," SPECIAL(4, "<|more|>"), "",
                                      "\"a\":0,\"b\":1,\"y\":2", ""));
    tokenizer = open_cut(4);
    ck_assert_mem_ne(prints[2], tokenizer->fingerprint, 32); /* another, of as many rows */
    tokenizer_close(tokenizer);
    remove_folder();
}
END_TEST

/* Tokens that are matched in any text, raw and normalized, and by merges. */
START_TEST(user_defined_tokens_without_rows_are_not_matched) {
    make_folder();
    write_file("tokenizer.json", JSON("{\"id\":3,\"content\":\"ax\",\"normalized\":false},"
                                      "{\"id\":4,\"content\":\"bx\",\"normalized\":true}",
                                      "", "\"a\":0,\"b\":1,\"x\":2", ""));
    expect_cut(5, "axbx", 0, "3 4");
    expect_cut(4, "axbx", 0, "3 1 2");
    expect_cut(3, "axbx", 0, "0 2 1 2");
    write_file("tokenizer.json",
               JSON("{\"id\":4,\"content\":\"abx\",\"single_word\":true}", "",
                    "\"a\":0,\"b\":1,\"x\":2,\"ab\":3,\"abx\":4", "\"a b\",\"ab x\""));
    expect_cut(5, "abxabx", 0, "4 4");
    expect_cut(4, "abxabx", 0, "3 2 3 2");
    expect_cut(4, "abx", 0, "3 2");
    remove_folder();
}
END_TEST

#define BPE(vocabulary, merges) JSON("", "", vocabulary, merges)
#define OVER_CHARS(vocabulary, more)                                                               \
    "{\"model\":{\"type\":\"BPE\"," more "\"vocab\":{" vocabulary "},\"merges\":[]}}"

/* The base vocabulary is what the model reads text by. */
START_TEST(text_that_would_need_a_missing_row_is_refused) {
    static const struct {
        const char *file, *text;
        uint32_t n_rows;
        const char *says;
    } rows[] = {
        {"tokenizer.json", BPE("\"a\":0,\"b\":1,\"ab\":2", "\"a b\""), 2, "makes token 2 (\"ab\")"},
        {"tokenizer.json", BPE("\"a\":0,\"b\":1", ""), 1, "makes token 1 (\"b\")"},
        {"tokenizer.json", OVER_CHARS("\"a\":0,\"\u00e9\":1", ""), 1, "token 1 (\"\xc3\xa9\")"},
        {"tokenizer.json", OVER_CHARS("\"a\":0,\"aa\":1", "\"ignore_merges\":true,"), 1,
         "makes token 1 (\"aa\") of plain text, but the embedding has 1 rows"},
        {"tokenizer.json", OVER_CHARS("\"a\":0,\"<u>\":1", "\"unk_token\":\"<u>\","), 1,
         "makes token 1 (\"<u>\")"},
        {"tokenizer.json", OVER_CHARS("\"a\":0,\"<0xC3>\":1", "\"byte_fallback\":true,"), 1,
         "makes token 1 (\"<0xC3>\")"},
        {"qwen.tiktoken", "YQ== 0\nYg== 1\nYWI= 2\nYWJh 3\n", 3, "makes token 3 (\"aba\")"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        make_folder();
        write_file(rows[i].file, rows[i].text);
        expect_refusal(rows[i].n_rows, rows[i].says);
        remove_folder();
    }
}
END_TEST

/* The bytes of the model `hash`, and of any kind that cannot say what text becomes. */
START_TEST(a_kind_that_cannot_tell_needs_all_rows) {
    struct tokenizer *tokenizer;
    struct error error;
    ck_assert_int_eq(tokenizer_open_path("hash", &tokenizer, &error), STATUS_OK);
    ck_assert_int_eq(tokenizer_limit(tokenizer, 300, &remarks, &error), STATUS_CORRUPT);
    ck_assert_msg(strstr(error.text, "makes token 300 "), "%s", error.text);
    tokenizer_close(tokenizer);
}
END_TEST

/* What neither merges nor first symbols lead to; old vocab.json files have their extra tokens so. */
START_TEST(a_base_token_that_no_text_becomes_needs_no_row) {
    make_folder();
    write_file("vocab.json", "{\"a\":0,\"b\":1,\"ab\":2,\"[PAD]\":3}");
    write_file("merges.txt", "#version: 0.2\na b\n");
    expect_cut(3, "ab[PAD]", TOKENIZER_PARSE_SPECIAL, "2");
    expect_remarks(1, "the embedding has 3 rows, so that 1 token of the tokenizer is not used: 3 "
                      "\"[PAD]\"");
    expect_refusal(2, "makes token 2 (\"ab\")");
    remove_folder();
}
END_TEST

#define A         "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}"
#define PUT(text) "{\"SpecialToken\":{\"id\":\"" text "\",\"type_id\":0}}"
#define IDS_OF(text, id)                                                                           \
    "\"" text "\":{\"id\":\"" text "\",\"ids\":[" #id "],\"tokens\":[\"" text "\"]}"

#define FOUR                                                                                       \
    SPECIAL(1, "<in>") "," SPECIAL(2, "<bos>") "," SPECIAL(3, "<mid>") "," SPECIAL(4, "<eos>")
#define SINGLE PUT("<bos>") "," PUT("<mid>") "," PUT("<in>") "," A "," PUT("<eos>")
#define TABLE  IDS_OF("<in>", 1) "," IDS_OF("<bos>", 2) "," IDS_OF("<mid>", 3) "," IDS_OF("<eos>", 4)
#define POST(single)                                                                               \
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[" single                      \
    "],\"special_tokens\":{" TABLE "}},"

START_TEST(ends_without_rows_are_dropped_with_a_remark) {
    make_folder();
    write_file("tokenizer.json", JSON(FOUR, POST(SINGLE), "\"a\":0", ""));
    write_file("tokenizer_config.json", "{\"bos_token\":\"<bos>\",\"eos_token\":\"<eos>\"}");
    expect_cut(5, "a", TOKENIZER_ADD_BOS, "2 3 1 0 4");
    expect_remarks(0, NULL);
    expect_cut(4, "a", TOKENIZER_ADD_BOS, "2 3 1 0");
    expect_remarks(
        2, "the tokenizer's eos_token is 4 \"<eos>\", which has no embedding; it is not used");
    expect_cut(3, "a", TOKENIZER_ADD_BOS, "2 1 0");
    ck_assert_uint_eq(remarks.n, 3);
    ck_assert_str_eq(
        remarks.lines[1],
        "the tokenizer puts 3 \"<mid>\" before a text, which has no embedding; it is not used");
    struct tokenizer *tokenizer = open_cut(2);
    expect(tokenizer, "a", TOKENIZER_ADD_BOS, "1 0");
    ck_assert_uint_eq(tokenizer->bos_id, TOKEN_NONE);
    ck_assert_uint_eq(tokenizer->eos_id, TOKEN_NONE);
    ck_assert_uint_eq(remarks.n, 4);
    ck_assert_str_eq(
        remarks.lines[2],
        "the tokenizer's bos_token is 2 \"<bos>\", which has no embedding; it is not used");
    tokenizer_close(tokenizer);
    write_file("tokenizer.json", JSON(FOUR, POST(A "," PUT("<mid>")), "\"a\":0", ""));
    expect_cut(5, "a", TOKENIZER_ADD_BOS, "0 3");
    expect_cut(3, "a", TOKENIZER_ADD_BOS, "0");
    ck_assert_str_eq(
        remarks.lines[1],
        "the tokenizer puts 3 \"<mid>\" behind a text, which has no embedding; it is not used");
    remove_folder();
}
END_TEST

/* <unk>, <s>, </s>, the bytes, then "a" 259 and "ab" 260. */
static void put_pieces(unsigned last_kind) {
    struct spm_builder builder;
    spm_builder_init(&builder);
    spm_builder_bpe(&builder);
    spm_builder_normalizer(&builder, false, false);
    spm_builder_ends(&builder);
    spm_builder_bytes(&builder);
    spm_builder_piece(&builder, "a", -1, TOKEN_NORMAL);
    spm_builder_piece(&builder, "aa", -2, last_kind);
    struct span file = spm_builder_finish(&builder);
    write_bytes("tokenizer.model", file.bytes, file.n);
    spm_builder_fini(&builder);
}

START_TEST(sentencepiece_loses_what_was_added_to_it) {
    make_folder();
    put_pieces(TOKEN_NORMAL);
    write_file("added_tokens.json", "{\"[PAD]\":261,\"<x>\":262,\"<y>\":270}");
    expect_cut(271, "a[PAD]a", 0, "259 261 259");
    expect_cut(262, "a[PAD]a", 0, "259 261 259");
    expect_remarks(1, "the embedding has 262 rows, so that 2 tokens of the tokenizer are not used: "
                      "262 \"<x>\", 270 \"<y>\"");
    expect_cut(261, "a[PAD]a", TOKENIZER_PARSE_SPECIAL, "259 94 83 68 71 96 259");
    expect_cut(261, "aa", 0, "260");
    expect_refusal(260, "makes token 260 (\"aa\")");
    expect_refusal(258, "makes token 258 (\"<0xFF>\")");
    put_pieces(TOKEN_UNUSED);
    expect_refusal(260, "makes token 260 (\"aa\")");
    put_pieces(TOKEN_USER_DEFINED);
    expect_refusal(260, "makes token 260 (\"aa\")");
    put_pieces(TOKEN_CONTROL);
    expect_cut(260, "aa", TOKENIZER_PARSE_SPECIAL, "259 259");
    remove_folder();
}
END_TEST

/* Its class puts nine tokens behind the pieces; two of them stand before a text. */
START_TEST(chatglm_begins_a_text_with_what_is_left) {
    make_folder();
    put_pieces(TOKEN_NORMAL);
    write_file("config.json", "{\"model_type\":\"chatglm\"}");
    expect_cut(270, "a", TOKENIZER_ADD_BOS, "262 264 259");
    expect_remarks(0, NULL);
    expect_cut(269, "a", TOKENIZER_ADD_BOS, "262 264 259");
    expect_remarks(1, "the embedding has 269 rows, so that 1 token of the tokenizer is not used: "
                      "269 \"<|observation|>\"");
    expect_cut(264, "a", TOKENIZER_ADD_BOS, "262 259");
    ck_assert_ptr_nonnull(strstr(remarks.lines[0], "267 \"<|user|>\" and 2 more"));
    expect_remarks(
        2, "the tokenizer puts 264 \"sop\" before a text, which has no embedding; it is not used");
    remove_folder();
}
END_TEST

START_TEST(tiktoken_loses_the_last_of_qwens_extras) {
    make_folder();
    write_file("qwen.tiktoken", "YQ== 0\nYg== 1\nYWI= 2\nPA== 3\n");
    expect_cut(212, "ab<|extra_204|>", TOKENIZER_PARSE_SPECIAL, "2 211");
    expect_cut(211, "ab<|extra_204|><|extra_203|>", TOKENIZER_PARSE_SPECIAL, "2 3 0 210");
    expect_cut(4, "ab<|endoftext|>", TOKENIZER_PARSE_SPECIAL, "2 3");
    ck_assert_uint_eq(remarks.n, 2);
    remove_folder();
}
END_TEST

START_TEST(gguf_files_lose_special_tokens_alone) {
    static const char *const tokens[] = {"<unk>", "<s>", "</s>", "a", "b", "ab", "<x>", "[PAD]"};
    static const int32_t kinds[] = {2, 3, 3, 1, 1, 1, 4, 3};
    static const float scores[8] = {0};
    struct gguf_builder builder;
    make_folder();
    gguf_builder_init(&builder);
    gguf_builder_llama(&builder);
    gguf_builder_finish(&builder, 0);
    write_bytes("m.gguf", builder.bytes.data, builder.bytes.n);
    expect_cut(261, "ab<|im_end|>", TOKENIZER_PARSE_SPECIAL, "256 260");
    struct tokenizer *tokenizer = open_cut(260);
    expect(tokenizer, "ab<|im_start|>", TOKENIZER_PARSE_SPECIAL, "256 259");
    ck_assert_uint_eq(tokenizer_find(tokenizer, SPAN("<|im_end|>")), TOKEN_NONE);
    expect_remarks(
        2,
        "the tokenizer's eos_token is 260 \"<|im_end|>\", which has no embedding; it is not used");
    tokenizer_close(tokenizer);
    expect_refusal(257, "makes token 257");
    gguf_builder_fini(&builder);
    gguf_builder_init(&builder);
    gguf_builder_string(&builder, "tokenizer.ggml.model", "llama");
    gguf_builder_strings(&builder, "tokenizer.ggml.tokens", tokens, 8);
    gguf_builder_f32s(&builder, "tokenizer.ggml.scores", scores, 8);
    gguf_builder_i32s(&builder, "tokenizer.ggml.token_type", kinds, 8);
    gguf_builder_bool(&builder, "tokenizer.ggml.add_space_prefix", 0);
    gguf_builder_finish(&builder, 0);
    write_bytes("m.gguf", builder.bytes.data, builder.bytes.n);
    expect_cut(8, "ab<x>[PAD]", TOKENIZER_PARSE_SPECIAL, "5 6 7");
    expect_cut(7, "ab<x>", TOKENIZER_PARSE_SPECIAL, "5 6");
    expect_cut(6, "ab<x>", TOKENIZER_PARSE_SPECIAL, "5 0");
    expect_refusal(5, "makes token 5 (\"ab\")");
    gguf_builder_fini(&builder);
    remove_folder();
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_token_behind_the_last_row_is_plain_text);
    tcase_add_test(tests, the_fingerprint_tells_the_rows);
    tcase_add_test(tests, user_defined_tokens_without_rows_are_not_matched);
    tcase_add_test(tests, text_that_would_need_a_missing_row_is_refused);
    tcase_add_test(tests, a_kind_that_cannot_tell_needs_all_rows);
    tcase_add_test(tests, a_base_token_that_no_text_becomes_needs_no_row);
    tcase_add_test(tests, ends_without_rows_are_dropped_with_a_remark);
    tcase_add_test(tests, sentencepiece_loses_what_was_added_to_it);
    tcase_add_test(tests, chatglm_begins_a_text_with_what_is_left);
    tcase_add_test(tests, tiktoken_loses_the_last_of_qwens_extras);
    tcase_add_test(tests, gguf_files_lose_special_tokens_alone);
}
