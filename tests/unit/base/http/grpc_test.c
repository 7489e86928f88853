#include "base/http/grpc.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

const char *const suite_name = "base_grpc";
const double suite_timeout_s = 60;

static struct buf room, body;
static struct error error;
static struct span message;

static void set_up(void) {
    buf_init(&room, 0);
    buf_init(&body, 0);
    error = (struct error){0};
}

static void tear_down(void) {
    buf_fini(&room);
    buf_fini(&body);
}

static void put(unsigned char flag, const void *bytes, size_t n) {
    size_t begun = grpc_begin(&body);
    buf_append(&body, bytes, n);
    grpc_end(&body, begun);
    body.data[begun - GRPC_PREFIX_BYTES] = (char)flag;
}

/* gzip of n bytes 'a', appended to `out`. */
static void pack(size_t n, struct buf *out) {
    z_stream stream = {0};
    ck_assert_int_eq(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    char *plain = malloc(n + 1), *packed = malloc(n + 100);
    memset(plain, 'a', n);
    stream.next_in = (Bytef *)plain;
    stream.avail_in = (uInt)n;
    stream.next_out = (Bytef *)packed;
    stream.avail_out = (uInt)(n + 100);
    ck_assert_int_eq(deflate(&stream, Z_FINISH), Z_STREAM_END);
    buf_append(out, packed, n + 100 - stream.avail_out);
    deflateEnd(&stream);
    free(plain);
    free(packed);
}

static enum status take_only(const char *encoding, size_t max) {
    struct span bytes = {body.data ? body.data : "", body.n};
    return grpc_take_only(bytes, encoding, max, &room, &message, &error);
}

START_TEST(a_message_is_read_wherever_its_bytes_end) {
    put(0, "abc", 3);
    put(0, "", 0);
    put(0, "defg", 4);
    static const char *const expected[] = {"abc", "", "defg"};
    size_t n_before = 0, n_messages = 0;
    for (size_t n = 0; n <= body.n; n++) { /* each time one byte more has come */
        struct span bytes = {body.data + n_before, n - n_before};
        enum status status = grpc_take(&bytes, NULL, 4, &room, &message, &error);
        if (status == STATUS_BUSY) {
            ck_assert_uint_eq(bytes.n, n - n_before);
            continue;
        }
        ck_assert_int_eq(status, STATUS_OK);
        ck_assert(span_is(message, expected[n_messages]));
        ck_assert_uint_eq(bytes.n, 0);
        n_before = n;
        n_messages++;
    }
    ck_assert_uint_eq(n_messages, 3);
}
END_TEST

START_TEST(several_messages_lie_in_one_piece) {
    put(0, "abc", 3);
    put(0, "de", 2);
    struct span bytes = {body.data, body.n};
    ck_assert_int_eq(grpc_take(&bytes, NULL, 4, &room, &message, &error), STATUS_OK);
    ck_assert(span_is(message, "abc"));
    ck_assert_int_eq(grpc_take(&bytes, NULL, 4, &room, &message, &error), STATUS_OK);
    ck_assert(span_is(message, "de"));
    ck_assert_int_eq(grpc_take(&bytes, NULL, 4, &room, &message, &error), STATUS_BUSY);
    ck_assert_int_eq(take_only(NULL, 4), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "more"));
}
END_TEST

START_TEST(a_body_without_a_whole_message_is_corrupt) {
    ck_assert_int_eq(take_only(NULL, 4), STATUS_INVALID); /* it has no message at all */
    put(0, "abc", 3);
    for (size_t n = 7; n > 0; n--) {
        buf_truncate(&body, n);
        ck_assert_int_eq(take_only(NULL, 4), STATUS_CORRUPT);
    }
}
END_TEST

START_TEST(flags_and_sizes_are_checked_at_the_prefix) {
    put(2, "abc", 3);
    ck_assert_int_eq(take_only(NULL, 4), STATUS_CORRUPT);
    buf_clear(&body);
    buf_append(&body, "\0\0\0\0\5", 5); /* nothing of it has come */
    ck_assert_int_eq(take_only(NULL, 4), STATUS_LIMIT);
    buf_clear(&body);
    buf_append(&body, "\0\xff\xff\xff\xff", 5);
    ck_assert_int_eq(take_only(NULL, GRPC_MESSAGE_MAX), STATUS_LIMIT);
}
END_TEST

