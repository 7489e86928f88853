/* tools/cli/status.h: the commands `tandem status`, `tandem drain` and `tandem kill`: questions to a
 * running server. */
#pragma once

/* argv[0] is the command's name. Each answers an exit code: 0 done, 78 wrong use or configuration,
 * else it failed. */
int status_command(int argc, char **argv);
int status_drain_command(int argc, char **argv);
int status_kill_command(int argc, char **argv);
