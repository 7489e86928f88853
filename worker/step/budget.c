#include "worker/step/budget.h"

#include "base/assert.h"

/* Below this a step reads all weights once however many tokens it has; from here on its time grows
 * with them. */
#define PROPORTIONAL_TOKENS 16

#define MEASURES_MIN 2 /* of one size at start; BUDGET_RECENT at most */

static unsigned budget_class_of(uint32_t n_tokens) {
    unsigned class = 31 - (unsigned)__builtin_clz(n_tokens | 1);
    return class < BUDGET_CLASSES ? class : BUDGET_CLASSES - 1;
}

static double budget_middle_of(unsigned class) {
    return 1.5 * (double)(1u << class);
}

/* How many times more tokens the middle of a class has than that of the one below. */
static double budget_grows_to(unsigned class) {
    return class == 1 ? 3.0 : 2.0;
}

/* How much longer a step of n_tokens takes than one in the middle of its class. */
static double budget_share_of_middle(uint32_t n_tokens) {
    return n_tokens < PROPORTIONAL_TOKENS
               ? 1.0
               : (double)n_tokens / budget_middle_of(budget_class_of(n_tokens));
}

static double budget_usual_of(const struct budget_class *class) {
    return class->usual_us;
}

static double budget_cost_of(const struct budget_class *class) {
    return class->cost_us;
}

/* A step of twice the tokens takes at most twice the time: that bounds classes that were never
 * seen, and those whose last steps were slow for reasons that are over. 0: nothing is known. */
static double budget_figure_of(const struct budget *budget, unsigned class,
                               double (*figure)(const struct budget_class *class)) {
    double us = 0;
    for (unsigned c = 0; c <= class; c++) {
        double own = figure(&budget->classes[c]);
        double most = us * budget_grows_to(c);
        us = us > 0 && (own <= 0 || own > most) ? most : own;
    }
    for (unsigned above = class + 1; us <= 0 && above < BUDGET_CLASSES; above++)
        us = figure(&budget->classes[above]);
    return us;
}

static uint32_t budget_whole_us(double us) {
    if (us < 1)
        return 1;
    return us > 3600e6 ? 3600000000u : (uint32_t)us;
}

uint32_t budget_us(const struct budget *budget, uint32_t n_tokens) {
    return budget_whole_us(budget_figure_of(budget, budget_class_of(n_tokens), budget_usual_of));
}

/* Of a step in the class's middle. */
static double budget_class_cost(const struct budget *budget, unsigned class) {
    double us = budget_figure_of(budget, class, budget_cost_of);
    /* Nor do fewer tokens cost more than more of them did. */
    for (unsigned above = class + 1; above < BUDGET_CLASSES; above++) {
        double more = budget_cost_of(&budget->classes[above]);
        us = more > 0 && more < us ? more : us;
    }
    return us;
}

uint32_t budget_cost_us(const struct budget *budget, uint32_t n_tokens) {
    return budget_whole_us(budget_class_cost(budget, budget_class_of(n_tokens)) *
                           budget_share_of_middle(n_tokens));
}

uint32_t budget_goal_us(const struct budget *budget) {
    uint64_t rows_us = (uint64_t)budget_cost_us(budget, 1) * 3 / 2;
    return rows_us > budget->goal_us ? budget_whole_us((double)rows_us) : budget->goal_us;
}

static uint64_t budget_newest_of(const struct budget_class *class) {
    return class->recent[(class->next + BUDGET_RECENT - 1) % BUDGET_RECENT].number;
}

static void budget_remember(struct budget *budget, struct budget_class *class, double us) {
    class->recent[class->next].us = us;
    class->recent[class->next].number = ++budget->n_learnt;
    class->next = (class->next + 1) % BUDGET_RECENT;
    if (class->n_recent < BUDGET_RECENT)
        class->n_recent++;
    class->cost_us = us;
    for (uint32_t i = 0; i < class->n_recent; i++)
        class->cost_us =
            class->recent[i].us < class->cost_us ? class->recent[i].us : class->cost_us;
}

/* Half the tokens take at least half the time. Where all that is remembered of a class says that
 * it is slow, and a smaller class was quick only before that, the machine has become slower: what
 * the smaller one remembers is over. */
static void budget_correct_smaller(struct budget *budget, unsigned class) {
    const struct budget_class *own = &budget->classes[class];
    if (own->n_recent < BUDGET_RECENT)
        return;
    double least = budget_cost_of(own), usual = own->usual_us;
    uint64_t oldest = own->recent[own->next].number;
    for (unsigned c = class; c-- > 0;) {
        struct budget_class *smaller = &budget->classes[c];
        least /= budget_grows_to(c + 1);
        usual /= budget_grows_to(c + 1);
        if (smaller->n_recent == 0 || budget_newest_of(smaller) > oldest ||
            budget_cost_of(smaller) >= least)
            continue;
        smaller->n_recent = smaller->next = 0;
        smaller->usual_us = smaller->usual_us > usual ? smaller->usual_us : usual;
        budget_remember(budget, smaller, least);
    }
}

