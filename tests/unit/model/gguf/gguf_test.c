/* Row M01 of the catalogue of hostile input, and what a good file gives. */
#include "tests/support/suite.h"

#include "model/gguf/gguf.h"
#include "tests/support/gguf_builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const suite_name = "model_gguf";
const double suite_timeout_s = 60;

static const uint64_t dims_32[] = {32};

static void bad_magic(struct gguf_builder *b) {
    gguf_builder_finish(b, 0);
    b->bytes.data[0] = 'g';
}

static void set_version(struct gguf_builder *b, uint32_t version) {
    gguf_builder_finish(b, 0);
    memcpy(b->bytes.data + 4, &version, sizeof version);
}

static void version_1(struct gguf_builder *b) {
    set_version(b, 1);
}

static void version_4(struct gguf_builder *b) {
    set_version(b, 4);
}

static void version_2_to_the_31(struct gguf_builder *b) {
    set_version(b, 1u << 31);
}

static void tensor_count_2_to_the_63(struct gguf_builder *b) {
    b->n_tensors = 1ull << 63;
    gguf_builder_finish(b, 0);
}

static void key_count_2_to_the_63(struct gguf_builder *b) {
    b->n_values = 1ull << 63;
    gguf_builder_finish(b, 0);
}

static void counts_beyond_the_file(struct gguf_builder *b) {
    b->n_values = 16000;
    gguf_builder_finish(b, 64);
}

static void string_past_the_end(struct gguf_builder *b) {
    gguf_builder_key(b, "a", GGUF_STRING);
    gguf_builder_u64_raw(b, 1u << 20);
    gguf_builder_finish(b, 0);
}

static void string_length_wraps(struct gguf_builder *b) {
    gguf_builder_key(b, "a", GGUF_STRING);
    gguf_builder_u64_raw(b, UINT64_MAX - 3);
    gguf_builder_finish(b, 0);
}

static void arrays_1000_deep(struct gguf_builder *b) {
    gguf_builder_key(b, "a", GGUF_ARRAY);
    for (int i = 0; i < 1000; i++) {
        gguf_builder_u32_raw(b, GGUF_ARRAY);
        gguf_builder_u64_raw(b, 1);
    }
    gguf_builder_finish(b, 0);
}

static void array_length_wraps(struct gguf_builder *b) {
    gguf_builder_key(b, "a", GGUF_ARRAY);
    gguf_builder_u32_raw(b, GGUF_U64);
    gguf_builder_u64_raw(b, 1ull << 61);
    gguf_builder_finish(b, 64);
}

static void array_of_unknown_type(struct gguf_builder *b) {
    gguf_builder_key(b, "a", GGUF_ARRAY);
    gguf_builder_u32_raw(b, 99);
    gguf_builder_u64_raw(b, 0);
    gguf_builder_finish(b, 64);
}

static void value_of_unknown_type(struct gguf_builder *b) {
    gguf_builder_key(b, "a", 13);
    gguf_builder_finish(b, 64);
}

static void bool_of_2(struct gguf_builder *b) {
    gguf_builder_bool(b, "a", 2);
    gguf_builder_finish(b, 0);
}

static void duplicate_keys(struct gguf_builder *b) {
    gguf_builder_u32(b, "twice", 1);
    gguf_builder_u32(b, "once", 1);
    gguf_builder_u32(b, "twice", 1);
    gguf_builder_finish(b, 0);
}

static void key_of_64_kib(struct gguf_builder *b) {
    char *key = calloc(65537, 1);
    memset(key, 'k', 65536);
    gguf_builder_u32(b, key, 1);
    gguf_builder_finish(b, 0);
    free(key);
}

static void alignment_0(struct gguf_builder *b) {
    gguf_builder_u32(b, "general.alignment", 0);
    gguf_builder_finish(b, 0);
}

static void alignment_3(struct gguf_builder *b) {
    gguf_builder_u32(b, "general.alignment", 3);
    gguf_builder_finish(b, 0);
}

static void alignment_2_to_the_31(struct gguf_builder *b) {
    gguf_builder_u32(b, "general.alignment", 1u << 31);
    gguf_builder_finish(b, 0);
}

static void alignment_is_a_string(struct gguf_builder *b) {
    gguf_builder_string(b, "general.alignment", "32");
    gguf_builder_finish(b, 0);
}

