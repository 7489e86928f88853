/* What the emulated device does that no GPU promises: it is lazy, refuses what the contract forbids, and says where
 * a rule was broken. */
#include "tests/emulator/figures.h"
#include "tests/support/device_members.h"
#include "tests/support/suite.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const suite_name = "kernels_cuda_emu";
const double suite_timeout_s = 60;

static void open_device(void) {
    device_member_open(0);
}

static const char *fails(void) {
    ck_assert_int_eq(kind->wait(stream), STATUS_IO);
    ck_assert_ptr_nonnull(kind->failure(device));
    return kind->failure(device);
}

START_TEST(nothing_is_done_before_somebody_waits) {
    unsigned char *memory = kind->alloc(device, 64), *pinned = kind->pinned_alloc(device, 128);
    memset(pinned, 1, 64);
    kind->copy_in(stream, memory, pinned, 64);
    kind->copy_out(stream, pinned + 64, memory, 64);
    ck_assert_int_eq(pinned[64], 0xff); /* fresh */
    memset(pinned, 2, 64);              /* too early: this is what will arrive */
    ck_assert_int_eq(kind->wait(stream), STATUS_OK);
    ck_assert_int_eq(pinned[64], 2);
}
END_TEST

START_TEST(a_question_does_a_part_that_the_seed_chooses) {
    int n_kinds = 0, last = -1;
    device_member_close();
    for (int seed = 1; seed <= 8; seed++) {
        char text[8];
        snprintf(text, sizeof text, "%d", seed);
        setenv("EMU_SEED", text, 1);
        device_member_open(0);
        unsigned char *memory = kind->alloc(device, 64);
        struct device_event *event = kind->event_make(device);
        for (int i = 0; i < 30; i++)
            kind->fill(stream, memory, 1, 64);
        kind->event_record(event, stream);
        int n = 1;
        while (!kind->event_done(event))
            n++;
        ck_assert_int_gt(n, 5);
        n_kinds += n != last;
        last = n;
        kind->event_free(event);
        device_member_close();
    }
    ck_assert_int_gt(n_kinds, 2);
    device_member_open(0);
}
END_TEST

/* A machine takes its seed when its thread first launches. */
static void *wait_in_a_thread(void *unused) {
    (void)unused;
    kind->use(device);
    (void)!kind->wait(stream);
    return NULL;
}

START_TEST(a_seed_permutes_the_blocks) {
    int n_moved = 0;
    for (int seed = 0; seed <= 5; seed++) {
        char text[8];
        snprintf(text, sizeof text, "%d", seed);
        setenv("EMU_SEED", text, 1);
        pthread_t thread;
        uint32_t order[31], *at = kind->alloc(device, sizeof order);
        uint32_t *next = kind->alloc(device, 4);
        kernels->order(stream, at, next, 31);
        ck_assert_int_eq(pthread_create(&thread, NULL, wait_in_a_thread, NULL), 0);
        pthread_join(thread, NULL);
        device_member_down(order, at, sizeof order);
        bool moved = false;
        for (uint32_t i = 0; i < 31; i++)
            moved = moved || order[i] != i;
        ck_assert(seed > 0 || !moved);
        n_moved += moved;
    }
    ck_assert_int_ge(n_moved, 4);
}
END_TEST

START_TEST(copies_want_pinned_memory_of_the_host) {
    unsigned char *memory = kind->alloc(device, 64), plain[64];
    kind->copy_in(stream, memory, plain, 64);
    ck_assert(strstr(fails(), "from") && strstr(kind->failure(device), "not pinned memory"));
}
END_TEST

START_TEST(copies_want_pinned_memory_to_its_end) {
    unsigned char *memory = kind->alloc(device, 64), *pinned = kind->pinned_alloc(device, 63);
    kind->copy_out(stream, pinned, memory, 64);
    ck_assert(strstr(fails(), "not pinned memory"));
}
END_TEST

