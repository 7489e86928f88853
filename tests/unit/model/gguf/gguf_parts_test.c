/* GGUF files in parts: what is a set, and what is none. */
#include "tests/support/suite.h"

#include "model/gguf/gguf.h"
#include "tests/support/gguf_builder.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const suite_name = "model_gguf_parts";
const double suite_timeout_s = 60;

#define N_EACH 2u /* tensors of a part */

static char root[] = "/tmp/tandem-parts-XXXXXX";
static unsigned n_open; /* descriptors when a test begins */

static void set_up(void) {
    memcpy(root + strlen(root) - 6, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(root));
    n_open = suite_count_files();
}

static void tear_down(void) {
    char command[PATH_MAX];
    ck_assert_uint_eq(suite_count_files(), n_open);
    snprintf(command, sizeof command, "rm -rf %s", root);
    ck_assert_int_eq(system(command), 0);
}

static const char *at(const char *name) {
    static char paths[4][PATH_MAX];
    static unsigned n;
    char *path = paths[n++ % 4];
    snprintf(path, PATH_MAX, "%s/%s", root, name);
    return path;
}

static const char *part_at(uint32_t number, uint32_t count) {
    char name[64];
    snprintf(name, sizeof name, "x-%05u-of-%05u.gguf", number, count);
    return at(name);
}

static void put(const char *path, const void *bytes, size_t n) {
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, n, file), n);
    ck_assert_int_eq(fclose(file), 0);
}

/* What the keys of a part say; tensors t0, t1 ... from `first` on, with their numbers as first bytes. */
struct part {
    uint32_t no, count, n_tensors;
    uint32_t first, n;
    const char *without; /* a key that is left out, or NULL */
};

static void put_part(const char *path, const struct part *part) {
    struct gguf_builder builder;
    char name[32];
    gguf_builder_init(&builder);
    if (part->no == 0)
        gguf_builder_string(&builder, "general.architecture", "llama");
    const struct {
        const char *key;
        uint32_t value;
    } keys[] = {{"split.no", part->no},
                {"split.count", part->count},
                {"split.tensors.count", part->n_tensors}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!part->without || strcmp(part->without, keys[i].key) != 0)
            gguf_builder_u32(&builder, keys[i].key, keys[i].value);
    for (uint32_t i = 0; i < part->n; i++) {
        snprintf(name, sizeof name, "t%u", part->first + i);
        gguf_builder_tensor(&builder, name, 0, 8);
    }
    gguf_builder_finish(&builder, 0);
    for (uint32_t i = 0; i < part->n; i++)
        builder.bytes.data[builder.bytes.n - (size_t)32 * (part->n - i)] = (char)(part->first + i);
    put(path, builder.bytes.data, builder.bytes.n);
    gguf_builder_fini(&builder);
}

static struct part part_of(uint32_t no, uint32_t count) {
    return (struct part){no, count, N_EACH * count, N_EACH * no, N_EACH, NULL};
}

static void put_set(uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        put_part(part_at(i + 1, count),
                 &(struct part){i, count, N_EACH * count, N_EACH * i, N_EACH, NULL});
}

static struct error told; /* by the last refusal */

static void refuses(const char *path, enum status wanted, const char *file, const char *words) {
    struct gguf *gguf = NULL;
    told = (struct error){0};
    enum status status = gguf_open(path, &gguf, &told);
    ck_assert_msg(status == wanted, "%s: %s", status_name(status), told.text);
    ck_assert_msg(strncmp(told.text, file, strlen(file)) == 0, "%s does not name %s", told.text,
                  file);
    ck_assert_msg(strstr(told.text, words) != NULL, "%s", told.text);
    ck_assert_ptr_null(gguf);
}

