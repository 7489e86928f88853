/* Descriptions to bytes and back. */
#include "model/text/grammar/pack.h"

#include <stdint.h>

#define PACK_VERSION 1
#define FLAG_LENIENT 1u
#define PART_BYTES   22 /* of a part without its texts and what is inside */
#define TEXT_BYTES   4  /* of a choice without its text */

/* The version that a part, of which the depth was checked, is packed in. */
static char grammar_pack_version_of(const struct grammar_part *part) {
    if (part->kind == GRAMMAR_JSON_STRING)
        return GRAMMAR_PACKED_STRINGS;
    for (size_t i = 0; part->kind != GRAMMAR_CHOICE && i < part->n; i++)
        if (grammar_pack_version_of(&part->parts[i]) != PACK_VERSION)
            return GRAMMAR_PACKED_STRINGS;
    return PACK_VERSION;
}

static void grammar_pack_put_u32(struct buf *to, uint64_t value) {
    for (unsigned shift = 0; shift < 32; shift += 8)
        buf_putc(to, (char)(value >> shift & 0xff));
}

static enum status grammar_pack_put_part(const struct grammar_part *part, uint32_t depth,
                                         size_t end, struct buf *to) {
    if (depth >= grammar_limits.depth || to->n >= end || part->text.n > end ||
        part->region.n > end || part->n > end)
        return STATUS_LIMIT;
    buf_putc(to, (char)part->kind);
    buf_putc(to, (char)(part->lenient ? FLAG_LENIENT : 0));
    grammar_pack_put_u32(to, part->min);
    grammar_pack_put_u32(to, part->max);
    grammar_pack_put_u32(to, part->region.n);
    grammar_pack_put_u32(to, part->text.n);
    grammar_pack_put_u32(to, part->n);
    buf_append(to, part->region.bytes, part->region.n);
    buf_append(to, part->text.bytes, part->text.n);
    for (size_t i = 0; i < part->n && to->n <= end; i++) {
        if (part->kind != GRAMMAR_CHOICE) {
            TRY(grammar_pack_put_part(&part->parts[i], depth + 1, end, to));
            continue;
        }
        grammar_pack_put_u32(to, part->choices[i].n);
        if (part->choices[i].n <= end)
            buf_append(to, part->choices[i].bytes, part->choices[i].n);
        else
            return STATUS_LIMIT;
    }
    return to->n <= end ? buf_status(to) : STATUS_LIMIT;
}

enum status grammar_pack(const struct grammar_part *part, struct buf *to) {
    size_t before = to->n;
    buf_putc(to, PACK_VERSION);
    enum status status = grammar_pack_put_part(part, 0, before + GRAMMAR_PACKED_MAX, to);
    if (status != STATUS_OK)
        buf_truncate(to, before);
    else
        to->data[before] = grammar_pack_version_of(part);
    return status;
}

struct unpack {
    struct span left;
    struct arena *arena;
    struct error *error;
};

static enum status grammar_pack_cut_off(struct unpack *unpack) {
    return error_set(unpack->error, STATUS_CORRUPT, "the packed grammar is cut off");
}

/* The callers know that four bytes are there. */
static uint32_t grammar_pack_take_u32(struct unpack *unpack) {
    uint32_t value = 0;
    for (unsigned i = 0; i < 4; i++)
        value |= (uint32_t)(uint8_t)unpack->left.bytes[i] << 8 * i;
    unpack->left.bytes += 4;
    unpack->left.n -= 4;
    return value;
}

static enum status grammar_pack_take_text(struct unpack *unpack, uint32_t n, struct span *text) {
    if (n > unpack->left.n)
        return grammar_pack_cut_off(unpack);
    *text = (struct span){unpack->left.bytes, n};
    unpack->left.bytes += n;
    unpack->left.n -= n;
    return STATUS_OK;
}

static enum status grammar_pack_take_part(struct unpack *unpack, uint32_t depth,
                                          struct grammar_part *part);

