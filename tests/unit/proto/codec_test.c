#include "base/clock.h"
#include "proto/codec.h"
#include "tests/support/message_random.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "codec";
const double suite_timeout_s = 120;

#define TEST_ARENA_BYTES (64u << 20)

static struct codec codec;
static struct codec other;
static struct arena arena;
static struct error error;

static void setup(void) {
    ck_assert_int_eq(codec_init(&codec), STATUS_OK);
    ck_assert_int_eq(codec_init(&other), STATUS_OK);
    arena_init(&arena, TEST_ARENA_BYTES);
    error = (struct error){0};
}

static void teardown(void) {
    codec_fini(&codec);
    codec_fini(&other);
    arena_fini(&arena);
}

/* The head of a frame whose body is given, for bodies that the encoder would not write. */
static struct frames crafted(enum message_type type, const uint8_t *body, size_t n) {
    uint8_t *head = arena_alloc(&arena, CODEC_HEADER_BYTES + n);
    ck_assert_ptr_nonnull(head);
    struct message ping = {.type = MESSAGE_PING};
    struct frames frames;
    ck_assert_int_eq(codec_encode(&codec, &ping, &frames), STATUS_OK);
    memcpy(head, frames.head, CODEC_HEADER_BYTES);
    head[3] = (uint8_t)type;
    memcpy(head + CODEC_HEADER_BYTES, body, n);
    return (struct frames){.head = head, .n_head = CODEC_HEADER_BYTES + n};
}

static enum status decoded(const struct frames *frames) {
    struct message message;
    return codec_decode(&other, frames, &message, &error);
}

START_TEST(random_messages_of_every_type_come_back_equal) {
    struct random random = {.state = (uint64_t)_i * 1000};
    for (int type = MESSAGE_NONE + 1; type < MESSAGE_TYPES; type++)
        for (int round = 0; round < 40; round++) {
            struct message sent;
            struct message came;
            struct frames frames;
            arena_reset(&arena);
            message_random(&random, &arena, (enum message_type)type, &sent);
            ck_assert_int_eq(codec_encode(&codec, &sent, &frames), STATUS_OK);
            enum status status = codec_decode(&other, &frames, &came, &error);
            ck_assert_msg(status == STATUS_OK, "%s: %s", message_name(sent.type), error.text);
            ck_assert_msg(message_equal(&sent, &came), "%s differs", message_name(sent.type));
        }
}
END_TEST

START_TEST(frames_cut_anywhere_or_with_flipped_bits_never_crash) {
    struct random random = {.state = 7};
    for (int type = MESSAGE_NONE + 1; type < MESSAGE_TYPES; type++)
        for (int round = 0; round < 30; round++) {
            struct message sent;
            struct frames frames;
            arena_reset(&arena);
            message_random(&random, &arena, (enum message_type)type, &sent);
            ck_assert_int_eq(codec_encode(&codec, &sent, &frames), STATUS_OK);
            /* A heap copy of exactly the cut size lets the sanitizer see one byte too many. */
            size_t n = random_below(&random, frames.n_head + 1);
            uint8_t *head = malloc(n + 1);
            ck_assert_ptr_nonnull(head);
            memcpy(head, frames.head, n);
            struct frames cut = {head, n, frames.raw, frames.n_raw};
            (void)!decoded(&cut);
            for (size_t i = CODEC_HEADER_BYTES; i < n; i++)
                if (random_below(&random, 16) == 0)
                    head[i] ^= (uint8_t)(1u << random_below(&random, 8));
            (void)!decoded(&cut);
            free(head);
        }
}
END_TEST

