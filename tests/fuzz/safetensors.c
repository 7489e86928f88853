/* Any bytes as a safetensors file: header, tensor table, lookups. */
#include "model/weights/checkpoint/safetensors.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct safetensors *files;
    struct error error;
    if (safetensors_parse(data, size, "fuzz", &files, &error) != STATUS_OK)
        return 0;
    for (uint32_t i = 0; i < files->n_tensors; i++) {
        const struct tensor *tensor = &files->tensors[i];
        const unsigned char *bytes = tensor->data;
        if (safetensors_find(files, tensor->name) != tensor)
            abort();
        /* Both ends must lie in the file. */
        const unsigned char *end = data + size;
        if (tensor->n_bytes > 0 &&
            (bytes < data || bytes > end || tensor->n_bytes > (size_t)(end - bytes)))
            abort();
    }
    safetensors_close(files);
    return 0;
}
