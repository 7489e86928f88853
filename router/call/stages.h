/* router/call/stages.h: the way of a call, as a table of its stages. Loop's thread only. */
#pragma once

#include <stdbool.h>

struct call;

/* Takes the call as far as it can go now. True: it is over, and its client, log and metrics know. */
bool stages_advance(struct call *call);
