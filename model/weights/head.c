/* The output head of a folder that says it in two ways. */
#include "model/weights/head.h"

#include "model/weights/checkpoint/checkpoint.h"
#include "model/weights/config/config.h"
#include "model/weights/decoder_names.h"
#include "model/weights/tensors.h"

#include <stdio.h>
#include <string.h>

#define PIECE_BYTES ((uint64_t)16 << 20) /* of each tensor that are compared at once */

static bool head_tensor_is_equal(const struct checkpoint *checkpoint, const struct tensor *a,
                                 const struct tensor *b) {
    if (strcmp(a->format, b->format) != 0 || a->n_dims != b->n_dims || a->n_bytes != b->n_bytes ||
        memcmp(a->shape, b->shape, sizeof a->shape) != 0)
        return false;
    bool equal = true;
    for (uint64_t at = 0; equal && at < a->n_bytes; at += PIECE_BYTES) {
        uint64_t left = a->n_bytes - at;
        equal = memcmp((const char *)a->data + at, (const char *)b->data + at,
                       left < PIECE_BYTES ? left : PIECE_BYTES) == 0;
        checkpoint->kind->drop(checkpoint);
    }
    return equal;
}

const struct tensor *head_untie(struct model_config *config, const struct tensors *tensors) {
    static const char *const kinds[] = {"weight", "qweight"}; /* plain, and quantized */
    const struct decoder_names *names = decoder_names_of(config);
    char name[TENSOR_NAME_MAX + 1];
    if (!names || !config->tied_head)
        return NULL;
    snprintf(name, sizeof name, "%s.weight", names->embedding);
    const struct tensor *embedding = tensors_find(tensors, name);
    for (size_t i = 0; embedding && i < sizeof kinds / sizeof *kinds; i++) {
        snprintf(name, sizeof name, "%s.%s", names->head, kinds[i]);
        const struct tensor *head = tensors_find(tensors, name);
        if (!head || head_tensor_is_equal(tensors->checkpoint, embedding, head))
            continue;
        config->tied_head = false;
        return head;
    }
    return NULL;
}
