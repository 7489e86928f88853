#include "tools/cli/batch_lines.h"

#include "base/buf.h"
#include "base/json/json_read.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct batch_lines {
    const char *in_path, *out_path; /* borrowed */
    FILE *in;                       /* owned */
    int out;                        /* owned; -1: none */
    json_t *answered;               /* owned: custom_id to the HTTP status of its answer */
    size_t n, n_answered, n_refused;
    char *text; /* owned: the line that is read */
    size_t size;
    unsigned long number; /* of it */
};

static enum status batch_lines_failed(const char *path, struct error *error) {
    enum status status = errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO;
    return error_set(error, status, "%s: %s", path, strerror(errno));
}

static enum status batch_lines_wrong(const struct batch_lines *lines, struct error *error,
                                     const char *what) {
    return error_set(error, STATUS_INVALID, "%s:%lu: %s", lines->in_path, lines->number, what);
}

/* The next line that is not blank. STATUS_CLOSED: the file is over. */
static enum status batch_lines_read_text(struct batch_lines *lines, size_t *n,
                                         struct error *error) {
    ssize_t got;
    while ((got = getline(&lines->text, &lines->size, lines->in)) >= 0) {
        lines->number++;
        if ((size_t)got > BATCH_LINE_MAX)
            return batch_lines_wrong(lines, error, "the line has more than 64 MiB");
        if (strspn(lines->text, " \t\r\n") < (size_t)got) {
            *n = (size_t)got;
            return STATUS_OK;
        }
    }
    return ferror(lines->in) ? batch_lines_failed(lines->in_path, error) : STATUS_CLOSED;
}