static void dimensions_overflow(struct gguf_builder *b) {
    uint64_t dims[] = {1ull << 32, 1ull << 32};
    gguf_builder_tensor_raw(b, "t", 2, dims, 0, 0);
    gguf_builder_finish(b, 64);
}

static void size_overflows(struct gguf_builder *b) {
    uint64_t dims[] = {1ull << 31, 1ull << 31};
    gguf_builder_tensor_raw(b, "t", 2, dims, 0, 0);
    gguf_builder_finish(b, 64);
}

static void dimension_of_0(struct gguf_builder *b) {
    uint64_t dims[] = {32, 0};
    gguf_builder_tensor_raw(b, "t", 2, dims, 0, 0);
    gguf_builder_finish(b, 64);
}

static void five_dimensions(struct gguf_builder *b) {
    uint64_t dims[] = {1, 1, 1, 1, 1};
    gguf_builder_tensor_raw(b, "t", 5, dims, 0, 0);
    gguf_builder_finish(b, 64);
}

static void no_dimensions(struct gguf_builder *b) {
    gguf_builder_tensor_raw(b, "t", 0, dims_32, 0, 0);
    gguf_builder_finish(b, 64);
}

static void row_of_half_a_block(struct gguf_builder *b) {
    uint64_t dims[] = {16, 2};
    gguf_builder_tensor_raw(b, "t", 2, dims, 3, 0);
    gguf_builder_finish(b, 64);
}

static void offset_past_the_end(struct gguf_builder *b) {
    gguf_builder_tensor_raw(b, "t", 1, dims_32, 0, 1u << 20);
    gguf_builder_finish(b, 128);
}

static void offset_wraps(struct gguf_builder *b) {
    gguf_builder_tensor_raw(b, "t", 1, dims_32, 0, UINT64_MAX - 31);
    gguf_builder_finish(b, 128);
}

static void size_past_the_end(struct gguf_builder *b) {
    gguf_builder_tensor_raw(b, "t", 1, dims_32, 0, 32);
    gguf_builder_finish(b, 128);
}

static void offset_unaligned(struct gguf_builder *b) {
    gguf_builder_tensor_raw(b, "t", 1, dims_32, 0, 4);
    gguf_builder_finish(b, 256);
}

static void tensors_overlap(struct gguf_builder *b) {
    gguf_builder_tensor_raw(b, "first", 1, dims_32, 0, 0);
    gguf_builder_tensor_raw(b, "second", 1, dims_32, 0, 96);
    gguf_builder_finish(b, 1024);
}

static void unknown_tensor_type(struct gguf_builder *b) {
    gguf_builder_tensor_raw(b, "strange", 1, dims_32, 77, 0);
    gguf_builder_finish(b, 1024);
}

static void unsupported_tensor_type(struct gguf_builder *b) {
    gguf_builder_tensor_raw(b, "strange", 1, dims_32, 16, 0);
    gguf_builder_finish(b, 1024);
}

static void duplicate_tensors(struct gguf_builder *b) {
    gguf_builder_tensor(b, "twice", 0, 32);
    gguf_builder_tensor(b, "twice", 0, 32);
    gguf_builder_finish(b, 0);
}

static void tensor_name_of_64_kib(struct gguf_builder *b) {
    char *name = calloc(65537, 1);
    memset(name, 'n', 65536);
    gguf_builder_tensor(b, name, 0, 32);
    gguf_builder_finish(b, 0);
    free(name);
}

static void tensor_name_is_empty(struct gguf_builder *b) {
    gguf_builder_tensor(b, "", 0, 32);
    gguf_builder_finish(b, 0);
}

static void table_is_cut(struct gguf_builder *b) {
    gguf_builder_tensor(b, "t", 0, 32);
    b->n_tensors = 2;
    memcpy(b->bytes.data + 8, &b->n_tensors, sizeof b->n_tensors);
}

