#include "tests/support/suite.h"

#include "base/clock.h"
#include "tests/unit/tools/bench/virtual.h"
#include "tools/bench/core/figures.h"

#include <math.h>
#include <string.h>

const char *const suite_name = "bench_figures";
const double suite_timeout_s = 60;

#define MS(n) ((uint64_t)(n)*NS_PER_MS)
#define S(n)  ((uint64_t)(n)*NS_PER_S)

/* TTFT 50 ms, ITL 10 ms, 32 tokens, an end 5 ms later: 365 ms in all. */
static const struct script plain = {.ttft_ns = MS(50), .itl_ns = MS(10), .tail_ns = MS(5)};
static const struct slo no_slo;

static struct level_spec make(enum profile profile, uint32_t concurrency, double rate, uint64_t s) {
    return (struct level_spec){.label = "test",
                               .schedule = {.profile = profile,
                                            .concurrency = concurrency,
                                            .rate = rate,
                                            .duration_ns = S(s),
                                            .seed = 7},
                               .n_prompt = 64,
                               .n_output = 32,
                               .drain_ns = S(10),
                               .timeout_ns = S(60),
                               .silence_ns = S(30)};
}

static struct figures run(const struct level_spec *spec, const struct script *script,
                          double asked_rate) {
    struct level level;
    struct figures figures;
    virtual_run(&level, spec, script);
    ck_assert_int_eq(figures_make(&figures, &level, asked_rate, &no_slo), STATUS_OK);
    ck_assert_uint_eq(figures.n_sent, figures.n_ok + figures.n_incomplete + figures.n_failed);
    level_fini(&level);
    return figures;
}

static void assert_marks(const struct figures *figures, const char *wanted) {
    char text[MARK_TEXT_MAX];
    ck_assert_str_eq(mark_text(figures->marks, text), wanted);
}

START_TEST(a_synchronous_level_has_the_times_of_its_server_exactly) {
    struct level_spec spec = make(PROFILE_SYNCHRONOUS, 1, 0, 0);
    spec.schedule.n_requests = 10;
    struct figures f = run(&spec, &plain, 0);
    ck_assert_uint_eq(f.n_ok, 10);
    ck_assert_uint_eq(f.ttft.p50, MS(50));
    ck_assert_uint_eq(f.ttft.p99, MS(50));
    ck_assert_uint_eq(f.itl.p50, MS(10));
    ck_assert_uint_eq(f.gap.p50, MS(10));
    ck_assert_uint_eq(f.latency.p95, MS(365));
    ck_assert_double_eq_tol(f.window_s, 3.65, 1e-12);
    ck_assert_double_eq_tol(f.requests_per_s, 10 / 3.65, 1e-9);
    ck_assert_double_eq_tol(f.output_tokens_per_s, 320 / 3.65, 1e-9);
    ck_assert_double_eq_tol(f.total_tokens_per_s, 960 / 3.65, 1e-9);
    ck_assert_double_eq_tol(f.concurrency, 1, 1e-9);
    ck_assert_double_eq_tol(f.decoding, 310 / 365.0, 1e-9);
    ck_assert_uint_eq(f.tpot.p50, MS(315) / 31);
    assert_marks(&f, "");
}
END_TEST

START_TEST(a_constant_level_sends_evenly_from_its_begin) {
    struct level level;
    struct level_spec spec = make(PROFILE_CONSTANT, 100, 4, 5);
    virtual_run(&level, &spec, &plain);
    ck_assert_uint_eq(level.n_records, 20);
    for (uint32_t i = 0; i < 20; i++)
        ck_assert_uint_eq(level.records[i].due_ns, level.begin_ns + i * MS(250));
    ck_assert_uint_eq(level.issued_ns, level.begin_ns + S(5));
    struct figures f;
    ck_assert_int_eq(figures_make(&f, &level, 4, &no_slo), STATUS_OK);
    ck_assert_uint_eq(f.n_ok, 20);
    /* The last, due at 4.75 s, ends at 5.115 s: in the drain, so not in the rate. */
    ck_assert_double_eq_tol(f.requests_per_s, 19 / 5.0, 1e-9);
    level_fini(&level);
}
END_TEST

