#include "model/members/members.h"

#include "base/assert.h"
#include "base/json/json_get.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_SHOWN 8
#define NAME_BYTES  80
#define VALUE_BYTES 48
#define TEXT_SHOWN  300 /* bytes of names and values on a line */

static const struct {
    const char *begin; /* of the class; the longer ones first */
    const char *type;  /* model_type of these classes */
    unsigned kin;
} classes[] = {
    {"Llama", "llama", KIN_LLAMA},
    {"Mistral", "mistral", KIN_MISTRAL},
    {"Qwen2Moe", "qwen2_moe", KIN_QWEN2_MOE},
    {"Qwen3Moe", "qwen3_moe", KIN_QWEN3_MOE},
    {"Qwen2", "qwen2", KIN_QWEN2},
    {"Qwen3", "qwen3", KIN_QWEN3},
    {"QWen", "qwen", KIN_QWEN},
    {"ChatGLM", "chatglm", KIN_CHATGLM},
    {"Baichuan", "baichuan", KIN_BAICHUAN},
    {"BaiChuan", "baichuan", KIN_BAICHUAN},
};

unsigned members_kin(const char *class) {
    for (size_t i = 0; class && i < sizeof classes / sizeof *classes; i++)
        if (strncmp(class, classes[i].begin, strlen(classes[i].begin)) == 0)
            return classes[i].kin;
    return 0;
}

unsigned members_kin_of_type(const char *type) {
    for (size_t i = 0; type && i < sizeof classes / sizeof *classes; i++)
        if (strcmp(type, classes[i].type) == 0)
            return classes[i].kin;
    return 0;
}

const struct member_row *members_rows(enum member_place place) {
    static const struct member_row *const rows[MEMBERS_PLACES] = {
        [MEMBERS_CONFIG] = members_config,       [MEMBERS_ROPE] = members_rope,
        [MEMBERS_QUANT] = members_quant,         [MEMBERS_GENERATION] = members_generation,
        [MEMBERS_TOKENIZER] = members_tokenizer, [MEMBERS_SPECIAL] = members_special,
    };
    return rows[place];
}

static bool members_has_name(const char *names, const char *name) {
    size_t n = strlen(name);
    for (const char *at = names; n > 0 && (at = strstr(at, name)); at += n)
        if ((at == names || at[-1] == ' ') && (at[n] == 0 || at[n] == ' '))
            return true;
    return false;
}

const struct member_row *members_find(enum member_place place, unsigned kin, const char *name) {
    if (strchr(name, ' '))
        return NULL;
    for (const struct member_row *row = members_rows(place); row->names; row++)
        if (row->kin & kin && members_has_name(row->names, name))
            return row;
    return NULL;
}

static bool members_is_same(const json_t *left, const json_t *right) {
    if (json_is_number(left) && json_is_number(right))
        return json_number_value(left) == json_number_value(right);
    return json_equal(left, right);
}

static bool members_is_in(const json_t *value, const json_t *list) {
    if (json_is_null(value) || (json_is_object(value) && json_object_size(value) == 0))
        return true;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (members_is_same(value, json_array_get(list, i)))
            return true;
    if (!json_is_array(value))
        return false;
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!members_is_in(json_array_get(value, i), list))
            return false;
    return true;
}

bool members_is_among(const json_t *value, const char *list) {
    json_t *wanted = json_loads(list, 0, NULL);
    ASSERT(json_is_array(wanted));
    bool found = members_is_in(value, wanted);
    json_decref(wanted);
    return found;
}

static bool members_has_type(const json_t *value, const char *types) {
    char type = json_get_whole(value, &(int64_t){0}) ? 'i'
                : json_is_real(value)                ? 'r'
                : json_is_boolean(value)             ? 'b'
                : json_is_string(value)              ? 't'
                : json_is_array(value)               ? 'l'
                                                     : 'o';
    return json_is_null(value) || strchr(types, type) || (type == 'i' && strchr(types, 'r'));
}

/* Members of a file that one remark names, some with their values. */
struct listed {
    size_t n;
    char text[NAMES_SHOWN * (NAME_BYTES + VALUE_BYTES + 4)];
};