static const struct {
    const char *name;
    void (*make)(struct gguf_builder *builder);
    enum status status;
    const char *says; /* a part of the error */
} hostile[] = {
    {"bad magic", bad_magic, STATUS_CORRUPT, "at byte 0: not a GGUF file"},
    {"version 1", version_1, STATUS_UNSUPPORTED, "at byte 4: GGUF version 1"},
    {"version 4", version_4, STATUS_UNSUPPORTED, "GGUF version 4"},
    {"version 2^31", version_2_to_the_31, STATUS_UNSUPPORTED, "GGUF version 2147483648"},
    {"tensor count 2^63", tensor_count_2_to_the_63, STATUS_LIMIT, "9223372036854775808 tensors"},
    {"key count 2^63", key_count_2_to_the_63, STATUS_LIMIT, "9223372036854775808 keys"},
    {"counts beyond the file", counts_beyond_the_file, STATUS_CORRUPT, "do not fit"},
    {"string past the end", string_past_the_end, STATUS_CORRUPT, "a string needs 1048576 bytes"},
    {"string length wraps", string_length_wraps, STATUS_CORRUPT, "key \"a\": file.gguf: at byte"},
    {"arrays 1000 deep", arrays_1000_deep, STATUS_CORRUPT, "nested more than 4 deep"},
    {"array length wraps", array_length_wraps, STATUS_CORRUPT, "larger than the file"},
    {"array of unknown type", array_of_unknown_type, STATUS_CORRUPT, "unknown array type 99"},
    {"value of unknown type", value_of_unknown_type, STATUS_CORRUPT, "unknown value type 13"},
    {"bool of 2", bool_of_2, STATUS_CORRUPT, "a bool is 2"},
    {"duplicate keys", duplicate_keys, STATUS_CORRUPT, "key \"twice\" appears twice"},
    {"key of 64 KiB", key_of_64_kib, STATUS_CORRUPT, "at most 65535"},
    {"alignment 0", alignment_0, STATUS_CORRUPT, "general.alignment is 0"},
    {"alignment 3", alignment_3, STATUS_CORRUPT, "general.alignment is 3"},
    {"alignment 2^31", alignment_2_to_the_31, STATUS_CORRUPT, "general.alignment is 2147483648"},
    {"alignment is a string", alignment_is_a_string, STATUS_CORRUPT, "is of type string"},
    {"dimensions overflow", dimensions_overflow, STATUS_CORRUPT, "dimensions of tensor t overflow"},
    {"size overflows", size_overflows, STATUS_CORRUPT, "size of tensor t overflows"},
    {"dimension of 0", dimension_of_0, STATUS_CORRUPT, "tensor t has a dimension of 0"},
    {"five dimensions", five_dimensions, STATUS_CORRUPT, "tensor t has 5 dimensions"},
    {"no dimensions", no_dimensions, STATUS_CORRUPT, "tensor t has 0 dimensions"},
    {"row of half a block", row_of_half_a_block, STATUS_CORRUPT, "not a multiple of 32"},
    {"offset past the end", offset_past_the_end, STATUS_CORRUPT, "reaches past the file's end"},
    {"offset wraps", offset_wraps, STATUS_CORRUPT, "reaches past the file's end"},
    {"size past the end", size_past_the_end, STATUS_CORRUPT, "reaches past the file's end"},
    {"offset unaligned", offset_unaligned, STATUS_CORRUPT, "tensor t starts at 4, no multiple"},
    {"tensors overlap", tensors_overlap, STATUS_CORRUPT, "tensors first and second overlap"},
    {"unknown tensor type", unknown_tensor_type, STATUS_UNSUPPORTED,
     "tensor strange has type 77 (unknown)"},
    {"unsupported tensor type", unsupported_tensor_type, STATUS_UNSUPPORTED,
     "tensor strange has type 16 (iq2_xxs); supported are f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, "
     "q8_0, q4_k, q5_k, q6_k"},
    {"duplicate tensors", duplicate_tensors, STATUS_CORRUPT, "tensor twice appears twice"},
    {"tensor name of 64 KiB", tensor_name_of_64_kib, STATUS_CORRUPT, "at most 64 are allowed"},
    {"tensor name is empty", tensor_name_is_empty, STATUS_CORRUPT, "name is empty"},
    {"table is cut", table_is_cut, STATUS_CORRUPT, "do not fit"},
};

START_TEST(m01_hostile_file_is_refused_with_offset_and_reason) {
    struct gguf_builder builder;
    struct gguf *gguf = NULL;
    struct error error;
    gguf_builder_init(&builder);
    hostile[_i].make(&builder);
    /* A copy of exactly its size, so that the sanitizer sees a read past its end. */
    char *bytes = malloc(builder.bytes.n);
    memcpy(bytes, builder.bytes.data, builder.bytes.n);
    enum status status = gguf_parse(bytes, builder.bytes.n, "file.gguf", &gguf, &error);
    ck_assert_msg(status == hostile[_i].status && strstr(error.text, hostile[_i].says) &&
                      strstr(error.text, "file.gguf: ") && !strchr(error.text, '\n'),
                  "%s: %s, \"%s\"", hostile[_i].name, status_name(status), error.text);
    ck_assert_ptr_null(gguf);
    free(bytes);
    gguf_builder_fini(&builder);
}
END_TEST

