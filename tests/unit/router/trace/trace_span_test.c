/* The bytes of spans, and the queue that holds them. */
#include "base/buf.h"
#include "router/trace/trace_queue.h"
#include "router/trace/trace_span.h"
#include "tests/support/suite.h"

#include "otlp.pb-c.h"

#include <stdlib.h>
#include <string.h>

const char *const suite_name = "router_trace_span";
const double suite_timeout_s = 60;

static const struct trace_resource resource = {"tandem-router", "1.2", "", "h"};

static struct trace_span small_span(void) {
    return (struct trace_span){
        .trace = {.trace_id = {1, [15] = 2}, .span_id = {3, [7] = 4}, .flags = 1},
        .name = "chat m",
        .start_ns = 1000,
        .end_ns = 3000};
}

static Otlp__Span *packed(const struct trace_span *span) {
    struct buf bytes;
    buf_init(&bytes, 0);
    ck_assert_int_eq(trace_span_pack(span, &bytes), STATUS_OK);
    Otlp__Span *read = otlp__span__unpack(NULL, bytes.n, (const uint8_t *)bytes.data);
    ck_assert_ptr_nonnull(read);
    buf_fini(&bytes);
    return read;
}

static void expect_bytes(const ProtobufCBinaryData *bytes, const char *text) {
    ck_assert_uint_eq(bytes->len, strlen(text));
    if (bytes->len > 0)
        ck_assert_mem_eq(bytes->data, text, bytes->len);
}

/* As opentelemetry-proto of PyPI writes the same span. */
START_TEST(a_span_has_the_bytes_of_the_public_definition) {
    static const char *const finishes[] = {"stop", "length"};
    static const uint8_t golden[] = {
        0x0a, 0x10, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x02, 0x12, 0x08, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x1a, 0x03,
        0x61, 0x3d, 0x62, 0x22, 0x08, 0x09, 0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x2a, 0x06,
        0x63, 0x68, 0x61, 0x74, 0x20, 0x6d, 0x30, 0x02, 0x39, 0xe8, 0x03, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x41, 0xb8, 0x0b, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x4a, 0x08, 0x0a, 0x01,
        0x74, 0x12, 0x03, 0x0a, 0x01, 0x78, 0x4a, 0x10, 0x0a, 0x01, 0x6e, 0x12, 0x0b, 0x18, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x4a, 0x0e, 0x0a, 0x01, 0x72, 0x12,
        0x09, 0x21, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xe0, 0x3f, 0x4a, 0x19, 0x0a, 0x01, 0x6c,
        0x12, 0x14, 0x2a, 0x12, 0x0a, 0x06, 0x0a, 0x04, 0x73, 0x74, 0x6f, 0x70, 0x0a, 0x08, 0x0a,
        0x06, 0x6c, 0x65, 0x6e, 0x67, 0x74, 0x68, 0x5a, 0x10, 0x09, 0xe8, 0x03, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x12, 0x05, 0x70, 0x61, 0x72, 0x73, 0x65, 0x5a, 0x0f, 0x09, 0xb8, 0x0b,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x12, 0x04, 0x6c, 0x61, 0x74, 0x65, 0x7a, 0x06, 0x12,
        0x02, 0x6e, 0x6f, 0x18, 0x02, 0x85, 0x01, 0x01, 0x03, 0x00, 0x00};
    struct trace_span span = small_span();
    struct buf bytes;
    span.has_parent = true;
    memcpy(span.parent_id, (uint8_t[8]){9, 9}, 8);
    span.state = "a=b";
    trace_span_text(&span, "t", "x");
    trace_span_text(&span, "left out", "");
    trace_span_text(&span, "left out", NULL);
    trace_span_number(&span, "n", -1);
    trace_span_real(&span, "r", 0.5);
    trace_span_texts(&span, "l", finishes, 2);
    trace_span_event(&span, "parse", 1000);
    trace_span_event(&span, "late", 3001);
    span.error = "no";
    buf_init(&bytes, 0);
    ck_assert_int_eq(trace_span_pack(&span, &bytes), STATUS_OK);
    ck_assert_uint_eq(bytes.n, sizeof golden);
    ck_assert_mem_eq(bytes.data, golden, sizeof golden);
    buf_fini(&bytes);
}
END_TEST

START_TEST(a_span_without_more_says_no_more) {
    struct trace_span span = small_span();
    Otlp__Span *read = packed(&span);
    ck_assert_uint_eq(read->parent_span_id.len, 0);
    ck_assert_uint_eq(read->trace_state.len, 0);
    ck_assert_ptr_null(read->status);
    ck_assert_uint_eq(read->flags, 0x101);
    ck_assert_uint_eq(read->n_attributes + read->n_events, 0);
    otlp__span__free_unpacked(read, NULL);
}
END_TEST

