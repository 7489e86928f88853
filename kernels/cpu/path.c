#include "kernels/cpu/path.h"

#include <string.h>

static const struct path *available[4];

/* Built once before main(), so that no thread has to look twice. */
__attribute__((constructor)) static void cpu_path_detect(void) {
    size_t n = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                __builtin_cpu_supports("f16c");
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vnni"))
        available[n++] = &path_avx512;
    if (avx2)
        available[n++] = &path_avx2;
#endif
    available[n] = &path_scalar;
}

const struct path *const *path_available(void) {
    return available;
}

const struct path *path_find(const char *name) {
    for (size_t i = 0; available[i]; i++)
        if (!name || strcmp(available[i]->name, name) == 0)
            return available[i];
    return NULL;
}
