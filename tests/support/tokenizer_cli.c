/* tests/support/tokenizer_cli.c: any tokenizer on its own, for oracles that go both ways.
 *
 * usage: tokenizer_cli MODEL [--special] [--parse-special]
 * MODEL is what tokenizer_open_path() takes. Each line of standard input is JSON: a text, answered
 * with its ids, or a list of ids, answered with their text, made one id at a time. --special: the
 * ids with what the model puts around a text; --parse-special: special tokens' texts
 * become them. */
#include "model/text/tokenizer/detokenize.h"
#include "model/text/tokenizer/tokenizer.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *encode(const struct tokenizer *tokenizer, struct tokenizer_scratch *scratch,
                      unsigned flags, const json_t *line) {
    struct span text = {json_string_value(line), json_string_length(line)};
    struct error error;
    struct ids ids;
    json_t *answer;
    ids_init(&ids, 0);
    if (tokenizer_encode(tokenizer, scratch, text, flags, &ids, &error) != STATUS_OK) {
        ids_fini(&ids);
        return json_pack("{s:s}", "error", error.text);
    }
    answer = json_array();
    for (size_t i = 0; i < ids.n; i++)
        json_array_append_new(answer, json_integer(ids.at[i]));
    ids_fini(&ids);
    return answer;
}

static json_t *decode(const struct tokenizer *tokenizer, const json_t *line) {
    struct detokenizer detokenizer;
    struct buf out;
    json_t *answer = NULL;
    enum status status = STATUS_OK;
    buf_init(&out, 0);
    detokenizer_init(&detokenizer, false);
    for (size_t i = 0; i < json_array_size(line) && status == STATUS_OK; i++) {
        json_int_t id = json_integer_value(json_array_get(line, i));
        status = detokenizer_push(&detokenizer, tokenizer, (uint32_t)id, &out);
    }
    if (status == STATUS_OK && detokenizer_flush(&detokenizer, &out) == STATUS_OK)
        answer = json_stringn(out.data ? out.data : "", out.n);
    buf_fini(&out);
    return answer ? answer : json_pack("{s:s}", "error", "the ids make no text");
}

static void run(const struct tokenizer *tokenizer, struct tokenizer_scratch *scratch,
                unsigned flags) {
    char *line = NULL;
    size_t size = 0;
    for (ssize_t n; (n = getline(&line, &size, stdin)) >= 0;) {
        json_t *value = json_loadb(line, (size_t)n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        json_t *answer = json_is_array(value) ? decode(tokenizer, value)
                         : json_is_string(value)
                             ? encode(tokenizer, scratch, flags, value)
                             : json_pack("{s:s}", "error", "neither a text nor a list");
        char *text = json_dumps(answer, JSON_ENCODE_ANY | JSON_COMPACT);
        puts(text ? text : "null");
        free(text);
        json_decref(answer);
        json_decref(value);
    }
    free(line);
}

int main(int argc, char **argv) {
    struct tokenizer *tokenizer = NULL;
    struct error error;
    unsigned flags = 0;
    bool is_known = argc >= 2;
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--special") == 0)
            flags |= TOKENIZER_ADD_BOS;
        else if (strcmp(argv[i], "--parse-special") == 0)
            flags |= TOKENIZER_PARSE_SPECIAL;
        else
            is_known = false;
    }
    if (!is_known) {
        fprintf(stderr, "usage: %s MODEL [--special] [--parse-special]\n", argv[0]);
        return 2;
    }
    if (tokenizer_open_path(argv[1], &tokenizer, &error) != STATUS_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    struct tokenizer_scratch *scratch = tokenizer_scratch_new();
    if (scratch)
        run(tokenizer, scratch, flags);
    tokenizer_scratch_free(scratch);
    tokenizer_close(tokenizer);
    return scratch && fflush(stdout) == 0 ? 0 : 1;
}
