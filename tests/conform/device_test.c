/* The contract of kernels/cuda/device.h, on every member that opens a device here: memory, streams, events, graphs,
 * failures. device_kernels_test.c has the kernels. */
#include "tests/support/device_members.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

const char *const suite_name = "conform_device";
const double suite_timeout_s = 120;

#define N 1000

static bool is_all(const unsigned char *bytes, unsigned char byte, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != byte)
            return false;
    return true;
}

START_TEST(it_tells_what_it_is) {
    device_member_open(_i);
    struct device_facts facts;
    kind->facts(device, &facts);
    ck_assert(facts.name[0] != '\0' && memchr(facts.name, '\0', sizeof facts.name));
    ck_assert(facts.n_sms > 0 && facts.capability >= 80 && facts.shared_bytes >= 48 * 1024);
    ck_assert(facts.total_bytes >= kind->free_bytes(device));
    device_member_close();
}
END_TEST

START_TEST(a_device_that_is_not_there_is_refused_with_a_reason) {
    struct device *none = NULL;
    struct error error = {.text = ""};
    ck_assert_int_eq(device_members[_i].kind->open(1000, &none, &error), STATUS_UNSUPPORTED);
    ck_assert(none == NULL && error.text[0] != '\0');
}
END_TEST

START_TEST(memory_is_zeroed_and_aligned_each_time) {
    device_member_open(_i);
    unsigned char got[3000];
    for (int round = 0; round < 3; round++) {
        void *pieces[8];
        for (size_t k = 0; k < 8; k++) {
            size_t n = 1 + k * 401;
            pieces[k] = kind->alloc(device, n);
            ck_assert_ptr_nonnull(pieces[k]);
            ck_assert_uint_eq((uintptr_t)pieces[k] % 256, 0);
            device_member_down(got, pieces[k], n);
            ck_assert(is_all(got, 0, n));
            kind->fill(stream, pieces[k], 0xa5, n);
        }
        for (size_t k = 0; k < 8; k++) { /* and none lies over another */
            device_member_down(got, pieces[k], 1 + k * 401);
            ck_assert(is_all(got, 0xa5, 1 + k * 401));
            kind->dealloc(device, pieces[k]);
        }
    }
    kind->dealloc(device, NULL);
    device_member_close();
}
END_TEST

START_TEST(more_memory_than_there_is_is_NULL_and_nothing_else) {
    device_member_open(_i);
    struct device_facts facts;
    kind->facts(device, &facts);
    uint64_t before = kind->free_bytes(device);
    ck_assert_ptr_null(kind->alloc(device, facts.total_bytes + 1));
    ck_assert_ptr_null(kind->failure(device));
    void *large = kind->alloc(device, 64 << 20);
    ck_assert_ptr_nonnull(large);
    ck_assert(kind->free_bytes(device) <= before - (64 << 20));
    kind->dealloc(device, large);
    ck_assert_int_eq(kind->wait(stream), STATUS_OK);
    device_member_close();
}
END_TEST

START_TEST(work_is_done_in_its_order) {
    device_member_open(_i);
    float *pinned = kind->pinned_alloc(device, 2 * N * sizeof(float));
    float *a = kind->alloc(device, N * sizeof(float)), *b = kind->alloc(device, N * sizeof(float));
    for (int i = 0; i < N; i++)
        pinned[i] = (float)i;
    kind->copy_in(stream, a, pinned, N * sizeof(float));
    kind->copy(stream, b, a, N * sizeof(float));
    kernels->add(stream, b, a, b, N); /* 2 i */
    kind->fill(stream, a, 0, N / 2 * sizeof(float));
    kernels->add(stream, b, a, b, N);    /* 2 i or 3 i */
    kind->copy_in(stream, a, pinned, 0); /* nothing */
    kind->copy_out(stream, pinned + N, b, N * sizeof(float));
    ck_assert_int_eq(kind->wait(stream), STATUS_OK);
    for (int i = 0; i < N; i++)
        ck_assert(pinned[N + i] == (i < N / 2 ? 2.0f : 3.0f) * (float)i);
    kind->pinned_free(device, pinned);
    kind->pinned_free(device, NULL);
    device_member_close();
}
END_TEST

