#include "tests/support/suite.h"

#include "base/buf.h"
#include "tools/bench/output.h"
#include "tools/bench/texts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const suite_name = "bench_files";
const double suite_timeout_s = 60;

static char folder[] = "/tmp/bench_files_XXXXXX";
static char path[sizeof folder + 16];

static void begin(void) {
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
}

static void end(void) {
    unlink(path);
    rmdir(folder);
    memcpy(folder + sizeof folder - 7, "XXXXXX", 6);
}

static void put(const char *bytes, size_t n) {
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, n, file), n);
    fclose(file);
}

static void get(struct buf *text) {
    char bytes[256];
    FILE *file = fopen(path, "r");
    buf_init(text, 0);
    buf_append(text, "", 0);
    ck_assert_ptr_nonnull(file);
    buf_append(text, bytes, fread(bytes, 1, sizeof bytes, file));
    fclose(file);
}

#define MARK "\xef\xbb\xbf"
#define ONE                                                                                        \
    "{\"conversations\": [{\"from\": \"human\", \"value\": \"how are you\"},"                      \
    " {\"from\": \"gpt\", \"value\": \"well\"}]}"
#define TWO "{\"messages\": [{\"role\":\"user\",\"content\":\"and you\"},{\"role\":\"assistant\"}]}"

static const struct {
    const char *text;
    const char *found; /* the texts, a bar behind each; or what the error says behind the path */
    bool is_error;
} texts[] = {
    {"[" ONE ", " TWO "]", "how are you|and you|", false},
    {MARK "[" ONE "]", "how are you|", false},
    {MARK " \r\n\t[" ONE "]\n", "how are you|", false},
    {"[" ONE
     ", {\"id\": 1000000000000000000000000000000, \"conversations\": [{\"value\": \"a\"}, 1]}]",
     "how are you|a|", false},
    {ONE "\n" TWO "\n", "how are you|and you|", false},
    {"\n" ONE "\r\n\r\n" TWO, "how are you|and you|", false},
    {TWO, "and you|", false},
    {"{\n\"messages\": [{\"content\": \"x\"},\n {}]}", "x|", false},
    {"[{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", "
     "\"content\": "
     "[{\"type\": \"text\", \"text\": \"parts\"}]}, {}]}]",
     "parts|", false},
    {"[{\"messages\": [{\"content\": [{\"type\": \"image\"}, 1, {\"type\": \"text\", \"text\": "
     "\"seen\"}, "
     "{\"text\": \"no\"}]}, {}]}]",
     "seen|", false},
    {"[[{\"role\": \"user\", \"content\": \"list\"}, {}], null, 1, {}, \"x\"]", "list|", false},
    {"[{\"conversations\": [{\"value\": \"alone\"}]}, " ONE
     ", {\"conversations\": [{\"value\": \" \"}, 1]}, "
     "{\"conversations\": [{\"value\": \"a\\u0000b\"}, 1]}]",
     "how are you|", false},
    {"how are {you}\n[1]", "how are {you}\n[1]|", false},
    {MARK "plain", "plain|", false},
    {MARK MARK "[1]", MARK "[1]|", false},
    {"[" ONE ", {\"conver", ": line 1, column ", true},
    {"[\n" ONE ",\n{\"a\": tru}]", ": line 3, column ", true},
    {"[{\"conversations\": [{\"value\": \"\\ud83d\"}, {}]}]", ": line 1, column ", true},
    {ONE "\n" ONE "\n{\"conv\n", ": line 3, column ", true},
    {"[Verse 1]\nla la", ": line 1, column 6: ", true},
    {"{name}, hello", ": line 1, column 5: ", true},
    {"[]", ": no conversation with two turns: looked for \"conversations\"", true},
    {"{\"turns\": []}", ": no conversation with two turns: looked for", true},
    {"[{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"content\": \"u\"}]}]",
     ": no conversation with two turns", true},
    {"", ": contains no words", true},
    {MARK " \n", ": contains no words", true},
};

