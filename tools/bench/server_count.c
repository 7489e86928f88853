#include "tools/bench/server_count.h"

#include "tools/lib/http_fetch.h"

#include <stdlib.h>
#include <string.h>

#define METRICS_MAX (8u << 20)

/* The sum of a metric's values over its labels, in Prometheus' text format. */
static double sum_of(const char *text, const char *name) {
    size_t n = strlen(name);
    double sum = 0;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, n) != 0 || (line[n] != '{' && line[n] != ' '))
            continue;
        const char *value = line + n;
        if (*value == '{')
            value = strstr(value, "} ");
        sum += value ? strtod(value + 1, NULL) : 0;
    }
    return sum;
}

uint64_t server_count_preempted(const struct http_url *urls, uint32_t n_urls, const char *api_key,
                                double timeout_s) {
    double sum = 0;
    for (uint32_t i = 0; i < n_urls; i++) {
        struct http_ask ask = {.method = "GET", .path = "/metrics", .api_key = api_key};
        struct buf answer;
        struct error error;
        int code = 0;
        buf_init(&answer, METRICS_MAX);
        if (http_fetch(&urls[i], &ask, timeout_s, &code, &answer, &error) == STATUS_OK &&
            code == 200 && answer.data)
            sum += sum_of(answer.data, "vllm:num_preemptions_total");
        buf_fini(&answer);
    }
    return sum > 0 ? (uint64_t)sum : 0;
}
