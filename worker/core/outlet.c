#include "worker/core/outlet.h"

#include "base/assert.h"
#include "worker/core/sequence.h"

#include <stdlib.h>
#include <string.h>

static struct map_key link_key(uint32_t link) {
    return (struct map_key){.hi = 0, .lo = link};
}

enum status outlet_table_init(struct outlet_table *table, uint32_t n_outlets, uint32_t n_posts_max,
                              uint64_t seed) {
    *table = (struct outlet_table){.n_outlets = n_outlets, .n_posts_max = n_posts_max};
    table->outlets = calloc(n_outlets, sizeof *table->outlets);
    table->posts = calloc((size_t)n_outlets * n_posts_max, sizeof *table->posts);
    table->peers = calloc((size_t)n_outlets * MESSAGE_PEERS_MAX, sizeof *table->peers);
    if (!table->outlets || !table->posts || !table->peers ||
        map_init(&table->by_link, n_outlets, seed) != STATUS_OK) {
        outlet_table_fini(table);
        return STATUS_NOMEM;
    }
    for (uint32_t i = 0; i < n_outlets; i++) {
        table->outlets[i].posts = table->posts + (size_t)i * n_posts_max;
        table->outlets[i].peers = table->peers + (size_t)i * MESSAGE_PEERS_MAX;
    }
    return STATUS_OK;
}

void outlet_table_fini(struct outlet_table *table) {
    if (!table)
        return;
    map_fini(&table->by_link);
    free(table->outlets);
    free(table->posts);
    free(table->peers);
    *table = (struct outlet_table){0};
}

struct outlet *outlet_find(struct outlet_table *table, uint32_t link) {
    uint32_t index;
    if (map_get(&table->by_link, link_key(link), &index) != STATUS_OK)
        return NULL;
    return &table->outlets[index];
}

struct outlet *outlet_take(struct outlet_table *table, enum outlet_kind kind, uint32_t link) {
    for (uint32_t i = 0; i < table->n_outlets; i++) {
        struct outlet *outlet = &table->outlets[i];
        if (outlet->kind != OUTLET_FREE)
            continue;
        if (map_put(&table->by_link, link_key(link), i) != STATUS_OK)
            return NULL;
        *outlet = (struct outlet){
            .kind = kind, .link = link, .posts = outlet->posts, .peers = outlet->peers};
        list_init(&outlet->sequences);
        list_init(&outlet->dirty);
        list_init(&outlet->transfers);
        return outlet;
    }
    return NULL;
}

void outlet_give(struct outlet_table *table, struct outlet *outlet) {
    ASSERT(outlet->kind != OUTLET_FREE);
    ASSERT(list_empty(&outlet->sequences));
    ASSERT(list_empty(&outlet->dirty));
    ASSERT(list_empty(&outlet->transfers));
    if (outlet->broken)
        table->n_broken--;
    map_remove(&table->by_link, link_key(outlet->link));
    *outlet = (struct outlet){.posts = outlet->posts, .peers = outlet->peers};
}

struct outlet *outlet_find_peer(struct outlet_table *table, enum outlet_kind kind, const char *name,
                                uint64_t incarnation) {
    for (uint32_t i = 0; i < table->n_outlets; i++) {
        struct outlet *outlet = &table->outlets[i];
        if (outlet->kind == kind && !outlet->broken && outlet->incarnation == incarnation &&
            strcmp(outlet->name, name) == 0)
            return outlet;
    }
    return NULL;
}

void outlet_break(struct outlet_table *table, struct outlet *outlet, const char *why) {
    if (outlet->broken)
        return;
    outlet->broken = true;
    outlet->why_broken = why;
    table->n_broken++;
}

static enum status send_post(struct outlet *outlet, const struct engine_sink *sink,
                             const struct post *post) {
    struct message message = {.type = post->type, .session = outlet->session};
    memcpy(&message.u, &post->u, sizeof post->u); /* members of both begin where the unions do */
    return sink->send(sink->context, outlet->link, &message);
}

void outlet_post(struct outlet_table *table, struct outlet *outlet, const struct engine_sink *sink,
                 const struct post *post) {
    if (outlet->broken)
        return;
    if (outlet->n_posts == 0 && !outlet->welcome_due) {
        enum status status = send_post(outlet, sink, post);
        if (status == STATUS_OK)
            return;
        if (status != STATUS_BUSY) {
            outlet_break(table, outlet, "cannot_send");
            return;
        }
    }
    if (outlet->n_posts == table->n_posts_max) {
        outlet_break(table, outlet, "reads_nothing");
        return;
    }
    outlet->posts[(outlet->posts_head + outlet->n_posts++) % table->n_posts_max] = *post;
}

bool outlet_flush(struct outlet_table *table, struct outlet *outlet,
                  const struct engine_sink *sink) {
    while (outlet->n_posts > 0 && !outlet->broken) {
        enum status status = send_post(outlet, sink, &outlet->posts[outlet->posts_head]);
        if (status == STATUS_BUSY)
            return false;
        if (status != STATUS_OK)
            outlet_break(table, outlet, "cannot_send");
        outlet->posts_head = (outlet->posts_head + 1) % table->n_posts_max;
        outlet->n_posts--;
    }
    return !outlet->broken;
}

void outlet_adopt(struct outlet_table *table, struct outlet *router, struct sequence *sequence) {
    sequence->outlet = outlet_index(table, router);
    list_push_back(&router->sequences, &sequence->of_session);
}

void outlet_mark(struct outlet_table *table, struct sequence *sequence) {
    if (sequence->outlet == OUTLET_NONE || !list_empty(&sequence->dirty))
        return;
    list_push_back(&table->outlets[sequence->outlet].dirty, &sequence->dirty);
}
