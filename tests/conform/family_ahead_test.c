/* Whole answers of a worker's steps, from submits to what its router is told, with and without steps ahead,
 * on every backend that has them: the same tokens, logprobs and ends as on the CPU, bit by bit, while
 * requests of all kinds come, stop, are cancelled and are preempted. */
#include "base/clock.h"
#include "kernels/numbers.h"
#include "model/model.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_gguf.h"
#include "tests/support/tiny_hub.h"
#include "worker/core/engine.h"
#include "worker/step/step.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "conform_family_ahead";
const double suite_timeout_s = 900;

enum { LINK = 1, SESSION = 77, N_CALLS = 14, N_NEW = 40, N_BLOCKS = 9, CONTEXT = 128 };

/* A request and what its router was told of it. */
struct call {
    uint32_t after;     /* it comes when so many tokens have come in all */
    uint32_t cancel_at; /* and is given up after so many of its own; 0: never */
    uint32_t n_prompt;
    uint32_t max_new, min_new;
    uint32_t stop_at; /* its stop id is that token of the answer; 0: none */
    uint32_t n_top;
    float temperature, top_p, presence;
    uint32_t choice;
    uint32_t priority;
    /* what came */
    bool is_sent, is_cancelled;
    uint32_t n;
    uint32_t ids[N_NEW];
    struct token_logprobs logprobs[N_NEW];
    enum finish finish;
    uint32_t stop_id;
};

/* Greedy and drawn, one with penalties; several choices of one prompt; answers that end by a stop id, by count and by a
 * cancel; stop ids that come too early. More KV than the pool holds. */
static const struct call calls_of_all_kinds[N_CALLS] = {
    {.n_prompt = 20, .max_new = 40},
    {.n_prompt = 5, .max_new = 30, .temperature = 0.8f, .top_p = 0.9f, .n_top = 3},
    {.n_prompt = 33, .max_new = 12, .temperature = 2, .stop_at = 7},
    {.after = 6, .n_prompt = 1, .max_new = 25, .temperature = 1.2f, .cancel_at = 9},
    {.after = 30, .n_prompt = 17, .max_new = 40, .temperature = 2, .stop_at = 11, .min_new = 15},
    {.after = 34, .n_prompt = 40, .max_new = 20, .temperature = 0.7f, .choice = 0, .priority = 1},
    {.after = 34, .n_prompt = 40, .max_new = 20, .temperature = 0.7f, .choice = 1, .priority = 1},
    {.after = 60, .n_prompt = 9, .max_new = 16, .presence = 0.6f, .n_top = 1},
    {.after = 90, .n_prompt = 14, .max_new = 3},
    {.after = 140, .n_prompt = 15, .max_new = 30, .temperature = 2, .stop_at = 3, .n_top = 2},
    {.after = 150, .n_prompt = 30, .max_new = 33, .temperature = 2, .stop_at = 17},
    {.after = 155, .n_prompt = 3, .max_new = 1},
    {.after = 160, .n_prompt = 12, .max_new = 30, .cancel_at = 20},
    {.after = 180,
     .n_prompt = 16,
     .max_new = 40,
     .temperature = 0.5f,
     .top_p = 0.5f,
     .stop_at = 39},
};

/* One worker and its router. */
struct run {
    struct model *model;
    struct stepper stepper;
    struct call calls[N_CALLS];
    uint32_t n_tokens; /* that came, of all */
    uint64_t seq;
    bool is_exact; /* the backend's bits are the CPU's */
};

/* receive.h's functions look at links: here at what the router has to say. */
static struct run *run_of(struct receive *receive) {
    return (struct run *)(void *)((char *)receive - offsetof(struct run, stepper.receive));
}

static void say(struct run *run, struct message *message) {
    message->session = SESSION;
    message->seq = ++run->seq;
    engine_message(run->stepper.receive.engine, clock_now_ns(), LINK, message);
}

