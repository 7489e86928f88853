/* base/http/http2_connection.h: HTTP/2 (RFC 9113) on a connection: many requests at a time, each a
 * stream with a window of its own. */
#pragma once

#include "base/status.h"

#include <stddef.h>

struct protocol;

extern const struct protocol http2_protocol;
