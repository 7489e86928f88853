/* Descriptions of grammars come back from their bytes as they were, within bounds. */
#include "model/text/grammar/pack.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

const char *const suite_name = "model_grammar_pack";
const double suite_timeout_s = 60;

static const struct span names[] = {{"left", 4}, {"", 0}, {"right", 5}};

/* Every member is used, and a NUL is a byte as any other. */
static const struct grammar_part inner[] = {
    {.kind = GRAMMAR_JSON_SCHEMA, .lenient = true, .text = {"{\"type\":\"null\"}", 15}},
    {.kind = GRAMMAR_CHOICE, .choices = names, .n = 3, .region = {"side", 4}},
    {.kind = GRAMMAR_TEXT, .text = {"a\0b", 3}}};
static const struct grammar_part repeat = {
    .kind = GRAMMAR_REPEAT, .parts = &inner[2], .n = 1, .min = 2, .max = GRAMMAR_NO_BOUND};
static const struct grammar_part parts[] = {
    {.kind = GRAMMAR_SEQUENCE, .parts = inner, .n = 3},
    {.kind = GRAMMAR_EITHER, .parts = &repeat, .n = 1, .region = {"more", 4}}};
static const struct grammar_part whole = {.kind = GRAMMAR_SEQUENCE, .parts = parts, .n = 2};

static struct arena arena;
static struct buf packed;
static struct error error;

static void setup(void) {
    arena_init(&arena, (size_t)1 << 20);
    buf_init(&packed, 0);
}

static void teardown(void) {
    arena_fini(&arena);
    buf_fini(&packed);
}

static enum status unpacked(const struct grammar_part **part) {
    return grammar_unpack((struct span){packed.data, packed.n}, &arena, part, &error);
}

static void same(const struct grammar_part *a, const struct grammar_part *b) {
    ck_assert_int_eq(a->kind, b->kind);
    ck_assert_int_eq(a->lenient, b->lenient);
    ck_assert(span_equal(a->text, b->text) && span_equal(a->region, b->region));
    ck_assert_uint_eq(a->n, b->n);
    ck_assert_uint_eq(a->min, b->min);
    ck_assert_uint_eq(a->max, b->max);
    for (size_t i = 0; i < a->n; i++)
        if (a->kind == GRAMMAR_CHOICE)
            ck_assert(span_equal(a->choices[i], b->choices[i]));
        else
            same(&a->parts[i], &b->parts[i]);
}

START_TEST(a_description_comes_back_as_it_was) {
    const struct grammar_part *back;
    buf_puts(&packed, "x"); /* it is appended */
    ck_assert_int_eq(grammar_pack(&whole, &packed), STATUS_OK);
    buf_consume(&packed, 1);
    ck_assert_int_eq(unpacked(&back), STATUS_OK);
    same(&whole, back);
    struct grammar *grammars[2];
    uint64_t hashes[2][2];
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(
            grammar_compile(i ? back : &whole, NULL, &grammar_limits, &grammars[i], &error),
            STATUS_OK);
        grammar_hash(grammars[i], hashes[i]);
        grammar_unref(grammars[i]);
    }
    ck_assert_mem_eq(hashes[0], hashes[1], sizeof hashes[0]);
}
END_TEST

START_TEST(the_bytes_are_these) {
    static const struct grammar_part part = {.kind = GRAMMAR_REGEX,
                                             .lenient = true,
                                             .text = {"a+", 2},
                                             .region = {"r", 1},
                                             .min = 0x01020304,
                                             .max = GRAMMAR_NO_BOUND};
    static const char bytes[] = "\1\4\1\4\3\2\1\377\377\377\377\1\0\0\0\2\0\0\0\0\0\0\0ra+";
    ck_assert_int_eq(grammar_pack(&part, &packed), STATUS_OK);
    ck_assert_uint_eq(packed.n, sizeof bytes - 1);
    ck_assert_mem_eq(packed.data, bytes, packed.n);
}
END_TEST

START_TEST(every_byte_that_is_missing_is_seen) {
    const struct grammar_part *back;
    ck_assert_int_eq(grammar_pack(&whole, &packed), STATUS_OK);
    buf_puts(&packed, "x");
    ck_assert_int_eq(unpacked(&back), STATUS_CORRUPT);
    ck_assert_ptr_nonnull(strstr(error.text, "1 bytes after"));
    for (size_t n = packed.n - 2; n > 0; n--) {
        char *cut = malloc(n); /* its end is watched */
        ck_assert_ptr_nonnull(cut);
        memcpy(cut, packed.data, n);
        ck_assert_int_eq(grammar_unpack((struct span){cut, n}, &arena, &back, &error),
                         STATUS_CORRUPT);
        free(cut);
    }
    ck_assert_int_eq(grammar_unpack((struct span){"", 0}, &arena, &back, &error),
                     STATUS_UNSUPPORTED);
}
END_TEST

START_TEST(other_versions_kinds_and_flags_are_not_taken) {
    static const struct {
        size_t at;
        char is;
    } bytes[] = {{0, 0}, {0, 3}, {1, GRAMMAR_KINDS}, {2, 2}};
    const struct grammar_part *back;
    ck_assert_int_eq(grammar_pack(&whole, &packed), STATUS_OK);
    char was = packed.data[bytes[_i].at];
    packed.data[bytes[_i].at] = bytes[_i].is;
    ck_assert_int_eq(unpacked(&back), STATUS_UNSUPPORTED);
    packed.data[bytes[_i].at] = was;
    ck_assert_int_eq(unpacked(&back), STATUS_OK);
}
END_TEST

