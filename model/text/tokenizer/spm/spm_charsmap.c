#include "model/text/tokenizer/spm/spm_charsmap.h"

#include <stdlib.h>

#define TRIE_STEP 1024u /* the trie's size in bytes is a multiple of this */

static uint32_t spm_charsmap_read_u32(const char *bytes) {
    const unsigned char *b = (const unsigned char *)bytes;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

enum status spm_charsmap_init(struct spm_charsmap *map, struct span blob, struct error *error) {
    static const char name[] = "precompiled_charsmap";
    *map = (struct spm_charsmap){0};
    if (blob.n == 0)
        return STATUS_OK;
    if (blob.n > SPM_CHARSMAP_BYTES_MAX)
        return error_field(error, STATUS_LIMIT, name, "%s has %zu bytes, at most %zu are read",
                           name, blob.n, SPM_CHARSMAP_BYTES_MAX);
    size_t n_trie = blob.n > 4 ? spm_charsmap_read_u32(blob.bytes) : 0;
    if (n_trie == 0 || n_trie % TRIE_STEP != 0 || n_trie >= blob.n - 4)
        return error_field(error, STATUS_CORRUPT, name, "%s: a trie of %zu bytes in %zu", name,
                           n_trie, blob.n);
    if (blob.bytes[blob.n - 1] != '\0')
        return error_field(error, STATUS_CORRUPT, name, "%s: the last text has no end", name);
    map->n_units = (uint32_t)(n_trie / 4);
    map->n_texts = blob.n - 4 - n_trie;
    map->units = calloc(map->n_units, sizeof *map->units);
    map->texts = malloc(map->n_texts);
    if (!map->units || !map->texts) {
        spm_charsmap_fini(map);
        return error_set(error, STATUS_NOMEM, "no memory for %s", name);
    }
    for (uint32_t i = 0; i < map->n_units; i++)
        map->units[i] = spm_charsmap_read_u32(blob.bytes + 4 + (size_t)4 * i);
    memcpy(map->texts, blob.bytes + 4 + n_trie, map->n_texts);
    return STATUS_OK;
}

void spm_charsmap_fini(struct spm_charsmap *map) {
    if (!map)
        return;
    free(map->units);
    free(map->texts);
    *map = (struct spm_charsmap){0};
}

static uint32_t spm_charsmap_unit_offset(uint32_t unit) {
    return (unit >> 10) << ((unit & 0x200) >> 6);
}

size_t spm_charsmap_match(const struct spm_charsmap *map, struct span text, struct span *instead) {
    size_t length = 0;
    if (!map->units)
        return 0;
    uint32_t at = spm_charsmap_unit_offset(map->units[0]);
    for (size_t i = 0; i < text.n; i++) {
        uint8_t byte = (uint8_t)text.bytes[i];
        at ^= byte;
        if (at >= map->n_units)
            break;
        uint32_t unit = map->units[at];
        if ((unit & 0x800000ffu) != byte)
            break;
        at ^= spm_charsmap_unit_offset(unit);
        if (!(unit & 0x100) || at >= map->n_units)
            continue;
        uint32_t value = map->units[at] & 0x7fffffffu;
        if (value >= map->n_texts)
            continue; /* a rule that points nowhere replaces nothing */
        length = i + 1;
        *instead = (struct span){map->texts + value, strlen(map->texts + value)};
    }
    return length;
}
