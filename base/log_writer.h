/* base/log_writer.h: lines for standard error that never make their writer wait.
 *
 * Standard error may be a terminal that somebody stopped, a pipe whose reader sleeps, a full disk.
 * A thread of its own writes there with write(2), from a ring that any thread puts lines into; when
 * the ring is full, or a write fails, lines are lost, counted, and reported as one line in their
 * place. No O_NONBLOCK: the flag belongs to the open file, which we share with whoever started us;
 * and poll() before each write is no promise, because others write to the same pipe or terminal.
 *
 * Locking: one mutex over the ring, held for a copy of at most one batch and never during a write.
 * A child of fork() has no such thread: its lines are written directly, and may wait. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_LINE_MAX 4095 /* bytes with newline; more is cut. A pipe takes 4096 in one piece */

/* Starts the thread, once; a second call does nothing. Until then, and if there can be no thread,
 * lines are written directly. For a program's main. */
void log_writer_start(void);

/* One line, with or without its newline. Any thread; no signal handler. */
void log_writer_put(const char *line, size_t n);

/* Waits at most `limit_ms` until all lines put so far have left; false: they have not. Any thread
 * and signal handlers. Also called when the program exits, with 100 ms. */
bool log_writer_flush(unsigned limit_ms);

/* The last line of a program that ends: after those that still wait (at most 100 ms for them), and
 * given up when standard error takes nothing. n at most LOG_LINE_MAX. Signal handlers too. */
void log_writer_last(const char *line, size_t n);

/* Lines lost since the start, reported or not. Any thread. */
uint64_t log_writer_lost(void);