struct look {
    const struct members_file *file;
    struct error *error;
    struct listed unknown; /* in no row */
    struct listed undone;  /* wanted, of what stops no start */
    struct listed untyped; /* of a type that its reader passes over */
};

/* The beginning of a value's text. */
static void members_show_value(const json_t *value, char text[VALUE_BYTES]) {
    char *dumped = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
    snprintf(text, VALUE_BYTES, "%s", dumped ? dumped : "");
    free(dumped);
}

/* `value` may be NULL: the name alone. */
static void members_add(struct listed *listed, const char *field, const json_t *value) {
    char name[NAME_BYTES], shown[VALUE_BYTES] = "";
    size_t n = strlen(listed->text);
    if (listed->n++ >= NAMES_SHOWN)
        return;
    snprintf(name, sizeof name, "%s", field);
    for (char *at = name; *at; at++)
        if (*at <= ' ' || *at > '~')
            *at = '_';
    if (value)
        members_show_value(value, shown);
    snprintf(listed->text + n, sizeof listed->text - n, "%s%s%s%s", n > 0 ? ", " : "", name,
             value ? " " : "", shown);
}

static void members_tell(const struct listed *listed, const char *file, const char *one,
                         const char *several, struct remarks *remarks) {
    char more[32] = "";
    if (listed->n > NAMES_SHOWN)
        snprintf(more, sizeof more, " and %zu more", listed->n - NAMES_SHOWN);
    if (listed->n > 0) /* what is said of them is to have a place on the line */
        remarks_add(remarks, "%s: %.*s%s%s %s", file, TEXT_SHOWN, listed->text,
                    strlen(listed->text) > TEXT_SHOWN ? "..." : "", more,
                    listed->n > 1 ? several : one);
}

static enum status members_refuse(const struct look *look, const struct member_row *row,
                                  const char *field, const json_t *value) {
    char shown[VALUE_BYTES];
    bool has_values = strcmp(row->says, "[]") != 0;
    members_show_value(value, shown);
    return error_field(look->error, STATUS_UNSUPPORTED, field,
                       "%s: %s is %s, which is not served%s%s", look->file->name, field, shown,
                       has_values ? "; served is one of " : "", has_values ? row->says : "");
}

static enum status members_look_into(struct look *look, enum member_place place, const char *parent,
                                     const json_t *object);

static enum status members_look_at(struct look *look, enum member_place place, const char *parent,
                                   const char *name, const json_t *value) {
    char field[2 * NAME_BYTES];
    bool is_refused = place <= MEMBERS_QUANT;
    const struct member_row *row = members_find(place, look->file->kin, name);
    if (!row && place == MEMBERS_CONFIG) { /* older files say there how to sample */
        row = members_find(MEMBERS_GENERATION, KIN_ALL, name);
        is_refused = false;
        if (row && !look->file->generates)
            return STATUS_OK;
    }
    snprintf(field, sizeof field, "%s%s%s", parent, *parent ? "." : "", name);
    if (!row)
        members_add(&look->unknown, field, NULL);
    else if (row->fate == MEMBER_INSIDE)
        return members_look_into(look, row->inside, name, value);
    else if (row->fate == MEMBER_TYPED && !members_has_type(value, row->says))
        members_add(&look->untyped, field, value);
    else if (row->fate == MEMBER_WANTED && !members_is_among(value, row->says)) {
        if (is_refused)
            return members_refuse(look, row, field, value);
        members_add(&look->undone, field, value);
    }
    return STATUS_OK;
}

static enum status members_look_into(struct look *look, enum member_place place, const char *parent,
                                     const json_t *object) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value) {
        TRY(members_look_at(look, place, parent, name, value));
    }
    return STATUS_OK;
}

enum status members_look(const struct members_file *file, struct remarks *remarks,
                         struct error *error) {
    struct look look = {.file = file, .error = error};
    TRY(members_look_into(&look, file->place, "", file->object));
    members_tell(&look.undone, file->name, "is not done here", "are not done here", remarks);
    members_tell(&look.untyped, file->name, "has a type without a meaning; it is not used",
                 "have types without a meaning; they are not used", remarks);
    members_tell(&look.unknown, file->name, "is not known here and was not looked at",
                 "are not known here and were not looked at", remarks);
    return STATUS_OK;
}
