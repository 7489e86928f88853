/* Tokenizers from the files of a model folder: small made ones, whole and broken. */
#include "tests/support/suite.h"

#include "model/text/tokenizer/detokenize.h"
#include "model/text/tokenizer/files/tokenizer_extras.h"
#include "model/text/tokenizer/tokenizer.h"
#include "tests/unit/model/text/tokenizer/folder_rig.h"

#include <stdio.h>
#include <string.h>

const char *const suite_name = "model_tokenizer_files";
const double suite_timeout_s = 60;

static struct tokenizer *open_folder(void) {
    struct tokenizer *tokenizer = NULL;
    struct error error;
    enum status status = tokenizer_open_folder(folder, &tokenizer, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    return tokenizer;
}

static void expect_text(const struct tokenizer *tokenizer, const uint32_t *ids, size_t n,
                        bool skip_special, const char *wanted) {
    struct detokenizer detokenizer;
    struct buf out;
    buf_init(&out, 0);
    detokenizer_init(&detokenizer, skip_special);
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(detokenizer_push(&detokenizer, tokenizer, ids[i], &out), STATUS_OK);
    ck_assert_int_eq(detokenizer_flush(&detokenizer, &out), STATUS_OK);
    ck_assert_str_eq(out.data ? out.data : "", wanted);
    buf_fini(&out);
}

#define TEXT(tokenizer, skip, wanted, ...)                                                         \
    expect_text(tokenizer, (const uint32_t[]){__VA_ARGS__},                                        \
                sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), skip, wanted)

/* Llama 2's kind: characters, U+2581 for blanks, bytes for what is not a token. */
static const char llama[] =
    "{\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\",\"special\":true},"
    "{\"id\":1,\"content\":\"<s>\",\"special\":true,\"normalized\":false},"
    "{\"id\":9,\"content\":\"<tool>\",\"special\":false,\"normalized\":false,\"lstrip\":true}],"
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
    "\"\u2581\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\u2581\"}]},"
    "\"pre_tokenizer\":null,"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":"
    "\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"special_tokens\":"
    "{\"<s>\":{\"id\":\"<s>\",\"ids\":[1],\"tokens\":[\"<s>\"]}}},"
    "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":"
    "{\"String\":\"\u2581\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
    "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},"
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":true,\"byte_fallback\":true,"
    "\"vocab\":{\"<unk>\":0,\"<s>\":1,\"<0xC3>\":2,\"<0xA9>\":3,\"\u2581\":4,\"a\":5,\"b\":6,"
    "\"ab\":7,\"\u2581ab\":8,\"<0xE2>\":10,\"<0x82>\":11,\"<0xAC>\":12},\"merges\":[\"a "
    "b\",[\"\u2581\",\"ab\"]]}}";

START_TEST(characters_merge_and_fall_back_to_bytes) {
    make_folder();
    write_file("tokenizer.json", llama);
    struct tokenizer *tokenizer = open_folder();
    expect(tokenizer, "ab ab", 0, "8 8");
    expect(tokenizer, "", 0, "");
    expect(tokenizer, " a", 0, "4 4 5");
    expect(tokenizer, "\xc3\xa9z?", 0, "4 2 3 0"); /* two unknown characters fuse */
    expect(tokenizer, "<s>", 0, "4 0");
    expect(tokenizer, "<s>ab", TOKENIZER_PARSE_SPECIAL, "1 8");
    expect(tokenizer, "ab", TOKENIZER_ADD_BOS, "1 8");
    expect(tokenizer, "ab  <tool>ab", 0, "8 9 8");
    TEXT(tokenizer, false, "ab ab", 8, 8);
    TEXT(tokenizer, true, "ab", 1, 8);
    TEXT(tokenizer, false, "<s> ab", 1, 8);
    TEXT(tokenizer, false, "\xc3\xa9", 2, 3);
    TEXT(tokenizer, false, "\xef\xbf\xbd ab", 2, 8);
    TEXT(tokenizer, false, "\xef\xbf\xbd\xef\xbf\xbd", 10, 11); /* one for each byte */
    TEXT(tokenizer, false,
         "\xef\xbf\xbd\xef\xbf\xbd"
         "a",
         10, 11, 5);
    TEXT(tokenizer, false, "\xe2\x82\xac", 10, 11, 12);
    TEXT(tokenizer, false, " a", 4, 4, 5); /* one blank is stripped, even from two tokens */
    ck_assert(span_is(tokenizer_bytes(tokenizer, 8), " ab"));
    tokenizer_close(tokenizer);
    remove_folder();
}
END_TEST

