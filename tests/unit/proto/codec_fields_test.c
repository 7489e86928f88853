/* The rows of proto/message.def beside the fields of proto/tandem.proto: each has the other. */
#include "proto/field.h"
#include "tests/support/suite.h"

#include <protobuf-c/protobuf-c.h>
#include <stdio.h>
#include <string.h>

const char *const suite_name = "codec_fields";
const double suite_timeout_s = 60;

typedef const ProtobufCFieldDescriptor wire_field;

/* What a kind of row is on the wire; the second type is what older fields have. */
static const struct {
    bool is_field; /* of tandem.proto */
    bool is_repeated;
    ProtobufCType type;
    ProtobufCType or_type;
} wires[] = {
    [FIELD_U32] = {true, false, PROTOBUF_C_TYPE_UINT32, PROTOBUF_C_TYPE_UINT32},
    [FIELD_U64] = {true, false, PROTOBUF_C_TYPE_UINT64, PROTOBUF_C_TYPE_FIXED64},
    [FIELD_FLOAT] = {true, false, PROTOBUF_C_TYPE_FLOAT, PROTOBUF_C_TYPE_FLOAT},
    [FIELD_BOOL] = {true, false, PROTOBUF_C_TYPE_BOOL, PROTOBUF_C_TYPE_BOOL},
    [FIELD_COUNT] = {true, false, PROTOBUF_C_TYPE_UINT32, PROTOBUF_C_TYPE_UINT32},
    [FIELD_ENUM] = {true, false, PROTOBUF_C_TYPE_UINT32, PROTOBUF_C_TYPE_UINT32},
    [FIELD_LENIENT] = {true, false, PROTOBUF_C_TYPE_UINT32, PROTOBUF_C_TYPE_UINT32},
    [FIELD_TEXT] = {true, false, PROTOBUF_C_TYPE_BYTES, PROTOBUF_C_TYPE_BYTES},
    [FIELD_BYTES] = {true, false, PROTOBUF_C_TYPE_BYTES, PROTOBUF_C_TYPE_BYTES},
    [FIELD_DATA] = {true, false, PROTOBUF_C_TYPE_BYTES, PROTOBUF_C_TYPE_BYTES},
    [FIELD_BLOB] = {true, false, PROTOBUF_C_TYPE_BYTES, PROTOBUF_C_TYPE_BYTES},
    [FIELD_REQUEST] = {true, false, PROTOBUF_C_TYPE_FIXED64, PROTOBUF_C_TYPE_FIXED64},
    [FIELD_NESTED] = {true, false, PROTOBUF_C_TYPE_MESSAGE, PROTOBUF_C_TYPE_MESSAGE},
    [FIELD_OPTIONAL] = {true, false, PROTOBUF_C_TYPE_MESSAGE, PROTOBUF_C_TYPE_MESSAGE},
    [FIELD_LIST] = {true, true, PROTOBUF_C_TYPE_MESSAGE, PROTOBUF_C_TYPE_MESSAGE},
    [FIELD_STEP_ENTRIES] = {true, true, PROTOBUF_C_TYPE_MESSAGE, PROTOBUF_C_TYPE_MESSAGE},
    [FIELD_U32S] = {true, true, PROTOBUF_C_TYPE_UINT32, PROTOBUF_C_TYPE_UINT32},
    [FIELD_FLOATS] = {true, true, PROTOBUF_C_TYPE_FLOAT, PROTOBUF_C_TYPE_FLOAT},
    [FIELD_LOGPROBS] = {true, false, PROTOBUF_C_TYPE_MESSAGE, PROTOBUF_C_TYPE_MESSAGE},
    [FIELD_LOGPROB] = {true, false, PROTOBUF_C_TYPE_MESSAGE, PROTOBUF_C_TYPE_MESSAGE},
    [FIELD_RAW] = {false},
    [FIELD_PAYLOAD] = {false},
    [FIELD_SEND_RULE] = {false},
    [FIELD_READ_RULE] = {false},
};

/* The field that lies where the row says, with the row's name. */
static wire_field *find(const struct shape *shape, const struct field *row) {
    for (unsigned i = 0; i < shape->descriptor->n_fields; i++)
        if (shape->descriptor->fields[i].offset == row->wire)
            return &shape->descriptor->fields[i];
    ck_abort_msg("%s: %s has no field in tandem.proto", shape->name, row->name);
    return NULL;
}