START_TEST(poisson_gaps_are_exponential_and_repeat_with_their_seed) {
    struct level level;
    struct level_spec spec = make(PROFILE_POISSON, 1000, 100, 100);
    virtual_run(&level, &spec, &plain);
    double n = level.n_records, sum = 0, squares = 0, products = 0, before = 0;
    for (uint32_t i = 1; i < level.n_records; i++) {
        double gap = (double)(level.records[i].due_ns - level.records[i - 1].due_ns) / 1e7;
        sum += gap;
        squares += gap * gap;
        products += (gap - 1) * (before - 1);
        before = gap;
    }
    ck_assert_double_eq_tol(n, 10000, 400);
    ck_assert_double_eq_tol(sum / n, 1, 0.04);      /* the mean gap, of 10 ms */
    ck_assert_double_eq_tol(squares / n, 2, 0.2);   /* an exponential's second moment */
    ck_assert_double_eq_tol(products / n, 0, 0.05); /* no gap knows the one before */
    uint64_t last_ns = level.records[level.n_records - 1].due_ns;
    level_fini(&level);
    virtual_run(&level, &spec, &plain);
    ck_assert_uint_eq(level.records[level.n_records - 1].due_ns, last_ns);
    level_fini(&level);
}
END_TEST

START_TEST(a_ramp_grows_from_its_first_rate_to_its_last) {
    struct level level;
    struct level_spec spec = make(PROFILE_RAMP, 1000, 30, 10);
    spec.schedule.rate_from = 10;
    virtual_run(&level, &spec, &plain);
    uint32_t n_half = 0;
    for (uint32_t i = 0; i < level.n_records; i++)
        n_half += level.records[i].due_ns < level.begin_ns + S(5);
    ck_assert_uint_eq(level.n_records, 200); /* 10 s at 20/s on average */
    ck_assert_uint_eq(n_half, 75);           /* 5 s at 15/s */
    level_fini(&level);
}
END_TEST

START_TEST(a_trace_is_replayed_at_its_times_with_its_lengths) {
    static const struct trace_line trace[] = {{.at_ns = MS(0), .n_prompt = 10, .n_output = 4},
                                              {.at_ns = MS(100), .n_prompt = 20, .n_output = 5},
                                              {.at_ns = MS(100), .n_prompt = 30, .n_output = 6},
                                              {.at_ns = MS(900), .n_prompt = 40, .n_output = 7}};
    struct level level;
    struct level_spec spec = make(PROFILE_TRACE, 1000, 0, 0);
    spec.schedule.trace = trace;
    spec.schedule.n_trace = 4;
    virtual_run(&level, &spec, &plain);
    ck_assert_uint_eq(level.n_records, 4);
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(level.records[i].due_ns, level.begin_ns + trace[i].at_ns);
        ck_assert_uint_eq(level.records[i].ask.n_prompt, trace[i].n_prompt);
        ck_assert_uint_eq(level.records[i].usage_output, trace[i].n_output);
    }
    level_fini(&level);
}
END_TEST

START_TEST(a_concurrent_level_keeps_its_streams_busy) {
    struct level_spec spec = make(PROFILE_CONCURRENT, 8, 0, 73);
    struct figures f = run(&spec, &plain, 0); /* 73 s are 200 times 365 ms */
    ck_assert_uint_eq(f.n_ok, 1600);
    ck_assert_double_eq_tol(f.concurrency, 8, 1e-9);
    ck_assert_double_eq_tol(f.requests_per_s, 1600 / 73.0, 1e-9);
}
END_TEST

START_TEST(a_stall_of_2_s_shows_in_the_times_from_due_alone) {
    /* One stream at a time in an open loop: what was due meanwhile waits behind the stall. */
    struct script script = plain;
    script.stall_from_ns = S(1);
    script.stall_to_ns = S(3);
    struct level_spec spec = make(PROFILE_CONSTANT, 1, 2, 10);
    struct figures f = run(&spec, &script, 2);
    ck_assert_uint_le(f.ttft.p90, MS(60));
    ck_assert_uint_eq(f.ttft_due.max, S(2));
    ck_assert_uint_eq(f.ttft_due.p90, MS(1415)); /* due at 2 s: the third behind the stall */
    ck_assert_uint_eq(f.late_max_ns, MS(1500));
    ck_assert(f.marks & MARK_LATE);
}
END_TEST

