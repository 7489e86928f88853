#include "tools/cli/chat/chat.h"

#include "base/client/http_client.h"
#include "tools/cli/chat/chat_input.h"
#include "tools/cli/chat/chat_model.h"
#include "tools/cli/chat/chat_show.h"
#include "tools/cli/target.h"
#include "tools/lib/args.h"
#include "tools/lib/http_trust.h"
#include "tools/lib/sse_client.h"
#include "tools/lib/terminal.h"

#include "base/exit.h"
#include "base/json/json_read.h"
#include "base/log/log.h"
#include "base/log/log_writer.h"

#include <jansson.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct chat {
    const char *server;
    struct http_trust trust;
    struct http_url url; /* owned */
    const char *api_key;
    const char *system;
    struct buf prompt; /* the words of the command line; empty: none were given */
    bool reads_input;  /* one of them was "-" */
    long max_tokens;   /* 0: the server's */
    struct chat_model model;
    struct chat_show show;
    struct loop *loop;
    struct loop_timer *end; /* owned */
    struct http_client *client;
    struct sse_client sse;
    json_t *messages;  /* owned: the conversation */
    struct buf answer; /* of this turn */
    struct buf raw;    /* an error's body */
    int http_status;
    enum status status;
    struct error error;
    bool is_over;             /* the answer: the server said so */
    bool stopped;             /* by Ctrl-C, in this turn, or with the terminal */
    bool is_gone;             /* the terminal where the answer goes, or the questions come from */
    struct terminal terminal; /* while that is asked */
};

static void chat_read_max_tokens(const struct args_given *given) {
    char *end = NULL;
    long *n = given->at;
    *n = strtol(given->text, &end, 10);
    if (*end || *n < 1)
        argp_error(given->state, "--max-tokens: \"%s\" is not a positive number", given->text);
}

/* False: it is no number from 0 to `most`. */
static bool chat_read_number(const char *text, double most, double *value) {
    char *end = NULL;
    double number = strtod(text, &end);
    bool is_one = end != text && !*end && number >= 0 && number <= most;
    if (is_one)
        *value = number;
    return is_one;
}

static void chat_read_temperature(const struct args_given *given) {
    if (!chat_read_number(given->text, 2, given->at))
        argp_error(given->state, "--temperature: \"%s\" is not between 0 and 2", given->text);
}

static void chat_read_top_p(const struct args_given *given) {
    double *value = given->at;
    if (!chat_read_number(given->text, 1, value) || *value == 0)
        argp_error(given->state, "--top-p: \"%s\" is not above 0 and at most 1", given->text);
}

/* "-" among the words stands for standard input. */
static void chat_read_word(const struct args_given *given) {
    struct chat *chat = given->into;
    if (chat->prompt.n > 0)
        buf_putc(&chat->prompt, ' ');
    if (strcmp(given->text, "-") != 0)
        buf_puts(&chat->prompt, given->text);
    else if (chat->reads_input)
        argp_error(given->state, "\"-\" is given twice: standard input is read once");
    else if (chat_input_all(&chat->prompt, &chat->error) == STATUS_OK)
        chat->reads_input = true;
    else
        argp_error(given->state, "%s", chat->error.text);
}

#define AT(member) offsetof(struct chat, member)
static const struct args_row rows[] = {
    {"server", "URL", args_text, AT(server),
     .help = "the server (default: TANDEM_SERVER or port 8000 here)"},
    {"api-key", "KEY", args_text, AT(api_key), .help = "default: OPENAI_API_KEY"},
    {"system", "TEXT", args_text, AT(system), .help = "the system message"},
    {"max-tokens", "N", chat_read_max_tokens, AT(max_tokens),
     .help = "end the answer after N tokens"},
    {"temperature", "T", chat_read_temperature, AT(model.temperature),
     .help = "0 is greedy (default: the model's own, else 0.7)"},
    {"top-p", "P", chat_read_top_p, AT(model.top_p),
     .help = "of the likeliest tokens, those that make up P "
             "(default: the model's own, else 0.9)"},
    {NULL, "PROMPT", chat_read_word, .flags = ARGS_REPEATS},
    {0}};