START_TEST(gzip_is_inflated_up_to_the_bound) {
    struct buf packed;
    buf_init(&packed, 0);
    pack(100000, &packed);
    put(1, packed.data, packed.n);
    ck_assert_int_eq(take_only("gzip", 100000), STATUS_OK);
    ck_assert_uint_eq(message.n, 100000);
    ck_assert(message.bytes[0] == 'a' && message.bytes[99999] == 'a');
    ck_assert_int_eq(take_only("gzip", 99999), STATUS_LIMIT);
    ck_assert_uint_lt(room.size, 300000);
    ck_assert_int_eq(take_only(NULL, 100000), STATUS_CORRUPT);
    ck_assert_int_eq(take_only("identity", 100000), STATUS_CORRUPT);
    ck_assert_int_eq(take_only("snappy", 100000), STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "snappy"));
    buf_fini(&packed);
}
END_TEST

START_TEST(a_bomb_ends_at_the_bound) {
    struct buf packed;
    buf_init(&packed, 0);
    pack(64u << 20, &packed);
    put(1, packed.data, packed.n);
    ck_assert_uint_lt(packed.n, 100000);
    ck_assert_int_eq(take_only("gzip", 1u << 20), STATUS_LIMIT);
    ck_assert_uint_le(room.size, 3u << 20);
    buf_fini(&packed);
}
END_TEST

START_TEST(broken_gzip_is_corrupt) {
    struct buf packed;
    buf_init(&packed, 0);
    pack(1000, &packed);
    for (size_t n = 0; n < packed.n; n++) { /* cut anywhere */
        buf_clear(&body);
        put(1, packed.data, n);
        ck_assert_int_eq(take_only("gzip", 1000), STATUS_CORRUPT);
    }
    buf_clear(&body);
    buf_append(&packed, "x", 1); /* something behind it */
    put(1, packed.data, packed.n);
    ck_assert_int_eq(take_only("gzip", 1000), STATUS_CORRUPT);
    buf_truncate(&packed, packed.n - 1);
    packed.data[packed.n - 6] ^= 1; /* its checksum */
    buf_clear(&body);
    put(1, packed.data, packed.n);
    ck_assert_int_eq(take_only("gzip", 1000), STATUS_CORRUPT);
    buf_fini(&packed);
}
END_TEST

START_TEST(timeouts_have_at_most_eight_digits_and_a_unit) {
    static const struct {
        const char *text;
        uint64_t ns;
    } good[] = {{"1n", 1},
                {"2u", 2000},
                {"301m", 301000000},
                {"0S", 0},
                {"5M", 300000000000},
                {"1H", 3600000000000},
                {"99999999S", 99999999000000000},
                {"99999999H", UINT64_MAX}};
    static const char *const bad[] = {"",    "1",   "S",   "1s",   "-1S",        "+1S",
                                      "1 S", " 1S", "1SS", "1.5S", "123456789S", "0x1S"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t ns = 7;
        ck_assert_msg(grpc_timeout(good[i].text, &ns), "%s", good[i].text);
        ck_assert_uint_eq(ns, good[i].ns);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t ns = 7;
        ck_assert_msg(!grpc_timeout(bad[i], &ns), "%s", bad[i]);
        ck_assert_uint_eq(ns, 7);
    }
}
END_TEST

START_TEST(a_status_text_is_percent_coded_and_cut_between_codes) {
    char out[64];
    grpc_put_message(out, sizeof out, "n: 100% of \xc3\xa9\n~");
    ck_assert_str_eq(out, "n: 100%25 of %C3%A9%0A~");
    char small[8];
    grpc_put_message(small, sizeof small, "abc\n\n\n");
    ck_assert_str_eq(small, "abc%0A");
    grpc_put_message(small, sizeof small, "");
    ck_assert_str_eq(small, "");
}
END_TEST

START_TEST(only_protobuf_is_grpc) {
    static const char *const good[] = {"application/grpc", "application/grpc+proto",
                                       "Application/gRPC", "application/grpc; charset=utf-8"};
    static const char *const bad[] = {"application/grpc+json", "application/grpc-web",
                                      "application/grpcx",     "application/json",
                                      "application/grp",       ""};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        ck_assert_msg(grpc_is_type(good[i]), "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(!grpc_is_type(bad[i]), "%s", bad[i]);
    ck_assert(!grpc_is_type(NULL));
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_message_is_read_wherever_its_bytes_end);
    tcase_add_test(tests, several_messages_lie_in_one_piece);
    tcase_add_test(tests, a_body_without_a_whole_message_is_corrupt);
    tcase_add_test(tests, flags_and_sizes_are_checked_at_the_prefix);
    tcase_add_test(tests, gzip_is_inflated_up_to_the_bound);
    tcase_add_test(tests, a_bomb_ends_at_the_bound);
    tcase_add_test(tests, broken_gzip_is_corrupt);
    tcase_add_test(tests, timeouts_have_at_most_eight_digits_and_a_unit);
    tcase_add_test(tests, a_status_text_is_percent_coded_and_cut_between_codes);
    tcase_add_test(tests, only_protobuf_is_grpc);
}
