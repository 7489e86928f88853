#include "model/model.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_gguf.h"

#include <stdlib.h>
#include <unistd.h>

struct model *tiny_gguf_open(const struct tiny_gguf *tiny) {
    struct model *model;
    struct error error;
    struct buf file;
    char path[] = "/tmp/tandem-tiny-XXXXXX";
    buf_init(&file, 0);
    tiny_gguf_write(&file, tiny);
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, file.data, file.n), (ssize_t)file.n);
    close(fd);
    enum status status = model_open(path, NULL, &model, &error);
    unlink(path);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    buf_fini(&file);
    return model;
}
