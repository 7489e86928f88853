/* The admin port: what the engine published is what a client reads, and bad clients
 * cost nothing. */
#include "worker/admin.h"

#include "base/clock.h"
#include "base/metrics.h"
#include "tests/support/suite.h"
#include "tests/support/test_clock.h"
#include "worker/step/figures.h"
#include "worker/step/step.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char *const suite_name = "worker admin";
const double suite_timeout_s = 60;

static int connect_to(const struct admin *admin) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(admin_port(admin)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* Sends the text and reads until the other side closes. */
static void ask(const struct admin *admin, const char *text, size_t n_text, char *reply,
                size_t size) {
    size_t n = 0;
    int fd = connect_to(admin);
    ssize_t got = send(fd, text, n_text, MSG_NOSIGNAL);
    ck_assert_int_eq(got, (ssize_t)n_text);
    while (n < size - 1 && (got = recv(fd, reply + n, size - 1 - n, 0)) > 0)
        n += (size_t)got;
    reply[n] = '\0';
    close(fd);
}

static struct figures_box box;

static struct admin *open_admin(void) {
    struct admin *admin;
    struct error error;
    figures_init(&box, clock_now_ns());
    enum status status =
        admin_new("127.0.0.1:0", "w0", "some \"model\"", "nccl", &box, &admin, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    ck_assert_uint_gt(admin_port(admin), 0);
    return admin;
}

static void close_admin(struct admin *admin) {
    admin_free(admin);
    figures_fini(&box);
}

static char reply[1 << 20];

static const char *get(const struct admin *admin, const char *path) {
    char text[256];
    int n = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path);
    ask(admin, text, (size_t)n, reply, sizeof reply);
    return reply;
}

START_TEST(metrics_say_what_the_engine_published_last) {
    struct admin *admin = open_admin();
    struct figures figures = {
        .load = {.blocks_total = 77, .n_tokens = 5000, .step_us_typical = 2500},
        .chunk_tokens = 208,
        .at_ns = clock_now_ns()};
    figures_publish(&box, &figures);
    const char *text = get(admin, "/metrics");
    const char *labels = "{engine=\"w0\",model_name=\"some \\\"model\\\"\"}";
    char line[256];
    ck_assert_int_eq(strncmp(text, "HTTP/1.1 200 ", 13), 0);
    snprintf(line, sizeof line, "tandem_worker_blocks%s 77\n", labels);
    ck_assert_ptr_nonnull(strstr(text, line));
    snprintf(line, sizeof line, "tandem_worker_tokens_total%s 5000\n", labels);
    ck_assert_ptr_nonnull(strstr(text, line));
    snprintf(line, sizeof line, "tandem_worker_chunk_tokens%s 208\n", labels);
    ck_assert_ptr_nonnull(strstr(text, line));
    snprintf(line, sizeof line, "tandem_worker_step_typical_seconds%s 0.0025\n", labels);
    ck_assert_ptr_nonnull(strstr(text, line));
    snprintf(line, sizeof line, "tandem_worker_sums_info%.*s,how=\"nccl\"} 1\n",
             (int)strlen(labels) - 1, labels);
    ck_assert_ptr_nonnull(strstr(text, line));
    figures.load.n_tokens = 5003;
    figures.load.blocks_total = 76;
    figures_publish(&box, &figures);
    text = get(admin, "/metrics?x=1");
    snprintf(line, sizeof line, "tandem_worker_blocks%s 76\n", labels);
    ck_assert_ptr_nonnull(strstr(text, line));
    snprintf(line, sizeof line, "tandem_worker_tokens_total%s 5003\n", labels);
    ck_assert_ptr_nonnull(strstr(text, line));
    close_admin(admin);
}
END_TEST

START_TEST(every_answer_of_steps_ahead_is_counted_by_its_name) {
    struct admin *admin = open_admin();
    struct figures figures = {.repeats.n_dropped = 99, .at_ns = clock_now_ns()};
    char line[256];
    for (enum repeat repeat = 0; repeat < REPEAT_REASONS; repeat++)
        figures.repeats.n[repeat] = 50 + repeat;
    figures_publish(&box, &figures);
    const char *text = get(admin, "/metrics");
    for (enum repeat repeat = REPEAT_GRANTED + 1; repeat < REPEAT_REASONS; repeat++) {
        snprintf(line, sizeof line, "reason=\"%s\"} %u\n", engine_repeat_name(repeat), 50 + repeat);
        ck_assert_msg(strstr(text, line) != NULL, "%s", line);
    }
    ck_assert_ptr_nonnull(strstr(text, "tandem_worker_steps_ahead_total{engine=\"w0\""));
    ck_assert_ptr_nonnull(strstr(text, "\"} 50\n"));
    ck_assert_ptr_nonnull(strstr(text, "tandem_worker_tokens_dropped_total{engine=\"w0\""));
    ck_assert_ptr_nonnull(strstr(text, "\"} 99\n"));
    close_admin(admin);
}
END_TEST

START_TEST(every_stage_of_a_step_has_its_time) {
    struct admin *admin = open_admin();
    char line[256];
    for (unsigned i = 0; i < STEP_STAGES; i++) {
        metric_observe(admin_stage(admin, i), 0.125);
        metric_observe(admin_stage(admin, i), 0.5 * i);
    }
    const char *text = get(admin, "/metrics");
    for (unsigned i = 0; i < STEP_STAGES; i++) {
        snprintf(line, sizeof line,
                 "tandem_step_seconds_count{engine=\"w0\",model_name=\"some "
                 "\\\"model\\\"\",stage=\"%s\"} 2\n",
                 step_stage(i));
        ck_assert_msg(strstr(text, line) != NULL, "%s", line);
        snprintf(line, sizeof line, "stage=\"%s\"} %g\n", step_stage(i), 0.125 + 0.5 * i);
        ck_assert_msg(strstr(text, line) != NULL, "%s", line);
    }
    ck_assert_ptr_null(admin_stage(NULL, 0));
    close_admin(admin);
}
END_TEST

START_TEST(tokens_of_steps_are_counted_under_vllms_name) {
    struct admin *admin = open_admin();
    metric_observe(admin_step_tokens(admin), 9);
    metric_observe(admin_step_tokens(admin), 300);
    const char *text = get(admin, "/metrics");
    const char *of = "engine=\"w0\",model_name=\"some \\\"model\\\"\"";
    static const struct {
        const char *name, *rest;
    } rows[] = {{"bucket", ",le=\"8\"} 0\n"},
                {"bucket", ",le=\"16\"} 1\n"},
                {"bucket", ",le=\"512\"} 2\n"},
                {"sum", "} 309\n"}};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        char line[256];
        snprintf(line, sizeof line, "vllm:iteration_tokens_total_%s{%s%s", rows[i].name, of,
                 rows[i].rest);
        ck_assert_msg(strstr(text, line) != NULL, "%s", line);
    }
    ck_assert_ptr_null(admin_step_tokens(NULL));
    close_admin(admin);
}
END_TEST

