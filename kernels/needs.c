#include "kernels/needs.h"

#include <stddef.h>
#include <string.h>

/* One that is not here computes on the host's processor. */
static const char *const on_devices[] = {"cuda"};

bool kernels_need_device(const char *backend) {
    for (size_t i = 0; i < sizeof on_devices / sizeof on_devices[0]; i++)
        if (strcmp(on_devices[i], backend) == 0)
            return true;
    return false;
}
