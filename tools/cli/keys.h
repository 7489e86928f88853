/* tools/cli/keys.h: the command `tandem keys`: makes the cluster's keys. */
#pragma once

/* argv[0] is "tandem keys". Answers an exit code: 0 done, 78 wrong use or configuration, else it
 * failed. */
int keys_command(int argc, char **argv);
