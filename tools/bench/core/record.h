/* tools/bench/core/record.h: what came of one request, and how events become it.
 *
 * Pure: times come with the events (nanoseconds of a monotonic clock). One owner thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Why a request failed. fault_name() gives the word that reports use. */
enum fault {
    FAULT_NONE,
    FAULT_REFUSED,   /* no connection */
    FAULT_TLS,       /* the handshake or a record of TLS failed */
    FAULT_STATUS,    /* an HTTP status other than 200, redirects included */
    FAULT_CUT,       /* the stream ended or was reset before its end */
    FAULT_MALFORMED, /* not HTTP, not server-sent events, or not JSON */
    FAULT_EVENT,     /* the server sent an error as an event of the stream */
    FAULT_MODEL,     /* another model answered */
    FAULT_SILENT,    /* no byte for as long as --silence */
    FAULT_TIMEOUT,   /* not over after --timeout */
    FAULT_ENDLESS,   /* far more chunks than tokens were asked for */
    FAULT_USAGE,     /* the server's usage contradicts what was counted */
    FAULT_EMPTY,     /* a complete answer without a token, a usage or a reason */
    FAULT_N
};
const char *fault_name(enum fault fault);

enum outcome { OUTCOME_RUNNING, OUTCOME_OK, OUTCOME_INCOMPLETE, OUTCOME_ERROR };

enum chunk { CHUNK_BARE, CHUNK_TEXT }; /* without and with content */
enum finish { FINISH_NONE, FINISH_LENGTH, FINISH_STOP, FINISH_OTHER };

/* What is asked of the server. */
struct ask {
    uint32_t n_prompt;   /* tokens */
    uint32_t n_output;   /* max_tokens */
    uint64_t serial;     /* chooses the prompt's words */
    uint32_t trace_line; /* of a replayed trace */
};

struct record {
    struct ask ask;
    enum outcome outcome;
    enum fault fault;
    enum finish finish;
    int http_status;
    uint64_t due_ns;         /* when the schedule wanted it sent */
    uint64_t sent_ns;        /* when the client began to send; connecting counts as waiting */
    uint64_t heard_ns;       /* the last byte of any kind; 0: none */
    uint64_t chunk_first_ns; /* the first event, the role alone included */
    uint64_t chunk_last_ns;  /* the last event before the one with a finish reason */
    uint64_t first_ns;       /* the first content; 0: none */
    uint64_t last_ns;        /* the last content */
    uint64_t end_ns;         /* the answer's end, or when it was given up */
    uint32_t n_chunks;       /* events before the one with a finish reason */
    uint32_t n_texts;        /* events with content: at least as many tokens came */
    bool has_usage;
    uint32_t usage_prompt;
    uint32_t usage_output;
    uint32_t usage_cached;
};

enum event_kind { EVENT_TICK, EVENT_SENT, EVENT_HEARD, EVENT_CHUNK, EVENT_USAGE, EVENT_END };

/* One thing that happened. Which members count depends on the kind. */
struct event {
    enum event_kind kind;
    uint32_t request; /* index of the record; not of a tick */
    uint64_t at_ns;
    enum chunk chunk;
    enum finish finish; /* EVENT_CHUNK: the reason that it carries */
    uint32_t n_prompt;  /* EVENT_USAGE */
    uint32_t n_output;
    uint32_t n_cached;
    bool no_prompt;   /* EVENT_USAGE: the output alone is counted */
    enum fault fault; /* EVENT_END */
    int http_status;
    uint64_t loop_late_ns; /* EVENT_TICK: how long the client's loop was held lately */
};

/* Tokens of the answer: by the server's usage, else the chunks with content. */
uint32_t record_n_output(const struct record *record);
uint32_t record_n_prompt(const struct record *record); /* by usage, else as asked */

/* Notes a chunk or usage. Answers a fault that shows at once, for which the request is to be
 * cancelled. */
enum fault record_take(struct record *record, const struct event *event);

/* The request is over; judges what came. fault: what the transport says. */
void record_end(struct record *record, uint64_t at_ns, enum fault fault, int http_status);

/* It was given up without a fault of its own: the level ended. */
void record_give_up(struct record *record, uint64_t at_ns);
