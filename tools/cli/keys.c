#include "tools/cli/keys.h"

#include "base/exit.h"
#include "proto/keys.h"

#include <stdio.h>
#include <string.h>

int keys_command(int argc, char **argv) {
    struct error error;
    if (argc != 2 || argv[1][0] == '-') {
        FILE *out = argc == 2 && strcmp(argv[1], "--help") == 0 ? stdout : stderr;
        fputs("usage: tandem keys DIR\n\nMakes the cluster's CURVE keys in DIR (0700, the secret "
              "key 0600). Copy "
              "the folder to every\nhost and name it as `keys` in tandem.ini. Refuses to "
              "overwrite.\n",
              out);
        return out == stdout ? 0 : EXIT_CONFIG;
    }
    if (keys_make(argv[1], &error) != STATUS_OK)
        return exit_fail(1, "%s", error.text);
    printf("%s\n", argv[1]);
    return 0;
}
