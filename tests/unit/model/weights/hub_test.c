/* What a model's path stands for: files, folders, a hub's cache. */
#include "tests/support/suite.h"

#include "model/model.h"
#include "model/weights/hub.h"
#include "tests/support/gguf_builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const suite_name = "model_hub";
const double suite_timeout_s = 60;

#define MODEL "models--acme--tiny-1.0--chat"

/* A folder that goes with the test; a test may leave anything there. */
static char root[] = "/tmp/tandem-hub-XXXXXX";

static const char *at(const char *below) {
    static char paths[8][PATH_MAX];
    static unsigned n;
    char *path = paths[n++ % 8];
    snprintf(path, PATH_MAX, "%s%s%s", root, *below ? "/" : "", below);
    return path;
}

static void put(const char *below, const char *text, size_t n) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", at(below));
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, n, file), n);
    ck_assert_int_eq(fclose(file), 0);
}

static void touch(const char *below) {
    put(below, "", 0);
}

static void set_up(void) {
    memcpy(root + strlen(root) - 6, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(root));
    setenv("HF_HUB_CACHE", root, 1);
    unsetenv("HUGGINGFACE_HUB_CACHE");
    unsetenv("HF_HOME");
    unsetenv("XDG_CACHE_HOME");
}

static void tear_down(void) {
    char command[PATH_MAX];
    snprintf(command, sizeof command, "rm -rf %s", root);
    ck_assert_int_eq(system(command), 0);
}

static void finds(const char *path, const char *wanted, const char *name) {
    struct hub_found found;
    struct error error;
    enum status status = hub_find(path, false, &found, &error);
    ck_assert_msg(status == STATUS_OK, "%s: %s", path, error.text);
    ck_assert_str_eq(found.path, wanted);
    ck_assert_str_eq(found.name, name);
}

static void refuses(const char *path, enum status wanted, const char *words) {
    struct hub_found found;
    struct error error;
    ck_assert_int_eq(hub_find(path, false, &found, &error), wanted);
    ck_assert_msg(strstr(error.text, words) != NULL, "%s", error.text);
}

START_TEST(what_is_no_cache_stands_for_itself) {
    touch("model/config.json");
    touch("model/model.safetensors");
    touch("model/extra.gguf");
    touch("empty/notes.txt");
    finds(at("model"), at("model"), "");
    finds(at("model/config.json"), at("model/config.json"), "");
    finds(at("empty"), at("empty"), "");
    finds(at("not/there.gguf"), at("not/there.gguf"), "");
    finds("there-is-none.gguf", "there-is-none.gguf", "");
    finds("", "", "");
}
END_TEST

START_TEST(a_cache_folder_stands_for_the_snapshot_of_main) {
    put(MODEL "/refs/main", "c0ffee\n", 7);
    touch(MODEL "/blobs/1");
    touch(MODEL "/snapshots/beef/config.json");
    touch(MODEL "/snapshots/beef/model.safetensors");
    touch(MODEL "/snapshots/c0ffee/model.safetensors");
    ck_assert_int_eq(symlink("../../blobs/1", at(MODEL "/snapshots/c0ffee/config.json")), 0);
    const char *snapshot = at(MODEL "/snapshots/c0ffee");
    finds(at(MODEL), snapshot, "acme/tiny-1.0--chat");
    finds(at(MODEL "/"), at(MODEL "//snapshots/c0ffee"), "acme/tiny-1.0--chat");
    finds("acme/tiny-1.0--chat", snapshot, "acme/tiny-1.0--chat");
    finds(snapshot, snapshot, "acme/tiny-1.0--chat");
    finds(at(MODEL "/snapshots/beef"), at(MODEL "/snapshots/beef"), "acme/tiny-1.0--chat");
}
END_TEST

START_TEST(without_a_main_the_only_snapshot_will_do) {
    touch(MODEL "/snapshots/one/config.json");
    finds("acme/tiny-1.0--chat", at(MODEL "/snapshots/one"), "acme/tiny-1.0--chat");
    touch(MODEL "/snapshots/two/config.json");
    refuses("acme/tiny-1.0--chat", STATUS_INVALID, "(one, two)");
    refuses(at(MODEL), STATUS_INVALID, "no refs/main, and 2 snapshots");
}
END_TEST

