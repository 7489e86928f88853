#include "tests/support/message_random.h"

#include "base/assert.h"
#include "proto/field.h"

#include <string.h>

/* Bytes of lists and arrays in one body, so that it fits its frame however the counts fall: on the
 * wire nothing takes a third more than in our structs. */
#define BUDGET_BYTES (MESSAGE_CONTROL_MAX * 3 / 4)

struct maker {
    struct random *random;
    struct arena *arena;
    size_t budget;  /* of BUDGET_BYTES, what is left */
    size_t raw_max; /* bytes of the type's raw frame */
};

static uint32_t below(struct random *random, uint32_t n) {
    return (uint32_t)random_below(random, n);
}

/* Small, zero and extreme numbers all happen. */
static uint32_t any_u32(struct random *random) {
    uint32_t bits = (uint32_t)random_next(random);
    switch (below(random, 4)) {
    case 0:
        return 0;
    case 1:
        return bits & 127;
    case 2:
        return UINT32_MAX;
    default:
        return bits;
    }
}

static uint64_t any_u64(struct random *random) {
    return below(random, 2) ? random_next(random) : any_u32(random);
}

/* Mostly small, now and then the bound. */
static uint32_t count(struct random *random, uint32_t max) {
    uint32_t kind = below(random, 64);
    if (kind == 0)
        return max;
    return kind < 16 || max == 0 ? 0 : 1 + below(random, max < 12 ? max : 12);
}

static float number(struct random *random) {
    return (float)below(random, 4000) / 1000.0f - 2.0f;
}

static void text(struct random *random, char *to, size_t size) {
    size_t n = below(random, 16) == 0 ? size - 1 : 1 + below(random, size < 14 ? 1 : 12);
    for (size_t i = 0; i < n; i++)
        to[i] = (char)('a' + below(random, 26));
    to[n] = '\0';
}

static void bytes(struct random *random, uint8_t *to, size_t n) {
    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t)random_next(random);
}

static struct request_id request(struct random *random) {
    return (struct request_id){random_next(random), 1 + any_u32(random)};
}

static void *array(struct maker *maker, size_t n, size_t size) {
    void *memory = arena_alloc(maker->arena, n * size + 1);
    ASSERT(memory);
    return memory;
}

/* A count of things of `size` bytes that the budget still pays for. */
static uint32_t count_paid(struct maker *maker, uint32_t max, size_t size) {
    size_t most = maker->budget / size;
    uint32_t n = count(maker->random, most < max ? (uint32_t)most : max);
    maker->budget -= n * size;
    return n;
}

static void *ids(struct maker *maker, uint32_t n) {
    uint32_t *made = array(maker, n, sizeof *made);
    for (uint32_t i = 0; i < n; i++)
        made[i] = any_u32(maker->random);
    return made;
}

static void *blob(struct maker *maker, uint32_t n) {
    uint8_t *made = array(maker, n, 1);
    bytes(maker->random, made, n);
    return made;
}

static void *numbers(struct maker *maker, uint32_t n) {
    float *made = array(maker, n, sizeof *made);
    for (uint32_t i = 0; i < n; i++)
        made[i] = number(maker->random);
    return made;
}

static void logprobs(struct random *random, struct token_logprobs *to) {
    to->logprob = number(random);
    to->n_top = count(random, MESSAGE_TOP_MAX);
    for (uint32_t i = 0; i < to->n_top; i++) {
        to->top_ids[i] = any_u32(random);
        to->top_logprobs[i] = number(random);
    }
}

/* One for each token, or NULL. */
static struct token_logprobs *all_logprobs(struct maker *maker, uint32_t n) {
    if (n == 0 || n > maker->budget / sizeof(struct token_logprobs) || below(maker->random, 2))
        return NULL;
    maker->budget -= n * sizeof(struct token_logprobs);
    struct token_logprobs *made = array(maker, n, sizeof *made);
    for (uint32_t i = 0; i < n; i++)
        logprobs(maker->random, &made[i]);
    return made;
}

/* The raw frame and its count; a payload may be absent. */
static const void *raw(struct maker *maker, const struct field *field, uint32_t *n) {
    *n = count(maker->random, (uint32_t)(maker->raw_max / field->bound));
    if (field->kind == FIELD_PAYLOAD && (*n == 0 || below(maker->random, 4) == 0))
        return NULL;
    uint8_t *made = array(maker, *n, field->bound);
    bytes(maker->random, made, (size_t)*n * field->bound);
    return made;
}