/* On both sides of the size from which a piece is mapped, and of more than one such mapping. */
static const size_t pinned_sizes[] = {
    1, 4097, (256 << 10) - 1, 256 << 10, 261 << 10, (512 << 10) + 1, 3 << 20};

START_TEST(fresh_pinned_memory_is_poison_to_its_end) {
    for (int again = 0; again < 2; again++) { /* what was written there before is gone */
        size_t n = pinned_sizes[_i];
        unsigned char *pinned = kind->pinned_alloc(device, n);
        for (size_t i = 0; i < n; i++)
            ck_assert_uint_eq(pinned[i], 0xff);
        memset(pinned, 0, n);
        kind->pinned_free(device, pinned);
    }
    ck_assert_ptr_null(kind->failure(device));
}
END_TEST

START_TEST(who_runs_over_large_pinned_memory_faults) {
    unsigned char *pinned = kind->pinned_alloc(device, 3 << 20);
    pinned[3 << 20] = 0;
}
END_TEST

START_TEST(copies_stay_inside_one_piece) {
    unsigned char *memory = kind->alloc(device, 256);
    (void)!kind->alloc(device, 256);
    kind->fill(stream, memory + 1, 0, 256);
    ck_assert(strstr(fails(), "not memory of the device"));
}
END_TEST

START_TEST(a_piece_that_was_given_back_is_no_memory) {
    unsigned char *memory = kind->alloc(device, 256), *other = kind->alloc(device, 256);
    kind->dealloc(device, memory);
    kind->copy(stream, other, memory, 16);
    ck_assert(strstr(fails(), "from") && strstr(kind->failure(device), "not memory of the device"));
}
END_TEST

START_TEST(what_is_given_back_twice_is_named) {
    void *memory = kind->alloc(device, 256);
    kind->dealloc(device, memory);
    kind->dealloc(device, memory);
    ck_assert(strstr(fails(), "given back is not the device's"));
}
END_TEST

static void *fill_in_a_thread(void *memory) {
    kind->fill(stream, memory, 1, 64);
    return NULL;
}

START_TEST(a_thread_that_did_not_use_the_device_is_refused) {
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, fill_in_a_thread, kind->alloc(device, 64)), 0);
    pthread_join(thread, NULL);
    ck_assert(strstr(fails(), "did not use()"));
}
END_TEST

START_TEST(a_copy_arrives_at_its_wait_and_not_before) {
    uint32_t in[4] = {1, 2, 3, 4}, out[4];
    uint32_t *at = kind->alloc(device, sizeof out);
    kernels->late(stream, at, device_member_up(in, sizeof in));
    device_member_down(out, at, sizeof out);
    ck_assert_uint_eq(out[0], 0xffffffffu);
    ck_assert_uint_eq(out[1], 3);
}
END_TEST

START_TEST(bank_conflicts_are_counted) {
    struct emu_figures before, after;
    void *out = kind->alloc(device, 512);
    emu_figures_now(&before);
    kernels->matrices(stream, out, 16); /* rows side by side: all banks */
    ck_assert_int_eq(kind->wait(stream), STATUS_OK);
    emu_figures_now(&after);
    ck_assert_uint_eq(after.n_ldmatrix - before.n_ldmatrix, 4);
    ck_assert_uint_eq(after.n_bank_conflicts - before.n_bank_conflicts, 0);
    kernels->matrices(stream, out, 128); /* all rows in the same banks: 8 passes for 1 */
    ck_assert_int_eq(kind->wait(stream), STATUS_OK);
    emu_figures_now(&before);
    ck_assert_uint_eq(before.n_bank_conflicts - after.n_bank_conflicts, 4 * 7);
    ck_assert_uint_eq(before.n_launches - after.n_launches, 1);
    ck_assert_uint_eq(before.n_threads - after.n_threads, 32);
}
END_TEST

START_TEST(blocks_that_wait_for_later_ones_are_named) {
    void *out = kind->alloc(device, 4), *flags = kind->alloc(device, 64);
    kernels->relay(stream, out, flags, 4, false);
    ck_assert(strstr(fails(), "waits for a value that nobody writes"));
    ck_assert(strstr(kind->failure(device), "gpu_launch_together()"));
}
END_TEST

