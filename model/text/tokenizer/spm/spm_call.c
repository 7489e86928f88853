#include "model/text/tokenizer/spm/spm_call.h"

/* An unknown piece becomes its bytes; where there are no byte pieces, a run of unknown ones becomes
 * one unknown piece. */
enum status spm_put(const struct spm_call *call, struct span piece, uint32_t id) {
    const struct spm *spm = call->spm;
    bool was_unknown = call->scratch->after_unknown;
    call->scratch->after_unknown = id == TOKEN_NONE;
    if (id != TOKEN_NONE)
        return ids_push(call->ids, id);
    if (spm->byte_fallback) {
        for (size_t i = 0; i < piece.n; i++)
            TRY(ids_push(call->ids, spm->byte_ids[(uint8_t)piece.bytes[i]]));
        return STATUS_OK;
    }
    return was_unknown || spm->unk_id == TOKEN_NONE ? STATUS_OK : ids_push(call->ids, spm->unk_id);
}