START_TEST(a_main_that_leads_nowhere_is_refused) {
    touch(MODEL "/snapshots/one/config.json");
    put(MODEL "/refs/main", "two", 3);
    refuses(at(MODEL), STATUS_NOT_FOUND, "names the snapshot two, which does not exist (one)");
    static const char *const wrong[] = {"", "../one", "one two", "/tmp", "a/b", "."};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        put(MODEL "/refs/main", wrong[i], strlen(wrong[i]));
        refuses(at(MODEL), STATUS_INVALID, "refs/main: does not hold the name of a commit");
    }
    char big[1000];
    memset(big, 'a', sizeof big);
    put(MODEL "/refs/main", big, sizeof big);
    refuses(at(MODEL), STATUS_LIMIT, "refs/main");
    ck_assert_int_eq(mkdir(at("models--a--b"), 0700), 0);
    ck_assert_int_eq(mkdir(at("models--a--b/snapshots"), 0700), 0);
    refuses("a/b", STATUS_NOT_FOUND, "holds no snapshot");
}
END_TEST

START_TEST(a_folder_of_one_gguf_file_stands_for_it) {
    struct hub_found found;
    struct error error;
    touch("q/config.json");
    touch("q/.hidden.gguf");
    touch("q/b.gguf");
    finds(at("q"), at("q/b.gguf"), "");
    ck_assert_int_eq(hub_find(at("q"), true, &found, &error), STATUS_OK); /* a dummy's */
    ck_assert_str_eq(found.path, at("q"));
    touch("q/a.gguf");
    refuses(at("q"), STATUS_INVALID,
            "holds 2 models in .gguf files: name one of them (a.gguf, b.gguf)");
    for (unsigned i = 0; i < 9; i++) {
        char name[16];
        snprintf(name, sizeof name, "q/c%u.gguf", i);
        touch(name);
    }
    refuses(at("q"), STATUS_INVALID, "c5.gguf and 3 more)");
    touch("q/model.safetensors");
    finds(at("q"), at("q"), "");
}
END_TEST

START_TEST(a_folder_of_one_set_of_parts_stands_for_it) {
    char path[128];
    touch("parts/x-00002-of-00003.gguf");
    finds(at("parts"), at("parts/x-00002-of-00003.gguf"), "");
    touch("parts/x-00003-of-00003.gguf");
    touch("parts/x-00001-of-00003.gguf");
    finds(at("parts"), at("parts/x-00001-of-00003.gguf"), "");
    touch("parts/y-00001-of-00003.gguf");
    touch("parts/y-00002-of-00003.gguf");
    refuses(at("parts"), STATUS_INVALID,
            "holds 2 models in .gguf files: name one of them (x-00001-of-00003.gguf, "
            "y-00001-of-00003.gguf)");
    touch("sets/x-00001-of-00002.gguf");
    touch("sets/x-00001-of-00003.gguf");
    refuses(at("sets"), STATUS_INVALID, "holds 2 models in .gguf files: name one of them");
    touch("both/x-00001-of-00002.gguf");
    touch("both/x.gguf");
    refuses(at("both"), STATUS_INVALID, "holds 2 models in .gguf files: name one of them");
    for (unsigned i = 256; i > 0; i--) {
        snprintf(path, sizeof path, MODEL "/snapshots/one/x-%05u-of-00256.gguf", i);
        touch(path);
    }
    finds("acme/tiny-1.0--chat", at(MODEL "/snapshots/one/x-00001-of-00256.gguf"),
          "acme/tiny-1.0--chat");
}
END_TEST

