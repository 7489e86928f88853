/* router/serve/endpoint.h: a request on its way to what answers it, and the replies of endpoints
 * that answer at once.
 *
 * routes.c finds a request's dialect once, at its head; the function that answers gets it with the
 * request. So endpoints know nothing of the table of what is served, which names all of them.
 * Loop's thread. */
#pragma once

#include "router/api/errors.h"

struct buf;
struct dialect;
struct dialect_form;
struct exchange;
struct exchange_reply;
struct server;

/* A request with what its head told. All is borrowed, and valid as long as the exchange's request. */
struct endpoint_request {
    struct exchange *exchange;
    const struct dialect *dialect;   /* NULL: none is served at this path with this method */
    const struct dialect_form *form; /* of replies and errors */
    const char *rest;                /* the segments behind the dialect's path, or "" */
    const char *origin;              /* borrowed for life: its pages may read the answer; or NULL */
};

/* Replies with a body, which is taken over and ended. `content_type` NULL: the form's. */
void endpoint_reply(struct server *server, const struct endpoint_request *request, unsigned status,
                    const char *content_type, struct buf *body);

/* Replies with a text in the form's content type; it is copied. */
void endpoint_text(struct server *server, const struct endpoint_request *request, unsigned status,
                   const char *text);

/* Replies with what stays the same, whose ETag (`tag`, quotes included) is among its headers: a client that has it already
 * (If-None-Match) is told so by a 304. */
void endpoint_constant(struct server *server, const struct endpoint_request *request,
                       const char *tag, struct exchange_reply *reply);

/* Refuses the request, as its form writes errors. */
void endpoint_error(struct server *server, const struct endpoint_request *request,
                    const struct api_error *error);