/* One text that is none would make a collector refuse all that comes with it. */
START_TEST(texts_are_valid_and_bounded) {
    char text[TRACE_TEXT_BYTES + 3];
    struct trace_span span = small_span();
    span.error = "a\xff\xc3\xa9\xc3";
    memset(text, 'a', sizeof text);
    text[TRACE_TEXT_BYTES] = 0;
    trace_span_text(&span, "just", text);
    char longer[sizeof text];
    memset(longer, 'b', sizeof longer);
    longer[TRACE_TEXT_BYTES + 1] = 0;
    trace_span_text(&span, "longer", longer);
    char cut[sizeof text]; /* a character across the bound is left out whole */
    memset(cut, 'c', sizeof cut);
    memcpy(cut + TRACE_TEXT_BYTES - 1, "\xc3\xa9", 3);
    trace_span_text(&span, "cut", cut);
    Otlp__Span *read = packed(&span);
    expect_bytes(&read->status->message, "a?\xc3\xa9?");
    expect_bytes(&read->attributes[0]->value->string_value, text);
    longer[TRACE_TEXT_BYTES] = 0;
    expect_bytes(&read->attributes[1]->value->string_value, longer);
    cut[TRACE_TEXT_BYTES - 1] = 0;
    expect_bytes(&read->attributes[2]->value->string_value, cut);
    otlp__span__free_unpacked(read, NULL);
}
END_TEST

START_TEST(lists_of_texts_are_bounded) {
    const char *texts[TRACE_TEXTS_MAX + 1];
    for (unsigned i = 0; i <= TRACE_TEXTS_MAX; i++)
        texts[i] = "stop";
    struct trace_span span = small_span();
    trace_span_texts(&span, "l", texts, TRACE_TEXTS_MAX);
    trace_span_texts(&span, "m", texts, TRACE_TEXTS_MAX + 1);
    Otlp__Span *read = packed(&span);
    for (unsigned i = 0; i < 2; i++)
        ck_assert_uint_eq(read->attributes[i]->value->array_value->n_values, TRACE_TEXTS_MAX);
    otlp__span__free_unpacked(read, NULL);
}
END_TEST

/* --- the queue ------------------------------------------------------------------------------- */

static uint32_t take(struct trace_queue *queue, Otlp__ExportTraceServiceRequest **request) {
    struct buf out;
    uint32_t n = 0;
    buf_init(&out, 0);
    ck_assert_int_eq(trace_queue_take(queue, &resource, &out, &n), STATUS_OK);
    *request = otlp__export_trace_service_request__unpack(NULL, out.n, (const uint8_t *)out.data);
    ck_assert_ptr_nonnull(*request);
    ck_assert_uint_eq((*request)->resource_spans[0]->scope_spans[0]->n_spans, n);
    buf_fini(&out);
    return n;
}

START_TEST(spans_leave_in_their_order_with_their_resource) {
    struct trace_queue queue;
    Otlp__ExportTraceServiceRequest *request;
    trace_queue_init(&queue);
    for (unsigned i = 0; i < 3; i++) {
        struct trace_span span = small_span();
        span.start_ns = i;
        ck_assert_int_eq(trace_queue_add(&queue, &span), STATUS_OK);
    }
    ck_assert_uint_eq(take(&queue, &request), 3);
    ck_assert_uint_eq(queue.n + queue.n_bytes, 0);
    const Otlp__ResourceSpans *all = request->resource_spans[0];
    ck_assert_uint_eq(all->resource->n_attributes, 3); /* "" is left out */
    expect_bytes(&all->resource->attributes[0]->key, "service.name");
    expect_bytes(&all->resource->attributes[0]->value->string_value, "tandem-router");
    expect_bytes(&all->resource->attributes[1]->key, "service.version");
    expect_bytes(&all->resource->attributes[2]->key, "host.name");
    expect_bytes(&all->scope_spans[0]->scope->name, "tandem-router");
    for (unsigned i = 0; i < 3; i++) {
        ProtobufCBinaryData bytes = all->scope_spans[0]->spans[i];
        Otlp__Span *span = otlp__span__unpack(NULL, bytes.len, bytes.data);
        ck_assert_uint_eq(span->start_time_unix_nano, i);
        otlp__span__free_unpacked(span, NULL);
    }
    otlp__export_trace_service_request__free_unpacked(request, NULL);
    trace_queue_fini(&queue);
}
END_TEST