START_TEST(only_so_many_blocks_are_alive_together) {
    void *out = kind->alloc(device, 4), *flags = kind->alloc(device, 4096);
    kernels->relay(stream, out, flags, 65, true);
    ck_assert(strstr(fails(), "alive together"));
}
END_TEST

START_TEST(memory_is_as_large_as_the_environment_says) {
    static const struct {
        const char *text;
        uint64_t n_bytes; /* 0: refused */
    } cases[] = {{"1000000", 1000000}, {"64k", 64 << 10}, {"3M", 3 << 20},
                 {"5g", 5ull << 30},   {"", 0},           {"x", 0},
                 {"3mb", 0},           {"0", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct device *made = NULL;
        struct error error;
        setenv("TANDEM_EMU_MEMORY", cases[i].text, 1);
        enum status status = kind->open(1, &made, &error);
        if (cases[i].n_bytes == 0) {
            ck_assert_int_eq(status, STATUS_INVALID);
            ck_assert(strncmp(error.text, "TANDEM_EMU_MEMORY: ", 19) == 0);
            continue;
        }
        ck_assert_int_eq(status, STATUS_OK);
        ck_assert_uint_eq(kind->free_bytes(made), cases[i].n_bytes);
        kind->use(made);
        void *all = kind->alloc(made, cases[i].n_bytes < 4 << 20 ? cases[i].n_bytes : 1);
        ck_assert_ptr_nonnull(all);
        ck_assert(cases[i].n_bytes >= 4 << 20 || kind->alloc(made, 1) == NULL);
        kind->close(made);
    }
}
END_TEST

START_TEST(addresses_that_come_again_are_zeroed_and_apart) {
    struct device *small;
    setenv("TANDEM_EMU_MEMORY", "64k", 1);
    device_member_close();
    device_member_open(0);
    small = device;
    void *kept = kind->alloc(small, 1000);
    unsigned char got[20000];
    kind->fill(stream, kept, 7, 1000);
    bool again = false;
    const unsigned char *first = NULL;
    for (int i = 0; i < 400; i++) { /* several times the addresses of 64 KiB */
        size_t n = 1000 + (size_t)i * 577 % 19000;
        unsigned char *piece = kind->alloc(small, n);
        ck_assert_ptr_nonnull(piece);
        first = first ? first : piece;
        again = again || (i > 0 && piece == first);
        device_member_down(got, piece, n);
        size_t n_zeros = 0;
        while (n_zeros < n && got[n_zeros] == 0)
            n_zeros++;
        ck_assert_uint_eq(n_zeros, n);
        kind->fill(stream, piece, 0x5a, n);
        ck_assert_int_eq(kind->wait(stream), STATUS_OK);
        kind->dealloc(small, piece);
    }
    ck_assert(again);
    device_member_down(got, kept, 1000);
    for (size_t k = 0; k < 1000; k++)
        ck_assert_int_eq(got[k], 7);
    ck_assert_ptr_null(kind->failure(small));
}
END_TEST

START_TEST(a_piece_that_ends_behind_used_memory_is_zeroed_from_its_begin) {
    unsigned char got[8192], *used = kind->alloc(device, 4096);
    kind->fill(stream, used, 7, 4096);
    ck_assert_int_eq(kind->wait(stream), STATUS_OK);
    kind->dealloc(device, used);
    unsigned char *piece =
        kind->alloc(device, 17 << 20); /* more than may rest: from the first gap on */
    ck_assert_ptr_eq(piece, used);
    device_member_down(got, piece, sizeof got);
    for (size_t i = 0; i < sizeof got; i++)
        ck_assert_int_eq(got[i], 0);
}
END_TEST

/* What the process says on stderr while it ends. */
static void said_by(void (*run)(void *), void *memory, char *said, size_t n) {
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        run(memory);
        _exit(0);
    }
    close(ends[1]);
    size_t got = 0;
    for (ssize_t k; got < n - 1 && (k = read(ends[0], said + got, n - 1 - got)) > 0;)
        got += (size_t)k;
    said[got] = '\0';
    close(ends[0]);
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(status != 0);
}

