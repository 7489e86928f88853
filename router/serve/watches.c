#include "router/serve/watches.h"

#include "base/http/exchange.h"
#include "router/call/quota.h"
#include "router/serve/quotas.h"
#include "router/serve/server.h"

enum status watches_admit(struct server *server, struct exchange *exchange, struct quota **quota,
                          struct api_error *error) {
    struct quota *own;
    TRY(quotas_take(server, exchange, &own, error));
    if (exchanges_watch(server->serving.exchanges, exchange) != STATUS_OK) {
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
