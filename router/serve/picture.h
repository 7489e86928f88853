/* router/serve/picture.h: the cluster as this router sees it, as JSON.
 *
 * One object for all who ask: /admin/status answers with it, /admin/events tells it each second.
 * docs/http-api.md names its members. Loop's thread only. */
#pragma once

#include "router/api/about.h"

struct buf;
struct server;

/* Appends {"time_ms","routers":[...],"workers":[...]}, compact: it holds no line break. time_ms is
 * Unix time, so that who reads two of them can tell rates from counts. */
void picture_put(const struct server *server, struct buf *out);

#define PICTURE_COUNT                                                                              \
    { "type" : "integer", "minimum" : 0 }
#define PICTURE_SCHEMA                                                                             \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "required" : [ "time_ms", "routers", "workers" ],                                          \
        "properties" : {                                                                           \
            "time_ms" : {"type" : "integer"},                                                      \
            "routers" : {                                                                          \
                "type" : "array",                                                                  \
                "items" : {                                                                        \
                    "type" : "object",                                                             \
                    "required" : [ "name", "pid", "uptime_s", "requests", "core" ],                \
                    "properties" : {                                                               \
                        "name" : {"type" : "string"},                                              \
                        "pid" : {"type" : "integer"},                                              \
                        "uptime_s" : PICTURE_COUNT,                                                \
                        "version" : {"type" : "string"},                                           \
                        "model" : {"type" : "string"},                                             \
                        "announce" : {"type" : "string"},                                          \
                        "draining" : {"type" : "boolean"},                                         \
                        "ready" : {"type" : "boolean"},                                            \
                        "requests" : {                                                             \
                            "type" : "object",                                                     \
                            "required" : [                                                         \
                                "queued", "running", "completed", "failed", "cancelled",           \
                                "refused", "admitted"                                              \
                            ],                                                                     \
                            "properties" : {                                                       \
                                "queued" : PICTURE_COUNT,                                          \
                                "running" : PICTURE_COUNT,                                         \
                                "completed" : PICTURE_COUNT,                                       \
                                "failed" : PICTURE_COUNT,                                          \
                                "cancelled" : PICTURE_COUNT,                                       \
                                "refused" : PICTURE_COUNT,                                         \
                                "admitted" : PICTURE_COUNT                                         \
                            }                                                                      \
                        },                                                                         \
                        "core" : {"type" : "object"}                                               \
                    }                                                                              \
                }                                                                                  \
            },                                                                                     \
            "workers" : {                                                                          \
                "type" : "array",                                                                  \
                "items" : {                                                                        \
                    "type" : "object",                                                             \
                    "required" : [                                                                 \
                        "name", "role", "state", "pid", "host", "child", "blocks", "sequences",    \
                        "handoffs"                                                                 \
                    ],                                                                             \
                    "properties" : {                                                               \
                        "name" : {"type" : "string"},                                              \
                        "role" : {"enum" : [ "prefill", "decode", "mixed" ]},                      \
                        "state" : {"type" : "string"},                                             \
                        "reason" : {"type" : "string"},                                            \
                        "pid" : {"type" : "integer"},                                              \
                        "host" : {"type" : "string"},                                              \
                        "child" : {"type" : "boolean"},                                            \
                        "blocks" : {                                                               \
                            "type" : "object",                                                     \
                            "required" :                                                           \
                                [ "total", "free", "used", "reserved", "quarantined", "cached" ],  \
                            "properties" : {                                                       \
                                "total" : PICTURE_COUNT,                                           \
                                "free" : PICTURE_COUNT,                                            \
                                "used" : PICTURE_COUNT,                                            \
                                "reserved" : PICTURE_COUNT,                                        \
                                "quarantined" : PICTURE_COUNT,                                     \
                                "cached" : PICTURE_COUNT                                           \
                            }                                                                      \
                        },                                                                         \
                        "sequences" : {                                                            \
                            "type" : "object",                                                     \
                            "required" : [ "running", "waiting" ],                                 \
                            "properties" : {"running" : PICTURE_COUNT, "waiting" : PICTURE_COUNT}  \
                        },                                                                         \
                        "handoffs" : {                                                             \
                            "type" : "object",                                                     \
                            "required" : [ "in", "out", "bytes" ],                                 \
                            "properties" : {                                                       \
                                "in" : PICTURE_COUNT,                                              \
                                "out" : PICTURE_COUNT,                                             \
                                "bytes" : PICTURE_COUNT                                            \
                            }                                                                      \
                        },                                                                         \
                        "tokens_per_s" : PICTURE_COUNT                                             \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    })
