/* base/http/http1_connection.h: HTTP/1.1 on a connection: at most one request at a time is out;
 * what a client sends ahead waits until its reply has ended. */
#pragma once

struct protocol;

extern const struct protocol http1_protocol;