START_TEST(health_follows_the_engine) {
    test_clock_stop();
    struct admin *admin = open_admin();
    struct figures figures = {.at_ns = clock_now_ns()};
    figures_publish(&box, &figures);
    ck_assert_ptr_nonnull(strstr(get(admin, "/livez"), " 200 "));
    ck_assert_ptr_nonnull(strstr(get(admin, "/readyz"), " 200 "));
    figures.draining = true;
    figures_publish(&box, &figures);
    ck_assert_ptr_nonnull(strstr(get(admin, "/livez"), " 200 "));
    ck_assert_ptr_nonnull(strstr(get(admin, "/readyz"), " 503 "));
    figures.at_ns -= 60 * NS_PER_S; /* silent for a minute */
    figures_publish(&box, &figures);
    ck_assert_ptr_nonnull(strstr(get(admin, "/livez"), " 503 "));
    ck_assert_ptr_nonnull(strstr(get(admin, "/else"), " 404 "));
    close_admin(admin);
}
END_TEST

START_TEST(long_odd_and_many_clients_are_bounded) {
    static char noise[8000];
    enum { N = 40 };
    int fds[N];
    struct admin *admin = open_admin();
    memset(noise, 'A', sizeof noise);
    int fd = connect_to(admin);
    for (int i = 0; i < 3; i++) /* never an end of the head: refused at 8 KiB */
        (void)!send(fd, noise, sizeof noise, MSG_NOSIGNAL);
    char text[64] = "";
    ssize_t n = recv(fd, text, sizeof text - 1, 0);
    ck_assert(n < 0 || n == 0 || strstr(text, "431"));
    close(fd);
    static const char post[] = "POST / HTTP/1.1\r\nHost: a\r\n\r\n";
    ask(admin, post, sizeof post - 1, reply, sizeof reply);
    ck_assert_ptr_nonnull(strstr(reply, " 404 "));
    static const char no_host[] = "GET /livez HTTP/1.1\r\n\r\n"; /* RFC 9112, 3.2 */
    ask(admin, no_host, sizeof no_host - 1, reply, sizeof reply);
    ck_assert_ptr_nonnull(strstr(reply, " 400 "));
    for (int i = 0; i < N; i++) /* more than may be there at once, all silent */
        fds[i] = connect_to(admin);
    for (int i = 0; i < N; i++)
        close(fds[i]);
    close_admin(admin);
}
END_TEST

START_TEST(without_an_address_there_is_no_port_and_a_bad_one_is_refused) {
    struct admin *admin;
    struct error error;
    ck_assert_int_eq(admin_new("", "w0", "m", "", &box, &admin, &error), STATUS_OK);
    ck_assert_ptr_null(admin);
    admin_free(admin);
    ck_assert_int_ne(admin_new("127.0.0.1:notaport", "w0", "m", "", &box, &admin, &error),
                     STATUS_OK);
    ck_assert_ptr_nonnull(strstr(error.text, "admin"));
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, metrics_say_what_the_engine_published_last);
    tcase_add_test(tests, every_answer_of_steps_ahead_is_counted_by_its_name);
    tcase_add_test(tests, every_stage_of_a_step_has_its_time);
    tcase_add_test(tests, tokens_of_steps_are_counted_under_vllms_name);
    tcase_add_test(tests, health_follows_the_engine);
    tcase_add_test(tests, long_odd_and_many_clients_are_bounded);
    tcase_add_test(tests, without_an_address_there_is_no_port_and_a_bad_one_is_refused);
}
