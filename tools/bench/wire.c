#include "tools/bench/wire.h"

#include <string.h>

static const struct {
    const char *scheme;
    const struct wire *wire;
} wires[] = {{"http://", &wire_http},
             {"https://", &wire_http},
             {"grpc://", &wire_grpc},
             {"grpcs://", &wire_grpc}};

const struct wire *wire_find(const char *url) {
    if (!strstr(url, "://"))
        return &wire_http;
    for (unsigned i = 0; i < sizeof wires / sizeof *wires; i++)
        if (strncmp(url, wires[i].scheme, strlen(wires[i].scheme)) == 0)
            return wires[i].wire;
    return NULL;
}
