/* tools/bench/rows/reference.h: the published tables as data: their rows, what each was measured on, and which of them
 * are not what they seem. Constant. */
#pragma once

#include "worker/device/roofline.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reference_row {
    const char *table, *system, *model, *hardware;
    const char
        *level; /* of a sweep: "synchronous", "asynchronous@1.27", "throughput"; "" in a grid */
    uint32_t n_input, n_output;
    double requests_per_s, tokens_per_s, latency_s, ttft_ms, itl_ms, ms_per_token,
        ms_per_output_token; /* 0: none */
};

extern const struct reference_row reference_rows[];
extern const size_t reference_n_rows;

/* Whether both are of one table, system, model and hardware. */
bool reference_is_same(const struct reference_row *a, const struct reference_row *b);

/* Rows of one table, system, model and hardware: neighbours in reference_rows. */
struct reference_configuration {
    const struct reference_row *rows; /* (n_rows) */
    size_t n_rows;
    const struct device *device;
    uint32_t tp;
    struct roofline_model model;
    uint32_t
        prefill_tokens; /* most tokens of prompts that the system computes at once; 0: as the prompt has (reference.c) */
    bool pads; /* prompts computed together are filled up to the longest */
};

#define REFERENCE_CONFIGURATIONS_MAX 32

/* Fills all configurations, in the order of the tables; answers how many. */
size_t reference_configurations(struct reference_configuration all[REFERENCE_CONFIGURATIONS_MAX]);

enum reference_kind { REFERENCE_GRID, REFERENCE_ALONE, REFERENCE_RATE, REFERENCE_BURST };
enum reference_kind reference_kind(const struct reference_row *row);
double reference_rate(
    const struct reference_row *row); /* requests per second that were asked for; 0: none */

/* Why a row cannot be compared: a line; NULL: it can. */
const char *reference_artefact(const struct reference_row *row);

/* Whether its ITL is its own: in one table the column is shifted by a row from some level on. */
bool reference_has_itl(const struct reference_row *row);

/* Less than 0.9 of the asked rate was completed: near there every model of time is wrong. */
bool reference_is_saturated(const struct reference_row *row);
