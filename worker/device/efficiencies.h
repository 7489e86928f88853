/* worker/device/efficiencies.h: which shares of a device's rates a program reaches: a row of numbers for each
 * program, as data. Rows of this program are measured, those of published systems fitted to what they published. */
#pragma once

#include "base/error.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

struct buf;

enum efficiency_format { EFFICIENCY_16, EFFICIENCY_8, EFFICIENCY_4, EFFICIENCY_FORMATS };

/* Which rate of the device a share is of. */
enum efficiency_unit {
    EFFICIENCY_TENSOR, /* device.tensor_ops_s, and so on */
    EFFICIENCY_MMA,
    EFFICIENCY_INT8,
    EFFICIENCY_FLOAT,
    EFFICIENCY_UNITS
};

#define EFFICIENCY_NAME_MAX   48
#define EFFICIENCY_SOURCE_MAX 400

struct efficiencies {
    char name[EFFICIENCY_NAME_MAX];
    char device
        [EFFICIENCY_NAME_MAX]; /* that it was measured on; "": fitted to several, or a limit */
    char source[EFFICIENCY_SOURCE_MAX]; /* one line */
    double weights[EFFICIENCY_FORMATS]; /* of the copy rate, for reading matrices */
    double unit[EFFICIENCY_FORMATS];    /* enum efficiency_unit: what products run on */
    double few[EFFICIENCY_FORMATS];     /* of that unit's rate, up to 16 tokens in a step, */
    double mid[EFFICIENCY_FORMATS];     /* up to 64, */
    double many[EFFICIENCY_FORMATS];    /* and beyond */
    double experts;                     /* of those shares, for products with experts */
    double overlap;  /* exponent p of (weights^p + products^p)^(1/p); 0: the larger of the two */
    double kv;       /* of the copy rate, for reading KV */
    double kv_heads; /* how much of it every further query head of a key head reads again */
    double attend_unit;
    double attend;                    /* of that unit's rate, for attention of prompts */
    double layer_us, step_us, seq_us; /* small kernels of a layer; a step; a sequence of it */
    double nvlink,
        pcie;         /* of the link's rate, both directions together, for sums between devices */
    double sum_us;    /* of each sum, of any size */
    double sum_bytes; /* of an element that is added up */
    double host_bytes_s; /* rate of sums that go through host memory; 0: they take the link */
};

/* The rows that the program has: "limit", one for each published system, and its own. Ends with one without a name. */
extern const struct efficiencies efficiencies_table[];
const struct efficiencies *efficiencies_find(const char *name); /* NULL: there is none */

/* Reads the rows of a text of "key: value ..." lines, each row begun by its "name:"; '#' begins a comment. What a row
 * leaves out is as in "limit". Fills up to `n_max` rows. STATUS_INVALID with the line's number and what was expected. */
NODISCARD enum status efficiencies_read(const char *text, size_t n_bytes, struct efficiencies *rows,
                                        size_t n_max, size_t *n, struct error *error);

/* Writes a row as efficiencies_read() reads it. */
void efficiencies_write(const struct efficiencies *row, struct buf *out);