START_TEST(any_part_opens_the_set_with_all_its_tensors) {
    put_set(3);
    for (uint32_t number = 1; number <= 3; number++) {
        struct gguf *gguf;
        struct error error;
        struct span architecture = {0};
        enum status status = gguf_open(part_at(number, 3), &gguf, &error);
        ck_assert_msg(status == STATUS_OK, "%s", error.text);
        ck_assert_str_eq(gguf->name, part_at(1, 3));
        ck_assert_int_eq(gguf_string(gguf, "general.architecture", &architecture, &error),
                         STATUS_OK);
        ck_assert(span_is(architecture, "llama"));
        ck_assert_uint_eq(gguf->n_others, 2);
        ck_assert_str_eq(gguf_part(gguf, 2)->name, part_at(3, 3));
        ck_assert_uint_eq(gguf->n_tensors, 3 * N_EACH);
        for (uint32_t i = 0; i < gguf->n_tensors; i++) {
            char name[16];
            snprintf(name, sizeof name, "t%u", i);
            ck_assert_str_eq(gguf->tensors[i].name, name);
            ck_assert_ptr_eq(gguf_tensor(gguf, name), &gguf->tensors[i]);
            ck_assert_int_eq(*(const char *)gguf->tensors[i].data, (int)i);
        }
        ck_assert_ptr_null(gguf_tensor(gguf, "t6"));
        gguf_drop_pages(gguf);
        ck_assert_int_eq(*(const char *)gguf_tensor(gguf, "t5")->data, 5);
        gguf_close(gguf);
    }
}
END_TEST