START_TEST(a_text_that_begins_as_json_is_json_or_an_error_with_its_place) {
    char **found = NULL;
    uint32_t n_found = 0;
    struct error error = {0};
    struct buf all;
    put(texts[_i].text, strlen(texts[_i].text));
    enum status status = texts_read(path, &found, &n_found, &error);
    ck_assert_msg((status != STATUS_OK) == texts[_i].is_error, "%d: %s", _i, error.text);
    if (texts[_i].is_error) {
        ck_assert_ptr_eq(strstr(error.text, path), error.text);
        ck_assert_msg(strstr(error.text, texts[_i].found) == error.text + strlen(path), "%s",
                      error.text);
    } else {
        buf_init(&all, 0);
        for (uint32_t i = 0; i < n_found; i++)
            buf_printf(&all, "%s|", found[i]);
        ck_assert_str_eq(all.data, texts[_i].found);
        buf_fini(&all);
    }
    texts_free(found, n_found);
}
END_TEST

/* More conversations than the list has places at first, in more bytes than are read at once. */
START_TEST(a_long_file_is_read_whole) {
    enum { N = 2000 };
    char **found = NULL, wanted[16];
    uint32_t n_found = 0;
    struct error error = {0};
    struct buf all;
    buf_init(&all, 0);
    for (unsigned i = 0; i < N; i++)
        buf_printf(&all, "{\"conversations\": [{\"value\": \"text %u\"}, {}]}\n", i);
    ck_assert_uint_gt(all.n, 65536);
    put(all.data, all.n);
    buf_fini(&all);
    ck_assert_msg(texts_read(path, &found, &n_found, &error) == STATUS_OK, "%s", error.text);
    ck_assert_uint_eq(n_found, N);
    for (unsigned i = 0; i < N; i++) {
        snprintf(wanted, sizeof wanted, "text %u", i);
        ck_assert_str_eq(found[i], wanted);
    }
    texts_free(found, n_found);
}
END_TEST

START_TEST(a_text_with_nuls_is_none) {
    static const char wide[] = "\xff\xfe"
                               "a\0b\0";
    char **found = NULL;
    uint32_t n_found = 0;
    struct error error;
    put(wide, sizeof wide - 1);
    ck_assert_int_eq(texts_read(path, &found, &n_found, &error), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "NUL bytes"));
    unlink(path);
    ck_assert_int_eq(texts_read(path, &found, &n_found, &error), STATUS_IO);
}
END_TEST

/* As texts, so traces: a mark at the begin, numbers of any length in what nobody reads, and where a line is wrong. */
START_TEST(a_trace_is_read_as_texts_are) {
    struct trace_line *lines = NULL;
    uint32_t n_lines = 0;
    struct error error = {0};
    static const char good[] =
        MARK "{\"timestamp\": 1, \"input_length\": 2, \"output_length\": 3, "
             "\"id\": 100000000000000000000000000}\r\n"
             "{\"timestamp\": 2, \"input_length\": 2, \"output_length\": 3}\n";
    put(good, sizeof good - 1);
    ck_assert_msg(trace_read(path, &lines, &n_lines, &error) == STATUS_OK, "%s", error.text);
    ck_assert_uint_eq(n_lines, 2);
    trace_free(lines, n_lines);
    static const char bad[] =
        "{\"timestamp\": 1, \"input_length\": 2, \"output_length\": 3}\n{\"a\": x}\n";
    put(bad, sizeof bad - 1);
    ck_assert_int_eq(trace_read(path, &lines, &n_lines, &error), STATUS_CORRUPT);
    ck_assert_msg(strstr(error.text, ": line 2, column 7: ") != NULL, "%s", error.text);
}
END_TEST

#define LINE(at) "{\"timestamp\": " at ", \"input_length\": 2, \"output_length\": 3}"

