#include "tests/support/suite.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/hex.h"
#include "base/list.h"
#include "base/log/log.h"
#include "base/log/note.h"
#include "base/map.h"
#include "base/random.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

const char *const suite_name = "base";
const double suite_timeout_s = 60;

START_TEST(arena_answers_null_at_its_limit) {
    struct arena arena;
    arena_init(&arena, 8192);
    ck_assert_ptr_nonnull(arena_alloc(&arena, 5000));
    ck_assert_ptr_nonnull(arena_alloc(&arena, 3000));
    ck_assert_ptr_null(arena_alloc(&arena, 5000));
    arena_reset(&arena);
    char *again = arena_copy(&arena, "abc", 3);
    ck_assert_str_eq(again, "abc");
    arena_fini(&arena);
}
END_TEST

/* The memory of a buffer begins with 64 bytes, one of them the NUL. */
START_TEST(buf_printf_fits_or_grows_or_changes_nothing) {
    static const char x62[] = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
    for (int more = 1; more <= 3; more++) {
        struct buf buf;
        buf_init(&buf, 64);
        buf_puts(&buf, x62);
        buf_printf(&buf, "%.*s", more, "abc");
        ck_assert_int_eq(buf_status(&buf), more <= 2 ? STATUS_OK : STATUS_LIMIT);
        ck_assert_uint_eq(buf.n, 62 + (more <= 2 ? (size_t)more : 0));
        ck_assert_uint_eq(strlen(buf.data), buf.n);
        ck_assert_int_eq(strncmp(buf.data + 62, "abc", buf.n - 62), 0);
        buf_fini(&buf);
    }
}
END_TEST

/* Of a short text and of one that is a mapping. */
START_TEST(taken_bytes_are_the_callers) {
    static const size_t sizes[] = {1, 100, 262143, 262144, 1 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct buf buf;
        buf_init(&buf, 2 << 20);
        for (size_t n = 0; n < sizes[i]; n++)
            buf_putc(&buf, (char)('a' + n % 26));
        char *bytes = buf_take(&buf);
        ck_assert_ptr_nonnull(bytes);
        ck_assert(bytes[sizes[i] - 1] == (char)('a' + (sizes[i] - 1) % 26) && bytes[sizes[i]] == 0);
        ck_assert(!buf.data && buf.n == 0 && buf.size == 0 && buf.limit == 2 << 20);
        free(bytes);
        buf_puts(&buf, "again");
        ck_assert_str_eq(buf.data, "again");
        buf_fini(&buf);
    }
    struct buf small;
    buf_init(&small, 4);
    ck_assert_ptr_null(buf_take(&small));
    buf_puts(&small, "too long");
    ck_assert_ptr_null(buf_take(&small));
    ck_assert_int_eq(buf_status(&small), STATUS_OK); /* it begins anew */
}
END_TEST

/* Beyond 256 KiB the bytes are a mapping: they move with it, and nothing of it is left behind. */
START_TEST(large_buf_keeps_its_bytes_and_leaves_no_memory) {
    enum { N = 3 << 20, PIECE = 1000 };
    struct buf buf;
    char piece[PIECE];
    unsigned char resident;
    buf_init(&buf, N);
    for (unsigned i = 0; buf.n + PIECE <= N; i++) {
        memset(piece, (int)('a' + i % 26), PIECE);
        buf_append(&buf, piece, PIECE);
    }
    ck_assert_int_eq(buf_status(&buf), STATUS_OK);
    ck_assert_uint_eq(strlen(buf.data), buf.n);
    size_t n_right = 0;
    while (n_right < buf.n && buf.data[n_right] == (char)('a' + n_right / PIECE % 26))
        n_right++;
    ck_assert_uint_eq(n_right, buf.n);
    char *data = buf.data;
    ck_assert_int_eq(mincore(data, 1, &resident), 0);
    buf_fini(&buf);
    ck_assert_int_eq(mincore(data, 1, &resident), -1);
    ck_assert_int_eq(errno, ENOMEM);
}
END_TEST

