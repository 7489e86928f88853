/* Formats of strings (JSON Schema validation, section 7.3) as expressions that match from end to end. */
#include "model/text/grammar/schema/schema.h"

#include <string.h>

#define YEAR "(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
#define LEAP_YEAR                                                                                  \
    "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
/* RFC 3339, full-date, with the lengths of months. */
#define DATE                                                                                       \
    "(?:" YEAR                                                                                     \
    "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"      \
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))|" LEAP_YEAR "-02-29)"
/* RFC 3339, full-time, without leap seconds. */
#define TIME                                                                                       \
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?"                                 \
    "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
/* RFC 1123: labels of at most 63; three of them stay below 253 bytes. */
#define LABEL    "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
#define HOSTNAME LABEL "(?:\\." LABEL "){0,2}"
#define ATOM     "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]{1,30}"
#define OCTET    "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4     OCTET "(?:\\." OCTET "){3}"
#define GROUP    "[0-9a-fA-F]{1,4}"
/* RFC 4291, section 2.2. */
#define IPV6                                                                                       \
    "(?:(?:" GROUP ":){7}" GROUP "|(?:" GROUP ":){1,7}:|(?:" GROUP ":){1,6}:" GROUP "|(?:" GROUP   \
    ":){1,5}(?::" GROUP "){1,2}|(?:" GROUP ":){1,4}(?::" GROUP "){1,3}"                            \
    "|(?:" GROUP ":){1,3}(?::" GROUP "){1,4}|(?:" GROUP ":){1,2}(?::" GROUP "){1,5}"               \
    "|" GROUP ":(?::" GROUP "){1,6}|:(?::" GROUP "){1,7}|::"                                       \
    "|(?:" GROUP ":){6}" IPV4 "|::(?:" GROUP ":){0,5}" IPV4 ")"
/* RFC 3986, with a path that begins with a slash or has none. */
#define PCHAR "(?:[a-zA-Z0-9._~!$&'()*+,;=:@-]|%[0-9a-fA-F]{2})"
#define URI                                                                                        \
    "[a-zA-Z][a-zA-Z0-9+.-]*:(?://(?:[a-zA-Z0-9._~-]+@)?(?:" HOSTNAME "|" IPV4                     \
    ")(?::[0-9]{1,5})?(?:/" PCHAR "*)*|" PCHAR "+(?:/" PCHAR "*)*)"                                \
    "(?:\\?(?:" PCHAR "|[/?])*)?(?:#(?:" PCHAR "|[/?])*)?"
/* RFC 3339, appendix A. */
#define DURATION_TIME "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
#define DURATION                                                                                   \
    "P(?:(?:[0-9]+D|[0-9]+M(?:[0-9]+D)?|[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?)(?:" DURATION_TIME         \
    ")?|" DURATION_TIME "|[0-9]+W)"

static const struct {
    const char *name;
    const char *expression;
} formats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "T" TIME},
    {"duration", DURATION},
    {"email", ATOM "(?:\\." ATOM "){0,1}@" HOSTNAME},
    {"hostname", HOSTNAME},
    {"ipv4", IPV4},
    {"ipv6", IPV6},
    {"uuid", "[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"},
    {"uri", URI},
};

const char *format_expression(const char *name) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, name) == 0)
            return formats[i].expression;
    return NULL;
}
