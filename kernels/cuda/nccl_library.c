#include "kernels/cuda/nccl_library.h"

#include "kernels/cuda/nccl_version.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(NCCL_LEAST == NCCL_VERSION(NCCL_LEAST_MAJOR, NCCL_LEAST_MINOR, 0), "as NCCL counts");

static struct {
    pthread_mutex_t lock;
    bool is_tried;
    enum status status;
    struct error error; /* why there is none */
    struct nccl_library library;
} loaded = {.lock = PTHREAD_MUTEX_INITIALIZER};

static enum status nccl_find_functions(void *handle, const char *path, struct nccl_library *library,
                                       struct error *error) {
#define X(name, type, ...)                                                                         \
    void *name##_at = dlsym(handle, "nccl" #name);                                                 \
    if (!name##_at)                                                                                \
        return error_set(error, STATUS_UNSUPPORTED, "%s: it has no function nccl" #name, path);    \
    memcpy(&library->name, &name##_at, sizeof name##_at);
    NCCL_FUNCTIONS(X)
#undef X
    return STATUS_OK;
}

static enum status nccl_check_version(const char *path, struct nccl_library *library,
                                      struct error *error) {
    ncclResult_t result = library->GetVersion(&library->version);
    if (result != ncclSuccess)
        return error_set(error, STATUS_UNSUPPORTED, "%s: it does not tell its version: %s", path,
                         library->GetErrorString(result));
    int version = library->version;
    if (version < NCCL_LEAST)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: NCCL %d.%d.%d is older than " NCCL_LEAST_TEXT, path,
                         nccl_major(version), nccl_minor(version), version % 100);
    return STATUS_OK;
}

static enum status nccl_library_load_once(const char *name, struct error *error) {
    const char *named = getenv("TANDEM_NCCL");
    const char *path = named && *named ? named : name;
    if (!path)
        return error_set(error, STATUS_UNSUPPORTED,
                         "no NCCL works with these devices: TANDEM_NCCL names none");
    (void)setenv("NCCL_SOCKET_IFNAME", "lo",
                 0); /* all ranks are here: no other process may come to its sockets */
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return error_set(error, STATUS_UNSUPPORTED, "NCCL cannot be loaded: %s", dlerror());
    TRY(nccl_find_functions(handle, path, &loaded.library, error));
    return nccl_check_version(path, &loaded.library, error);
}

const struct nccl_library *nccl_library(const char *name, struct error *error) {
    pthread_mutex_lock(&loaded.lock);
    if (!loaded.is_tried)
        loaded.status = nccl_library_load_once(name, &loaded.error);
    loaded.is_tried = true;
    pthread_mutex_unlock(&loaded.lock);
    if (loaded.status == STATUS_OK)
        return &loaded.library;
    *error = loaded.error;
    return NULL;
}
