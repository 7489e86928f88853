/* base/exit.h: how programs of ours end. 0: a requested stop, or work done; EXIT_CONFIG: wrong
 * options, configuration or model, a restart would not help; EXIT_LATER: what it needs is not
 * there, or held by another, so the program that started it tries again; anything else: it died. */
#pragma once

struct error;

#define EXIT_CONFIG 78 /* EX_CONFIG of sysexits.h; systemd does not restart it */
#define EXIT_LATER  75 /* EX_TEMPFAIL of sysexits.h; systemd restarts it */

/* Writes each line of `lines` to standard error as "error: ...", the form that people, scripts and
 * `tandem up` read, and answers `code`. */
int exit_with(int code, const char *lines);

/* The same, of a text that is formatted; cut after 2,047 bytes. */
int exit_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A start that failed: EXIT_LATER where the error may pass, which the line then says; else EXIT_CONFIG. */
int exit_of(const struct error *error);

/* From now on the program does not end with 0 when standard output could not be written (a full
 * disk). For a program's main, once. */
void exit_checks_stdout(void);

/* Ends at once, as _exit() does: nothing is closed or freed, since other threads still use it. The
 * log's last lines leave first (log_writer_finish()). Any thread. */
_Noreturn void exit_now(int code);
