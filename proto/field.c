#include "proto/field.h"

#include "base/assert.h"
#include "proto/codec_body.h"

_Static_assert(sizeof(enum reason) == sizeof(uint32_t), "rows of enums are read as uint32_t");

/* Each struct of message.def becomes a function with the struct's table inside: there the types of
 * both sides have short names for offsetof(). */
/* clang-format off */
#define STRUCT(type, Body) static const struct shape *type##_shape(void) { \
    typedef struct type ours; typedef Wire__##Body wire; static const struct field fields[] = {
#define END(type) }; static const struct shape shape = {#type, sizeof(ours), fields, \
    sizeof fields / sizeof *fields, &wire__##type##__descriptor}; return &shape; }

/* What a row says: its name and kind, where the value lies on both sides, and where its count. */
#define OURS(m)                         .ours = offsetof(ours, m)
#define WIRE(m)                         .wire = offsetof(wire, m)
#define ROW(KIND, m)                    #m, FIELD_##KIND, OURS(m), WIRE(m)
#define OURS_N(n)                       .ours_n = offsetof(ours, n)
#define WIRE_N(n)                       .wire_n = offsetof(wire, n)
#define STRUCTS(KIND, type, m, n, max) \
    ROW(KIND, m), OURS_N(n), WIRE_N(n_##m), .bound = max, .shape = type##_shape

#define U32(m)                          {ROW(U32, m)},
#define U64(m)                          {ROW(U64, m)},
#define FLOAT(m)                        {ROW(FLOAT, m)},
#define BOOL(m)                         {ROW(BOOL, m)},
#define COUNT(m, max)                   {ROW(COUNT, m), .bound = max},
#define ENUM(type, m, count)            {ROW(ENUM, m), .bound = count},
#define LENIENT(type, m, count, other)  {ROW(LENIENT, m), .bound = count, .otherwise = other},
#define TEXT(m, size)                   {ROW(TEXT, m), .bound = size},
#define NAME(m, size)                   {ROW(TEXT, m), .bound = size, .is_required = true},
#define BYTES(m, size)                  {ROW(BYTES, m), .bound = size},
#define DATA(m, n, size)                {ROW(DATA, m), OURS_N(n), .bound = size},
#define BLOB(m, n, max)                 {ROW(BLOB, m), OURS_N(n), .bound = max},
#define REQUEST(m)                      {#m, FIELD_REQUEST, OURS(m), WIRE(m##_hi), WIRE_N(m##_lo)},
#define NESTED(type, m)                 {ROW(NESTED, m), .shape = type##_shape},
#define REQUIRED(type, m)               {ROW(NESTED, m), .is_required = true, .shape = type##_shape},
#define OPTIONAL(type, m, has)          {ROW(OPTIONAL, m), OURS_N(has), .shape = type##_shape},
#define LIST(type, m, n, max)           {STRUCTS(LIST, type, m, n, max)},
#define STEP_ENTRIES(type, m, n, max)   {STRUCTS(STEP_ENTRIES, type, m, n, max)},
#define U32S(m, n, max)                 {ROW(U32S, m), OURS_N(n), WIRE_N(n_##m), .bound = max},
#define FLOATS(m, n)                    {ROW(FLOATS, m), OURS_N(n), WIRE_N(n_##m)},
#define LOGPROBS(m, n)                  {ROW(LOGPROBS, m), OURS_N(n)},
#define LOGPROB(m, has)                 {ROW(LOGPROB, m), OURS_N(has)},
#define RAW(type, m, n)                 {#n, FIELD_RAW, OURS(m), OURS_N(n), .bound = sizeof(type)},
#define PAYLOAD(m, n)                   {#n, FIELD_PAYLOAD, OURS(m), OURS_N(n), .bound = 1},
#define PLAIN(type, m)
#define PART(path, m)                   {#m, FIELD_U32, OURS(path), WIRE(m)},
#define SEND_RULE(rule)                 {#rule, FIELD_SEND_RULE, .may_send = rule},
#define READ_RULE(rule)                 {#rule, FIELD_READ_RULE, .may_read = rule},
/* clang-format on */
#include "proto/message.def"

static const struct {
    const char *name;
    const struct shape *(*shape)(void);
    bool is_bulk;
    size_t raw_max;
} types[MESSAGE_TYPES] = {
    [MESSAGE_NONE] = {"none", NULL, false, 0},
#define TYPE(NAME, name, body, is_bulk, raw_max)                                                   \
    [MESSAGE_##NAME] = {#name, body##_shape, is_bulk, raw_max},
#define ALSO TYPE
#include "proto/types.def"
};

const char *message_name(enum message_type type) {
    return (unsigned)type < MESSAGE_TYPES ? types[type].name : "unknown";
}

const struct shape *message_shape(enum message_type type) {
    ASSERT(type > MESSAGE_NONE && type < MESSAGE_TYPES);
    return types[type].shape();
}

bool message_is_bulk(enum message_type type) {
    return (unsigned)type < MESSAGE_TYPES && types[type].is_bulk;
}

size_t message_raw_max(enum message_type type) {
    ASSERT(type > MESSAGE_NONE && type < MESSAGE_TYPES);
    return types[type].raw_max;
}