START_TEST(a_warm_up_is_not_measured) {
    struct script script = plain;
    script.slow_every = 1000; /* the first request alone */
    script.slow_ns = S(2);
    struct level_spec spec = make(PROFILE_CONSTANT, 100, 2, 10);
    struct figures f = run(&spec, &script, 2);
    ck_assert_uint_eq(f.ttft.max, S(2));
    spec.warmup_ns = S(3);
    f = run(&spec, &script, 2);
    ck_assert_uint_eq(f.n_sent, 14);
    ck_assert_uint_eq(f.ttft.max, MS(50));
    ck_assert_double_eq_tol(f.window_s, 7, 1e-9);
}
END_TEST

START_TEST(unfinished_requests_are_counted_and_bound_the_percentiles) {
    struct script script = plain;
    script.silent_every = 2;
    struct level_spec spec = make(PROFILE_CONSTANT, 100, 2, 5);
    spec.drain_ns = S(1);
    struct figures f = run(&spec, &script, 2);
    ck_assert_uint_eq(f.n_ok, 5);
    ck_assert_uint_eq(f.n_incomplete, 5);
    ck_assert_uint_eq(f.latency.max, MS(365));
    ck_assert_uint_eq(f.latency_due.max, S(6)); /* the first waited 5 s and the drain */
    ck_assert_uint_eq(f.ttft_due.n, 10);
    assert_marks(&f, "OI");
}
END_TEST

START_TEST(every_fault_is_counted_by_its_kind) {
    static const enum fault faults[] = {FAULT_REFUSED,   FAULT_TLS,   FAULT_STATUS, FAULT_CUT,
                                        FAULT_MALFORMED, FAULT_EVENT, FAULT_MODEL};
    for (unsigned i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct script script = plain;
        script.fault = faults[i];
        script.fault_every = 5;
        struct level_spec spec = make(PROFILE_CONSTANT, 100, 2, 5);
        struct figures f = run(&spec, &script, 2);
        ck_assert_uint_eq(f.n_failed, 2);
        ck_assert_uint_eq(f.n_faults[faults[i]], 2);
        ck_assert_uint_eq(f.n_ok, 8);
        ck_assert(f.marks & MARK_FAILED);
    }
}
END_TEST

START_TEST(silence_and_slow_drips_end_at_their_limits) {
    struct script script = plain;
    script.silent_every = 1;
    struct level_spec spec = make(PROFILE_CONCURRENT, 2, 0, 0);
    spec.schedule.n_requests = 2;
    spec.silence_ns = S(3);
    struct figures f = run(&spec, &script, 0);
    ck_assert_uint_eq(f.n_faults[FAULT_SILENT], 2);
    ck_assert_double_eq_tol(f.window_s, 3, 0.11);
    script = plain;
    script.itl_ns = S(2); /* a drip, never silent for 3 s */
    spec.timeout_ns = S(10);
    f = run(&spec, &script, 0);
    ck_assert_uint_eq(f.n_faults[FAULT_TIMEOUT], 2);
    ck_assert_double_eq_tol(f.window_s, 10, 0.11);
}
END_TEST

START_TEST(an_endless_stream_is_cancelled) {
    struct script script = plain;
    script.endless = true;
    struct level_spec spec = make(PROFILE_SYNCHRONOUS, 1, 0, 0);
    spec.schedule.n_requests = 1;
    struct figures f = run(&spec, &script, 0);
    ck_assert_uint_eq(f.n_faults[FAULT_ENDLESS], 1);
    ck_assert_double_lt(f.window_s, 2);
}
END_TEST