/* The words of an error's body or event; borrowed from `root`. */
static const char *chat_reason_of(const json_t *root) {
    const char *message =
        json_string_value(json_object_get(json_object_get(root, "error"), "message"));
    return message ? message : "no reason given";
}

static void chat_on_event(void *user, const char *data, size_t n) {
    struct chat *chat = user;
    json_t *root = json_read(data, n, 0, NULL);
    const json_t *choice = json_array_get(json_object_get(root, "choices"), 0);
    const json_t *delta = json_object_get(choice, "delta");
    const char *text = json_string_value(json_object_get(delta, "content"));
    const char *thought = json_string_value(json_object_get(delta, "reasoning"));
    if (!thought) /* as other servers name it */
        thought = json_string_value(json_object_get(delta, "reasoning_content"));
    chat->is_over |= (n == 6 && memcmp(data, "[DONE]", n) == 0) ||
                     json_is_string(json_object_get(choice, "finish_reason"));
    if (json_object_get(root, "error"))
        chat->status = error_set(&chat->error, STATUS_IO, "%s", chat_reason_of(root));
    if (thought && thought[0])
        chat_show_thought(&chat->show, thought);
    if (text && text[0]) {
        chat_show_text(&chat->show, text);
        buf_puts(&chat->answer, text);
    }
    json_decref(root);
}

static void chat_on_body(void *user, const char *bytes, size_t n) {
    struct chat *chat = user;
    if (chat->raw.n + n < 1u << 20)
        buf_append(&chat->raw, bytes, n);
    if (sse_client_feed(&chat->sse, bytes, n) != STATUS_OK && chat->status == STATUS_OK)
        chat->status =
            error_set(&chat->error, STATUS_LIMIT, "the server sent an event of more than %zu MiB",
                      SSE_EVENT_MAX >> 20);
}

static void chat_on_end(void *user, enum status status, int http_status,
                        const struct error *error) {
    struct chat *chat = user;
    chat->http_status = http_status;
    if (status != STATUS_OK) {
        chat->status = status;
        chat->error = *error;
    }
    loop_stop(chat->loop);
}

/* The server sees the connection go and stops. */
static void chat_end_early(struct chat *chat) {
    chat->stopped = true;
    http_client_abort(chat->client);
    loop_timer_after(chat->end, 0); /* once the connection is closed, at this turn's end */
}

/* Ends the answer, not the conversation. */
static void chat_on_interrupt(void *user, unsigned number) {
    (void)number;
    chat_end_early(user);
}

static void chat_on_terminal_gone(void *user) {
    struct chat *chat = user;
    chat->is_gone = true;
    chat_end_early(chat);
}

static void chat_on_stopped(void *user) {
    struct chat *chat = user;
    loop_stop(chat->loop);
}

static void chat_explain_refusal(struct chat *chat) {
    json_t *root = json_read(chat->raw.data ? chat->raw.data : "", chat->raw.n, 0, NULL);
    chat->status = error_set(&chat->error, STATUS_IO, "HTTP status %d: %s", chat->http_status,
                             chat_reason_of(root));
    json_decref(root);
}

static json_t *chat_message_of(const char *role, const char *text) {
    return json_pack("{s:s, s:s}", "role", role, "content", text);
}

/* What the server did, where it was not stopped and nothing went wrong on the way. */
static void chat_judge_answer(struct chat *chat) {
    if (chat->stopped || chat->status != STATUS_OK)
        return;
    if (chat->http_status != 200)
        chat_explain_refusal(chat);
    else if (!chat->is_over)
        chat->status =
            error_set(&chat->error, STATUS_CLOSED, "the stream was cut before the answer's end");
}

/* Sends the request and shows what comes. */
static void chat_stream_answer(struct chat *chat, const char *json) {
    chat->status = STATUS_OK;
    chat->stopped = chat->is_over = false;
    buf_clear(&chat->answer);
    buf_clear(&chat->raw);
    sse_client_reset(&chat->sse);
    struct http_events events = {chat_on_body, chat_on_end, chat};
    struct http_ask ask = {
        .method = "POST", .path = "/v1/chat/completions", .api_key = chat->api_key, .body = json};
    http_client_start(chat->client, &ask, &events);
    loop_run(chat->loop);
    chat_judge_answer(chat);
    if (chat->answer.n > 0 || chat->stopped || chat->show.is_thinking)
        chat_show_end(&chat->show);
}

