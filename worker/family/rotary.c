#include "worker/family/rotary.h"

#include "model/config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static enum rope_layout layout_of(enum config_rope layout) {
    switch (layout) {
    case CONFIG_ROPE_HALF_SPLIT:
        return ROPE_HALF_SPLIT;
    case CONFIG_ROPE_INTERLEAVED:
        return ROPE_INTERLEAVED;
    default:
        return ROPE_NONE;
    }
}

enum status rotary_init(struct rotary *rotary, const struct model_config *config,
                        uint32_t n_positions, struct error *error) {
    memset(rotary, 0, sizeof *rotary);
    rotary->rope.layout = layout_of(config->rope.layout);
    if (rotary->rope.layout == ROPE_NONE)
        return STATUS_OK;
    uint32_t half = config->rope.dims / 2;
    size_t n = (size_t)n_positions * half;
    rotary->cos = calloc(n, sizeof(float));
    rotary->sin = calloc(n, sizeof(float));
    if (!rotary->cos || !rotary->sin) {
        rotary_fini(rotary);
        return error_set(error, STATUS_NOMEM, "%s: no memory for rotary tables of %u positions",
                         config->name, n_positions);
    }
    for (uint32_t i = 0; i < half; i++) {
        double frequency = pow(config->rope.theta, -2.0 * i / config->rope.dims);
        for (uint32_t position = 0; position < n_positions; position++) {
            rotary->cos[(size_t)position * half + i] = (float)cos(position * frequency);
            rotary->sin[(size_t)position * half + i] = (float)sin(position * frequency);
        }
    }
    rotary->rope.dims = config->rope.dims;
    rotary->rope.cos = rotary->cos;
    rotary->rope.sin = rotary->sin;
    rotary->hash = XXH3_64bits_withSeed(rotary->sin, n * sizeof(float),
                                        XXH3_64bits(rotary->cos, n * sizeof(float)));
    return STATUS_OK;
}

void rotary_fini(struct rotary *rotary) {
    free(rotary->cos);
    free(rotary->sin);
    memset(rotary, 0, sizeof *rotary);
}