static void touch(void *memory) {
    *(volatile unsigned char *)memory = 1;
}

static void read_null(void *memory) {
    kernels->null_read(stream, memory);
    (void)!kind->wait(stream);
}

static void go_deep(void *memory) {
    kernels->deep(stream, memory, 100000);
    (void)!kind->wait(stream);
}

START_TEST(the_host_may_not_touch_memory_of_the_device) {
    char said[400];
    unsigned char *memory = kind->alloc(device, 64);
    (void)!kind->alloc(device, 64);
    said_by(touch, memory + 5, said, sizeof said);
    ck_assert_msg(strncmp(said, "emu: the host touched memory of the device at offset 5,", 55) == 0,
                  "%s", said);
    kind->fill(stream, memory, 1, 64); /* also not after work was done */
    ck_assert_int_eq(kind->wait(stream), STATUS_OK);
    said_by(touch, memory, said, sizeof said);
    ck_assert_msg(strstr(said, "the host touched memory of the device at offset 0,"), "%s", said);
}
END_TEST

START_TEST(a_kernel_that_faults_is_named) {
    char said[400];
    void *memory = kind->alloc(device, 64);
    said_by(go_deep, memory, said, sizeof said);
    ck_assert_msg(strncmp(said, "emu: block 0,0,0 thread 0: runs over its stack", 46) == 0, "%s",
                  said);
#ifndef EMU_SANITIZED /* with UBSan, which sees the pointer first */
    said_by(read_null, memory, said, sizeof said);
    ck_assert_msg(strncmp(said, "emu: block 0,0,0 thread 0: touches what is no memory", 52) == 0,
                  "%s", said);
#else
    (void)read_null;
#endif
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, open_device, device_member_close);
    tcase_add_test(tests, nothing_is_done_before_somebody_waits);
    tcase_add_test(tests, a_question_does_a_part_that_the_seed_chooses);
    tcase_add_test(tests, a_seed_permutes_the_blocks);
    tcase_add_test(tests, copies_want_pinned_memory_of_the_host);
    tcase_add_test(tests, copies_want_pinned_memory_to_its_end);
    tcase_add_loop_test(tests, fresh_pinned_memory_is_poison_to_its_end, 0,
                        sizeof pinned_sizes / sizeof *pinned_sizes);
#ifdef TANDEM_SANITIZED /* which end a process that faults */
    tcase_add_exit_test(tests, who_runs_over_large_pinned_memory_faults, 1);
#else
    tcase_add_test_raise_signal(tests, who_runs_over_large_pinned_memory_faults, SIGSEGV);
#endif
    tcase_add_test(tests, copies_stay_inside_one_piece);
    tcase_add_test(tests, a_piece_that_was_given_back_is_no_memory);
    tcase_add_test(tests, what_is_given_back_twice_is_named);
    tcase_add_test(tests, a_thread_that_did_not_use_the_device_is_refused);
    tcase_add_test(tests, a_copy_arrives_at_its_wait_and_not_before);
    tcase_add_test(tests, bank_conflicts_are_counted);
    tcase_add_test(tests, blocks_that_wait_for_later_ones_are_named);
    tcase_add_test(tests, only_so_many_blocks_are_alive_together);
    tcase_add_test(tests, memory_is_as_large_as_the_environment_says);
    tcase_add_test(tests, addresses_that_come_again_are_zeroed_and_apart);
    tcase_add_test(tests, a_piece_that_ends_behind_used_memory_is_zeroed_from_its_begin);
    tcase_add_test(tests, the_host_may_not_touch_memory_of_the_device);
    tcase_add_test(tests, a_kernel_that_faults_is_named);
}
