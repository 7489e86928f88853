/* The rows of members_*.c against files as hubs have them (tests/data/folder_files.json: six published
 * families' by name, and what transformers 4.57.6 and 5.24.0 write in full), and against the readers:
 * each member of config.json at odd values is read, refused by name, or means nothing. */
#include "tests/support/suite.h"

#include "base/json/json_get.h"
#include "base/json/json_text.h"
#include "model/members/members.h"
#include "model/weights/config/config.h"
#include "model/weights/config/config_hub.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "model_members";
const double suite_timeout_s = 120;

#define SIZES                                                                                      \
    "\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":4,"                        \
    "\"num_key_value_heads\":2,\"intermediate_size\":96,\"vocab_size\":300,\"head_dim\":16,"       \
    "\"max_position_embeddings\":1000,\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\""
#define WINDOW  ",\"use_sliding_window\":true,\"sliding_window\":100,\"max_window_layers\":2"
#define EXPERTS ",\"num_experts\":8,\"num_experts_per_tok\":2,\"moe_intermediate_size\":48"

static const struct {
    unsigned kin;
    const char *config;
} bases[] = {
    {KIN_LLAMA, "{\"architectures\":[\"LlamaForCausalLM\"]," SIZES "}"},
    {KIN_MISTRAL, "{\"architectures\":[\"MistralForCausalLM\"]," SIZES ",\"sliding_window\":100}"},
    {KIN_QWEN2, "{\"architectures\":[\"Qwen2ForCausalLM\"]," SIZES WINDOW "}"},
    {KIN_QWEN3, "{\"architectures\":[\"Qwen3ForCausalLM\"]," SIZES WINDOW "}"},
    {KIN_QWEN2_MOE, "{\"architectures\":[\"Qwen2MoeForCausalLM\"]," SIZES WINDOW EXPERTS
                    ",\"shared_expert_intermediate_size\":80}"},
    {KIN_QWEN3_MOE, "{\"architectures\":[\"Qwen3MoeForCausalLM\"]," SIZES WINDOW EXPERTS "}"},
    {KIN_QWEN,
     "{\"architectures\":[\"QWenLMHeadModel\"],\"hidden_size\":64,\"num_hidden_layers\":2,"
     "\"num_attention_heads\":4,\"intermediate_size\":192,\"vocab_size\":300,\"kv_channels\":16,"
     "\"seq_length\":2048,\"max_position_embeddings\":8192}"},
    {KIN_CHATGLM, "{\"architectures\":[\"ChatGLMModel\"],\"num_layers\":2,\"hidden_size\":64,"
                  "\"ffn_hidden_size\":96,\"num_attention_heads\":4,\"multi_query_attention\":true,"
                  "\"multi_query_group_num\":2,\"kv_channels\":16,\"padded_vocab_size\":300,"
                  "\"seq_length\":8192}"},
    {KIN_BAICHUAN, /* the 7B, which is rotary */
     "{\"architectures\":[\"BaichuanForCausalLM\"],\"hidden_size\":4096,\"num_hidden_layers\":2,"
     "\"num_attention_heads\":32,\"intermediate_size\":96,\"vocab_size\":300,"
     "\"max_position_embeddings\":4096}"},
};

#define N_ODD 18

/* null, bools, numbers with integers of 64 bits and beyond, texts, lists, objects. */
static json_t *odd_value(unsigned i) {
    static const char *const spelled[] = {"null", "true",    "false",  "0",    "1",        "-1",
                                          "2.5",  "4096.0",  "1e300",  "\"\"", "\"text\"", "[]",
                                          "[1]",  "[\"x\"]", "[null]", "{}",   "{\"a\":1}"};
    _Static_assert(sizeof spelled / sizeof *spelled == N_ODD - 1, "and one that is not spelled");
    /* as json_read() gives what 64 bits do not hold */
    return i < N_ODD - 1 ? json_loads(spelled[i], JSON_DECODE_ANY, NULL) : json_real(0x1p64);
}

