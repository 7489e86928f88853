/* model/text/grammar/notation/special.h: a special token in a grammar's source: <think>, <|call|>, or by
 * its id <[151657]>. */
#pragma once

#include "model/text/grammar/notation/notation.h"

/* Reads one, from its '<' on. STATUS_INVALID where the model has none of that name; STATUS_UNSUPPORTED for an
 * id of a token with text. */
NODISCARD enum status special_read(struct notation *notation, struct element *element);
