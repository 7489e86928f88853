#include "router/api/fields.h"

#include "base/assert.h"
#include "model/generation.h"
#include "router/api/field_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status no_memory(const struct json_get *get) {
    return error_set(get->error, STATUS_NOMEM, "no memory for the request");
}

enum status fields_model(const struct json_get *get, const struct ask_limits *limits) {
    struct span model = {0};
    TRY(json_get_text(get, "model", ASK_NAME_BYTES_MAX, &model));
    if (model.n == 0 || span_is(model, limits->model)) /* "" is how some clients leave it out */
        return STATUS_OK;
    return error_field(get->error, STATUS_NOT_FOUND, "model", "The model `%.*s` does not exist",
                       span_shown(model), model.bytes);
}

enum status fields_ids(const struct json_get *get, const char *name, const json_t *list,
                       uint32_t n_tokens, struct ids *ids) {
    size_t i;
    const json_t *entry;
    json_array_foreach((json_t *)list, i, entry) {
        if (!json_is_integer(entry))
            return json_get_fail(get, STATUS_INVALID, name,
                                 "must hold integers; entry %zu is something else", i);
        json_int_t id = json_integer_value(entry);
        if (id < 0 || id >= n_tokens)
            return json_get_fail(get, STATUS_INVALID, name,
                                 "holds %lld, which is not a token id (0 to %u)", (long long)id,
                                 n_tokens - 1);
        if (ids_push(ids, (uint32_t)id) != STATUS_OK)
            return json_get_fail(get, STATUS_INVALID, name, "has too many entries");
    }
    return STATUS_OK;
}

/* Ids that live as long as the call does. */
static enum status read_id_list(const struct json_get *get, const char *name, size_t n_max,
                                uint32_t n_tokens, struct arena *arena, const uint32_t **out,
                                uint32_t *n_out) {
    const json_t *list = NULL;
    TRY(json_get_array(get, name, n_max, &list));
    if (!list || json_array_size(list) == 0)
        return STATUS_OK;
    struct ids ids;
    ids_init(&ids, n_max);
    enum status status = fields_ids(get, name, list, n_tokens, &ids);
    if (status == STATUS_OK) {
        *out = (const uint32_t *)(void *)arena_copy(arena, (const char *)ids.at,
                                                    ids.n * sizeof *ids.at);
        *n_out = (uint32_t)ids.n;
        if (!*out)
            status = no_memory(get);
    }
    ids_fini(&ids);
    return status;
}

/* An id without text is never drawn, so it can be neither allowed nor preferred. */
static enum status check_text(const struct json_get *get, const char *name,
                              const struct ask_limits *limits, uint32_t id) {
    if (!intervals_hold(limits->textless, limits->n_textless, id))
        return STATUS_OK;
    return json_get_fail(get, STATUS_INVALID, name,
                         "names %u, which has no text in this model's tokenizer", id);
}

enum status fields_int(const struct json_get *get, const char *name, int64_t *value) {
    const struct field_row *row = field_find(name);
    ASSERT(row && row->type == FIELD_INT);
    bool has_bounds = row->min != 0 || row->max != 0;
    return json_get_int(get, name, has_bounds ? (int64_t)row->min : INT64_MIN,
                        has_bounds ? (int64_t)row->max : INT64_MAX, value);
}

static enum status read_float(const struct json_get *get, const char *name, float *value) {
    const struct field_row *row = field_find(name);
    double wide = (double)*value;
    ASSERT(row && row->type == FIELD_REAL);
    TRY(json_get_real(get, name, row->min, row->max, &wide));
    *value = (float)wide;
    return STATUS_OK;
}

static void take_defaults(const struct ask_limits *limits, struct sampling *sampling) {
    const struct generation *generation = limits->generation;
    float *const floats[GENERATION_FIELDS] = {[GENERATION_TEMPERATURE] = &sampling->temperature,
                                              [GENERATION_TOP_P] = &sampling->top_p,
                                              [GENERATION_MIN_P] = &sampling->min_p,
                                              [GENERATION_REPETITION] = &sampling->repetition};
    for (unsigned field = 0; generation && field < GENERATION_FIELDS; field++)
        if (generation->has[field] && floats[field])
            *floats[field] = (float)generation->value[field];
    if (generation && generation->has[GENERATION_TOP_K])
        sampling->top_k = (uint32_t)generation->value[GENERATION_TOP_K];
}

