/* tests/gpu/times.c: how long what takes on a GPU: what the machine does at best (rates), operations by themselves (kernels), whole
 * steps of models (steps), and products in every way that they may be cut into blocks (cuts). Each measure is a line of JSON. On the
 * emulator all of it runs with tiny shapes, and no time is said. */
#include "tests/gpu/times.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: gpu_times rates|kernels|steps|cuts BACKEND[:NUMERICS] [--model TEXT] [--load TEXT] "
    "[--layers N]\n"
    "       [--operation NAME] [--rows N] [--no-graphs]\n";

static bool take_wish(struct times_wish *wish, int argc, char **argv) {
    for (int i = 3; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--no-graphs") == 0) {
            wish->no_graphs = true;
            continue;
        }
        if (!value)
            return false;
        if (strcmp(argv[i], "--model") == 0)
            wish->model = value;
        else if (strcmp(argv[i], "--load") == 0)
            wish->load = value;
        else if (strcmp(argv[i], "--operation") == 0)
            wish->operation = value;
        else if (strcmp(argv[i], "--rows") == 0)
            wish->rows = (uint32_t)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--layers") == 0)
            wish->n_layers = (uint32_t)strtoul(value, NULL, 10);
        else
            return false;
        i++;
    }
    return true;
}

static void print_rates(const struct times_wish *wish) {
    const struct rates *rates = &wish->rates;
    printf("{\"measure\": \"rates\", \"device\": \"%s\", \"multiprocessors\": %u, \"capability\": "
           "%u, ",
           rates->device, rates->n_sms, rates->capability);
    if (wish->emulated)
        printf("\"copy_GB_s\": null, \"read_GB_s\": null, \"mma_T_s\": null, \"node_us\": null, "
               "\"node_ahead_us\": null}\n");
    else
        printf("\"copy_GB_s\": %.0f, \"read_GB_s\": %.0f, \"mma_T_s\": %.1f, \"node_us\": %.3f, "
               "\"node_ahead_us\": %.3f}\n",
               rates->copy_bytes_s * 1e-9, rates->read_bytes_s * 1e-9, rates->mma_ops_s * 1e-12,
               rates->node_s * 1e6, rates->node_ahead_s * 1e6);
}

static uint32_t times_rates(const struct times_wish *wish) {
    (void)wish;
    return 1; /* they are printed in every mode */
}

static const struct {
    const char *name;
    uint32_t (*run)(const struct times_wish *wish);
} modes[] = {{"rates", times_rates},
             {"kernels", times_kernels},
             {"steps", times_models},
             {"cuts", times_cuts}};

int main(int argc, char **argv) {
    struct times_wish wish = {.backend = argc > 2 ? argv[2] : ""};
    char device[32];
    snprintf(device, sizeof device, "%.*s", (int)strcspn(wish.backend, ":"), wish.backend);
    const struct rate_member *member = rates_find(device);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (argc < 3 || strcmp(argv[1], modes[i].name) != 0 || !take_wish(&wish, argc, argv))
            continue;
        if (!member) {
            fprintf(stderr, "gpu_times: no device '%s' in this build\n", device);
            return EXIT_FAILURE;
        }
        wish.emulated = strcmp(device, "cuda-emu") == 0;
        rates_measure(member, wish.emulated, &wish.rates);
        print_rates(&wish);
        if (modes[i].run(&wish) > 0)
            return EXIT_SUCCESS;
        fprintf(stderr, "gpu_times: nothing here has such a name\n");
        return EXIT_FAILURE;
    }
    fputs(usage, stderr);
    return EXIT_FAILURE;
}