START_TEST(usage_is_checked_against_what_was_counted) {
    struct level_spec spec = make(PROFILE_SYNCHRONOUS, 1, 0, 0);
    spec.schedule.n_requests = 2;
    struct script script = plain;
    script.usage_off = 1; /* 33 of 32 asked */
    struct figures f = run(&spec, &script, 0);
    ck_assert_uint_eq(f.n_faults[FAULT_USAGE], 2);
    script.usage_off = -5; /* 27, and 32 chunks came */
    f = run(&spec, &script, 0);
    ck_assert_uint_eq(f.n_faults[FAULT_USAGE], 2);
    script.usage_off = 0;
    script.n_cached = 65; /* of 64 */
    f = run(&spec, &script, 0);
    ck_assert_uint_eq(f.n_faults[FAULT_USAGE], 2);
}
END_TEST

START_TEST(marks_say_what_a_row_is_not) {
    struct level_spec spec = make(PROFILE_SYNCHRONOUS, 1, 0, 0);
    spec.schedule.n_requests = 4;
    struct script script = plain;
    script.n_tokens = 20;
    script.finish = FINISH_STOP;
    struct figures f = run(&spec, &script, 0);
    assert_marks(&f, "S");
    ck_assert_uint_eq(f.output_min, 20);
    script.finish = FINISH_LENGTH;
    f = run(&spec, &script, 0);
    assert_marks(&f, "SX");
    script = plain;
    script.prompt_off = 3;
    f = run(&spec, &script, 0);
    assert_marks(&f, "P");
    ck_assert_double_eq(f.prompt_mean, 67);
    script = plain;
    script.n_cached = 32;
    f = run(&spec, &script, 0);
    assert_marks(&f, "C");
    ck_assert_double_eq(f.cached_share, 0.5);
    script = plain;
    script.no_usage = true;
    f = run(&spec, &script, 0);
    assert_marks(&f, "U");
    script = plain;
    script.send_late_ns = MS(11);
    f = run(&spec, &script, 0);
    assert_marks(&f, "L");
    ck_assert_uint_eq(f.ttft.p50, MS(50));
    ck_assert_uint_eq(f.ttft_due.p50, MS(61));
}
END_TEST

START_TEST(a_server_that_holds_few_at_a_time_is_marked) {
    struct level_spec spec = make(PROFILE_THROUGHPUT, 40, 0, 0);
    struct script script = plain;
    spec.schedule.n_requests = 40;
    struct figures f = run(&spec, &script, 0);
    assert_marks(&f, "");
    script.n_slots = 8;
    f = run(&spec, &script, 0);
    assert_marks(&f, "K");
    script.n_slots = 40; /* enough for all */
    f = run(&spec, &script, 0);
    assert_marks(&f, "");
    /* One prompt after the other, and no other limit: first tokens go on coming. */
    spec = make(PROFILE_THROUGHPUT, 40, 0, 0);
    spec.schedule.n_requests = 40;
    script = plain;
    script.prefill_ns = MS(50);
    f = run(&spec, &script, 0);
    assert_marks(&f, "");
    ck_assert_uint_eq(f.ttft.max, S(2));
}
END_TEST

START_TEST(a_servers_own_count_of_preemptions_is_a_mark) {
    struct level_spec spec = make(PROFILE_SYNCHRONOUS, 1, 0, 0);
    struct level level;
    struct figures f;
    spec.schedule.n_requests = 4;
    virtual_run(&level, &spec, &plain);
    level.n_preempted = 1;
    ck_assert_int_eq(figures_make(&f, &level, 0, &(struct slo){0}), STATUS_OK);
    assert_marks(&f, "K");
    level_fini(&level);
}
END_TEST

