#include "router/serve/quotas.h"

#include "base/clock.h"
#include "router/call/quota.h"
#include "router/serve/api_keys.h"
#include "router/serve/server.h"

enum status quotas_take(const struct server *server, const struct exchange *exchange,
                        struct quota **quota, struct api_error *error) {
    const char *key = guard_key(exchange);
    *quota = server->keys && key ? api_keys_quota(server->keys, key) : NULL;
    if (!*quota && server->admin_keys && key)
        *quota = api_keys_quota(server->admin_keys, key);
    if (!*quota || quota_take(*quota, clock_now_ns(), &error->retry_ms) == STATUS_OK)
        return STATUS_OK;
    error->code = "rate_limit_exceeded";
    return error->status = error_set(
               &error->error, STATUS_BUSY,
               "This key has reached its limit of requests; try again in %u ms", error->retry_ms);
}