static enum status read_sampling(const struct json_get *get, const struct ask_limits *limits,
                                 struct ask *ask) {
    struct sampling *sampling = &ask->sampling;
    take_defaults(limits, sampling);
    TRY(read_float(get, "temperature", &sampling->temperature));
    TRY(read_float(get, "top_p", &sampling->top_p));
    if (sampling->top_p <= 0)
        return json_get_fail(get, STATUS_INVALID, "top_p", "must be above 0");
    TRY(read_float(get, "min_p", &sampling->min_p));
    TRY(read_float(get, "presence_penalty", &sampling->presence));
    TRY(read_float(get, "frequency_penalty", &sampling->frequency));
    TRY(read_float(get, "repetition_penalty", &sampling->repetition));
    if (sampling->repetition <= 0)
        return json_get_fail(get, STATUS_INVALID, "repetition_penalty", "must be above 0");
    int64_t top_k = sampling->top_k;
    TRY(fields_int(get, "top_k", &top_k));
    sampling->top_k = top_k <= 0 ? 0 : (uint32_t)top_k;
    if (sampling->top_k >= limits->n_tokens)
        sampling->top_k = 0; /* keeps every token: off */
    int64_t seed = 0;
    TRY(fields_int(get, "seed", &seed));
    ask->has_seed = json_get_member(get, "seed") != NULL;
    sampling->seed = (uint64_t)seed;
    TRY(read_id_list(get, "allowed_token_ids", MESSAGE_ALLOWED_MAX, limits->n_tokens, &ask->arena,
                     &sampling->allowed_ids, &sampling->n_allowed));
    for (uint32_t i = 0; i < sampling->n_allowed; i++)
        TRY(check_text(get, "allowed_token_ids", limits, sampling->allowed_ids[i]));
    return STATUS_OK;
}