START_TEST(several_tokens_in_a_chunk_keep_the_true_itl) {
    struct script script = plain; /* guidellm 0.1 and pooled gaps see half the tokens */
    script.chunk_tokens = 2;
    script.itl_ns = MS(20);
    struct level level;
    struct level_spec spec = make(PROFILE_SYNCHRONOUS, 1, 0, 0);
    spec.schedule.n_requests = 5;
    virtual_run(&level, &spec, &script);
    struct figures f;
    struct figures_sweep columns;
    ck_assert_int_eq(figures_make(&f, &level, 0, &no_slo), STATUS_OK);
    figures_sweep(&columns, &level);
    ck_assert_uint_eq(f.itl.p50, MS(300) / 31); /* 15 gaps of 20 ms for 31 tokens */
    ck_assert_double_eq_tol(columns.itl_ms, 20, 1e-9);
    ck_assert_double_eq_tol(columns.tokens_per_s, 16 / 0.355, 1e-9);
    ck_assert_double_eq_tol(f.output_tokens_per_s, 32 / 0.355, 1e-9);
    level_fini(&level);
}
END_TEST

START_TEST(a_role_chunk_is_no_token_but_guidellm_0_1_took_it_for_one) {
    struct script script = plain;
    script.role_first = true;
    script.role_ns = MS(2);
    struct level level;
    struct level_spec spec = make(PROFILE_SYNCHRONOUS, 1, 0, 0);
    spec.schedule.n_requests = 5;
    virtual_run(&level, &spec, &script);
    struct figures f;
    struct figures_sweep columns;
    ck_assert_int_eq(figures_make(&f, &level, 0, &no_slo), STATUS_OK);
    figures_sweep(&columns, &level);
    ck_assert_uint_eq(f.ttft.p50, MS(50));
    ck_assert_double_eq_tol(columns.ttft_ms, 2, 1e-9);
    ck_assert_double_eq_tol(columns.itl_ms, 358 / 32.0, 1e-9);
    ck_assert_double_eq_tol(columns.tokens_per_s, 33 / 0.365, 1e-9);
    level_fini(&level);
}
END_TEST

START_TEST(sweep_columns_drop_what_was_unfinished_and_start_with_the_first_to_complete) {
    struct script script = plain;
    script.slow_every = 4; /* requests 0, 4, 8, ... take 6 s to the first token */
    script.slow_ns = S(6);
    struct level level;
    struct level_spec spec = make(PROFILE_CONSTANT, 100, 2, 5);
    virtual_run(&level, &spec, &script);
    struct figures f;
    struct figures_sweep columns;
    ck_assert_int_eq(figures_make(&f, &level, 2, &no_slo), STATUS_OK);
    figures_sweep(&columns, &level);
    ck_assert_uint_eq(f.n_ok, 10); /* all, in the drain too */
    /* Requests 1, 2, 3, 5, 6, 7, 9: from the sending of 1 at 0.5 s to the end of 9 at 4.865 s. */
    ck_assert_double_eq_tol(columns.requests_per_s, 7 / 4.365, 1e-9);
    ck_assert_double_eq_tol(columns.tokens_per_s, 7 * 32 / 4.365, 1e-9);
    ck_assert_double_eq_tol(columns.latency_s, 0.365, 1e-9);
    ck_assert_double_eq_tol(columns.ttft_ms, 50, 1e-9);
    ck_assert_double_eq_tol(f.requests_per_s, 7 / 5.0, 1e-9);
    ck_assert_uint_eq(f.latency.max, MS(6315));
    level_fini(&level);
    script.slow_ns = S(1); /* request 0 ends behind request 1, which was sent 0.5 s later */
    virtual_run(&level, &spec, &script);
    figures_sweep(&columns, &level);
    ck_assert_double_eq_tol(columns.requests_per_s, 9 / 4.365, 1e-9);
    level_fini(&level);
}
END_TEST

START_TEST(sweep_columns_are_zero_where_nothing_completed) {
    struct script script = plain;
    script.silent_every = 1;
    struct level level;
    struct level_spec spec = make(PROFILE_CONSTANT, 100, 2, 5);
    virtual_run(&level, &spec, &script);
    struct figures_sweep columns;
    figures_sweep(&columns, &level);
    ck_assert_double_eq(columns.requests_per_s, 0);
    ck_assert_double_eq(columns.ttft_ms, 0);
    level_fini(&level);
}
END_TEST

