/* Models that cannot be loaded are refused in one line; what a model takes is known beforehand. */
#include "base/buf.h"
#include "model/model.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_gguf.h"
#include "worker/config.h"
#include "worker/core/engine.h"
#include "worker/memory.h"
#include "worker/step/batch.h"
#include "worker/step/forward.h"
#include "worker/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const suite_name = "worker load";
const double suite_timeout_s = 120;

static enum status try_load(struct tiny_gguf tiny, const char *backend, struct error *error) {
    struct model *model = tiny_gguf_open(&tiny);
    struct forward forward;
    struct rank_options options = {.model = model,
                                   .backend = backend,
                                   .n_threads = 1,
                                   .max_tokens = 16,
                                   .max_seqs = 2,
                                   .n_blocks = 8};
    enum status status = forward_open(&forward, &options, error);
    forward_close(&forward); /* also fine after a failure */
    model_close(model);
    return status;
}

START_TEST(a_missing_or_misshapen_tensor_is_refused_by_its_name) {
    static const char *const names[] = {"output_norm.weight",    "blk.0.attn_norm.weight",
                                        "blk.0.attn_q.weight",   "blk.1.attn_k.weight",
                                        "blk.1.attn_v.weight",   "blk.0.attn_output.weight",
                                        "blk.1.ffn_norm.weight", "blk.0.ffn_gate.weight",
                                        "blk.1.ffn_up.weight",   "blk.1.ffn_down.weight"};
    struct error error;
    ck_assert_int_eq(try_load((struct tiny_gguf){.format = "q4_1", .seed = 1}, "ref", &error),
                     STATUS_OK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct tiny_gguf tiny = {.format = "q4_1", .seed = 1, .without = names[i]};
        ck_assert_int_eq(try_load(tiny, "ref", &error), STATUS_NOT_FOUND);
        ck_assert_msg(strstr(error.text, names[i]) != NULL, "%s", error.text);
        tiny.without = NULL;
        tiny.one_short = names[i];
        ck_assert_int_eq(try_load(tiny, "ref", &error), STATUS_CORRUPT);
        ck_assert_msg(strstr(error.text, names[i]) != NULL, "%s", error.text);
    }
}
END_TEST

/* While the ranks are opened somebody makes the file shorter: what lies behind its end cannot be read
 * any more, so it is noticed before the weights are packed. */
START_TEST(a_file_that_shrinks_after_it_was_opened_is_noticed_before_it_is_read) {
    struct model *model;
    struct forward forward;
    struct error error;
    struct buf file;
    char path[] = "/tmp/tandem-shrinks-XXXXXX";
    buf_init(&file, 0);
    tiny_gguf_write(&file, &(struct tiny_gguf){.format = "f16", .seed = 1});
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, file.data, file.n), (ssize_t)file.n);
    ck_assert_int_eq(model_open(path, NULL, &model, &error), STATUS_OK);
    ck_assert_int_eq(ftruncate(fd, (off_t)file.n - 1), 0);
    close(fd);
    struct rank_options options = {.model = model,
                                   .backend = "ref",
                                   .n_threads = 1,
                                   .max_tokens = 16,
                                   .max_seqs = 2,
                                   .n_blocks = 8};
    ck_assert_int_ne(forward_open(&forward, &options, &error), STATUS_OK);
    ck_assert_ptr_nonnull(strstr(error.text, path));
    forward_close(&forward);
    model_close(model);
    unlink(path);
    buf_fini(&file);
}
END_TEST

START_TEST(an_unknown_backend_is_refused_by_its_name) {
    struct error error;
    ck_assert_int_eq(try_load((struct tiny_gguf){.format = "f16"}, "abacus", &error),
                     STATUS_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "abacus"));
}
END_TEST

START_TEST(what_was_measured_is_what_is_taken) {
    static const char *const formats[] = {"f32", "f16", "bf16", "q4_0", "q4_1", "q8_0"};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        struct model *model = tiny_gguf_open(&(struct tiny_gguf){.format = formats[i]});
        struct rank_options options = {.model = model,
                                       .backend = "cpu",
                                       .n_threads = 1,
                                       .max_tokens = 48,
                                       .max_seqs = 3,
                                       .n_blocks = 8};
        struct forward_bytes bytes;
        struct forward forward;
        struct error error;
        ck_assert_int_eq(forward_measure(&options, &bytes, &error), STATUS_OK);
        ck_assert_int_eq(forward_open(&forward, &options, &error), STATUS_OK);
        ck_assert_uint_eq(forward.rank.weights.n_bytes, bytes.weights);
        ck_assert_uint_eq(forward.rank.scratch_bytes + forward.rank.logits_bytes, bytes.scratch);
        ck_assert_uint_eq(forward.rank.kv_bytes, 8 * KV_BLOCK_TOKENS * bytes.kv_per_token);
        forward_close(&forward);
        model_close(model);
    }
}
END_TEST

