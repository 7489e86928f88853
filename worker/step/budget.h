/* worker/step/budget.h: how long steps take, learnt from those before, and how many tokens of
 * prompts fit one. Pure: it is told what was measured. Engine thread only.
 *
 * Two questions, two answers. What the next step will take as the machine is now: routers are told
 * before it starts, so that a long step does not look like a hang. And what a step costs when
 * nothing disturbs it: that sizes the prompts' share, and one moment in which other programs had
 * the cores must not shrink it.
 *
 * Steps are only as large as the budget, so nothing would be learnt of larger ones: they are tried
 * from time to time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The prompts' share of a step is sized for this, or for 1.5 steps of one row where that is longer:
 * far below the second after which routers take a silent worker for hung, with room for attention in
 * longer contexts than those that were measured. */
#define BUDGET_STEP_US_GOAL 120000u

#define BUDGET_CLASSES     24
#define BUDGET_RECENT      6      /* measures kept of each class; the least of them is the cost */
#define BUDGET_TOKENS_MIN  16u    /* the prompts' share is never less, unless `most` is */
#define BUDGET_EXPLORE_MIN 10u    /* steps from a larger one that did not fit to the next try */
#define BUDGET_EXPLORE_MAX 96u    /* the same where it took far longer than one that fits */
#define BUDGET_MEASURE_MAX 512u   /* tokens of the largest step that is measured at start */
#define BUDGET_MEASURE_US  600000 /* for all measures together: a worker starts within a second */

struct budget {
    uint32_t most;     /* tokens of prompts in a step; 0: of no arithmetic, nothing is sized */
    uint32_t goal_us;  /* BUDGET_STEP_US_GOAL */
    uint32_t n_tokens; /* the prompts' share of the next step */
    uint32_t n_fits;   /* what fits the goal by all that is known; n_tokens is more to explore */
    uint64_t n_learnt; /* measures of all classes */
    uint64_t explored; /* n_learnt when a larger step last did not fit */
    uint32_t explore_wait; /* steps from there to the next try */
    struct {
        uint32_t n_tokens; /* measured now */
        uint32_t n;        /* measures of it */
        uint64_t least_us; /* of them */
        uint64_t spent_us; /* in all */
    } start;
    /* One for steps of 2^c to 2^(c+1) - 1 tokens. */
    struct budget_class {
        double usual_us; /* a running mean, quick to rise; 0 while there was none */
        double cost_us;  /* the least of `recent`; 0 while there was none */
        struct {
            double us;       /* as of a step in the class's middle */
            uint64_t number; /* n_learnt then */
        } recent[BUDGET_RECENT];
        uint32_t n_recent; /* how many of them there are */
        uint32_t next;     /* the oldest: the next one to be replaced */
    } classes[BUDGET_CLASSES];
};

/* Nothing is known. most: tokens of prompts in a step; 0 where steps take as long as they are
 * told to. */
void budget_init(struct budget *budget, uint32_t most, uint32_t goal_us);

/* Before it serves: the tokens of the next step to be measured, each told to budget_measured(), in
 * rising sizes up to n_max. 0: enough is known, or BUDGET_MEASURE_US are over. */
uint32_t budget_measure(struct budget *budget, uint32_t n_max);
void budget_measured(struct budget *budget, uint64_t us);

/* A step of n_tokens (at least 1), n_prompt of them of prompts, took `us`. Sizes the next one. */
void budget_learn(struct budget *budget, uint32_t n_tokens, uint32_t n_prompt, uint64_t us);

/* Microseconds that a step of n_tokens, decode rows included, will take as the machine is now; at
 * least 1. */
uint32_t budget_us(const struct budget *budget, uint32_t n_tokens);

/* Microseconds that a step of n_tokens takes when nothing disturbs it; at least 1. */
uint32_t budget_cost_us(const struct budget *budget, uint32_t n_tokens);

/* What the prompts' share may cost. */
uint32_t budget_goal_us(const struct budget *budget);
