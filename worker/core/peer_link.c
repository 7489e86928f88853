#include "worker/core/peer_link.h"

#include "base/assert.h"
#include "worker/core/sequence.h"

#include <stdlib.h>
#include <string.h>

static struct map_key peer_link_key(uint32_t link) {
    return (struct map_key){.hi = 0, .lo = link};
}

enum status peer_link_table_init(struct peer_link_table *table, uint32_t n_links,
                                 uint32_t n_posts_max, uint64_t seed) {
    *table = (struct peer_link_table){.n_links = n_links, .n_posts_max = n_posts_max};
    table->links = calloc(n_links, sizeof *table->links);
    table->posts = calloc((size_t)n_links * n_posts_max, sizeof *table->posts);
    table->peers = calloc((size_t)n_links * MESSAGE_PEERS_MAX, sizeof *table->peers);
    if (!table->links || !table->posts || !table->peers ||
        map_init(&table->by_link, n_links, seed) != STATUS_OK) {
        peer_link_table_fini(table);
        return STATUS_NOMEM;
    }
    for (uint32_t i = 0; i < n_links; i++) {
        table->links[i].posts = table->posts + (size_t)i * n_posts_max;
        table->links[i].peers = table->peers + (size_t)i * MESSAGE_PEERS_MAX;
    }
    return STATUS_OK;
}

void peer_link_table_fini(struct peer_link_table *table) {
    if (!table)
        return;
    map_fini(&table->by_link);
    free(table->links);
    free(table->posts);
    free(table->peers);
    *table = (struct peer_link_table){0};
}

struct peer_link *peer_link_find(struct peer_link_table *table, uint32_t link) {
    uint32_t index;
    if (map_get(&table->by_link, peer_link_key(link), &index) != STATUS_OK)
        return NULL;
    return &table->links[index];
}

struct peer_link *peer_link_take(struct peer_link_table *table, enum peer_link_kind kind,
                                 uint32_t link) {
    for (uint32_t i = 0; i < table->n_links; i++) {
        struct peer_link *peer_link = &table->links[i];
        if (peer_link->kind != PEER_LINK_FREE)
            continue;
        if (map_put(&table->by_link, peer_link_key(link), i) != STATUS_OK)
            return NULL;
        *peer_link = (struct peer_link){
            .kind = kind, .link = link, .posts = peer_link->posts, .peers = peer_link->peers};
        list_init(&peer_link->sequences);
        list_init(&peer_link->dirty);
        list_init(&peer_link->transfers);
        return peer_link;
    }
    return NULL;
}

void peer_link_give(struct peer_link_table *table, struct peer_link *peer_link) {
    ASSERT(peer_link->kind != PEER_LINK_FREE);
    ASSERT(list_empty(&peer_link->sequences));
    ASSERT(list_empty(&peer_link->dirty));
    ASSERT(list_empty(&peer_link->transfers));
    if (peer_link->broken)
        table->n_broken--;
    map_remove(&table->by_link, peer_link_key(peer_link->link));
    *peer_link = (struct peer_link){.posts = peer_link->posts, .peers = peer_link->peers};
}

struct peer_link *peer_link_find_kv(struct peer_link_table *table, enum peer_link_kind kind,
                                    const char *name, uint64_t incarnation) {
    for (uint32_t i = 0; i < table->n_links; i++) {
        struct peer_link *peer_link = &table->links[i];
        if (peer_link->kind == kind && !peer_link->broken &&
            peer_link->incarnation == incarnation && strcmp(peer_link->name, name) == 0)
            return peer_link;
    }
    return NULL;
}

void peer_link_break(struct peer_link_table *table, struct peer_link *peer_link, const char *why) {
    if (peer_link->broken)
        return;
    peer_link->broken = true;
    peer_link->why_broken = why;
    table->n_broken++;
}

static enum status peer_link_send_post(struct peer_link *peer_link, const struct engine_sink *sink,
                                       const struct post *post) {
    struct message message = {.type = post->type, .session = peer_link->session};
    memcpy(&message.u, &post->u, sizeof post->u); /* members of both begin where the unions do */
    return sink->send(sink->context, peer_link->link, &message);
}

void peer_link_post(struct peer_link_table *table, struct peer_link *peer_link,
                    const struct engine_sink *sink, const struct post *post) {
    if (peer_link->broken)
        return;
    if (peer_link->n_posts == 0 && !peer_link->welcome_due) {
        enum status status = peer_link_send_post(peer_link, sink, post);
        if (status == STATUS_OK)
            return;
        if (status != STATUS_BUSY) {
            peer_link_break(table, peer_link, "cannot_send");
            return;
        }
    }
    if (peer_link->n_posts == table->n_posts_max) {
        peer_link_break(table, peer_link, "reads_nothing");
        return;
    }
    peer_link->posts[(peer_link->posts_head + peer_link->n_posts++) % table->n_posts_max] = *post;
}

bool peer_link_flush(struct peer_link_table *table, struct peer_link *peer_link,
                     const struct engine_sink *sink) {
    while (peer_link->n_posts > 0 && !peer_link->broken) {
        enum status status =
            peer_link_send_post(peer_link, sink, &peer_link->posts[peer_link->posts_head]);
        if (status == STATUS_BUSY)
            return false;
        if (status != STATUS_OK)
            peer_link_break(table, peer_link, "cannot_send");
        peer_link->posts_head = (peer_link->posts_head + 1) % table->n_posts_max;
        peer_link->n_posts--;
    }
    return !peer_link->broken;
}

void peer_link_adopt(struct peer_link_table *table, struct peer_link *router,
                     struct sequence *sequence) {
    sequence->peer_link = peer_link_index(table, router);
    list_push_back(&router->sequences, &sequence->of_session);
}

void peer_link_mark(struct peer_link_table *table, struct sequence *sequence) {
    if (sequence->peer_link == PEER_LINK_NONE || !list_empty(&sequence->dirty))
        return;
    list_push_back(&table->links[sequence->peer_link].dirty, &sequence->dirty);
}