START_TEST(copies_and_fills_touch_their_bytes_alone) {
    device_member_open(_i);
    unsigned char got[256], want[256];
    unsigned char *memory = kind->alloc(device, sizeof got);
    unsigned char *pinned = kind->pinned_alloc(device, 8);
    memcpy(pinned, "abcdefgh", 8);
    kind->fill(stream, memory + 3, 0x11, 5);
    kind->copy_in(stream, memory + 101, pinned + 1, 3);
    kind->copy(stream, memory + 201, memory + 102, 2);
    device_member_down(got, memory, sizeof got);
    memset(want, 0, sizeof want);
    memset(want + 3, 0x11, 5);
    memcpy(want + 101, "bcd", 3);
    memcpy(want + 201, "cd", 2);
    ck_assert_mem_eq(got, want, sizeof got);
    kind->pinned_free(device, pinned);
    device_member_close();
}
END_TEST

START_TEST(freeing_a_stream_waits_for_it) {
    device_member_open(_i);
    unsigned char *memory = kind->alloc(device, N), *pinned = kind->pinned_alloc(device, N);
    struct device_stream *other = kind->stream_make(device);
    kind->fill(other, memory, 0x77, N);
    kind->copy_out(other, pinned, memory, N);
    kind->stream_free(other);
    kind->stream_free(NULL);
    ck_assert(is_all(pinned, 0x77, N));
    kind->pinned_free(device, pinned);
    device_member_close();
}
END_TEST

START_TEST(an_event_is_done_when_what_was_before_it_is) {
    device_member_open(_i);
    unsigned char *memory = kind->alloc(device, N), *pinned = kind->pinned_alloc(device, N);
    struct device_event *event = kind->event_make(device);
    ck_assert(kind->event_done(event)); /* never recorded */
    for (unsigned char round = 1; round < 20; round++) {
        for (int k = 0; k < 10; k++)
            kind->fill(stream, memory, (unsigned char)(round + k), N);
        kind->fill(stream, memory, round, N);
        kind->copy_out(stream, pinned, memory, N);
        kind->event_record(event, stream);
        kind->fill(stream, memory, 0, N);
        while (!kind->event_done(event))
            ;
        ck_assert(is_all(pinned, round, N));
        ck_assert(kind->event_done(event)); /* and stays so */
    }
    kind->event_free(event);
    kind->event_free(NULL);
    kind->pinned_free(device, pinned);
    device_member_close();
}
END_TEST

START_TEST(an_event_orders_two_streams) {
    device_member_open(_i);
    struct device_stream *other = kind->stream_make(device);
    struct device_event *event = kind->event_make(device), *back = kind->event_make(device);
    uint32_t *count = kind->alloc(device, 4), *pinned = kind->pinned_alloc(device, 16 * 4);
    for (uint32_t round = 0; round < 16; round++) { /* back and forth */
        kernels->count(stream, count, 50);
        kind->event_record(event, stream);
        kind->event_order(other, event);
        kind->copy_out(other, pinned + round, count, 4);
        kernels->count(other, count, 1);
        kind->event_record(back, other);
        kind->event_order(stream, back);
    }
    ck_assert_int_eq(kind->wait(other), STATUS_OK);
    for (uint32_t round = 0; round < 16; round++)
        ck_assert_uint_eq(pinned[round], 51 * round + 50);
    kind->event_free(back);
    kind->event_free(event);
    kind->stream_free(other);
    kind->pinned_free(device, pinned);
    device_member_close();
}
END_TEST

START_TEST(an_order_holds_for_the_record_that_was_there) {
    device_member_open(_i);
    struct device_stream *other = kind->stream_make(device);
    struct device_event *event = kind->event_make(device);
    uint32_t *count = kind->alloc(device, 4), *pinned = kind->pinned_alloc(device, 4);
    kernels->count(stream, count, 7);
    kind->event_record(event, stream);
    kind->event_order(other, event);
    kind->copy_out(other, pinned, count, 4);
    kind->event_record(event, other); /* the event goes on elsewhere */
    while (!kind->event_done(event))
        ;
    ck_assert_uint_eq(pinned[0], 7);
    kind->event_free(event);
    kind->stream_free(other);
    kind->pinned_free(device, pinned);
    device_member_close();
}
END_TEST