/* gguf-split and the hub's writer can leave the first part to the metadata. */
START_TEST(a_first_part_may_have_no_tensors) {
    struct gguf *gguf;
    struct error error;
    put_part(part_at(1, 2), &(struct part){0, 2, 3, 0, 0, NULL});
    put_part(part_at(2, 2), &(struct part){1, 2, 3, 0, 3, NULL});
    enum status status = gguf_open(part_at(1, 2), &gguf, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    ck_assert_uint_eq(gguf->n_tensors, 3);
    gguf_close(gguf);
}
END_TEST

START_TEST(one_or_no_part_is_a_whole_file_whatever_its_name) {
    static const char *const names[] = {"a.gguf", "x-00001-of-00001.gguf", "x-00002-of-00003.gguf"};
    for (uint32_t i = 0; i < 6; i++) {
        struct gguf *gguf;
        struct error error;
        const char *without = i % 2 ? "split.no" : NULL;
        put_part(at(names[i % 3]), &(struct part){0, i / 3, 99, 0, 2, without});
        enum status status = gguf_open(at(names[i % 3]), &gguf, &error);
        ck_assert_msg(status == STATUS_OK, "%s", error.text);
        ck_assert_uint_eq(gguf->n_others, 0);
        ck_assert_uint_eq(gguf->n_tensors, 2);
        gguf_close(gguf);
    }
}
END_TEST

START_TEST(a_part_that_is_missing_is_named) {
    for (uint32_t missing = 1; missing <= 3; missing++) {
        char words[32];
        put_set(3);
        ck_assert_int_eq(unlink(part_at(missing, 3)), 0);
        snprintf(words, sizeof words, "part %u of 3 is missing", missing);
        refuses(part_at(missing == 2 ? 3 : 2, 3), STATUS_NOT_FOUND, part_at(missing, 3), words);
        ck_assert_msg(told.may_pass, "a part that is still being copied is not waited for");
    }
    put_set(3);
    unlink(part_at(3, 3));
    ck_assert_int_eq(symlink("nowhere", part_at(3, 3)), 0);
    refuses(part_at(1, 3), STATUS_NOT_FOUND, part_at(3, 3), "it is a link to nowhere");
}
END_TEST

START_TEST(a_part_of_another_set_is_named) {
    static const struct {
        struct part part; /* in place of the second of three */
        const char *words;
    } cases[] = {
        {{1, 4, 6, 2, 2, NULL}, "part 2 of 4 by its keys (split.no, split.count), not part 2 of 3"},
        {{0, 3, 6, 2, 2, NULL}, "part 1 of 3 by its keys (split.no, split.count), not part 2 of 3"},
        {{2, 3, 6, 2, 2, NULL}, "part 3 of 3 by its keys (split.no, split.count), not part 2 of 3"},
        {{3, 3, 6, 2, 2, NULL}, "split.no is 3, but split.count is 3"},
        {{1, 1, 6, 2, 2, NULL}, "a whole file by its keys, not part 2 of 3"},
        {{1, 0, 6, 2, 2, NULL}, "a whole file by its keys, not part 2 of 3"},
        {{1, 3, 6, 2, 2, "split.count"}, "a whole file by its keys, not part 2 of 3"},
        {{1, 3, 6, 2, 2, "split.no"}, "key split.no is missing"},
        {{1, 3, 6, 2, 2, "split.tensors.count"}, "key split.tensors.count is missing"},
        {{1, 3, 7, 2, 2, NULL}, "a part of another set: split.tensors.count is 7, but 6 in "},
        {{1, 3, 6, 1, 2, NULL}, "tensor t1 is in "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_set(3);
        put_part(part_at(2, 3), &cases[i].part);
        enum status wanted = strstr(cases[i].words, "missing") ? STATUS_NOT_FOUND : STATUS_CORRUPT;
        refuses(part_at(1, 3), wanted, part_at(2, 3), cases[i].words);
    }
    char words[PATH_MAX + 32]; /* where it stands is told, in whichever part */
    put_set(3);
    put_part(part_at(3, 3), &(struct part){2, 3, 6, 3, 2, NULL});
    snprintf(words, sizeof words, "tensor t3 is in %s too", part_at(2, 3));
    refuses(part_at(1, 3), STATUS_CORRUPT, part_at(3, 3), words);
}
END_TEST

START_TEST(the_sum_of_tensors_is_checked) {
    for (uint32_t n = 1; n <= 3; n += 2) {
        put_set(3);
        put_part(part_at(3, 3), &(struct part){2, 3, 6, 4, n, NULL});
        refuses(part_at(1, 3), STATUS_CORRUPT, part_at(1, 3),
                n == 1 ? "split.tensors.count is 6, but the 3 parts have 5"
                       : "split.tensors.count is 6, but the 3 parts have 7");
    }
}
END_TEST

START_TEST(a_part_cut_short_and_a_pointer_are_named) {
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\n"
                                  "oid sha256:0000000000000000000000000000000000000000\nsize 9\n";
    put_set(3);
    put(part_at(2, 3), pointer, sizeof pointer - 1);
    refuses(part_at(3, 3), STATUS_CORRUPT, part_at(2, 3), "Git LFS");
    refuses(part_at(2, 3), STATUS_CORRUPT, part_at(2, 3), "Git LFS");
    put_set(3);
    ck_assert_int_eq(truncate(part_at(3, 3), 200), 0);
    refuses(part_at(1, 3), STATUS_CORRUPT, part_at(3, 3), "reaches past the file's end");
    ck_assert_int_eq(truncate(part_at(3, 3), 0), 0);
    refuses(part_at(1, 3), STATUS_CORRUPT, part_at(3, 3), "0 bytes are not a GGUF file");
}
END_TEST

START_TEST(a_part_by_another_name_is_refused) {
    static const char *const names[] = {"x.gguf",
                                        "x-00002-of-00003",
                                        "x-00001-of-00003.gguf",
                                        "x-00003-of-00003.gguf",
                                        "x-00002-of-00004.gguf",
                                        "x-2-of-3.gguf",
                                        "x_00002-of-00003.gguf",
                                        "x-00002-of-00003.gguf.part",
                                        "x-0000２-of-00003.gguf",
                                        "x-00002-of-00003(1).gguf"};
    struct part second = part_of(1, 3);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        put_part(at(names[i]), &second);
        refuses(at(names[i]), STATUS_INVALID, at(names[i]),
                "part 2 of 3 by its keys (split.no, split.count), so its name has to end in "
                "-00002-of-00003.gguf");
    }
}
END_TEST

START_TEST(as_many_parts_and_tensors_are_read_as_the_bounds_say) {
    struct gguf *gguf;
    struct error error;
    put_set(GGUF_PARTS_MAX);
    enum status status = gguf_open(part_at(7, GGUF_PARTS_MAX), &gguf, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    ck_assert_uint_eq(gguf->n_tensors, GGUF_PARTS_MAX * N_EACH);
    gguf_close(gguf);
    put_set(GGUF_PARTS_MAX + 1);
    refuses(part_at(7, GGUF_PARTS_MAX + 1), STATUS_LIMIT, part_at(7, GGUF_PARTS_MAX + 1),
            "split.count is 257, at most 256 parts are read");
    for (uint32_t over = 0; over < 2; over++) {
        uint32_t n_all = GGUF_TENSORS_MAX + over, n = GGUF_TENSORS_MAX / 2;
        put_part(part_at(1, 2), &(struct part){0, 2, n_all, 0, n, NULL});
        put_part(part_at(2, 2), &(struct part){1, 2, n_all, n, n + over, NULL});
        if (over) {
            refuses(part_at(1, 2), STATUS_LIMIT, part_at(1, 2),
                    "32769 tensors in all parts, at most 32768 are read");
            continue;
        }
        status = gguf_open(part_at(1, 2), &gguf, &error);
        ck_assert_msg(status == STATUS_OK, "%s", error.text);
        ck_assert_ptr_eq(gguf_tensor(gguf, "t32767"), &gguf->tensors[32767]);
        gguf_close(gguf);
    }
}
END_TEST

/* Of a file's mapping, what this process has in memory. */
static unsigned resident_kb(const char *path) {
    char line[PATH_MAX];
    unsigned kb = 0;
    bool is_there = false;
    FILE *file = fopen("/proc/self/smaps", "r");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof line, file)) {
        is_there |= strstr(line, path) != NULL;
        if (is_there && sscanf(line, "Rss: %u", &kb) == 1)
            break;
    }
    fclose(file);
    ck_assert_msg(is_there, "%s is not mapped", path);
    return kb;
}