static enum status read_config(struct config *config, struct buf *errors, const char *first,
                               const char *second) {
    const char *argv[] = {"tandem-worker", first, second, NULL};
    return config_read(config, second ? 3 : 2, (char **)(uintptr_t)argv, errors);
}

START_TEST(every_mistake_in_the_options_is_said_at_once) {
    struct config config;
    struct buf errors;
    buf_init(&errors, 0);
    ck_assert_int_eq(read_config(&config, &errors, "--tp=17", "--context=x"), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(errors.data, "--tp: 17 is out of range (1..16)"));
    ck_assert_ptr_nonnull(strstr(errors.data, "--context: \"x\" is not a whole number"));
    config_fini(&config);
    buf_clear(&errors);
    ck_assert_int_eq(read_config(&config, &errors, "--context=1", "--model=hash"), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(errors.data, "--context: 1 token is too few"));
    ck_assert_ptr_nonnull(strstr(errors.data, "endpoint"));
    ck_assert_ptr_nonnull(strstr(errors.data, "routers"));
    config_fini(&config);
    buf_clear(&errors);
    ck_assert_int_eq(read_config(&config, &errors, "--dry-run", "--model=hash"), STATUS_OK);
    config_fini(&config);
    ck_assert_int_eq(read_config(&config, &errors, "--dry-run", NULL), STATUS_INVALID);
    config_fini(&config);
    buf_fini(&errors);
}
END_TEST

START_TEST(sizes_have_defaults_that_fit_and_take_what_is_asked_for) {
    struct config config;
    struct buf errors;
    struct error error;
    struct worker_sizes sizes;
    struct forward_bytes bytes;
    buf_init(&errors, 0);
    struct model *model = tiny_gguf_open(&(struct tiny_gguf){.format = "q8_0", .context = 100000});
    ck_assert_int_eq(read_config(&config, &errors, "--dry-run", "--model=x.gguf"), STATUS_OK);
    ck_assert_int_eq(memory_sizes(&config, model, &sizes, &bytes, &error), STATUS_OK);
    ck_assert_uint_le(sizes.n_blocks, 4096);
    ck_assert_uint_ge(sizes.n_blocks, 128);
    ck_assert_uint_gt(sizes.available_bytes, 0);
    ck_assert_uint_le((uint64_t)sizes.context, (uint64_t)sizes.n_blocks * KV_BLOCK_TOKENS);
    ck_assert_uint_ge(sizes.max_seqs, sizes.max_batch);
    ck_assert_uint_ge(sizes.chunk_bytes, bytes.facts.block_bytes);
    ck_assert_uint_eq(bytes.kv_per_token, 2u * 2 * 32 * 2); /* layers, k and v, dims, bytes */
    /* Rows by default: one for each 256 tokens of KV, 64 to 256, and their scratch with them. */
    const struct {
        uint32_t n_blocks, max_batch;
    } rows[] = {{1, 64},         {65 * 16 - 1, 64}, {65 * 16, 65}, {256 * 16 - 1, 255},
                {256 * 16, 256}, {9999, 256}};
    size_t scratch = 0;
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        config.kv_blocks = rows[i].n_blocks;
        ck_assert_int_eq(memory_sizes(&config, model, &sizes, &bytes, &error), STATUS_OK);
        ck_assert_uint_eq(sizes.max_batch, rows[i].max_batch);
        ck_assert_uint_eq(sizes.n_blocks, rows[i].n_blocks);
        ck_assert_uint_eq(sizes.max_seqs, 4 * rows[i].max_batch);
        ck_assert_uint_eq(sizes.chunk_tokens, 512);
        ck_assert_uint_ge(bytes.scratch, scratch);
        scratch = bytes.scratch;
    }
    size_t of_256 = scratch;
    config.max_batch = 64;
    ck_assert_int_eq(memory_sizes(&config, model, &sizes, &bytes, &error), STATUS_OK);
    ck_assert_uint_eq(sizes.max_batch, 64);
    ck_assert_uint_lt(bytes.scratch, of_256);
    config.max_batch = 600; /* a step holds all its rows */
    ck_assert_int_eq(memory_sizes(&config, model, &sizes, &bytes, &error), STATUS_OK);
    ck_assert_uint_eq(sizes.chunk_tokens, 600);
    config.kv_blocks = 10;
    config.max_batch = 7;
    config.chunk_tokens = 32;
    ck_assert_int_eq(memory_sizes(&config, model, &sizes, &bytes, &error), STATUS_OK);
    ck_assert_uint_eq(sizes.n_blocks, 10);
    ck_assert_uint_eq(sizes.max_batch, 7);
    ck_assert_uint_eq(sizes.chunk_tokens, 32);
    ck_assert_uint_eq(sizes.context, 160);
    config.device = "an abacus";
    ck_assert_int_eq(memory_print(&config, model, &error), STATUS_INVALID);
    model_close(model);
    config_fini(&config);
    buf_fini(&errors);
}
END_TEST