/* Adds `text` to the conversation, streams the answer, adds that too. */
static enum status chat_ask(struct chat *chat, const char *text) {
    if (json_array_append_new(chat->messages, chat_message_of("user", text)) != 0)
        return error_set(&chat->error, STATUS_INVALID, "the text is not valid UTF-8");
    json_t *body = json_pack("{s:O, s:b}", "messages", chat->messages, "stream", 1);
    if (chat->max_tokens)
        json_object_set_new(body, "max_tokens", json_integer(chat->max_tokens));
    double temperature = chat_model_temperature(&chat->model);
    double top_p = chat_model_top_p(&chat->model);
    if (temperature >= 0)
        json_object_set_new(body, "temperature", json_real(temperature));
    if (top_p >= 0)
        json_object_set_new(body, "top_p", json_real(top_p));
    char *json = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (!json)
        return error_set(&chat->error, STATUS_NOMEM, "out of memory");
    chat_stream_answer(chat, json);
    free(json);
    buf_append(&chat->answer, "", 1);
    if (chat->status == STATUS_OK)
        json_array_append_new(chat->messages, chat_message_of("assistant", chat->answer.data));
    else /* it was not answered: the next turn does not tell it again */
        json_array_remove(chat->messages, json_array_size(chat->messages) - 1);
    return chat->status;
}

static void chat_set_system(struct chat *chat, const char *text) {
    const json_t *first = json_array_get(chat->messages, 0);
    const char *role = json_string_value(json_object_get(first, "role"));
    if (role && strcmp(role, "system") == 0)
        json_array_remove(chat->messages, 0);
    if (text[0])
        json_array_insert_new(chat->messages, 0, chat_message_of("system", text));
}

/* "/temperature 0.5"; without a number what the model has, or ours, holds again. */
static void chat_set_sampling(struct chat *chat, const char *text, double most, double *value) {
    text += strspn(text, " ");
    if (!text[0])
        *value = -1;
    else if (!chat_read_number(text, most, value))
        fprintf(stderr, "\"%s\" is not a number from 0 to %g\n", text, most);
    chat_model_say_sampling(&chat->model, stderr);
}

/* The rest of a line that begins with this command, or NULL. */
static const char *chat_text_behind(const char *line, const char *command) {
    size_t n = strlen(command);
    return strncmp(line, command, n) == 0 && (line[n] == ' ' || !line[n]) ? line + n : NULL;
}

/* A line that begins with a slash is for us. False: the conversation ends. */
static bool chat_run_command(struct chat *chat, const char *line) {
    if (strcmp(line, "/exit") == 0 || strcmp(line, "/quit") == 0)
        return false;
    if (strcmp(line, "/clear") == 0) {
        json_array_clear(chat->messages);
        if (chat->system)
            chat_set_system(chat, chat->system);
        fputs("The conversation begins anew.\n", stderr);
    } else if (strncmp(line, "/system", 7) == 0 && (line[7] == ' ' || line[7] == 0)) {
        chat->system = NULL;
        chat_set_system(chat, line[7] ? line + 8 : "");
    } else if (chat_text_behind(line, "/temperature")) {
        chat_set_sampling(chat, chat_text_behind(line, "/temperature"), 2,
                          &chat->model.temperature);
    } else if (chat_text_behind(line, "/top-p")) {
        chat_set_sampling(chat, chat_text_behind(line, "/top-p"), 1, &chat->model.top_p);
    } else {
        if (strcmp(line, "/help") != 0)
            fprintf(stderr, "%.*s is not a command\n", (int)strcspn(line, " "), line);
        fputs("/clear         forget what was said\n"
              "/system TEXT   the system message from here on; without TEXT: none\n"
              "/temperature T, /top-p P\n"
              "               how it is sampled from here on; without a number: the default\n"
              "/exit          end, as Ctrl-D does\n"
              "/help          this list\n"
              "Ctrl-C ends an answer; arrow keys edit the line and go back to earlier ones.\n",
              stderr);
    }
    return true;
}

