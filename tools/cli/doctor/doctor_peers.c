/* The routers and workers of the configuration: who answers. */
#include "tools/cli/doctor/doctor_parts.h"

#include "tools/cli/doctor/holder.h"
#include "tools/lib/http_fetch.h"

#include "base/clock.h"
#include "base/net/address.h"
#include "proto/bus.h"
#include "proto/keys.h"

#include <jansson.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define ANSWER_S   3.0
#define CONNECT_MS 1000u
#define SERVER_MAX (VALUE_MAX + 16)

/* --- does somebody listen? ------------------------------------------------------------------ */

/* Like a daemon of this configuration would: with its keys, and saying nothing. NULL: somebody
 * answers; else why not, constant text. */
static const char *doctor_connect_once(const char *endpoint, const struct keys *keys) {
    const struct bus_config config = {
        .kind = BUS_CONTROL, .keys = keys, .max_links = 1, .connect_ms = CONNECT_MS};
    struct bus *bus = NULL;
    struct bus_event event;
    struct error error;
    uint32_t link;
    if (strncmp(endpoint, "ipc://", 6) == 0 && !holder_listens(endpoint + 6))
        return BUS_WHY_NOBODY; /* known at once */
    if (bus_new(&config, &bus, &error) != STATUS_OK)
        return "no memory";
    const char *why = BUS_WHY_NOBODY;
    enum status status = bus_connect(bus, endpoint, &link, &error);
    while (status == STATUS_OK && why && !bus_is_up(bus, link)) {
        status = bus_wait(bus, 2 * CONNECT_MS * NS_PER_MS);
        if (bus_receive(bus, &event) == STATUS_OK && event.kind == BUS_LOST) {
            why = event.why;
            break;
        }
    }
    if (status == STATUS_OK && bus_is_up(bus, link))
        why = NULL;
    bus_free(bus);
    return why;
}

/* dns://NAME:PORT: one of the addresses behind the name will do. */
static const char *doctor_connect_to_name(const char *address, const struct keys *keys) {
    char host[VALUE_MAX], port[8], numeric[80], pair[ADDRESS_TEXT_MAX];
    char endpoint[6 + sizeof pair];
    const char *why = "the name has no address";
    struct addrinfo *list = doctor_split(address, host, port) ? doctor_resolve(host, port) : NULL;
    for (struct addrinfo *at = list; at && why; at = at->ai_next) {
        if (getnameinfo(at->ai_addr, at->ai_addrlen, numeric, sizeof numeric, NULL, 0,
                        NI_NUMERICHOST) != 0)
            continue;
        snprintf(endpoint, sizeof endpoint, "tcp://%s", address_join(numeric, port, pair));
        why = doctor_connect_once(endpoint, keys);
    }
    if (list)
        freeaddrinfo(list);
    return why;
}

static const char *doctor_try_to_connect(const struct settings *settings, const char *endpoint) {
    struct keys keys;
    struct error error;
    char folder[VALUE_MAX];
    bool has_keys = settings_get(settings, "keys", folder) && folder[0] &&
                    keys_load(folder, &keys, &error) == STATUS_OK;
    const char *why = strncmp(endpoint, "dns://", 6) == 0
                          ? doctor_connect_to_name(endpoint + 6, has_keys ? &keys : NULL)
                          : doctor_connect_once(endpoint, has_keys ? &keys : NULL);
    if (has_keys)
        keys_wipe(&keys);
    return why;
}

static bool doctor_has_other_keys(const char *why) {
    return strcmp(why, BUS_WHY_HANDSHAKE) == 0 || strcmp(why, BUS_WHY_BROKEN_OFF) == 0;
}

/* Would it run on this host? */
static bool doctor_is_of_this_host(const char *endpoint) {
    char host[VALUE_MAX], port[8];
    if (strncmp(endpoint, "tcp://", 6) != 0 || !doctor_split(endpoint + 6, host, port))
        return strncmp(endpoint, "ipc://", 6) == 0;
    struct addrinfo *list = doctor_resolve(host, port); /* an unknown name is no host of ours */
    if (list)
        freeaddrinfo(list);
    return list != NULL && !doctor_is_elsewhere(endpoint);
}

