#include "worker/links/links.h"

#include "base/assert.h"
#include "base/log/log.h"
#include "base/net/address.h"
#include "proto/bus.h"
#include "proto/keys.h"
#include "worker/links/lookup.h"
#include "worker/links/names.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

_Static_assert(BUS_LINKS_MAX <= LINK_KV_BIT, "the bit is free in every link number");

/* Routers and other workers are told this address, so it has to be one of this host. */
static enum status links_check_reachable(const char *endpoint, struct error *error) {
    struct address at;
    if (strncmp(endpoint, "tcp://", 6) != 0 || !address_split(endpoint + 6, &at))
        return STATUS_OK;
    if (address_is_link_local(at.host))
        return error_set(error, STATUS_INVALID,
                         "%s is a link-local address, whose zone only this host knows: name a "
                         "global or unique local one",
                         endpoint);
    if (!address_is_any(at.host))
        return STATUS_OK;
    return error_set(
        error, STATUS_INVALID,
        "%s is not an address that others can connect to: name one of this host, or its "
        "interface, as tcp://eth0:7002",
        endpoint);
}

static enum status links_open_bus(enum bus_kind kind, const struct keys *keys, const char *option,
                                  const char *endpoint, struct bus **bus, uint32_t *listener,
                                  struct error *error) {
    struct bus_config bus_config = {.kind = kind, .keys = keys};
    TRY(bus_new(&bus_config, bus, error));
    enum status status = bus_bind(*bus, endpoint, listener, error);
    if (status == STATUS_OK)
        status = links_check_reachable(bus_endpoint(*bus, *listener), error);
    if (status != STATUS_OK)
        error_prefix(error, "%s", option);
    return status;
}

static enum status links_open_all(struct links *links, const struct links_options *options,
                                  struct keys *keys, struct error *error) {
    const struct keys *used = NULL;
    if (options->keys[0]) {
        TRY(keys_load(options->keys, keys, error));
        /* Router and workers name prefixes alike because they share this secret. */
        links->prefix_key = XXH3_64bits(keys->server_secret, sizeof keys->server_secret - 1);
        used = keys;
    }
    TRY(links_open_bus(BUS_CONTROL, used, "endpoint", options->endpoint, &links->control,
                       &links->listener, error));
    return links_open_bus(BUS_KV, used, "kv-endpoint", options->kv_endpoint, &links->kv,
                          &links->kv_listener, error);
}

/* The row of this endpoint, or n_announced. */
static uint32_t links_row_of(const struct links *links, const char *endpoint) {
    uint32_t i = 0;
    while (i < links->n_announced && strcmp(links->announced[i].endpoint, endpoint) != 0)
        i++;
    return i;
}

static void links_add_router(struct links *links, const char *endpoint) {
    if (links->n_announced == LINKS_ROUTERS_MAX ||
        links_row_of(links, endpoint) < links->n_announced)
        return;
    struct announced *announced = &links->announced[links->n_announced++];
    *announced = (struct announced){.link = BUS_NO_LINK};
    snprintf(announced->endpoint, sizeof announced->endpoint, "%s", endpoint);
}

static bool links_is_among(const char *endpoint, const struct names_list *list) {
    for (uint32_t i = 0; i < list->n; i++)
        if (strcmp(list->all[i], endpoint) == 0)
            return true;
    return false;
}

/* What is not behind the names any more is told nothing more; a session that it has with us goes on. */
static void links_look_at_names(struct links *links, uint64_t now_ns) {
    struct names_list list;
    if (!links->names || !names_look(links->names, now_ns, &list))
        return;
    for (uint32_t i = links->n_announced; i-- > 0;) {
        struct announced *announced = &links->announced[i];
        if (links_is_among(announced->endpoint, &list))
            continue;
        bus_close(links->control, announced->link);
        lookup_free(announced->lookup);
        *announced = links->announced[--links->n_announced];
    }
    for (uint32_t i = 0; i < list.n; i++)
        links_add_router(links, list.all[i]);
}

enum status links_open(struct links *links, const struct links_options *options,
                       struct error *error) {
    struct keys keys = {0};
    ASSERT(options->n_routers <= LINKS_ROUTERS_MAX);
    memset(links, 0, sizeof *links);
    links->dns_server = options->dns_server;
    for (uint32_t i = 0; i < options->n_routers; i++)
        if (!names_is_one(options->routers[i]))
            links_add_router(links, options->routers[i]);
    enum status status = links_open_all(links, options, &keys, error);
    if (status == STATUS_OK)
        status = names_open(options->routers, options->n_routers, LINKS_ROUTERS_MAX,
                            options->dns_server, &links->names, error);
    keys_wipe(&keys);
    if (status != STATUS_OK)
        links_close(links);
    return status;
}

void links_close(struct links *links) {
    for (uint32_t i = 0; i < links->n_announced; i++)
        lookup_free(links->announced[i].lookup);
    names_close(links->names);
    bus_free(links->control);
    bus_free(links->kv);
    memset(links, 0, sizeof *links);
}

