/* This host: what it computes with, and the limits that it sets. */
#include "tools/cli/doctor/doctor_parts.h"

#include "kernels/cpu/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#define EPOCH_S_MIN   1767225600 /* 2026-01-01: before there was a Tandem */
#define TMP_BYTES_MIN (16u << 20)

static void doctor_look_at_processor(struct doctor *doctor) {
    const char *name = path_find(NULL)->name;
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    bool is_plain = strcmp(name, "scalar") == 0;
    findings_add(&doctor->findings, is_plain ? FINDING_WARNING : FINDING_OK, "processor",
                 is_plain ? "a CPU (or a virtual CPU type) with AVX2, FMA and F16C is many times "
                            "faster"
                          : NULL,
                 "%ld threads; the CPU backend computes with %s", n, name);
}

/* --- limits --------------------------------------------------------------------------------- */

static void doctor_look_at_huge_pages(struct doctor *doctor) {
    char now[64] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    if (file && fgets(now, sizeof now, file))
        now[strcspn(now, "\n")] = '\0';
    if (file)
        fclose(file);
    bool is_off = strstr(now, "[never]") != NULL;
    findings_add(&doctor->findings, is_off ? FINDING_WARNING : FINDING_OK, "huge pages",
                 is_off ? "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled" : NULL, "%s",
                 is_off   ? "never: weights and KV lie in small pages, which costs speed"
                 : now[0] ? now
                          : "this kernel does not say");
}

static void doctor_look_at_limits(struct doctor *doctor) {
    struct rlimit files, locked;
    char max_connections[VALUE_MAX];
    unsigned long long wanted = 0; /* not known, of a configuration that cannot be read */
    if (settings_get(&doctor->router, "max_connections", max_connections))
        wanted = strtoull(max_connections, NULL, 10) + 256;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && wanted == 0)
        findings_add(&doctor->findings, FINDING_OK, "open files", NULL, "%llu at most",
                     (unsigned long long)files.rlim_max);
    else if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        findings_add(&doctor->findings, files.rlim_max < wanted ? FINDING_WARNING : FINDING_OK,
                     "open files",
                     files.rlim_max < wanted ? "raise ulimit -n (LimitNOFILE= of the unit), or "
                                               "lower max_connections"
                                             : NULL,
                     files.rlim_max < wanted
                         ? "%llu at most, and max_connections asks for %llu: clients would wait"
                         : "%llu at most, %llu asked for",
                     (unsigned long long)files.rlim_max, wanted);
    if (getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur == RLIM_INFINITY)
        findings_add(&doctor->findings, FINDING_OK, "locked memory", NULL, "without a limit");
    else
        findings_add(&doctor->findings, FINDING_OK, "locked memory", NULL,
                     "%llu KiB at most; CPU backends lock no memory",
                     (unsigned long long)locked.rlim_cur / 1024);
}

/* KV goes between workers of a host, and steps between ranks, in files in memory. */
static void doctor_look_at_shared_memory(struct doctor *doctor) {
    struct statvfs room;
    const char *tmp = getenv("XDG_RUNTIME_DIR");
    int fd = memfd_create("tandem-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    bool works = fd >= 0 && ftruncate(fd, 1 << 20) == 0;
    if (fd >= 0)
        close(fd);
    if (!works)
        findings_add(&doctor->findings, FINDING_FAULT, "shared memory",
                     "allow memfd_create (seccomp), or say kv_transport = tcp and tp = 1",
                     "files in memory cannot be made here");
    tmp = tmp && tmp[0] ? tmp : "/tmp";
    if (statvfs(tmp, &room) != 0)
        return;
    double mib = (double)room.f_bavail * (double)room.f_frsize / (1 << 20);
    bool is_full = mib < (double)(TMP_BYTES_MIN >> 20);
    if (works || is_full)
        findings_add(&doctor->findings, is_full ? FINDING_WARNING : FINDING_OK,
                     is_full ? "disk" : "shared memory", is_full ? "make room there" : NULL,
                     is_full ? "%s: %.0f MiB are free" : "works; %s has %.0f MiB for sockets", tmp,
                     mib);
}

/* --- clock ---------------------------------------------------------------------------------- */

static void doctor_look_at_clock(struct doctor *doctor) {
    struct timex state = {0};
    time_t now = time(NULL);
    struct tm utc;
    char text[32];
    gmtime_r(&now, &utc);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc);
    bool is_synchronised = adjtimex(&state) != TIME_ERROR && !(state.status & STA_UNSYNC);
    if (now < EPOCH_S_MIN)
        findings_add(&doctor->findings, FINDING_FAULT, "clock", "timedatectl set-ntp true",
                     "%s: certificates of today are not valid yet", text);
    else if (!is_synchronised)
        findings_add(&doctor->findings, FINDING_WARNING, "clock",
                     "timedatectl set-ntp true, or chrony", "%s, and no service keeps it right",
                     text);
    else
        findings_add(&doctor->findings, FINDING_OK, "clock", NULL, "%s, synchronised", text);
}

void doctor_look_at_host(struct doctor *doctor) {
    doctor_look_at_processor(doctor);
    doctor_look_at_gpus(doctor);
    doctor_look_at_huge_pages(doctor);
    doctor_look_at_limits(doctor);
    doctor_look_at_shared_memory(doctor);
    doctor_look_at_clock(doctor);
}
