#include "tools/cli/cli.h"

#include "tools/lib/http_client.h"
#include "tools/lib/sse_client.h"

#include "base/exit.h"

#include <argp.h>
#include <jansson.h>
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
    const char *prompt; /* NULL: a conversation from standard input */
    long max_tokens;    /* 0: the server's */
    double temperature; /* negative: the server's */
    struct loop *loop;
    struct http_client *client;
    struct sse_client sse;
    json_t *messages;  /* owned: the conversation */
    struct buf answer; /* of this turn */
    struct buf raw;    /* an error's body */
    int http_status;
    enum status status;
    struct error error;
};

enum { KEY_MAX_TOKENS = 256, KEY_TEMPERATURE, KEY_SYSTEM, KEY_SERVER, KEY_API_KEY };

static const struct argp_option options[] = {
    {"server", KEY_SERVER, "URL", 0, "the server (default: TANDEM_SERVER or port 8000 here)", 0},
    {"api-key", KEY_API_KEY, "KEY", 0, "default: OPENAI_API_KEY", 0},
    {"system", KEY_SYSTEM, "TEXT", 0, "the system message", 0},
    {"max-tokens", KEY_MAX_TOKENS, "N", 0, "end the answer after N tokens", 0},
    {"temperature", KEY_TEMPERATURE, "T", 0, "0 is greedy", 0},
    {0}};