START_TEST(output_that_goes_on_keeps_its_first_blank) {
    struct detokenizer detokenizer;
    struct buf out;
    make_folder();
    write_file("tokenizer.json", llama);
    struct tokenizer *tokenizer = open_folder();
    buf_init(&out, 0);
    detokenizer_init(&detokenizer, true);
    detokenizer_continue(&detokenizer);
    ck_assert_int_eq(detokenizer_push(&detokenizer, tokenizer, 8, &out), STATUS_OK);
    ck_assert_str_eq(out.data, " ab");
    buf_fini(&out);
    tokenizer_close(tokenizer);
    remove_folder();
}
END_TEST

#define SECTIONS(normalizer, cuts, decoder, options)                                               \
    "{\"added_tokens\":[],\"normalizer\":" normalizer ",\"pre_tokenizer\":" cuts                   \
    ",\"decoder\":" decoder ",\"model\":{\"type\":\"BPE\"," options                                \
    "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\u2581\":3,"                                            \
    "\"\u2581a\":4,\"c\":5,\"\u0120\":6},\"merges\":[\"a b\",\"\u2581 a\"]}}"

START_TEST(metaspace_takes_its_marks_from_the_first_token) {
    make_folder();
    write_file(
        "tokenizer.json",
        SECTIONS("null",
                 "{\"type\":\"Metaspace\",\"replacement\":\"\u2581\",\"prepend_scheme\":\"first\"}",
                 "{\"type\":\"Metaspace\",\"replacement\":\"\u2581\"}", ""));
    struct tokenizer *tokenizer = open_folder();
    expect(tokenizer, "a a", 0, "4 4");
    expect(tokenizer, "ab", 0, "3 2");
    TEXT(tokenizer, false, "a a", 4, 4);
    TEXT(tokenizer, false, "  a", 3, 3, 3, 0); /* the first token shows nothing */
    tokenizer_close(tokenizer);
    remove_folder();
}
END_TEST

START_TEST(without_a_decoder_blanks_stand_between_tokens) {
    make_folder();
    write_file("tokenizer.json", SECTIONS("null", "{\"type\":\"WhitespaceSplit\"}", "null", ""));
    struct tokenizer *tokenizer = open_folder();
    expect(tokenizer, "ab \tac z", 0, "2 0 5");
    TEXT(tokenizer, false, "ab a c", 2, 0, 5);
    tokenizer_close(tokenizer);
    remove_folder();
}
END_TEST

START_TEST(byte_level_reads_the_alphabet) {
    make_folder();
    write_file("tokenizer.json", SECTIONS("{\"type\":\"Lowercase\"}",
                                          "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}",
                                          "{\"type\":\"ByteLevel\"}", "\"ignore_merges\":true,"));
    struct tokenizer *tokenizer = open_folder();
    expect(tokenizer, "AB c", 0, "2 6 5");
    TEXT(tokenizer, false, "ab c", 2, 6, 5);
    ck_assert(span_is(tokenizer_bytes(tokenizer, 6), " "));
    tokenizer_close(tokenizer);
    remove_folder();
}
END_TEST

/* A word that is a token as a whole, though no merges lead to it (Llama 3's vocabulary
 * has such). */
START_TEST(ignored_merges_take_a_whole_word_first) {
#define WHOLE_WORDS(options)                                                                       \
    "{\"added_tokens\":[],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\","          \
    "\"add_prefix_space\":false},\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":"        \
    "\"BPE\"," options                                                                             \
    "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"c\":3,\"abc\":4},\"merges\":[\"a b\"]}}"
    make_folder();
    write_file("tokenizer.json", WHOLE_WORDS("\"ignore_merges\":true,"));
    struct tokenizer *tokenizer = open_folder();
    expect(tokenizer, "abc", 0, "4");
    expect(tokenizer, "abca", 0, "2 3 0"); /* no token as a whole: merged as ever */
    tokenizer_close(tokenizer);
    write_file("tokenizer.json", WHOLE_WORDS(""));
    tokenizer = open_folder();
    expect(tokenizer, "abc", 0, "2 3");
    tokenizer_close(tokenizer);
    remove_folder();
}
END_TEST

