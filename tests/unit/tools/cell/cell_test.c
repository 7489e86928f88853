#include "base/clock.h"
#include "tests/support/suite.h"
#include "tools/cell/cell.h"
#include "tools/cell/heap.h"

#include <stdlib.h>
#include <string.h>

const char *const suite_name = "cell";
const double suite_timeout_s = 60;

#define ASKED_MAX 512
#define STEP_NS   (10 * NS_PER_MS)

/* What came of each request. */
struct seen {
    struct cell_worker workers[256];
    uint64_t first_ns[ASKED_MAX], last_ns[ASKED_MAX], end_ns[ASKED_MAX];
    uint32_t n_tokens[ASKED_MAX];
    struct cell_end ends[ASKED_MAX];
    uint32_t n_over, n_prompt_most;
    double n_keys, n_pairs; /* of steps that were no trial */
};

static void on_tokens(void *context, uint32_t request, uint64_t now_ns, uint32_t n_tokens) {
    struct seen *seen = context;
    if (seen->n_tokens[request] == 0)
        seen->first_ns[request] = now_ns;
    seen->n_tokens[request] += n_tokens;
    seen->last_ns[request] = now_ns;
}

static void on_end(void *context, uint32_t request, uint64_t now_ns, const struct cell_end *end) {
    struct seen *seen = context;
    seen->ends[request] = *end;
    seen->end_ns[request] = now_ns;
    seen->n_over++;
}

static uint64_t on_step(void *context, uint32_t worker, const struct cell_step *step) {
    struct seen *seen = context;
    (void)worker;
    if (step->n_prompt > seen->n_prompt_most)
        seen->n_prompt_most = step->n_prompt;
    if (!step->is_trial) {
        seen->n_keys += step->n_keys;
        seen->n_pairs += step->n_pairs;
    }
    return STEP_NS;
}

static struct cell *make(struct seen *seen, uint32_t n_workers, uint32_t n_prefill) {
    struct cell_spec spec = {.n_routers = 1,
                             .n_workers = n_workers,
                             .workers = seen->workers,
                             .policy = "least_load",
                             .max_requests = ASKED_MAX,
                             .max_prompt = 8192,
                             .delay_ns = 100 * NS_PER_US,
                             .look_ns = NS_PER_MS,
                             .kv_bytes_s = 1e9,
                             .model = {seen, on_step},
                             .user = {seen, on_tokens, on_end}};
    struct cell *cell;
    for (uint32_t i = 0; i < n_workers; i++)
        seen->workers[i] = (struct cell_worker){.role = n_prefill == 0  ? CELL_MIXED
                                                        : i < n_prefill ? CELL_PREFILL
                                                                        : CELL_DECODE,
                                                .n_blocks = 4096,
                                                .n_layers = 8,
                                                .block_bytes = 65536,
                                                .chunk_tokens = 512,
                                                .max_batch = 64,
                                                .context = 4096};
    ck_assert_int_eq(cell_new(&spec, &cell), STATUS_OK);
    return cell;
}

static void run_until_over(struct cell *cell, const struct seen *seen, uint32_t n) {
    uint64_t until_ns = cell_now_ns(cell) + 600 * NS_PER_S;
    while (seen->n_over < n && cell_now_ns(cell) < until_ns)
        cell_run(cell, until_ns);
    ck_assert_uint_eq(seen->n_over, n);
}

START_TEST(events_come_in_order_of_time_and_then_of_coming) {
    struct heap heap = {0};
    for (uint64_t i = 0; i < 1000; i++)
        heap_push(&heap, &(struct cell_event){.at_ns = i * 7919 % 10, .serial = i});
    struct cell_event last = heap_pop(&heap);
    while (heap.n > 0) {
        struct cell_event event = heap_pop(&heap);
        ck_assert(event.at_ns > last.at_ns ||
                  (event.at_ns == last.at_ns && event.serial > last.serial));
        last = event;
    }
    heap_fini(&heap);
}
END_TEST

START_TEST(a_lone_request_takes_its_steps_and_its_messages) {
    static struct seen seen;
    struct cell *cell = make(&seen, 1, 0);
    uint64_t begin_ns = cell_now_ns(cell);
    ck_assert_int_eq(cell_request(cell, 0, 0, &(struct cell_ask){1000, 20, 1}), STATUS_OK);
    run_until_over(cell, &seen, 1);
    ck_assert(seen.ends[0].done);
    ck_assert_uint_eq(seen.n_tokens[0], 20);
    ck_assert_uint_eq(seen.n_prompt_most, 512); /* 1,000 tokens are two steps */
    /* There and back is 0.2 ms; two steps of prompt, and one for each token after the first. */
    ck_assert_uint_eq(seen.first_ns[0] - begin_ns, 2 * STEP_NS + 200 * NS_PER_US);
    ck_assert_uint_eq(seen.last_ns[0] - seen.first_ns[0], 19 * STEP_NS);
    struct cell_counts counts;
    cell_counts(cell, &counts);
    ck_assert_uint_eq(counts.n_steps, 21);
    ck_assert_uint_eq(counts.busy_ns, 21 * STEP_NS);
    ck_assert_uint_eq(counts.n_tokens, 1000 + 19);
    /* Each token looks at itself and at all before it. */
    ck_assert_double_eq(seen.n_pairs, 1000 * 1001 / 2);
    ck_assert_double_eq(seen.n_keys, 19 * (1001 + 1019) / 2);
    cell_free(cell);
}
END_TEST