static json_t *object_of(const char *text) {
    json_t *object = json_loads(text, 0, NULL);
    ck_assert_msg(object != NULL, "%s", text);
    return object;
}

static struct remarks remarks; /* of what was looked at last */
static struct error error;

static enum status look(enum member_place place, unsigned kin, const json_t *object) {
    static const char *const names[] = {"config.json",           "",
                                        "quantize_config.json",  "generation_config.json",
                                        "tokenizer_config.json", "special_tokens_map.json"};
    struct members_file file = {place, kin, names[place], object, true};
    memset(&remarks, 0, sizeof remarks);
    return members_look(&file, &remarks, &error);
}

/* As a folder's config.json is opened. Takes the object. */
static enum status read_config(json_t *object, unsigned kin, struct model_config *config) {
    static struct config_hub hub;
    memset(&hub, 0, sizeof hub);
    memset(config, 0, sizeof *config);
    strcpy(hub.config_file, "config.json");
    hub.config = object;
    enum status status = config_from_hub(&hub, config, &error);
    if (status == STATUS_OK)
        status = look(MEMBERS_CONFIG, kin, object);
    config_hub_fini(&hub);
    return status;
}

static char type_of(const json_t *value) {
    return json_get_whole(value, &(int64_t){0}) ? 'i'
           : json_is_real(value)                ? 'r'
           : json_is_boolean(value)             ? 'b'
           : json_is_string(value)              ? 't'
           : json_is_array(value)               ? 'l'
           : json_is_object(value)              ? 'o'
                                                : 'n';
}

static bool takes(const char *types, const json_t *value) {
    char type = type_of(value);
    return strchr(types, type) || (type == 'i' && strchr(types, 'r'));
}

static bool is_remarked(const char *name) {
    for (unsigned i = 0; i < remarks.n; i++)
        if (strstr(remarks.lines[i], name))
            return true;
    return false;
}

/* Calls `check` with each name of the rows of a place that count for the kin. */
static void for_each(enum member_place place, unsigned kin,
                     void (*check)(const struct member_row *row, const char *name, unsigned kin)) {
    for (const struct member_row *row = members_rows(place); row->names; row++) {
        char *names = strdup(row->names), *rest = NULL;
        for (char *name = strtok_r(names, " ", &rest); name; name = strtok_r(NULL, " ", &rest))
            if (members_find(place, kin, name) == row)
                check(row, name, kin);
        free(names);
    }
}

static const char *base_of(unsigned kin) {
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++)
        if (bases[i].kin == kin)
            return bases[i].config;
    ck_abort_msg("no base of kin %u", kin);
}

/* What must be so of a value of this fate, whatever the reader did. */
static void expect_fate(const struct member_row *row, const char *name, const json_t *value,
                        enum status status, const char *shown) {
    bool is_named = status != STATUS_OK && strstr(error.text, name);
    /* A value of the right type, or none, may not fit another member, which is then named. */
    bool fits = json_is_null(value) || takes(row->says ? row->says : "o", value);
    ck_assert_msg(status == STATUS_OK || is_named || (row->fate == MEMBER_READ && fits), "%s: %s",
                  shown, error.text);
    if (row->fate == MEMBER_READ && !json_is_null(value))
        ck_assert_msg(is_named || takes(row->says, value), "%s is passed over", shown);
    if (row->fate == MEMBER_INSIDE && !json_is_null(value))
        ck_assert_msg(is_named || json_is_object(value), "%s is passed over", shown);
    if (row->fate == MEMBER_TYPED && !json_is_null(value))
        ck_assert_msg(is_remarked(name) == !takes(row->says, value), "%s", shown);
    if (row->fate == MEMBER_WANTED)
        ck_assert_msg(is_named == !members_is_among(value, row->says), "%s: %d", shown, status);
    if (row->fate == MEMBER_NOTHING)
        ck_assert_msg(status == STATUS_OK, "%s: %s", shown, error.text);
    if (row->fate != MEMBER_TYPED && row->fate != MEMBER_INSIDE && status == STATUS_OK)
        ck_assert_msg(remarks.n == 0, "%s: %s", shown, remarks.lines[0]);
}

