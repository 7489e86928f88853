#include "router/serve/guard.h"

#include "base/http/exchange.h"
#include "base/span.h"
#include "router/api/dialect.h"
#include "router/serve/api_keys.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

/* A host without its port: "[::1]:80" is "::1", "localhost:80" is "localhost". */
static struct span guard_host_of(const char *text) {
    if (*text == '[')
        return (struct span){text + 1, strcspn(text + 1, "]")};
    size_t n = strcspn(text, ":");
    if (n > 0 && text[n - 1] == '.') /* the root's dot of a full name */
        n--;
    return (struct span){text, n};
}

static bool guard_is_host(struct span host, const char *name) {
    return host.n == strlen(name) && strncasecmp(host.bytes, name, host.n) == 0;
}

/* An address was written by whoever made the request; only names can be made to point elsewhere. */
static bool guard_is_address(struct span host) {
    char text[INET6_ADDRSTRLEN];
    struct in6_addr address;
    if (host.n == 0 || host.n >= sizeof text)
        return false;
    memcpy(text, host.bytes, host.n);
    text[host.n] = 0;
    return inet_pton(AF_INET, text, &address) == 1 || inet_pton(AF_INET6, text, &address) == 1;
}

static bool guard_is_ours(const struct guard *guard, struct span host) {
    static const char local[] = ".localhost"; /* RFC 6761, 6.3: never anybody else's */
    if (guard_is_address(host) || guard_is_host(host, "localhost"))
        return true;
    if (host.n >= sizeof local &&
        strncasecmp(host.bytes + host.n - (sizeof local - 1), local, sizeof local - 1) == 0)
        return true;
    for (unsigned i = 0; i < guard->n_hosts; i++)
        if (guard_is_host(host, guard->hosts[i]))
            return true;
    struct span own = guard_host_of(guard->listen);
    return own.n > 0 && own.n == host.n && strncasecmp(own.bytes, host.bytes, own.n) == 0;
}

/* With a message of its own: 403. */
#define FORBID(error, ...)                                                                         \
    ((error)->code = "forbidden",                                                                  \
     (error)->status = error_set(&(error)->error, STATUS_DENIED, __VA_ARGS__))

enum status guard_host(const struct guard *guard, const struct exchange *exchange,
                       struct api_error *error) {
    const char *host = exchange_header(exchange, "host");
    if (!guard->is_loopback || !host || *host == 0 || guard_is_ours(guard, guard_host_of(host)))
        return STATUS_OK;
    return FORBID(error, "Host: `%.200s` is not a name of this server; --allow-host adds it", host);
}

const char *guard_origin(const struct guard *guard, const struct exchange *exchange) {
    const char *origin = exchange_header(exchange, "origin");
    for (unsigned i = 0; origin && i < guard->n_origins; i++)
        if (strcmp(guard->origins[i], origin) == 0 || strcmp(guard->origins[i], "*") == 0)
            return guard->origins[i];
    return NULL;
}

/* Is the page that asks one that we sent ourselves? "http://h:80" came from the Host "h:80". */
static bool guard_is_own_origin(const struct exchange *exchange, const char *origin) {
    const char *host = exchange_header(exchange, "host");
    const char *mark = strstr(origin, "://");
    return host && *host && mark && strcasecmp(mark + 3, host) == 0;
}

/* What a page of another origin makes a browser send would be carried out, though the page may not
 * read the answer. Reading alone changes nothing, so GET is looked at on admin routes alone: there a
 * reader may hold one of few places (events.h). */
static enum status guard_check_origin(const struct guard *guard, const struct exchange *exchange,
                                      const struct dialect *dialect, struct api_error *error) {
    const char *origin = exchange_header(exchange, "origin");
    const char *site = exchange_header(exchange, "sec-fetch-site");
    if (strcmp(dialect->method, "GET") == 0 && !dialect->is_admin)
        return STATUS_OK;
    if (!dialect->is_admin && guard_origin(guard, exchange))
        return STATUS_OK;
    const char *way_out = dialect->is_admin ? "" : "; --cors-origins names those that may";
    if (origin && !guard_is_own_origin(exchange, origin))
        return FORBID(error, "Origin: pages of `%.200s` may not ask here%s", origin, way_out);
    if (site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0)
        return FORBID(error, "Sec-Fetch-Site: `%.40s`: pages of other origins may not ask here%s",
                      site, way_out);
    return STATUS_OK;
}

