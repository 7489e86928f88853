/* Row M02 of the catalogue of hostile input, and what good files and folders give. */
#include "tests/support/suite.h"

#include "model/weights/checkpoint/safetensors.h"
#include "tests/support/safetensors_builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const suite_name = "model_safetensors";
const double suite_timeout_s = 60;

START_TEST(good_file_gives_its_tensors) {
    static const float items[6] = {1, 2, 3, 4, 5, 6};
    struct safetensors_builder builder;
    struct safetensors *files;
    struct error error;
    safetensors_builder_init(&builder);
    safetensors_builder_add(&builder, "a", "F32", 4, 2, 3, items);
    safetensors_builder_add(&builder, "b", "BF16", 2, 0, 5, NULL);
    safetensors_builder_add(&builder, "none", "I64", 8, 0, 0, NULL);
    safetensors_builder_add(&builder, "c", "F8_E4M3", 1, 3, 1, NULL);
    safetensors_builder_finish(&builder, 1);
    enum status status = safetensors_parse(builder.file.data, builder.file.n, "f", &files, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    ck_assert_uint_eq(files->n_tensors, 4);
    const struct tensor *a = safetensors_find(files, "a");
    ck_assert_ptr_nonnull(a);
    ck_assert_str_eq(a->format, "f32");
    ck_assert_uint_eq(a->n_dims, 2);
    ck_assert_uint_eq(a->shape[0], 2);
    ck_assert_uint_eq(a->shape[1], 3);
    ck_assert_uint_eq(a->shape[2], 1);
    ck_assert_uint_eq(a->n_bytes, 24);
    ck_assert_mem_eq(a->data, items, sizeof items);
    ck_assert_str_eq(safetensors_find(files, "b")->format, "bf16");
    ck_assert_uint_eq(safetensors_find(files, "none")->n_bytes, 0);
    ck_assert_str_eq(safetensors_find(files, "c")->format, "f8_e4m3");
    ck_assert_ptr_null(safetensors_find(files, "d"));
    ck_assert_ptr_null(safetensors_find(files, "__metadata__"));
    safetensors_close(files);
    safetensors_builder_fini(&builder);
}
END_TEST

static const struct {
    const char *header;
    size_t n_data;
    enum status status;
    const char *says;
} hostile[] = {
    {"", 4, STATUS_CORRUPT, "does not start with {"},
    {"[1]", 4, STATUS_CORRUPT, "does not start with {"},
    {"{\"a\":", 4, STATUS_CORRUPT, "f: line 1"},
    {"{\"a\":[[[[[[1]]]]]]}", 4, STATUS_LIMIT, "nested deeper than 3"},
    {"{\"a\":1}", 4, STATUS_CORRUPT, "tensor a: its description is not an object"},
    {"{\"a\":{}}", 4, STATUS_CORRUPT, "tensor a: dtype is not text"},
    {"{\"a\":{\"dtype\":\"Q7\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, STATUS_UNSUPPORTED,
     "tensor a: dtype Q7 is not known"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, STATUS_CORRUPT,
     "tensor a: shape is not a list"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, STATUS_CORRUPT,
     "tensor a: shape holds no whole number"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1],\"data_offsets\":[0,4]}}", 4, STATUS_LIMIT,
     "tensor a: more than 4 dimensions"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4,4],\"data_offsets\":[0,4]}}", 4,
     STATUS_CORRUPT, "tensor a: the product of its shape overflows"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0,
     STATUS_CORRUPT, "tensor a: 0 bytes are not what its shape needs"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, STATUS_CORRUPT,
     "tensor a: 4 bytes are not what its shape needs in f32"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, STATUS_CORRUPT,
     "tensor a: data_offsets are not a pair"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, STATUS_CORRUPT,
     "tensor a: data_offsets are not a pair"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4, STATUS_CORRUPT,
     "tensor a: data_offsets reach past the file's end"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}",
     6, STATUS_CORRUPT, "tensors a and b overlap"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
     12, STATUS_CORRUPT, "a gap of 4 bytes before tensor b"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 8, STATUS_CORRUPT,
     "8 bytes of data, but its tensors end at 4"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
     8, STATUS_CORRUPT, "duplicate"},
    {"{\"\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, STATUS_LIMIT,
     "its name is empty or longer than 127"},
};