static void fill(struct maker *maker, const struct shape *shape, void *ours);

static void *list(struct maker *maker, const struct shape *shape, uint32_t n) {
    char *made = array(maker, n, shape->n_bytes);
    for (uint32_t i = 0; i < n; i++)
        fill(maker, shape, made + i * shape->n_bytes);
    return made;
}

static void fill_field(struct maker *maker, const struct field *field, void *ours) {
    struct random *random = maker->random;
    void *to = field_slot(ours, field->ours);
    uint32_t *n = field_slot(ours, field->ours_n);
    bool *has = field_slot(ours, field->ours_n);
    switch (field->kind) {
    case FIELD_U32:
        *(uint32_t *)to = any_u32(random);
        return;
    case FIELD_U64:
        *(uint64_t *)to = any_u64(random);
        return;
    case FIELD_FLOAT:
        *(float *)to = number(random);
        return;
    case FIELD_BOOL:
        *(bool *)to = below(random, 2) != 0;
        return;
    case FIELD_COUNT:
        *(uint32_t *)to = below(random, field->bound + 1);
        return;
    case FIELD_ENUM:
    case FIELD_LENIENT:
        *(uint32_t *)to = below(random, field->bound);
        return;
    case FIELD_TEXT:
        text(random, to, field->bound);
        return;
    case FIELD_BYTES:
        bytes(random, to, field->bound);
        return;
    case FIELD_DATA:
        *n = count(random, field->bound);
        bytes(random, to, *n);
        return;
    case FIELD_BLOB:
        *n = count_paid(maker, field->bound, 1);
        field_point(to, blob(maker, *n));
        return;
    case FIELD_REQUEST:
        *(struct request_id *)to = request(random);
        return;
    case FIELD_NESTED:
        fill(maker, field->shape(), to);
        return;
    case FIELD_OPTIONAL:
        *has = below(random, 2) != 0;
        if (*has)
            fill(maker, field->shape(), to);
        return;
    case FIELD_LIST:
    case FIELD_STEP_ENTRIES:
        *n = count_paid(maker, field->bound, field->shape()->n_bytes);
        field_point(to, list(maker, field->shape(), *n));
        return;
    case FIELD_U32S:
        *n = count_paid(maker, field->bound, sizeof(uint32_t));
        field_point(to, ids(maker, *n));
        return;
    case FIELD_FLOATS:
        field_point(to, numbers(maker, *n));
        return;
    case FIELD_LOGPROBS:
        field_point(to, all_logprobs(maker, *n));
        return;
    case FIELD_LOGPROB:
        *has = below(random, 2) != 0;
        if (*has)
            logprobs(random, to);
        return;
    case FIELD_RAW:
    case FIELD_PAYLOAD:
        field_point(to, raw(maker, field, n));
        return;
    case FIELD_SEND_RULE:
    case FIELD_READ_RULE:
        return;
    }
}

static void fill(struct maker *maker, const struct shape *shape, void *ours) {
    for (size_t i = 0; i < shape->n_fields; i++)
        fill_field(maker, &shape->fields[i], ours);
}

/* What the rules between fields ask. */
static void settle(struct random *random, struct message *message) {
    struct chunk *chunk = &message->u.chunk;
    switch (message->type) {
    case MESSAGE_SUBMIT:
        message->u.submit.n_prompt = below(random, message->u.submit.n_tokens + 1);
        break;
    case MESSAGE_STEP:
        for (uint32_t i = 0; i < message->u.step.n; i++)
            message->u.step.entries[i].first_index = below(random, 1u << 20);
        break;
    case MESSAGE_CHUNK:
        chunk->layer_begin = below(random, 100);
        chunk->layer_end = chunk->layer_begin + 1 + below(random, 100);
        chunk->block_begin = below(random, 100);
        chunk->block_end = chunk->block_begin + 1 + below(random, 100);
        break;
    default:
        break;
    }
}

void message_random(struct random *random, struct arena *arena, enum message_type type,
                    struct message *message) {
    struct maker maker = {random, arena, BUDGET_BYTES, message_raw_max(type)};
    memset(message, 0, sizeof *message);
    message->type = type;
    message->session = any_u64(random);
    message->seq = any_u64(random);
    fill(&maker, message_shape(type), &message->u);
    settle(random, message);
}