/* Blank lines are lines; a NUL is no end. */
START_TEST(a_trace_is_read_to_its_end_and_its_lines_are_counted) {
#define BYTES(text) text, sizeof text - 1
    static const struct {
        const char *bytes;
        size_t n_bytes;
        uint32_t n_lines;
        const char *wrong; /* what the error says, or NULL */
    } rows[] = {
        {BYTES(LINE("1") "\n\n" LINE("2")), 2, NULL},
        {BYTES("\r\n" LINE("1") "\r\n \t\r\n" LINE("1") "\r\n\r\n"), 2, NULL},
        {BYTES(LINE("1") "\n\n\n{\"a\": x}\n"), 0, ": line 4, column 7: "},
        {BYTES("\n" LINE("2") "\n\n" LINE("1")), 0, ": line 4: earlier than the line before"},
        {BYTES("\n\n{}\n"), 0, ": line 3: needs timestamp"},
        {BYTES(LINE("1") "\n\0" LINE("2") "\n"), 0, ": not text: it contains NUL bytes"},
        {BYTES(LINE("1") "\n\0"), 0, ": not text: it contains NUL bytes"},
        {BYTES("\0" LINE("1") "\n"), 0, ": not text: it contains NUL bytes"},
        {BYTES("\n \r\n"), 0, ": no lines"},
        {BYTES(""), 0, ": no lines"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct trace_line *lines = NULL;
        uint32_t n_lines = 0;
        struct error error = {0};
        put(rows[i].bytes, rows[i].n_bytes);
        enum status status = trace_read(path, &lines, &n_lines, &error);
        ck_assert_msg((status != STATUS_OK) == (rows[i].wrong != NULL), "%zu: %s", i, error.text);
        ck_assert_uint_eq(n_lines, rows[i].n_lines);
        ck_assert_msg(!rows[i].wrong || strstr(error.text, rows[i].wrong), "%zu: %s", i,
                      error.text);
        trace_free(lines, n_lines);
    }
}
END_TEST

static enum status write_word(struct output *output, const char *word, struct error *error) {
    struct buf text;
    buf_init(&text, 0);
    buf_puts(&text, word);
    enum status status = output_write(output, &text, error);
    ck_assert_uint_eq(text.n, 0);
    buf_fini(&text);
    return status;
}

START_TEST(a_file_keeps_what_it_had_until_something_is_written) {
    struct output output;
    struct error error;
    struct buf text;
    put("before, and longer", 18);
    ck_assert_int_eq(output_open(&output, "--json", path, &error), STATUS_OK);
    output_close(&output);
    get(&text);
    ck_assert_str_eq(text.data, "before, and longer");
    buf_fini(&text);
    ck_assert_int_eq(output_open(&output, "--json", path, &error), STATUS_OK);
    ck_assert_int_eq(write_word(&output, "one ", &error), STATUS_OK);
    ck_assert_int_eq(write_word(&output, "two", &error), STATUS_OK);
    output_close(&output);
    get(&text);
    ck_assert_str_eq(text.data, "one two");
    buf_fini(&text);
}
END_TEST

START_TEST(a_new_file_is_left_where_something_is_in_it) {
    struct output output;
    struct error error;
    ck_assert_int_eq(output_open(&output, "--csv", path, &error), STATUS_OK);
    ck_assert_int_eq(access(path, F_OK), 0);
    output_close(&output);
    ck_assert_int_ne(access(path, F_OK), 0);
    ck_assert_int_eq(output_open(&output, "--csv", path, &error), STATUS_OK);
    ck_assert_int_eq(write_word(&output, "", &error), STATUS_OK);
    output_close(&output);
    ck_assert_int_eq(access(path, F_OK), 0);
}
END_TEST

START_TEST(what_cannot_be_opened_or_written_names_option_and_path) {
    char below[sizeof path + 16];
    struct output output;
    struct error error;
    snprintf(below, sizeof below, "%s/none/x", folder);
    ck_assert_int_eq(output_open(&output, "--html", below, &error), STATUS_IO);
    snprintf(below, sizeof below, "--html: %s/none/x: No such file", folder);
    ck_assert_msg(strstr(error.text, below) == error.text, "%s", error.text);
    output_close(&output);
    ck_assert_int_eq(output_open(&output, "--html", folder, &error), STATUS_IO);
    output_close(&output);
    ck_assert_int_eq(output_open(&output, "--records", "/dev/full", &error), STATUS_OK);
    ck_assert_int_eq(write_word(&output, "x", &error), STATUS_IO);
    ck_assert_str_eq(error.text, "--records: /dev/full: No space left on device");
    output_close(&output);
    ck_assert_int_eq(access("/dev/full", F_OK), 0);
    ck_assert_int_eq(output_open(&output, "--html", NULL, &error), STATUS_OK);
    output_close(&output);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_loop_test(tests, a_text_that_begins_as_json_is_json_or_an_error_with_its_place, 0,
                        (int)(sizeof texts / sizeof *texts));
    tcase_add_test(tests, a_long_file_is_read_whole);
    tcase_add_test(tests, a_text_with_nuls_is_none);
    tcase_add_test(tests, a_trace_is_read_as_texts_are);
    tcase_add_test(tests, a_trace_is_read_to_its_end_and_its_lines_are_counted);
    tcase_add_test(tests, a_file_keeps_what_it_had_until_something_is_written);
    tcase_add_test(tests, a_new_file_is_left_where_something_is_in_it);
    tcase_add_test(tests, what_cannot_be_opened_or_written_names_option_and_path);
}