START_TEST(text_never_merges_into_a_control_token) {
    make_folder();
    write_file("tokenizer.json",
               "{\"added_tokens\":[{\"id\":2,\"content\":\"ab\",\"special\":true}],"
               "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"decoder\":"
               "{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,"
               "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"abb\":3},\"merges\":[\"a b\",\"ab b\"]}}");
    struct tokenizer *tokenizer = open_folder();
    expect(tokenizer, "ab", 0, "0 1");
    expect(tokenizer, "ab", TOKENIZER_PARSE_SPECIAL, "2");
    tokenizer_close(tokenizer);
    remove_folder();
}
END_TEST

/* Added tokens ask for more than their text. */
START_TEST(added_tokens_mind_their_neighbours) {
    make_folder();
    write_file(
        "tokenizer.json",
        "{\"added_tokens\":[{\"id\":3,\"content\":\"ab\",\"single_word\":true,\"normalized\":false}"
        ","
        "{\"id\":4,\"content\":\"<x>\",\"rstrip\":true,\"lstrip\":true,\"normalized\":false},"
        "{\"id\":5,\"content\":\"CC\",\"normalized\":true}],\"normalizer\":{\"type\":\"Lowercase\"}"
        ","
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"decoder\":"
        "{\"type\":\"ByteLevel\"},\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"c\":2},\"merges\":[]}}");
    struct tokenizer *tokenizer = open_folder();
    expect(tokenizer, "ab", 0, "3");
    expect(tokenizer, "a-ab-b", 0, "0 3 1");
    expect(tokenizer,
           "aba\xc3\xa9"
           "ab",
           0, "0 1 0 0 1");
    expect(tokenizer, "a \n<x> \tb", 0, "0 4 1");
    expect(tokenizer, "<x> <x>", 0, "4 4");
    expect(tokenizer, "ccC Cc", 0, "5 2 5"); /* found in the normalized text */
    TEXT(tokenizer, false, "cc", 5);
    tokenizer_close(tokenizer);
    remove_folder();
}
END_TEST

/* What a folder's other files say. */
START_TEST(config_adds_tokens_and_says_what_begins_a_text) {
    make_folder();
    write_file("tokenizer.json", llama);
    write_file("tokenizer_config.json", "{\"tokenizer_class\":\"LlamaTokenizer\",\"add_bos_token\":"
                                        "false,\"bos_token\":{\"content\":\"<s>\"},"
                                        "\"eos_token\":\"<|im_end|>\",\"added_tokens_decoder\":{"
                                        "\"1\":{\"content\":\"<s>\",\"special\":true},"
                                        "\"20\":{\"content\":\"<|im_end|>\",\"special\":true}}}");
    write_file("added_tokens.json", "{\"<|im_start|>\":21}");
    write_file("special_tokens_map.json", "{\"additional_special_tokens\":[\"<|im_start|>\"]}");
    struct tokenizer *tokenizer = open_folder();
    expect(tokenizer, "ab", TOKENIZER_ADD_BOS, "8");
    expect(tokenizer, "<|im_start|><|im_end|>", TOKENIZER_PARSE_SPECIAL, "21 20");
    ck_assert_uint_eq(tokenizer->eos_id, 20);
    ck_assert_uint_eq(tokenizer->bos_id, 1);
    ck_assert(tokenizer_is_special(tokenizer, 21));
    tokenizer_close(tokenizer);
    /* Without a word there the answer is the class's; null is a no, as in Python. */
    write_file("tokenizer_config.json", "{\"tokenizer_class\":\"LlamaTokenizer\"}");
    tokenizer = open_folder();
    expect(tokenizer, "ab", TOKENIZER_ADD_BOS, "1 8");
    tokenizer_close(tokenizer);
    write_file("tokenizer_config.json",
               "{\"tokenizer_class\":\"LlamaTokenizer\",\"add_bos_token\":null}");
    tokenizer = open_folder();
    expect(tokenizer, "ab", TOKENIZER_ADD_BOS, "8");
    tokenizer_close(tokenizer);
    write_file("added_tokens.json", "{\"other\":8}");
    struct error error;
    ck_assert_int_eq(tokenizer_open_folder(folder, &tokenizer, &error), STATUS_CORRUPT);
    ck_assert_ptr_nonnull(strstr(error.text, "added token 8 is \"other\""));
    remove_folder();
}
END_TEST

