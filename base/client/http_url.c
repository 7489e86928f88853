#include "base/client/http_url.h"

#include "base/net/address.h"
#include "base/net/tls.h"

#include <string.h>

static const char *http_url_skip_scheme(const char *text, struct http_url *url) {
    static const struct {
        const char *begin;
        bool is_tls, is_grpc;
    } schemes[] = {{"https://", true, false},
                   {"http://", false, false},
                   {"grpcs://", true, true},
                   {"grpc://", false, true}};
    for (unsigned i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strncmp(text, schemes[i].begin, strlen(schemes[i].begin)) == 0) {
            url->is_tls = schemes[i].is_tls;
            url->is_grpc = schemes[i].is_grpc;
            return text + strlen(schemes[i].begin);
        }
    return text;
}

/* What is in brackets, with the zone as URLs have it (RFC 6874) or as everybody else has. */
static bool http_url_read_v6(const char *text, size_t n, struct http_url *url) {
    if (n >= sizeof url->host)
        return false;
    memcpy(url->host, text, n);
    url->host[n] = '\0';
    char *zone = strstr(url->host, "%25");
    if (zone && zone[3])
        memmove(zone + 1, zone + 3, strlen(zone + 3) + 1);
    return address_is_v6(url->host);
}

/* "HOST", "HOST:PORT", "[V6]" or "[V6]:PORT" of n bytes. NULL, or what is wrong with it. */
static const char *http_url_read_server(const char *text, size_t n, struct http_url *url) {
    static const char no_form[] = "not of the form http://HOST:PORT or https://HOST:PORT";
    const char *end = text + n, *port = url->is_tls ? "443" : "80", *colon;
    size_t n_port = strlen(port);
    if (n > 0 && *text == '[') {
        const char *close = memchr(text, ']', n);
        if (!close)
            return "'[' without ']'";
        if (!http_url_read_v6(text + 1, (size_t)(close - text - 1), url))
            return "the text in brackets is not an IPv6 address";
        colon = close + 1;
        if (colon < end && *colon != ':')
            return no_form;
    } else {
        colon = memchr(text, ':', n);
        if (colon && memchr(colon + 1, ':', (size_t)(end - colon - 1)))
            return "an IPv6 address must be in brackets, as in http://[::1]:8000";
        colon = colon ? colon : end;
        if (colon == text || (size_t)(colon - text) >= sizeof url->host)
            return no_form;
        memcpy(url->host, text, (size_t)(colon - text));
    }
    if (colon < end) {
        port = colon + 1;
        n_port = (size_t)(end - port);
    }
    if (n_port == 0 || n_port > 5 || strspn(port, "0123456789") < n_port)
        return no_form;
    memcpy(url->port, port, n_port);
    return NULL;
}

enum status http_url_parse(const char *text, struct http_url *url, struct error *error) {
    struct http_url read = {0};
    const char *at = http_url_skip_scheme(text, &read);
    if (at == text && strstr(at, "://"))
        return error_set(error, STATUS_INVALID,
                         "%s: only http://, https://, grpc:// and grpcs:// are known", text);
    const char *slash = strchr(at, '/');
    size_t n_base = slash ? strlen(slash) : 0;
    while (n_base > 0 && slash[n_base - 1] == '/')
        n_base--;
    /* The base URL of OpenAI's clients ends so; our routes begin so. */
    if (n_base >= 3 && memcmp(slash + n_base - 3, "/v1", 3) == 0)
        n_base -= 3;
    const char *why = http_url_read_server(at, slash ? (size_t)(slash - at) : strlen(at), &read);
    if (!why && n_base >= sizeof read.base)
        why = "the path is too long";
    if (why)
        return error_set(error, STATUS_INVALID, "%s: %s", text, why);
    if (address_lacks_interface(read.host))
        return error_set(error, STATUS_INVALID,
                         "%s: a link-local address needs its interface: [%s%%eth0]", text,
                         read.host);
    if (n_base > 0)
        memcpy(read.base, slash, n_base);
    *url = read;
    return STATUS_OK;
}

enum status http_url_trust(struct http_url *url, const struct http_trust *trust,
                           struct error *error) {
    if (!url->is_tls)
        return STATUS_OK;
    struct tls_client_config config = {
        .ca = trust->ca, .insecure = trust->insecure, .protocols = "http/1.1"};
    TRY(tls_client_new(&config, &url->tls, error));
    config.protocols = "h2";
    if (!url->is_grpc)
        return STATUS_OK;
    enum status status = tls_client_new(&config, &url->tls_h2, error);
    if (status != STATUS_OK)
        http_url_close(url);
    return status;
}

enum status http_url_open(const char *text, const struct http_trust *trust, struct http_url *url,
                          struct error *error) {
    TRY(http_url_parse(text, url, error));
    return http_url_trust(url, trust, error);
}

void http_url_close(struct http_url *url) {
    tls_context_free(url->tls);
    tls_context_free(url->tls_h2);
    url->tls = url->tls_h2 = NULL;
}