/* A router of the last minor version says no more than that; a newer one knows more reasons. */
START_TEST(resets_of_older_and_newer_peers_are_read) {
    static const uint8_t older[] = {0x08, REASON_MISMATCH};
    static const uint8_t newer[] = {0x08, REASON_MISMATCH, 0x10, REFUSAL_COUNT + 5, 0x48, 1};
    struct message message;
    struct frames frames = crafted(MESSAGE_RESET, older, sizeof older);
    ck_assert_int_eq(codec_decode(&other, &frames, &message, &error), STATUS_OK);
    ck_assert_int_eq(message.u.reset.reason, REASON_MISMATCH);
    ck_assert_int_eq(message.u.reset.refusal, REFUSAL_NONE);
    ck_assert_uint_eq(message.u.reset.incarnation, 0);
    ck_assert_str_eq(message.u.reset.endpoint, "");
    frames = crafted(MESSAGE_RESET, newer, sizeof newer);
    ck_assert_int_eq(codec_decode(&other, &frames, &message, &error), STATUS_OK);
    ck_assert_int_eq(message.u.reset.refusal, REFUSAL_OTHER);
}
END_TEST

START_TEST(raw_frames_must_agree_with_their_counts) {
    uint32_t tokens[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct message submit = {.type = MESSAGE_SUBMIT};
    submit.u.submit.req = (struct request_id){1, 2};
    submit.u.submit.n_tokens = 8;
    submit.u.submit.n_prompt = 8;
    submit.u.submit.tokens = tokens;
    sampling_init(&submit.u.submit.sampling);
    struct frames frames;
    ck_assert_int_eq(codec_encode(&codec, &submit, &frames), STATUS_OK);
    ck_assert_int_eq(decoded(&frames), STATUS_OK);
    struct frames longer = frames;
    longer.n_raw += 4;
    ck_assert_int_eq(decoded(&longer), STATUS_CORRUPT);
    struct frames shorter = frames;
    shorter.n_raw -= 1;
    ck_assert_int_eq(decoded(&shorter), STATUS_CORRUPT);
    struct frames absent = frames;
    absent.raw = NULL;
    absent.n_raw = 0;
    ck_assert_int_eq(decoded(&absent), STATUS_CORRUPT);
    struct message ping = {.type = MESSAGE_PING};
    ck_assert_int_eq(codec_encode(&codec, &ping, &frames), STATUS_OK);
    frames.raw = tokens;
    frames.n_raw = sizeof tokens;
    ck_assert_int_eq(decoded(&frames), STATUS_CORRUPT);
}
END_TEST

START_TEST(unaligned_raw_frames_are_read_aligned) {
    struct map_key keys[3] = {{1, 2}, {3, 4}, {5, 6}};
    uint8_t bytes[sizeof keys + 1];
    struct message reserve = {.type = MESSAGE_RESERVE};
    reserve.u.reserve.req = (struct request_id){1, 2};
    reserve.u.reserve.n_hashes = 3;
    reserve.u.reserve.hashes = keys;
    struct frames frames;
    struct message came;
    ck_assert_int_eq(codec_encode(&codec, &reserve, &frames), STATUS_OK);
    for (size_t shift = 0; shift < 2; shift++) {
        memcpy(bytes + shift, keys, sizeof keys);
        frames.raw = bytes + shift;
        ck_assert_int_eq(codec_decode(&other, &frames, &came, &error), STATUS_OK);
        ck_assert_uint_eq((uintptr_t)came.u.reserve.hashes % _Alignof(struct map_key), 0);
        ck_assert(came.u.reserve.hashes[2].lo == 6);
    }
}
END_TEST

START_TEST(senders_cannot_go_past_the_bounds) {
    struct frames frames;
    struct message message = {.type = MESSAGE_STEP};
    message.u.step.n = MESSAGE_ENTRIES_MAX + 1;
    ck_assert_int_eq(codec_encode(&codec, &message, &frames), STATUS_LIMIT);
    message = (struct message){.type = MESSAGE_SUBMIT};
    message.u.submit.n_tokens = MESSAGE_TOKENS_MAX + 1;
    ck_assert_int_eq(codec_encode(&codec, &message, &frames), STATUS_LIMIT);
    static const uint8_t grammar[MESSAGE_GRAMMAR_MAX + 1];
    message.u.submit = (struct submit){.req = {1, 1}, .sampling = {.grammar = grammar}};
    message.u.submit.sampling.n_grammar = MESSAGE_GRAMMAR_MAX;
    ck_assert_int_eq(codec_encode(&codec, &message, &frames), STATUS_OK);
    message.u.submit.sampling.n_grammar++;
    ck_assert_int_eq(codec_encode(&codec, &message, &frames), STATUS_LIMIT);
    message = (struct message){.type = MESSAGE_SUBMIT};
    message.u.submit.sampling.temperature = NAN;
    ck_assert_int_eq(codec_encode(&codec, &message, &frames), STATUS_INVALID);
    message = (struct message){.type = MESSAGE_TYPES};
    ck_assert_int_eq(codec_encode(&codec, &message, &frames), STATUS_INVALID);
}
END_TEST

START_TEST(logprobs_that_are_not_finite_arrive_as_very_unlikely) {
    uint32_t token = 5;
    struct token_logprobs logprobs = {
        .logprob = -INFINITY, .n_top = 1, .top_ids = {5}, .top_logprobs = {NAN}};
    struct step_entry entry = {
        .req = {1, 1}, .n_tokens = 1, .tokens = &token, .logprobs = &logprobs};
    struct message step = {.type = MESSAGE_STEP};
    step.u.step.n = 1;
    step.u.step.entries = &entry;
    struct frames frames;
    struct message came;
    ck_assert_int_eq(codec_encode(&codec, &step, &frames), STATUS_OK);
    ck_assert_int_eq(codec_decode(&other, &frames, &came, &error), STATUS_OK);
    ck_assert(came.u.step.entries[0].logprobs[0].logprob == -9999.0f);
    ck_assert(came.u.step.entries[0].logprobs[0].top_logprobs[0] == -9999.0f);
}
END_TEST

START_TEST(who_asks_for_nothing_samples_as_the_model_says) {
    struct sampling sampling;
    memset(&sampling, 0xff, sizeof sampling);
    sampling_init(&sampling);
    ck_assert(sampling.temperature == 1.0f && sampling.top_p == 1.0f);
    ck_assert(sampling.repetition == 1.0f && sampling.presence == 0.0f);
    ck_assert(sampling.frequency == 0.0f && sampling.min_p == 0.0f);
    ck_assert_uint_eq(sampling.top_k, 0);
    ck_assert_uint_eq(sampling.n_grammar, 0);
}
END_TEST

START_TEST(headers_are_checked) {
    struct message ping = {.type = MESSAGE_PING, .session = 3, .seq = 4};
    struct frames frames;
    ck_assert_int_eq(codec_encode(&codec, &ping, &frames), STATUS_OK);
    uint8_t head[64];
    ck_assert_uint_le(frames.n_head, sizeof head);
    struct frames changed = {.head = head, .n_head = frames.n_head};
    static const struct {
        size_t at;
        uint8_t value;
        enum status status;
    } cases[] = {
        {0, 'X', STATUS_CORRUPT},
        {2, PROTO_MAJOR + 1, STATUS_UNSUPPORTED},
        {2, PROTO_MAJOR - 1, STATUS_UNSUPPORTED},
        {3, MESSAGE_NONE, STATUS_UNSUPPORTED},
        {3, MESSAGE_TYPES, STATUS_UNSUPPORTED},
        {3, 255, STATUS_UNSUPPORTED},
        {4, 1, STATUS_CORRUPT},
        {6, CODEC_HEADER_BYTES - 1, STATUS_CORRUPT},
        {7, 255, STATUS_CORRUPT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(head, frames.head, frames.n_head);
        head[cases[i].at] = cases[i].value;
        ck_assert_int_eq(decoded(&changed), cases[i].status);
    }
    for (size_t n = 0; n < CODEC_HEADER_BYTES; n++) {
        struct frames cut = {.head = frames.head, .n_head = n};
        ck_assert_int_eq(decoded(&cut), STATUS_CORRUPT);
    }
}
END_TEST

START_TEST(a_longer_header_of_a_later_minor_version_is_skipped) {
    struct message ping = {.type = MESSAGE_PING};
    ping.u.ping.t_ns = 77;
    struct frames frames;
    struct message came;
    ck_assert_int_eq(codec_encode(&codec, &ping, &frames), STATUS_OK);
    uint8_t head[64] = {0};
    memcpy(head, frames.head, CODEC_HEADER_BYTES);
    head[6] = CODEC_HEADER_BYTES + 8;
    memcpy(head + CODEC_HEADER_BYTES + 8, (const uint8_t *)frames.head + CODEC_HEADER_BYTES,
           frames.n_head - CODEC_HEADER_BYTES);
    struct frames longer = {.head = head, .n_head = frames.n_head + 8};
    ck_assert_int_eq(codec_decode(&other, &longer, &came, &error), STATUS_OK);
    ck_assert_uint_eq(came.u.ping.t_ns, 77);
}
END_TEST

START_TEST(hostile_bodies_are_refused_within_the_memory_budget) {
    size_t n = MESSAGE_CONTROL_MAX - CODEC_HEADER_BYTES;
    uint8_t *body = malloc(n);
    ck_assert_ptr_nonnull(body);
    for (size_t i = 0; i + 1 < n; i += 2) { /* half a million empty entries */
        body[i] = 0x0a;
        body[i + 1] = 0;
    }
    struct frames frames = crafted(MESSAGE_STEP, body, n);
    ck_assert_int_ne(decoded(&frames), STATUS_OK);
    ck_assert_uint_le(other.in.n_bytes, 8 * frames.n_head + (2u << 20));
    for (size_t i = 0; i + 3 < n; i += 3) { /* unknown fields */
        body[i] = 0xf8;
        body[i + 1] = 0x7f;
        body[i + 2] = 1;
    }
    frames = crafted(MESSAGE_PING, body, n - n % 3);
    ck_assert_int_ne(decoded(&frames), STATUS_OK);
    memset(body, 0x0b, n); /* groups inside groups */
    frames = crafted(MESSAGE_STEP, body, n);
    ck_assert_int_ne(decoded(&frames), STATUS_OK);
    free(body);
}
END_TEST

START_TEST(a_grammar_has_a_bound) {
    static uint8_t body[9 + 2 + MESSAGE_GRAMMAR_MAX + 1] = {0x10, 1, 0x5a, 0x85, 0x80, 4,
                                                            0x9a, 1, 0x80, 0x80, 4};
    struct frames frames = crafted(MESSAGE_SUBMIT, body, sizeof body - 1);
    ck_assert_int_eq(decoded(&frames), STATUS_OK);
    body[3]++;
    body[8]++;
    frames = crafted(MESSAGE_SUBMIT, body, sizeof body);
    ck_assert_int_eq(decoded(&frames), STATUS_LIMIT);
    ck_assert_str_eq(error.field, "grammar");
}
END_TEST

START_TEST(bad_fields_are_named) {
    static const uint8_t nul_inside[] = {0x0a, 3, 'a', 0, 'b', 0x1a, 1, 'e'};
    struct frames frames = crafted(MESSAGE_ANNOUNCE, nul_inside, sizeof nul_inside);
    ck_assert_int_eq(decoded(&frames), STATUS_INVALID);
    ck_assert_str_eq(error.field, "name");
    static const uint8_t not_utf8[] = {0x0a, 1, 0xff, 0x1a, 1, 'e'};
    frames = crafted(MESSAGE_ANNOUNCE, not_utf8, sizeof not_utf8);
    ck_assert_int_eq(decoded(&frames), STATUS_INVALID);
    uint8_t long_name[2 + MESSAGE_NAME_MAX] = {0x0a, MESSAGE_NAME_MAX};
    memset(long_name + 2, 'a', MESSAGE_NAME_MAX);
    frames = crafted(MESSAGE_ANNOUNCE, long_name, sizeof long_name);
    ck_assert_int_eq(decoded(&frames), STATUS_LIMIT);
    frames = crafted(MESSAGE_ANNOUNCE, long_name, 0);
    ck_assert_int_eq(decoded(&frames), STATUS_INVALID);
    static const uint8_t no_request[] = {0x18, 1};
    frames = crafted(MESSAGE_CANCEL, no_request, sizeof no_request);
    ck_assert_int_eq(decoded(&frames), STATUS_INVALID);
    ck_assert_str_eq(error.field, "req");
    static const uint8_t bad_reason[] = {0x10, 1, 0x20, 99};
    frames = crafted(MESSAGE_CANCEL, bad_reason, sizeof bad_reason);
    ck_assert_int_eq(decoded(&frames), STATUS_INVALID);
    ck_assert_str_eq(error.field, "reason");
    static const uint8_t no_sampling[] = {0x10, 1};
    frames = crafted(MESSAGE_SUBMIT, no_sampling, sizeof no_sampling);
    ck_assert_int_eq(decoded(&frames), STATUS_INVALID);
    static const uint8_t infinite[] = {0x10, 1, 0x5a, 5, 0x0d, 0, 0, 0x80, 0x7f};
    frames = crafted(MESSAGE_SUBMIT, infinite, sizeof infinite);
    ck_assert_int_eq(decoded(&frames), STATUS_INVALID);
    ck_assert_str_eq(error.field, "sampling");
    static const uint8_t one_id_and_no_bias[] = {0x10, 1, 0x5a, 4, 0x82, 0x01, 1, 5};
    frames = crafted(MESSAGE_SUBMIT, one_id_and_no_bias, sizeof one_id_and_no_bias);
    ck_assert_int_eq(decoded(&frames), STATUS_CORRUPT);
    ck_assert_str_eq(error.field, "bias");
    static const uint8_t prompt_without_tokens[] = {0x10, 1, 0x28, 1, 0x5a, 0};
    frames = crafted(MESSAGE_SUBMIT, prompt_without_tokens, sizeof prompt_without_tokens);
    ck_assert_int_eq(decoded(&frames), STATUS_CORRUPT);
    ck_assert_str_eq(error.field, "n_prompt");
}
END_TEST

/* Not a verdict: prints what a STEP costs when asked to (TANDEM_BENCH=1). */
START_TEST(cost_of_a_step) {
    if (!getenv("TANDEM_BENCH"))
        return;
    static const uint32_t sizes[] = {1, 64, 256};
    for (size_t s = 0; s < 3; s++) {
        struct step_entry entries[256];
        uint32_t tokens[256];
        for (uint32_t i = 0; i < sizes[s]; i++) {
            tokens[i] = 1000 + i;
            entries[i] = (struct step_entry){.req = {random_at(1, 2, i), 100000 + i},
                                             .attempt = 1,
                                             .first_index = 100,
                                             .n_tokens = 1,
                                             .tokens = &tokens[i]};
        }
        struct message step = {.type = MESSAGE_STEP};
        step.u.step.n = sizes[s];
        step.u.step.entries = entries;
        step.u.step.load = (struct load){.progress = 1u << 20,
                                         .blocks_total = 4096,
                                         .blocks_free = 2000,
                                         .n_tokens = 1u << 30,
                                         .n_steps = 1u << 20};
        struct frames frames = {0};
        struct message came;
        const uint32_t rounds = 200000 / sizes[s];
        uint64_t begin = clock_now_ns();
        for (uint32_t i = 0; i < rounds; i++)
            ck_assert(codec_encode(&codec, &step, &frames) == STATUS_OK);
        uint64_t middle = clock_now_ns();
        for (uint32_t i = 0; i < rounds; i++)
            ck_assert(codec_decode(&other, &frames, &came, &error) == STATUS_OK);
        uint64_t end = clock_now_ns();
        printf("step entries=%u bytes=%zu encode_ns=%.0f decode_ns=%.0f per_token_ns=%.0f\n",
               sizes[s], frames.n_head, (double)(middle - begin) / rounds,
               (double)(end - middle) / rounds, (double)(end - begin) / rounds / sizes[s]);
    }
}
END_TEST

/* Bytes of a body as protobuf has them: keys and lengths below 128, by hand. */
struct body {
    uint8_t bytes[1 << 17];
    size_t n;
};

static void put(struct body *body, const void *bytes, size_t n) {
    ck_assert_uint_le(n, sizeof body->bytes - body->n);
    memcpy(body->bytes + body->n, bytes, n);
    body->n += n;
}

#define PUT(body, ...)                                                                             \
    put(body, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

/* An entry's request: req_hi 1, req_lo 1. */
#define REQUEST 0x09, 1, 0, 0, 0, 0, 0, 0, 0, 0x10, 1

static void step_refused(const struct body *body, enum status status, const char *field) {
    struct frames frames = crafted(MESSAGE_STEP, body->bytes, body->n);
    ck_assert_int_eq(decoded(&frames), status);
    ck_assert_str_eq(error.field, field);
}

START_TEST(more_top_logprobs_than_came_are_named_before_they_are_read) {
    static struct body body;
    body.n = 0;
    PUT(&body, 0x0a, 34, REQUEST, 0x2a, 1, 7, 0x32, 18);
    PUT(&body, 0x0a, 4, 0, 0, 0, 0, 0x12, 1, 5); /* one token, with five of one top id */
    PUT(&body, 0x1a, 1, 9, 0x22, 4, 0, 0, 0, 0);
    step_refused(&body, STATUS_CORRUPT, "tops_per_token");
    body.bytes[26] = 1; /* as many as there are */
    struct frames frames = crafted(MESSAGE_STEP, body.bytes, body.n);
    ck_assert_int_eq(decoded(&frames), STATUS_OK);
}
END_TEST

START_TEST(log_probabilities_belong_to_tokens_one_by_one) {
    static struct body body;
    body.n = 0; /* one token, two log-probabilities */
    PUT(&body, 0x0a, 29, REQUEST, 0x2a, 1, 7, 0x32, 13);
    PUT(&body, 0x0a, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 1, 0);
    step_refused(&body, STATUS_CORRUPT, "logprobs");
    body.n = 0; /* one token, two numbers of top ids */
    PUT(&body, 0x0a, 26, REQUEST, 0x2a, 1, 7, 0x32, 10);
    PUT(&body, 0x0a, 4, 0, 0, 0, 0, 0x12, 2, 0, 0);
    step_refused(&body, STATUS_CORRUPT, "logprobs");
    body.n = 0; /* a top id that no token has */
    PUT(&body, 0x0a, 34, REQUEST, 0x2a, 1, 7, 0x32, 18);
    PUT(&body, 0x0a, 4, 0, 0, 0, 0, 0x12, 1, 0);
    PUT(&body, 0x1a, 1, 9, 0x22, 4, 0, 0, 0, 0);
    step_refused(&body, STATUS_CORRUPT, "top_ids");
}
END_TEST

/* The trace of a SUBMIT: ids of their lengths that are not zero, and one byte of flags. */
START_TEST(a_trace_has_two_ids_and_a_byte_of_flags) {
    static const struct {
        uint8_t n_trace, n_span, first_trace, first_span;
        uint32_t flags;
        enum status status;
        const char *field;
    } rows[] = {{16, 8, 1, 1, 0, STATUS_OK, ""},
                {16, 8, 1, 1, 255, STATUS_OK, ""},
                {16, 8, 1, 1, 256, STATUS_LIMIT, "flags"},
                {16, 8, 0, 1, 1, STATUS_INVALID, "trace_id"},
                {16, 8, 1, 0, 1, STATUS_INVALID, "span_id"},
                {15, 8, 1, 1, 1, STATUS_INVALID, "trace_id"},
                {17, 8, 1, 1, 1, STATUS_INVALID, "trace_id"},
                {16, 7, 1, 1, 1, STATUS_INVALID, "span_id"},
                {16, 9, 1, 1, 1, STATUS_INVALID, "span_id"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t n_t = rows[i].n_trace, n_s = rows[i].n_span, n = (uint8_t)(n_t + n_s + 7);
        uint8_t body[64] = {0x10, 1, 0x5a, 0, 0x6a, n, 0x0a, n_t, rows[i].first_trace};
        struct message message;
        memcpy(body + 8 + n_t, (uint8_t[]){0x12, n_s, rows[i].first_span}, 3);
        memcpy(body + 10 + n_t + n_s,
               (uint8_t[]){0x18, (uint8_t)(rows[i].flags | 128), (uint8_t)(rows[i].flags >> 7)}, 3);
        struct frames frames = crafted(MESSAGE_SUBMIT, body, 6 + n);
        error = (struct error){.field = ""};
        ck_assert_int_eq(codec_decode(&other, &frames, &message, &error), rows[i].status);
        ck_assert_str_eq(error.field, rows[i].field);
        if (rows[i].status == STATUS_OK)
            ck_assert_uint_eq(message.u.submit.trace.flags, rows[i].flags);
    }
}
END_TEST

START_TEST(a_chunk_has_layers_and_blocks) {
    static const uint8_t bytes[64];
    static const uint32_t empty[][4] = {{1, 1, 0, 1}, {2, 1, 0, 1}, {0, 1, 3, 3}, {0, 1, 4, 3}};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        struct message message = {.type = MESSAGE_CHUNK};
        message.u.chunk = (struct chunk){.transfer_id = 1,
                                         .layer_begin = empty[i][0],
                                         .layer_end = empty[i][1],
                                         .block_begin = empty[i][2],
                                         .block_end = empty[i][3],
                                         .n_bytes = 64,
                                         .bytes = bytes};
        struct frames frames;
        ck_assert_int_eq(codec_encode(&codec, &message, &frames), STATUS_OK);
        ck_assert_int_eq(decoded(&frames), STATUS_INVALID);
        ck_assert_str_eq(error.field, "layers or blocks");
    }
}
END_TEST

START_TEST(indexes_end_at_32_bits) {
    static struct body body;
    body.n = 0;
    PUT(&body, 0x0a, 20, REQUEST, 0x20, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x2a, 1, 7);
    step_refused(&body, STATUS_INVALID, "first_index");
    body.bytes[2 + 11 + 1] = 0xfe; /* one less: the token is the last that can be counted */
    struct frames frames = crafted(MESSAGE_STEP, body.bytes, body.n);
    ck_assert_int_eq(decoded(&frames), STATUS_OK);
}
END_TEST

START_TEST(entries_of_a_step_are_bounded) {
    static struct body body;
    body.n = 0;
    for (int i = 0; i < MESSAGE_ENTRIES_MAX; i++)
        PUT(&body, 0x0a, 11, REQUEST);
    struct frames frames = crafted(MESSAGE_STEP, body.bytes, body.n);
    ck_assert_int_eq(decoded(&frames), STATUS_OK);
    PUT(&body, 0x0a, 11, REQUEST);
    step_refused(&body, STATUS_LIMIT, "entries");
}
END_TEST

/* What each of the largest number of entries may have, in some 700 KiB that need 4 MiB when unpacked. */
START_TEST(a_step_with_all_entries_and_their_best_tokens_comes_back) {
    static struct step_entry entries[MESSAGE_ENTRIES_MAX];
    static struct token_logprobs logprobs[MESSAGE_ENTRIES_MAX];
    static uint32_t tokens[MESSAGE_ENTRIES_MAX];
    for (uint32_t i = 0; i < MESSAGE_ENTRIES_MAX; i++) {
        tokens[i] = i;
        logprobs[i] = (struct token_logprobs){.logprob = -1.0f, .n_top = MESSAGE_TOP_MAX};
        for (uint32_t k = 0; k < MESSAGE_TOP_MAX; k++) {
            logprobs[i].top_ids[k] = i + k;
            logprobs[i].top_logprobs[k] = -1.0f - (float)k;
        }
        entries[i] = (struct step_entry){
            .req = {1, 1 + i}, .n_tokens = 1, .tokens = &tokens[i], .logprobs = &logprobs[i]};
    }
    struct message step = {.type = MESSAGE_STEP};
    step.u.step.n = MESSAGE_ENTRIES_MAX;
    step.u.step.entries = entries;
    struct frames frames;
    struct message came;
    ck_assert_int_eq(codec_encode(&codec, &step, &frames), STATUS_OK);
    enum status status = codec_decode(&other, &frames, &came, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    ck_assert(message_equal(&step, &came));
}
END_TEST

/* A token is a byte here, and its log-probabilities would be 168. */
START_TEST(what_needs_more_memory_than_its_size_allows_is_said) {
    enum { N = 100000 };
    static struct body body;
    static const uint8_t tokens[N];
    body.n = 0;
    PUT(&body, 0x0a, 0xb1, 0x8d, 0x06, REQUEST, 0x2a, 0xa0, 0x8d, 0x06); /* N + 17; N */
    put(&body, tokens, N);
    PUT(&body, 0x32, 0); /* no log-probability at all */
    step_refused(&body, STATUS_LIMIT, "body");
}
END_TEST

START_TEST(a_chunks_raw_frame_is_as_long_as_it_says) {
    static const uint8_t bytes[64];
    struct message message = {.type = MESSAGE_CHUNK};
    message.u.chunk = (struct chunk){
        .transfer_id = 1, .layer_end = 1, .block_end = 1, .n_bytes = 64, .bytes = bytes};
    struct frames frames;
    ck_assert_int_eq(codec_encode(&codec, &message, &frames), STATUS_OK);
    ck_assert_int_eq(decoded(&frames), STATUS_OK);
    for (int delta = -1; delta <= 1; delta += 2) {
        struct frames wrong = frames;
        wrong.n_raw = (size_t)((int)wrong.n_raw + delta);
        uint8_t raw[65] = {0};
        wrong.raw = raw;
        ck_assert_int_eq(decoded(&wrong), STATUS_CORRUPT);
        ck_assert_str_eq(error.field, "n_bytes");
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, random_messages_of_every_type_come_back_equal, 0, 4);
    tcase_add_test(tests, frames_cut_anywhere_or_with_flipped_bits_never_crash);
    tcase_add_test(tests, resets_of_older_and_newer_peers_are_read);
    tcase_add_test(tests, raw_frames_must_agree_with_their_counts);
    tcase_add_test(tests, unaligned_raw_frames_are_read_aligned);
    tcase_add_test(tests, senders_cannot_go_past_the_bounds);
    tcase_add_test(tests, logprobs_that_are_not_finite_arrive_as_very_unlikely);
    tcase_add_test(tests, who_asks_for_nothing_samples_as_the_model_says);
    tcase_add_test(tests, headers_are_checked);
    tcase_add_test(tests, a_longer_header_of_a_later_minor_version_is_skipped);
    tcase_add_test(tests, hostile_bodies_are_refused_within_the_memory_budget);
    tcase_add_test(tests, a_grammar_has_a_bound);
    tcase_add_test(tests, bad_fields_are_named);
    tcase_add_test(tests, cost_of_a_step);
    tcase_add_test(tests, more_top_logprobs_than_came_are_named_before_they_are_read);
    tcase_add_test(tests, log_probabilities_belong_to_tokens_one_by_one);
    tcase_add_test(tests, a_trace_has_two_ids_and_a_byte_of_flags);
    tcase_add_test(tests, a_chunk_has_layers_and_blocks);
    tcase_add_test(tests, indexes_end_at_32_bits);
    tcase_add_test(tests, entries_of_a_step_are_bounded);
    tcase_add_test(tests, a_step_with_all_entries_and_their_best_tokens_comes_back);
    tcase_add_test(tests, what_needs_more_memory_than_its_size_allows_is_said);
    tcase_add_test(tests, a_chunks_raw_frame_is_as_long_as_it_says);
}
