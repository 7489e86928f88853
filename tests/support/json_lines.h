/* tests/support/json_lines.h: a program that answers each line of standard input, a JSON value, with a line of its own. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Until the input ends. `answer` owns nothing of the line, which is NULL where it is not JSON; its reply is given away. False:
 * standard output failed. */
static inline bool json_lines(json_t *(*answer)(void *context, const json_t *line), void *context) {
    char *line = NULL;
    size_t size = 0;
    bool done = true;
    for (ssize_t n; done && (n = getline(&line, &size, stdin)) >= 0;) {
        json_t *value = json_loadb(line, (size_t)n, JSON_ALLOW_NUL, NULL);
        json_t *reply = answer(context, value);
        char *shown = json_dumps(reply, JSON_COMPACT);
        puts(shown ? shown : "null");
        done = fflush(stdout) == 0;
        free(shown);
        json_decref(reply);
        json_decref(value);
    }
    free(line);
    return done;
}
