/* worker/step/emit.h: what a step gives to others: its expected length, finished layers, tokens.
 * Engine thread only. */
#pragma once

#include <stdint.h>

struct worker;

/* Before the forward pass: routers hear how long it will take. */
void emit_begin(struct worker *worker);

/* During it (struct family_step): layers on their way to decode workers. context: the worker. */
void emit_layers(void *context, uint32_t layer_begin, uint32_t layer_end);

/* After it: tokens to the routers. */
void emit_end(struct worker *worker);
