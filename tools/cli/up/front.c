#include "tools/cli/up/front.h"

#include "base/net/address.h"
#include "base/net/loop.h"
#include "base/net/tcp.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool up_front_is_port(const char *text) {
    size_t n = strlen(text);
    return n > 0 && n <= 5 && strspn(text, "0123456789") == n && strtoul(text, NULL, 10) <= 65535;
}

/* IPv6 may come in brackets. */
static enum status up_front_read_host(const char *host, struct address *at, struct error *error) {
    char text[ADDRESS_TEXT_MAX];
    struct address read;
    snprintf(text, sizeof text, "%.260s:0", host);
    if (!host[0] || !address_split(text, &read) || strchr(read.host, '/'))
        return error_set(error, STATUS_INVALID, "--host: \"%s\" is not a name or an address", host);
    memcpy(at->host, read.host, sizeof at->host);
    return STATUS_OK;
}

enum status front_fold(const struct front_flags *flags, const char *otherwise,
                       char address[FRONT_MAX], struct error *error) {
    struct address at = {.port = "8000"};
    char said[ADDRESS_TEXT_MAX], pair[ADDRESS_TEXT_MAX];
    const char *base = flags->listen ? flags->listen : otherwise;
    if (strncmp(base, "fd:", 3) == 0 && (flags->host || flags->port)) {
        if (flags->listen)
            return error_set(error, STATUS_INVALID, "--listen %s and %s: one or the other", base,
                             flags->host ? "--host" : "--port");
        base = "127.0.0.1:8000";
    }
    bool is_address = address_split(base, &at);
    if (!is_address && !flags->host && !flags->port) {
        snprintf(address, FRONT_MAX, "%s", base);
        return STATUS_OK;
    }
    address_join(at.host, at.port, said);
    if (flags->port && !up_front_is_port(flags->port))
        return error_set(error, STATUS_INVALID, "--port: \"%s\" is not a number from 0 to 65535",
                         flags->port);
    if (flags->host)
        TRY(up_front_read_host(flags->host, &at, error));
    snprintf(address, FRONT_MAX, "%s",
             address_join(at.host, flags->port ? flags->port : at.port, pair));
    if (flags->listen && (!is_address || strcmp(address, said) != 0))
        return error_set(error, STATUS_INVALID, "--listen %s and %s %s contradict each other",
                         flags->listen, flags->host ? "--host" : "--port",
                         flags->host ? flags->host : flags->port);
    return STATUS_OK;
}

/* A connection that comes in that moment is closed. */
static void up_front_on_accept(void *user, int fd) {
    (void)user;
    close(fd);
}

enum status front_check(const struct front_flags *flags, const char *address, struct error *error) {
    struct loop *loop;
    struct tcp_listener *listener = NULL;
    if (strncmp(address, "fd:", 3) == 0)
        return STATUS_OK; /* the router's to take */
    if (loop_new(&loop) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "cannot make an event loop");
    enum status status = tcp_listen(loop, address, up_front_on_accept, NULL, &listener, error);
    tcp_listener_free(listener);
    loop_free(loop);
    if (status == STATUS_OK)
        return STATUS_OK;
    if (up_front_is_port(address))
        return error_set(
            error, status,
            "--listen: \"%s\" is not HOST:PORT or [IPV6]:PORT (a port alone: --port %s)", address,
            address);
    error_prefix(error, "%s",
                 !flags->host && !flags->port ? "--listen"
                 : !flags->port               ? "--host"
                 : !flags->host               ? "--port"
                                              : "--host, --port");
    return status;
}
