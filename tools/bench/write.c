#include "tools/bench/write.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum status write_report(const char *option, const char *path, struct buf *text,
                         struct error *error) {
    enum status status = buf_status(text);
    FILE *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    if (status != STATUS_OK)
        status = error_set(error, status, "%s: out of memory", option);
    else if (!file || fwrite(text->data ? text->data : "", 1, text->n, file) != text->n)
        status = error_set(error, STATUS_IO, "%s: %s: %s", option, path, strerror(errno));
    if (file && file != stdout && fclose(file) != 0 && status == STATUS_OK)
        status = error_set(error, STATUS_IO, "%s: %s: %s", option, path, strerror(errno));
    buf_clear(text);
    return status;
}