START_TEST(m02_hostile_header_is_refused_by_name) {
    struct safetensors_builder builder;
    struct safetensors *files;
    struct error error;
    safetensors_builder_init(&builder);
    safetensors_builder_raw(&builder, hostile[_i].header, hostile[_i].n_data);
    enum status status = safetensors_parse(builder.file.data, builder.file.n, "f", &files, &error);
    ck_assert_msg(status == hostile[_i].status && strstr(error.text, hostile[_i].says),
                  "%s: %s, \"%s\"", hostile[_i].header, status_name(status), error.text);
    safetensors_builder_fini(&builder);
}
END_TEST

START_TEST(m02_header_length_is_checked_before_use) {
    static const uint64_t lengths[] = {9, 1u << 30, UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 63};
    struct safetensors *files;
    struct error error;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char bytes[16] = "________{}      ";
        memcpy(bytes, &lengths[i], 8);
        ck_assert_int_eq(safetensors_parse(bytes, 16, "f", &files, &error), STATUS_CORRUPT);
        ck_assert_ptr_nonnull(strstr(error.text, "f: at byte 0: a header of"));
    }
    ck_assert_int_eq(safetensors_parse("short", 5, "f", &files, &error), STATUS_CORRUPT);
    ck_assert_ptr_nonnull(strstr(error.text, "5 bytes are not a safetensors file"));
}
END_TEST

START_TEST(every_cut_of_a_file_is_refused) {
    struct safetensors_builder builder;
    struct safetensors *files;
    struct error error;
    safetensors_builder_init(&builder);
    safetensors_builder_add(&builder, "a", "F32", 4, 2, 3, NULL);
    safetensors_builder_finish(&builder, 8);
    for (size_t n = 0; n < builder.file.n; n++) {
        char *copy = malloc(n + 1);
        memcpy(copy, builder.file.data, n);
        ck_assert_int_eq(safetensors_parse(copy, n, "f", &files, &error), STATUS_CORRUPT);
        free(copy);
    }
    safetensors_builder_fini(&builder);
}
END_TEST

/* A folder that is removed with what the tests put into it. */
struct folder {
    char path[64];
};

static const char *const file_names[] = {"model.safetensors",
                                         "model-00001-of-00002.safetensors",
                                         "model-00002-of-00002.safetensors",
                                         "model.safetensors.index.json",
                                         "pytorch_model.bin",
                                         "other.safetensors"};