static const char *batch_lines_text_of(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

/* What is wrong with a request; NULL: nothing. */
static const char *batch_lines_fault_of(const json_t *request) {
    const json_t *body = json_object_get(request, "body");
    if (!json_is_object(request))
        return "must be a JSON object";
    if (!batch_lines_text_of(request, "custom_id")[0])
        return "`custom_id` is missing: a text, different in each line";
    if (strcmp(batch_lines_text_of(request, "method"), "POST") != 0)
        return "`method` must be POST";
    if (strncmp(batch_lines_text_of(request, "url"), "/v1/", strlen("/v1/")) != 0)
        return "`url` must be a path under /v1/, for example /v1/chat/completions";
    if (!json_is_object(body))
        return "`body` must be an object";
    if (json_is_true(json_object_get(body, "stream")))
        return "`body.stream` must not be true: an answer is one line";
    return NULL;
}

static enum status batch_lines_read_request(struct batch_lines *lines, json_t **request,
                                            struct error *error) {
    size_t n = 0;
    TRY(batch_lines_read_text(lines, &n, error));
    json_t *root = json_read(lines->text, n, JSON_REJECT_DUPLICATES, NULL);
    const char *fault = root ? batch_lines_fault_of(root) : "is not JSON";
    if (fault) {
        json_decref(root);
        return batch_lines_wrong(lines, error, fault);
    }
    *request = root;
    return STATUS_OK;
}

/* A request's custom_id stands in one line alone: in the other file it says which is answered. */
static enum status batch_lines_check_requests(struct batch_lines *lines, struct error *error) {
    json_t *request, *seen = json_object();
    enum status status = seen ? STATUS_OK : STATUS_NOMEM;
    while (status == STATUS_OK) {
        status = batch_lines_read_request(lines, &request, error);
        if (status != STATUS_OK)
            break;
        const char *id = batch_lines_text_of(request, "custom_id");
        bool is_twice = json_object_get(seen, id);
        if (is_twice)
            status = error_set(error, STATUS_EXISTS, "%s:%lu: the custom_id `%.64s` comes twice",
                               lines->in_path, lines->number, id);
        else if (json_object_set_new(seen, id, json_true()) != 0)
            status = error_set(error, STATUS_NOMEM, "no memory for %s", lines->in_path);
        lines->n += !is_twice;
        const json_t *answer = is_twice ? NULL : json_object_get(lines->answered, id);
        lines->n_answered += answer != NULL;
        lines->n_refused += answer && json_integer_value(answer) != 200;
        json_decref(request);
    }
    json_decref(seen);
    return status == STATUS_CLOSED ? STATUS_OK : status;
}

/* One answer of an earlier run. */
static enum status batch_lines_note_answer(struct batch_lines *lines, const char *text, size_t n,
                                           unsigned long number, struct error *error) {
    json_t *answer = json_read(text, n, 0, NULL);
    const json_t *response = json_object_get(answer, "response");
    const char *id = batch_lines_text_of(answer, "custom_id");
    bool is_one = id[0] && json_is_object(response);
    if (is_one) {
        json_int_t code = json_integer_value(json_object_get(response, "status_code"));
        is_one = json_object_set_new(lines->answered, id, json_integer(code)) == 0;
    }
    json_decref(answer);
    return is_one ? STATUS_OK
                  : error_set(error, STATUS_CORRUPT,
                              "%s:%lu: is no answer of a batch; name a file of its own",
                              lines->out_path, number);
}

/* What earlier runs answered; the line in which one was broken off goes. */
static enum status batch_lines_read_answers(struct batch_lines *lines, struct error *error) {
    char *text = NULL;
    size_t size = 0;
    ssize_t n;
    off_t whole = 0;
    unsigned long number = 0;
    enum status status = STATUS_OK;
    FILE *file = fopen(lines->out_path, "r");
    if (!file)
        return errno == ENOENT ? STATUS_OK : batch_lines_failed(lines->out_path, error);
    while (status == STATUS_OK && (n = getline(&text, &size, file)) > 0 && text[n - 1] == '\n') {
        status = batch_lines_note_answer(lines, text, (size_t)n, ++number, error);
        whole += n;
    }
    free(text);
    fclose(file);
    if (status == STATUS_OK && truncate(lines->out_path, whole) != 0)
        status = batch_lines_failed(lines->out_path, error);
    return status;
}

static enum status batch_lines_open_all(struct batch_lines *lines, struct error *error) {
    struct stat in, out;
    lines->in = fopen(lines->in_path, "r");
    if (!lines->in || fstat(fileno(lines->in), &in) != 0)
        return batch_lines_failed(lines->in_path, error);
    if (!S_ISREG(in.st_mode))
        return error_set(error, STATUS_INVALID, "%s: must be a regular file: it is read twice",
                         lines->in_path);
    if (stat(lines->out_path, &out) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
        return error_set(error, STATUS_INVALID, "%s: requests and answers are one file",
                         lines->out_path);
    TRY(batch_lines_read_answers(lines, error));
    TRY(batch_lines_check_requests(lines, error));
    rewind(lines->in);
    lines->number = 0;
    lines->out = open(lines->out_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    return lines->out >= 0 ? STATUS_OK : batch_lines_failed(lines->out_path, error);
}

enum status batch_lines_open(const char *in, const char *out, struct batch_lines **result,
                             struct error *error) {
    struct batch_lines *lines = calloc(1, sizeof *lines);
    if (!lines)
        return error_set(error, STATUS_NOMEM, "no memory for a batch");
    *lines =
        (struct batch_lines){.in_path = in, .out_path = out, .out = -1, .answered = json_object()};
    enum status status = lines->answered ? batch_lines_open_all(lines, error)
                                         : error_set(error, STATUS_NOMEM, "no memory for a batch");
    if (status == STATUS_OK)
        *result = lines;
    else
        batch_lines_close(lines);
    return status;
}

void batch_lines_close(struct batch_lines *lines) {
    if (!lines)
        return;
    if (lines->in)
        fclose(lines->in);
    if (lines->out >= 0)
        close(lines->out);
    json_decref(lines->answered);
    free(lines->text);
    free(lines);
}

size_t batch_lines_n(const struct batch_lines *lines) {
    return lines->n;
}

size_t batch_lines_n_answered(const struct batch_lines *lines) {
    return lines->n_answered;
}

size_t batch_lines_n_refused(const struct batch_lines *lines) {
    return lines->n_refused;
}

enum status batch_lines_next(struct batch_lines *lines, struct batch_line *line,
                             struct error *error) {
    json_t *request = NULL;
    do {
        json_decref(request);
        request = NULL;
        TRY(batch_lines_read_request(lines, &request, error));
    } while (json_object_get(lines->answered, batch_lines_text_of(request, "custom_id")));
    struct batch_line made = {strdup(batch_lines_text_of(request, "custom_id")),
                              strdup(batch_lines_text_of(request, "url")),
                              json_dumps(json_object_get(request, "body"), JSON_COMPACT)};
    json_decref(request);
    if (!made.id || !made.url || !made.body) {
        batch_line_fini(&made);
        return error_set(error, STATUS_NOMEM, "no memory for a request");
    }
    *line = made;
    return STATUS_OK;
}

void batch_line_fini(struct batch_line *line) {
    free(line->id);
    free(line->url);
    free(line->body);
    *line = (struct batch_line){0};
}

/* As it came where that is one line of JSON, else as a text. */
static void batch_lines_put_body(const char *body, size_t n, struct buf *out) {
    json_t *value = json_read(body, n, 0, NULL);
    json_t *text = value ? NULL : json_stringn(body, n);
    char *dumped = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
    if (value && !memchr(body, '\n', n))
        buf_append(out, body, n);
    else if (value)
        dumped = json_dumps(value, JSON_COMPACT);
    if (dumped || !value)
        buf_puts(out, dumped ? dumped : "null");
    free(dumped);
    json_decref(text);
    json_decref(value);
}

/* In one write: a run that is broken off leaves whole lines, or the beginning of one. */
static enum status lines_append(const struct batch_lines *lines, const struct buf *text,
                                struct error *error) {
    TRY(buf_status(text));
    for (size_t at = 0; at < text->n;) {
        ssize_t n = write(lines->out, text->data + at, text->n - at);
        if (n < 0 && errno != EINTR)
            return batch_lines_failed(lines->out_path, error);
        at += n > 0 ? (size_t)n : 0;
    }
    return STATUS_OK;
}

enum status batch_lines_answer(struct batch_lines *lines, const struct batch_line *line,
                               int http_status, const char *body, size_t n, struct error *error) {
    struct buf text;
    json_t *id = json_string(line->id);
    char *quoted = id ? json_dumps(id, JSON_ENCODE_ANY) : NULL;
    buf_init(&text, 0);
    buf_printf(&text,
               "{\"id\":\"batch_req_%zu\",\"custom_id\":%s,\"response\":{\"status_code\":%d,",
               lines->n_answered + 1, quoted ? quoted : "null", http_status);
    buf_puts(&text, "\"request_id\":null,\"body\":");
    batch_lines_put_body(body, n, &text);
    buf_puts(&text, "},\"error\":null}\n");
    text.failed |= !quoted;
    enum status status = lines_append(lines, &text, error);
    if (status == STATUS_OK) {
        lines->n_answered++;
        lines->n_refused += http_status != 200;
    }
    buf_fini(&text);
    free(quoted);
    json_decref(id);
    return status;
}
