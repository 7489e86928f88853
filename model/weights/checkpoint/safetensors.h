/* model/weights/checkpoint/safetensors.h: reads safetensors files, alone or as the shards of a
 * folder (format: huggingface/safetensors README: 8 bytes of header length, little-endian; a JSON
 * header of dtype, shape and data_offsets by name; the tensors' bytes without gaps).
 *
 * Files are data from strangers: lengths, offsets and products are checked before they are used;
 * gaps, overlaps and names that are there twice are refused with one line that names tensor and
 * file. Files are mapped, not read; what happens when one is cut short: base/file.h. After opening
 * nothing changes: any thread. Tensors' data starts where the header ends, so it need not be
 * aligned. */
#pragma once

#include "base/error.h"
#include "base/file.h"
#include "base/map.h"
#include "base/status.h"
#include "model/tensor.h"
#include "model/weights/checkpoint/checkpoint.h"

#include <stddef.h>
#include <stdint.h>

#define SAFETENSORS_HEADER_MAX  (16u << 20) /* bytes of one file's header */
#define SAFETENSORS_TENSORS_MAX 131072u     /* of all files */
#define SAFETENSORS_FILES_MAX   1024u

struct safetensors_file {
    char name[256];             /* path for messages, cut at the front if longer */
    struct file_map map;        /* owned; zeroed over the caller's memory */
    const unsigned char *bytes; /* the whole file */
    uint64_t n_bytes;
    uint64_t data_offset; /* where tensor data starts; all before it is header */
};

struct safetensors {
    struct checkpoint head; /* its end of the seam */
    uint32_t n_files;
    struct safetensors_file *files; /* owned (n_files) */
    uint32_t n_tensors;
    uint32_t size;          /* room in tensors and file_of */
    struct tensor *tensors; /* owned (n_tensors), by file, then by offset */
    uint32_t *file_of;      /* owned (n_tensors): index into files */
    struct map by_name;     /* hash of name -> index */
    uint64_t seed;          /* of that hash */
};

/* Opens a file, or a folder: the shards that model.safetensors.index.json lists, else
 * model.safetensors, else all *.safetensors in it. On success the caller owns *opened.
 * STATUS_NOT_FOUND (a missing shard is named), STATUS_IO, STATUS_CORRUPT, STATUS_LIMIT,
 * STATUS_NOMEM; STATUS_UNSUPPORTED for an unknown dtype, and for a folder that has pickles
 * (pytorch_model*.bin) alone, with the way to convert them. */
NODISCARD enum status safetensors_open(const char *path, struct safetensors **opened,
                                       struct error *error);

/* One file in memory, which stays the caller's and must outlive *opened. */
NODISCARD enum status safetensors_parse(const void *bytes, size_t n, const char *name,
                                        struct safetensors **opened, struct error *error);

/* NULL when there is no such tensor. */
const struct tensor *safetensors_find(const struct safetensors *files, const char *name);

/* STATUS_IO naming a file that is shorter than it was. */
NODISCARD enum status safetensors_check(const struct safetensors *files, struct error *error);

void safetensors_drop_pages(const struct safetensors *files);
void safetensors_close(struct safetensors *files);

/* For safetensors_*.c: appends the tensors that the header of files[index] lists; their names are
 * not in the map yet. */
NODISCARD enum status safetensors_read_header(struct safetensors *files, uint32_t index,
                                              struct error *error);