static void check_in_config(const struct member_row *row, const char *name, unsigned kin) {
    static struct model_config without, with;
    json_t *plain = object_of(base_of(kin));
    json_object_del(plain, name);
    enum status status_without = read_config(plain, kin, &without);
    for (unsigned i = 0; i < N_ODD; i++) {
        json_t *object = object_of(base_of(kin)), *value = odd_value(i);
        char *text = json_dumps(value, JSON_ENCODE_ANY), shown[160];
        snprintf(shown, sizeof shown, "kin %u: %s %s", kin, name, text);
        json_object_set(object, name, value);
        enum status status = read_config(object, kin, &with);
        expect_fate(row, name, value, status, shown);
        /* Of a window null and absent differ. */
        bool is_absent = json_is_null(value) && strcmp(name, "sliding_window") != 0;
        if (is_absent || row->fate == MEMBER_NOTHING) {
            ck_assert_msg(status == status_without, "%s: %s", shown, error.text);
            ck_assert_msg(memcmp(&with, &without, sizeof with) == 0, "%s changes numbers", shown);
        }
        free(text);
        json_decref(value);
    }
}

START_TEST(odd_values_of_config_json_are_read_or_refused_by_name) {
    for_each(MEMBERS_CONFIG, bases[_i].kin, check_in_config);
}
END_TEST

/* Objects in which members inside are read at all. */
static const char *const insides[] = {
    "{\"rope_parameters\":{\"rope_type\":\"yarn\",\"type\":\"yarn\",\"factor\":2,"
    "\"original_max_position_embeddings\":500,\"attention_factor\":1,\"beta_fast\":32,"
    "\"beta_slow\":1,\"mscale\":1,\"mscale_all_dim\":1,\"truncate\":true,\"rope_theta\":10000,"
    "\"partial_rotary_factor\":1}}",
    "{\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":2,\"low_freq_factor\":1,"
    "\"high_freq_factor\":4,\"original_max_position_embeddings\":500,\"rope_theta\":10000,"
    "\"partial_rotary_factor\":1}}",
    "{\"quantization_config\":{\"quant_method\":\"awq\",\"w_bit\":4,\"q_group_size\":128,"
    "\"version\":\"gemm\",\"zero_point\":true}}",
    "{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":128,"
    "\"checkpoint_format\":\"gptq\",\"is_marlin_format\":false,\"desc_act\":false,\"sym\":true,"
    "\"dynamic\":{}}}",
    "{\"quantization_config\":{\"quant_method\":\"auto-round\",\"bits\":4,\"group_size\":128,"
    "\"packing_format\":\"auto_round:auto_gptq\",\"data_type\":\"int\",\"act_bits\":16,"
    "\"extra_config\":{}}}",
};

static const char *inside; /* what check_inside() puts members into */

static void check_inside(const struct member_row *row, const char *name, unsigned kin) {
    static struct model_config ignored;
    for (unsigned i = 0; i < N_ODD; i++) {
        json_t *object = object_of(base_of(kin)), *value = odd_value(i), *outer = object_of(inside);
        json_t *members = json_object_iter_value(json_object_iter(outer));
        char *text = json_dumps(value, JSON_ENCODE_ANY), shown[160];
        snprintf(shown, sizeof shown, "%s %s in %.40s", name, text, inside);
        /* An object among rope_parameters is refused whatever its name. */
        bool is_read = row->fate == MEMBER_READ ? json_object_get(members, name) != NULL
                                                : !json_is_object(value);
        json_object_set(members, name, value);
        json_object_update(object, outer);
        enum status status = read_config(object, kin, &ignored);
        if (is_read)
            expect_fate(row, name, value, status, shown);
        free(text);
        json_decref(value);
        json_decref(outer);
    }
}

