/* What the workers' models take here, by their own plans. */
#include "kernels/needs.h"
#include "tools/cli/doctor/doctor_parts.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define SAYS_BYTES (1u << 20)

static double doctor_memory_gib(double n_bytes) {
    return n_bytes / (double)(1ull << 30);
}

static void doctor_memory_say_refusal(struct doctor *doctor, const struct settings *worker,
                                      const char *line) {
    static const char prefix[] = "error: ";
    line += strncmp(line, prefix, sizeof prefix - 1) == 0 ? sizeof prefix - 1 : 0;
    findings_add(&doctor->findings, FINDING_FAULT, "memory",
                 "correct it; `tandem-worker --dry-run` prints a worker's plan", "%s%s%.*s",
                 worker->name, worker->name[0] ? ": " : "", (int)strcspn(line, "\n"), line);
}

/* Bytes that this worker takes on the host by its own plan, 0 where that is not known. */
static double doctor_memory_plan_of(struct doctor *doctor, const struct settings *worker,
                                    double *available) {
    struct buf out, errors;
    struct error error;
    char ranks[VALUE_MAX], tp[VALUE_MAX];
    int code = 0;
    static const char *const questions[] = {"--dry-run", "--json", NULL};
    buf_init(&out, SAYS_BYTES);
    buf_init(&errors, SAYS_BYTES);
    double n_bytes = 0;
    if (settings_ask(&doctor->source, "tandem-worker", worker->name, questions, &out, &errors,
                     &code, &error) == STATUS_OK &&
        code != 0 && errors.n > 0)
        doctor_memory_say_refusal(doctor, worker, errors.data);
    json_t *root = json_loadb(out.data ? out.data : "", out.n, 0, NULL);
    if (root) {
        settings_get(worker, "ranks_here", ranks);
        settings_get(worker, "tp", tp);
        double n_ranks = atoi(ranks) > 0 ? atoi(ranks) : atoi(tp);
        double per_token = json_number_value(json_object_get(root, "kv_bytes_per_token"));
        n_bytes = n_ranks * (json_number_value(json_object_get(root, "weights_bytes")) +
                             json_number_value(json_object_get(root, "scratch_bytes")) +
                             json_number_value(json_object_get(root, "tokens")) * per_token);
        *available = json_number_value(json_object_get(root, "available_bytes"));
    }
    json_decref(root);
    buf_fini(&out);
    buf_fini(&errors);
    return n_bytes;
}

/* Another worker of the file has this endpoint, so at most one of the two runs on this host. */
static bool doctor_memory_is_another(const struct doctor *doctor, unsigned i) {
    char mine[VALUE_MAX], other[VALUE_MAX];
    if (!settings_get(&doctor->workers[i], "endpoint", mine) || !mine[0])
        return false;
    for (unsigned j = 0; j < i; j++)
        if (settings_get(&doctor->workers[j], "endpoint", other) && strcmp(mine, other) == 0)
            return true;
    return false;
}

void doctor_look_at_memory(struct doctor *doctor) {
    double n_bytes = 0, available = 0;
    unsigned n = 0;
    char value[VALUE_MAX];
    if (findings_has(&doctor->findings, FINDING_FAULT, "model"))
        return; /* its plan would say the same again */
    for (unsigned i = 0; i < doctor->n_workers; i++) {
        const struct settings *worker = &doctor->workers[i];
        if (!settings_get(worker, "model", value) || !value[0] ||
            (settings_get(worker, "endpoint", value) && doctor_is_elsewhere(value)) ||
            doctor_memory_is_another(doctor, i))
            continue;
        if (settings_get(worker, "backend", value) && kernels_need_device(value))
            continue; /* weights and KV are the device's */
        double plan = doctor_memory_plan_of(doctor, worker, &available);
        n_bytes += plan;
        n += plan > 0;
    }
    if (n == 0)
        return;
    if (n_bytes <= available || doctor->n_ready > 0)
        findings_add(&doctor->findings, FINDING_OK, "memory", NULL,
                     "%u worker%s: about %.1f GiB; %.1f GiB are free%s", n, n == 1 ? "" : "s",
                     doctor_memory_gib(n_bytes), doctor_memory_gib(available),
                     doctor->n_ready > 0 ? " in addition to those that run" : "");
    else
        findings_add(&doctor->findings, FINDING_FAULT, "memory",
                     "fewer KV blocks (kv_blocks), fewer workers, or a smaller model",
                     "%u worker%s: about %.1f GiB, and only %.1f GiB are free", n,
                     n == 1 ? "" : "s", doctor_memory_gib(n_bytes), doctor_memory_gib(available));
}