START_TEST(an_event_asks_for_its_last_record_alone) {
    device_member_open(_i);
    struct device_stream *other = kind->stream_make(device);
    struct device_event *event = kind->event_make(device);
    unsigned char *memory = kind->alloc(device, N);
    kind->fill(stream, memory, 1, N);
    kind->event_record(event, stream);
    kind->event_record(event, other);
    while (!kind->event_done(event))
        ;
    ck_assert_int_eq(kind->wait(stream), STATUS_OK); /* the earlier record comes last */
    ck_assert(kind->event_done(event));
    kind->event_free(event);
    kind->stream_free(other);
    device_member_close();
}
END_TEST

START_TEST(time_lies_between_two_events) {
    device_member_open(_i);
    struct device_event *events[3];
    uint32_t *count = kind->alloc(device, 4);
    for (int i = 0; i < 3; i++) {
        events[i] = kind->event_make(device);
        kernels->count(stream, count, 200);
        kind->event_record(events[i], stream);
    }
    ck_assert_int_eq(kind->wait(stream), STATUS_OK);
    float first = kind->event_ms(events[0], events[1]),
          second = kind->event_ms(events[1], events[2]);
    float both = kind->event_ms(events[0], events[2]);
    ck_assert(first > 0.0f && second > 0.0f && both < 60e3f);
    ck_assert(both > 0.9f * (first + second) && both < 1.1f * (first + second));
    for (int i = 0; i < 3; i++)
        kind->event_free(events[i]);
    device_member_close();
}
END_TEST

START_TEST(a_graph_does_later_what_was_recorded) {
    device_member_open(_i);
    uint32_t *count = kind->alloc(device, 4), got;
    uint32_t *pinned = kind->pinned_alloc(device, 8);
    kind->graph_begin(stream);
    kernels->count(stream, count, 3);
    kernels->count(stream, count, 2);
    kind->copy_in(stream, count + 0, pinned, 0);
    kind->copy_out(stream, pinned, count, 4);
    struct device_graph *graph = kind->graph_end(stream);
    ck_assert_ptr_nonnull(graph);
    device_member_down(&got, count, 4);
    ck_assert_uint_eq(got, 0);
    for (uint32_t round = 1; round <= 3; round++) {
        kind->graph_launch(graph, stream);
        kernels->count(stream, count, 1);
        ck_assert_int_eq(kind->wait(stream), STATUS_OK);
        ck_assert_uint_eq(pinned[0], 6 * round - 1);
    }
    kind->graph_launch(graph, stream);
    ck_assert_int_eq(kind->wait(stream), STATUS_OK);
    kind->graph_free(graph);
    kind->graph_free(NULL);
    device_member_down(&got, count, 4);
    ck_assert_uint_eq(got, 23);
    kind->pinned_free(device, pinned);
    device_member_close();
}
END_TEST

/* What a rule of graphs forbids. */
static void break_by_waiting(struct device_event *event) {
    (void)event;
    (void)!kind->wait(stream);
}
static void break_by_allocating(struct device_event *event) {
    (void)event;
    (void)!kind->alloc(device, 64);
}
static void break_by_pinning(struct device_event *event) {
    (void)event;
    (void)!kind->pinned_alloc(device, 64);
}
static void break_by_asking(struct device_event *event) {
    (void)kind->event_done(event);
}
static void break_by_nesting(struct device_event *event) {
    (void)event;
    kind->graph_begin(stream);
}
static void (*const breakers[])(struct device_event *event) = {
    break_by_waiting, break_by_allocating, break_by_pinning, break_by_asking, break_by_nesting};

START_TEST(a_broken_recording_is_NULL_and_the_device_goes_on) {
    device_member_open(_i);
    uint32_t *count = kind->alloc(device, 4), got;
    struct device_event *event = kind->event_make(device);
    kind->event_record(event, stream);
    ck_assert_int_eq(kind->wait(stream), STATUS_OK);
    for (size_t k = 0; k < sizeof breakers / sizeof breakers[0]; k++) {
        kind->graph_begin(stream);
        kernels->count(stream, count, 100);
        breakers[k](event);
        ck_assert_msg(kind->graph_end(stream) == NULL, "breaker %zu", k);
        ck_assert_ptr_null(kind->failure(device));
    }
    kind->graph_begin(stream);
    kernels->count(stream, count, 4);
    struct device_graph *graph = kind->graph_end(stream);
    ck_assert_ptr_nonnull(graph);
    kind->graph_launch(graph, stream);
    device_member_down(&got, count, 4);
    ck_assert_uint_eq(got, 4);
    kind->graph_free(graph);
    kind->event_free(event);
    device_member_close();
}
END_TEST

