#include "router/serve/reload.h"

#include "base/error.h"
#include "base/log.h"
#include "base/tls.h"
#include "router/serve/server.h"

static void tell(const char *what, enum status status, const struct error *error) {
    char shown[ERROR_TEXT_MAX + 64];
    if (status == STATUS_OK)
        log_info("reloaded", "what=%s", what);
    else
        log_warn("not reloaded: what was read before stays in force", "what=%s reason=%s", what,
                 log_text(shown, sizeof shown, error->text));
}

void reload_all(struct server *server) {
    struct error error = {0};
    char shown[ERROR_TEXT_MAX + 64];
    if (!server->tls) {
        log_info("nothing is reloaded: restart to change the configuration", "reason=%s",
                 "there are no certificates");
        return;
    }
    enum status status = tls_context_reload(server->tls, &error);
    tell("certificates", status, &error);
    if (status == STATUS_OK && tls_context_warning(server->tls)[0])
        log_warn("clients may refuse the certificate", "reason=%s",
                 log_text(shown, sizeof shown, tls_context_warning(server->tls)));
}