static struct request_id req_of(uint32_t i) {
    return (struct request_id){.hi = 5, .lo = 1 + i};
}

static void submit(struct run *run, uint32_t i) {
    struct call *call = &run->calls[i];
    uint32_t prompt[CONTEXT];
    struct message message = {.type = MESSAGE_SUBMIT};
    struct submit *submit = &message.u.submit;
    uint32_t kind = i - call->choice; /* choices have one prompt */
    for (uint32_t k = 0; k < call->n_prompt; k++)
        prompt[k] = (k * 7 + kind * 13) % 250;
    *submit = (struct submit){.req = req_of(i),
                              .attempt = 1,
                              .phase = PHASE_BOTH,
                              .n_prompt = call->n_prompt,
                              .n_tokens = call->n_prompt,
                              .tokens = prompt,
                              .priority = call->priority};
    submit->sampling = (struct sampling){.temperature = call->temperature,
                                         .top_p = call->top_p > 0 ? call->top_p : 1,
                                         .repetition = 1,
                                         .presence = call->presence,
                                         .seed = 40 + kind,
                                         .choice = call->choice,
                                         .max_new = call->max_new,
                                         .min_new = call->min_new,
                                         .ignore_eos = true,
                                         .want_logprobs = call->n_top > 0,
                                         .n_top = call->n_top,
                                         .n_stop_ids = call->stop_at > 0,
                                         .stop_ids = &call->stop_id};
    say(run, &message);
}

static bool is_active(const struct run *run) {
    for (uint32_t i = 0; i < N_CALLS; i++) {
        const struct call *call = &run->calls[i];
        if (call->is_sent && !call->is_cancelled && call->finish == FINISH_NONE)
            return true;
    }
    return false;
}

void receive_messages(struct receive *receive) {
    struct run *run = run_of(receive);
    bool idle = !is_active(run); /* answers may stop sooner than foreseen: the next one comes */
    receive->looked_ns = clock_now_ns() - NS_PER_S; /* it is asked again at each occasion */
    for (uint32_t i = 0; i < N_CALLS; i++) {
        struct call *call = &run->calls[i];
        struct message message = {.type = MESSAGE_CANCEL};
        message.u.cancel = (struct cancel){req_of(i), 1, REASON_CANCELLED};
        if (!call->is_sent && (run->n_tokens >= call->after || idle)) {
            call->is_sent = true;
            idle = false;
            submit(run, i);
        }
        if (!call->is_cancelled && call->cancel_at > 0 && call->n >= call->cancel_at) {
            call->is_cancelled = true;
            say(run, &message);
        }
    }
}

void receive_wait(const struct receive *receive, const int wake_fds[2], uint64_t until_ns) {
    (void)receive, (void)wake_fds, (void)until_ns;
    ck_abort_msg("nothing is waited for");
}

static void take_entry(struct run *run, const struct step_entry *entry) {
    struct call *call = &run->calls[entry->req.lo - 1];
    ck_assert(!call->is_cancelled);
    ck_assert_int_eq(call->finish, FINISH_NONE);
    ck_assert_uint_eq(entry->first_index, call->n);
    ck_assert((entry->logprobs != NULL) == (call->n_top > 0) || entry->n_tokens == 0);
    for (uint32_t k = 0; k < entry->n_tokens; k++) {
        ck_assert_uint_lt(call->n, N_NEW);
        if (entry->logprobs)
            call->logprobs[call->n] = entry->logprobs[k];
        call->ids[call->n++] = entry->tokens[k];
        run->n_tokens++;
    }
    call->finish = entry->finish;
}

static enum status on_send(void *context, uint32_t link, const struct message *message) {
    ck_assert_uint_eq(link, LINK);
    ck_assert_int_ne(message->type, MESSAGE_FAILED);
    for (uint32_t i = 0; message->type == MESSAGE_STEP && i < message->u.step.n; i++)
        take_entry(context, &message->u.step.entries[i]);
    return STATUS_OK;
}