START_TEST(the_first_failure_stays) {
    device_member_open(_i);
    float *out = kind->alloc(device, 64);
    unsigned char *pinned = kind->pinned_alloc(device, 64);
    struct device_event *event = kind->event_make(device);
    ck_assert_ptr_null(kind->failure(device));
    kernels->too_many_threads(stream, out);
    ck_assert_int_eq(kind->wait(stream), STATUS_IO);
    const char *first = kind->failure(device);
    ck_assert(first && first[0] != '\0');
    char kept[256];
    snprintf(kept, sizeof kept, "%s", first);
    memset(pinned, 3, 64);
    kind->fill(stream, out, 9, 64);
    kind->copy_out(stream, pinned, out, 64);
    kind->event_record(event, stream);
    ck_assert(kind->event_done(event));
    ck_assert_int_eq(kind->wait(stream), STATUS_IO);
    ck_assert(is_all(pinned, 3, 64)); /* nothing is computed any more */
    ck_assert_str_eq(kind->failure(device), kept);
    kind->event_free(event);
    kind->pinned_free(device, pinned);
    device_member_close();
}
END_TEST

#define N_THREADS 4
#define N_ROUNDS  50

static void *count_in_a_thread(void *result) {
    kind->use(device);
    struct device_stream *own = kind->stream_make(device);
    uint32_t *count = kind->alloc(device, 4), *pinned = kind->pinned_alloc(device, 4);
    struct device_event *event = kind->event_make(device);
    for (int round = 0; round < N_ROUNDS; round++) {
        kernels->count(own, count, 3);
        kind->copy_out(own, pinned, count, 4);
        kind->event_record(event, own);
        while (!kind->event_done(event))
            ;
        *(uint32_t *)result += pinned[0] == 3u * (uint32_t)(round + 1);
    }
    kind->event_free(event);
    kind->stream_free(own);
    kind->pinned_free(device, pinned);
    kind->dealloc(device, count);
    return NULL;
}

START_TEST(threads_have_streams_of_their_own) {
    device_member_open(_i);
    pthread_t threads[N_THREADS];
    uint32_t n_right[N_THREADS] = {0};
    for (int i = 0; i < N_THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, count_in_a_thread, &n_right[i]), 0);
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_uint_eq(n_right[i], N_ROUNDS);
    }
    ck_assert_ptr_null(kind->failure(device));
    device_member_close();
}
END_TEST

/* Own memory never lies where the other device's does, beside what is reached there: not even a piece so large that it is looked for
 * from the first gap on. */
START_TEST(own_memory_lies_apart_from_what_is_reached) {
    enum { LARGE = 17 << 20 };
    device_member_open(_i);
    unsigned char got[N];
    struct device *other;
    struct error error;
    if (kind->open(1, &other, &error) != STATUS_OK)
        ck_assert_int_eq(kind->open(0, &other, &error), STATUS_OK);
    kind->use(other);
    struct device_stream *others = kind->stream_make(other);
    unsigned char *theirs = kind->alloc(other, N), *beside = kind->alloc(other, N);
    ck_assert(others && theirs && beside);
    kind->fill(others, beside, 0x22, N);
    ck_assert_int_eq(kind->wait(others), STATUS_OK);
    kind->use(device);
    unsigned char *reached = kind->reach(device, other, theirs);
    unsigned char *own = kind->alloc(device, LARGE);
    ck_assert_ptr_nonnull(own);
    kind->fill(stream, own, 0x11, LARGE);
    ck_assert_int_eq(kind->wait(stream), STATUS_OK);
    kind->use(other);
    unsigned char *pinned = kind->pinned_alloc(other, N);
    kind->copy_out(others, pinned, beside, N);
    ck_assert_int_eq(kind->wait(others), STATUS_OK);
    memcpy(got, pinned, N);
    ck_assert(is_all(got, 0x22, N));
    kind->pinned_free(other, pinned);
    kind->use(device);
    kind->dealloc(device, own);
    if (reached)
        kind->unreach(device, reached);
    ck_assert_ptr_null(kind->failure(device));
    kind->use(other);
    kind->dealloc(other, theirs);
    kind->dealloc(other, beside);
    kind->stream_free(others);
    kind->close(other);
    kind->use(device);
    device_member_close();
}
END_TEST

