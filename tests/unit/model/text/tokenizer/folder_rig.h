/* tests/unit/model/text/tokenizer/folder_rig.h: a made model folder, and what its tokenizer says of a text. One folder at a time. */
#pragma once

#include "model/text/tokenizer/tokenizer.h"

#include <stddef.h>

extern char folder[64]; /* from make_folder() to remove_folder(), which removes what lies in it */
void make_folder(void);
void remove_folder(void);

void path_of(char path[128], const char *name);
void write_bytes(const char *name, const void *bytes, size_t n);
void write_file(const char *name, const char *text);

/* The ids of the text as "1 2 3". */
void encode(const struct tokenizer *tokenizer, const char *text, unsigned flags, char shown[512]);
void expect(const struct tokenizer *tokenizer, const char *text, unsigned flags,
            const char *wanted);
