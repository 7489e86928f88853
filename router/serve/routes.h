/* router/serve/routes.h: a request finds its dialect: host, method, path, origin, key at its head;
 * then, complete, the dialect itself. */
#pragma once

#include "router/api/errors.h"

#include <stddef.h>

struct buf;
struct exchange;
struct server;

/* The listener's gate: refuses what may not ask, what is not there, and what has the wrong kind of
 * body, before the body is read; and answers OPTIONS. `user` is the struct server. */
void routes_head(void *user, struct exchange *exchange);

/* The listener's handler: answers, or begins a call. `user` is the struct server. */
void routes_exchange(void *user, struct exchange *exchange);

/* For dialects that answer at once: a body, which is taken over, a text, or an error. `content_type` NULL: as
 * all of the dialect's form. */
void routes_reply(struct server *server, struct exchange *exchange, unsigned status,
                  const char *content_type, struct buf *body);
void routes_text(struct server *server, struct exchange *exchange, unsigned status,
                 const char *text);
void routes_error(struct server *server, struct exchange *exchange, const struct api_error *error);

/* The configured origin that this request names, or NULL: no other page may read our answers. */
const char *routes_origin(const struct server *server, const struct exchange *exchange);