static void budget_take_measure(struct budget *budget, uint32_t n_tokens, uint64_t us) {
    struct budget_class *class = &budget->classes[budget_class_of(n_tokens)];
    double new = us > 0 ? (double)us : 1;
    /* A machine that has become quicker is tried soon. */
    if (4 * new < 3 * class->usual_us)
        budget->explore_wait = BUDGET_EXPLORE_MIN;
    /* A machine that has become busy stays so for a while: better to announce too much. */
    double weight = new > class->usual_us ? 0.5 : 0.125;
    class->usual_us =
        class->usual_us > 0 ? class->usual_us + (new - class->usual_us) * weight : new;
    budget_remember(budget, class, new / budget_share_of_middle(n_tokens));
    budget_correct_smaller(budget, budget_class_of(n_tokens));
}

/* The most tokens, `most` or a multiple of 16 below it, whose step costs at most the goal. */
static uint32_t budget_tokens_that_fit(const struct budget *budget) {
    double goal_us = budget_goal_us(budget);
    if (budget->most <= BUDGET_TOKENS_MIN)
        return budget->most;
    for (unsigned c = budget_class_of(budget->most); 1u << c > BUDGET_TOKENS_MIN / 2; c--) {
        uint32_t begin = 1u << c;
        uint32_t last = c == budget_class_of(budget->most) ? budget->most : 2 * begin - 1;
        double us = budget_class_cost(budget, c);
        if (us * last > goal_us * budget_middle_of(c))
            last = (uint32_t)(goal_us * budget_middle_of(c) / us);
        if (last < budget->most)
            last -= last % BUDGET_TOKENS_MIN;
        if (last >= begin)
            return last;
    }
    return BUDGET_TOKENS_MIN;
}

/* What fits, or twice that if it is long ago that so much did not. */
static void budget_size_next(struct budget *budget) {
    budget->n_tokens = budget->n_fits = budget_tokens_that_fit(budget);
    if (budget->n_fits < budget->most &&
        budget->n_learnt - budget->explored >= budget->explore_wait)
        budget->n_tokens = 2 * budget->n_fits < budget->most ? 2 * budget->n_fits : budget->most;
}

void budget_init(struct budget *budget, uint32_t most, uint32_t goal_us) {
    *budget = (struct budget){.most = most, .goal_us = goal_us};
    budget->explore_wait = BUDGET_EXPLORE_MIN;
    budget->n_tokens = budget->n_fits = budget_tokens_that_fit(budget);
}

void budget_learn(struct budget *budget, uint32_t n_tokens, uint32_t n_prompt, uint64_t us) {
    ASSERT(n_tokens > 0 && n_prompt <= n_tokens);
    bool explores = n_prompt > budget->n_fits;
    budget_take_measure(budget, n_tokens, us);
    budget->n_fits = budget_tokens_that_fit(budget);
    if (explores && budget->n_fits < n_prompt / BUDGET_TOKENS_MIN * BUDGET_TOKENS_MIN) {
        /* One that took little longer than a step of what fits costs nothing to try. */
        bool cheap = 2 * us <= 3 * (uint64_t)budget_cost_us(budget, budget->n_fits);
        budget->explored = budget->n_learnt;
        budget->explore_wait = cheap ? BUDGET_EXPLORE_MIN : BUDGET_EXPLORE_MAX;
    }
    budget_size_next(budget);
}

uint32_t budget_measure(struct budget *budget, uint32_t n_max) {
    uint32_t n = budget->start.n_tokens, most = n_max;
    most = most < budget->most ? most : budget->most;
    most = most < BUDGET_MEASURE_MAX ? most : BUDGET_MEASURE_MAX;
    bool is_over = budget->start.spent_us > BUDGET_MEASURE_US;
    if (n == 0)
        return most > 0 ? (budget->start.n_tokens = 1) : 0;
    bool again = budget->start.n > 0 && budget->start.n < BUDGET_RECENT &&
                 (budget->start.n < MEASURES_MIN || !is_over);
    if (again)
        return n;
    bool is_slow = budget_cost_us(budget, n) > budget_goal_us(budget);
    n = n == 1 ? BUDGET_TOKENS_MIN : 2 * n;
    if (is_over || is_slow || n > most)
        return 0;
    budget->start.n = 0;
    budget->start.least_us = 0;
    return budget->start.n_tokens = n;
}

void budget_measured(struct budget *budget, uint64_t us) {
    uint64_t least = budget->start.least_us;
    budget->start.spent_us += us;
    budget_take_measure(budget, budget->start.n_tokens, us);
    budget->start.n++;
    budget->start.least_us = least == 0 || us < least ? us : least;
    /* Twice the same is enough. Other programs use the machine too: what they took away is in some
     * measures, seldom in all. */
    uint64_t apart = us > least ? us - least : least - us;
    if (least > 0 && apart <= budget->start.least_us / 16)
        budget->start.n = BUDGET_RECENT;
    budget_size_next(budget);
}