const char *links_endpoint(const struct links *links) {
    return bus_endpoint(links->control, links->listener);
}

const char *links_kv_endpoint(const struct links *links) {
    return bus_endpoint(links->kv, links->kv_listener);
}

static void links_announce_to(struct links *links, struct announced *announced,
                              const struct message *message) {
    struct error error;
    char behind[MESSAGE_ENDPOINT_MAX];
    if (announced->link == BUS_NO_LINK) {
        announced->by_lookup = lookup_next(announced->lookup, behind);
        const char *endpoint = announced->by_lookup ? behind : announced->endpoint;
        if (bus_connect(links->control, endpoint, &announced->link, &error) != STATUS_OK) {
            char text[ERROR_TEXT_MAX];
            if (!announced->refused)
                log_warn("cannot announce", "error=%s", log_text(text, sizeof text, error.text));
            announced->refused = true;
            announced->link = BUS_NO_LINK;
            return;
        }
        announced->refused = false;
    }
    /* BUSY: the router has enough announcements waiting. CLOSED: BUS_LOST follows. */
    enum status status = bus_send(links->control, announced->link, message);
    if (status != STATUS_OK)
        log_debug("announcement not sent", "status=%s", status_name(status));
}

/* A name is asked for while its router is not reached, and after that where it was reached by what came of it. */
static void links_look_up(const struct links *links, struct announced *announced, bool up,
                          uint64_t now_ns) {
    struct error error;
    char text[ERROR_TEXT_MAX];
    if (up && !announced->by_lookup) {
        lookup_free(announced->lookup);
        announced->lookup = NULL;
    } else if (!up && !announced->lookup && patience_s(&announced->patience, now_ns) >= 1 &&
               lookup_is_for(announced->endpoint) &&
               lookup_new(announced->endpoint, links->dns_server, &announced->lookup, &error) !=
                   STATUS_OK) {
        log_debug("a router's name cannot be looked up", "why=%s",
                  log_text(text, sizeof text, error.text));
    }
}

static const char *links_hint_of(const char *why) {
    if (why == NULL || strcmp(why, BUS_WHY_NOBODY) == 0)
        return "no process listens there: check that the router runs and that this is its "
               "--announce";
    if (strcmp(why, BUS_WHY_HANDSHAKE) == 0 || strcmp(why, BUS_WHY_BROKEN_OFF) == 0)
        return "its --keys are others, or only one of us has keys";
    return "the connection does not last";
}

static void links_look_at(const struct links *links, struct announced *announced, uint64_t now_ns) {
    char endpoint[MESSAGE_ENDPOINT_MAX + 16], why[128];
    bool up = bus_is_up(links->control, announced->link);
    enum patience_turn turn = patience_turn(&announced->patience, now_ns, !up);
    links_look_up(links, announced, up, now_ns);
    if (turn == PATIENCE_QUIET)
        return;
    log_text(endpoint, sizeof endpoint, announced->endpoint);
    const char *unresolved = lookup_why(announced->lookup);
    if (turn == PATIENCE_OVER)
        log_info("router reached", "router=%s", endpoint);
    else if (unresolved[0])
        log_warn("still waiting for a router", "router=%s since_s=%u why=%s hint=\"%s\"", endpoint,
                 patience_s(&announced->patience, now_ns), log_text(why, sizeof why, unresolved),
                 "its name has no address: check the name, /etc/hosts and DNS");
    else
        log_warn("still waiting for a router", "router=%s since_s=%u why=\"%s\" hint=\"%s\"",
                 endpoint, patience_s(&announced->patience, now_ns),
                 announced->why ? announced->why : BUS_WHY_NOBODY, links_hint_of(announced->why));
}

void links_announce(struct links *links, uint64_t now_ns, const struct links_self *self) {
    if (now_ns < links->announce_ns)
        return;
    links->announce_ns = now_ns + LINKS_ANNOUNCE_NS;
    links_look_at_names(links, now_ns);
    for (uint32_t i = 0; i < links->n_announced; i++)
        links_look_at(links, &links->announced[i], now_ns);
    struct message message = {.type = MESSAGE_ANNOUNCE,
                              .u.announce = {.incarnation = self->incarnation,
                                             .role = 1 + self->role,
                                             .loading = self->loading}};
    snprintf(message.u.announce.name, sizeof message.u.announce.name, "%s", self->name);
    snprintf(message.u.announce.endpoint, sizeof message.u.announce.endpoint, "%s",
             links_endpoint(links));
    for (uint32_t i = 0; i < links->n_announced; i++)
        links_announce_to(links, &links->announced[i], &message);
}

bool links_took(struct links *links, const struct bus_event *event) {
    for (uint32_t i = 0; i < links->n_announced; i++) {
        struct announced *announced = &links->announced[i];
        if (announced->link != event->link)
            continue;
        if (event->kind == BUS_LOST) {
            announced->why = event->why;
            announced->link = BUS_NO_LINK; /* the next round connects again */
        }
        return true;
    }
    return false;
}