START_TEST(a_context_that_memory_cuts_is_said) {
    const struct {
        uint32_t kv_blocks, n_blocks, context;
        bool is_said;
    } rows[] = {{0, 128, 2048, true},  {0, 511, 8176, true},    {0, 512, 8192, false},
                {0, 513, 8192, false}, {128, 128, 2048, false}, {0, 4096, 8191, false}};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct config config = {
            .kernels = "cpu", .device = "", .tp = 1, .kv_blocks = rows[i].kv_blocks};
        struct worker_sizes sizes = {
            .n_blocks = rows[i].n_blocks, .context = rows[i].context, .available_bytes = 123456789};
        struct forward_bytes bytes = {.facts.context = 8192, .kv_per_token_here = 36864};
        char text[256] = "", expected[96];
        snprintf(expected, sizeof expected,
                 "context=%u model=8192 kv_bytes_per_token=36864 available_bytes=123456789",
                 rows[i].context);
        ck_assert_msg(memory_cuts(&config, &sizes, &bytes, text, sizeof text) == rows[i].is_said,
                      "row %u", i);
        ck_assert_msg((strcmp(text, expected) == 0) == rows[i].is_said, "row %u: %s", i, text);
    }
}
END_TEST

/* Weights and activations take 1,000 bytes of a rank, a token 10. */
START_TEST(a_plan_fits_by_the_blocks_that_are_asked_for) {
    const struct forward_bytes bytes = {
        .weights = 900, .scratch = 100, .kv_per_token = 10, .kv_per_token_here = 30};
    const struct {
        uint32_t kv_blocks, ranks_here;
        bool is_shared;
        uint64_t least;
    } rows[] = {{0, 0, false, 1000 + 20480},
                {1, 0, false, 1000 + 160},
                {127, 0, false, 1000 + 20320},
                {129, 0, false, 1000 + 20640},
                {1u << 26, 0, false, 1000 + 10737418240ull},
                {0, 0, true, 3000 + 61440},
                {129, 0, true, 3000 + 61920},
                {1, 2, true, 2000 + 480}};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct config config = {.kv_blocks = rows[i].kv_blocks,
                                .ranks_here = rows[i].ranks_here,
                                .tp = 3,
                                .memory_share = 1};
        bool is_shared = rows[i].is_shared;
        ck_assert_msg(memory_fits(&config, &bytes, rows[i].least, is_shared), "row %u", i);
        ck_assert_msg(!memory_fits(&config, &bytes, rows[i].least - 1, is_shared), "row %u", i);
        config.memory_share = 0.5;
        ck_assert_msg(memory_fits(&config, &bytes, 2 * rows[i].least, is_shared), "row %u", i);
        ck_assert_msg(!memory_fits(&config, &bytes, 2 * rows[i].least - 1, is_shared), "row %u", i);
    }
}
END_TEST