START_TEST(pages_of_all_parts_are_dropped) {
    struct gguf *gguf;
    struct error error;
    put_set(3);
    ck_assert_int_eq(gguf_open(part_at(1, 3), &gguf, &error), STATUS_OK);
    for (uint32_t number = 1; number <= 3; number++)
        ck_assert_uint_gt(resident_kb(part_at(number, 3)), 0);
    gguf_drop_pages(gguf);
    for (uint32_t number = 1; number <= 3; number++)
        ck_assert_uint_eq(resident_kb(part_at(number, 3)), 0);
    gguf_close(gguf);
}
END_TEST

START_TEST(a_part_that_shrinks_is_named) {
    struct gguf *gguf;
    struct error error;
    put_set(3);
    ck_assert_int_eq(gguf_open(part_at(1, 3), &gguf, &error), STATUS_OK);
    ck_assert_int_eq(gguf_check(gguf, &error), STATUS_OK);
    ck_assert_int_eq(truncate(part_at(3, 3), 10), 0);
    ck_assert_int_eq(gguf_check(gguf, &error), STATUS_IO);
    ck_assert_msg(strstr(error.text, part_at(3, 3)) != NULL, "%s", error.text);
    gguf_close(gguf);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, any_part_opens_the_set_with_all_its_tensors);
    tcase_add_test(tests, a_first_part_may_have_no_tensors);
    tcase_add_test(tests, one_or_no_part_is_a_whole_file_whatever_its_name);
    tcase_add_test(tests, a_part_that_is_missing_is_named);
    tcase_add_test(tests, a_part_of_another_set_is_named);
    tcase_add_test(tests, the_sum_of_tensors_is_checked);
    tcase_add_test(tests, a_part_cut_short_and_a_pointer_are_named);
    tcase_add_test(tests, a_part_by_another_name_is_refused);
    tcase_add_test(tests, as_many_parts_and_tensors_are_read_as_the_bounds_say);
    tcase_add_test(tests, pages_of_all_parts_are_dropped);
    tcase_add_test(tests, a_part_that_shrinks_is_named);
}
