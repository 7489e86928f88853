/* tools/bench/stream.h: one chat completion, streamed and timed.
 *
 * Times are CLOCK_MONOTONIC. TTFT: request sent to first content; ITL: (last - first content) /
 * (tokens - 1); latency: sent to the answer's end. Tokens come from the server's usage, else chunks
 * are counted. */
#pragma once

#include "tools/lib/http_client.h"
#include "tools/lib/sse_client.h"

struct stream_result {
    enum status status;
    int http_status;
    uint64_t due_ns; /* when the profile wanted it sent */
    uint64_t sent_ns;
    uint64_t first_ns;
    uint64_t last_ns;
    uint64_t end_ns;
    uint32_t n_prompt;
    uint32_t n_tokens;
    uint32_t n_chunks;
    bool done_mark; /* data: [DONE] came */
    struct error error;
};

struct stream {
    struct http_client *client; /* owned */
    struct sse_client sse;
    struct stream_result result;
    bool busy;
    void (*on_end)(struct stream *stream);
    void *owner; /* borrowed */
};

NODISCARD enum status stream_init(struct stream *stream, struct loop *loop,
                                  const struct http_url *url, void (*on_end)(struct stream *stream),
                                  void *owner);
void stream_fini(struct stream *stream);
void stream_start(struct stream *stream, uint64_t due_ns, const char *api_key, const char *body,
                  size_t n_body);
