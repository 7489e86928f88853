/* tests/support/fake_gpus.c: what `tandem doctor` asks the CUDA driver and NCCL, built as one library to load at run time
 * (libcuda.so.1 of a folder of its own, and TANDEM_NCCL).
 *
 *   FAKE_GPUS=N        GPUs that there are (0)
 *   FAKE_APART=A       GPU A and the next one do not reach each other's memory
 *   FAKE_NCCL=N        the version that NCCL tells (22809) */
#include <stdio.h>
#include <stdlib.h>

int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int cuDeviceGetCount(int *n);
int cuDeviceGetName(char *name, int n, int device);
int cuDeviceCanAccessPeer(int *can, int device, int peer);
int cuGetErrorString(int code, const char **text);
int ncclGetVersion(int *version);

static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

int cuInit(unsigned flags) {
    return flags != 0;
}

int cuDriverGetVersion(int *version) {
    *version = 13000;
    return 0;
}

int cuDeviceGetCount(int *n) {
    *n = number("FAKE_GPUS", 0);
    return 0;
}

int cuDeviceGetName(char *name, int n, int device) {
    snprintf(name, (size_t)n, "GPU of tests %d", device);
    return 0;
}

int cuDeviceCanAccessPeer(int *can, int device, int peer) {
    int apart = number("FAKE_APART", -2);
    *can = !(device == apart && peer == apart + 1) && !(peer == apart && device == apart + 1);
    return device == peer || device >= number("FAKE_GPUS", 0) || peer >= number("FAKE_GPUS", 0);
}

int cuGetErrorString(int code, const char **text) {
    (void)code;
    *text = "an error of tests";
    return 0;
}

int ncclGetVersion(int *version) {
    *version = number("FAKE_NCCL", 22809);
    return 0;
}
