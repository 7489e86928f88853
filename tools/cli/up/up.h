/* tools/cli/up/up.h: the command `tandem up`: a whole cluster as children of this process. */
#pragma once

/* argv[0] is "tandem up". Answers an exit code: 0 done, 78 wrong use or configuration, else it
 * failed. */
int up_command(int argc, char **argv);