START_TEST(m01_every_cut_of_a_good_file_is_refused) {
    struct gguf_builder builder;
    struct error error;
    gguf_builder_init(&builder);
    gguf_builder_llama(&builder);
    gguf_builder_tensor(&builder, "token_embd.weight", 261, 32);
    gguf_builder_finish(&builder, 0);
    for (size_t n = 0; n < builder.bytes.n; n += n < 12000 ? 1 : 997) {
        struct gguf *gguf = NULL;
        char *bytes = malloc(n + 1);
        memcpy(bytes, builder.bytes.data, n);
        ck_assert_int_ne(gguf_parse(bytes, n, "cut", &gguf, &error), STATUS_OK);
        free(bytes);
    }
    gguf_builder_fini(&builder);
}
END_TEST

START_TEST(good_file_gives_its_values_and_tensors) {
    struct gguf_builder builder;
    struct gguf *gguf;
    struct error error;
    static const char *const words[] = {"one", "", "three"};
    static const int32_t numbers[] = {7, -1};
    uint64_t dims[] = {64, 2};
    gguf_builder_init(&builder);
    gguf_builder_u32(&builder, "n", 42);
    gguf_builder_f32(&builder, "x", 0.5f);
    gguf_builder_bool(&builder, "yes", 1);
    gguf_builder_string(&builder, "text", "hello");
    gguf_builder_strings(&builder, "words", words, 3);
    gguf_builder_i32s(&builder, "numbers", numbers, 2);
    gguf_builder_tensor_raw(&builder, "q", 2, dims, 3, 128);
    gguf_builder_tensor_raw(&builder, "v", 1, dims_32, 0, 0);
    gguf_builder_finish(&builder, 128 + 80);
    ck_assert_int_eq(gguf_parse(builder.bytes.data, builder.bytes.n, "good", &gguf, &error),
                     STATUS_OK);

    uint32_t n;
    double x;
    bool yes;
    struct span text;
    struct gguf_array array;
    ck_assert_int_eq(gguf_u32(gguf, "n", &n, &error), STATUS_OK);
    ck_assert_uint_eq(n, 42);
    ck_assert_int_eq(gguf_f64(gguf, "x", &x, &error), STATUS_OK);
    ck_assert(x == 0.5);
    ck_assert_int_eq(gguf_bool(gguf, "yes", &yes, &error), STATUS_OK);
    ck_assert(yes);
    ck_assert_int_eq(gguf_string(gguf, "text", &text, &error), STATUS_OK);
    ck_assert(span_is(text, "hello"));
    ck_assert_int_eq(gguf_array_of(gguf, "words", GGUF_STRING, &array, &error), STATUS_OK);
    for (size_t i = 0; i < 3; i++) {
        ck_assert(gguf_array_next_text(&array, &text));
        ck_assert(span_is(text, words[i]));
    }
    ck_assert(!gguf_array_next_text(&array, &text));
    ck_assert_int_eq(gguf_array_of(gguf, "numbers", GGUF_I32, &array, &error), STATUS_OK);
    ck_assert_uint_eq(gguf_array_u32(&array, 1), UINT32_MAX);

    const struct tensor *tensor = gguf_tensor(gguf, "q");
    ck_assert_ptr_nonnull(tensor);
    ck_assert_str_eq(tensor->format, "q4_1");
    ck_assert_uint_eq(tensor->n_dims, 2);
    ck_assert_uint_eq(tensor->shape[0], 2);
    ck_assert_uint_eq(tensor->shape[1], 64);
    ck_assert_uint_eq(tensor->n_bytes, 80);
    ck_assert_ptr_eq(tensor->data, builder.bytes.data + gguf->data_offset + 128);
    ck_assert_ptr_null(gguf_tensor(gguf, "w"));
    gguf_close(gguf);
    gguf_builder_fini(&builder);
}
END_TEST