START_TEST(equal_prompts_are_cached_and_others_are_not) {
    static struct seen seen;
    struct cell *cell = make(&seen, 1, 0);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_int_eq(cell_request(cell, 0, i, &(struct cell_ask){160, 2, i == 1 ? 0 : i}),
                         STATUS_OK);
        run_until_over(cell, &seen, i + 1);
    }
    ck_assert_uint_eq(seen.ends[0].n_cached, 0);
    ck_assert_uint_ge(seen.ends[1].n_cached, 144);
    ck_assert_uint_eq(seen.ends[2].n_cached, 0);
    cell_free(cell);
}
END_TEST

START_TEST(the_same_calls_give_the_same_times) {
    static struct seen first, second;
    struct seen *both[] = {&first, &second};
    for (unsigned k = 0; k < 2; k++) {
        struct cell *cell = make(both[k], 4, 1);
        for (uint32_t i = 0; i < 100; i++)
            ck_assert_int_eq(
                cell_request(cell, 0, i, &(struct cell_ask){50 + 13 * i, 10 + i % 7, i}),
                STATUS_OK);
        run_until_over(cell, both[k], 100);
        cell_free(cell);
    }
    ck_assert_mem_eq(&first, &second, sizeof first);
    for (uint32_t i = 0; i < 100; i++)
        ck_assert(first.ends[i].done && first.n_tokens[i] == 10 + i % 7);
}
END_TEST

START_TEST(prompts_are_handed_over_at_the_rate_of_the_link) {
    static struct seen seen;
    struct cell *cell = make(&seen, 2, 1);
    struct cell_counts counts;
    uint64_t begin_ns = cell_now_ns(cell);
    ck_assert_int_eq(cell_request(cell, 0, 0, &(struct cell_ask){2048, 5, 1}), STATUS_OK);
    run_until_over(cell, &seen, 1);
    cell_counts(cell, &counts);
    ck_assert(seen.ends[0].done);
    ck_assert_uint_eq(counts.n_handoffs, 1);
    /* The first token comes from who computed the prompt; 128 blocks of 8 layers are 67 MB, as many ms at 1 GB/s. */
    ck_assert_uint_lt(seen.first_ns[0] - begin_ns, 4 * STEP_NS + NS_PER_MS);
    uint64_t took_ns = seen.last_ns[0] - begin_ns;
    ck_assert_uint_gt(took_ns, 67 * NS_PER_MS + 3 * STEP_NS);
    ck_assert_uint_lt(took_ns, 150 * NS_PER_MS);
    cell_free(cell);
}
END_TEST

START_TEST(what_is_cancelled_ends_and_what_is_too_long_is_refused) {
    static struct seen seen;
    struct cell *cell = make(&seen, 1, 0);
    ck_assert_int_eq(cell_request(cell, 0, 0, &(struct cell_ask){100, 1000, 1}), STATUS_OK);
    ck_assert_int_eq(cell_request(cell, 0, 1, &(struct cell_ask){5000, 10, 2}), STATUS_OK);
    ck_assert(seen.ends[1].busy);
    cell_run(cell, cell_now_ns(cell) + STEP_NS);
    cell_cancel(cell, 0);
    cell_cancel(cell, 0); /* it is over: nothing happens */
    ck_assert_uint_eq(seen.n_over, 2);
    ck_assert(!seen.ends[0].done && !seen.ends[0].busy);
    cell_free(cell);
}
END_TEST

START_TEST(many_workers_share_the_load) {
    static struct seen seen;
    struct cell *cell = make(&seen, 64, 0);
    for (uint32_t i = 0; i < 256; i++)
        ck_assert_int_eq(cell_request(cell, 0, i, &(struct cell_ask){64, 4, i}), STATUS_OK);
    uint64_t begin_ns = cell_now_ns(cell);
    run_until_over(cell, &seen, 256);
    for (uint32_t i = 0; i < 256; i++) /* four a worker: all at once */
        ck_assert_uint_lt(seen.end_ns[i] - begin_ns, 7 * STEP_NS);
    cell_free(cell);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, events_come_in_order_of_time_and_then_of_coming);
    tcase_add_test(tests, a_lone_request_takes_its_steps_and_its_messages);
    tcase_add_test(tests, equal_prompts_are_cached_and_others_are_not);
    tcase_add_test(tests, the_same_calls_give_the_same_times);
    tcase_add_test(tests, prompts_are_handed_over_at_the_rate_of_the_link);
    tcase_add_test(tests, what_is_cancelled_ends_and_what_is_too_long_is_refused);
    tcase_add_test(tests, many_workers_share_the_load);
}
