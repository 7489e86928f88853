/* GPUs: which there are, whether the workers that take some find theirs, and how ranks on several add up (--sums). */
#include "kernels/cuda/nccl_version.h"
#include "kernels/needs.h"
#include "tools/cli/doctor/doctor_parts.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPUS_SHOWN     16
#define GPU_NAME_BYTES 128

/* The functions of the CUDA driver that say what is there (cuda.h); 0 is success. */
struct driver {
    int (*init)(unsigned flags);
    int (*version)(int *version);
    int (*count)(int *n);
    int (*name)(char *name, int n, int device);
    int (*reaches)(int *can, int device, int peer);
    int (*error)(int code, const char **text);
};

static bool doctor_load_symbol(void *library, const char *name, void *into) {
    void *symbol = dlsym(library, name);
    memcpy(into, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool doctor_load_driver(void *library, struct driver *driver) {
    return doctor_load_symbol(library, "cuInit", &driver->init) &&
           doctor_load_symbol(library, "cuDriverGetVersion", &driver->version) &&
           doctor_load_symbol(library, "cuDeviceGetCount", &driver->count) &&
           doctor_load_symbol(library, "cuDeviceGetName", &driver->name) &&
           doctor_load_symbol(library, "cuDeviceCanAccessPeer", &driver->reaches) &&
           doctor_load_symbol(library, "cuGetErrorString", &driver->error);
}

/* How many GPUs the driver has; -1 with the reason. */
static int doctor_ask_driver(const struct driver *driver, char seen[512]) {
    int version = 0, n = 0;
    const char *text = NULL;
    int code = driver->init(0);
    if (code == 0)
        code = driver->version(&version);
    if (code == 0)
        code = driver->count(&n);
    if (code != 0) {
        driver->error(code, &text);
        snprintf(seen, 512, "the driver refuses: %s", text ? text : "no reason given");
        return -1;
    }
    int used =
        snprintf(seen, 512, "%d, driver for CUDA %d.%d", n, version / 1000, version % 1000 / 10);
    for (int i = 0; i < n && i < GPUS_SHOWN && used < 400; i++) {
        char name[GPU_NAME_BYTES] = "";
        if (driver->name(name, sizeof name, i) == 0)
            used += snprintf(seen + used, 512 - (size_t)used, "%s%.60s", i ? ", " : ": ", name);
    }
    return n;
}

/* What a worker takes: `n` GPUs from `first` on; n = 0: none. */
struct share {
    int first, n;
    char sums[VALUE_MAX]; /* --sums; "" where one process does not have all ranks */
};

static struct share doctor_share_of(const struct settings *worker) {
    char backend[VALUE_MAX], value[VALUE_MAX];
    struct share share = {0};
    if (!settings_get(worker, "backend", backend) || !kernels_need_device(backend))
        return share;
    settings_get(worker, "devices", value);
    share.first = atoi(value);
    settings_get(worker, "tp", value);
    int tp = atoi(value), here = settings_get(worker, "ranks_here", value) ? atoi(value) : 0;
    share.n = here > 0 && here < tp ? here : tp;
    if (share.n == tp)
        settings_get(worker, "sums", share.sums);
    return share;
}

/* Two of its GPUs that do not reach each other, or false. */
static bool doctor_are_apart(const struct driver *driver, const struct share *share, int *a,
                             int *b) {
    for (*a = share->first; *a < share->first + share->n; ++*a)
        for (*b = share->first; *b < share->first + share->n; ++*b) {
            int can = 0;
            if (*a != *b && (driver->reaches(&can, *a, *b) != 0 || !can))
                return true;
        }
    return false;
}

/* The version of the NCCL that a worker in this environment loads; 0 with the reason. */
static int doctor_nccl_version(char why[256]) {
    const char *named = getenv("TANDEM_NCCL");
    int (*version_of)(int *version), version = 0;
    void *library = dlopen(named && named[0] ? named : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        snprintf(why, 256, "%.255s", dlerror());
    else if (!doctor_load_symbol(library, "ncclGetVersion", &version_of) ||
             version_of(&version) != 0)
        snprintf(why, 256, "%.200s is not NCCL", named ? named : "libnccl.so.2");
    else if (version < NCCL_LEAST)
        snprintf(why, 256, "NCCL %d.%d is older than " NCCL_LEAST_TEXT, nccl_major(version),
                 nccl_minor(version));
    if (library)
        dlclose(library);
    return version < NCCL_LEAST ? 0 : version;
}

/* How the ranks of a worker will add up, and why not faster. */
static void doctor_look_at_sums(struct doctor *doctor, const struct driver *driver,
                                const char *name, const struct share *share) {
    char why[256] = "";
    int a = 0, b = 0;
    bool apart = doctor_are_apart(driver, share, &a, &b);
    bool is_auto = strcmp(share->sums, "auto") == 0;
    int version =
        strcmp(share->sums, "nccl") == 0 || (is_auto && apart) ? doctor_nccl_version(why) : 0;
    struct findings *findings = &doctor->findings;
    if (strcmp(share->sums, "host") == 0)
        findings_add(findings, FINDING_WARNING, "sums", "take sums = auto",
                     "%s: by the host, as sums says, which is slow", name);
    else if (!apart && strcmp(share->sums, "nccl") != 0)
        findings_add(findings, FINDING_OK, "sums", NULL,
                     "%s: by its GPUs, which reach each other's memory", name);
    else if (strcmp(share->sums, "device") == 0)
        findings_add(findings, FINDING_FAULT, "sums", "take sums = auto",
                     "%s: GPU %d does not reach the memory of GPU %d, and sums is device", name, a,
                     b);
    else if (version > 0 && apart)
        findings_add(findings, FINDING_OK, "sums", NULL,
                     "%s: NCCL %d.%d brings the numbers: GPU %d does not reach the memory of GPU "
                     "%d",
                     name, nccl_major(version), nccl_minor(version), a, b);
    else if (version > 0)
        findings_add(findings, FINDING_OK, "sums", NULL,
                     "%s: NCCL %d.%d brings the numbers, as sums says", name, nccl_major(version),
                     nccl_minor(version));
    else
        findings_add(findings, is_auto ? FINDING_WARNING : FINDING_FAULT, "sums",
                     "install NCCL " NCCL_LEAST_TEXT
                     " or later, or name its libnccl.so.2 by TANDEM_NCCL in the "
                     "worker's environment",
                     "%s: %s%s", name, is_auto ? "by the host, which is slow: " : "", why);
}

/* Each worker's GPUs are there; ranks on several add up somehow. */
static void doctor_look_at_shares(struct doctor *doctor, const struct driver *driver, int n_gpus) {
    for (unsigned i = 0; i < doctor->n_workers; i++) {
        struct share share = doctor_share_of(&doctor->workers[i]);
        const char *name = doctor->workers[i].name[0] ? doctor->workers[i].name : "the worker";
        if (share.first + share.n > n_gpus)
            findings_add(&doctor->findings, FINDING_FAULT, "GPU",
                         "set devices and tp of its section to GPUs that exist",
                         "%s takes GPUs %d to %d, and there are %d", name, share.first,
                         share.first + share.n - 1, n_gpus);
        else if (share.n > 1 && share.sums[0])
            doctor_look_at_sums(doctor, driver, name, &share);
    }
}

void doctor_look_at_gpus(struct doctor *doctor) {
    char seen[512] = "none (no libcuda.so.1): CPU backends compute";
    struct driver driver = {0};
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    bool is_wanted = false;
    int n = 0;
    for (unsigned i = 0; i < doctor->n_workers; i++)
        is_wanted |= doctor_share_of(&doctor->workers[i]).n > 0;
    if (library && doctor_load_driver(library, &driver))
        n = doctor_ask_driver(&driver, seen);
    bool is_missing = is_wanted && n <= 0;
    findings_add(&doctor->findings,
                 is_missing ? FINDING_FAULT
                 : n < 0    ? FINDING_WARNING
                            : FINDING_OK,
                 "GPU",
                 is_missing || n < 0 ? "install NVIDIA's driver (nvidia-smi shows it), or take "
                                       "backend = cpu"
                                     : NULL,
                 "%s", seen);
    if (n > 0)
        doctor_look_at_shares(doctor, &driver, n);
    if (library)
        dlclose(library);
}