static void on_close(void *context, uint32_t link) {
    (void)context;
    ck_abort_msg("link %u is closed", link);
}

static void open_engine(struct run *run) {
    const struct family_facts *facts = &run->stepper.forward.rank.model->facts;
    struct engine_config config = {.name = "w",
                                   .seed = 3,
                                   .n_blocks = N_BLOCKS,
                                   .block_tokens = KV_BLOCK_TOKENS,
                                   .n_layers = facts->n_layers,
                                   .layer_groups = 1,
                                   .block_bytes = (uint32_t)forward_block_bytes(facts),
                                   .chunk_tokens = 32,
                                   .chunk_bytes = 1 << 20,
                                   .max_batch = 8,
                                   .max_seqs = 16,
                                   .context = CONTEXT,
                                   .max_links = 4,
                                   .n_vocab = facts->n_vocab,
                                   .lease_ns = 1000 * NS_PER_S,
                                   .router_lease_ns = 1000 * NS_PER_S};
    struct engine_sink sink = {.context = run, .send = on_send, .close_link = on_close};
    ck_assert_int_eq(engine_new(&config, &sink, &run->stepper.receive.engine), STATUS_OK);
    struct message hello = {.type = MESSAGE_HELLO};
    hello.u.hello = (struct hello){.major = PROTO_MAJOR,
                                   .minor = PROTO_MINOR,
                                   .router_id = 5,
                                   .session = SESSION,
                                   .name = "r"};
    say(run, &hello);
}

static bool is_over(const struct run *run) {
    bool over = true;
    for (uint32_t i = 0; i < N_CALLS; i++)
        over = over && (run->calls[i].finish != FINISH_NONE || run->calls[i].is_cancelled);
    return over && run->stepper.ahead.n_rows == 0;
}

