/* Which library brings the bytes of a group's devices (kernels/cuda/nccl_library.h), and what is said of one that is none, or too old, or
 * that a setting breaks. The library is that of the tests (tests/support/fake_nccl.c), in a process of its own for each test; where
 * there is the real one, it is loaded too. */
#include "kernels/cuda/device.h"
#include "kernels/cuda/nccl.h"
#include "kernels/kernels.h"
#include "tests/support/suite.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "kernels_cuda_nccl_library";
const double suite_timeout_s = 120;

#ifdef FAKE_NCCL

enum { WAIT_MS = 20000 };

static void use_fake(void) {
    setenv("TANDEM_NCCL", FAKE_NCCL, 1);
    setenv("FAKE_NCCL", "", 1);
}

/* No library, or none that serves: the line that says so. */
static void refuses(const char *library, const char *fault, const char *text) {
    const struct kernels *k = kernels_find("cuda-emu:exact");
    const struct kernels_options options = {
        .n_threads = 1, .n_ranks = 2, .together = 64, .limits = {1, 1, 16, 32, 64, 1, 1, 16}};
    struct kernels_ctx *ctx;
    struct kernels_group_id id;
    struct error error = {0};
    setenv("FAKE_NCCL", fault, 1);
    if (library)
        setenv("TANDEM_NCCL", library, 1);
    else
        unsetenv("TANDEM_NCCL");
    ck_assert_int_eq(k->open(&options, &ctx, &error), STATUS_OK);
    for (int i = 0; i < 2; i++) { /* the second time without another look */
        ck_assert_int_eq(k->group_id(ctx, &id, &error), STATUS_UNSUPPORTED);
        ck_assert_msg(strstr(error.text, text) != NULL, "%s", error.text);
    }
    k->close(ctx);
}

START_TEST(no_library_is_said) {
    refuses(NULL, "", "no NCCL works with these devices: TANDEM_NCCL names none");
}
END_TEST

START_TEST(a_library_that_is_not_there_is_said) {
    refuses("/nonexistent/libnccl.so", "", "NCCL cannot be loaded: /nonexistent/libnccl.so");
}
END_TEST

START_TEST(a_library_of_something_else_is_said) {
    refuses("libm.so.6", "", "libm.so.6: it has no function ncclGetVersion");
}
END_TEST

START_TEST(an_old_library_is_said) {
    refuses(FAKE_NCCL, "version=21899", "NCCL 2.18.99 is older than 2.19");
}
END_TEST

START_TEST(a_very_old_library_is_said) {
    refuses(FAKE_NCCL, "version=2804", "NCCL 2.8.4 is older than 2.19");
}
END_TEST

/* TANDEM_NCCL goes before the name that a kind of device has; empty it says nothing. */
START_TEST(the_library_that_is_named_is_taken) {
    static const struct device_kind kind = {.name = "test", .nccl = "/nonexistent/of_the_kind.so"};
    struct kernels_group_id id;
    struct error error = {0};
    use_fake();
    if (_i == 0)
        setenv("TANDEM_NCCL", "", 1);
    enum status status = nccl_group_id(&kind, WAIT_MS, &id, &error);
    ck_assert_int_eq(status, _i == 0 ? STATUS_UNSUPPORTED : STATUS_OK);
    ck_assert_msg(_i > 0 || strstr(error.text, "/nonexistent/of_the_kind.so"), "%s", error.text);
}
END_TEST

/* Its sockets are this machine's own, where nobody says otherwise. */
START_TEST(sockets_are_this_machines_own) {
    static const struct device_kind kind = {.name = "test"};
    struct kernels_group_id id;
    struct error error = {0};
    use_fake();
    unsetenv("NCCL_SOCKET_IFNAME");
    if (_i > 0)
        setenv("NCCL_SOCKET_IFNAME", "eth7", 1);
    ck_assert_int_eq(nccl_group_id(&kind, WAIT_MS, &id, &error), STATUS_OK);
    ck_assert_str_eq(getenv("NCCL_SOCKET_IFNAME"), _i > 0 ? "eth7" : "lo");
}
END_TEST

/* Of a machine without a GPU, which is refused; of one with a GPU, a rank that nobody joins. */
START_TEST(the_real_library_is_loaded) {
    static const struct device_kind real = {.name = "real", .nccl = "libnccl.so.2"};
    struct kernels_group_id id = {{0}}, none = {{0}};
    struct error error = {0};
    struct nccl_group *group = NULL;
    unsetenv("TANDEM_NCCL");
    enum status status = nccl_group_id(&real, WAIT_MS, &id, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    ck_assert(memcmp(&id, &none, sizeof id) != 0);
    status = nccl_open(&real, &id, 0, 2, 300, &group, &error);
    if (status == STATUS_OK)
        status = nccl_ready(group, &error);
    ck_assert(status == STATUS_UNSUPPORTED || status == STATUS_CLOSED);
    ck_assert_msg(strstr(error.text, "rank 0 of 2: ") != NULL, "%s", error.text);
    printf("%s\n", error.text);
    nccl_close(group);
}
END_TEST

/* A setting that it cannot keep: its own reason, in our line. */
START_TEST(what_breaks_the_real_library_is_said) {
    static const struct device_kind real = {.name = "real", .nccl = "libnccl.so.2"};
    struct kernels_group_id id;
    struct error error = {0};
    unsetenv("TANDEM_NCCL");
    setenv("NCCL_SOCKET_IFNAME", "=nothing9", 1);
    ck_assert_int_eq(nccl_group_id(&real, WAIT_MS, &id, &error), STATUS_UNSUPPORTED);
    ck_assert_msg(strstr(error.text, "NCCL makes no id for a group: ") != NULL, "%s", error.text);
    printf("%s\n", error.text);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, no_library_is_said);
    tcase_add_test(tests, a_library_that_is_not_there_is_said);
    tcase_add_test(tests, a_library_of_something_else_is_said);
    tcase_add_test(tests, an_old_library_is_said);
    tcase_add_test(tests, a_very_old_library_is_said);
    tcase_add_loop_test(tests, the_library_that_is_named_is_taken, 0, 2);
    tcase_add_loop_test(tests, sockets_are_this_machines_own, 0, 2);
    if (dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL)) {
        tcase_add_test(tests, the_real_library_is_loaded);
        tcase_add_test(tests, what_breaks_the_real_library_is_said);
    } else {
        suite_skip("the real library", dlerror());
    }
}

#else

void suite_add(TCase *tests) {
    (void)tests;
    suite_skip("all", "there was no nccl.h");
}

#endif
