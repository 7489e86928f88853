#include "tools/lib/http_trust.h"

#include "base/client/http_url.h"

#include <stddef.h>

#define AT(member) offsetof(struct http_trust, member)
const struct args_row http_trust_rows[] = {
    {"ca", "FILE", args_text, AT(ca),
     .help = "PEM: trust these for https:// (default: the system's)"},
    {"insecure", NULL, args_switch, AT(insecure),
     .help = "take any certificate of an https:// server"},
    {0}};
