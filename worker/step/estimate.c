#include "worker/step/estimate.h"

#include "base/assert.h"

/* Below this a step reads all weights once however many tokens it has; from here on its time grows
 * with them. */
#define PROPORTIONAL_TOKENS 16

static unsigned class_of(uint32_t n_tokens) {
    unsigned class = 31 - (unsigned)__builtin_clz(n_tokens | 1);
    return class < ESTIMATE_CLASSES ? class : ESTIMATE_CLASSES - 1;
}

/* How much longer a step of n_tokens takes than one in the middle of its class. */
static double share_of_middle(uint32_t n_tokens) {
    if (n_tokens < PROPORTIONAL_TOKENS)
        return 1.0;
    return (double)n_tokens / (1.5 * (double)(1u << class_of(n_tokens)));
}

static double usual_of(const struct estimate_class *class) {
    return class->usual_us;
}

static double cost_of(const struct estimate_class *class) {
    double least = 0;
    for (uint32_t i = 0; i < class->n_recent; i++)
        if (least <= 0 || class->recent[i].us < least)
            least = class->recent[i].us;
    return least;
}

/* A step of twice the tokens takes at most twice the time: that bounds classes that were never
 * seen, and those whose last steps were slow for reasons that are over. 0: nothing is known. */
static double figure_of(const struct estimate *estimate, uint32_t n_tokens,
                        double (*figure)(const struct estimate_class *class)) {
    unsigned class = class_of(n_tokens);
    double us = 0;
    for (unsigned c = 0; c <= class; c++) {
        double own = figure(&estimate->classes[c]);
        us = us > 0 && (own <= 0 || own > 2 * us) ? 2 * us : own;
    }
    for (unsigned above = class + 1; us <= 0 && above < ESTIMATE_CLASSES; above++)
        us = figure(&estimate->classes[above]);
    return us;
}

static uint32_t whole_us(double us) {
    if (us < 1)
        return 1;
    return us > 3600e6 ? 3600000000u : (uint32_t)us;
}

uint32_t estimate_us(const struct estimate *estimate, uint32_t n_tokens) {
    return whole_us(figure_of(estimate, n_tokens, usual_of));
}

uint32_t estimate_cost_us(const struct estimate *estimate, uint32_t n_tokens) {
    double us = figure_of(estimate, n_tokens, cost_of);
    /* Nor do fewer tokens cost more than more of them did. */
    for (unsigned above = class_of(n_tokens) + 1; above < ESTIMATE_CLASSES; above++) {
        double more = cost_of(&estimate->classes[above]);
        us = more > 0 && more < us ? more : us;
    }
    return whole_us(us * share_of_middle(n_tokens));
}

static uint64_t newest_of(const struct estimate_class *class) {
    return class->recent[(class->next + ESTIMATE_RECENT - 1) % ESTIMATE_RECENT].number;
}

static void remember(struct estimate *estimate, struct estimate_class *class, double us) {
    class->recent[class->next].us = us;
    class->recent[class->next].number = ++estimate->n_learnt;
    class->next = (class->next + 1) % ESTIMATE_RECENT;
    if (class->n_recent < ESTIMATE_RECENT)
        class->n_recent++;
}

/* Half the tokens take at least half the time. Where all that is remembered of a class says that
 * it is slow, and a smaller class was quick only before that, the machine has become slower: what
 * the smaller one remembers is over. */
static void correct_smaller(struct estimate *estimate, unsigned class) {
    const struct estimate_class *own = &estimate->classes[class];
    if (own->n_recent < ESTIMATE_RECENT)
        return;
    double least = cost_of(own), usual = own->usual_us;
    uint64_t oldest = own->recent[own->next].number;
    for (unsigned c = class; c-- > 0;) {
        struct estimate_class *smaller = &estimate->classes[c];
        least /= 2;
        usual /= 2;
        if (smaller->n_recent == 0 || newest_of(smaller) > oldest || cost_of(smaller) >= least)
            continue;
        smaller->n_recent = smaller->next = 0;
        smaller->usual_us = smaller->usual_us > usual ? smaller->usual_us : usual;
        remember(estimate, smaller, least);
    }
}

void estimate_learn(struct estimate *estimate, uint32_t n_tokens, uint64_t us) {
    ASSERT(n_tokens > 0);
    struct estimate_class *class = &estimate->classes[class_of(n_tokens)];
    double new = us > 0 ? (double)us : 1;
    /* A machine that has become busy stays so for a while: better to announce too much. */
    double weight = new > class->usual_us ? 0.5 : 0.125;
    class->usual_us =
        class->usual_us > 0 ? class->usual_us + (new - class->usual_us) * weight : new;
    remember(estimate, class, new / share_of_middle(n_tokens));
    correct_smaller(estimate, class_of(n_tokens));
}

uint32_t estimate_tokens(const struct estimate *estimate, uint32_t most, uint32_t us) {
    uint32_t n = most / 16 * 16;
    while (n > 16 && estimate_cost_us(estimate, n) > us)
        n -= 16;
    return most < 16 ? most : n;
}
