/* base/part_name.h: the names of files that are parts of one: STEM-00001-of-00003.END, with five digits
 * each and from 1 on, as those have it who cut GGUF and safetensors files. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PART_NAME_BYTES 15 /* of "-00001-of-00003" */

struct part_name {
    size_t n_stem;   /* bytes before "-00001", those of a path included */
    uint32_t number; /* 1..count */
    uint32_t count;
};

/* Reads a name or a path whose end is `end` (".gguf"). False: it is not that of a part. */
bool part_name_read(const char *name, const char *end, struct part_name *part);

/* Makes it the name of another part of the set: `name` as it was read, and a number of at most count. */
void part_name_set(char *name, const struct part_name *part, uint32_t number);

/* Do two names that were read differ in their numbers alone? */
bool part_name_same_set(const char *name, const struct part_name *part, const char *other_name,
                        const struct part_name *other);
