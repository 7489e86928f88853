#include "router/api/format.h"

#include "model/text/grammar/grammar.h"
#include "model/text/grammar/pack.h"
#include "router/api/errors.h"
#include "router/api/form.h"

#include <stdio.h>
#include <string.h>

#define CHOICES_MAX 4096

_Static_assert(GRAMMAR_PACKED_MAX <= MESSAGE_GRAMMAR_MAX, "what packs, a message carries");
_Static_assert(GRAMMAR_PACKED_STRINGS == MESSAGE_GRAMMAR_STRINGS, "who cannot read it is known");

/* What a field asks for, before it is the ask's. `where` is the object that has it. */
struct wish {
    const struct json_get *where;
    const char *name;
    struct grammar_part *part; /* of the arena */
};

static enum status format_too_long(const struct json_get *get, const char *name) {
    return json_get_fail(get, STATUS_INVALID, name, "must be at most %d bytes long",
                         GRAMMAR_PACKED_MAX);
}

/* The first wish stays; a second one is refused. */
static enum status format_wish_for(struct ask *ask, struct wish *wish, const struct json_get *where,
                                   const char *name, enum grammar_kind kind) {
    if (wish->part)
        return json_get_fail(where, STATUS_INVALID, name,
                             "says the answer's form, and so does `%s%s%s`: leave one out",
                             wish->where->parent ? wish->where->parent : "",
                             wish->where->parent ? "." : "", wish->name);
    wish->part = arena_alloc(&ask->arena, sizeof *wish->part);
    if (!wish->part)
        return errors_no_memory(where->error);
    wish->part->kind = kind;
    wish->where = where;
    wish->name = name;
    return STATUS_OK;
}

static enum status format_copy_text(const struct json_get *get, const char *name,
                                    const json_t *text, struct arena *arena, struct span *to) {
    size_t n = json_string_length(text);
    if (n > GRAMMAR_PACKED_MAX)
        return format_too_long(get, name);
    char *copy = arena_copy(arena, json_string_value(text), n);
    if (!copy)
        return errors_no_memory(get->error);
    *to = (struct span){copy, n};
    return STATUS_OK;
}

/* A schema as an object (or true, false), or as its text. */
static enum status format_read_schema(const struct json_get *get, const char *name, struct ask *ask,
                                      struct wish *wish) {
    const json_t *value = json_get_member(get, name);
    if (!value)
        return STATUS_OK;
    TRY(format_wish_for(ask, wish, get, name, GRAMMAR_JSON_SCHEMA));
    if (json_is_string(value))
        return format_copy_text(get, name, value, &ask->arena, &wish->part->text);
    if (!json_is_object(value) && !json_is_boolean(value))
        return json_get_fail(get, STATUS_INVALID, name, "must be a JSON schema");
    size_t flags = JSON_ENCODE_ANY | JSON_COMPACT, n = json_dumpb(value, NULL, 0, flags);
    if (n == 0)
        return errors_no_memory(get->error);
    if (n > GRAMMAR_PACKED_MAX)
        return format_too_long(get, name);
    char *text = arena_alloc(&ask->arena, n);
    if (!text || json_dumpb(value, text, n, flags) != n)
        return errors_no_memory(get->error);
    wish->part->text = (struct span){text, n};
    return STATUS_OK;
}

static enum status format_read_regex(const struct json_get *get, const char *name, struct ask *ask,
                                     struct wish *wish) {
    const json_t *value = json_get_member(get, name);
    if (!value)
        return STATUS_OK;
    if (!json_is_string(value) || json_string_length(value) == 0)
        return json_get_fail(get, STATUS_INVALID, name, "must be a regular expression");
    TRY(format_wish_for(ask, wish, get, name, GRAMMAR_REGEX));
    return format_copy_text(get, name, value, &ask->arena, &wish->part->text);
}

/* GBNF, as llama-server, vLLM and SGLang take it, or Lark, whose rules have no `::=`. */
static enum status format_read_grammar(const struct json_get *get, const char *name,
                                       struct ask *ask, struct wish *wish) {
    const json_t *value = json_get_member(get, name);
    if (!value || (json_is_string(value) && json_string_length(value) == 0))
        return STATUS_OK;
    if (!json_is_string(value))
        return json_get_fail(get, STATUS_INVALID, name, "must be a grammar");
    bool is_gbnf = strstr(json_string_value(value), "::=") != NULL;
    TRY(format_wish_for(ask, wish, get, name, is_gbnf ? GRAMMAR_GBNF : GRAMMAR_LARK));
    return format_copy_text(get, name, value, &ask->arena, &wish->part->text);
}