START_TEST(an_id_is_two_names_and_a_slash) {
    static const char *const ids[] = {"a/b", "Qwen/Qwen2.5-0.5B_x"};
    static const char *const others[] = {"",     "a",    "a/",    "/a",    "a/b/c",  "./a",
                                         "../a", "a/.b", "a b/c", "a/b\n", "a/b.c/", "~/a"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        ck_assert_msg(hub_is_id(ids[i]), "%s", ids[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        ck_assert_msg(!hub_is_id(others[i]), "%s", others[i]);
}
END_TEST

START_TEST(the_cache_is_where_the_hub_says) {
    touch("hub/models--a--b/snapshots/s/config.json");
    touch("huggingface/hub/models--a--b/snapshots/s/config.json");
    touch(".cache/huggingface/hub/models--a--b/snapshots/s/config.json");
    refuses("a/b", STATUS_NOT_FOUND,
            "a/b: no such file or folder, nor models--a--b in the hub's cache");
    unsetenv("HF_HUB_CACHE");
    setenv("HOME", root, 1);
    finds("a/b", at(".cache/huggingface/hub/models--a--b/snapshots/s"), "a/b");
    setenv("XDG_CACHE_HOME", root, 1);
    finds("a/b", at("huggingface/hub/models--a--b/snapshots/s"), "a/b");
    setenv("HF_HOME", root, 1);
    finds("a/b", at("hub/models--a--b/snapshots/s"), "a/b");
    setenv("HF_HUB_CACHE", at("nowhere"), 1);
    refuses("a/b", STATUS_NOT_FOUND, "nowhere");
    /* What is there goes before what the cache has. */
    touch("a/b/config.json");
    ck_assert_int_eq(chdir(root), 0);
    finds("a/b", "a/b", "");
}
END_TEST

START_TEST(a_model_of_the_cache_has_its_id_for_a_name) {
    struct gguf_builder builder;
    struct model *model;
    struct error error;
    gguf_builder_init(&builder);
    gguf_builder_llama(&builder);
    gguf_builder_tensor(&builder, "token_embd.weight", 261, 32);
    gguf_builder_tensor(&builder, "output_norm.weight", 0, 32);
    gguf_builder_finish(&builder, 0);
    put(MODEL "/snapshots/one/tiny.Q4.gguf", builder.bytes.data, builder.bytes.n);
    gguf_builder_fini(&builder);
    enum status status = model_open("acme/tiny-1.0--chat", NULL, &model, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    ck_assert_str_eq(model->config.name, "acme/tiny-1.0--chat");
    model_close(model);
    ck_assert_int_eq(model_open(at(MODEL "/snapshots/one/tiny.Q4.gguf"), NULL, &model, &error),
                     STATUS_OK);
    ck_assert_str_eq(model->config.name, "tiny.Q4");
    model_close(model);
    ck_assert_int_eq(model_open("acme/other", NULL, &model, &error), STATUS_NOT_FOUND);
}
END_TEST

START_TEST(a_tokenizer_is_found_where_its_model_is) {
    struct gguf_builder builder;
    struct tokenizer *tokenizer;
    struct error error;
    gguf_builder_init(&builder);
    gguf_builder_llama(&builder);
    gguf_builder_finish(&builder, 0);
    put(MODEL "/snapshots/one/tiny.gguf", builder.bytes.data, builder.bytes.n);
    gguf_builder_fini(&builder);
    const char *paths[] = {"acme/tiny-1.0--chat", at(MODEL), at(MODEL "/snapshots/one/tiny.gguf"),
                           "hash"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        enum status status = model_open_tokenizer(paths[i], &tokenizer, &error);
        ck_assert_msg(status == STATUS_OK, "%s: %s", paths[i], error.text);
        ck_assert_uint_eq(tokenizer_n_tokens(tokenizer), i == 3 ? 65536 : 261);
        tokenizer_close(tokenizer);
    }
    ck_assert_int_eq(model_open_tokenizer("acme/other", &tokenizer, &error), STATUS_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "models--acme--other"));
    /* A folder's own tokenizer goes before a file beside it that is none. */
    touch("own/tokenizer.json");
    touch("own/x.gguf");
    ck_assert_int_ne(model_open_tokenizer(at("own"), &tokenizer, &error), STATUS_OK);
    ck_assert_ptr_nonnull(strstr(error.text, "own/tokenizer.json"));
    touch("none/notes");
    ck_assert_int_eq(model_open_tokenizer(at("none"), &tokenizer, &error), STATUS_NOT_FOUND);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, what_is_no_cache_stands_for_itself);
    tcase_add_test(tests, a_cache_folder_stands_for_the_snapshot_of_main);
    tcase_add_test(tests, without_a_main_the_only_snapshot_will_do);
    tcase_add_test(tests, a_main_that_leads_nowhere_is_refused);
    tcase_add_test(tests, a_folder_of_one_gguf_file_stands_for_it);
    tcase_add_test(tests, a_folder_of_one_set_of_parts_stands_for_it);
    tcase_add_test(tests, an_id_is_two_names_and_a_slash);
    tcase_add_test(tests, the_cache_is_where_the_hub_says);
    tcase_add_test(tests, a_model_of_the_cache_has_its_id_for_a_name);
    tcase_add_test(tests, a_tokenizer_is_found_where_its_model_is);
}
