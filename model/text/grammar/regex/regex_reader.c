#include "model/text/grammar/regex/regex_reader.h"

#include <stdlib.h>

enum status reader_fail(struct reader *reader, enum status status, const char *what) {
    if (status == STATUS_NOMEM)
        return error_set(reader->error, status, "out of memory");
    return error_set(reader->error, status, "regular expression, column %zu: %s", reader->at + 1,
                     what);
}

enum status reader_add(struct reader *reader, struct regex_node node, uint32_t *made) {
    struct regex *regex = reader->regex;
    if (regex->n_nodes == regex->nodes_size) {
        uint32_t size = regex->nodes_size ? regex->nodes_size * 2 : 64;
        struct regex_node *grown =
            size > REGEX_NODES_MAX * 2 ? NULL : realloc(regex->nodes, size * sizeof *grown);
        if (!grown)
            return reader_fail(reader, size > REGEX_NODES_MAX * 2 ? STATUS_LIMIT : STATUS_NOMEM,
                               "it is too large");
        regex->nodes = grown;
        regex->nodes_size = size;
    }
    regex->nodes[regex->n_nodes] = node;
    *made = regex->n_nodes++;
    return STATUS_OK;
}