/* As in Mistral-7B-OpenOrca: added, but not as special. */
START_TEST(markers_of_roles_are_nobodys_text) {
    make_folder();
    write_file("tokenizer.json", llama);
    write_file("tokenizer_config.json",
               "{\"added_tokens_decoder\":{\"20\":{\"content\":\"<|im_end|>\",\"special\":false},"
               "\"21\":{\"content\":\"[END]\"}},\"eos_token\":\"[END]\"}");
    write_file("added_tokens.json", "{\"<|im_|>\":22,\"<|>\":23}");
    struct tokenizer *tokenizer = open_folder();
    expect(tokenizer, "<|im_end|>", 0, "4 0");
    expect(tokenizer, "<|im_|>", 0, "4 0");
    expect(tokenizer, "[END]", 0, "4 0");
    expect(tokenizer, "<|>", 0, "23"); /* no marker: nothing stands in it */
    expect(tokenizer, "<|im_end|><|im_|>[END]", TOKENIZER_PARSE_SPECIAL, "20 22 21");
    tokenizer_close(tokenizer);
    remove_folder();

    make_folder();
    write_file("tokenizer.json",
               "{\"added_tokens\":[{\"id\":3,\"content\":\"<|x|>\",\"special\":false},{\"id\":4,"
               "\"content\":\"<\uff5cx\uff5c>\"}],\"pre_tokenizer\":{\"type\":\"ByteLevel\"},"
               "\"model\":{\"vocab\":{\"a\":0,\"x\":1,\"<\":2},\"merges\":[]}}");
    tokenizer = open_folder();
    expect(tokenizer, "<|x|>a", 0, "2 1 0");
    expect(tokenizer, "<\uff5cx\uff5c>a", 0, "2 1 0");
    expect(tokenizer, "<|x|>a<\uff5cx\uff5c>", TOKENIZER_PARSE_SPECIAL, "3 0 4");
    tokenizer_close(tokenizer);
    remove_folder();

    make_folder();
    write_file("vocab.json", "{\"a\":0,\"b\":1}");
    write_file("merges.txt", "");
    write_file("added_tokens.json", "{\"<|b|>\":2}");
    tokenizer = open_folder();
    expect(tokenizer, "a<|b|>", 0, "0 1");
    expect(tokenizer, "a<|b|>", TOKENIZER_PARSE_SPECIAL, "0 2");
    tokenizer_close(tokenizer);
    remove_folder();
}
END_TEST

START_TEST(vocabulary_and_merges_go_together) {
    make_folder();
    write_file("vocab.json",
               "{\"a\":0,\"b\":1,\"\u0120\":2,\"ab\":3,\"\u0120ab\":4,\"<|endoftext|>\":5}");
    write_file("merges.txt", "#version: 0.2\na b\r\n\u0120 ab\n\n");
    struct tokenizer *tokenizer = open_folder();
    expect(tokenizer, "ab ab<|endoftext|>", TOKENIZER_PARSE_SPECIAL, "3 4 5");
    expect(tokenizer, "<|endoftext|>", 0, "");
    ck_assert_uint_eq(tokenizer->eos_id, 5);
    tokenizer_close(tokenizer);
    write_file("tokenizer_config.json", "{\"tokenizer_class\":\"RobertaTokenizer\"}");
    struct error error;
    ck_assert_int_eq(tokenizer_open_folder(folder, &tokenizer, &error), STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "RobertaTokenizer"));
    remove_folder();
}
END_TEST

START_TEST(tiktoken_merges_by_rank) {
    make_folder();
    /* a, b, c, "bc", "ab", "abc", e with an accent's two bytes */
    write_file("qwen.tiktoken",
               "YQ== 0\nYg== 1\nYw== 2\nYmM= 3\nYWI= 4\nYWJj 5\nww== 6\nqQ== 7\nYWJjYWI= 8\n");
    struct tokenizer *tokenizer = open_folder();
    expect(tokenizer, "abc", 0, "5");    /* the whole piece is a token */
    expect(tokenizer, "abcb", 0, "5 1"); /* bc first, then a and bc */
    expect(tokenizer, "cab", 0, "2 4");
    expect(tokenizer, "e\xcc\x81", 0, "6 7"); /* form C */
    expect(tokenizer, "a<|im_end|>", TOKENIZER_PARSE_SPECIAL, "0 11");
    expect(tokenizer, "<|extra_204|>", TOKENIZER_PARSE_SPECIAL, "216");
    ck_assert_uint_eq(tokenizer_n_tokens(tokenizer), 217);
    ck_assert_uint_eq(tokenizer->eos_id, 9);
    TEXT(tokenizer, false, "abc\xc3\xa9<|im_start|>", 5, 6, 7, 10);
    tokenizer_close(tokenizer);
    remove_folder();
}
END_TEST