static enum status format_read_choice(const struct json_get *get, const char *name, struct ask *ask,
                                      struct wish *wish) {
    const json_t *list = NULL, *entry;
    size_t i;
    TRY(json_get_array(get, name, CHOICES_MAX, &list));
    if (!list)
        return STATUS_OK;
    size_t n = json_array_size(list);
    if (n == 0)
        return json_get_fail(get, STATUS_INVALID, name, "must have an entry");
    TRY(format_wish_for(ask, wish, get, name, GRAMMAR_CHOICE));
    struct span *choices = arena_alloc(&ask->arena, n * sizeof *choices);
    if (!choices)
        return errors_no_memory(get->error);
    json_array_foreach((json_t *)list, i, entry) {
        if (!json_is_string(entry) || json_string_length(entry) == 0)
            return json_get_fail(
                get, STATUS_INVALID, name,
                "must hold strings that are not empty; entry %zu is something else", i);
        TRY(format_copy_text(get, name, entry, &ask->arena, &choices[i]));
    }
    wish->part->choices = choices;
    wish->part->n = n;
    return STATUS_OK;
}

/* `format`: response_format; `inner`: its json_schema. Both live as long as the wish does. */
static enum status format_read_response_format(const struct json_get *format,
                                               struct json_get *inner, struct ask *ask,
                                               struct wish *wish) {
    struct span type = SPAN("text"), name = {0};
    bool strict = true; /* what cannot be kept is refused either way */
    TRY(json_get_text(format, "type", 64, &type));
    if (!span_is(type, "json_schema") && json_get_member(format, "json_schema"))
        return json_get_fail(format, STATUS_INVALID, "json_schema",
                             "needs `type`: \"json_schema\" with it");
    if (!format->object || span_is(type, "text"))
        return STATUS_OK;
    if (span_is(type, "json_object")) {
        TRY(format_read_schema(format, "schema", ask, wish)); /* as llama-server takes it */
        return wish->part ? STATUS_OK
                          : format_wish_for(ask, wish, format, "type", GRAMMAR_JSON_OBJECT);
    }
    if (!span_is(type, "json_schema"))
        return json_get_fail(format, STATUS_UNSUPPORTED, "type",
                             "is `%.*s`, which is not served; `text`, `json_object` and "
                             "`json_schema` are",
                             span_shown(type), type.bytes);
    TRY(json_get_object(format, "json_schema", inner));
    inner->parent = "response_format.json_schema";
    if (!inner->object)
        return json_get_fail(format, STATUS_INVALID, "json_schema", "must be an object");
    TRY(json_get_text(inner, "name", ASK_NAME_BYTES_MAX, &name));
    TRY(json_get_bool(inner, "strict", &strict));
    TRY(format_read_schema(inner, "schema", ask, wish));
    return wish->part ? STATUS_OK
                      : json_get_fail(inner, STATUS_INVALID, "schema", "must be a JSON schema");
}

/* vLLM's words. Those that only choose between engines ask nothing here. */
static enum status format_read_structured_outputs(const struct json_get *get, struct ask *ask,
                                                  struct wish *wish) {
    static const char *const unserved[] = {"structural_tag", "whitespace_pattern"};
    bool any_object = false, no_space = false, no_others = false;
    for (size_t i = 0; i < sizeof unserved / sizeof *unserved; i++)
        if (json_get_member(get, unserved[i]))
            return json_get_fail(get, STATUS_UNSUPPORTED, unserved[i], "is not served here");
    TRY(json_get_bool(get, "disable_any_whitespace", &no_space));
    TRY(json_get_bool(get, "disable_additional_properties", &no_others));
    if (no_space || no_others)
        return json_get_fail(get, STATUS_UNSUPPORTED,
                             no_space ? "disable_any_whitespace" : "disable_additional_properties",
                             "is not served here; the schema itself says so");
    TRY(format_read_schema(get, "json", ask, wish));
    TRY(format_read_regex(get, "regex", ask, wish));
    TRY(format_read_choice(get, "choice", ask, wish));
    TRY(format_read_grammar(get, "grammar", ask, wish));
    TRY(json_get_bool(get, "json_object", &any_object));
    return any_object ? format_wish_for(ask, wish, get, "json_object", GRAMMAR_JSON_OBJECT)
                      : STATUS_OK;
}