static void run_cell(struct level *alone, struct level *burst, const struct script *script) {
    struct level_spec spec = make(PROFILE_SYNCHRONOUS, 1, 0, 0);
    spec.schedule.n_requests = 10;
    virtual_run(alone, &spec, script);
    spec = make(PROFILE_THROUGHPUT, 1000, 0, 0);
    spec.schedule.n_requests = 50;
    virtual_run(burst, &spec, script);
}

START_TEST(grid_columns_are_whole_times_over_tokens) {
    struct level alone, burst;
    struct figures_grid columns;
    run_cell(&alone, &burst, &plain);
    figures_grid(&columns, &alone, &burst, 50, false);
    ck_assert_double_eq_tol(columns.ms_per_token, 365 / 96.0, 1e-9);
    ck_assert_double_eq_tol(columns.ms_per_output_token, 365 / 32.0, 1e-9);
    ck_assert_double_eq_tol(columns.requests_per_s, 50 / 0.365, 1e-9);
    ck_assert_double_eq_tol(columns.tokens_per_s, 50 * 32 / 0.365, 1e-9);
    struct figures f;
    ck_assert_int_eq(figures_make(&f, &burst, 0, &no_slo), STATUS_OK);
    /* Tokens come at 50, 60 .. 360 ms: 10 % are there at 80 ms, 90 % at 330 ms. */
    ck_assert_double_eq_tol(f.steady_tokens_per_s, 0.8 * 1600 / 0.25, 1e-9);
    level_fini(&alone);
    level_fini(&burst);
}
END_TEST

START_TEST(grid_compat_credits_tokens_and_requests_that_never_came) {
    struct level alone, burst;
    struct figures_grid honest, compat;
    struct script script = plain;
    script.n_tokens = 16; /* stops early: 205 ms */
    script.finish = FINISH_STOP;
    run_cell(&alone, &burst, &script);
    figures_grid(&honest, &alone, &burst, 399, false);
    figures_grid(&compat, &alone, &burst, 399, true);
    ck_assert_double_eq_tol(honest.ms_per_output_token, 205 / 16.0, 1e-9);
    ck_assert_double_eq_tol(compat.ms_per_output_token, 205 / 32.0, 1e-9);
    ck_assert_double_eq_tol(honest.tokens_per_s, 50 * 16 / 0.205, 1e-9);
    ck_assert_double_eq_tol(compat.tokens_per_s, 399 * 32 / 0.205, 1e-9);
    ck_assert_double_eq_tol(compat.requests_per_s, 399 / 0.205, 1e-9);
    level_fini(&alone);
    level_fini(&burst);
}
END_TEST

START_TEST(the_slo_and_goodput_judge_from_the_due_time) {
    struct level level;
    struct level_spec spec = make(PROFILE_CONSTANT, 100, 2, 10);
    struct script script = plain;
    script.slow_every = 4;
    script.slow_ns = MS(600);
    virtual_run(&level, &spec, &script);
    struct figures f;
    struct slo slo = {.ttft_p99_ns = MS(500), .itl_p99_ns = MS(50)};
    ck_assert_int_eq(figures_make(&f, &level, 2, &slo), STATUS_OK);
    ck_assert(!f.slo_held);
    ck_assert_double_eq_tol(f.goodput_per_s, 15 / 10.0, 1e-9); /* 5 of 20 are slow */
    slo.ttft_p99_ns = MS(600);
    ck_assert_int_eq(figures_make(&f, &level, 2, &slo), STATUS_OK);
    ck_assert(f.slo_held);
    slo.itl_p99_ns = MS(10) - 1;
    ck_assert_int_eq(figures_make(&f, &level, 2, &slo), STATUS_OK);
    ck_assert(!f.slo_held);
    level_fini(&level);
}
END_TEST

START_TEST(the_knee_is_the_last_level_before_rate_or_ttft_give_way) {
    struct figures f[4] = {0};
    static const double asked[] = {1, 2, 3, 4};
    for (int i = 0; i < 4; i++)
        f[i] =
            (struct figures){.n_ok = 10, .requests_per_s = asked[i], .ttft_due = {.p99 = MS(50)}};
    ck_assert_int_eq(figures_knee(f, asked, 4), 3);
    f[3].requests_per_s = 3.5;
    ck_assert_int_eq(figures_knee(f, asked, 4), 2);
    f[2].ttft_due.p99 = MS(201);
    ck_assert_int_eq(figures_knee(f, asked, 4), 1);
    f[0].n_ok = 0;
    ck_assert_int_eq(figures_knee(f, asked, 4), -1);
}
END_TEST

