/* Files that a start reads, by the functions that the daemons read them with. */
#include "tools/cli/doctor/doctor_parts.h"

#include "tools/cli/doctor/units.h"

#include "base/net/loop.h"
#include "base/net/tls.h"
#include "model/model.h"
#include "proto/keys.h"
#include "router/serve/api_keys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#define ROOM_BYTES_MIN (1u << 20)

/* --- models --------------------------------------------------------------------------------- */

static const char *doctor_fix_of_model(enum status status, const struct error *error) {
    if (strstr(error->text, "Git LFS"))
        return "run `git lfs pull` in the model's folder, or fetch it with `hf download`";
    if (strstr(error->text, "it is a link to"))
        return "fetch the file again: what the link leads to was taken away, or never came";
    if (strncmp(error->field, "split.", 6) == 0)
        return "fetch all parts of one file into one folder, by the names that they have there";
    switch (status) {
    case STATUS_NOT_FOUND:
        return "name a .gguf file, or a folder as it lies on a model hub, that this user may read";
    case STATUS_CORRUPT:
        return "fetch the file again: it is damaged or cut short";
    case STATUS_UNSUPPORTED:
        return "take a model that is served: docs/models.md lists families and formats";
    default:
        return "`tandem model info PATH` shows its contents; check that it is readable and "
               "complete";
    }
}

static struct model *doctor_open_model(struct doctor *doctor, const struct settings *settings,
                                       const char *path) {
    struct model *model = NULL;
    struct error error;
    char value[VALUE_MAX];
    struct model_options how = {.dummy = settings_get(settings, "load_format", value) &&
                                         strcmp(value, "dummy") == 0};
    enum status status = model_open(path, &how, &model, &error);
    if (status != STATUS_OK) {
        findings_add(&doctor->findings, FINDING_FAULT, "model", doctor_fix_of_model(status, &error),
                     "%s", error.text);
        return NULL;
    }
    if (model_check_tensors(model, &error) != STATUS_OK) {
        findings_add(
            &doctor->findings, FINDING_FAULT, "model",
            "fetch the model again: some of its files are missing, or belong to another model",
            "%s", error.text);
        model_close(model);
        return NULL;
    }
    for (unsigned i = 0; i < model->remarks.n; i++)
        findings_add(&doctor->findings, FINDING_WARNING, "model",
                     "mend what the line names, or leave it: the model is served without", "%s",
                     model->remarks.lines[i]);
    return model;
}

static void doctor_look_at_models(struct doctor *doctor) {
    char router[VALUE_MAX], path[VALUE_MAX];
    struct model *served = NULL;
    if (settings_get(&doctor->router, "model", router) && router[0])
        served = doctor_open_model(doctor, &doctor->router, router);
    else if (doctor->router.text.n > 0 && !doctor->source.config)
        findings_add(&doctor->findings, FINDING_OK, "model", NULL,
                     "none named: `tandem doctor PATH` looks at one");
    if (served)
        findings_add(&doctor->findings, FINDING_OK, "model", NULL, "%s: %s, context of %u tokens",
                     router, served->config.family, served->config.context);
    for (unsigned i = 0; i < doctor->n_workers; i++) {
        const struct settings *worker = &doctor->workers[i];
        if (!settings_get(worker, "model", path) || !path[0] || strcmp(path, router) == 0)
            continue;
        struct model *other = doctor_open_model(doctor, worker, path);
        if (other && served &&
            memcmp(other->config.fingerprint, served->config.fingerprint,
                   sizeof served->config.fingerprint) != 0)
            findings_add(&doctor->findings, FINDING_FAULT, "model",
                         "name one model = PATH in [cluster] for all",
                         "[worker.%s] has %.150s and [router] %.150s: not the same model",
                         worker->name, path, router);
        model_close(other);
    }
    model_close(served);
}

/* --- keys ----------------------------------------------------------------------------------- */

static const char *doctor_fix_of_keys(enum status status, bool is_private) {
    if (status == STATUS_DENIED)
        return is_private ? "chmod 600 FILE (or 640 with a group of the daemon's alone)"
                          : "chmod 644 FILE at most";
    if (status == STATUS_IO || status == STATUS_NOT_FOUND)
        return "name a file that exists and that the daemon's user can read";
    return "one key a line, after it name=NAME, concurrent=N, per-minute=N, tokens-per-minute=N "
           "or cache-salt=TEXT";
}

static void doctor_look_at_api_keys(struct doctor *doctor, const char *option, const char *subject,
                                    bool is_private) {
    struct api_keys *keys = NULL;
    struct error error;
    struct stat info;
    char path[VALUE_MAX];
    if (!settings_get(&doctor->router, option, path) || !path[0])
        return;
    enum status status = api_keys_load(path, is_private, &keys, &error);
    api_keys_free(keys);
    if (status != STATUS_OK)
        findings_add(&doctor->findings, FINDING_FAULT, subject,
                     doctor_fix_of_keys(status, is_private), "%s", error.text);
    else if (stat(path, &info) == 0 && (info.st_mode & S_IROTH))
        findings_add(&doctor->findings, FINDING_WARNING, subject,
                     "chmod 640 FILE, with the daemon's group",
                     "%s: all users of this host can read the keys", path);
    else
        findings_add(&doctor->findings, FINDING_OK, subject, NULL, "%s", path);
}