/* What cannot be answered is said, and the conversation goes on. */
static enum status chat_converse(struct chat *chat) {
    struct chat_input *input = NULL;
    if (chat_input_new(&input) != STATUS_OK)
        return error_set(&chat->error, STATUS_NOMEM, "out of memory");
    chat_model_say(&chat->model, target_server(chat->server), stderr);
    fputs("/help lists commands\n", stderr);
    const char *line;
    for (enum chat_turn turn;
         !chat->is_gone && (turn = chat_input_line(input, &line)) != CHAT_END;) {
        if (turn == CHAT_NOTHING || line[0] == 0)
            continue;
        if (line[0] == '/') {
            if (!chat_run_command(chat, line))
                break;
        } else if (chat_ask(chat, line) != STATUS_OK) {
            log_words("error: %s", chat->error.text);
        }
        (void)log_writer_flush(100); /* before the next prompt */
    }
    chat_input_free(input);
    return STATUS_OK;
}

static enum status chat_talk(struct chat *chat) {
    struct loop_watch *interrupt = NULL;
    if (chat->prompt.n == 0 && !chat->reads_input && isatty(STDIN_FILENO)) {
        TRY(terminal_init(&chat->terminal, chat->loop, STDIN_FILENO, chat_on_terminal_gone, chat));
        TRY(loop_signal_new(chat->loop, SIGINT, chat_on_interrupt, chat, &interrupt));
        enum status status = chat_converse(chat);
        loop_watch_free(interrupt);
        return status;
    }
    if (chat->prompt.n == 0 && !chat->reads_input)
        TRY(chat_input_all(&chat->prompt, &chat->error));
    if (chat->prompt.n == 0)
        return error_set(&chat->error, STATUS_INVALID, "the prompt is empty");
    buf_append(&chat->prompt, "", 1);
    if (isatty(STDERR_FILENO))
        chat_model_say(&chat->model, target_server(chat->server), stderr);
    TRY(terminal_init(&chat->terminal, chat->loop, STDOUT_FILENO, chat_on_terminal_gone, chat));
    return chat_ask(chat, chat->prompt.data);
}

int chat_command(int argc, char **argv) {
    static const struct args args = {
        "[PROMPT...]",
        "Asks a running server and streams the answer. PROMPT may be several words; \"-\" "
        "among "
        "them stands for standard input. Without PROMPT: a conversation on a terminal, else "
        "all of standard input is the prompt.",
        .parts = {{rows, 0}, {http_trust_rows, AT(trust)}}};
    struct chat chat = {.model = {.temperature = -1, .top_p = -1},
                        .api_key = getenv("OPENAI_API_KEY")};
    buf_init(&chat.prompt, 0);
    setlocale(LC_CTYPE, ""); /* the width of characters */
    args_parse(&args, argc, argv, &chat);
    if (http_url_open(target_server(chat.server), &chat.trust, &chat.url, &chat.error) !=
        STATUS_OK) {
        buf_fini(&chat.prompt);
        return exit_fail(EXIT_CONFIG, "%s", chat.error.text);
    }
    sse_client_init(&chat.sse, chat_on_event, &chat);
    buf_init(&chat.answer, 0);
    buf_init(&chat.raw, 0);
    chat_show_init(&chat.show);
    chat.messages = json_array();
    if (chat.system)
        chat_set_system(&chat, chat.system);
    enum status status = loop_new(&chat.loop);
    if (status == STATUS_OK)
        status = loop_timer_new(chat.loop, chat_on_stopped, &chat, &chat.end);
    if (status == STATUS_OK)
        status = http_client_new(chat.loop, &chat.url, &chat.client);
    if (status == STATUS_OK)
        status = chat_model_ask(&chat.url, chat.api_key, &chat.model, &chat.error);
    if (status == STATUS_OK)
        status = chat_talk(&chat);
    http_client_free(chat.client);
    http_url_close(&chat.url);
    loop_timer_free(chat.end);
    terminal_fini(&chat.terminal);
    loop_free(chat.loop);
    json_decref(chat.messages);
    sse_client_fini(&chat.sse);
    buf_fini(&chat.answer);
    buf_fini(&chat.raw);
    buf_fini(&chat.prompt);
    chat_show_fini(&chat.show);
    return status == STATUS_OK
               ? 0
               : exit_fail(1, "%s%s", chat.error.text, target_hint(chat.error.text));
}
