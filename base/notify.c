#include "base/notify.h"

#include "base/clock.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define WAIT_US 100000

void notify_send(const char *text) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof address.sun_path)
        return;
    memcpy(address.sun_path, path, strlen(path));
    if (path[0] == '@')
        address.sun_path[0] = 0; /* an abstract name */
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    struct timeval wait = {.tv_usec = WAIT_US};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    /* A service manager that does not listen is no reason to stop serving. */
    (void)!sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&address, size);
    close(fd);
}

bool notify_is_on(void) {
    return getenv("NOTIFY_SOCKET") != NULL;
}

void notify_status(const char *format, ...) {
    char text[256] = "STATUS=";
    va_list args;
    va_start(args, format);
    vsnprintf(text + 7, sizeof text - 7, format, args);
    va_end(args);
    notify_send(text);
}

void notify_extend(unsigned seconds) {
    char text[64];
    snprintf(text, sizeof text, "EXTEND_TIMEOUT_USEC=%u000000", seconds);
    notify_send(text);
}

void notify_reloading(void) {
    char text[96];
    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%llu",
             (unsigned long long)(clock_now_ns() / NS_PER_US));
    notify_send(text);
}

void notify_reloaded(void) {
    notify_send("READY=1");
}

uint64_t notify_watchdog_ns(void) {
    const char *text = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    if (!text || (pid && strtoll(pid, NULL, 10) != (long long)getpid()))
        return 0;
    return strtoull(text, NULL, 10) * NS_PER_US / 2;
}
