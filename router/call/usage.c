#include "router/call/usage.h"

#include "base/metrics.h"
#include "router/call/quota.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No key's name begins so. */
#define NOBODY "-"
#define OTHERS "-others"

struct usage {
    struct metrics *metrics; /* borrowed */
    uint32_t n;
    struct usage_row {
        char name[QUOTA_NAME_MAX + 1];
        struct metric *calls, *prompt, *completion, *cached;
    } rows[USAGE_NAMES_MAX + 2]; /* (n): nobody's first; the last place is for the others */
};

static struct metric *add_series(struct usage *usage, const char *name, const char *help,
                                 const struct metric_label *label) {
    return metrics_counter(
        usage->metrics,
        (struct metric_spec){.name = name, .help = help, .labels = label, .n_labels = 1});
}

static struct usage_row *add_row(struct usage *usage, const char *name) {
    struct usage_row *row = &usage->rows[usage->n++];
    const struct metric_label label = {"key", name};
    snprintf(row->name, sizeof row->name, "%s", name);
    row->calls = add_series(usage, "tandem_key_requests_total",
                            "Calls that ended, by their key's name.", &label);
    row->prompt = add_series(usage, "tandem_key_prompt_tokens_total",
                             "Prompt tokens that workers got, by the key's name.", &label);
    row->completion = add_series(usage, "tandem_key_generation_tokens_total",
                                 "Generated tokens, by the key's name.", &label);
    row->cached = add_series(usage, "tandem_key_cached_tokens_total",
                             "Prompt tokens found in a prefix cache, by the key's name.", &label);
    return row;
}

static struct usage_row *find_row(struct usage *usage, const char *name) {
    for (uint32_t i = 0; i < usage->n; i++)
        if (strcmp(usage->rows[i].name, name) == 0)
            return &usage->rows[i];
    if (usage->n <= USAGE_NAMES_MAX)
        return add_row(usage, name);
    return strcmp(name, OTHERS) == 0 ? add_row(usage, OTHERS) : find_row(usage, OTHERS);
}

enum status usage_new(struct metrics *metrics, struct usage **out) {
    struct usage *usage = calloc(1, sizeof *usage);
    if (!usage)
        return STATUS_NOMEM;
    usage->metrics = metrics;
    add_row(usage, NOBODY);
    *out = usage;
    return STATUS_OK;
}

void usage_free(struct usage *usage) {
    free(usage);
}

void usage_add(struct usage *usage, const char *name, const struct usage_call *call) {
    struct usage_row *row = find_row(usage, name[0] ? name : NOBODY);
    metric_add(row->calls, 1);
    metric_add(row->prompt, call->n_prompt_tokens);
    metric_add(row->completion, call->n_completion_tokens);
    metric_add(row->cached, call->n_cached_tokens);
}
