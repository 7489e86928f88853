/* The wire stays as it is: bytes that earlier versions wrote are written again. */
#include "proto/codec.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

const char *const suite_name = "codec_wire";
const double suite_timeout_s = 60;

static struct codec codec;
static struct codec other;

static void setup(void) {
    ck_assert_int_eq(codec_init(&codec), STATUS_OK);
    ck_assert_int_eq(codec_init(&other), STATUS_OK);
}

static void teardown(void) {
    codec_fini(&codec);
    codec_fini(&other);
}

/* The corpus of fuzz_wire has a message of each type: the raw frame's length, head, raw frame. */
START_TEST(every_type_in_the_corpus_is_written_as_it_was) {
    static uint8_t bytes[1 << 16];
    char path[128];
    uint32_t n_raw;
    snprintf(path, sizeof path, "tests/fuzz/corpus/wire/%s", message_name((enum message_type)_i));
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file, "%s cannot be read", path);
    ck_assert_uint_eq(fread(&n_raw, sizeof n_raw, 1, file), 1);
    size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    ck_assert_uint_le(n_raw, n);
    struct frames frames = {.head = bytes,
                            .n_head = n - n_raw,
                            .raw = n_raw > 0 ? bytes + n - n_raw : NULL,
                            .n_raw = n_raw};
    struct message message;
    struct frames again;
    struct error error = {0};
    ck_assert_int_eq(codec_decode(&other, &frames, &message, &error), STATUS_OK);
    ck_assert_int_eq(codec_encode(&codec, &message, &again), STATUS_OK);
    ck_assert_uint_eq(again.n_head, frames.n_head);
    ck_assert_mem_eq(again.head, frames.head, frames.n_head);
    ck_assert_uint_eq(again.n_raw, frames.n_raw);
    if (n_raw > 0)
        ck_assert_mem_eq(again.raw, frames.raw, n_raw);
}
END_TEST

/* The message's frames in hexadecimal digits, with a bar before the raw frame. */
static void written(const struct message *message, const char *wanted) {
    static char digits[4096];
    struct frames frames;
    ck_assert_int_eq(codec_encode(&codec, message, &frames), STATUS_OK);
    ck_assert_uint_lt(2 * (frames.n_head + frames.n_raw) + 1, sizeof digits);
    char *at = digits;
    for (size_t i = 0; i < frames.n_head; i++)
        at += sprintf(at, "%02x", ((const uint8_t *)frames.head)[i]);
    if (frames.raw)
        *at++ = '|';
    for (size_t i = 0; i < frames.n_raw; i++)
        at += sprintf(at, "%02x", ((const uint8_t *)frames.raw)[i]);
    *at = '\0';
    ck_assert_str_eq(digits, wanted);
}

START_TEST(a_step_is_written_as_it_was) {
    static const uint32_t tokens[] = {70000, 3};
    static const struct token_logprobs logprobs[] = {
        {.logprob = -0.5f, .n_top = 2, .top_ids = {70000, 9}, .top_logprobs = {-0.5f, -1.25f}},
        {.logprob = -2.0f},
    };
    struct step_entry entries[] = {{.req = {0x1122334455667788, 300},
                                    .attempt = 2,
                                    .first_index = 41,
                                    .n_tokens = 2,
                                    .tokens = tokens,
                                    .logprobs = logprobs,
                                    .finish = FINISH_LENGTH,
                                    .cached_tokens = 16},
                                   {.req = {1, 2}}};
    struct message message = {.type = MESSAGE_STEP, .session = 0xabcdef, .seq = 77};
    message.u.step.n = 2;
    message.u.step.entries = entries;
    message.u.step.load = (struct load){1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,        12,
                                        13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 1ull << 40};
    written(&message,
            "5444010c00001800efcdab00000000004d000000000000000a3a09887766554433221110ac021802"
            "20292a04f0a20403321e0a08000000bf000000c0120202001a04f0a204092208000000bf0000a0bf"
            "380240100a0b0901000000000000001002123b080110021803200428053006380740084809500a58"
            "0b600c680d700e780f800110880111900112980113a00114a80115b00116b801808080808020");
}
END_TEST

