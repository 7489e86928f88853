#include "router/serve/watches.h"

#include "base/http/exchange.h"
#include "router/call/quota.h"
#include "router/serve/quotas.h"
#include "router/serve/server.h"

/* How many places are for others than this one. */
static uint32_t watches_n_kept(const struct server *server, const struct quota *own, bool is_page) {
    bool has_keys = server->keys || server->admin_keys;
    if (is_page)
        return 0;
    return own || !has_keys ? WATCHES_KEPT_PAGE : WATCHES_KEPT_PAGE + WATCHES_KEPT_KEYS;
}

enum status watches_admit(struct server *server, struct exchange *exchange, bool is_page,
                          struct quota **quota, struct api_error *error) {
    struct quota *own;
    TRY(quotas_take(server, exchange, &own, error));
    if (exchanges_watch(server->serving.exchanges, exchange,
                        watches_n_kept(server, own, is_page)) != STATUS_OK) {
        watches_leave(own);
        return error->status = error_set(&error->error, STATUS_BUSY,
                                         "As many streams as may watch are open, in all or on this "
                                         "connection; try again later");
    }
    *quota = own;
    return STATUS_OK;
}

void watches_leave(struct quota *quota) {
    if (quota)
        quota_give(quota);
}