START_TEST(odd_values_inside_objects_are_read_or_refused_by_name) {
    bool is_rope = strstr(insides[_i], "rope_");
    inside = insides[_i];
    for_each(is_rope ? MEMBERS_ROPE : MEMBERS_QUANT, KIN_LLAMA, check_inside);
}
END_TEST

/* Every name that is read inside an object is read in one of those above. */
static void check_is_inside(const struct member_row *row, const char *name, unsigned kin) {
    char quoted[80];
    (void)kin;
    snprintf(quoted, sizeof quoted, "\"%s\":", name);
    bool found = row->fate != MEMBER_READ;
    for (size_t i = 0; i < sizeof insides / sizeof *insides; i++)
        found |= strstr(insides[i], quoted) != NULL;
    ck_assert_msg(found, "%s", name);
}

START_TEST(rows_are_well_formed) {
    for_each(MEMBERS_ROPE, KIN_ALL, check_is_inside);
    for_each(MEMBERS_QUANT, KIN_ALL, check_is_inside);
    for (int place = 0; place < MEMBERS_PLACES; place++)
        for (const struct member_row *row = members_rows(place); row->names; row++) {
            ck_assert_msg((row->says != NULL) == (row->fate != MEMBER_INSIDE), "%s", row->names);
            ck_assert_msg(!strstr(row->names, "  ") && row->kin && !(row->kin & ~KIN_ALL), "%s",
                          row->names);
            if (row->fate == MEMBER_WANTED)
                ck_assert_msg(members_is_among(json_null(), row->says), "%s", row->names);
            if (row->fate == MEMBER_READ || row->fate == MEMBER_TYPED)
                ck_assert_msg(strspn(row->says, "irbtlo") == strlen(row->says), "%s", row->names);
        }
}
END_TEST

static enum member_place place_of(const char *file) {
    return strcmp(file, "config.json") == 0              ? MEMBERS_CONFIG
           : strcmp(file, "generation_config.json") == 0 ? MEMBERS_GENERATION
           : strcmp(file, "tokenizer_config.json") == 0  ? MEMBERS_TOKENIZER
           : strcmp(file, "quantize_config.json") == 0   ? MEMBERS_QUANT
                                                         : MEMBERS_SPECIAL;
}

