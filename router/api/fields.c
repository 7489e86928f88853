#include "router/api/fields.h"

#include "base/assert.h"
#include "model/text/generation.h"
#include "router/api/errors.h"
#include "router/api/field_table.h"
#include "router/api/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum status fields_model(const struct json_get *get, const struct ask_limits *limits,
                         struct api_error *error) {
    struct span model = {0};
    TRY(json_get_text(get, "model", ASK_NAME_BYTES_MAX, &model));
    if (model.n == 0 || span_is(model, limits->model)) /* "" is how some clients leave it out */
        return STATUS_OK;
    error->code = "model_not_found";
    return error_field(get->error, STATUS_NOT_FOUND, "model", "The model `%.*s` does not exist",
                       span_shown(model), model.bytes);
}

enum status fields_ids(const struct json_get *get, const char *name, const json_t *list,
                       uint32_t n_tokens, struct ids *ids) {
    size_t i;
    const json_t *entry;
    json_array_foreach((json_t *)list, i, entry) {
        if (json_get_is_huge(entry))
            return json_get_fail(get, STATUS_INVALID, name,
                                 "holds %.17g, which is not a token id (0 to %u)",
                                 json_real_value(entry), n_tokens - 1);
        int64_t id;
        if (!json_get_whole(entry, &id))
            return json_get_fail(get, STATUS_INVALID, name,
                                 "must hold integers; entry %zu is something else", i);
        if (id < 0 || id >= n_tokens)
            return json_get_fail(get, STATUS_INVALID, name,
                                 "holds %lld, which is not a token id (0 to %u)", (long long)id,
                                 n_tokens - 1);
        if (ids_push(ids, (uint32_t)id) != STATUS_OK)
            return json_get_fail(get, STATUS_INVALID, name, "has too many entries");
    }
    return STATUS_OK;
}

/* An id without text is never drawn, so it can be neither allowed nor preferred. */
static enum status fields_check_text(const struct json_get *get, const char *name,
                                     const struct ask_limits *limits, uint32_t id) {
    if (!intervals_hold(limits->textless, limits->n_textless, id))
        return STATUS_OK;
    return json_get_fail(get, STATUS_INVALID, name,
                         "names %u, which has no text in this model's tokenizer", id);
}

enum status fields_int(const struct json_get *get, const char *name, int64_t *value) {
    const struct field_row *row = field_find(name);
    ASSERT(row && row->type == FIELD_INT);
    return json_get_int(get, name, (int64_t)row->min, (int64_t)row->max, value);
}

static enum status fields_read_real(const struct json_get *get, const struct field_row *row,
                                    float *value) {
    double wide = (double)*value;
    TRY(json_get_real(get, row->name, row->min, row->max, &wide));
    *value = (float)wide;
    if (row->is_above && *value <= (float)row->min)
        return json_get_fail(get, STATUS_INVALID, row->name, "must be above %g", row->min);
    return STATUS_OK;
}

/* Ids that live as long as the call does. */
static enum status fields_read_ids(const struct json_get *get, const struct field_row *row,
                                   const struct ask_limits *limits, struct arena *arena,
                                   const uint32_t **out, uint32_t *n_out) {
    const json_t *list = NULL;
    TRY(json_get_array(get, row->name, (size_t)row->max, &list));
    if (!list || json_array_size(list) == 0)
        return STATUS_OK;
    struct ids ids;
    ids_init(&ids, (size_t)row->max);
    enum status status = fields_ids(get, row->name, list, limits->n_tokens, &ids);
    for (size_t i = 0; row->has_text && status == STATUS_OK && i < ids.n; i++)
        status = fields_check_text(get, row->name, limits, ids.at[i]);
    if (status == STATUS_OK) {
        *out = (const uint32_t *)(void *)arena_copy(arena, (const char *)ids.at,
                                                    ids.n * sizeof *ids.at);
        *n_out = (uint32_t)ids.n;
        if (!*out)
            status = errors_no_memory(get->error);
    }
    ids_fini(&ids);
    return status;
}

static enum status fields_read_string(const struct json_get *get, const struct field_row *row,
                                      struct arena *arena, struct span *out) {
    struct span text = {0};
    TRY(json_get_text(get, row->name, (size_t)row->max, &text));
    if (text.n == 0)
        return STATUS_OK;
    char *copy = arena_copy(arena, text.bytes, text.n);
    if (!copy)
        return errors_no_memory(get->error);
    *out = (struct span){copy, text.n};
    return STATUS_OK;
}