START_TEST(the_queue_and_a_batch_are_bounded_by_number) {
    struct trace_queue queue;
    struct trace_span span = small_span();
    Otlp__ExportTraceServiceRequest *request;
    trace_queue_init(&queue);
    for (unsigned i = 0; i < TRACE_QUEUE_SPANS; i++)
        ck_assert_int_eq(trace_queue_add(&queue, &span), STATUS_OK);
    ck_assert_int_eq(trace_queue_add(&queue, &span), STATUS_BUSY);
    ck_assert_uint_eq(queue.n, TRACE_QUEUE_SPANS);
    ck_assert_uint_eq(take(&queue, &request), TRACE_BATCH_SPANS);
    otlp__export_trace_service_request__free_unpacked(request, NULL);
    ck_assert_uint_eq(queue.n, TRACE_QUEUE_SPANS - TRACE_BATCH_SPANS);
    ck_assert_int_eq(trace_queue_add(&queue, &span), STATUS_OK);
    trace_queue_fini(&queue);
}
END_TEST

/* A span of n texts of a KiB each: n times 1032 bytes and what all spans have. */
static struct trace_span large_span(unsigned n) {
    static char text[TRACE_TEXT_BYTES + 1];
    struct trace_span span = small_span();
    memset(text, 'a', TRACE_TEXT_BYTES);
    for (unsigned i = 0; i < n; i++)
        trace_span_text(&span, "k", text);
    return span;
}

START_TEST(the_queue_and_a_batch_are_bounded_by_bytes) {
    struct trace_queue queue;
    struct trace_span large = large_span(32), tiny = small_span();
    Otlp__ExportTraceServiceRequest *request;
    trace_queue_init(&queue);
    ck_assert_int_eq(trace_queue_add(&queue, &large), STATUS_OK);
    size_t n_bytes = queue.n_bytes, n = 1;
    while (trace_queue_add(&queue, &large) == STATUS_OK)
        n++;
    ck_assert_uint_eq(n, TRACE_QUEUE_BYTES / n_bytes);
    ck_assert_uint_eq(queue.n_bytes, n * n_bytes);
    ck_assert_int_eq(trace_queue_add(&queue, &tiny), STATUS_OK); /* for which there is room */
    ck_assert_uint_eq(take(&queue, &request), TRACE_BATCH_BYTES / n_bytes);
    otlp__export_trace_service_request__free_unpacked(request, NULL);
    trace_queue_fini(&queue);
}
END_TEST

static uint64_t rejected(const void *bytes, size_t n, const char *wanted) {
    char why[8] = "before";
    uint64_t n_rejected = trace_queue_read_answer(bytes, n, why, sizeof why);
    ck_assert_str_eq(why, wanted);
    return n_rejected;
}

START_TEST(a_collectors_answer_says_what_it_rejects) {
    static const uint8_t none[] = {0}, three[] = {0x0a, 2, 8, 3},
                         said[] = {0x0a, 9, 8, 3, 0x12, 5, 'n', 'a', 'm', 'e', 's'},
                         longer[] = {0x0a, 12,  8,   3,   0x12, 8,   'n',
                                     'a',  'm', 'e', 's', ' ',  'o', 'n'},
                         less[] = {0x0a, 11, 8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1};
    ck_assert_uint_eq(rejected(none, 0, ""), 0);
    ck_assert_uint_eq(rejected(none, 1, ""), 0); /* no message at all */
    ck_assert_uint_eq(rejected(three, sizeof three, ""), 3);
    ck_assert_uint_eq(rejected(three, sizeof three - 1, ""), 0);
    ck_assert_uint_eq(rejected(said, sizeof said, "names"), 3);
    ck_assert_uint_eq(rejected(longer, sizeof longer, "names o"), 3);
    ck_assert_uint_eq(rejected(less, sizeof less, ""), 0);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_span_has_the_bytes_of_the_public_definition);
    tcase_add_test(tests, a_span_without_more_says_no_more);
    tcase_add_test(tests, texts_are_valid_and_bounded);
    tcase_add_test(tests, lists_of_texts_are_bounded);
    tcase_add_test(tests, spans_leave_in_their_order_with_their_resource);
    tcase_add_test(tests, the_queue_and_a_batch_are_bounded_by_number);
    tcase_add_test(tests, the_queue_and_a_batch_are_bounded_by_bytes);
    tcase_add_test(tests, a_collectors_answer_says_what_it_rejects);
}
