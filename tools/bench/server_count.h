/* tools/bench/server_count.h: what servers count themselves, from their /metrics. Main thread. */
#pragma once

#include <stdint.h>

struct http_url;

/* Requests that the servers put back for lack of KV blocks since they began, all together, as vLLM
 * and our router count them (vllm:num_preemptions_total); 0 where nobody counts.
 * urls: (n_urls); api_key: or NULL. */
uint64_t server_count_preempted(const struct http_url *urls, uint32_t n_urls, const char *api_key,
                                double timeout_s);