/* Files that cannot be read have a finding of their own. */
static void doctor_look_at_both_keys(struct doctor *doctor) {
    struct api_keys *clients = NULL, *admins = NULL;
    struct error error;
    char path[2][VALUE_MAX];
    if (settings_get(&doctor->router, "api_keys", path[0]) && path[0][0] &&
        settings_get(&doctor->router, "admin_keys", path[1]) && path[1][0] &&
        api_keys_load(path[0], false, &clients, &error) == STATUS_OK &&
        api_keys_load(path[1], true, &admins, &error) == STATUS_OK &&
        api_keys_apart(clients, admins, &error) != STATUS_OK)
        findings_add(&doctor->findings, FINDING_FAULT, "admin keys",
                     "make administrators keys of their own", "%s", error.text);
    api_keys_free(clients);
    api_keys_free(admins);
}

static void doctor_look_at_cluster_keys(struct doctor *doctor) {
    struct keys keys = {0};
    struct error error;
    char folder[VALUE_MAX];
    if (!settings_get(&doctor->router, "keys", folder) || !folder[0])
        return;
    enum status status = keys_load(folder, &keys, &error);
    keys_wipe(&keys);
    if (status == STATUS_OK)
        findings_add(&doctor->findings, FINDING_OK, "cluster keys", NULL, "%s", folder);
    else
        findings_add(&doctor->findings, FINDING_FAULT, "cluster keys",
                     status == STATUS_DENIED ? "chmod 700 DIR; chmod 600 DIR/*"
                     : status == STATUS_NOT_FOUND
                         ? "make them once, `tandem keys DIR`, and copy DIR to every host"
                         : "copy the folder again from a host where it works",
                     "%s", error.text);
}

static void doctor_look_at_tls(struct doctor *doctor) {
    struct tls_context *context = NULL;
    struct loop *loop = NULL;
    struct error error;
    char cert[VALUE_MAX], key[VALUE_MAX], client_ca[VALUE_MAX];
    if (!settings_get(&doctor->router, "tls_cert", cert) || !cert[0] ||
        !settings_get(&doctor->router, "tls_key", key) || !key[0] ||
        !settings_get(&doctor->router, "tls_client_ca", client_ca) || loop_new(&loop) != STATUS_OK)
        return;
    const struct tls_server_config config = {
        .cert = cert, .key = key, .client_ca = client_ca, .n_streams_max = 1};
    enum status status = tls_server_new(loop, &config, &context, &error);
    const char *warning = status == STATUS_OK ? tls_context_warning(context) : "";
    if (status != STATUS_OK)
        findings_add(&doctor->findings, FINDING_FAULT, "TLS",
                     status == STATUS_DENIED
                         ? "chmod 600 KEY; the certificate not writable by others"
                         : "tls_cert and tls_key have to be one pair of PEM "
                           "files, the key without a passphrase",
                     "%s", error.text);
    else if (warning[0])
        findings_add(&doctor->findings, FINDING_FAULT, "TLS",
                     "renew the certificate, then systemctl reload tandem-router (SIGHUP)", "%s",
                     warning);
    else
        findings_add(&doctor->findings, FINDING_OK, "TLS", NULL, "%s with its key %s", cert, key);
    tls_context_free(context);
    loop_free(loop);
}

/* --- folders of sockets --------------------------------------------------------------------- */

static void doctor_look_at_socket(struct doctor *doctor, const char *endpoint, const char *whose) {
    char folder[VALUE_MAX];
    struct statvfs room;
    if (strncmp(endpoint, "ipc://", 6) != 0)
        return;
    snprintf(folder, sizeof folder, "%s", endpoint + 6);
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    if (endpoint[6] != '/' || strlen(endpoint + 6) >= sizeof((struct sockaddr_un *)0)->sun_path)
        findings_add(&doctor->findings, FINDING_FAULT, "sockets",
                     "an absolute path of at most 107 bytes", "%s of %s: no path of a socket",
                     endpoint, whose);
    else if (access(folder, F_OK) != 0 && units_make_folder(folder))
        findings_add(&doctor->findings, FINDING_OK, "sockets", NULL,
                     "%s does not exist yet: the units make it at their start", folder);
    else if (access(folder, F_OK) != 0)
        findings_add(&doctor->findings, FINDING_FAULT, "sockets",
                     "make it, as the user of the daemons: mkdir",
                     "%s of %s: its folder does not exist", endpoint, whose);
    else if (access(folder, W_OK | X_OK) != 0)
        findings_add(&doctor->findings, FINDING_FAULT, "sockets",
                     "run as the folder's owner (the user tandem), or change it: chown",
                     "%s: this user may not make sockets there: %s", folder, strerror(errno));
    else if (statvfs(folder, &room) == 0 &&
             ((uint64_t)room.f_bavail * room.f_frsize < ROOM_BYTES_MIN ||
              (room.f_files > 0 && room.f_favail < 16)))
        findings_add(&doctor->findings, FINDING_FAULT, "sockets", "make room on that file system",
                     "%s: its file system is full", folder);
    else
        findings_add(&doctor->findings, FINDING_OK, "sockets", NULL, "%s can be written", folder);
}

void doctor_look_at_files(struct doctor *doctor) {
    char value[VALUE_MAX], whose[80];
    doctor_look_at_models(doctor);
    doctor_look_at_cluster_keys(doctor);
    doctor_look_at_api_keys(doctor, "api_keys", "API keys", false);
    doctor_look_at_api_keys(doctor, "admin_keys", "admin keys", true);
    doctor_look_at_both_keys(doctor);
    doctor_look_at_tls(doctor);
    if (!doctor->source.config)
        return; /* `tandem up` makes a folder of its own */
    if (settings_get(&doctor->router, "announce", value))
        doctor_look_at_socket(doctor, value, "the router");
    for (unsigned i = 0; i < doctor->n_workers; i++) {
        snprintf(whose, sizeof whose, "worker %s", doctor->workers[i].name);
        if (settings_get(&doctor->workers[i], "endpoint", value))
            doctor_look_at_socket(doctor, value, whose);
    }
}