static enum status grammar_pack_take_choices(struct unpack *unpack, struct grammar_part *part) {
    if (part->n > unpack->left.n / TEXT_BYTES)
        return grammar_pack_cut_off(unpack);
    struct span *choices = arena_alloc(unpack->arena, part->n * sizeof *choices);
    if (!choices)
        return error_set(unpack->error, STATUS_NOMEM, "out of memory");
    part->choices = choices;
    for (size_t i = 0; i < part->n; i++) {
        if (unpack->left.n < TEXT_BYTES)
            return grammar_pack_cut_off(unpack);
        TRY(grammar_pack_take_text(unpack, grammar_pack_take_u32(unpack), &choices[i]));
    }
    return STATUS_OK;
}

static enum status grammar_pack_take_parts(struct unpack *unpack, uint32_t depth,
                                           struct grammar_part *part) {
    if (part->n > unpack->left.n / PART_BYTES)
        return grammar_pack_cut_off(unpack);
    struct grammar_part *parts = arena_alloc(unpack->arena, part->n * sizeof *parts);
    if (!parts)
        return error_set(unpack->error, STATUS_NOMEM, "out of memory");
    part->parts = parts;
    for (size_t i = 0; i < part->n; i++)
        TRY(grammar_pack_take_part(unpack, depth + 1, &parts[i]));
    return STATUS_OK;
}

static enum status grammar_pack_take_part(struct unpack *unpack, uint32_t depth,
                                          struct grammar_part *part) {
    if (depth >= grammar_limits.depth)
        return error_set(unpack->error, STATUS_LIMIT, "parts nest deeper than %u",
                         grammar_limits.depth);
    if (unpack->left.n < PART_BYTES)
        return grammar_pack_cut_off(unpack);
    uint8_t kind = (uint8_t)unpack->left.bytes[0];
    uint8_t flags = (uint8_t)unpack->left.bytes[1];
    if (kind >= GRAMMAR_KINDS || flags > FLAG_LENIENT)
        return error_set(unpack->error, STATUS_UNSUPPORTED, "grammar of kind %u, flags %u", kind,
                         flags);
    unpack->left.bytes += 2;
    unpack->left.n -= 2;
    *part = (struct grammar_part){.kind = (enum grammar_kind)kind, .lenient = flags != 0};
    part->min = grammar_pack_take_u32(unpack);
    part->max = grammar_pack_take_u32(unpack);
    uint32_t n_region = grammar_pack_take_u32(unpack);
    uint32_t n_text = grammar_pack_take_u32(unpack);
    part->n = grammar_pack_take_u32(unpack);
    TRY(grammar_pack_take_text(unpack, n_region, &part->region));
    TRY(grammar_pack_take_text(unpack, n_text, &part->text));
    if (part->n == 0)
        return STATUS_OK;
    return part->kind == GRAMMAR_CHOICE ? grammar_pack_take_choices(unpack, part)
                                        : grammar_pack_take_parts(unpack, depth, part);
}

enum status grammar_unpack(struct span bytes, struct arena *arena, const struct grammar_part **part,
                           struct error *error) {
    if (bytes.n > GRAMMAR_PACKED_MAX)
        return error_set(error, STATUS_LIMIT, "packed grammar of %zu bytes", bytes.n);
    char version = bytes.n > 0 ? bytes.bytes[0] : 0;
    if (version != PACK_VERSION && version != GRAMMAR_PACKED_STRINGS)
        return error_set(error, STATUS_UNSUPPORTED, "packed grammar of another version");
    struct unpack unpack = {{bytes.bytes + 1, bytes.n - 1}, arena, error};
    struct grammar_part *made = arena_alloc(arena, sizeof *made);
    if (!made)
        return error_set(error, STATUS_NOMEM, "out of memory");
    TRY(grammar_pack_take_part(&unpack, 0, made));
    if (version != grammar_pack_version_of(made))
        return error_set(error, STATUS_CORRUPT, "a packed grammar of version %d says %d",
                         grammar_pack_version_of(made), version);
    if (unpack.left.n > 0)
        return error_set(error, STATUS_CORRUPT, "%zu bytes after the packed grammar",
                         unpack.left.n);
    *part = made;
    return STATUS_OK;
}