/* Puts the value of one field where its row says; what is absent stays as it is. */
static enum status fields_read_row(const struct json_get *get, const struct field_row *row,
                                   const struct ask_limits *limits, struct ask *ask) {
    void *to = (char *)ask + row->at;
    int64_t number = 0;
    switch (row->type) {
    case FIELD_BOOL:
        return json_get_bool(get, row->name, to);
    case FIELD_INT:
        number = *(uint32_t *)to;
        TRY(fields_int(get, row->name, &number));
        *(uint32_t *)to = (uint32_t)number;
        return STATUS_OK;
    case FIELD_INT64:
        return json_get_int(get, row->name, INT64_MIN, INT64_MAX, to);
    case FIELD_REAL:
        return fields_read_real(get, row, to);
    case FIELD_STRING:
        return fields_read_string(get, row, &ask->arena, to);
    case FIELD_IDS:
        return fields_read_ids(get, row, limits, &ask->arena, to,
                               (uint32_t *)(void *)((char *)ask + row->n_at));
    case FIELD_ANY:
    case FIELD_LIST:
    case FIELD_OBJECT:
        break;
    }
    ASSERT(false); /* such a row has no `at` */
    return STATUS_INVALID;
}

/* What the model's makers mean where a request is silent. */
static void fields_take_defaults(const struct generation *generation, struct ask *ask) {
    for (unsigned i = 0; generation && i < GENERATION_FIELDS; i++) {
        const struct field_row *row = field_find(generation_name((enum generation_field)i));
        if (!row || !generation->has[i])
            continue;
        void *to = (char *)ask + row->at;
        if (row->type == FIELD_REAL)
            *(float *)to = (float)generation->value[i];
        else
            *(uint32_t *)to = (uint32_t)generation->value[i];
    }
}

static enum status fields_read_bias(const struct json_get *get, const struct ask_limits *limits,
                                    struct ask *ask) {
    struct json_get map;
    TRY(json_get_object(get, "logit_bias", &map));
    size_t n = json_object_size(map.object);
    if (n == 0)
        return STATUS_OK;
    if (n > MESSAGE_BIAS_MAX)
        return json_get_fail(get, STATUS_INVALID, "logit_bias", "must have at most %d entries",
                             MESSAGE_BIAS_MAX);
    uint32_t *ids = arena_alloc(&ask->arena, n * sizeof *ids);
    float *bias = arena_alloc(&ask->arena, n * sizeof *bias);
    if (!ids || !bias)
        return errors_no_memory(get->error);
    const char *key;
    json_t *value;
    size_t at = 0;
    json_object_foreach((json_t *)map.object, key, value) {
        char *end = NULL;
        unsigned long long id = strtoull(key, &end, 10);
        if (key[0] < '0' || key[0] > '9' || *end != 0 || id >= limits->n_tokens)
            return json_get_fail(get, STATUS_INVALID, "logit_bias",
                                 "has the key `%.32s`, which is not a token id (0 to %u)", key,
                                 limits->n_tokens - 1);
        TRY(fields_check_text(get, "logit_bias", limits, (uint32_t)id));
        double number = json_number_value(value);
        if (!json_is_number(value) || !(number >= -100 && number <= 100))
            return json_get_fail(get, STATUS_INVALID, "logit_bias",
                                 "must hold numbers between -100 and 100");
        ids[at] = (uint32_t)id;
        bias[at++] = (float)number;
    }
    ask->sampling.bias_ids = ids;
    ask->sampling.bias = bias;
    ask->sampling.n_bias = (uint32_t)n;
    return STATUS_OK;
}

static enum status fields_add_stop(const struct json_get *get, const json_t *value,
                                   struct ask *ask) {
    if (!json_is_string(value))
        return json_get_fail(get, STATUS_INVALID, "stop", "must be a string or a list of strings");
    size_t n = json_string_length(value);
    if (n > ASK_STOP_BYTES_MAX)
        return json_get_fail(get, STATUS_INVALID, "stop", "strings must be at most %d bytes long",
                             ASK_STOP_BYTES_MAX);
    if (n == 0)
        return json_get_fail(get, STATUS_INVALID, "stop", "strings must not be empty");
    char *copy = arena_copy(&ask->arena, json_string_value(value), n);
    if (!copy)
        return errors_no_memory(get->error);
    ask->stops[ask->n_stops++] = (struct span){copy, n};
    return STATUS_OK;
}

static enum status fields_read_stop(const struct json_get *get, struct ask *ask) {
    const json_t *stop = json_get_member(get, "stop"), *list = NULL;
    if (json_is_array(stop))
        TRY(json_get_array(get, "stop", ASK_STOPS_MAX, &list));
    size_t n = list ? json_array_size(list) : stop != NULL;
    if (n == 0)
        return STATUS_OK;
    ask->stops = arena_alloc(&ask->arena, n * sizeof *ask->stops);
    if (!ask->stops)
        return errors_no_memory(get->error);
    for (size_t i = 0; i < n; i++)
        TRY(fields_add_stop(get, list ? json_array_get(list, i) : stop, ask));
    return STATUS_OK;
}

