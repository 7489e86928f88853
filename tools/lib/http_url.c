#include "tools/lib/http_url.h"

#include "base/net/tls.h"

#include <string.h>

enum status http_url_parse(const char *text, struct http_url *url, struct error *error) {
    static const struct {
        const char *begin;
        bool is_tls, is_grpc;
    } schemes[] = {{"https://", true, false},
                   {"http://", false, false},
                   {"grpcs://", true, true},
                   {"grpc://", false, true}};
    const char *at = text;
    bool is_tls = false, is_grpc = false;
    for (unsigned i = 0; i < sizeof schemes / sizeof *schemes && at == text; i++)
        if (strncmp(text, schemes[i].begin, strlen(schemes[i].begin)) == 0) {
            at += strlen(schemes[i].begin);
            is_tls = schemes[i].is_tls;
            is_grpc = schemes[i].is_grpc;
        }
    if (at == text && strstr(at, "://"))
        return error_set(error, STATUS_INVALID,
                         "%s: only http://, https://, grpc:// and grpcs:// are known", text);
    const char *slash = strchr(at, '/');
    const char *end = slash ? slash : at + strlen(at);
    const char *host_end = end;
    const char *port = is_tls ? "443" : "80";
    size_t n_port = strlen(port);
    const char *host = at;
    if (*at == '[') {
        host = at + 1;
        host_end = memchr(at, ']', (size_t)(end - at));
        if (!host_end)
            return error_set(error, STATUS_INVALID, "%s: '[' without ']'", text);
        at = host_end + 1;
    }
    const char *colon = memchr(at, ':', (size_t)(end - at));
    if (colon) {
        if (*host != '[' && host_end == end)
            host_end = colon;
        port = colon + 1;
        n_port = (size_t)(end - port);
    }
    size_t n_host = (size_t)(host_end - host);
    size_t n_base = slash ? strlen(slash) : 0;
    while (n_base > 0 && slash[n_base - 1] == '/')
        n_base--;
    /* The base URL of OpenAI's clients ends so; our routes begin so. */
    if (n_base >= 3 && memcmp(slash + n_base - 3, "/v1", 3) == 0)
        n_base -= 3;
    if (n_host == 0 || n_host >= sizeof url->host || n_port == 0 || n_port >= sizeof url->port ||
        n_base >= sizeof url->base)
        return error_set(error, STATUS_INVALID,
                         "%s: not of the form http://HOST:PORT or https://HOST:PORT", text);
    *url = (struct http_url){.is_tls = is_tls, .is_grpc = is_grpc};
    memcpy(url->host, host, n_host);
    memcpy(url->port, port, n_port);
    if (n_base > 0)
        memcpy(url->base, slash, n_base);
    return STATUS_OK;
}

enum status http_url_open(const char *text, const struct http_trust *trust, struct http_url *url,
                          struct error *error) {
    TRY(http_url_parse(text, url, error));
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

void http_url_close(struct http_url *url) {
    tls_context_free(url->tls);
    tls_context_free(url->tls_h2);
    url->tls = url->tls_h2 = NULL;
}

/* --- options -------------------------------------------------------------------------------- */

#define AT(member) offsetof(struct http_trust, member)
const struct args_row http_trust_rows[] = {
    {"ca", "FILE", args_text, AT(ca),
     .help = "PEM: trust these for https:// (default: the system's)"},
    {"insecure", NULL, args_switch, AT(insecure),
     .help = "take any certificate of an https:// server"},
    {0}};