/* Fields of tandem.proto that two kinds of rows have beside their own. */
static void check_request(const struct shape *shape, const struct field *row) {
    char name[64];
    wire_field *hi = find(shape, row);
    snprintf(name, sizeof name, "%s_hi", row->name);
    ck_assert_str_eq(hi->name, name);
    wire_field *lo = protobuf_c_message_descriptor_get_field_by_name(
        shape->descriptor, strcat(strcpy(name, row->name), "_lo"));
    ck_assert_msg(lo, "%s: %s is missing", shape->name, name);
    ck_assert_uint_eq(lo->offset, row->wire_n);
    ck_assert_int_eq(lo->type, PROTOBUF_C_TYPE_UINT64);
}

static void check_row(const struct shape *shape, const struct field *row) {
    wire_field *field = find(shape, row);
    ck_assert_msg(field->type == wires[row->kind].type || field->type == wires[row->kind].or_type,
                  "%s: %s has another type", shape->name, row->name);
    bool is_repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
    ck_assert_msg(is_repeated == wires[row->kind].is_repeated, "%s: %s: repeated or not",
                  shape->name, row->name);
    if (is_repeated)
        ck_assert_uint_eq(field->quantifier_offset, row->wire_n);
    if (row->kind == FIELD_REQUEST)
        check_request(shape, row);
    else
        ck_assert_str_eq(field->name, row->name);
    if (row->shape)
        ck_assert_msg(field->descriptor == row->shape()->descriptor, "%s: %s: another message",
                      shape->name, row->name);
    if (row->kind == FIELD_LOGPROBS || row->kind == FIELD_LOGPROB)
        ck_assert_str_eq(((const ProtobufCMessageDescriptor *)field->descriptor)->name,
                         "wire.Logprobs");
}

/* Whether a row reads and writes the field, as its own or as a request's second half. */
static bool has_row(const struct shape *shape, wire_field *field) {
    for (size_t i = 0; i < shape->n_fields; i++) {
        const struct field *row = &shape->fields[i];
        if (!wires[row->kind].is_field)
            continue;
        if (field->offset == row->wire ||
            (row->kind == FIELD_REQUEST && field->offset == row->wire_n))
            return true;
    }
    return false;
}

static void check_shape(const struct shape *shape) {
    for (size_t i = 0; i < shape->n_fields; i++) {
        const struct field *row = &shape->fields[i];
        if (wires[row->kind].is_field)
            check_row(shape, row);
        if (row->shape)
            check_shape(row->shape());
    }
    for (unsigned i = 0; i < shape->descriptor->n_fields; i++)
        ck_assert_msg(has_row(shape, &shape->descriptor->fields[i]),
                      "%s: %s of tandem.proto has no row in message.def", shape->name,
                      shape->descriptor->fields[i].name);
}

START_TEST(rows_and_fields_of_the_wire_are_the_same) {
    check_shape(message_shape((enum message_type)_i));
}
END_TEST

START_TEST(a_raw_frame_has_a_bound_where_a_row_has_it) {
    const struct shape *shape = message_shape((enum message_type)_i);
    bool has_raw = false;
    for (size_t i = 0; i < shape->n_fields; i++)
        has_raw |= shape->fields[i].kind == FIELD_RAW || shape->fields[i].kind == FIELD_PAYLOAD;
    ck_assert_int_eq(message_raw_max((enum message_type)_i) > 0, has_raw);
}
END_TEST

/* Shapes name their message as the generated code does, so none stands for another. */
START_TEST(types_have_the_message_of_their_name) {
    static const struct {
        enum message_type type;
        const char *name;
    } shared[] = {{MESSAGE_CANCELLED, "cancel"},
                  {MESSAGE_KV_WELCOME, "kv_hello"},
                  {MESSAGE_COMMIT_ACK, "transfer_end"},
                  {MESSAGE_ABORT, "transfer_end"},
                  {MESSAGE_FENCED, "transfer_end"}};
    const char *name = message_name((enum message_type)_i);
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        if (shared[i].type == (enum message_type)_i)
            name = shared[i].name;
    ck_assert_str_eq(message_shape((enum message_type)_i)->name, name);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, rows_and_fields_of_the_wire_are_the_same, MESSAGE_NONE + 1,
                        MESSAGE_TYPES);
    tcase_add_loop_test(tests, a_raw_frame_has_a_bound_where_a_row_has_it, MESSAGE_NONE + 1,
                        MESSAGE_TYPES);
    tcase_add_loop_test(tests, types_have_the_message_of_their_name, MESSAGE_NONE + 1,
                        MESSAGE_TYPES);
}
