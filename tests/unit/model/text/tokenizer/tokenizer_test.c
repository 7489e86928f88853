/* Encoding: merges, pieces, special tokens, limits, on small made vocabularies. */
#include "tests/support/suite.h"

#include "base/random.h"
#include "model/gguf/gguf.h"
#include "model/text/tokenizer/tokenizer.h"
#include "tests/support/gguf_builder.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "model_tokenizer";
const double suite_timeout_s = 120;

/* The builder's vocabulary: 256 bytes in id order, "ab", " ab", three control tokens. */
enum { AB = 256, SPACE_AB = 257, ENDOFTEXT = 258, IM_START = 259, IM_END = 260 };

static struct tokenizer *open_small(void) {
    struct gguf_builder builder;
    struct gguf *gguf;
    struct tokenizer *tokenizer;
    struct error error;
    gguf_builder_init(&builder);
    gguf_builder_llama(&builder);
    gguf_builder_finish(&builder, 0);
    ck_assert_int_eq(gguf_parse(builder.bytes.data, builder.bytes.n, "f", &gguf, &error),
                     STATUS_OK);
    enum status status = tokenizer_open_gguf(gguf, &tokenizer, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    gguf_close(gguf);
    gguf_builder_fini(&builder);
    return tokenizer;
}

/* Encodes and compares with the ids up to UINT32_MAX. */
static void expect(const struct tokenizer *tokenizer, struct span text, unsigned flags,
                   const uint32_t *wanted) {
    struct tokenizer_scratch *scratch = tokenizer_scratch_new();
    struct error error;
    struct ids ids;
    ids_init(&ids, 0);
    ck_assert_int_eq(tokenizer_encode(tokenizer, scratch, text, flags, &ids, &error), STATUS_OK);
    size_t n = 0;
    while (wanted[n] != UINT32_MAX)
        n++;
    ck_assert_msg(ids.n == n && (n == 0 || memcmp(ids.at, wanted, n * sizeof *wanted) == 0),
                  "\"%.*s\" gave %zu ids", span_shown(text), text.bytes, ids.n);
    ids_fini(&ids);
    tokenizer_scratch_free(scratch);
}

#define IDS(...) ((const uint32_t[]){__VA_ARGS__, UINT32_MAX})

START_TEST(merges_stay_within_pieces) {
    struct tokenizer *tokenizer = open_small();
    expect(tokenizer, SPAN(""), 0, IDS(UINT32_MAX));
    expect(tokenizer, SPAN("ab"), 0, IDS(AB));
    expect(tokenizer, SPAN("ab abab"), 0, IDS(AB, SPACE_AB, AB));
    expect(tokenizer, SPAN("a b"), 0, IDS('a', ' ', 'b'));
    expect(tokenizer, SPAN("\xc3\xa9"), 0, IDS(0xc3, 0xa9));
    expect(tokenizer, SPAN("x\0y"), 0, IDS('x', 0, 'y'));
    tokenizer_close(tokenizer);
}
END_TEST

START_TEST(special_text_is_plain_unless_asked) {
    struct tokenizer *tokenizer = open_small();
    expect(tokenizer, SPAN("<|im_end|>"), 0, IDS('<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>'));
    expect(tokenizer, SPAN("<|im_end|>"), TOKENIZER_PARSE_SPECIAL, IDS(IM_END));
    expect(tokenizer, SPAN("ab<|im_start|>ab<|im_en"), TOKENIZER_PARSE_SPECIAL,
           IDS(AB, IM_START, AB, '<', '|', 'i', 'm', '_', 'e', 'n'));
    expect(tokenizer, SPAN("<<|endoftext|><|im_end|>"), TOKENIZER_PARSE_SPECIAL,
           IDS('<', ENDOFTEXT, IM_END));
    ck_assert(tokenizer_is_special(tokenizer, IM_END));
    ck_assert(!tokenizer_is_special(tokenizer, AB));
    ck_assert_uint_eq(tokenizer_find(tokenizer, SPAN("<|im_end|>")), IM_END);
    ck_assert_uint_eq(tokenizer_find(tokenizer, SPAN(" ab")), SPACE_AB);
    ck_assert_uint_eq(tokenizer_find(tokenizer, SPAN("nothing")), TOKEN_NONE);
    ck_assert(span_is(tokenizer_bytes(tokenizer, SPACE_AB), " ab"));
    tokenizer_close(tokenizer);
}
END_TEST

START_TEST(invalid_utf8_is_refused_and_nothing_added) {
    static const char *const bad[] = {"\xff",         "a\x80",        "\xc0\x80",
                                      "\xe2\x82",     "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                      "\xf0\x9f\x98", "\xc3"};
    struct tokenizer *tokenizer = open_small();
    struct tokenizer_scratch *scratch = tokenizer_scratch_new();
    struct error error;
    struct ids ids;
    ids_init(&ids, 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct span text = {bad[i], strlen(bad[i])};
        ck_assert_int_eq(tokenizer_encode(tokenizer, scratch, text, 0, &ids, &error),
                         STATUS_INVALID);
        ck_assert_uint_eq(ids.n, 0);
    }
    ids_fini(&ids);
    tokenizer_scratch_free(scratch);
    tokenizer_close(tokenizer);
}
END_TEST

START_TEST(list_limit_refuses_and_leaves_the_list_as_it_was) {
    struct tokenizer *tokenizer = open_small();
    struct tokenizer_scratch *scratch = tokenizer_scratch_new();
    struct error error;
    struct ids ids;
    char *huge = calloc(1u << 20, 1);
    ids_init(&ids, 4);
    ck_assert_int_eq(tokenizer_encode(tokenizer, scratch, SPAN("xyz"), 0, &ids, &error), STATUS_OK);
    ck_assert_int_eq(tokenizer_encode(tokenizer, scratch, SPAN("xy"), 0, &ids, &error),
                     STATUS_LIMIT);
    ck_assert_str_eq(error.text, "the text has more than 4 tokens");
    ck_assert_uint_eq(ids.n, 3);
    ck_assert_int_eq(
        tokenizer_encode(tokenizer, scratch, (struct span){huge, 1u << 20}, 0, &ids, &error),
        STATUS_LIMIT);
    ck_assert_int_eq(tokenizer_encode(tokenizer, scratch, SPAN("ab"), 0, &ids, &error), STATUS_OK);
    ck_assert_uint_eq(ids.n, 4);
    ids_fini(&ids);
    free(huge);
    tokenizer_scratch_free(scratch);
    tokenizer_close(tokenizer);
}
END_TEST

/* A made vocabulary over a, b, c: merges of tokens that are there, in random order. */
struct made {
    char texts[80][16];
    struct span tokens[80];
    uint8_t kinds[80];
    char merges[80][33];
    struct span merge_spans[80];
    uint32_t n_tokens;
    uint32_t n_merges;
    uint32_t sides[80][2]; /* of each merge */
    uint32_t joined[80];
};

static void make_vocabulary(struct made *made, struct random *random) {
    *made = (struct made){0};
    for (; made->n_tokens < 3; made->n_tokens++)
        made->texts[made->n_tokens][0] = (char)('a' + made->n_tokens);
    for (int tries = 0; tries < 400 && made->n_tokens < 80; tries++) {
        uint32_t left = (uint32_t)random_below(random, made->n_tokens);
        uint32_t right = (uint32_t)random_below(random, made->n_tokens);
        char joined[33];
        snprintf(joined, sizeof joined, "%s%s", made->texts[left], made->texts[right]);
        bool fits = strlen(joined) < sizeof made->texts[0];
        for (uint32_t i = 0; i < made->n_tokens; i++)
            fits = fits && strcmp(made->texts[i], joined) != 0;
        if (!fits)
            continue;
        memcpy(made->texts[made->n_tokens], joined, strlen(joined));
        char merge[34];
        snprintf(merge, sizeof merge, "%.*s %s", (int)strlen(made->texts[left]), joined,
                 joined + strlen(made->texts[left]));
        memcpy(made->merges[made->n_merges], merge, strlen(merge));
        made->sides[made->n_merges][0] = left;
        made->sides[made->n_merges][1] = right;
        made->joined[made->n_merges++] = made->n_tokens++;
    }
    for (uint32_t i = 0; i < made->n_tokens; i++) {
        made->tokens[i] = (struct span){made->texts[i], strlen(made->texts[i])};
        made->kinds[i] = TOKEN_NORMAL;
    }
    for (uint32_t i = 0; i < made->n_merges; i++)
        made->merge_spans[i] = (struct span){made->merges[i], strlen(made->merges[i])};
}

/* The definition, word for word: while any pair is in the table, merge the lowest, leftmost. */
static size_t slow_merges(const struct made *made, uint32_t *ids, size_t n) {
    for (;;) {
        size_t where = 0;
        uint32_t best = UINT32_MAX;
        for (size_t i = 0; i + 1 < n; i++)
            for (uint32_t m = 0; m < made->n_merges && m < best; m++)
                if (made->sides[m][0] == ids[i] && made->sides[m][1] == ids[i + 1]) {
                    best = m;
                    where = i;
                }
        if (best == UINT32_MAX)
            return n;
        ids[where] = made->joined[best];
        memmove(ids + where + 1, ids + where + 2, (n - where - 2) * sizeof *ids);
        n--;
    }
}

START_TEST(merges_agree_with_the_definition) {
    static struct made made;
    struct random random = {.state = 12};
    struct error error;
    char text[200];
    uint32_t wanted[201];
    for (int round = 0; round < 60; round++) {
        struct tokenizer *tokenizer;
        make_vocabulary(&made, &random);
        struct tokenizer_source source = {.model = SPAN("gpt2"),
                                          .pre = SPAN("gpt-2"),
                                          .tokens.texts = made.tokens,
                                          .tokens.kinds = made.kinds,
                                          .tokens.n = made.n_tokens,
                                          .merges = made.merge_spans,
                                          .n_merges = made.n_merges,
                                          .tokens.bos_id = TOKEN_NONE,
                                          .tokens.eos_id = TOKEN_NONE};
        ck_assert_int_eq(tokenizer_open(&source, &tokenizer, &error), STATUS_OK);
        for (int i = 0; i < 10; i++) {
            size_t n = 1 + (size_t)random_below(&random, sizeof text - 1);
            for (size_t j = 0; j < n; j++) {
                text[j] = (char)('a' + random_below(&random, 3));
                wanted[j] = (uint32_t)(text[j] - 'a');
            }
            wanted[slow_merges(&made, wanted, n)] = UINT32_MAX;
            expect(tokenizer, (struct span){text, n}, 0, wanted);
        }
        tokenizer_close(tokenizer);
    }
}
END_TEST

START_TEST(byte_without_a_token_is_dropped_before_the_merges) {
    struct tokenizer *tokenizer;
    struct error error;
    struct span tokens[] = {SPAN("a"), SPAN("b"), SPAN("ab")};
    struct span merges[] = {SPAN("a b")};
    struct tokenizer_source source = {.model = SPAN("gpt2"),
                                      .pre = SPAN("gpt-2"),
                                      .tokens.texts = tokens,
                                      .tokens.kinds = (const uint8_t[]){1, 1, 1},
                                      .tokens.n = 3,
                                      .merges = merges,
                                      .n_merges = 1,
                                      .tokens.bos_id = TOKEN_NONE,
                                      .tokens.eos_id = TOKEN_NONE};
    ck_assert_int_eq(tokenizer_open(&source, &tokenizer, &error), STATUS_OK);
    expect(tokenizer, SPAN("axb"), 0, IDS(2));
    expect(tokenizer, SPAN("x"), 0, IDS(UINT32_MAX));
    expect(tokenizer, SPAN("xx"), 0, IDS(UINT32_MAX));
    tokenizer_close(tokenizer);
}
END_TEST

START_TEST(user_defined_tokens_always_match_and_bos_comes_when_asked) {
    struct tokenizer *tokenizer;
    struct error error;
    struct span tokens[] = {SPAN("a"), SPAN("b"), SPAN("ab"), SPAN("aba"), SPAN("<s>")};
    struct span merges[] = {SPAN("a b")};
    struct tokenizer_source source = {.model = SPAN("gpt2"),
                                      .pre = SPAN("gpt-2"),
                                      .tokens.texts = tokens,
                                      .tokens.kinds = (const uint8_t[]){1, 1, 1, 4, 3},
                                      .tokens.n = 5,
                                      .merges = merges,
                                      .n_merges = 1,
                                      .tokens.bos_id = 4,
                                      .tokens.eos_id = 4,
                                      .tokens.add_bos = true};
    ck_assert_int_eq(tokenizer_open(&source, &tokenizer, &error), STATUS_OK);
    expect(tokenizer, SPAN("ababab"), 0, IDS(3, 1, 2));
    expect(tokenizer, SPAN("ab"), TOKENIZER_ADD_BOS, IDS(4, 2));
    expect(tokenizer, SPAN("ab"), 0, IDS(2));
    tokenizer_close(tokenizer);
}
END_TEST

START_TEST(m03_contradictions_are_refused) {
    struct tokenizer *tokenizer = NULL;
    struct error error;
    struct span tokens[] = {SPAN("a"), SPAN("b"), SPAN("ab")};
    struct span merges[] = {SPAN("a b")};
    const struct tokenizer_source good = {.model = SPAN("gpt2"),
                                          .pre = SPAN("gpt-2"),
                                          .tokens.texts = tokens,
                                          .tokens.kinds = (const uint8_t[]){1, 1, 1},
                                          .tokens.n = 3,
                                          .merges = merges,
                                          .n_merges = 1,
                                          .tokens.bos_id = TOKEN_NONE,
                                          .tokens.eos_id = TOKEN_NONE};
    struct tokenizer_source bad = good;
    bad.model = SPAN("llama");
    ck_assert_int_eq(tokenizer_open(&bad, &tokenizer, &error), STATUS_UNSUPPORTED);
    bad = good;
    bad.pre = SPAN("unheard-of");
    ck_assert_int_eq(tokenizer_open(&bad, &tokenizer, &error), STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "\"unheard-of\""));
    bad = good;
    bad.tokens.eos_id = 3;
    ck_assert_int_eq(tokenizer_open(&bad, &tokenizer, &error), STATUS_CORRUPT);
    ck_assert_str_eq(error.field, "eos_token_id");
    bad = good;
    bad.tokens.add_bos = true;
    ck_assert_int_eq(tokenizer_open(&bad, &tokenizer, &error), STATUS_CORRUPT);
    bad = good;
    bad.tokens.kinds = (const uint8_t[]){1, 1, 9};
    ck_assert_int_eq(tokenizer_open(&bad, &tokenizer, &error), STATUS_CORRUPT);
    static const char *const broken[] = {"a", "a c", "b a", " ", "a b a", ""};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct span merge = {broken[i], strlen(broken[i])};
        bad = good;
        bad.merges = &merge;
        ck_assert_int_eq(tokenizer_open(&bad, &tokenizer, &error), STATUS_CORRUPT);
        ck_assert_ptr_nonnull(strstr(error.text, "merge 0"));
    }
    struct span twice[] = {SPAN("a"), SPAN("b"), SPAN("a")};
    bad = good;
    bad.tokens.texts = twice;
    ck_assert_int_eq(tokenizer_open(&bad, &tokenizer, &error), STATUS_CORRUPT);
    ck_assert_str_eq(error.text, "tokens 0 and 2 are the same");
    ck_assert_ptr_null(tokenizer);
}
END_TEST

