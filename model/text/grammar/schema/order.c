/* The place of each schema in the document: what is written must follow from the text alone, not from
 * where the parser's memory lies. */
#include "model/text/grammar/schema/schema.h"

#include "base/assert.h"

#include <stdlib.h>

static uint32_t schema_count_objects(const json_t *at) {
    uint32_t n = json_is_object(at);
    const char *key;
    json_t *value;
    size_t i;
    if (json_is_object(at))
        json_object_foreach((json_t *)(uintptr_t)at, key, value) n += schema_count_objects(value);
    else if (json_is_array(at))
        json_array_foreach(at, i, value) n += schema_count_objects(value);
    return n;
}

static struct order_slot *schema_order_slot_of(const struct schema *schema, const json_t *node) {
    uint32_t mask = schema->n_order_slots - 1;
    uint32_t at = (uint32_t)((uintptr_t)node >> 4) * 0x9e3779b1u & mask;
    while (schema->order_slots[at].node && schema->order_slots[at].node != node)
        at = (at + 1) & mask;
    return &schema->order_slots[at];
}

enum status schema_order(struct schema *schema) {
    uint32_t n = schema_count_objects(schema->root);
    schema->n_order_slots = 16;
    while (schema->n_order_slots < n * 2)
        schema->n_order_slots *= 2;
    schema->order_slots = calloc(schema->n_order_slots, sizeof *schema->order_slots);
    if (!schema->order_slots)
        return error_set(schema->error, STATUS_NOMEM, "out of memory");
    program_work(schema->program, n);
    return program_status(schema->program, schema->error);
}

void schema_put(struct schema *schema, const json_t *node, uint32_t number, uint32_t resource) {
    *schema_order_slot_of(schema, node) =
        (struct order_slot){.node = node, .number = number, .resource = resource};
}

static const struct order_slot *schema_order_known(const struct schema *schema,
                                                   const json_t *node) {
    const struct order_slot *slot = schema_order_slot_of(schema, node);
    ASSERT(slot->node == node);
    return slot;
}

uint32_t schema_number(const struct schema *schema, const json_t *node) {
    return schema_order_known(schema, node)->number;
}

uint32_t schema_resource(const struct schema *schema, const json_t *node) {
    return schema_order_known(schema, node)->resource;
}
