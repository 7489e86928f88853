/* tools/bench/rows/predict.h: what a row of the published tables would be, by a model of time. Pure but for memory. */
#pragma once

#include "base/status.h"
#include "tools/bench/rows/reference.h"

/* A row's figures by the definitions of its table (figures_compat.c); 0: it has no such column, or nothing ended. */
struct prediction {
    double requests_per_s, tokens_per_s, latency_s, ttft_ms, itl_ms, ms_per_token,
        ms_per_output_token;
    double us[ROOFLINE_TERMS];       /* what the steps' time went to, */
    double alone_us[ROOFLINE_TERMS]; /* and, in a grid, that of the request alone */
    uint64_t n_tokens;               /* that were generated for it */
    bool fits;                       /* the weights and a sequence are in the devices' memory */
};

/* The system that made the table: its scheduler (prompt_first.h) with its row of efficiencies. */
NODISCARD enum status predict_published(const struct reference_configuration *configuration,
                                        const struct reference_row *row,
                                        const struct efficiencies *efficiencies,
                                        struct prediction *prediction);

/* Tandem in its place: one router, one worker over the same devices, with its own decisions. */
NODISCARD enum status predict_tandem(const struct reference_configuration *configuration,
                                     const struct reference_row *row,
                                     const struct efficiencies *efficiencies,
                                     struct prediction *prediction);
