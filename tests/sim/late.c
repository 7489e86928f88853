#include "tests/sim/late.h"

#include "tests/sim/sim.h"

void late_draw(struct sim *sim) {
    struct random random = {.state = mix64(sim->seed ^ LATE_SALT ^ 1)};
    sim->options.late = draw_chance(&random, LATE_PERCENT);
}

uint64_t late_delay(struct sim *sim, uint64_t lasts_ns) {
    uint64_t dice = random_below(&sim->draws.late, 100);
    if (dice < 50)
        return 0;
    return random_below(&sim->draws.late, (dice < 90 ? lasts_ns : 2 * lasts_ns) + 1);
}
