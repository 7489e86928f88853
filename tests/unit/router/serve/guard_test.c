#include "router/serve/guard.h"

#include "base/http/exchange.h"
#include "router/api/grpc.h"
#include "router/serve/api.h"
#include "router/serve/api_keys.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const struct dialect dialect_models, dialect_health, dialect_status, dialect_drain,
    dialect_events;

const char *const suite_name = "router_guard";
const double suite_timeout_s = 60;

static struct api_keys *keys, *admin_keys;
static struct api_error error;
static enum exchange_protocol protocol; /* of what is asked */

static void load(const char *text, struct api_keys **to) {
    char path[] = "/tmp/tandem-guard-XXXXXX";
    struct error why;
    int fd = mkstemp(path);
    ck_assert_int_eq((int)write(fd, text, strlen(text)), (int)strlen(text));
    close(fd);
    ck_assert_int_eq(api_keys_load(path, true, to, &why), STATUS_OK);
    unlink(path);
}

static void set_up(void) {
    protocol = EXCHANGE_HTTP1;
    load("client\n", &keys);
    load("admin\n", &admin_keys);
}

static void tear_down(void) {
    api_keys_free(keys);
    api_keys_free(admin_keys);
}

/* Fields as "Name: value\n...", and what the guard answers: 0 or an HTTP status. */
static int ask(const struct guard *guard, const struct dialect *dialect, const char *fields) {
    static char text[1024];
    struct header headers[8];
    struct exchange exchange = {
        .method = dialect->method, .path = dialect->path, .protocol = protocol};
    snprintf(text, sizeof text, "%s", fields);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char *colon = strchr(line, ':');
        *colon = 0;
        headers[exchange.n_headers++] = (struct header){line, colon + 2};
    }
    exchange.headers = headers;
    error = (struct api_error){0};
    enum status status = guard_host(guard, &exchange, &error);
    if (status == STATUS_OK)
        status = guard_request(guard, &exchange, dialect, &error);
    if (status == STATUS_OK) {
        ck_assert_ptr_null(error.code);
        return 0;
    }
    ck_assert_int_eq(status, error.status);
    return errors_http(&error);
}

START_TEST(only_our_own_names_are_served_on_a_loopback_address) {
    static const char *const hosts[] = {"tandem.example"};
    static const struct {
        const char *fields;
        int want;
    } told[] = {
        {"", 0}, /* HTTP/1.0: no browser */
        {"Host: ", 0},
        {"Host: 127.0.0.1:8000", 0},
        {"Host: 127.0.0.1", 0},
        {"Host: 192.168.3.4:80", 0},
        {"Host: [::1]:8000", 0},
        {"Host: LocalHost:8000", 0},
        {"Host: localhost.", 0},
        {"Host: a.localhost:8000", 0},
        {"Host: box:8000", 0}, /* of --listen */
        {"Host: tandem.example", 0},
        {"Host: TANDEM.example:8443", 0},
        {"Host: evil.example", 403},
        {"Host: evil.example:8000", 403},
        {"Host: 127.0.0.1.evil.example", 403},
        {"Host: xtandem.example", 403},
        {"Host: tandem.example.evil.example", 403},
        {"Host: notlocalhost", 403},
        {"Host: localhost.evil.example", 403},
        {"Host: .localhost", 403},
        {"Host: bo", 403},
        {"Host: boxer", 403},
        {"Host: :8000", 403},
        {"Host: []", 403},
    };
    struct guard guard = {.hosts = hosts, .n_hosts = 1, .listen = "box:8000", .is_loopback = true};
    for (unsigned i = 0; i < sizeof told / sizeof *told; i++) {
        guard.is_loopback = true;
        ck_assert_msg(ask(&guard, &dialect_models, told[i].fields) == told[i].want, "%s",
                      told[i].fields);
        guard.is_loopback = false;
        ck_assert_msg(ask(&guard, &dialect_models, told[i].fields) == 0, "%s", told[i].fields);
    }
    guard = (struct guard){.listen = ":8000", .is_loopback = true};
    ck_assert_int_eq(ask(&guard, &dialect_health, "Host: evil.example"), 403);
    ck_assert_ptr_nonnull(strstr(error.error.text, "--allow-host"));
}
END_TEST