/* The other device is another one of the machine, where there are several; else the same, opened once more. */
START_TEST(memory_of_another_device_is_reached) {
    device_member_open(_i);
    unsigned char bytes[N], got[N];
    struct device *other;
    struct error error;
    if (kind->open(1, &other, &error) != STATUS_OK)
        ck_assert_int_eq(kind->open(0, &other, &error), STATUS_OK);
    kind->use(other);
    struct device_stream *others = kind->stream_make(other);
    unsigned char *theirs = kind->alloc(other, N);
    ck_assert(others && theirs);
    kind->fill(others, theirs, 0x5a, N);
    ck_assert_int_eq(kind->wait(others), STATUS_OK);
    kind->use(device);
    unsigned char *reached = kind->reach(device, other, theirs);
    if (!reached) {
        printf("skipped: the devices do not reach each other\n");
    } else {
        device_member_down(got, reached, N);
        ck_assert(is_all(got, 0x5a, N));
        kind->fill(stream, reached + 1, 0xa5, N - 2);
        ck_assert_int_eq(kind->wait(stream), STATUS_OK);
        kind->use(other);
        unsigned char *pinned = kind->pinned_alloc(other, N);
        kind->copy_out(others, pinned, theirs, N);
        ck_assert_int_eq(kind->wait(others), STATUS_OK);
        memcpy(bytes, pinned, N);
        kind->pinned_free(other, pinned);
        ck_assert(bytes[0] == 0x5a && is_all(bytes + 1, 0xa5, N - 2) && bytes[N - 1] == 0x5a);
        kind->use(device);
        kind->unreach(device, reached);
    }
    ck_assert_ptr_null(kind->failure(device));
    kind->use(other);
    kind->dealloc(other, theirs);
    ck_assert_ptr_null(kind->failure(other));
    kind->stream_free(others);
    kind->close(other);
    kind->use(device);
    device_member_close();
}
END_TEST

void suite_add(TCase *tests) {
    DEVICE_MEMBER_TEST(tests, it_tells_what_it_is);
    DEVICE_MEMBER_TEST(tests, a_device_that_is_not_there_is_refused_with_a_reason);
    DEVICE_MEMBER_TEST(tests, memory_is_zeroed_and_aligned_each_time);
    DEVICE_MEMBER_TEST(tests, more_memory_than_there_is_is_NULL_and_nothing_else);
    DEVICE_MEMBER_TEST(tests, work_is_done_in_its_order);
    DEVICE_MEMBER_TEST(tests, copies_and_fills_touch_their_bytes_alone);
    DEVICE_MEMBER_TEST(tests, freeing_a_stream_waits_for_it);
    DEVICE_MEMBER_TEST(tests, an_event_is_done_when_what_was_before_it_is);
    DEVICE_MEMBER_TEST(tests, an_event_orders_two_streams);
    DEVICE_MEMBER_TEST(tests, an_order_holds_for_the_record_that_was_there);
    DEVICE_MEMBER_TEST(tests, an_event_asks_for_its_last_record_alone);
    DEVICE_MEMBER_TEST(tests, time_lies_between_two_events);
    DEVICE_MEMBER_TEST(tests, a_graph_does_later_what_was_recorded);
    DEVICE_MEMBER_TEST(tests, a_broken_recording_is_NULL_and_the_device_goes_on);
    DEVICE_MEMBER_TEST(tests, the_first_failure_stays);
    DEVICE_MEMBER_TEST(tests, threads_have_streams_of_their_own);
    DEVICE_MEMBER_TEST(tests, memory_of_another_device_is_reached);
    DEVICE_MEMBER_TEST(tests, own_memory_lies_apart_from_what_is_reached);
}