/* Answers of one backend; stop ids are those that `wanted` says, if it is there. */
static void answer_all(struct run *run, struct model *model, const char *backend, bool ahead,
                       const struct run *wanted, struct engine_repeats *repeats) {
    struct error error = {0};
    struct step_options options = {.forward = {.model = model,
                                               .backend = backend,
                                               .n_threads = 1,
                                               .max_tokens = 32,
                                               .max_seqs = 8,
                                               .context_max = CONTEXT,
                                               .n_blocks = N_BLOCKS},
                                   .chunk_tokens = 32,
                                   .max_slots = 16,
                                   .no_steps_ahead = !ahead};
    memset(run, 0, sizeof *run);
    memcpy(run->calls, calls_of_all_kinds, sizeof run->calls);
    for (uint32_t i = 0; i < N_CALLS; i++)
        run->calls[i].stop_id = wanted && run->calls[i].stop_at > 0
                                    ? wanted->calls[i].ids[run->calls[i].stop_at - 1]
                                    : UINT32_MAX;
    enum status status = step_open(&run->stepper, &options, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    run->is_exact =
        strcmp(run->stepper.forward.rank.kernels->numerics(run->stepper.forward.rank.ctx),
               NUMERICS_TEXT) == 0;
    open_engine(run);
    for (uint32_t turn = 0; !is_over(run); turn++) {
        ck_assert_uint_lt(turn, 2000);
        step_run(&run->stepper);
        const char *wrong = engine_check(run->stepper.receive.engine);
        if (wrong)
            ck_abort_msg("%s", wrong);
    }
    struct load load;
    engine_load(run->stepper.receive.engine, &load);
    ck_assert_uint_eq(load.blocks_used, 0);
    ck_assert(!wanted || load.n_preemptions > 0);
    *repeats = *engine_repeats(run->stepper.receive.engine);
    engine_free(run->stepper.receive.engine);
    step_close(&run->stepper);
}

static void compare(const char *backend, const struct run *got, const struct run *wanted) {
    for (uint32_t i = 0; i < N_CALLS; i++) {
        const struct call *a = &got->calls[i], *b = &wanted->calls[i];
        ck_assert_msg(a->n == b->n && a->finish == b->finish &&
                          memcmp(a->ids, b->ids, b->n * sizeof *b->ids) == 0,
                      "%s: answer %u: %u tokens, %u wanted", backend, i, a->n, b->n);
        ck_assert_mem_eq(a->logprobs, b->logprobs, b->n * sizeof *b->logprobs);
    }
}

/* Each of these was met: what the answers show is not for want of it. */
static void expect_ahead(const char *backend, const struct engine_repeats *repeats, bool is_exact) {
    static const enum repeat met[] = {REPEAT_GRANTED, REPEAT_PROMPT,  REPEAT_LEFT,
                                      REPEAT_FULL,    REPEAT_HISTORY, REPEAT_WAITING};
    for (size_t k = 0; k < sizeof met / sizeof *met; k++)
        ck_assert_msg(repeats->n[met[k]] > 0 || (!is_exact && met[k] == REPEAT_LEFT),
                      "%s: never %s", backend, engine_repeat_name(met[k]));
    ck_assert_uint_gt(repeats->n[REPEAT_GRANTED], 30);
    ck_assert(!is_exact || repeats->n_dropped > 0); /* others may not come by their stop ids */
}

static const struct {
    const char *family; /* NULL: the GGUF */
    const char *format;
} models[] = {{NULL, "q4_1"}, {"qwen2_moe", "awq"}, {"qwen", "f16"}};

/* Emulated kernels take long: all of them for the first model, exact ones for the second. */
static bool serves(int model, const struct kernels *kernels) {
    bool is_emulated = subject_is_emulated(&(struct subject){.kernels = kernels});
    return !is_emulated || model == 0 ||
           (model == 1 && strcmp(subject_label(kernels), "cuda-emu:exact") == 0);
}

START_TEST(answers_are_the_same_with_and_without_steps_ahead) {
    static struct run first, wanted, plain, ahead;
    struct engine_repeats repeats;
    struct model *model =
        models[_i].family
            ? tiny_hub_open(models[_i].family, models[_i].format)
            : tiny_gguf_open(&(struct tiny_gguf){.format = models[_i].format, .seed = 42});
    answer_all(&first, model, "cpu", true, NULL, &repeats);
    answer_all(&wanted, model, "cpu", true, &first, &repeats);
    ck_assert_uint_eq(repeats.n[REPEAT_GRANTED], 0); /* there is no such thing */
    for (uint32_t i = 0; i < N_CALLS; i++) {
        bool stops = wanted.calls[i].stop_at > 0;
        if (wanted.calls[i].min_new > 0) /* whether its stop id comes again is the model's affair */
            continue;
        ck_assert_int_eq(wanted.calls[i].finish, wanted.calls[i].is_cancelled ? FINISH_NONE
                                                 : stops                      ? FINISH_STOP
                                                                              : FINISH_LENGTH);
    }
    for (uint32_t i = 0; kernels_table[i]; i++) {
        const struct kernels *kernels = kernels_table[i];
        if (!kernels->sample_begin || !subject_is_wanted(kernels) || !serves(_i, kernels))
            continue;
        answer_all(&plain, model, subject_label(kernels), false, &first, &repeats);
        ck_assert_uint_eq(repeats.n[REPEAT_GRANTED], 0);
        if (plain.is_exact)
            compare(subject_label(kernels), &plain, &wanted);
        answer_all(&ahead, model, subject_label(kernels), true, &first, &repeats);
        compare(subject_label(kernels), &ahead, &plain);
        expect_ahead(subject_label(kernels), &repeats, ahead.is_exact);
    }
    model_close(model);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, answers_are_the_same_with_and_without_steps_ahead, 0,
                        sizeof models / sizeof *models);
}