static void doctor_tell_of_peer(struct doctor *doctor, const char *subject, const char *who,
                                const char *endpoint, const char *why, const char *fix) {
    if (!why)
        findings_add(&doctor->findings, FINDING_OK, subject, NULL, "%s%s: it answers", who,
                     endpoint);
    else if (doctor_has_other_keys(why))
        findings_add(
            &doctor->findings, FINDING_FAULT, subject,
            "set the same keys = DIR on both sides, made by one `tandem keys`, or none on either",
            "%s%s: a process listens there, with other keys (%s)", who, endpoint, why);
    else if (!doctor->any_runs && doctor_is_of_this_host(endpoint))
        findings_add(&doctor->findings, FINDING_OK, subject, NULL,
                     "%s%s: no answer yet, and no daemon of this configuration runs here", who,
                     endpoint);
    else
        findings_add(&doctor->findings, FINDING_WARNING, subject, fix, "%s%s: no answer (%s)", who,
                     endpoint, why);
}

static void doctor_look_at_routers(struct doctor *doctor) {
    char all[VALUE_MAX], seen[VALUE_MAX] = "", endpoint[VALUE_MAX];
    for (unsigned i = 0; i < doctor->n_workers && doctor->source.config; i++) {
        if (!settings_get(&doctor->workers[i], "routers", all) || strcmp(all, seen) == 0)
            continue; /* as the worker before it */
        memcpy(seen, all, sizeof seen);
        for (unsigned at = 0; settings_next(&doctor->workers[i], "routers", &at, endpoint);)
            doctor_tell_of_peer(doctor, "routers", "", endpoint,
                                doctor_try_to_connect(&doctor->workers[i], endpoint),
                                "start tandem-router there, or correct `routers` in [worker]");
    }
}

static void doctor_look_at_remote_workers(struct doctor *doctor) {
    char endpoint[VALUE_MAX], who[100];
    for (unsigned i = 0; i < doctor->n_workers; i++) {
        const struct settings *worker = &doctor->workers[i];
        if (!settings_get(worker, "endpoint", endpoint) || !doctor_is_elsewhere(endpoint))
            continue;
        snprintf(who, sizeof who, "%s on another host, ", worker->name);
        doctor_tell_of_peer(doctor, "workers", who, endpoint,
                            doctor_try_to_connect(worker, endpoint),
                            "start it there, or open the port between the hosts");
    }
}

/* --- a router that runs --------------------------------------------------------------------- */

/* NULL: it does not answer, or not with JSON. */
static json_t *doctor_fetch(const struct http_url *url, const struct cli_target *target,
                            const char *path, int *http_status, struct error *error) {
    const struct http_ask ask = {.method = "GET", .path = path, .api_key = target->key};
    json_t *root = NULL;
    (void)!http_fetch_json(url, &ask, ANSWER_S, http_status, &root, error);
    return root;
}

static const char *doctor_text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static const char *doctor_fix_of_refusal(const char *reason) {
    if (strstr(reason, "name"))
        return "end one of the two workers of this name";
    if (strstr(reason, "protocol"))
        return "run one version of Tandem on all hosts";
    return "give router and workers the same model, the same files";
}

static void doctor_look_at_served_workers(struct doctor *doctor, const json_t *workers) {
    size_t at;
    json_t *row;
    unsigned n = 0;
    json_array_foreach(workers, at, row) {
        const char *state = doctor_text_of(row, "state"), *reason = doctor_text_of(row, "reason");
        n++;
        doctor->n_ready += strcmp(state, "ready") == 0;
        if (strcmp(state, "refused") == 0 || strcmp(state, "waiting") == 0)
            findings_add(&doctor->findings, FINDING_FAULT, "workers", doctor_fix_of_refusal(reason),
                         "%s is %s by the router: %s", doctor_text_of(row, "name"), state, reason);
        else if (strcmp(state, "aside") == 0 || strcmp(state, "trial") == 0)
            findings_add(&doctor->findings, FINDING_WARNING, "workers",
                         "look at its log and its device: it keeps failing",
                         "%s is put aside by the router: %s", doctor_text_of(row, "name"), reason);
        else if (strcmp(state, "suspect") == 0)
            findings_add(&doctor->findings, FINDING_WARNING, "workers",
                         "look at its log and its host's load", "%s does not answer the router",
                         doctor_text_of(row, "name"));
    }
    findings_add(&doctor->findings, doctor->n_ready > 0 ? FINDING_OK : FINDING_WARNING, "workers",
                 doctor->n_ready > 0 ? NULL : "start tandem-worker with this router in `routers`",
                 "the router has met %u, %u of them ready", n, doctor->n_ready);
    for (unsigned i = 0; i < doctor->n_workers && doctor->n_ready > 0; i++) {
        bool is_there = !doctor->workers[i].name[0];
        json_array_foreach(workers, at, row) is_there |=
            strcmp(doctor_text_of(row, "name"), doctor->workers[i].name) == 0;
        if (!is_there)
            findings_add(&doctor->findings, FINDING_WARNING, "workers",
                         "start it: systemctl start tandem-worker@NAME; its log says why it ended",
                         "%s of the configuration has not come to the router",
                         doctor->workers[i].name);
    }
}

