#include "tests/unit/model/text/tokenizer/folder_rig.h"

#include "tests/support/suite.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char folder[64];

void make_folder(void) {
    snprintf(folder, sizeof folder, "/tmp/tandem-tokenizer-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

void remove_folder(void) {
    DIR *list = opendir(folder);
    ck_assert_ptr_nonnull(list);
    for (const struct dirent *entry; (entry = readdir(list));)
        if (entry->d_name[0] != '.')
            ck_assert_int_eq(unlinkat(dirfd(list), entry->d_name, 0), 0);
    closedir(list);
    ck_assert_int_eq(rmdir(folder), 0);
}

void path_of(char path[128], const char *name) {
    snprintf(path, 128, "%s/%s", folder, name);
}

void write_bytes(const char *name, const void *bytes, size_t n) {
    char path[128];
    path_of(path, name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, n, file), n);
    ck_assert_int_eq(fclose(file), 0);
}

void write_file(const char *name, const char *text) {
    write_bytes(name, text, strlen(text));
}

void encode(const struct tokenizer *tokenizer, const char *text, unsigned flags, char shown[512]) {
    struct tokenizer_scratch *scratch = tokenizer_scratch_new();
    struct error error;
    struct ids ids;
    ids_init(&ids, 0);
    enum status status = tokenizer_encode(tokenizer, scratch, (struct span){text, strlen(text)},
                                          flags, &ids, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    shown[0] = 0;
    for (size_t i = 0, at = 0; i < ids.n; i++)
        at += (size_t)snprintf(shown + at, 512 - at, i ? " %u" : "%u", ids.at[i]);
    ids_fini(&ids);
    tokenizer_scratch_free(scratch);
}

void expect(const struct tokenizer *tokenizer, const char *text, unsigned flags,
            const char *wanted) {
    char shown[512];
    encode(tokenizer, text, flags, shown);
    ck_assert_msg(strcmp(shown, wanted) == 0, "\"%s\" gave %s, not %s", text, shown, wanted);
}