START_TEST(buf_reports_a_dropped_append_once_at_the_end) {
    struct buf buf;
    buf_init(&buf, 8);
    buf_puts(&buf, "12345");
    buf_printf(&buf, "%d", 678);
    ck_assert_int_eq(buf_status(&buf), STATUS_OK);
    buf_putc(&buf, '9');
    ck_assert_int_eq(buf_status(&buf), STATUS_LIMIT);
    ck_assert_str_eq(buf.data, "12345678");
    buf_clear(&buf);
    buf_puts(&buf, "abc");
    buf_consume(&buf, 1);
    buf_truncate(&buf, 1);
    ck_assert_str_eq(buf.data, "b");
    ck_assert_uint_eq(buf.n, 1);
    buf_fini(&buf);
}
END_TEST

START_TEST(checked_arithmetic_refuses_to_wrap) {
    uint64_t result = 7;
    ck_assert(!checked_add(UINT64_MAX, 1, &result));
    ck_assert(!checked_mul(1ull << 33, 1ull << 33, &result));
    ck_assert_uint_eq(result, 7);
    ck_assert(checked_range(4, 4, 8));
    ck_assert(!checked_range(5, 4, 8));
    ck_assert(!checked_range(UINT64_MAX, 2, 8));
}
END_TEST

START_TEST(map_agrees_with_a_plain_array_under_random_use) {
    enum { N = 200 };
    struct map map;
    uint32_t expected[N];
    bool present[N] = {false};
    struct random random = {.state = 1};
    ck_assert_int_eq(map_init(&map, N, 42), STATUS_OK);
    for (int i = 0; i < 20000; i++) {
        uint32_t k = (uint32_t)random_below(&random, N);
        struct map_key key = {.hi = k % 3, .lo = k};
        uint32_t value = 0;
        if (random_below(&random, 2)) {
            value = (uint32_t)random_next(&random);
            ck_assert_int_eq(map_put(&map, key, value), STATUS_OK);
            expected[k] = value;
            present[k] = true;
        } else {
            ck_assert_int_eq(map_remove(&map, key), present[k]);
            present[k] = false;
        }
        k = (uint32_t)random_below(&random, N);
        key = (struct map_key){.hi = k % 3, .lo = k};
        enum status status = map_get(&map, key, &value);
        ck_assert_int_eq(status, present[k] ? STATUS_OK : STATUS_NOT_FOUND);
        if (present[k])
            ck_assert_uint_eq(value, expected[k]);
    }
    map_fini(&map);
}
END_TEST

START_TEST(map_refuses_more_than_its_capacity) {
    struct map map;
    ck_assert_int_eq(map_init(&map, 2, 0), STATUS_OK);
    ck_assert_int_eq(map_put(&map, (struct map_key){1, 1}, 1), STATUS_OK);
    ck_assert_int_eq(map_put(&map, (struct map_key){1, 2}, 2), STATUS_OK);
    ck_assert_int_eq(map_put(&map, (struct map_key){1, 3}, 3), STATUS_LIMIT);
    ck_assert_int_eq(map_put(&map, (struct map_key){1, 2}, 4), STATUS_OK);
    map_fini(&map);
}
END_TEST

struct item {
    int value;
    struct list link;
};

START_TEST(list_survives_removal_of_the_current_entry) {
    struct list head;
    struct item items[3] = {{.value = 0}, {.value = 1}, {.value = 2}};
    list_init(&head);
    for (int i = 0; i < 3; i++)
        list_push_back(&head, &items[i].link);
    int sum = 0;
    list_each(link, &head) {
        sum += list_entry(link, struct item, link)->value;
        list_remove(link);
    }
    ck_assert_int_eq(sum, 3);
    ck_assert(list_empty(&head));
    list_remove(&items[0].link); /* harmless */
}
END_TEST

START_TEST(splitmix_matches_its_published_vectors) {
    /* First outputs for seed 1234567 in the reference implementation. */
    struct random random = {.state = 1234567};
    ck_assert_uint_eq(random_next(&random), 6457827717110365317ull);
    ck_assert_uint_eq(random_next(&random), 3203168211198807973ull);
}
END_TEST

