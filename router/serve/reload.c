#include "router/serve/reload.h"

#include "base/error.h"
#include "base/log/log.h"
#include "base/net/loop.h"
#include "base/net/tls.h"
#include "router/serve/api_keys.h"
#include "router/serve/server.h"

#include <stdlib.h>

void reload_tell(const char *what, enum status status, const struct error *error) {
    char shown[ERROR_TEXT_MAX + 64];
    if (status == STATUS_OK)
        log_info("reloaded", "what=%s", what);
    else
        log_warn("not reloaded: what was read before stays in force", "what=%s reason=%s", what,
                 log_text(shown, sizeof shown, error->text));
}

/* *fresh stays NULL where there are no such keys, or their file does not serve. */
static void reload_load_again(const struct api_keys *keys, const char *what,
                              struct api_keys **fresh) {
    struct error error = {0};
    if (!keys)
        return;
    enum status status = api_keys_load_again(keys, fresh, &error);
    if (status != STATUS_OK)
        reload_tell(what, status, &error);
}

static void reload_take_keys(struct api_keys *keys, const char *what, struct api_keys **fresh,
                             enum status status, const struct error *error) {
    if (!*fresh)
        return;
    reload_tell(what, status, error);
    if (status == STATUS_OK)
        api_keys_replace(keys, fresh);
    api_keys_free(*fresh);
}

/* Both files are read before either is used: a key may have moved from one to the other. */
static void reload_keys_again(struct server *server) {
    struct api_keys *clients = NULL, *admins = NULL;
    struct error error = {0};
    reload_load_again(server->keys, "api-keys", &clients);
    reload_load_again(server->admin_keys, "admin-keys", &admins);
    enum status status = api_keys_apart(clients ? clients : server->keys,
                                        admins ? admins : server->admin_keys, &error);
    reload_take_keys(server->keys, "api-keys", &clients, status, &error);
    reload_take_keys(server->admin_keys, "admin-keys", &admins, status, &error);
}

static void reload_tell_of_certificates(const struct tls_context *tls, enum status status,
                                        const struct error *error) {
    char shown[ERROR_TEXT_MAX + 64];
    reload_tell("certificates", status, error);
    if (status == STATUS_OK && tls_context_warning(tls)[0])
        log_warn("clients may refuse the certificate", "reason=%s",
                 log_text(shown, sizeof shown, tls_context_warning(tls)));
}

void reload_all(struct server *server) {
    struct error error = {0};
    if (server->tls) {
        enum status status = tls_context_reload(server->tls, &error);
        reload_tell_of_certificates(server->tls, status, &error);
    }
    reload_keys_again(server);
}

/* --- without a signal ----------------------------------------------------------------------- */

struct reload {
    struct tls_context *tls;  /* borrowed */
    struct loop_timer *timer; /* owned */
    uint64_t every_ns;
};

static void reload_on_timer(void *user) {
    struct reload *reload = user;
    struct error error = {0};
    enum status status = tls_context_renew(reload->tls, &error);
    if (status != STATUS_BUSY)
        reload_tell_of_certificates(reload->tls, status, &error);
    loop_timer_after(reload->timer, reload->every_ns);
}

enum status reload_new(struct server *server, uint64_t every_ns, struct reload **out) {
    struct reload *reload = calloc(1, sizeof *reload);
    if (!reload)
        return STATUS_NOMEM;
    *reload = (struct reload){.tls = server->tls, .every_ns = every_ns};
    if (loop_timer_new(server->serving.loop, reload_on_timer, reload, &reload->timer) !=
        STATUS_OK) {
        free(reload);
        return STATUS_NOMEM;
    }
    loop_timer_after(reload->timer, every_ns);
    *out = reload;
    return STATUS_OK;
}

void reload_free(struct reload *reload) {
    if (!reload)
        return;
    loop_timer_free(reload->timer);
    free(reload);
}
