#include "tools/cli/cli.h"

#include "base/exit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const char *cli_server(const char *option) {
    const char *from_env = getenv("TANDEM_SERVER");
    return option ? option : from_env && from_env[0] ? from_env : "http://127.0.0.1:8000";
}

int cli_fail(int code, const char *format, ...) {
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return exit_with(code, text);
}
