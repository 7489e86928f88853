/* base/log/log_writer.h: lines for standard error that never make their writer wait.
 *
 * Standard error may be a terminal that somebody stopped, a pipe whose reader sleeps, a full disk.
 * A thread of its own writes there with write(2), from a ring that any thread puts lines into; when
 * the ring is full, or a write fails, lines are lost, counted, and reported as one line in their
 * place. A program that ends writes what the thread has not begun with by itself, and does not
 * wait for ever (stderr.h).
 *
 * Locking: one mutex over the ring, held for a copy of at most one batch and never during a write,
 * which a flag under it gives to one thread at a time.
 * A child of fork() has no such thread: its lines are written directly, and may wait. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_LINE_MAX 4095 /* bytes with newline; more is cut. A pipe takes 4096 in one piece */

enum log_weight {
    LOG_ORDINARY,
    LOG_LAST, /* may be the reason of an end: part of the ring is kept for such lines */
};

/* Starts the thread, once; a second call does nothing. Until then, and if there can be no thread,
 * lines are written directly. For a program's main. */
void log_writer_start(void);

/* One line, with or without its newline. Any thread; no signal handler. */
void log_writer_put(const char *line, size_t n, enum log_weight weight);

/* Waits at most `limit_ms` until all lines put so far have left; false: they have not. Any thread
 * and signal handlers. */
bool log_writer_flush(unsigned limit_ms);

/* Before the program ends: all lines have left when it answers true. Batches that the thread has
 * not begun to write are written by the caller, in their order, so it does not matter when the
 * thread gets a processor. False: standard error took nothing for 1 s, 5 s were not enough, or a
 * write failed. Any thread and signal handlers; also called when the program exits. */
bool log_writer_finish(void);

/* The last line of a program that ends: after log_writer_finish(), and given up when standard
 * error takes nothing. n at most LOG_LINE_MAX. Signal handlers too. */
void log_writer_last(const char *line, size_t n);

/* Lines lost since the start, reported or not. Any thread. */
uint64_t log_writer_lost(void);
