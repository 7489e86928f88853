/* tools/cli/top/top.h: the command `tandem top`: a live view of a running server. */
#pragma once

/* argv[0] is "tandem top". Answers an exit code: 0 done, 78 wrong use or configuration, else it
 * failed. */
int top_command(int argc, char **argv);
