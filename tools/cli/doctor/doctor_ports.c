/* Ports and sockets of this host: free for the daemons, or theirs already. */
#include "tools/cli/doctor/doctor_parts.h"

#include "tools/cli/doctor/holder.h"
#include "tools/cli/doctor/units.h"

#include "base/net/address.h"
#include "base/net/loop.h"
#include "base/net/tcp.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What shall listen where. */
struct wanted {
    const char *said;    /* as the configuration has it */
    const char *address; /* the same with numbers in place of an interface */
    const char *program;
    const char *fix;
};

static void doctor_ignore(void *user, int fd) {
    (void)user;
    close(fd);
}

/* systemd holds the router's port for it. True: the router runs, too. */
static bool doctor_tell_of_socket_unit(struct doctor *doctor, const struct wanted *wanted) {
    bool is_up = units_run("tandem-router.service");
    findings_add(&doctor->findings, FINDING_OK, "port", NULL,
                 "%s: tandem-router.socket of systemd listens there, and tandem-router.service %s",
                 wanted->said, is_up ? "runs" : "does not run yet");
    return is_up;
}

/* Somebody listens there. True: it is the program that is to. */
static bool doctor_tell_of_holder(struct doctor *doctor, const struct wanted *wanted) {
    struct holder holder;
    char host[VALUE_MAX], port[8] = "";
    doctor_split(wanted->address, host, port);
    bool is_seen = holder_find(port, wanted->program, &holder);
    if (is_seen && strcmp(holder.program, wanted->program) == 0) {
        findings_add(&doctor->findings, FINDING_OK, "port", NULL, "%s: %s (pid %d) listens there",
                     wanted->said, wanted->program, (int)holder.pid);
        return true;
    }
    bool is_routers = strcmp(wanted->program, "tandem-router") == 0;
    if (is_routers && (!is_seen || holder.pid == 1) && units_listen(port))
        return doctor_tell_of_socket_unit(doctor, wanted);
    if (is_routers && !is_seen && units_run("tandem-router.service")) { /* PrivateUsers= hides it */
        findings_add(&doctor->findings, FINDING_OK, "port", NULL,
                     "%s: a process that this user may not see listens there, and "
                     "tandem-router.service runs",
                     wanted->said);
        return true;
    }
    if (is_seen)
        findings_add(&doctor->findings, FINDING_FAULT, "port", wanted->fix,
                     "%s is held by %s (pid %d)", wanted->said, holder.program, (int)holder.pid);
    else
        findings_add(&doctor->findings, FINDING_FAULT, "port", wanted->fix,
                     "%s is held by a process that this user may not see", wanted->said);
    return false;
}

static bool doctor_look_at_wanted(struct doctor *doctor, const struct wanted *wanted) {
    struct loop *loop = NULL;
    struct tcp_listener *listener = NULL;
    struct error error;
    if (loop_new(&loop) != STATUS_OK)
        return false;
    enum status status = tcp_listen(loop, wanted->address, doctor_ignore, NULL, &listener, &error);
    tcp_listener_free(listener);
    loop_free(loop);
    if (status == STATUS_EXISTS)
        return doctor_tell_of_holder(doctor, wanted);
    if (status == STATUS_OK)
        findings_add(&doctor->findings, FINDING_OK, "port", NULL, "%s is free for %s", wanted->said,
                     wanted->program);
    else
        findings_add(&doctor->findings, FINDING_FAULT, "port",
                     status == STATUS_DENIED
                         ? "a port above 1023, or tandem-router.socket of systemd"
                         : "HOST:PORT of this host, such as 127.0.0.1:8000",
                     "%s", error.text);
    return false;
}

bool doctor_look_at_port(struct doctor *doctor, const char *address, const char *program,
                         const char *fix) {
    if (strncmp(address, "fd:", 3) == 0) {
        findings_add(&doctor->findings, FINDING_OK, "port", NULL,
                     "%s: systemd's socket hands it over", address);
        return false;
    }
    bool listens = doctor_look_at_wanted(doctor, &(struct wanted){address, address, program, fix});
    doctor->any_runs |= listens;
    return listens;
}

/* tcp://eth0:7002: the interface's first address is taken, as libzmq does. */
static void doctor_look_at_interface(struct doctor *doctor, const struct settings *settings,
                                     const char *endpoint, const char *program, const char *fix) {
    char host[VALUE_MAX], port[8], numeric[VALUE_MAX], address[ADDRESS_TEXT_MAX];
    doctor_split(endpoint + 6, host, port);
    if (doctor_interface_address(host, numeric)) {
        address_join(numeric, port, address);
        if (strcmp(port, "0") != 0 && strcmp(port, "*") != 0)
            doctor->any_runs |= doctor_look_at_wanted(
                doctor, &(struct wanted){endpoint + 6, address, program, fix});
        return;
    }
    bool is_here = doctor_is_surely_here(settings) || !settings->name[0];
    findings_add(&doctor->findings, is_here ? FINDING_FAULT : FINDING_WARNING, "port",
                 "name an address or an interface of the host that it runs on: ip -brief address",
                 "%s: \"%.64s\" is not an interface with an address on this host%s", endpoint, host,
                 is_here ? "" : " (it need not be, where that worker runs on another host)");
}

void doctor_look_at_endpoint(struct doctor *doctor, const struct settings *settings,
                             const char *key, const char *program) {
    static const char fix[] = "stop that process, or take another port in this endpoint";
    char endpoint[VALUE_MAX], keys[VALUE_MAX], host[VALUE_MAX], port[8];
    if (!settings_get(settings, key, endpoint))
        return;
    if (strncmp(endpoint, "ipc://", 6) == 0)
        doctor->any_runs |= holder_listens(endpoint + 6);
    if (strncmp(endpoint, "tcp://", 6) != 0 || !doctor_split(endpoint + 6, host, port))
        return;
    settings_get(settings, "keys", keys);
    if (!keys[0] && !tcp_is_loopback(host))
        findings_add(&doctor->findings, FINDING_FAULT, "cluster keys",
                     "tandem keys DIR, and keys = DIR in [cluster]",
                     "%s: not a loopback address, and no keys are set", endpoint);
    if (doctor_names_interface(endpoint))
        doctor_look_at_interface(doctor, settings, endpoint, program, fix);
    else if (strcmp(port, "0") != 0 && strcmp(port, "*") != 0 && !doctor_is_elsewhere(endpoint))
        (void)doctor_look_at_port(doctor, endpoint + 6, program, fix);
}
