/* router/call/done.h: what log and metrics are told of a call that is over. Loop's thread only. */
#pragma once

struct call;

void done_tell(const struct call *call);