/* Readers of the first version do not know JSON strings, and must not be sent any, wherever they stand. */
START_TEST(a_json_string_makes_another_version) {
    const struct grammar_part string = {.kind = GRAMMAR_JSON_STRING, .parts = inner, .n = 1};
    const struct grammar_part around[] = {
        {.kind = GRAMMAR_TEXT},
        {.kind = GRAMMAR_REPEAT, .parts = &string, .n = 1, .max = 1, .region = {"r", 1}}};
    const struct grammar_part nested = {.kind = GRAMMAR_EITHER, .parts = around, .n = 2};
    const struct grammar_part *const all[] = {&string, &around[1], &nested};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const struct grammar_part *back;
        buf_clear(&packed);
        ck_assert_int_eq(grammar_pack(all[i], &packed), STATUS_OK);
        ck_assert_int_eq(packed.data[0], GRAMMAR_PACKED_STRINGS);
        ck_assert_int_eq(unpacked(&back), STATUS_OK);
        same(all[i], back);
        packed.data[0] = 1;
        ck_assert_int_eq(unpacked(&back), STATUS_CORRUPT);
    }
    const struct grammar_part *back;
    buf_clear(&packed);
    ck_assert_int_eq(grammar_pack(&whole, &packed), STATUS_OK);
    ck_assert_int_eq(packed.data[0], 1);
    packed.data[0] = GRAMMAR_PACKED_STRINGS;
    ck_assert_int_eq(unpacked(&back), STATUS_CORRUPT);
}
END_TEST

/* A count that the bytes cannot hold takes no memory. */
START_TEST(counts_beyond_the_bytes_are_not_taken) {
    const struct grammar_part *back;
    struct grammar_part part = {.kind = _i ? GRAMMAR_CHOICE : GRAMMAR_SEQUENCE};
    ck_assert_int_eq(grammar_pack(&part, &packed), STATUS_OK);
    memset(packed.data + 1 + 18, 0x7f, 4);
    ck_assert_int_eq(unpacked(&back), STATUS_CORRUPT);
    ck_assert_uint_lt(arena.n_bytes, 8192);
}
END_TEST

START_TEST(bytes_have_a_bound) {
    static char text[GRAMMAR_PACKED_MAX];
    const struct grammar_part *back;
    struct grammar_part part = {.text = {text, GRAMMAR_PACKED_MAX - 23}};
    buf_puts(&packed, "before");
    ck_assert_int_eq(grammar_pack(&part, &packed), STATUS_OK);
    ck_assert_uint_eq(packed.n, 6 + GRAMMAR_PACKED_MAX);
    buf_consume(&packed, 6);
    ck_assert_int_eq(unpacked(&back), STATUS_OK);
    buf_putc(&packed, 0);
    ck_assert_int_eq(unpacked(&back), STATUS_LIMIT);
    buf_clear(&packed);
    part.text.n++;
    ck_assert_int_eq(grammar_pack(&part, &packed), STATUS_LIMIT);
    ck_assert_uint_eq(packed.n, 0);
    const struct span choice = part.text;
    part = (struct grammar_part){.kind = GRAMMAR_CHOICE, .choices = &choice, .n = 1};
    ck_assert_int_eq(grammar_pack(&part, &packed), STATUS_LIMIT);
    ck_assert_uint_eq(packed.n, 0);
}
END_TEST

START_TEST(depth_has_a_bound) {
    struct grammar_part nested[65] = {{.kind = GRAMMAR_TEXT}};
    const struct grammar_part *back;
    ck_assert_uint_eq(grammar_limits.depth, 64);
    for (unsigned i = 1; i < 65; i++)
        nested[i] =
            (struct grammar_part){.kind = GRAMMAR_SEQUENCE, .parts = &nested[i - 1], .n = 1};
    ck_assert_int_eq(grammar_pack(&nested[64], &packed), STATUS_LIMIT);
    ck_assert_uint_eq(packed.n, 0);
    ck_assert_int_eq(grammar_pack(&nested[63], &packed), STATUS_OK);
    ck_assert_int_eq(unpacked(&back), STATUS_OK);
    same(&nested[63], back);
    /* One more around it, by hand: the outermost part stands behind the version. */
    struct buf deeper;
    buf_init(&deeper, 0);
    buf_append(&deeper, packed.data, 1 + 22);
    buf_append(&deeper, packed.data + 1, packed.n - 1);
    ck_assert_int_eq(grammar_unpack((struct span){deeper.data, deeper.n}, &arena, &back, &error),
                     STATUS_LIMIT);
    buf_fini(&deeper);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_description_comes_back_as_it_was);
    tcase_add_test(tests, the_bytes_are_these);
    tcase_add_test(tests, every_byte_that_is_missing_is_seen);
    tcase_add_loop_test(tests, other_versions_kinds_and_flags_are_not_taken, 0, 4);
    tcase_add_test(tests, a_json_string_makes_another_version);
    tcase_add_loop_test(tests, counts_beyond_the_bytes_are_not_taken, 0, 2);
    tcase_add_test(tests, bytes_have_a_bound);
    tcase_add_test(tests, depth_has_a_bound);
}