static enum status read_bias(const struct json_get *get, const struct ask_limits *limits,
                             struct ask *ask) {
    const json_t *map = NULL;
    TRY(json_get_object(get, "logit_bias", &map));
    size_t n = map ? json_object_size(map) : 0;
    if (n == 0)
        return STATUS_OK;
    if (n > MESSAGE_BIAS_MAX)
        return json_get_fail(get, STATUS_INVALID, "logit_bias", "must have at most %d entries",
                             MESSAGE_BIAS_MAX);
    uint32_t *ids = arena_alloc(&ask->arena, n * sizeof *ids);
    float *bias = arena_alloc(&ask->arena, n * sizeof *bias);
    if (!ids || !bias)
        return no_memory(get);
    const char *key;
    json_t *value;
    size_t at = 0;
    json_object_foreach((json_t *)map, key, value) {
        char *end = NULL;
        unsigned long long id = strtoull(key, &end, 10);
        if (key[0] < '0' || key[0] > '9' || *end != 0 || id >= limits->n_tokens)
            return json_get_fail(get, STATUS_INVALID, "logit_bias",
                                 "has the key `%.32s`, which is not a token id (0 to %u)", key,
                                 limits->n_tokens - 1);
        TRY(check_text(get, "logit_bias", limits, (uint32_t)id));
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

static enum status add_stop(const struct json_get *get, const json_t *value, struct ask *ask) {
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
        return no_memory(get);
    ask->stops[ask->n_stops++] = (struct span){copy, n};
    return STATUS_OK;
}

static enum status read_stop(const struct json_get *get, const struct ask_limits *limits,
                             struct ask *ask) {
    const json_t *stop = json_get_member(get, "stop");
    if (stop && !json_is_array(stop)) {
        TRY(add_stop(get, stop, ask));
    } else if (stop) {
        const json_t *list = NULL;
        TRY(json_get_array(get, "stop", ASK_STOPS_MAX, &list));
        for (size_t i = 0; i < json_array_size(list); i++)
            TRY(add_stop(get, json_array_get(list, i), ask));
    }
    TRY(read_id_list(get, "stop_token_ids", MESSAGE_STOP_IDS_MAX, limits->n_tokens, &ask->arena,
                     &ask->sampling.stop_ids, &ask->sampling.n_stop_ids));
    TRY(json_get_bool(get, "include_stop_str_in_output", &ask->include_stop));
    TRY(json_get_bool(get, "ignore_eos", &ask->sampling.ignore_eos));
    int64_t min_new = 0;
    TRY(fields_int(get, "min_tokens", &min_new));
    ask->sampling.min_new = (uint32_t)min_new;
    if (ask->has_max_new && ask->sampling.min_new > ask->sampling.max_new)
        return json_get_fail(get, STATUS_INVALID, "min_tokens",
                             "must not be above the most tokens asked for (%u)",
                             ask->sampling.max_new);
    return STATUS_OK;
}

static enum status read_stream(const struct json_get *get, struct ask *ask) {
    TRY(json_get_bool(get, "stream", &ask->stream));
    const json_t *options = NULL;
    TRY(json_get_object(get, "stream_options", &options));
    if (options && !ask->stream)
        return json_get_fail(get, STATUS_INVALID, "stream_options",
                             "is only allowed with `stream`: true");
    if (options) {
        struct json_get inner = {options, "stream_options.", get->error};
        TRY(json_get_bool(&inner, "include_usage", &ask->include_usage));
        TRY(json_get_bool(&inner, "continuous_usage_stats", &ask->continuous_usage));
    }
    /* As in vLLM, figures in every chunk are part of asking for usage at all. */
    ask->continuous_usage = ask->continuous_usage && ask->include_usage;
    TRY(json_get_bool(get, "return_token_ids", &ask->return_token_ids));
    return json_get_bool(get, "return_tokens_as_token_ids", &ask->tokens_as_ids);
}

static enum status read_n(const struct json_get *get, struct ask *ask) {
    int64_t n = 1;
    TRY(fields_int(get, "n", &n));
    int64_t best_of = n;
    TRY(fields_int(get, "best_of", &best_of));
    if (best_of != n)
        return json_get_fail(get, STATUS_UNSUPPORTED, "best_of",
                             "is not served: it must equal `n` or be left out");
    if (n * ask->n_prompts > ASK_SEQUENCES_MAX)
        return json_get_fail(get, STATUS_INVALID, "n",
                             "times the number of prompts must be at most %d", ASK_SEQUENCES_MAX);
    ask->n_choices = (uint32_t)n;
    return STATUS_OK;
}

static enum status copy_text(const struct json_get *get, const char *name, struct ask *ask,
                             struct span *out) {
    struct span text = {0};
    TRY(json_get_text(get, name, ASK_NAME_BYTES_MAX, &text));
    if (text.n == 0)
        return STATUS_OK;
    char *copy = arena_copy(&ask->arena, text.bytes, text.n);
    if (!copy)
        return no_memory(get);
    *out = (struct span){copy, text.n};
    return STATUS_OK;
}

static enum status read_scheduling(const struct json_get *get, const struct ask_limits *limits,
                                   struct ask *ask) {
    int64_t priority = 0;
    TRY(fields_int(get, "priority", &priority));
    ask->priority = (uint32_t)(priority - INT32_MIN);
    TRY(copy_text(get, "cache_salt", ask, &ask->cache_salt));
    TRY(copy_text(get, "request_id", ask, &ask->request_name));
    TRY(json_get_bool(get, "skip_special_tokens", &ask->skip_special));
    TRY(json_get_bool(get, "add_special_tokens", &ask->add_special));
    int64_t truncate = 0;
    TRY(json_get_int(get, "truncate_prompt_tokens", 1, limits->prompt_max, &truncate));
    ask->truncate = (uint32_t)truncate;
    return STATUS_OK;
}

/* Refuses by name what is known but not served on this route, and notes what nobody knows. */
static enum status check_names(const struct json_get *get, struct ask *ask) {
    unsigned route = ask->is_chat ? FIELD_CHAT : FIELD_COMPLETIONS;
    const char *name;
    json_t *value;
    if (ask->only_tokens)
        route |= FIELD_TOKENIZE;
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
static enum status refuse_values(const struct json_get *get) {
    const json_t *format = NULL;
    TRY(json_get_object(get, "response_format", &format));
    if (format) {
        struct json_get inner = {format, "response_format.", get->error};
        struct span type = SPAN("text");
        TRY(json_get_text(&inner, "type", 64, &type));
        if (!span_is(type, "text"))
            return json_get_fail(get, STATUS_UNSUPPORTED, "response_format",
                                 "of type `%.*s` is not served; only `text` is", span_shown(type),
                                 type.bytes);
    }
    int64_t interval = 1;
    TRY(fields_int(get, "stream_interval", &interval));
    if (interval != 1)
        return json_get_fail(get, STATUS_UNSUPPORTED, "stream_interval", "must be 1 here");
    return STATUS_OK;
}

enum status fields_read(const struct json_get *get, const struct ask_limits *limits,
                        struct ask *ask) {
    TRY(check_names(get, ask));
    TRY(refuse_values(get));
    TRY(read_n(get, ask));
    TRY(read_sampling(get, limits, ask));
    TRY(read_bias(get, limits, ask));
    TRY(read_stop(get, limits, ask));
    TRY(read_stream(get, ask));
    return read_scheduling(get, limits, ask);
}