static enum status fields_read_stream_options(const struct json_get *get, struct ask *ask) {
    struct json_get options;
    TRY(json_get_object(get, "stream_options", &options));
    if (options.object && !ask->stream)
        return json_get_fail(get, STATUS_INVALID, "stream_options",
                             "is only allowed with `stream`: true");
    TRY(json_get_bool(&options, "include_usage", &ask->include_usage));
    TRY(json_get_bool(&options, "continuous_usage_stats", &ask->continuous_usage));
    /* As in vLLM, figures in every chunk are part of asking for usage at all. */
    ask->continuous_usage = ask->continuous_usage && ask->include_usage;
    return STATUS_OK;
}

static bool fields_is_among(uint32_t id, const uint32_t *ids, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* While `min_tokens` holds nothing that ends the answer is chosen: something else has to be allowed. Under a form the
 * workers decide, for its end may come where nothing else can. */
static enum status fields_check_allowed(const struct json_get *get, const struct ask_limits *limits,
                                        const struct ask *ask) {
    const struct sampling *sampling = &ask->sampling;
    if (sampling->min_new == 0 || sampling->n_allowed == 0 || ask->format)
        return STATUS_OK;
    for (uint32_t i = 0; i < sampling->n_allowed; i++) {
        uint32_t id = sampling->allowed_ids[i];
        if (!fields_is_among(id, limits->ends, limits->n_ends) &&
            !fields_is_among(id, sampling->stop_ids, sampling->n_stop_ids))
            return STATUS_OK;
    }
    return json_get_fail(
        get, STATUS_INVALID, "allowed_token_ids",
        "must hold an id that does not end the answer while `min_tokens` is above 0");
}

/* What no row can say of its field: bounds that other fields or the model set. */
static enum status fields_check_values(const struct json_get *get, const struct ask_limits *limits,
                                       struct ask *ask) {
    int64_t best_of = ask->n_choices;
    TRY(fields_int(get, "best_of", &best_of));
    if (best_of != ask->n_choices)
        return json_get_fail(get, STATUS_UNSUPPORTED, "best_of",
                             "is not served: it must equal `n` or be left out");
    if (ask->n_choices * ask->n_prompts > ASK_SEQUENCES_MAX)
        return json_get_fail(get, STATUS_INVALID, "n",
                             "times the number of prompts must be at most %d", ASK_SEQUENCES_MAX);
    if (ask->has_max_new && ask->sampling.min_new > ask->sampling.max_new)
        return json_get_fail(get, STATUS_INVALID, "min_tokens",
                             "must not be above the most tokens asked for (%u)",
                             ask->sampling.max_new);
    TRY(fields_check_allowed(get, limits, ask));
    if (ask->truncate > limits->prompt_max)
        return json_get_fail(get, STATUS_INVALID, "truncate_prompt_tokens",
                             "must be between 1 and %u", limits->prompt_max);
    if (ask->sampling.top_k >= limits->n_tokens) /* -1 is as well */
        ask->sampling.top_k = 0;                 /* keeps every token: off */
    ask->has_seed = json_get_member(get, "seed") != NULL;
    return STATUS_OK;
}

/* Bits of enum field_route. */
static unsigned fields_route_of(const struct ask *ask) {
    unsigned route = ask->is_chat ? FIELD_CHAT : FIELD_COMPLETIONS;
    return ask->only_tokens ? route | FIELD_TOKENIZE : route;
}

/* Refuses by name what is known but not served on this route, and notes unknown names. */
static enum status fields_check_names(const struct json_get *get, unsigned route, struct ask *ask) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)get->object, name, value) {
        const struct field_row *row = field_find(name);
        if (!row || !((row->served | row->refused | row->idle) & route)) {
            if (ask->unknown[0] == 0)
                snprintf(ask->unknown, sizeof ask->unknown, "%s", name);
        } else if ((row->refused & route) && !field_is_neutral(row, value)) {
            return json_get_fail(get, STATUS_UNSUPPORTED, name,
                                 row->served ? "is not a field of this route; leave it out"
                                             : "is not served here; leave it out");
        }
    }
    return STATUS_OK;
}

/* Fields of which only a few values are served. */
static enum status fields_refuse_values(const struct json_get *get) {
    int64_t interval = 1;
    TRY(fields_int(get, "stream_interval", &interval));
    if (interval != 1)
        return json_get_fail(get, STATUS_UNSUPPORTED, "stream_interval", "must be 1 here");
    return STATUS_OK;
}

enum status fields_read(const struct json_get *get, const struct ask_limits *limits,
                        struct ask *ask) {
    unsigned route = fields_route_of(ask);
    TRY(fields_check_names(get, route, ask));
    TRY(fields_refuse_values(get));
    fields_take_defaults(limits->generation, ask);
    const struct field_row *row;
    for (size_t i = 0; (row = field_nth(i)) != NULL; i++)
        if (row->at > 0 && (row->served & route))
            TRY(fields_read_row(get, row, limits, ask));
    TRY(fields_read_bias(get, limits, ask));
    TRY(format_read(get, ask));
    TRY(fields_read_stop(get, ask));
    TRY(fields_read_stream_options(get, ask));
    return fields_check_values(get, limits, ask);
}
