/* router_check() names what is wrong with the core's ledgers: the tests and the simulator believe it. */
#include "router/core/core.h"
#include "router/core/fleet.h"
#include "tests/support/suite.h"
#include "tests/unit/router/core/fake.h"

#include <string.h>

const char *const suite_name = "router_check";
const double suite_timeout_s = 60;

static struct fake fake;
static struct slot *a, *b, *unused; /* a runs one request; nothing is sent to b */
static struct request *runs, *first, *second, *unborn; /* two wait */

static struct request *request_of(uint32_t user) {
    struct requests *requests = &fake.router->requests;
    for (uint32_t i = 0; i < requests->n_fresh; i++)
        if (requests->all[i].state != REQUEST_FREE && requests->all[i].spec.user == user)
            return &requests->all[i];
    ck_abort_msg("user %u has no request", user);
    return NULL;
}

static void set_up(void) {
    fake_open_default(&fake);
    struct welcome one = fake_welcome("a", ROLE_MIXED);
    one.max_seqs = 1;
    a = fleet_slot(&fake.router->fleet, fake_join(&fake, &one));
    for (uint32_t user = 0; user < 4; user++)
        ck_assert_int_eq(fake_ask(&fake, user, 5, 8), STATUS_OK);
    unborn = request_of(3);
    router_cancel(fake.router, fake.now_ns, fake.users[3].name);
    runs = request_of(0);
    first = request_of(1);
    second = request_of(2);
    b = fleet_slot(&fake.router->fleet, fake_worker(&fake, "b", ROLE_PREFILL));
    unused = &fake.router->fleet.slots[FAKE_SLOTS - 1];
    ck_assert_int_eq(runs->state, REQUEST_RUNNING);
    ck_assert_int_eq(first->state, REQUEST_WAITING);
    ck_assert_int_eq(second->state, REQUEST_WAITING);
    ck_assert_int_eq(unborn->state, REQUEST_FREE);
    ck_assert_int_eq(b->state, SLOT_READY);
    ck_assert_int_eq(unused->state, SLOT_FREE);
    ck_assert_ptr_null(router_check(fake.router));
}

/* What the test did would not pass fake_close(). */
static void tear_down(void) {
    router_free(fake.router);
}

static void wrong(const char *flaw) {
    const char *found = router_check(fake.router);
    ck_assert_msg(found && strcmp(found, flaw) == 0, "%s, not %s", found ? found : "nothing", flaw);
}

/* Sets a member to a value that it may not have, asks, and sets it back. */
#define WRONG(member, value, flaw)                                                                 \
    do {                                                                                           \
        __typeof__(member) before = (member);                                                      \
        (member) = (value);                                                                        \
        wrong(flaw);                                                                               \
        (member) = before;                                                                         \
        ck_assert_ptr_null(router_check(fake.router));                                             \
    } while (0)

START_TEST(what_is_wrong_with_a_request_is_named) {
    struct router *router = fake.router;
    WRONG(unborn->decode.slot, a->number, "a free request has a worker");
    WRONG(unborn->prefill.slot, a->number, "a free request has a worker");
    WRONG(first->decode.slot, a->number, "a waiting request has a worker");
    WRONG(first->prefill.slot, a->number, "a waiting request has a worker");
    WRONG(runs->state, REQUEST_RESERVING, "a reservation without two workers");
    WRONG(runs->state, REQUEST_ENDING, "a request outlived its end");
    WRONG(runs->decode.slot, SLOT_NONE, "a running request has no worker");
    WRONG(runs->prefill.slot, a->number, "a hand-off from a worker to itself");
    WRONG(runs->prefill.slot, router->fleet.n_slots, "an attempt names a slot that does not exist");
    WRONG(runs->prefill.slot, unused->number, "an attempt stays with a worker out of session");
    WRONG(runs->decode.slot, unused->number, "an attempt stays with a worker out of session");
    WRONG(runs->n_emitted, 9, "more tokens than were asked for");
    WRONG(runs->n_losses, 8, "more losses than the budget");
    runs->n_emitted = 8; /* the most that each may be */
    runs->n_losses = 7;
    ck_assert_ptr_null(router_check(router));
}
END_TEST

START_TEST(what_is_wrong_with_the_queue_is_named) {
    struct router *router = fake.router;
    WRONG(router->n_waiting, 3, "the queue's count is wrong");
    WRONG(router->requests.n_used, 4, "the pool's count is wrong");
    WRONG(router->stats.n_admitted, 5, "requests in are not requests out");
    WRONG(router->n_turned_away, 1, "requests in are not requests out");
    WRONG(router->stats.n_completed, 1, "requests in are not requests out");
    WRONG(router->stats.n_failed, 1, "requests in are not requests out");
    WRONG(router->stats.n_cancelled, 2, "requests in are not requests out");
    WRONG(router->stats.n_refused, 1, "requests in are not requests out");
    WRONG(first->spec.priority, second->spec.priority + 1, "the queue is out of order");
    WRONG(first->arrival, second->arrival, "the queue is out of order");
    WRONG(router->alone, unborn->index, "no request runs alone, yet a worker is kept for one");
    second->spec.priority = first->spec.priority + 1; /* it comes later, whenever it arrived */
    first->arrival = second->arrival + 1;
    ck_assert_ptr_null(router_check(router));
    router->alone = first->index;
    ck_assert_ptr_null(router_check(router));
    list_push_back(&router->waiting, &runs->link);
    wrong("a request in the queue does not wait");
}
END_TEST

START_TEST(what_is_wrong_with_the_fleet_is_named) {
    struct fleet *fleet = &fake.router->fleet;
    WRONG(unused->linked, true, "a free slot has a link");
    WRONG(a->n_assigned, 2, "a slot's count of attempts is wrong");
    WRONG(a->n_unreflected, 2, "a slot's unreported load is wrong");
    WRONG(b->tokens_unreflected, 1, "a slot's unreported load is wrong");
    WRONG(b->n_forgets, 1, "a FORGET was left over");
    WRONG(b->loss, LOSS_DIED, "a worker's losses were not replayed");
    WRONG(fleet->n_ready, 1, "the count of ready workers is wrong");
    WRONG(b->linked, false, "a worker has a slot and no link");
    WRONG(b->welcome.model_fp[FINGERPRINT_BYTES - 1], 99,
          "a worker of another model is in session");
    WRONG(b->welcome.tokenizer_fp[0], 99, "a worker of another model is in session");
    WRONG(b->announce.name[0], 'a', "two workers of one name are in session");
    fleet->n_ready--; /* b is in no session in what follows */
    b->state = SLOT_LOADING;
    wrong("a loading slot has a link");
    static const enum slot_state kept_out[] = {SLOT_REFUSED, SLOT_RIVAL};
    for (unsigned i = 0; i < 2; i++) {
        b->state = kept_out[i];
        b->refusal = REFUSAL_NONE;
        wrong("a worker is refused for no reason");
        b->refusal = REFUSAL_NAME;
        ck_assert_ptr_null(router_check(fake.router));
    }
    b->state = SLOT_REFUSED; /* who is refused may have lost its link */
    b->linked = false;
    ck_assert_ptr_null(router_check(fake.router));
    b->announce.name[0] = 'a'; /* and may have any name */
    ck_assert_ptr_null(router_check(fake.router));
    list_push_back(&fleet->lost, &a->lost);
    wrong("a worker's losses were not replayed");
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, what_is_wrong_with_a_request_is_named);
    tcase_add_test(tests, what_is_wrong_with_the_queue_is_named);
    tcase_add_test(tests, what_is_wrong_with_the_fleet_is_named);
}