/* The field's whole name, for errors that come later. */
static enum status format_keep_name(const struct wish *wish, struct ask *ask) {
    const char *parent = wish->where->parent ? wish->where->parent : "";
    int n = snprintf(ask->format_field, sizeof ask->format_field, "%s%s%s", parent,
                     *parent ? "." : "", wish->name);
    return n > 0 ? STATUS_OK : STATUS_INVALID;
}

static enum status format_pack(const struct wish *wish, struct ask *ask) {
    enum status status = form_pack(ask, wish->part);
    if (status == STATUS_LIMIT)
        return format_too_long(wish->where, wish->name);
    return status == STATUS_OK ? status : errors_no_memory(wish->where->error);
}

enum status format_read(const struct json_get *get, struct ask *ask) {
    struct wish wish = {0};
    struct json_get format, outputs, inner = {0};
    TRY(json_get_object(get, "response_format", &format));
    TRY(json_get_object(get, "structured_outputs", &outputs));
    TRY(format_read_response_format(&format, &inner, ask, &wish));
    if (outputs.object)
        TRY(format_read_structured_outputs(&outputs, ask, &wish));
    TRY(format_read_schema(get, "guided_json", ask, &wish));
    TRY(format_read_schema(get, "json_schema", ask, &wish));
    TRY(format_read_regex(get, "guided_regex", ask, &wish));
    TRY(format_read_regex(get, "regex", ask, &wish));
    TRY(format_read_choice(get, "guided_choice", ask, &wish));
    TRY(format_read_grammar(get, "guided_grammar", ask, &wish));
    TRY(format_read_grammar(get, "grammar", ask, &wish));
    TRY(format_read_grammar(get, "ebnf", ask, &wish));
    if (!wish.part)
        return STATUS_OK;
    ask->format = wish.part;
    TRY(format_keep_name(&wish, ask));
    return format_pack(&wish, ask);
}

/* The first custom tool whose grammar cannot be kept by itself, and why; NULL: it is none of them. All together cost no
 * more than the whole form may. */
static const struct ask_input *format_find_culprit(const struct ask *ask, struct error *inside) {
    uint64_t n_steps = 0;
    for (const struct ask_input *input = ask->inputs; input && n_steps <= grammar_limits.n_steps;
         input = input->next) {
        struct grammar *grammar;
        struct error error = {0};
        enum status status = grammar_compile(input->part, NULL, &grammar_limits, &grammar, &error);
        if (status == STATUS_NOMEM)
            return NULL;
        if (status != STATUS_OK) {
            *inside = error;
            return input;
        }
        n_steps += grammar_figures(grammar).n_steps;
        grammar_unref(grammar);
    }
    return NULL;
}

enum status format_check(const struct ask *ask, struct format_loss *loss, struct error *error) {
    struct grammar *grammar;
    struct error inside = {0};
    enum status status = grammar_compile(ask->format, NULL, &grammar_limits, &grammar, &inside);
    *loss = (struct format_loss){0};
    if (status == STATUS_OK) {
        const struct grammar_unenforced *lost;
        for (size_t i = 0; (lost = grammar_unenforced(grammar, i)) != NULL; i++) {
            if (i == 0)
                snprintf(loss->keyword, sizeof loss->keyword, "%s", lost->keyword);
            if (i == 0)
                snprintf(loss->path, sizeof loss->path, "%s", lost->path);
            loss->n += lost->n;
        }
        grammar_unref(grammar);
        return STATUS_OK;
    }
    if (status == STATUS_NOMEM)
        return errors_no_memory(error);
    const struct ask_input *culprit = format_find_culprit(ask, &inside);
    const char *field = culprit ? culprit->field : ask->format_field;
    return error_field(error, status == STATUS_LIMIT ? STATUS_INVALID : status, field, "`%s`: %s",
                       field, inside.text);
}