START_TEST(pages_of_other_origins_start_nothing) {
    static const char *const origins[] = {"http://ours.example"};
    static const struct {
        const char *fields;
        int chat, drain;
    } told[] = {
        {"", 0, 0},
        {"Origin: http://127.0.0.1:8000", 0, 0}, /* a page of our own */
        {"Origin: http://ours.example", 0, 403},
        {"Origin: http://ours.example\nSec-Fetch-Site: cross-site", 0, 403},
        {"Origin: http://evil.example", 403, 403},
        {"Origin: null", 403, 403},
        {"Origin: http://127.0.0.1:3000", 403, 403},
        {"Origin: http://evil.example/127.0.0.1:8000", 403, 403},
        {"Sec-Fetch-Site: cross-site", 403, 403},
        {"Sec-Fetch-Site: same-site", 403, 403},
        {"Sec-Fetch-Site: same-origin", 0, 0},
        {"Sec-Fetch-Site: none", 0, 0},
    };
    const struct guard guard = {
        .origins = origins, .n_origins = 1, .listen = "127.0.0.1:8000", .is_loopback = true};
    for (unsigned i = 0; i < sizeof told / sizeof *told; i++) {
        char fields[256];
        snprintf(fields, sizeof fields, "Host: 127.0.0.1:8000\nContent-Type: application/json\n%s",
                 told[i].fields);
        ck_assert_msg(ask(&guard, &dialect_chat, fields) == told[i].chat, "%s", told[i].fields);
        ck_assert_msg(ask(&guard, &dialect_drain, fields) == told[i].drain, "%s", told[i].fields);
        ck_assert_msg(ask(&guard, &dialect_events, fields) == told[i].drain, "%s", told[i].fields);
        ck_assert_msg(ask(&guard, &dialect_models, fields) == 0, "%s", told[i].fields);
    }
    static const char *const all[] = {"*"};
    const struct guard open = {.origins = all, .n_origins = 1, .listen = "", .is_loopback = true};
    ck_assert_int_eq(ask(&open, &dialect_chat, "Origin: http://evil.example"), 0);
    ck_assert_int_eq(ask(&open, &dialect_drain, "Origin: http://evil.example"), 403);
}
END_TEST

START_TEST(admin_routes_have_keys_of_their_own) {
    static const char client[] = "Authorization: Bearer client\nContent-Type: application/json";
    static const char admin[] = "Authorization: Bearer admin\nContent-Type: application/json";
    static const char none[] = "Content-Type: application/json";
    const struct guard open = {.listen = "", .is_loopback = true};
    const struct guard away = {.listen = ""};
    const struct guard clients = {.keys = keys, .listen = "", .is_loopback = true};
    const struct guard admins = {.admin_keys = admin_keys, .listen = "", .is_loopback = true};
    const struct guard both = {.keys = keys, .admin_keys = admin_keys, .listen = ""};
    const struct {
        const struct guard *guard;
        const char *fields;
        int chat, drain, status;
    } told[] = {
        {&open, none, 0, 0, 0},          {&open, client, 0, 0, 0},
        {&away, none, 0, 403, 403},      {&away, admin, 0, 403, 403},
        {&clients, none, 401, 403, 403}, {&clients, client, 0, 403, 403},
        {&admins, none, 0, 401, 401},    {&admins, client, 0, 401, 401},
        {&admins, admin, 0, 0, 0},       {&both, none, 401, 401, 401},
        {&both, client, 0, 401, 401},    {&both, admin, 401, 0, 0},
    };
    for (unsigned i = 0; i < sizeof told / sizeof *told; i++) {
        ck_assert_msg(ask(told[i].guard, &dialect_chat, told[i].fields) == told[i].chat, "%u", i);
        ck_assert_msg(ask(told[i].guard, &dialect_drain, told[i].fields) == told[i].drain, "%u", i);
        ck_assert_msg(ask(told[i].guard, &dialect_status, told[i].fields) == told[i].status, "%u",
                      i);
        ck_assert_int_eq(ask(told[i].guard, &dialect_health, told[i].fields), 0);
    }
    ck_assert_int_eq(ask(&clients, &dialect_drain, client), 403);
    ck_assert_ptr_nonnull(strstr(error.error.text, "--admin-keys"));
    ck_assert_int_eq(ask(&both, &dialect_chat, "Authorization: client"), 401);
    ck_assert_int_eq(ask(&both, &dialect_chat, "Authorization: bearer client"), 0);
    ck_assert_int_eq(ask(&both, &dialect_chat, "Authorization: Bearer "), 401);
    ck_assert_int_eq(ask(&both, &dialect_chat, "x-api-key: client"), 0);
    ck_assert_int_eq(ask(&both, &dialect_chat, "X-Api-Key: admin"), 401);
    ck_assert_int_eq(ask(&both, &dialect_chat, "Authorization: Basic eA==\nx-api-key: client"), 0);
    ck_assert_int_eq(ask(&both, &dialect_chat, "Authorization: Bearer x\nx-api-key: client"), 401);
}
END_TEST