START_TEST(utf8_refuses_what_rfc_3629_refuses) {
    static const char *const bad[] = {
        "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff",
        "\x80",     "\xc3",         "\xf0\x9f\x98", "\xe2\x28\xa1"};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert(!utf8_valid(bad[i], strlen(bad[i])));
    ck_assert(utf8_valid("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 10));
}
END_TEST

START_TEST(hexadecimal_digits_are_of_either_case) {
    static const char digits[] = "0123456789abcdefABCDEF";
    for (int byte = 0; byte < 256; byte++) {
        const char *at = byte ? strchr(digits, byte) : NULL;
        int worth = at ? (int)(at - digits) : -1;
        ck_assert_int_eq(hex_value((char)byte), worth < 16 ? worth : worth - 6);
    }
}
END_TEST

START_TEST(utf8_encodes_what_it_decodes) {
    for (uint32_t point = 0; point <= 0x10ffff; point += 37) {
        char bytes[4];
        uint32_t again = 0;
        if (point >= 0xd800 && point <= 0xdfff)
            continue;
        unsigned n = utf8_encode(point, bytes);
        ck_assert_uint_eq(utf8_decode(bytes, n, &again), n);
        ck_assert_uint_eq(again, point);
        for (unsigned cut = 1; cut < n; cut++)
            ck_assert_uint_eq(utf8_cut_tail(bytes, cut), cut);
        ck_assert_uint_eq(utf8_cut_tail(bytes, n), 0);
    }
}
END_TEST

START_TEST(log_text_cannot_forge_a_line) {
    char out[32];
    ck_assert_str_eq(log_text(out, sizeof out, "plain-1"), "plain-1");
    ck_assert_str_eq(log_text(out, sizeof out, "a b\n\"c"), "\"a b\\x0a\\\"c\"");
    ck_assert_uint_lt(strlen(log_text(out, sizeof out, "a very long text that does not fit here")),
                      sizeof out);
}
END_TEST

START_TEST(notes_are_logfmt_and_say_only_what_they_have) {
    static const struct note_kind lost = {"worker lost", LOG_WARN, "name", {"after_ms", "n"}};
    static const struct note_kind bare = {"bare", LOG_INFO, "name", {0}};
    char out[128];
    struct note note = {.kind = &lost, .name = "de code", .reason = "hung", .values = {1034, 2}};
    ck_assert_str_eq(note_text(out, sizeof out, &note, "cmpl-1"),
                     "name=\"de code\" id=cmpl-1 reason=hung after_ms=1034 n=2");
    note = (struct note){
        .kind = &bare, .attempt = {1, 2, 3}, .trace = (const uint8_t *)"0123456789abcde\xff"};
    ck_assert_str_eq(note_text(out, sizeof out, &note, NULL),
                     "request=1.2.3 trace=303132333435363738396162636465ff");
    note = (struct note){.kind = &bare};
    ck_assert_str_eq(note_text(out, sizeof out, &note, NULL), "");
    note.name = "w0";
    ck_assert_str_eq(note_text(out, sizeof out, &note, NULL), "name=w0");
    note = (struct note){.kind = &lost, .name = "w0", .values = {UINT64_MAX, 0}};
    ck_assert_str_eq(note_text(out, 12, &note, NULL), "name=w0 aft"); /* cut, never beyond */
}
END_TEST

START_TEST(a_note_names_attempts_in_one_form) {
    static const struct note_kind moved = {"moved", LOG_DEBUG, "router", {"n"}};
    char id[NOTE_ID_MAX], out[128];
    struct note note = {.kind = &moved,
                        .key = "phase",
                        .word = "prefill",
                        .reason = "blocks",
                        .attempt = {0xab, 0x10, 1},
                        .other = {UINT64_MAX, UINT64_MAX, UINT32_MAX},
                        .values = {7}};
    ck_assert_str_eq(note_text(out, sizeof out, &note, "cmpl-1"),
                     "id=cmpl-1 request=ab.10.1 for=ffffffffffffffff.ffffffffffffffff.ffffffff "
                     "phase=prefill reason=blocks n=7");
    ck_assert_str_eq(note_id_text(id, (struct note_id){0, 0, 2}), "0.0.2");
    ck_assert_str_eq(note_id_text(id, (struct note_id){0}), "");
}
END_TEST

START_TEST(what_may_pass_is_said_by_errno_and_forgotten_with_the_line) {
    static const int later[] = {ENOENT, ENODEV, EADDRNOTAVAIL, EADDRINUSE, EIO, ESTALE, ENOTCONN};
    static const int never[] = {0, EACCES, EINVAL, ELOOP, ENOTDIR, ENAMETOOLONG};
    struct error error;
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        enum status status = error_set(&error, STATUS_IO, "gone");
        ck_assert_int_eq(error_of_errno(&error, status, later[i]), STATUS_IO);
        error_prefix(&error, "endpoint");
        ck_assert_msg(error.may_pass, "%s", strerror(later[i]));
    }
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        enum status status = error_field(&error, STATUS_IO, "endpoint", "wrong");
        ck_assert(!error.may_pass);
        ck_assert_int_eq(error_of_errno(&error, status, never[i]), STATUS_IO);
        ck_assert_msg(!error.may_pass, "%s", strerror(never[i]));
    }
    ck_assert_int_eq(error_passing(&error, STATUS_EXISTS, "%s is held", "a"), STATUS_EXISTS);
    ck_assert_str_eq(error.text, "a is held");
    ck_assert_str_eq(error.field, "");
    ck_assert(error.may_pass);
    ck_assert_int_eq(error_errno(&error, STATUS_DENIED, EACCES, "b %d", 1), STATUS_DENIED);
    ck_assert_str_eq(error.text, "b 1: Permission denied");
    ck_assert(!error.may_pass);
    ck_assert_int_eq(error_errno(&error, STATUS_IO, ENOENT, "c"), STATUS_IO);
    ck_assert_str_eq(error.text, "c: No such file or directory");
    ck_assert(error.may_pass);
    char longest[ERROR_TEXT_MAX];
    memset(longest, 'd', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    ck_assert_int_eq(error_errno(&error, STATUS_IO, EIO, "%s", longest), STATUS_IO);
    ck_assert_str_eq(error.text, longest);
}
END_TEST

START_TEST(error_lines_keep_their_field_and_print_nothing_odd) {
    struct error error;
    ck_assert_int_eq(error_field(&error, STATUS_INVALID, "max_tokens", "must be positive\n%d", -1),
                     STATUS_INVALID);
    error_prefix(&error, "line %d", 3);
    ck_assert_str_eq(error.text, "line 3: must be positive?-1");
    ck_assert_str_eq(error.field, "max_tokens");
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, arena_answers_null_at_its_limit);
    tcase_add_test(tests, buf_printf_fits_or_grows_or_changes_nothing);
    tcase_add_test(tests, taken_bytes_are_the_callers);
    tcase_add_test(tests, large_buf_keeps_its_bytes_and_leaves_no_memory);
    tcase_add_test(tests, buf_reports_a_dropped_append_once_at_the_end);
    tcase_add_test(tests, checked_arithmetic_refuses_to_wrap);
    tcase_add_test(tests, map_agrees_with_a_plain_array_under_random_use);
    tcase_add_test(tests, map_refuses_more_than_its_capacity);
    tcase_add_test(tests, list_survives_removal_of_the_current_entry);
    tcase_add_test(tests, splitmix_matches_its_published_vectors);
    tcase_add_test(tests, utf8_refuses_what_rfc_3629_refuses);
    tcase_add_test(tests, hexadecimal_digits_are_of_either_case);
    tcase_add_test(tests, utf8_encodes_what_it_decodes);
    tcase_add_test(tests, log_text_cannot_forge_a_line);
    tcase_add_test(tests, notes_are_logfmt_and_say_only_what_they_have);
    tcase_add_test(tests, a_note_names_attempts_in_one_form);
    tcase_add_test(tests, what_may_pass_is_said_by_errno_and_forgotten_with_the_line);
    tcase_add_test(tests, error_lines_keep_their_field_and_print_nothing_odd);
}
