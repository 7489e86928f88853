/* router/serve/server.h: what the endpoints see: all that serves, as main.c puts it together.
 * Loop's thread only. */
#pragma once

#include "router/call/serving.h"
#include "router/serve/guard.h"

#include <stdint.h>

struct api_keys;
struct description;
struct events;
struct health_watches;
struct link;
struct listener;
struct metrics;
struct tls_context;

struct server {
    struct serving serving;    /* what calls share */
    struct listener *listener; /* all borrowed: main.c owns them */
    struct link *link;
    struct api_keys *keys, *admin_keys; /* or NULL */
    struct tls_context *tls;            /* or NULL: clients speak plain HTTP */
    struct guard guard;                 /* who may ask; before the listener runs */
    struct metrics *metrics;
    struct health_watches *watches;
    struct events *events;
    struct description *description;
    bool has_siblings; /* `tandem up` started it, and workers beside it: /admin/kill is for these */
    uint64_t host;     /* this machine, as workers name theirs, */
    char host_name[65]; /* and as people do */
    bool has_no_page;   /* nothing is served at / */
    const char *name;   /* this router's */
    int64_t created_s;  /* Unix time of the start */
    uint64_t started_ns;
};