static bool same(const void *a, const void *b, size_t n) {
    return n == 0 || memcmp(a, b, n) == 0;
}

static bool logprobs_equal(const struct token_logprobs *a, const struct token_logprobs *b,
                           uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (a[i].logprob != b[i].logprob || a[i].n_top != b[i].n_top ||
            !same(a[i].top_ids, b[i].top_ids, a[i].n_top * sizeof *a->top_ids) ||
            !same(a[i].top_logprobs, b[i].top_logprobs, a[i].n_top * sizeof *a->top_logprobs))
            return false;
    return true;
}

static bool shape_equal(const struct shape *shape, const void *a, const void *b);

static bool list_equal(const struct shape *shape, const char *a, const char *b, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (!shape_equal(shape, a + i * shape->n_bytes, b + i * shape->n_bytes))
            return false;
    return true;
}

/* Of two arrays behind pointers, each absent or n elements long. */
static bool arrays_equal(const void *a, const void *b, size_t n_bytes) {
    const void *x = field_pointer(a);
    const void *y = field_pointer(b);
    return n_bytes == 0 || (x && y ? same(x, y, n_bytes) : x == y);
}

static bool field_equal(const struct field *field, const void *ours_a, const void *ours_b) {
    const void *a = field_at(ours_a, field->ours);
    const void *b = field_at(ours_b, field->ours);
    const uint32_t *n = field_at(ours_a, field->ours_n);
    const uint32_t *n_b = field_at(ours_b, field->ours_n);
    const bool *has = field_at(ours_a, field->ours_n);
    const bool *has_b = field_at(ours_b, field->ours_n);
    switch (field->kind) {
    case FIELD_U32:
    case FIELD_COUNT:
    case FIELD_ENUM:
    case FIELD_LENIENT:
        return *(const uint32_t *)a == *(const uint32_t *)b;
    case FIELD_U64:
        return *(const uint64_t *)a == *(const uint64_t *)b;
    case FIELD_FLOAT:
        return *(const float *)a == *(const float *)b;
    case FIELD_BOOL:
        return *(const bool *)a == *(const bool *)b;
    case FIELD_TEXT:
        return strcmp(a, b) == 0;
    case FIELD_BYTES:
        return same(a, b, field->bound);
    case FIELD_DATA:
        return *n == *n_b && same(a, b, *n);
    case FIELD_BLOB:
        return *n == *n_b && arrays_equal(a, b, *n);
    case FIELD_REQUEST:
        return request_id_equal(*(const struct request_id *)a, *(const struct request_id *)b);
    case FIELD_NESTED:
        return shape_equal(field->shape(), a, b);
    case FIELD_OPTIONAL:
        return *has == *has_b && (!*has || shape_equal(field->shape(), a, b));
    case FIELD_LIST:
    case FIELD_STEP_ENTRIES:
        return *n == *n_b && list_equal(field->shape(), field_pointer(a), field_pointer(b), *n);
    case FIELD_U32S:
    case FIELD_FLOATS:
        return *n == *n_b && arrays_equal(a, b, *n * sizeof(uint32_t));
    case FIELD_LOGPROBS:
        if (!field_pointer(a) || !field_pointer(b))
            return field_pointer(a) == field_pointer(b);
        return *n == *n_b && logprobs_equal(field_pointer(a), field_pointer(b), *n);
    case FIELD_LOGPROB:
        return *has == *has_b && (!*has || logprobs_equal(a, b, 1));
    case FIELD_RAW:
    case FIELD_PAYLOAD:
        return *n == *n_b && arrays_equal(a, b, (size_t)*n * field->bound);
    case FIELD_SEND_RULE:
    case FIELD_READ_RULE:
        return true;
    }
    return false;
}

static bool shape_equal(const struct shape *shape, const void *a, const void *b) {
    for (size_t i = 0; i < shape->n_fields; i++)
        if (!field_equal(&shape->fields[i], a, b))
            return false;
    return true;
}

bool message_equal(const struct message *a, const struct message *b) {
    return a->type == b->type && a->session == b->session && a->seq == b->seq &&
           shape_equal(message_shape(a->type), &a->u, &b->u);
}