START_TEST(a_megabyte_of_one_character_comes_back_whole) {
    static const char fills[] = {'a', '^', ' ', '\n', '7'};
    struct tokenizer *tokenizer = open_small();
    struct tokenizer_scratch *scratch = tokenizer_scratch_new();
    struct error error;
    const size_t n = 1u << 20;
    char *text = malloc(n);
    for (size_t f = 0; f < sizeof fills; f++) {
        struct ids ids;
        size_t n_bytes = 0;
        ids_init(&ids, 0);
        memset(text, fills[f], n);
        ck_assert_int_eq(
            tokenizer_encode(tokenizer, scratch, (struct span){text, n}, 0, &ids, &error),
            STATUS_OK);
        for (size_t i = 0; i < ids.n; i++)
            n_bytes += tokenizer_bytes(tokenizer, ids.at[i]).n;
        ck_assert_uint_eq(n_bytes, n);
        ids_fini(&ids);
    }
    free(text);
    tokenizer_scratch_free(scratch);
    tokenizer_close(tokenizer);
}
END_TEST

START_TEST(hash_encodes_bytes_and_spells_ids) {
    struct tokenizer *tokenizer;
    struct error error;
    ck_assert_int_eq(tokenizer_open_hash(&tokenizer, &error), STATUS_OK);
    ck_assert_uint_eq(tokenizer_n_tokens(tokenizer), 65536);
    expect(tokenizer, SPAN("a<00ff>"), TOKENIZER_PARSE_SPECIAL | TOKENIZER_ADD_BOS,
           IDS('a', '<', '0', '0', 'f', 'f', '>'));
    expect(tokenizer, SPAN("\xc3\xa9"), 0, IDS(0xc3, 0xa9));
    ck_assert(span_is(tokenizer_bytes(tokenizer, 256), "<0100>"));
    ck_assert(span_is(tokenizer_bytes(tokenizer, 65535), "<ffff>"));
    ck_assert_uint_eq(tokenizer_bytes(tokenizer, 0xff).n, 1);
    tokenizer_close(tokenizer);
}
END_TEST

