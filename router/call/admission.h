/* router/call/admission.h: the stage admit: a call's sequences go to the core, all or none. */
#pragma once

struct call;

/* Checks lengths against the context, makes the sequences and asks the core for each. On a refusal
 * those before are cancelled and the call fails. */
void admission_run(struct call *call);
