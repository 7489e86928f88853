/* model/members/members.h: every member that the JSON files of a hub folder are known to have, and
 * what becomes of it.
 *
 * The tables (members_*.c) say it in rows; the walk below compares a file with them, so that nothing
 * in a file is ignored in silence. Reading the values is the work of config_hub*.c, tokenizer_extras.c
 * and generation.c. What members mean: transformers' configuration_*.py, tokenization_utils_base.py
 * and generation/configuration_utils.py of releases 4.57 and 5, the publishers' own files. Start-up
 * only. */
#pragma once

#include "base/error.h"
#include "base/remarks.h"
#include "base/status.h"

#include <stdbool.h>

typedef struct json_t json_t; /* jansson's */

enum member_fate {
    MEMBER_READ,   /* its reader checks type and value; `says`: the JSON types that it takes */
    MEMBER_TYPED,  /* the same, by a reader that passes over other types: a remark tells */
    MEMBER_WANTED, /* not done here but at the values in `says`, a JSON list: config.json is refused
                       at others, a file beside it is remarked on */
    MEMBER_NOTHING, /* changes no answer; `says` why */
    MEMBER_INSIDE   /* an object whose members stand in the rows of `inside` */
};

/* The files, and the objects inside config.json. */
enum member_place {
    MEMBERS_CONFIG,
    MEMBERS_ROPE,  /* rope_scaling, rope_parameters */
    MEMBERS_QUANT, /* quantization_config, quantize_config.json, quant_config.json */
    MEMBERS_GENERATION,
    MEMBERS_TOKENIZER,
    MEMBERS_SPECIAL, /* special_tokens_map.json */
    MEMBERS_PLACES
};

/* Whose config.json a row is about: classes that read the same keys. */
enum member_kin {
    KIN_LLAMA = 1,
    KIN_MISTRAL = 2,
    KIN_QWEN2 = 4,
    KIN_QWEN3 = 8,
    KIN_QWEN2_MOE = 16,
    KIN_QWEN3_MOE = 32,
    KIN_QWEN = 64,
    KIN_CHATGLM = 128,
    KIN_BAICHUAN = 256,
    KIN_ALL = 511
};

/* JSON types in `says` of what is read: i integer, r any number, b bool, t text, l list, o object. */
struct member_row {
    unsigned kin; /* enum member_kin; the first row of a name that has the kin counts */
    enum member_fate fate;
    const char *says;
    const char *names; /* one space between */
    enum member_place inside;
};

extern const struct member_row members_config[], members_rope[], members_quant[],
    members_generation[], members_tokenizer[], members_special[]; /* names NULL: the end */

/* A place's rows. */
const struct member_row *members_rows(enum member_place place);

/* The kin of a class of config.json's architectures, or 0. */
unsigned members_kin(const char *class);

/* The kin of a model_type, or 0. */
unsigned members_kin_of_type(const char *type);

/* The row of a name, or NULL. */
const struct member_row *members_find(enum member_place place, unsigned kin, const char *name);

/* Is the value null, empty, or one of the JSON list's, or a list of nothing else? 1 is 1.0. */
bool members_is_among(const json_t *value, const char *list);

/* One file of a folder. */
struct members_file {
    enum member_place place;
    unsigned kin;         /* of config.json; KIN_ALL for the others */
    const char *name;     /* as messages call it */
    const json_t *object; /* NULL: there is no such file */
    bool generates;       /* of config.json: no generation_config.json says how to sample */
};

/* Looks at each member: one remark names all that stand in no row, one each tells what is not done of a
 * helper. STATUS_UNSUPPORTED with name and value for what config.json wants and is not served. */
NODISCARD enum status members_look(const struct members_file *file, struct remarks *remarks,
                                   struct error *error);
