#include "tests/support/kernels_group.h"

#include "base/random.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

float group_number(uint32_t rank, uint32_t turn, size_t i) {
    uint64_t bits = mix64(((uint64_t)rank << 56) ^ ((uint64_t)turn << 32) ^ i);
    return ((bits & 7) == 0 ? 1e6f : 1.0f) * ((float)(bits >> 40) / 8388608.0f - 1.0f);
}

static void *run(void *arg) {
    struct member *member = arg;
    member->is_right = true;
    member->group->lives(member);
    return NULL;
}

void group_run(struct group *group, void (*lives)(struct member *member)) {
    group->lives = lives;
    for (uint32_t rank = 0; rank < group->n; rank++)
        ck_assert_int_eq(
            pthread_create(&group->members[rank].thread, NULL, run, &group->members[rank]), 0);
    for (uint32_t rank = 0; rank < group->n; rank++)
        pthread_join(group->members[rank].thread, NULL);
}

/* A rank's own thread meets the others by the id. */
static void meet_by_id(struct member *member) {
    struct error error = {0};
    struct group *group = member->group;
    member->status =
        group->kernels->meet(member->ctx, member->rank, group->n, NULL, &group->id, &error);
    if (member->status != STATUS_OK)
        printf("rank %u: %s\n", member->rank, error.text);
}

void group_meet(struct group *group) {
    struct error error;
    struct kernels_ctx *all[GROUP_MOST];
    for (uint32_t rank = 0; rank < group->n; rank++)
        all[rank] = group->members[rank].ctx;
    if (group->way == BY_ID) {
        ck_assert_int_eq(group->kernels->group_id(all[0], &group->id, &error), STATUS_OK);
        group_run(group, meet_by_id);
    }
    for (uint32_t rank = 0; rank < group->n; rank++) {
        struct member *member = &group->members[rank];
        if (group->way == BY_MEMORY)
            member->status = group->kernels->meet(all[rank], rank, group->n, all, NULL, &error);
        ck_assert_int_eq(member->status, STATUS_OK);
    }
}

/* Ranks with a device each; on a machine with one GPU, TANDEM_RANKS_DEVICE has it for all. */
static uint32_t device_of(uint32_t rank) {
    const char *all = getenv("TANDEM_RANKS_DEVICE");
    return all ? (uint32_t)atoi(all) : rank;
}

void group_open(struct group *group, int i, uint32_t n, const struct group_sizes *sizes) {
    struct kernels_options options = {.n_threads = 1,
                                      .n_ranks = n,
                                      .together = sizes->together,
                                      .columns = sizes->columns,
                                      .wait_ms = sizes->wait_ms,
                                      .limits = {1, 1, 16, 32, sizes->n_vocab, 1, 1, 16}};
    struct error error;
    *group = (struct group){.kernels = kernels_table[i / N_WAYS], .way = i % N_WAYS, .n = n};
    for (uint32_t rank = 0; rank < n; rank++) {
        struct member *member = &group->members[rank];
        options.device = device_of(rank);
        *member = (struct member){.group = group, .rank = rank};
        ck_assert_int_eq(group->kernels->open(&options, &member->ctx, &error), STATUS_OK);
    }
    group_meet(group);
}

void group_close(struct group *group) {
    for (uint32_t rank = 0; rank < group->n; rank++)
        group->kernels->close(group->members[rank].ctx);
}

void group_check(const struct group *group) {
    for (uint32_t rank = 0; rank < group->n; rank++)
        ck_assert_msg(group->members[rank].is_right, "rank %u of %u", rank, group->n);
}

void group_try(int i, uint32_t n, const struct group_sizes *sizes,
               void (*lives)(struct member *member)) {
    struct group group;
    group_open(&group, i, n, sizes);
    group_run(&group, lives);
    group_check(&group);
    group_close(&group);
}
