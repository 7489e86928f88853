#include "worker/family/family.h"

#include "base/assert.h"

#include <string.h>

extern const struct family family_baichuan;
extern const struct family family_chatglm;
extern const struct family family_hash;
extern const struct family family_llama;
extern const struct family family_qwen;
extern const struct family family_qwen2;
extern const struct family family_qwen2_moe;
extern const struct family family_qwen3;
extern const struct family family_qwen3_moe;

const struct family *const family_table[] = {
    &family_llama,     &family_qwen,    &family_qwen2,    &family_qwen3, &family_qwen2_moe,
    &family_qwen3_moe, &family_chatglm, &family_baichuan, &family_hash,  NULL,
};

static void check_hooks(const struct family *family) {
    ASSERT(family->name);
    ASSERT(family->open && family->close);
    ASSERT(family->scratch_bytes && family->prepare);
    ASSERT(family->forward);
}

const struct family *family_find(const char *name) {
    for (const struct family *const *row = family_table; *row; row++) {
        check_hooks(*row);
        if (strcmp((*row)->name, name) == 0)
            return *row;
    }
    return NULL;
}
