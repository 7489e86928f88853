#include "base/http/heads.h"

#include "base/assert.h"

/* What was counted in another turn is over. */
static size_t heads_bytes_now(uint64_t now, uint64_t turn, size_t bytes) {
    return turn == now ? bytes : 0;
}

bool heads_may(const struct heads *heads, const struct heads_client *client) {
    uint64_t now = loop_turns(heads->loop);
    return heads_bytes_now(now, heads->turn, heads->bytes) <= heads->turn_max &&
           heads_bytes_now(now, client->turn, client->bytes) <= heads->share_max;
}

void heads_count(struct heads *heads, struct heads_client *client, size_t n) {
    uint64_t now = loop_turns(heads->loop);
    heads->bytes = heads_bytes_now(now, heads->turn, heads->bytes) + n;
    client->bytes = heads_bytes_now(now, client->turn, client->bytes) + n;
    heads->turn = client->turn = now;
    client->rests = !heads_may(heads, client);
}

/* The first that may not go on is served already in this turn, or the turn has enough. */
static void heads_on_kick(void *user) {
    struct heads *heads = user;
    for (struct list *link; (link = list_first(&heads->resting)) != NULL;) {
        struct heads_client *client = list_entry(link, struct heads_client, link);
        if (!heads_may(heads, client))
            break;
        list_remove(link);
        client->read_on(client);
    }
    if (!list_empty(&heads->resting))
        loop_kick_add(heads->loop, &heads->kick);
}

void heads_init(struct heads *heads, struct loop *loop, size_t share_max, size_t turn_max) {
    *heads = (struct heads){.loop = loop, .share_max = share_max, .turn_max = turn_max};
    list_init(&heads->resting);
    loop_kick_init(&heads->kick, heads_on_kick, heads);
}

void heads_fini(struct heads *heads) {
    ASSERT(list_empty(&heads->resting));
    loop_kick_remove(&heads->kick);
}

void heads_client_init(struct heads_client *client, void (*read_on)(struct heads_client *client)) {
    *client = (struct heads_client){.read_on = read_on};
    list_init(&client->link);
}

void heads_client_fini(struct heads_client *client) {
    list_remove(&client->link);
}

void heads_rest(struct heads *heads, struct heads_client *client) {
    if (list_empty(&client->link))
        list_push_back(&heads->resting, &client->link);
    loop_kick_add(heads->loop, &heads->kick);
}