static void folder_init(struct folder *folder) {
    strcpy(folder->path, "/tmp/tandem-folder-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder->path));
}

static void folder_fini(struct folder *folder) {
    for (size_t i = 0; i < sizeof file_names / sizeof *file_names; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", folder->path, file_names[i]);
        unlink(path);
    }
    ck_assert_int_eq(rmdir(folder->path), 0);
}

static void put_shard(const struct folder *folder, const char *file, const char *tensor) {
    struct safetensors_builder builder;
    safetensors_builder_init(&builder);
    safetensors_builder_add(&builder, tensor, "F16", 2, 2, 2, NULL);
    safetensors_builder_finish(&builder, 8);
    safetensors_builder_write(folder->path, file, builder.file.data, builder.file.n);
    safetensors_builder_fini(&builder);
}

static void put_text(const struct folder *folder, const char *file, const char *text) {
    safetensors_builder_write(folder->path, file, text, strlen(text));
}

static void open_fails(const struct folder *folder, enum status status, const char *says) {
    struct safetensors *files;
    struct error error;
    enum status got = safetensors_open(folder->path, &files, &error);
    ck_assert_msg(got == status && strstr(error.text, says) && !strchr(error.text, '\n'),
                  "%s, \"%s\"", status_name(got), error.text);
}

#define INDEX                                                                                      \
    "{\"metadata\":{},\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\","                 \
    "\"b\":\"model-00002-of-00002.safetensors\"}}"

START_TEST(shards_open_with_and_without_index) {
    struct folder folder;
    struct safetensors *files;
    struct error error;
    folder_init(&folder);
    put_shard(&folder, file_names[1], "a");
    put_shard(&folder, file_names[2], "b");
    for (int with_index = 0; with_index < 2; with_index++) {
        if (with_index)
            put_text(&folder, file_names[3], INDEX);
        ck_assert_int_eq(safetensors_open(folder.path, &files, &error), STATUS_OK);
        ck_assert_uint_eq(files->n_files, 2);
        ck_assert_ptr_nonnull(safetensors_find(files, "a"));
        ck_assert_ptr_nonnull(safetensors_find(files, "b"));
        ck_assert_int_eq(safetensors_check(files, &error), STATUS_OK);
        safetensors_drop_pages(files);
        safetensors_close(files);
    }
    folder_fini(&folder);
}
END_TEST

START_TEST(missing_shard_is_named) {
    struct folder folder;
    folder_init(&folder);
    put_shard(&folder, file_names[1], "a");
    open_fails(&folder, STATUS_NOT_FOUND, "model-00002-of-00002.safetensors is missing");
    put_text(&folder, file_names[3], INDEX);
    open_fails(&folder, STATUS_NOT_FOUND, "model-00002-of-00002.safetensors: cannot open it");
    folder_fini(&folder);
}
END_TEST

START_TEST(index_that_does_not_hold_is_refused) {
    struct folder folder;
    folder_init(&folder);
    put_shard(&folder, file_names[1], "a");
    put_shard(&folder, file_names[2], "c");
    put_text(&folder, file_names[3], INDEX);
    open_fails(&folder, STATUS_CORRUPT,
               "tensor b is not in model-00002-of-00002.safetensors, where the index has it");
    put_text(&folder, file_names[3], "{\"weight_map\":{\"a\":\"../x.safetensors\"}}");
    open_fails(&folder, STATUS_CORRUPT,
               "weight_map.a is not the name of a .safetensors file in its folder");
    put_text(&folder, file_names[3], "{\"weight_map\":{\"a\":7}}");
    open_fails(&folder, STATUS_CORRUPT, "weight_map.a is not the name");
    put_text(&folder, file_names[3], "{}");
    open_fails(&folder, STATUS_CORRUPT, "weight_map is not an object");
    put_text(&folder, file_names[3], "{\"weight_map\"");
    open_fails(&folder, STATUS_CORRUPT, "model.safetensors.index.json: line 1");
    folder_fini(&folder);
}
END_TEST

START_TEST(name_in_two_shards_is_refused_with_both) {
    struct folder folder;
    folder_init(&folder);
    put_shard(&folder, file_names[1], "a");
    put_shard(&folder, file_names[2], "a");
    open_fails(&folder, STATUS_CORRUPT, "model-00001-of-00002.safetensors too");
    folder_fini(&folder);
}
END_TEST

START_TEST(pickles_alone_are_refused_with_the_way_out) {
    struct folder folder;
    folder_init(&folder);
    open_fails(&folder, STATUS_NOT_FOUND, "no .safetensors file");
    put_text(&folder, file_names[4], "PK");
    open_fails(&folder, STATUS_UNSUPPORTED, "safe_serialization=True");
    put_shard(&folder, file_names[0], "a");
    struct safetensors *files;
    struct error error;
    ck_assert_int_eq(safetensors_open(folder.path, &files, &error), STATUS_OK);
    safetensors_close(files);
    folder_fini(&folder);
}
END_TEST

START_TEST(m05_shard_that_was_cut_is_named) {
    struct folder folder;
    struct safetensors *files;
    struct error error;
    char path[256];
    folder_init(&folder);
    put_shard(&folder, file_names[0], "a");
    ck_assert_int_eq(safetensors_open(folder.path, &files, &error), STATUS_OK);
    snprintf(path, sizeof path, "%s/%s", folder.path, file_names[0]);
    ck_assert_int_eq(truncate(path, 20), 0);
    ck_assert_int_eq(safetensors_check(files, &error), STATUS_IO);
    ck_assert_ptr_nonnull(strstr(error.text, path));
    safetensors_close(files);
    folder_fini(&folder);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, good_file_gives_its_tensors);
    tcase_add_loop_test(tests, m02_hostile_header_is_refused_by_name, 0,
                        sizeof hostile / sizeof *hostile);
    tcase_add_test(tests, m02_header_length_is_checked_before_use);
    tcase_add_test(tests, every_cut_of_a_file_is_refused);
    tcase_add_test(tests, shards_open_with_and_without_index);
    tcase_add_test(tests, missing_shard_is_named);
    tcase_add_test(tests, index_that_does_not_hold_is_refused);
    tcase_add_test(tests, name_in_two_shards_is_refused_with_both);
    tcase_add_test(tests, pickles_alone_are_refused_with_the_way_out);
    tcase_add_test(tests, m05_shard_that_was_cut_is_named);
}
