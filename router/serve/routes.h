/* router/serve/routes.h: a request finds its dialect: host, method, path, origin, key at its head;
 * then, complete, the dialect itself. Loop's thread. */
#pragma once

struct exchange;

/* The listener's gate: refuses what may not ask, what is not there, and what has the wrong kind of
 * body, before the body is read; and answers OPTIONS. What it lets in carries its dialect in
 * exchange->user. `user` is the struct server. */
void routes_head(void *user, struct exchange *exchange);

/* The listener's handler, for what routes_head() let in: answers, or begins a call. `user` is the
 * struct server. */
void routes_exchange(void *user, struct exchange *exchange);
