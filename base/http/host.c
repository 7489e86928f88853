#include "base/http/host.h"

#include "base/assert.h"
#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define SCARCE_STALL_NS (2 * NS_PER_S)

/* Who was refused because there is too much at once may come again: for a 503. */
static const struct header retry_later = {"Retry-After", "1"};

const char *host_date(struct connection_host *host) {
    int64_t now_s = clock_unix_s();
    if (host->date_s != now_s) {
        static const char days[] = "SunMonTueWedThuFriSat";
        static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
        time_t seconds = (time_t)now_s;
        struct tm tm;
        gmtime_r(&seconds, &tm);
        snprintf(host->date, sizeof host->date, "%.3s, %02d %.3s %d %02d:%02d:%02d GMT",
                 days + 3 * tm.tm_wday, tm.tm_mday, months + 3 * tm.tm_mon, tm.tm_year + 1900,
                 tm.tm_hour, tm.tm_min, tm.tm_sec);
        host->date_s = now_s;
    }
    return host->date;
}

static bool http_is_request_id(const char *id) {
    size_t n = strlen(id);
    for (size_t i = 0; i < n; i++)
        if (id[i] <= ' ' || id[i] >= 0x7f)
            return false;
    return n > 0 && n <= EXCHANGE_ID_MAX;
}

void host_request_id(struct connection_host *host, const char *sent, char id[EXCHANGE_ID_MAX + 1]) {
    if (sent && http_is_request_id(sent)) {
        memcpy(id, sent, strlen(sent) + 1);
        return;
    }
    uint64_t number = random_next(&host->random);
    memcpy(id, "req-", 4);
    for (unsigned i = 0; i < 16; i++)
        id[4 + i] = "0123456789abcdef"[number >> (60 - 4 * i) & 15];
    id[20] = 0;
}

void host_put_value(struct buf *out, const char *value) {
    for (;;) {
        size_t n = 0;
        while ((unsigned char)value[n] >= ' ' && value[n] != 0x7f)
            n++;
        buf_append(out, value, n);
        if (value[n] == 0)
            return;
        value += n + 1;
    }
}

struct exchange_reply host_refusal(unsigned status, const char *reason, char body[256]) {
    int n = snprintf(
        body, 256, "{\"error\":{\"message\":\"%s\",\"type\":\"%s\",\"param\":null,\"code\":null}}",
        reason, status >= 500 ? "server_error" : "invalid_request_error");
    ASSERT(n > 0 && n < 256);
    return (struct exchange_reply){.status = status,
                                   .content_type = "application/json",
                                   .headers = &retry_later,
                                   .n_headers = status == 503,
                                   .body = body,
                                   .n_body = (size_t)n};
}

const char host_output_is_full[] =
    "the answers that clients have not read are together too large; try again later";

uint64_t host_stall_ns(const struct connection_host *host) {
    uint64_t stall_ns = host->config.stall_ns;
    bool is_scarce = exchanges_output_is_scarce(host->exchanges);
    return is_scarce && stall_ns > SCARCE_STALL_NS ? SCARCE_STALL_NS : stall_ns;
}

bool host_passed(uint64_t now_ns, uint64_t since_ns, uint64_t limit_ns) {
    return now_ns > since_ns && now_ns - since_ns > limit_ns;
}

bool host_body_is_late(const struct connection_host *host, uint64_t now_ns, uint64_t began_ns,
                       uint64_t since_ns, uint64_t n_seen) {
    const struct listener_config *config = &host->config;
    if (host_passed(now_ns, since_ns, config->body_ns) ||
        host_passed(now_ns, began_ns, config->body_total_ns))
        return true;
    if (!host_passed(now_ns, began_ns, config->body_grace_ns))
        return false;
    uint64_t elapsed_ms = (now_ns - began_ns) / NS_PER_MS;
    return n_seen < config->body_rate * elapsed_ms / 1000;
}
