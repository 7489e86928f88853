/* tools/cli/cli.h: the commands of the program `tandem`. Each takes its own arguments (argv[0] is
 * the command's name) and answers an exit code: 0 done, 78 wrong use or configuration, else it
 * failed. */
#pragma once

int cli_up(int argc, char **argv);
int cli_chat(int argc, char **argv);
int cli_status(int argc, char **argv);
int cli_top(int argc, char **argv);
int cli_drain(int argc, char **argv);
int cli_doctor(int argc, char **argv);
int cli_keys(int argc, char **argv);
int cli_model(int argc, char **argv);

/* The server that commands talk to: the option's value, else $TANDEM_SERVER, else the usual
 * address. */
const char *cli_server(const char *option);

/* Prints "error: ..." on standard error and returns `code`. */
int cli_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
