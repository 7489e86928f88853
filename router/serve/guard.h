/* router/serve/guard.h: who may ask for what, told by a request's head alone.
 *
 * Three kinds of strangers are kept out: clients without a key; web pages of other origins, which
 * make a browser on this host send requests for them; and pages whose own name was made to point at
 * a loopback address (DNS rebinding), which the Host field gives away. Pure; loop's thread. */
#pragma once

#include "base/status.h"
#include "router/api/errors.h"

#include <stdbool.h>
#include <stddef.h>

struct api_keys;
struct dialect;
struct exchange;

#define GUARD_ADMIN_BODY_MAX 4096u /* bytes of a body on an admin route */

/* All borrowed. */
struct guard {
    const struct api_keys *keys;       /* of clients; NULL: everybody may ask */
    const struct api_keys *admin_keys; /* NULL: none */
    const char *const *origins;        /* (n_origins) whose pages may ask and read our answers */
    unsigned n_origins;
    const char *const *hosts; /* (n_hosts) further names of this server */
    unsigned n_hosts;
    const char *listen; /* "HOST:PORT": its host is one of our names */
    bool is_loopback;   /* only this host reaches us */
};

/* The key that a request shows: Authorization: Bearer KEY, or x-api-key: KEY; or NULL. */
const char *guard_key(const struct exchange *exchange);

/* On a loopback address: is the Host field one of our names, an IP address, localhost, or absent
 * (no browser leaves it out)? Elsewhere always. STATUS_DENIED with an error for the client. */
NODISCARD enum status guard_host(const struct guard *guard, const struct exchange *exchange,
                                 struct api_error *error);

/* May this request go to its dialect? Origin, then keys, then the kind of its body, then HTTP/2 where
 * the dialect needs it. STATUS_DENIED (401, 403), STATUS_UNSUPPORTED (415, 505), with an error for the
 * client. */
NODISCARD enum status guard_request(const struct guard *guard, const struct exchange *exchange,
                                    const struct dialect *dialect, struct api_error *error);

/* The configured origin that this request names, or NULL: no other page may read our answers. */
const char *guard_origin(const struct guard *guard, const struct exchange *exchange);