START_TEST(broken_tiktoken_files_name_their_line) {
    static const struct {
        const char *text;
        const char *line;
    } rows[] = {
        {"YQ== 0\nYg==\n", "line 2: the line is not a token in base64 and its rank"},
        {"YQ== x\n", "line 1: the rank is not a number"},
        {"YQ== 0\nYg== 0\n", "line 2: id 0 is both"},
        {"Y*== 0\n", "line 1: the token is not base64"},
        {"YQ= 0\n", "line 1: the token is not base64"},
        {"YQ== 1\n", "no token has the rank 0"},
        {"YQ== 99999999999\n", "line 1: the line is not a token in base64 and its rank"},
        {"YQ== 9999999\n", "line 1: token id 9999999"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tokenizer *tokenizer = NULL;
        struct error error;
        make_folder();
        write_file("qwen.tiktoken", rows[i].text);
        ck_assert_int_ne(tokenizer_open_folder(folder, &tokenizer, &error), STATUS_OK);
        ck_assert_msg(strstr(error.text, rows[i].line) != NULL, "%s", error.text);
        remove_folder();
    }
}
END_TEST

#define MODEL(inner) "{\"model\":{" inner "}}"
#define VOCAB        "\"vocab\":{\"a\":0},\"merges\":[]"

START_TEST(broken_json_files_name_their_field) {
    static const struct {
        const char *text;
        enum status status;
        const char *line;
    } rows[] = {
        {"{", STATUS_CORRUPT, "line 1"},
        {"[]", STATUS_CORRUPT, "no JSON object"},
        {"{}", STATUS_CORRUPT, "model is not an object"},
        {MODEL("\"type\":\"WordPiece\""), STATUS_UNSUPPORTED, "model type WordPiece"},
        {MODEL("\"vocab\":[]"), STATUS_CORRUPT, "model: vocab is not an object"},
        {MODEL("\"vocab\":{\"a\":\"b\"}"), STATUS_CORRUPT, "vocab: \"a\" has no id"},
        {MODEL("\"vocab\":{\"a\":-1}"), STATUS_CORRUPT, "vocab: \"a\" has no id"},
        {MODEL("\"vocab\":{\"a\":0,\"b\":0}"), STATUS_CORRUPT, "id 0 is both \"a\" and \"b\""},
        {MODEL("\"vocab\":{\"a\":4000000000}"), STATUS_LIMIT, "token id 4000000000"},
        {MODEL("\"vocab\":{\"a\":0}"), STATUS_CORRUPT, "merges is missing"},
        {MODEL("\"vocab\":{\"a\":0},\"merges\":[\"a\"]"), STATUS_CORRUPT,
         "merges[0] is not a pair"},
        {MODEL("\"vocab\":{\"a\":0},\"merges\":[\"a a a\"]"), STATUS_CORRUPT,
         "merges[0] is not a pair"},
        {MODEL("\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]"), STATUS_CORRUPT,
         "merges[0] is not a pair"},
        {MODEL("\"vocab\":{\"a\":0},\"merges\":[\"a a\"]"), STATUS_CORRUPT, "merge 0"},
        {MODEL("\"unk_token\":\"x\"," VOCAB), STATUS_CORRUPT, "unk_token \"x\""},
        {MODEL("\"unk_token\":1," VOCAB), STATUS_CORRUPT, "unk_token must be a string, not 1"},
        {MODEL("\"byte_fallback\":1," VOCAB), STATUS_CORRUPT,
         "byte_fallback must be true or false, not 1"},
        {MODEL("\"dropout\":0.1," VOCAB), STATUS_UNSUPPORTED, "dropout"},
        {MODEL("\"end_of_word_suffix\":\"</w>\"," VOCAB), STATUS_UNSUPPORTED, "end_of_word_suffix"},
        {"{\"normalizer\":{\"type\":\"Precompiled\"},\"model\":{" VOCAB "}}", STATUS_UNSUPPORTED,
         "normalizer: Precompiled is not supported"},
        {"{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":"
         "\"Prepend\"}]},"
         "\"model\":{" VOCAB "}}",
         STATUS_CORRUPT, "normalizer: normalizers[1]: Prepend: prepend is missing"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":"
         "\"Isolated\"},"
         "\"model\":{" VOCAB "}}",
         STATUS_UNSUPPORTED, "pre_tokenizer: a regular expression cannot be used"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"x\"},"
         "\"model\":{" VOCAB "}}",
         STATUS_CORRUPT, "pre_tokenizer: Split: behavior is the unknown \"x\""},
        {"{\"pre_tokenizer\":7,\"model\":{" VOCAB "}}", STATUS_CORRUPT, "pre_tokenizer: no object"},
        {"{\"decoder\":{\"type\":\"CTC\"},\"model\":{" VOCAB "}}", STATUS_UNSUPPORTED,
         "decoder: CTC is not supported"},
        {"{\"post_processor\":{\"type\":\"BertProcessing\"},\"model\":{" VOCAB "}}",
         STATUS_UNSUPPORTED, "post_processor: BertProcessing is not supported"},
        {"{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
         "\"id\":\"x\"}}]},"
         "\"model\":{" VOCAB "}}",
         STATUS_CORRUPT, "special_tokens lacks \"x\""},
        {"{\"added_tokens\":[{\"id\":0,\"content\":\"b\"}],\"model\":{" VOCAB "}}", STATUS_CORRUPT,
         "added_tokens[0]: added token 0 is \"b\""},
        {"{\"added_tokens\":[{\"id\":3,\"content\":\"a\"}],\"model\":{" VOCAB "}}", STATUS_CORRUPT,
         "added_tokens[0]: \"a\" is token 3 here and 0"},
        {"{\"added_tokens\":[{\"content\":\"b\"}],\"model\":{" VOCAB "}}", STATUS_CORRUPT,
         "added_tokens[0]: id is missing"},
        {"{\"added_tokens\":7,\"model\":{" VOCAB "}}", STATUS_CORRUPT,
         "added_tokens must be a list, not 7"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tokenizer *tokenizer = NULL;
        struct error error;
        make_folder();
        write_file("tokenizer.json", rows[i].text);
        enum status status = tokenizer_open_folder(folder, &tokenizer, &error);
        ck_assert_msg(status == rows[i].status, "row %zu: %d, %s", i, status, error.text);
        ck_assert_msg(strstr(error.text, rows[i].line) != NULL, "row %zu: %s", i, error.text);
        ck_assert_msg(strstr(error.text, "tokenizer.json") != NULL, "%s", error.text);
        remove_folder();
    }
}
END_TEST

#define EIGHT "aaaaaaaa"
#define GROW                                                                                       \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"" EIGHT EIGHT EIGHT EIGHT  \
    "\"}"

START_TEST(a_token_may_not_grow_large_between_two_decoders) {
    struct tokenizer *tokenizer = NULL;
    struct error error;
    make_folder();
    write_file(
        "tokenizer.json",
        SECTIONS("null", "null",
                 "{\"type\":\"Sequence\",\"decoders\":[" GROW "," GROW "," GROW "," GROW "," GROW
                 ",{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a+\"},\"content\":\"a\"}]}",
                 ""));
    ck_assert_int_eq(tokenizer_open_folder(folder, &tokenizer, &error), STATUS_LIMIT);
    ck_assert_msg(strstr(error.text, "becomes too long") != NULL, "%s", error.text);
    remove_folder();
}
END_TEST

START_TEST(deep_sequences_are_refused) {
    char text[2048] = "{\"normalizer\":";
    struct tokenizer *tokenizer = NULL;
    struct error error;
    for (int i = 0; i < 10; i++)
        strcat(text, "{\"type\":\"Sequence\",\"normalizers\":[");
    strcat(text, "{\"type\":\"NFC\"}");
    for (int i = 0; i < 10; i++)
        strcat(text, "]}");
    strcat(text, ",\"model\":{" VOCAB "}}");
    make_folder();
    write_file("tokenizer.json", text);
    ck_assert_int_eq(tokenizer_open_folder(folder, &tokenizer, &error), STATUS_LIMIT);
    remove_folder();
}
END_TEST

START_TEST(a_folder_without_a_tokenizer_says_so) {
    struct tokenizer *tokenizer = NULL;
    struct error error;
    make_folder();
    ck_assert_int_eq(tokenizer_open_folder(folder, &tokenizer, &error), STATUS_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "contains no tokenizer"));
    write_file("tokenizer_config.json", "{\"added_tokens_decoder\":{\"x\":{}}}");
    ck_assert_int_eq(tokenizer_open_folder(folder, &tokenizer, &error), STATUS_CORRUPT);
    ck_assert_ptr_nonnull(strstr(error.text, "tokenizer_config.json: added_tokens_decoder: \"x\""));
    write_file("tokenizer_config.json", "{\"added_tokens_decoder\":{\"5\":{\"content\":\"a\"},"
                                        "\"05\":{\"content\":\"b\"}}}");
    ck_assert_int_eq(tokenizer_open_folder(folder, &tokenizer, &error), STATUS_CORRUPT);
    ck_assert_ptr_nonnull(strstr(error.text, "tokenizer_config.json: token 5 appears twice"));
    write_file("tokenizer_config.json", "{\"content\":1,\"added_tokens_decoder\":{"
                                        "\"5\":{\"content\":\"a\"},\"6\":{\"content\":7}}}");
    ck_assert_int_eq(tokenizer_open_folder(folder, &tokenizer, &error), STATUS_CORRUPT);
    ck_assert_ptr_nonnull(strstr(error.text, "content is not text"));
    write_file("tokenizer_config.json", "{\"add_bos_token\":1}"); /* passed over */
    ck_assert_int_eq(tokenizer_open_folder(folder, &tokenizer, &error), STATUS_NOT_FOUND);
    remove_folder();
}
END_TEST

START_TEST(fingerprints_tell_pipelines_apart) {
    struct tokenizer *tokenizers[3];
    static const char *const cuts[] = {"{\"type\":\"WhitespaceSplit\"}",
                                       "{\"type\":\"Whitespace\"}",
                                       "{\"type\":\"WhitespaceSplit\"}"};
    for (int i = 0; i < 3; i++) {
        char text[1024];
        snprintf(text, sizeof text, "{\"pre_tokenizer\":%s,\"model\":{" VOCAB "}}", cuts[i]);
        make_folder();
        write_file("tokenizer.json", text);
        tokenizers[i] = open_folder();
        remove_folder();
    }
    ck_assert_mem_eq(tokenizers[0]->fingerprint, tokenizers[2]->fingerprint, 32);
    ck_assert(memcmp(tokenizers[0]->fingerprint, tokenizers[1]->fingerprint, 32) != 0);
    for (int i = 0; i < 3; i++)
        tokenizer_close(tokenizers[i]);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, characters_merge_and_fall_back_to_bytes);
    tcase_add_test(tests, output_that_goes_on_keeps_its_first_blank);
    tcase_add_test(tests, metaspace_takes_its_marks_from_the_first_token);
    tcase_add_test(tests, without_a_decoder_blanks_stand_between_tokens);
    tcase_add_test(tests, byte_level_reads_the_alphabet);
    tcase_add_test(tests, text_never_merges_into_a_control_token);
    tcase_add_test(tests, added_tokens_mind_their_neighbours);
    tcase_add_test(tests, config_adds_tokens_and_says_what_begins_a_text);
    tcase_add_test(tests, markers_of_roles_are_nobodys_text);
    tcase_add_test(tests, vocabulary_and_merges_go_together);
    tcase_add_test(tests, tiktoken_merges_by_rank);
    tcase_add_test(tests, broken_tiktoken_files_name_their_line);
    tcase_add_test(tests, broken_json_files_name_their_field);
    tcase_add_test(tests, a_token_may_not_grow_large_between_two_decoders);
    tcase_add_test(tests, deep_sequences_are_refused);
    tcase_add_test(tests, a_folder_without_a_tokenizer_says_so);
    tcase_add_test(tests, fingerprints_tell_pipelines_apart);
    tcase_add_test(tests, ignored_merges_take_a_whole_word_first);
}