START_TEST(files_as_hubs_have_them_give_no_remark) {
    static struct model_config config;
    json_t *root = NULL;
    enum status status = json_text_load(SOURCE_DIR "/tests/data/folder_files.json",
                                        &json_limits_tokenizer, &root, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    const json_t *files = json_object_get(root, "files");
    ck_assert_uint_ge(json_array_size(files), 40);
    for (size_t i = 0; i < json_array_size(files); i++) {
        const json_t *file = json_array_get(files, i);
        const char *what = json_string_value(json_object_get(file, "what"));
        json_t *object = json_object_get(file, "object");
        enum member_place place = place_of(json_string_value(json_object_get(file, "file")));
        const json_t *classes = json_object_get(object, "architectures");
        unsigned kin = members_kin(json_string_value(json_array_get(classes, 0)));
        if (place == MEMBERS_CONFIG)
            status = read_config(json_incref(object), kin, &config);
        else
            status = look(place, KIN_ALL, object);
        ck_assert_msg(status == STATUS_OK, "%s: %s", what, error.text);
        ck_assert_msg(remarks.n == 0, "%s: %s", what, remarks.lines[0]);
    }
    json_decref(root);
}
END_TEST

static void expect_remark(enum member_place place, const char *text, const char *wanted) {
    json_t *object = object_of(text);
    ck_assert_int_eq(look(place, KIN_LLAMA, object), STATUS_OK);
    ck_assert_uint_eq(remarks.n, 1);
    ck_assert_str_eq(remarks.lines[0], wanted);
    json_decref(object);
}

START_TEST(members_that_nobody_knows_are_one_remark) {
    expect_remark(MEMBERS_CONFIG, "{\"vocab_size\":1,\"swirl\":2}",
                  "config.json: swirl is not known here and was not looked at");
    expect_remark(MEMBERS_GENERATION, "{\"top_p\":1,\"top_z\":null,\"vocab_size\":1}",
                  "generation_config.json: top_z, vocab_size are not known here and were not "
                  "looked at");
    expect_remark(MEMBERS_TOKENIZER, "{\"\":1}",
                  "tokenizer_config.json:  is not known here and was not looked at");
    expect_remark(MEMBERS_SPECIAL, "{\"eos_token\":\"x\",\"eos token\":1,\"e\\u00e9\\n\\u007f\":1}",
                  "special_tokens_map.json: eos_token, e____ are not known here and were not "
                  "looked at");
    expect_remark(MEMBERS_CONFIG, "{\"rope_scaling\":{\"swirl\":1},\"seq_length_\":3}",
                  "config.json: rope_scaling.swirl, seq_length_ are not known here and were not "
                  "looked at");
    expect_remark(MEMBERS_QUANT, "{\"bits\":4,\"spin\":{}}",
                  "quantize_config.json: spin is not known here and was not looked at");
    expect_remark(MEMBERS_SPECIAL,
                  "{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1}",
                  "special_tokens_map.json: a, b, c, d, e, f, g, h are not known here and were "
                  "not looked at");
    expect_remark(MEMBERS_SPECIAL,
                  "{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1}",
                  "special_tokens_map.json: a, b, c, d, e, f, g, h and 1 more are not known here "
                  "and were not looked at");
}
END_TEST

/* What is said of them keeps its place on the line: 300 bytes of names stand before it. */
START_TEST(names_beyond_300_bytes_are_cut) {
    for (int over = 0; over < 2; over++) {
        char text[400], wanted[500];
        snprintf(text, sizeof text, "{\"a%072d\":1,\"b%072d\":1,\"c%072d\":1,\"d%0*d\":1}", 0, 0, 0,
                 74 + over, 0);
        snprintf(wanted, sizeof wanted,
                 "special_tokens_map.json: a%072d, b%072d, c%072d, d%074d%s are not known here and "
                 "were not looked at",
                 0, 0, 0, 0, over ? "..." : "");
        expect_remark(MEMBERS_SPECIAL, text, wanted);
    }
}
END_TEST

START_TEST(what_is_not_done_of_a_helper_is_one_remark) {
    expect_remark(MEMBERS_GENERATION, "{\"num_beams\":4,\"suppress_tokens\":[7],\"typical_p\":1.0}",
                  "generation_config.json: num_beams 4, suppress_tokens [7] are not done here");
    expect_remark(MEMBERS_TOKENIZER, "{\"do_lower_case\":true}",
                  "tokenizer_config.json: do_lower_case true is not done here");
    expect_remark(MEMBERS_TOKENIZER, "{\"errors\":\"\u00e9\"}", /* a cut leaves no half of it */
                  "tokenizer_config.json: errors \"\\u00E9\" is not done here");
    expect_remark(
        MEMBERS_TOKENIZER, "{\"chat_template\":7}",
        "tokenizer_config.json: chat_template 7 has a type without a meaning; it is not used");
    /* A config.json that says how to sample is remarked on, and only where it counts. */
    expect_remark(MEMBERS_CONFIG, "{\"num_beams\":4}", "config.json: num_beams 4 is not done here");
    json_t *object = object_of("{\"num_beams\":4}");
    struct members_file file = {MEMBERS_CONFIG, KIN_LLAMA, "config.json", object, false};
    memset(&remarks, 0, sizeof remarks);
    ck_assert_int_eq(members_look(&file, &remarks, &error), STATUS_OK);
    ck_assert_uint_eq(remarks.n, 0);
    json_decref(object);
}
END_TEST

START_TEST(a_network_that_is_not_served_is_refused_with_its_value) {
    static const struct {
        unsigned kin;
        const char *member; /* of config.json */
        const char *refusal;
    } cases[] = {
        {KIN_LLAMA, "\"final_logit_softcapping\":30.0",
         "final_logit_softcapping is 30.0, which is not served; served is one of [0]"},
        {KIN_QWEN2, "\"residual_multiplier\":0.22",
         "residual_multiplier is 0.22, which is not served; served is one of [1]"},
        {KIN_MISTRAL, "\"num_local_experts\":8",
         "num_local_experts is 8, which is not served; served is one of [0,1]"},
        {KIN_LLAMA, "\"layer_types\":[\"full_attention\",\"sliding_attention\"]",
         "layer_types is [\"full_attention\",\"sliding_attention\"], which is not served; served "
         "is one of [\"full_attention\"]"},
        {KIN_QWEN3, "\"clip_qkv\":8", "clip_qkv is 8, which is not served"},
        {KIN_MISTRAL, "\"attention_bias\":true",
         "attention_bias is true, which is not served; served is one of [false]"},
        {KIN_QWEN2, "\"use_qk_norm\":true",
         "use_qk_norm is true, which is not served; served is one of [false]"},
        {KIN_LLAMA, "\"rope_parameters\":{\"alpha\":2}",
         "rope_parameters.alpha is 2, which is not served"},
        {KIN_BAICHUAN, "\"quantization\":{\"bits\":4}",
         "quantization is {\"bits\":4}, which is not served"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[160], wanted[200];
        snprintf(text, sizeof text, "{%s}", cases[i].member);
        snprintf(wanted, sizeof wanted, "config.json: %s", cases[i].refusal);
        json_t *object = object_of(text);
        ck_assert_int_eq(look(MEMBERS_CONFIG, cases[i].kin, object), STATUS_UNSUPPORTED);
        ck_assert_str_eq(error.text, wanted);
        size_t n_field = strcspn(cases[i].refusal, " ");
        ck_assert_msg(strlen(error.field) == n_field &&
                          strncmp(error.field, cases[i].refusal, n_field) == 0,
                      "%s", error.field);
        json_decref(object);
    }
    json_t *neutral = object_of("{\"final_logit_softcapping\":null,\"logits_scaling\":1.0,"
                                "\"attn_logit_softcapping\":0.0,\"pruned_heads\":{},"
                                "\"layer_types\":[\"full_attention\",\"full_attention\"]}");
    ck_assert_int_eq(look(MEMBERS_CONFIG, KIN_LLAMA, neutral), STATUS_OK);
    ck_assert_uint_eq(remarks.n, 0);
    json_decref(neutral);
}
END_TEST

/* The refusal of another class lists them all. */
START_TEST(every_class_that_is_served_has_its_kin) {
    static struct model_config config;
    ck_assert_int_eq(read_config(object_of("{\"architectures\":[\"Swirl\"]}"), 0, &config),
                     STATUS_UNSUPPORTED);
    char *list = strstr(error.text, "served; "), *rest = NULL;
    ck_assert_ptr_nonnull(list);
    unsigned kins = 0;
    for (char *class = strtok_r(list + 8, ", ", &rest); class && strcmp(class, "are") != 0;
         class = strtok_r(NULL, ", ", &rest)) {
        ck_assert_msg(members_kin(class) != 0, "%s", class);
        kins |= members_kin(class);
    }
    ck_assert_uint_eq(kins, KIN_ALL);
    ck_assert_uint_eq(members_kin("Qwen2MoeForCausalLM"), KIN_QWEN2_MOE);
    ck_assert_uint_eq(members_kin("Gemma2ForCausalLM"), 0);
    ck_assert_uint_eq(members_kin(NULL), 0);
}
END_TEST

/* The readers' source, one after the other. */
static char source[1 << 18];

static void read_source(void) {
    static const char *const files[] = {"weights/config/config_hub.c",
                                        "weights/config/config_hub_layers.c",
                                        "weights/config/config_hub_llama.c",
                                        "weights/config/config_hub_other.c",
                                        "weights/config/config_hub_quant.c",
                                        "weights/config/config_hub_rope.c",
                                        "text/generation.c",
                                        "text/tokenizer/files/tokenizer_extras.c",
                                        "model_folder.c"};
    size_t n = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[256];
        snprintf(path, sizeof path, SOURCE_DIR "/model/%s", files[i]);
        FILE *file = fopen(path, "r");
        ck_assert_msg(file != NULL, "%s", path);
        n += fread(source + n, 1, sizeof source - 1 - n, file);
        fclose(file);
    }
    ck_assert_uint_lt(n, sizeof source - 1);
}

static void check_is_read(const struct member_row *row, const char *name, unsigned kin) {
    char quoted[128];
    (void)kin;
    snprintf(quoted, sizeof quoted, "\"%s\"", name);
    ck_assert_msg(row->fate > MEMBER_TYPED || strstr(source, quoted), "nobody reads %s", name);
}

static bool is_in_a_row(const char *name) {
    /* Members of added tokens and of a list of templates. */
    static const char *const others[] = {"content", "special", "name", "template"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(name, others[i]) == 0)
            return true;
    for (int place = 0; place < MEMBERS_PLACES; place++)
        if (members_find(place, KIN_ALL, name))
            return true;
    return false;
}

/* The name that a call beginning at `at` asks for, if it spells one. */
static bool find_asked(const char *at, char name[64]) {
    size_t n_call = strcspn(at, ";{"), begin = strcspn(at, "\"");
    size_t n = strspn(at + begin + 1, "abcdefghijklmnopqrstuvwxyz0123456789_");
    if (begin >= n_call || n == 0 || n >= 64 || at[begin + 1 + n] != '"')
        return false;
    memcpy(name, at + begin + 1, n);
    name[n] = 0;
    return true;
}

START_TEST(rows_and_readers_name_the_same_members) {
    static const char *const calls[] = {"json_get_",    "json_need_", "json_object_get(",
                                        "read_text(",   "read_wish(", "read_answer(",
                                        "read_number(", "read_eps("};
    unsigned n_asked = 0;
    read_source();
    for (int place = 0; place < MEMBERS_PLACES; place++)
        for_each(place, KIN_ALL, check_is_read);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (const char *at = source; (at = strstr(at, calls[i])); at += strlen(calls[i])) {
            char name[64];
            if (!find_asked(at, name))
                continue;
            n_asked++;
            ck_assert_msg(is_in_a_row(name), "%s is asked for and stands in no row", name);
        }
    ck_assert_uint_ge(n_asked, 100);
}
END_TEST

void suite_add(TCase *tests) {
    int n_bases = (int)(sizeof bases / sizeof *bases);
    int n_insides = (int)(sizeof insides / sizeof *insides);
    tcase_add_loop_test(tests, odd_values_of_config_json_are_read_or_refused_by_name, 0, n_bases);
    tcase_add_loop_test(tests, odd_values_inside_objects_are_read_or_refused_by_name, 0, n_insides);
    tcase_add_test(tests, rows_are_well_formed);
    tcase_add_test(tests, files_as_hubs_have_them_give_no_remark);
    tcase_add_test(tests, members_that_nobody_knows_are_one_remark);
    tcase_add_test(tests, names_beyond_300_bytes_are_cut);
    tcase_add_test(tests, what_is_not_done_of_a_helper_is_one_remark);
    tcase_add_test(tests, a_network_that_is_not_served_is_refused_with_its_value);
    tcase_add_test(tests, every_class_that_is_served_has_its_kin);
    tcase_add_test(tests, rows_and_readers_name_the_same_members);
}