static error_t parse(int key, char *text, struct argp_state *state) {
    struct chat *chat = state->input;
    char *end = NULL;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &chat->trust;
        return 0;
    case KEY_SERVER:
        chat->server = text;
        return 0;
    case KEY_API_KEY:
        chat->api_key = text;
        return 0;
    case KEY_SYSTEM:
        chat->system = text;
        return 0;
    case KEY_MAX_TOKENS:
        chat->max_tokens = strtol(text, &end, 10);
        if (*end || chat->max_tokens < 1)
            argp_error(state, "--max-tokens: \"%s\" is not a positive number", text);
        return 0;
    case KEY_TEMPERATURE:
        chat->temperature = strtod(text, &end);
        if (*end || !(chat->temperature >= 0 && chat->temperature <= 2))
            argp_error(state, "--temperature: \"%s\" is not between 0 and 2", text);
        return 0;
    case ARGP_KEY_ARG:
        if (chat->prompt)
            return ARGP_ERR_UNKNOWN;
        chat->prompt = text;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void on_event(void *user, const char *data, size_t n) {
    struct chat *chat = user;
    json_t *root = json_loadb(data, n, 0, NULL);
    json_t *error = json_object_get(root, "error");
    const char *text = json_string_value(json_object_get(
        json_object_get(json_array_get(json_object_get(root, "choices"), 0), "delta"), "content"));
    if (error)
        chat->status = error_set(&chat->error, STATUS_IO, "%s",
                                 json_string_value(json_object_get(error, "message")));
    if (text) {
        fputs(text, stdout);
        fflush(stdout);
        buf_puts(&chat->answer, text);
    }
    json_decref(root);
}

static void on_body(void *user, const char *bytes, size_t n) {
    struct chat *chat = user;
    if (chat->raw.n + n < 1u << 20)
        buf_append(&chat->raw, bytes, n);
    sse_client_feed(&chat->sse, bytes, n);
}

static void on_end(void *user, enum status status, int http_status, const struct error *error) {
    struct chat *chat = user;
    chat->http_status = http_status;
    if (status != STATUS_OK) {
        chat->status = status;
        chat->error = *error;
    }
    loop_stop(chat->loop);
}

static void explain_refusal(struct chat *chat) {
    json_t *root = json_loadb(chat->raw.data ? chat->raw.data : "", chat->raw.n, 0, NULL);
    const char *message =
        json_string_value(json_object_get(json_object_get(root, "error"), "message"));
    chat->status = error_set(&chat->error, STATUS_IO, "HTTP status %d: %s", chat->http_status,
                             message ? message : "no reason given");
    json_decref(root);
}

/* Adds `text` to the conversation, streams the answer, adds that too. */
static enum status ask(struct chat *chat, const char *text) {
    json_array_append_new(chat->messages, json_pack("{s:s, s:s}", "role", "user", "content", text));
    json_t *body = json_pack("{s:O, s:b}", "messages", chat->messages, "stream", 1);
    if (chat->max_tokens)
        json_object_set_new(body, "max_tokens", json_integer(chat->max_tokens));
    if (chat->temperature >= 0)
        json_object_set_new(body, "temperature", json_real(chat->temperature));
    char *json = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (!json)
        return error_set(&chat->error, STATUS_INVALID, "the text is not valid UTF-8");
    char headers[512] = "";
    if (chat->api_key)
        snprintf(headers, sizeof headers, "Authorization: Bearer %.400s\r\n", chat->api_key);
    chat->status = STATUS_OK;
    buf_clear(&chat->answer);
    buf_clear(&chat->raw);
    sse_client_reset(&chat->sse);
    struct http_events events = {on_body, on_end, chat};
    http_client_start(chat->client, "POST", "/v1/chat/completions", headers, json, strlen(json),
                      &events);
    free(json);
    loop_run(chat->loop);
    if (chat->status == STATUS_OK && chat->http_status != 200)
        explain_refusal(chat);
    if (chat->answer.n > 0)
        putchar('\n');
    json_array_append_new(chat->messages, json_pack("{s:s, s:s}", "role", "assistant", "content",
                                                    chat->answer.data ? chat->answer.data : ""));
    return chat->status;
}

static enum status converse(struct chat *chat) {
    char *line = NULL;
    size_t size = 0;
    enum status status = STATUS_OK;
    bool terminal = isatty(STDIN_FILENO);
    for (;;) {
        if (terminal)
            fputs("> ", stderr);
        ssize_t n = getline(&line, &size, stdin);
        if (n < 0)
            break;
        if (n > 0 && line[n - 1] == '\n')
            line[n - 1] = 0;
        if (line[0] == 0)
            continue;
        status = ask(chat, line);
        if (status != STATUS_OK)
            break;
    }
    free(line);
    return status;
}

int cli_chat(int argc, char **argv) {
    static const struct argp argp = {
        options,
        parse,
        "[PROMPT]",
        "Asks a running server and streams the answer. Without PROMPT: "
        "a conversation, one line of standard input a turn.",
        http_trust_argp,
        NULL,
        NULL};
    struct chat chat = {.temperature = -1, .api_key = getenv("OPENAI_API_KEY")};
    argp_err_exit_status = EXIT_CONFIG;
    argp_parse(&argp, argc, argv, 0, NULL, &chat);
    if (http_url_open(cli_server(chat.server), &chat.trust, &chat.url, &chat.error) != STATUS_OK)
        return cli_fail(EXIT_CONFIG, "%s", chat.error.text);
    sse_client_init(&chat.sse, on_event, &chat);
    buf_init(&chat.answer, 0);
    buf_init(&chat.raw, 0);
    chat.messages = json_array();
    if (chat.system)
        json_array_append_new(chat.messages,
                              json_pack("{s:s, s:s}", "role", "system", "content", chat.system));
    enum status status = loop_new(&chat.loop);
    if (status == STATUS_OK)
        status = http_client_new(chat.loop, &chat.url, &chat.client);
    if (status == STATUS_OK)
        status = chat.prompt ? ask(&chat, chat.prompt) : converse(&chat);
    http_client_free(chat.client);
    http_url_close(&chat.url);
    loop_free(chat.loop);
    json_decref(chat.messages);
    sse_client_fini(&chat.sse);
    buf_fini(&chat.answer);
    buf_fini(&chat.raw);
    return status == STATUS_OK ? 0 : cli_fail(1, "%s", chat.error.text);
}