START_TEST(a_body_of_another_kind_is_a_415) {
    static const struct {
        const char *fields;
        int chat, drain;
    } told[] = {
        {"", 0, 415},
        {"Content-Type: application/json", 0, 0},
        {"Content-Type: Application/JSON;charset=utf-8", 0, 0},
        {"Content-Type: application/problem+json", 0, 0},
        {"Content-Type: text/plain", 0, 415},
        {"Content-Type: application/x-www-form-urlencoded", 0, 415},
        {"Content-Type: multipart/form-data; boundary=x", 415, 415},
        {"Content-Type: application/jsonx", 415, 415},
        {"Content-Type: image/png", 415, 415},
        {"Content-Type: application/json\nContent-Encoding: gzip", 415, 415},
        {"Content-Type: application/json\nContent-Encoding: Identity", 0, 0},
    };
    const struct guard guard = {.listen = "", .is_loopback = true};
    for (unsigned i = 0; i < sizeof told / sizeof *told; i++) {
        ck_assert_msg(ask(&guard, &dialect_chat, told[i].fields) == told[i].chat, "%s",
                      told[i].fields);
        ck_assert_msg(ask(&guard, &dialect_drain, told[i].fields) == told[i].drain, "%s",
                      told[i].fields);
        ck_assert_int_eq(ask(&guard, &dialect_status, told[i].fields), 0);
    }
    const struct guard closed = {.keys = keys, .listen = "", .is_loopback = true};
    ck_assert_int_eq(ask(&closed, &dialect_chat, "Content-Encoding: gzip"), 401); /* keys first */
}
END_TEST

/* What its trailers say would be lost: a cut answer would look whole. */
START_TEST(grpc_is_not_served_over_http1) {
    static const char fields[] = "content-type: application/grpc";
    const struct guard guard = {.keys = keys, .listen = "", .is_loopback = true};
    const struct guard open = {.listen = "", .is_loopback = true};
    ck_assert_int_eq(ask(&open, &dialect_grpc_generate, fields), 505);
    ck_assert_int_eq(ask(&guard, &dialect_grpc_generate, fields), 401); /* keys first */
    protocol = EXCHANGE_HTTP2;
    ck_assert_int_eq(ask(&open, &dialect_grpc_generate, fields), 0);
    ck_assert_int_eq(ask(&open, &dialect_grpc_generate, "content-type: application/json"), 415);
    ck_assert_int_eq(ask(&open, &dialect_chat, "content-type: application/json"), 0);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, only_our_own_names_are_served_on_a_loopback_address);
    tcase_add_test(tests, pages_of_other_origins_start_nothing);
    tcase_add_test(tests, admin_routes_have_keys_of_their_own);
    tcase_add_test(tests, a_body_of_another_kind_is_a_415);
    tcase_add_test(tests, grpc_is_not_served_over_http1);
}