START_TEST(getter_names_the_key_and_what_is_wrong) {
    struct gguf_builder builder;
    struct gguf *gguf;
    struct error error;
    uint32_t n = 5;
    gguf_builder_init(&builder);
    gguf_builder_string(&builder, "text", "hello");
    gguf_builder_key(&builder, "negative", GGUF_I32);
    gguf_builder_u32_raw(&builder, UINT32_MAX);
    gguf_builder_key(&builder, "wide", GGUF_U64);
    gguf_builder_u64_raw(&builder, 1ull << 32);
    gguf_builder_finish(&builder, 0);
    ck_assert_int_eq(gguf_parse(builder.bytes.data, builder.bytes.n, "f", &gguf, &error),
                     STATUS_OK);
    ck_assert_int_eq(gguf_u32(gguf, "absent", &n, &error), STATUS_OK);
    ck_assert_int_eq(gguf_need(gguf, "absent", &error), STATUS_NOT_FOUND);
    ck_assert_str_eq(error.text, "f: key absent is missing");
    ck_assert_str_eq(error.field, "absent");
    ck_assert_int_eq(gguf_u32(gguf, "text", &n, &error), STATUS_CORRUPT);
    ck_assert_ptr_nonnull(strstr(error.text, "key text is of type string"));
    ck_assert_int_eq(gguf_u32(gguf, "negative", &n, &error), STATUS_CORRUPT);
    ck_assert_int_eq(gguf_u32(gguf, "wide", &n, &error), STATUS_CORRUPT);
    ck_assert_uint_eq(n, 5);
    gguf_close(gguf);
    gguf_builder_fini(&builder);
}
END_TEST

START_TEST(m05_what_is_no_regular_file_is_refused) {
    struct gguf *gguf = NULL;
    struct error error;
    char folder[] = "/tmp/tandem-gguf-XXXXXX";
    char path[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/fifo", folder);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(gguf_open(path, &gguf, &error), STATUS_IO);
    ck_assert_ptr_nonnull(strstr(error.text, "no regular file"));
    unlink(path);
    ck_assert_int_eq(gguf_open(path, &gguf, &error), STATUS_NOT_FOUND);
    ck_assert_int_eq(gguf_open(folder, &gguf, &error), STATUS_IO);
    ck_assert_int_eq(gguf_open("/dev/zero", &gguf, &error), STATUS_IO);
    FILE *empty = fopen(path, "wb");
    ck_assert_ptr_nonnull(empty);
    fclose(empty);
    ck_assert_int_eq(gguf_open(path, &gguf, &error), STATUS_CORRUPT);
    unlink(path);
    rmdir(folder);
}
END_TEST

/* A header of 192 MiB: 25 million empty strings, then a key that is cut. */
START_TEST(m01_huge_header_is_walked_in_little_memory) {
    struct gguf_builder builder;
    struct gguf *gguf = NULL;
    struct error error;
    struct rusage before;
    struct rusage after;
    char path[] = "/tmp/tandem-gguf-XXXXXX";
    const uint64_t n_strings = 25u << 20;
    gguf_builder_init(&builder);
    gguf_builder_key(&builder, "words", GGUF_ARRAY);
    gguf_builder_u32_raw(&builder, GGUF_STRING);
    gguf_builder_u64_raw(&builder, n_strings);
    builder.n_values = 2;
    memcpy(builder.bytes.data + 16, &builder.n_values, sizeof builder.n_values);
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, builder.bytes.data, builder.bytes.n), (ssize_t)builder.bytes.n);
    ck_assert_int_eq(ftruncate(fd, (off_t)(builder.bytes.n + n_strings * 8)), 0);
    close(fd);
    getrusage(RUSAGE_SELF, &before);
    enum status status = gguf_open(path, &gguf, &error);
    getrusage(RUSAGE_SELF, &after);
    unlink(path);
    ck_assert_int_eq(status, STATUS_CORRUPT);
    ck_assert_int_le(after.ru_maxrss - before.ru_maxrss, 16 << 10); /* KiB */
    gguf_builder_fini(&builder);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, m01_hostile_file_is_refused_with_offset_and_reason, 0,
                        (int)(sizeof hostile / sizeof *hostile));
    tcase_add_test(tests, m01_every_cut_of_a_good_file_is_refused);
    tcase_add_test(tests, good_file_gives_its_values_and_tensors);
    tcase_add_test(tests, getter_names_the_key_and_what_is_wrong);
    tcase_add_test(tests, m05_what_is_no_regular_file_is_refused);
    tcase_add_test(tests, m01_huge_header_is_walked_in_little_memory);
}
