#include "router/core/stage.h"

#include "base/assert.h"

const char *stage_name(enum request_stage stage) {
    static const char *const names[STAGE_COUNT] = {
        [STAGE_PARSE] = "parse",   [STAGE_TOKENIZE] = "tokenize", [STAGE_ADMIT] = "admit",
        [STAGE_PLACE] = "place",   [STAGE_DISPATCH] = "dispatch", [STAGE_STREAM] = "stream",
        [STAGE_FINISH] = "finish",
    };
    ASSERT(stage < STAGE_COUNT);
    return names[stage];
}
