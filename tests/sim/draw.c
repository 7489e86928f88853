#include "tests/sim/sim.h"

bool draw_chance(struct random *random, uint64_t percent) {
    return random_below(random, 100) < percent;
}

uint64_t draw_between(struct random *random, uint64_t low, uint64_t high) {
    return low + random_below(random, high - low + 1);
}

/* A geometric choice among octaves: mostly short, now and then eight times the mean. */
uint64_t draw_about(struct random *random, uint64_t mean) {
    uint64_t scale = mean / 2 + 1;
    for (int i = 0; i < 4 && random_below(random, 2); i++)
        scale *= 2;
    return random_below(random, scale);
}