START_TEST(fingerprint_tells_tokenizers_apart) {
    struct tokenizer *first;
    struct tokenizer *second;
    struct error error;
    struct span tokens[] = {SPAN("a"), SPAN("b"), SPAN("ab"), SPAN("ba")};
    struct span merges[] = {SPAN("a b"), SPAN("b a")};
    struct span swapped[] = {SPAN("b a"), SPAN("a b")};
    struct tokenizer_source source = {.model = SPAN("gpt2"),
                                      .pre = SPAN("gpt-2"),
                                      .tokens.texts = tokens,
                                      .tokens.kinds = (const uint8_t[]){1, 1, 1, 1},
                                      .tokens.n = 4,
                                      .merges = merges,
                                      .n_merges = 2,
                                      .tokens.bos_id = TOKEN_NONE,
                                      .tokens.eos_id = TOKEN_NONE};
    ck_assert_int_eq(tokenizer_open(&source, &first, &error), STATUS_OK);
    ck_assert_int_eq(tokenizer_open(&source, &second, &error), STATUS_OK);
    ck_assert_mem_eq(first->fingerprint, second->fingerprint, 32);
    tokenizer_close(second);
    source.merges = swapped;
    ck_assert_int_eq(tokenizer_open(&source, &second, &error), STATUS_OK);
    ck_assert_mem_ne(first->fingerprint, second->fingerprint, 32);
    tokenizer_close(second);
    tokenizer_close(first);
}
END_TEST

