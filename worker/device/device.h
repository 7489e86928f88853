/* worker/device/device.h: what GPUs can do: one row for each, with the source of every number.
 *
 * The rates are a device's upper bounds; the share of them that programs reach is in
 * efficiencies.h. Constant. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* How GPUs of one host reach each other. */
enum device_link { DEVICE_NVLINK, DEVICE_PCIE, DEVICE_LINKS };

struct device {
    const char *name;      /* "a100-40": what --device takes */
    const char *published; /* what the published tables call it: "A100-40GB"; "": in none */
    const char *arch;      /* of the code that runs on it: "80", "90a" */
    uint64_t memory_bytes; /* as sold; programs see about 1 % less */
    double read_bytes_s;   /* the memory's rate by the data sheet */
    double copy_bytes_s;   /* bytes read and written by a large copy */
    double tensor_ops_s;   /* dense products of 16-bit floats, by the best instruction */
    double mma_ops_s;      /* the same by mma.sync, which all generations have */
    double int8_ops_s;     /* dense products of 8-bit integers */
    double float_ops_s;    /* multiplications and additions in float32, outside of tensor cores */
    double kernel_us;      /* a small kernel behind another, as in a layer's norms and rotations */
    enum device_link link;
    double link_bytes_s; /* to the other GPUs, both directions together */
    uint32_t n_sms;
    size_t shared_bytes; /* of an SM, for blocks */
    const char *source;  /* where the numbers are from; what was not measured is named */
};

/* Ends with a row without a name. */
extern const struct device device_table[];

/* By its name here, or in the published tables; NULL: there is none. */
const struct device *device_find(const char *name);

/* "a100-40, a100-80, ...". For messages. */
const char *device_names(void);