const char *guard_key(const struct exchange *exchange) {
    static const char scheme[] = "Bearer ";
    const char *value = exchange_header(exchange, "authorization");
    if (!value || strncasecmp(value, scheme, sizeof scheme - 1) != 0)
        return exchange_header(exchange, "x-api-key");
    return value + sizeof scheme - 1;
}

static enum status guard_need_key(struct api_error *error, const char *kind) {
    error->status = error_set(&error->error, STATUS_DENIED,
                              "A valid %s key is needed: Authorization: Bearer KEY, or x-api-key: "
                              "KEY",
                              kind);
    return error->status;
}

/* A proxy on this host makes strangers look like callers of this host; so where clients need keys,
 * being here is not enough. */
static enum status guard_check_admin(const struct guard *guard, const char *key,
                                     struct api_error *error) {
    if (guard->admin_keys)
        return key && api_keys_has(guard->admin_keys, key) ? STATUS_OK
                                                           : guard_need_key(error, "admin");
    if (guard->keys)
        return FORBID(error, "Admin routes need keys of their own: --admin-keys FILE");
    if (!guard->is_loopback)
        return FORBID(error,
                      "Admin routes answer on a loopback address alone, or with --admin-keys FILE");
    return STATUS_OK;
}

static enum status guard_check_key(const struct guard *guard, const struct exchange *exchange,
                                   const struct dialect *dialect, struct api_error *error) {
    const char *key = guard_key(exchange);
    if (dialect->is_admin)
        return guard_check_admin(guard, key, error);
    if (dialect->is_open || !guard->keys || (key && api_keys_has(guard->keys, key)))
        return STATUS_OK;
    return guard_need_key(error, "API");
}

/* A reply whose status is in its trailers would look complete without them. */
static enum status guard_check_protocol(const struct exchange *exchange,
                                        const struct dialect *dialect, struct api_error *error) {
    if (!dialect->form->needs_http2 || exchange->protocol == EXCHANGE_HTTP2)
        return STATUS_OK;
    error->code = "http2_needed";
    return error->status = error_set(&error->error, STATUS_UNSUPPORTED,
                                     "gRPC is served over HTTP/2 alone; this request came over "
                                     "HTTP/1.1");
}

/* Admin routes take only what no page can send without being asked about it first. */
static enum status guard_check_body(const struct exchange *exchange, const struct dialect *dialect,
                                    struct api_error *error) {
    const char *coding = exchange_header(exchange, "content-encoding");
    const char *type = exchange_header(exchange, "content-type");
    if (strcmp(dialect->method, "GET") == 0)
        return STATUS_OK;
    error->code = "unsupported_media_type";
    if (coding && *coding && strcasecmp(coding, "identity") != 0)
        return error->status = error_set(&error->error, STATUS_UNSUPPORTED,
                                         "Content-Encoding: `%.100s` is not served; send the body "
                                         "as it is",
                                         coding);
    if (!dialect->form->takes(type, dialect->is_admin))
        return error->status = error_set(&error->error, STATUS_UNSUPPORTED,
                                         "Content-Type: `%.100s` is not served; send %s",
                                         type ? type : "", dialect->form->content_type);
    error->code = NULL;
    return STATUS_OK;
}

enum status guard_request(const struct guard *guard, const struct exchange *exchange,
                          const struct dialect *dialect, struct api_error *error) {
    TRY(guard_check_origin(guard, exchange, dialect, error));
    TRY(guard_check_key(guard, exchange, dialect, error));
    TRY(guard_check_body(exchange, dialect, error));
    return guard_check_protocol(exchange, dialect, error);
}