static void *encode_many(void *argument) {
    const struct tokenizer *tokenizer = argument;
    for (int i = 0; i < 200; i++)
        expect(tokenizer, SPAN("ab ab<|im_end|>1 ab"), TOKENIZER_PARSE_SPECIAL,
               IDS(AB, SPACE_AB, IM_END, '1', SPACE_AB));
    return NULL;
}

START_TEST(threads_share_one_tokenizer) {
    struct tokenizer *tokenizer = open_small();
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, encode_many, tokenizer), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    tokenizer_close(tokenizer);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, merges_stay_within_pieces);
    tcase_add_test(tests, special_text_is_plain_unless_asked);
    tcase_add_test(tests, invalid_utf8_is_refused_and_nothing_added);
    tcase_add_test(tests, list_limit_refuses_and_leaves_the_list_as_it_was);
    tcase_add_test(tests, merges_agree_with_the_definition);
    tcase_add_test(tests, byte_without_a_token_is_dropped_before_the_merges);
    tcase_add_test(tests, user_defined_tokens_always_match_and_bos_comes_when_asked);
    tcase_add_test(tests, m03_contradictions_are_refused);
    tcase_add_test(tests, a_megabyte_of_one_character_comes_back_whole);
    tcase_add_test(tests, hash_encodes_bytes_and_spells_ids);
    tcase_add_test(tests, fingerprint_tells_tokenizers_apart);
    tcase_add_test(tests, threads_share_one_tokenizer);
}
