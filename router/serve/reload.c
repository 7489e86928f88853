#include "router/serve/reload.h"

#include "base/error.h"
#include "base/log.h"
#include "base/tls.h"
#include "router/serve/api_keys.h"
#include "router/serve/server.h"

void reload_tell(const char *what, enum status status, const struct error *error) {
    char shown[ERROR_TEXT_MAX + 64];
    if (status == STATUS_OK)
        log_info("reloaded", "what=%s", what);
    else
        log_warn("not reloaded: what was read before stays in force", "what=%s reason=%s", what,
                 log_text(shown, sizeof shown, error->text));
}

static void reload_keys(struct api_keys *keys, const char *what) {
    struct error error = {0};
    if (keys)
        reload_tell(what, api_keys_reload(keys, &error), &error);
}

static void reload_certificates(struct tls_context *tls) {
    struct error error = {0};
    char shown[ERROR_TEXT_MAX + 64];
    if (!tls)
        return;
    enum status status = tls_context_reload(tls, &error);
    reload_tell("certificates", status, &error);
    if (status == STATUS_OK && tls_context_warning(tls)[0])
        log_warn("clients may refuse the certificate", "reason=%s",
                 log_text(shown, sizeof shown, tls_context_warning(tls)));
}

void reload_all(struct server *server) {
    reload_certificates(server->tls);
    reload_keys(server->keys, "api-keys");
    reload_keys(server->admin_keys, "admin-keys");
}