/* `far` has two devices with 256 MiB free on each, in builds that have it. */
START_TEST(a_device_gives_all_that_fits_and_says_when_nothing_does) {
    struct config config;
    struct buf errors;
    struct error error;
    struct worker_sizes sizes;
    struct forward_bytes bytes;
    struct model *model = tiny_gguf_open(&(struct tiny_gguf){.format = "q8_0", .wide = true});
    if (!kernels_find("far")) {
        model_close(model);
        return;
    }
    buf_init(&errors, 0);
    ck_assert_int_eq(read_config(&config, &errors, "--dry-run", "--model=x.gguf"), STATUS_OK);
    strcpy(config.kernels, "far");
    ck_assert_int_eq(memory_sizes(&config, model, &sizes, &bytes, &error), STATUS_OK);
    uint64_t taken = (uint64_t)sizes.n_blocks * KV_BLOCK_TOKENS * bytes.kv_per_token +
                     bytes.weights + bytes.scratch;
    uint64_t room = (256ull << 20) / 10 * 9;
    ck_assert_uint_le(taken, room);
    ck_assert_uint_gt(taken + 2 * KV_BLOCK_TOKENS * bytes.kv_per_token, room);
    config.memory_share = 0.5;
    uint32_t n_most = sizes.n_blocks;
    ck_assert_int_eq(memory_sizes(&config, model, &sizes, &bytes, &error), STATUS_OK);
    ck_assert_uint_lt(sizes.n_blocks, n_most / 3 * 2);
    config.memory_share = 1e-6;
    ck_assert_int_eq(memory_sizes(&config, model, &sizes, &bytes, &error), STATUS_NOMEM);
    ck_assert_ptr_nonnull(strstr(error.text, "leaves no room for 2048 tokens"));
    config.devices = 2;
    ck_assert_int_eq(memory_sizes(&config, model, &sizes, &bytes, &error), STATUS_NOT_FOUND);
    config.kv_blocks = 10;
    ck_assert_int_eq(memory_sizes(&config, model, &sizes, &bytes, &error), STATUS_OK);
    ck_assert_uint_eq(sizes.n_blocks, 10);
    config.kv_blocks = 0;
    config.devices = 1;
    config.tp = 2; /* devices 1 and 2 */
    ck_assert_int_eq(memory_sizes(&config, model, &sizes, &bytes, &error), STATUS_NOT_FOUND);
    config.devices = 0;
    ck_assert_int_eq(memory_sizes(&config, model, &sizes, &bytes, &error), STATUS_NOMEM);
    ck_assert_ptr_nonnull(strstr(error.text, "of each device from 0 on"));
    config.memory_share = 0.9;
    ck_assert_int_eq(memory_sizes(&config, model, &sizes, &bytes, &error), STATUS_OK);
    ck_assert_uint_gt(sizes.n_blocks, n_most); /* a rank has half of the heads */
    config.ranks_here = 1;                     /* its memory is not the host's to share */
    ck_assert_int_eq(memory_sizes(&config, model, &sizes, &bytes, &error), STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "with the backend \"far\""));
    model_close(model);
    config_fini(&config);
    buf_fini(&errors);
}
END_TEST

START_TEST(what_is_for_a_device_is_checked) {
    static const char *const shares[] = {"0", "1.01", "-0.5", "nan", "much", "0.5x", ""};
    struct config config;
    struct buf errors;
    buf_init(&errors, 0);
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        const char *argv[] = {"tandem-worker", "--dry-run", "--model=hash", "--gpu-memory",
                              shares[i]};
        buf_clear(&errors);
        ck_assert_int_eq(config_read(&config, 5, (char **)(uintptr_t)argv, &errors),
                         STATUS_INVALID);
        ck_assert_ptr_nonnull(strstr(errors.data, "--gpu-memory: must be above 0"));
        config_fini(&config);
    }
    const char *argv[] = {"tandem-worker", "--dry-run", "--model=hash", "--devices=1"};
    buf_clear(&errors);
    ck_assert_int_eq(config_read(&config, 4, (char **)(uintptr_t)argv, &errors), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(errors.data, "--devices: is for backends"));
    config_fini(&config);
    buf_fini(&errors);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_device_gives_all_that_fits_and_says_when_nothing_does);
    tcase_add_test(tests, what_is_for_a_device_is_checked);
    tcase_add_test(tests, a_missing_or_misshapen_tensor_is_refused_by_its_name);
    tcase_add_test(tests, a_file_that_shrinks_after_it_was_opened_is_noticed_before_it_is_read);
    tcase_add_test(tests, an_unknown_backend_is_refused_by_its_name);
    tcase_add_test(tests, what_was_measured_is_what_is_taken);
    tcase_add_test(tests, every_mistake_in_the_options_is_said_at_once);
    tcase_add_test(tests, a_context_that_memory_cuts_is_said);
    tcase_add_test(tests, a_plan_fits_by_the_blocks_that_are_asked_for);
    tcase_add_test(tests, sizes_have_defaults_that_fit_and_take_what_is_asked_for);
}