START_TEST(rates_of_a_sweep_lie_between_one_at_a_time_and_all_at_once) {
    static const struct {
        double alone, burst;       /* completed in the level, per second */
        uint32_t n_alone, n_burst; /* with the drain, which ends after 10 s */
        double low, high;
    } cases[] = {
        {8, 20, 40, 100, 8, 20}, {8, 8.001, 40, 100, 8, 8.001},
        {8, 8, 40, 100, 8, 10}, /* the burst's drain */
        {8, 0, 40, 100, 8, 10},  {8, 0, 40, 81, 8, 8.1},
        {8, 0, 40, 80, 0, 8}, /* no more than one at a time */
        {8, 0, 40, 0, 0, 8},     {0, 0, 1, 4, 0.1, 0.4},
        {0, 0, 1, 0, 0, 0.1},    {0, 2, 0, 20, 0, 2},
        {0, 0, 0, 0, 0, 0},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct figures alone = {.requests_per_s = cases[i].alone, .n_ok = cases[i].n_alone};
        struct figures burst = {.requests_per_s = cases[i].burst, .n_ok = cases[i].n_burst};
        alone.timeline_s = burst.timeline_s = 10;
        struct figures_span span = figures_span(&alone, &burst);
        ck_assert_double_eq_tol(span.low, cases[i].low, 1e-9);
        ck_assert_double_eq_tol(span.high, cases[i].high, 1e-9);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_synchronous_level_has_the_times_of_its_server_exactly);
    tcase_add_test(tests, a_constant_level_sends_evenly_from_its_begin);
    tcase_add_test(tests, poisson_gaps_are_exponential_and_repeat_with_their_seed);
    tcase_add_test(tests, a_ramp_grows_from_its_first_rate_to_its_last);
    tcase_add_test(tests, a_trace_is_replayed_at_its_times_with_its_lengths);
    tcase_add_test(tests, a_concurrent_level_keeps_its_streams_busy);
    tcase_add_test(tests, a_stall_of_2_s_shows_in_the_times_from_due_alone);
    tcase_add_test(tests, a_warm_up_is_not_measured);
    tcase_add_test(tests, unfinished_requests_are_counted_and_bound_the_percentiles);
    tcase_add_test(tests, every_fault_is_counted_by_its_kind);
    tcase_add_test(tests, silence_and_slow_drips_end_at_their_limits);
    tcase_add_test(tests, an_endless_stream_is_cancelled);
    tcase_add_test(tests, usage_is_checked_against_what_was_counted);
    tcase_add_test(tests, marks_say_what_a_row_is_not);
    tcase_add_test(tests, a_server_that_holds_few_at_a_time_is_marked);
    tcase_add_test(tests, a_servers_own_count_of_preemptions_is_a_mark);
    tcase_add_test(tests, several_tokens_in_a_chunk_keep_the_true_itl);
    tcase_add_test(tests, a_role_chunk_is_no_token_but_guidellm_0_1_took_it_for_one);
    tcase_add_test(tests,
                   sweep_columns_drop_what_was_unfinished_and_start_with_the_first_to_complete);
    tcase_add_test(tests, sweep_columns_are_zero_where_nothing_completed);
    tcase_add_test(tests, grid_columns_are_whole_times_over_tokens);
    tcase_add_test(tests, grid_compat_credits_tokens_and_requests_that_never_came);
    tcase_add_test(tests, the_slo_and_goodput_judge_from_the_due_time);
    tcase_add_test(tests, the_knee_is_the_last_level_before_rate_or_ttft_give_way);
    tcase_add_test(tests, rates_of_a_sweep_lie_between_one_at_a_time_and_all_at_once);
}
