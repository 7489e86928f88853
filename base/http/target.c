#include "base/http/target.h"

#include "base/hex.h"
#include "base/utf8.h"

#include <string.h>
#include <strings.h>

const char *const target_no_proxy = "this server is not a proxy";

/* RFC 9110, 5.6.2 */
static bool http_is_token_byte(unsigned char byte) {
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
           (byte >= 'A' && byte <= 'Z') || (byte && strchr("!#$%&'*+-.^_`|~", byte));
}

bool target_is_token(const char *text, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!http_is_token_byte((unsigned char)text[i]))
            return false;
    return n > 0;
}

/* "." and ".." name what the route table does not: no client needs them, probes send them. */
static bool target_has_dot_segment(const char *path) {
    while (*path) {
        path++; /* the '/' */
        size_t n = strcspn(path, "/");
        if ((n == 1 && path[0] == '.') || (n == 2 && path[0] == '.' && path[1] == '.'))
            return true;
        path += n;
    }
    return false;
}

/* Decodes in place, once: what comes out decides both access and dispatch. */
static const char *target_decode_path(char *path) {
    char *out = path;
    for (const char *at = path; *at; at++) {
        int byte = (unsigned char)*at;
        if (byte == '%') {
            int high = hex_value(at[1]);
            int low = high < 0 ? -1 : hex_value(at[2]);
            if (low < 0)
                return "the path has a broken percent escape";
            byte = high << 4 | low;
            at += 2;
        }
        if (byte < 0x20 || byte == 0x7f)
            return "the path holds a control byte";
        *out++ = (char)byte;
    }
    *out = 0;
    if (!utf8_valid(path, (size_t)(out - path)))
        return "the path is not UTF-8";
    if (target_has_dot_segment(path))
        return "the path has a '.' or '..' segment";
    return NULL;
}

/* Skips "http://authority" of the absolute form, which a server must accept (RFC 9112, 3.2.2). The
 * Host field is still required and nothing here depends on either. NULL: neither form. */
static char *target_origin_of(char *target) {
    size_t scheme = strncasecmp(target, "http://", 7) == 0    ? 7
                    : strncasecmp(target, "https://", 8) == 0 ? 8
                                                              : 0;
    if (scheme == 0)
        return *target == '/' ? target : NULL;
    size_t n = strcspn(target + scheme, "/?");
    if (n == 0 || memchr(target + scheme, '@', n))
        return NULL;
    return target + scheme + n;
}

const char *target_read(char *text, bool options, struct target *target) {
    for (const char *at = text; *at; at++)
        if (*at <= ' ' || *at >= 0x7f || *at == '#') /* char may be signed: both ends are refused */
            return "the request target contains a forbidden byte";
    *target = (struct target){.path = text, .query = "", .as_sent = true};
    if (strcmp(text, "*") == 0)
        return options ? NULL : "the target '*' is for OPTIONS alone";
    char *origin = target_origin_of(text);
    if (!origin)
        return "the request target is neither a path nor a URL";
    char *mark = strchr(origin, '?');
    if (mark) {
        *mark = 0;
        target->query = mark + 1;
    }
    target->as_sent = origin == text && !strchr(origin, '%');
    target->path = *origin ? origin : "/"; /* "http://host" means its root */
    return target_decode_path(origin);
}

/* RFC 3986, 3.2.2: reg-name, IPv6 in brackets, and the port's colon. */
static bool target_is_host_byte(unsigned char byte) {
    return (http_is_token_byte(byte) && !strchr("#^`|", byte)) || strchr(":[]()=,;", byte);
}

bool target_is_host(const char *host) {
    for (const char *at = host; *at; at++)
        if (!target_is_host_byte((unsigned char)*at))
            return false;
    return true;
}
