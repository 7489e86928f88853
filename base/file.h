/* base/file.h: files from strangers: opened as regular files only, read whole or mapped.
 *
 * A mapped file that another process cuts short raises SIGBUS when the lost bytes are touched.
 * Three things stand against that: install files by rename, never by writing over them; ask
 * file_map_check() right before long reading; and file_guard() turns what is left into one line and
 * an orderly end of the process. Opening and reading are for start-up. */
#pragma once

#include "base/error.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

struct file_map {
    const unsigned char *bytes; /* the whole file, read-only; NULL for an empty one */
    uint64_t n_bytes;
    int fd; /* of the mapped file, for file_map_check(); -1 on a closed map */
};

/* Writes FOLDER/NAME into path. True when a file of that name exists, of any type: opening it
 * tells, of a link that leads nowhere too. False, too, when the path does not fit into `size`
 * bytes. */
bool file_is_there(const char *folder, const char *name, char *path, size_t size);

bool file_is_folder(const char *path);

/* Opens for reading. Links are followed once, here; a link that is put in the file's place
 * meanwhile is refused, and so is anything but a regular file (a FIFO does not block). The caller
 * closes *fd. STATUS_NOT_FOUND, STATUS_IO with a line that names the path. */
NODISCARD enum status file_open(const char *path, int *fd, uint64_t *n_bytes, struct error *error);

/* Appends the file's bytes to `out`. STATUS_LIMIT when there are more than n_max, STATUS_CORRUPT for a
 * pointer of Git LFS in the file's place; else as file_open(), and STATUS_NOMEM. */
NODISCARD enum status file_read(const char *path, uint64_t n_max, struct buf *out,
                                struct error *error);

/* Of an open file of keys or of whom to trust: STATUS_DENIED with the way out when others may change
 * it or, where it `is_private`, read it. A group may read: systemd's credentials are 0440. */
NODISCARD enum status file_check_mode(int fd, const char *path, bool is_private,
                                      struct error *error);

/* As file_read(), behind file_check_mode(). */
NODISCARD enum status file_read_trusted(const char *path, bool is_private, uint64_t n_max,
                                        struct buf *out, struct error *error);

/* Errors as file_open(), STATUS_CORRUPT for a pointer of Git LFS, and STATUS_NOMEM. */
NODISCARD enum status file_map(const char *path, struct file_map *map, struct error *error);
void file_unmap(struct file_map *map); /* fine on a zeroed one */

/* STATUS_IO with a line naming `path` when the file is shorter than it was when it was mapped. */
NODISCARD enum status file_map_check(const struct file_map *map, const char *path,
                                     struct error *error);

/* Hands the mapping's pages back to the page cache: nothing changes but resident memory. */
void file_map_drop(const struct file_map *map);

/* From now on a touch of bytes that a mapped file has lost ends the process: one line on standard
 * error that names `what`, cut to 200 bytes, and exit code 74 (EX_IOERR of sysexits.h). For a
 * program's main. */
void file_guard(const char *what);