START_TEST(a_submit_is_written_as_it_was) {
    static const uint32_t ids[] = {5, 6, 700};
    static const float bias[] = {-1.0f, 100.0f};
    struct message message = {.type = MESSAGE_SUBMIT, .session = 3, .seq = 4};
    message.u.submit = (struct submit){.req = {0x99, 1},
                                       .attempt = 1,
                                       .phase = PHASE_DECODE,
                                       .n_prompt = 2,
                                       .n_tokens = 3,
                                       .tokens = ids,
                                       .salt = 0x55,
                                       .priority = 6,
                                       .budget_ms = 30000,
                                       .tenant = 0x1234567,
                                       .has_xfer = true,
                                       .xfer = {.transfer_id = 0x77,
                                                .gen = 8,
                                                .cached_tokens = 32,
                                                .peer = "prefill-0",
                                                .peer_incarnation = 0x88},
                                       .sampling = {.temperature = 0.5f,
                                                    .top_p = 0.25f,
                                                    .min_p = 0.125f,
                                                    .top_k = 40,
                                                    .presence = 1.5f,
                                                    .frequency = -1.5f,
                                                    .repetition = 1.25f,
                                                    .seed = 0x1234,
                                                    .choice = 1,
                                                    .max_new = 128,
                                                    .min_new = 2,
                                                    .ignore_eos = true,
                                                    .want_logprobs = true,
                                                    .n_top = 20,
                                                    .n_stop_ids = 1,
                                                    .stop_ids = ids,
                                                    .n_bias = 2,
                                                    .bias_ids = ids,
                                                    .bias = bias,
                                                    .n_allowed = 3,
                                                    .allowed_ids = ids,
                                                    .n_grammar = 3,
                                                    .grammar = (const uint8_t *)"abc"}};
    written(&message,
            "5444010b010018000300000000000000040000000000000009990000000000000010011801200128"
            "023003395500000000000000400648b0ea0152210977000000000000001008182022097072656669"
            "6c6c2d302988000000000000005a560d0000003f150000803e1d0000003e20282d0000c03f350000"
            "c0bf3d0000a03f413412000000000000480150800158026001680170147a010582010205068a0108"
            "000080bf0000c8429201040506bc059a0103616263616745230100000000|0500000006000000bc02"
            "0000");
}
END_TEST

START_TEST(a_welcome_is_written_as_it_was) {
    struct message message = {.type = MESSAGE_WELCOME, .session = 1, .seq = 2};
    message.u.welcome =
        (struct welcome){.major = 1,
                         .minor = 2,
                         .name = "decode-1",
                         .incarnation = 0x0102030405060708,
                         .role = ROLE_DECODE,
                         .state = WORKER_DRAINING,
                         .pid = 4242,
                         .host = 0xfeed,
                         .model = "llama",
                         .backend = "cpu",
                         .model_fp = {1, [FINGERPRINT_BYTES - 1] = 2},
                         .tokenizer_fp = {3},
                         .numerics_fp = {4},
                         .kv = {.n_layers = 32, .block_tokens = 16, .block_bytes = 65536, .tp = 2},
                         .context = 8192,
                         .max_seqs = 64,
                         .chunk_tokens = 512,
                         .kv_endpoint = "tcp://10.0.0.1:7000",
                         .load = {.blocks_total = 100, .blocks_free = 99},
                         .sums = "nccl"};
    written(&message,
            "544401030000180001000000000000000200000000000000080110021a086465636f64652d312108"
            "070605040302012802300138922141edfe0000000000004a056c6c616d6152036370755a20010000"
            "00000000000000000000000000000000000000000000000000000000026220030000000000000000"
            "00000000000000000000000000000000000000000000006a20040000000000000000000000000000"
            "000000000000000000000000000000000070207810800180800488010290018040980140a0018004"
            "aa01137463703a2f2f31302e302e302e313a37303030b2010420642863ba01046e63636c");
}
END_TEST

START_TEST(a_commit_is_written_as_it_was) {
    struct message message = {.type = MESSAGE_COMMIT};
    message.u.commit = (struct commit){
        .transfer_id = 0x66,
        .gen = 1,
        .req = {2, 3},
        .attempt = 4,
        .n_tokens = 5,
        .n_chunks = 6,
        .first_index = 7,
        .first_token = 8,
        .finish = FINISH_STOP,
        .has_logprobs = true,
        .logprobs = {.logprob = -1.0f, .n_top = 1, .top_ids = {8}, .top_logprobs = {-1.0f}},
        .cached_tokens = 9};
    written(&message,
            "54440118000018000000000000000000000000000000000009660000000000000010011902000000"
            "0000000020032804300538064007480850015a120a04000080bf1201011a01082204000080bf6009");
}
END_TEST

START_TEST(a_reset_is_written_as_it_was) {
    struct message message = {.type = MESSAGE_RESET, .session = 5, .seq = 6};
    message.u.reset = (struct reset){.reason = REASON_MISMATCH,
                                     .refusal = REFUSAL_NAME,
                                     .incarnation = 0x42,
                                     .endpoint = "ipc:///run/a"};
    written(&message,
            "544401120000180005000000000000000600000000000000080a1007194200000000000000220c69"
            "70633a2f2f2f72756e2f61");
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, every_type_in_the_corpus_is_written_as_it_was, MESSAGE_NONE + 1,
                        MESSAGE_TYPES);
    tcase_add_test(tests, a_step_is_written_as_it_was);
    tcase_add_test(tests, a_submit_is_written_as_it_was);
    tcase_add_test(tests, a_welcome_is_written_as_it_was);
    tcase_add_test(tests, a_commit_is_written_as_it_was);
    tcase_add_test(tests, a_reset_is_written_as_it_was);
}
