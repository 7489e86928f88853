/* tools/lib/http_trust.h: whom our tools believe that a server is there, as options. */
#pragma once

#include "tools/lib/args.h"

/* The options --ca and --insecure, of a struct http_trust (base/client/http_url.h). */
extern const struct args_row http_trust_rows[];