/* Our own port, that does not answer as the file would have it: the unit may bring the certificate (LoadCredential=).
 * https: its address then, of SERVER_MAX bytes. */
static bool doctor_is_behind_tls(const struct doctor *doctor, const char *server, char *https) {
    const struct http_trust trust = {.insecure = true};
    struct http_url url = {0};
    struct error error;
    int http_status = 0;
    if (doctor->target.server || strncmp(server, "http://", 7) != 0)
        return false;
    snprintf(https, SERVER_MAX, "https%s", server + strlen("http"));
    if (http_url_open(https, &trust, &url, &error) != STATUS_OK)
        return false;
    json_t *version = doctor_fetch(&url, &doctor->target, "/version", &http_status, &error);
    bool answers = doctor_text_of(version, "version")[0] != '\0';
    json_decref(version);
    http_url_close(&url);
    return answers;
}

static void doctor_look_at_server(struct doctor *doctor, const char *server) {
    char https[SERVER_MAX];
    struct http_url url = {0};
    struct error error = {0};
    int http_status = 0;
    struct http_trust trust = doctor->target.trust;
    trust.insecure |= !doctor->target.server; /* our own port: its certificate names others */
    if (http_url_open(server, &trust, &url, &error) != STATUS_OK) {
        findings_add(&doctor->findings, FINDING_FAULT, "server", "--server http://HOST:PORT", "%s",
                     error.text);
        return;
    }
    json_t *version = doctor_fetch(&url, &doctor->target, "/version", &http_status, &error);
    const char *said = doctor_text_of(version, "version");
    if (!said[0] && doctor_is_behind_tls(doctor, server, https)) {
        json_decref(version);
        http_url_close(&url);
        doctor_look_at_server(doctor, https);
        return;
    }
    if (!said[0])
        findings_add(
            &doctor->findings, FINDING_FAULT, "server",
            "check that it is a Tandem router and does not hang: journalctl -u tandem-router",
            "%s: %s", server, error.text[0] ? error.text : "it does not say its version");
    else if (strcmp(said, TANDEM_VERSION) != 0)
        findings_add(&doctor->findings, FINDING_WARNING, "server",
                     "restart it: it runs a program of another version",
                     "%s: tandem-router %s, and this is %s", server, said, TANDEM_VERSION);
    else
        findings_add(&doctor->findings, FINDING_OK, "server", NULL, "%s: tandem-router %s", server,
                     said);
    doctor->is_up = said[0] != '\0';
    json_t *status = doctor_fetch(&url, &doctor->target, "/admin/status", &http_status, &error);
    if (doctor->is_up && (http_status == 401 || http_status == 403))
        findings_add(&doctor->findings, FINDING_OK, "workers", NULL,
                     "not looked at: the router wants an admin key (--admin-key-file FILE)");
    else if (json_is_array(json_object_get(status, "workers")))
        doctor_look_at_served_workers(doctor, json_object_get(status, "workers"));
    json_decref(status);
    json_decref(version);
    http_url_close(&url);
}

void doctor_look_at_peers(struct doctor *doctor) {
    char value[VALUE_MAX], server[SERVER_MAX], host[VALUE_MAX], port[8], pair[ADDRESS_TEXT_MAX];
    bool listens = false;
    if (settings_get(&doctor->router, "listen", value)) {
        listens = doctor_look_at_port(doctor, value, "tandem-router",
                                      "stop that process, or choose another: listen = HOST:PORT in "
                                      "[router] (--listen)");
        char cert[VALUE_MAX];
        bool is_tls = settings_get(&doctor->router, "tls_cert", cert) && cert[0];
        doctor_split(value, host, port);
        snprintf(server, sizeof server, "%s://%s", is_tls ? "https" : "http",
                 address_join(address_is_any(host) ? "0.0.0.0" : host, port, pair));
    }
    doctor_look_at_endpoint(doctor, &doctor->router, "announce", "tandem-router");
    for (unsigned i = 0; i < doctor->n_workers; i++) {
        const struct settings *worker = &doctor->workers[i];
        doctor_look_at_endpoint(doctor, worker, "endpoint", "tandem-worker");
        if (settings_get(worker, "admin", value) && value[0])
            (void)doctor_look_at_port(doctor, value, "tandem-worker",
                                      "stop that process, or choose another: admin = HOST:PORT");
    }
    if (doctor->target.server)
        doctor_look_at_server(doctor, doctor->target.server);
    else if (listens)
        doctor_look_at_server(doctor, server);
    doctor_look_at_routers(doctor);
    doctor_look_at_remote_workers(doctor);
}
