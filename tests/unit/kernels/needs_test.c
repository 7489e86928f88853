#include "kernels/kernels.h"
#include "kernels/needs.h"
#include "tests/support/suite.h"

const char *const suite_name = "kernels_needs";
const double suite_timeout_s = 60;

START_TEST(what_needs_a_device_is_known_by_its_whole_name) {
    ck_assert(kernels_need_device("cuda"));
    static const char *const others[] = {"", "cud", "cuda-emu", "cuda:exact", "CUDA", "cpu", "ref"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        ck_assert_msg(!kernels_need_device(others[i]), "%s", others[i]);
}
END_TEST

START_TEST(who_needs_a_device_has_its_memory_there) {
    for (size_t i = 0; kernels_table[i]; i++)
        if (kernels_need_device(kernels_table[i]->name))
            ck_assert_msg(!kernels_on_host(kernels_table[i]), "%s", kernels_table[i]->name);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, what_needs_a_device_is_known_by_its_whole_name);
    tcase_add_test(tests, who_needs_a_device_has_its_memory_there);
}
