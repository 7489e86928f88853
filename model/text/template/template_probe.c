#include "model/text/template/template_probe.h"

#include "model/text/template/jinja/jinja.h"
#include "model/text/template/template_run.h"

#include <string.h>

static const char probe_text[] = "0 a text to be found again 0";

/* An answer that calls a tool with such arguments; without NULL ones. Consumes both. */
static json_t *template_probe_calling(json_t *content, json_t *arguments) {
    json_t *message = json_pack("{s:s, s:o}", "role", "assistant", "content", content);
    if (arguments)
        json_object_set_new(message, "tool_calls",
                            json_pack("[{s:s, s:s, s:{s:s, s:o}}]", "id", "call00001", "type",
                                      "function", "function", "name", "f", "arguments", arguments));
    return message;
}

/* A short conversation in which somebody of that role says the content, which is consumed. */
static json_t *template_probe_of(enum template_role role, json_t *content) {
    const char *name = template_role_name(role);
    switch (role) {
    case TEMPLATE_ASSISTANT:
        return json_pack("[{s:s, s:s}, o, {s:s, s:s}]", "role", "user", "content", "u",
                         template_probe_calling(content, NULL), "role", "user", "content", "v");
    case TEMPLATE_TOOL:
        return json_pack("[{s:s, s:s}, o, {s:s, s:s, s:s, s:o}]", "role", "user", "content", "u",
                         template_probe_calling(json_string(""), json_object()), "role", name,
                         "tool_call_id", "call00001", "name", "f", "content", content);
    case TEMPLATE_USER:
        return json_pack("[{s:s, s:o}]", "role", name, "content", content);
    default:
        return json_pack("[{s:s, s:o}, {s:s, s:s}]", "role", name, "content", content, "role",
                         "user", "content", "u");
    }
}

static bool template_probe_has(const struct jinja_output *output, const char *text) {
    return memmem(output->bytes, output->n, text, strlen(text)) != NULL;
}

/* Whether the template renders these messages, which are consumed; *output is to be ended either
 * way. */
static bool template_probe_try(const struct template *chosen, json_t *messages, const json_t *tools,
                               struct jinja_output *output) {
    struct error ignored;
    struct template_input input = {.tools = tools, .bos = SPAN("<s>"), .eos = SPAN("</s>")};
    bool is_done =
        messages && template_run(chosen, &input, messages, output, &ignored) == STATUS_OK;
    json_decref(messages);
    return is_done;
}

/* A template takes null where it renders an answer without content, and does not write Python's
 * word for it. Calls have their arguments as the template wants them, or are left out. */
static void template_probe_null(struct template *chosen) {
    bool is_done = false;
    for (unsigned attempt = 0; attempt < 3 && !is_done; attempt++) {
        struct jinja_output empty = {0};
        struct jinja_output null = {0};
        for (unsigned k = 0; k < 2; k++) {
            json_t *arguments = attempt == 0   ? json_object()
                                : attempt == 1 ? json_string("{}")
                                               : NULL;
            json_t *content = k == 0 ? json_string("") : json_null();
            json_t *messages = json_pack("[{s:s, s:s}, o]", "role", "user", "content", "u",
                                         template_probe_calling(content, arguments));
            bool is_rendered = template_probe_try(chosen, messages, NULL, k == 0 ? &empty : &null);
            if (k == 0)
                is_done = is_rendered;
            else
                chosen->takes_null =
                    is_rendered && (!template_probe_has(&null, "None") ||
                                    (is_done && template_probe_has(&empty, "None")));
        }
        jinja_output_fini(&empty);
        jinja_output_fini(&null);
    }
}

/* Which roles the template was seen to render, in either form of content; bits by role. */
struct template_probe_seen {
    unsigned rendered; /* without an error */
    unsigned shown;    /* with the mark in the prompt */
};

/* A template takes parts where one part of text gives the same prompt as that text alone. A role
 * that it renders in neither form is treated as the user is. */
static struct template_probe_seen template_probe_parts(struct template *chosen) {
    struct template_probe_seen seen = {0, 0};
    for (unsigned i = 0; i < TEMPLATE_ROLE_COUNT; i++) {
        struct jinja_output text = {0};
        struct jinja_output parts = {0};
        uint8_t bit = (uint8_t)(1u << i);
        bool runs_text =
            template_probe_try(chosen, template_probe_of(i, json_string(probe_text)), NULL, &text);
        json_t *part = json_pack("[{s:s, s:s}]", "type", "text", "text", probe_text);
        bool runs_parts = template_probe_try(chosen, template_probe_of(i, part), NULL, &parts);
        bool has_text = runs_text && template_probe_has(&text, probe_text);
        bool has_parts = runs_parts && template_probe_has(&parts, probe_text);
        seen.rendered |= runs_text || runs_parts ? bit : 0;
        seen.shown |= has_text || has_parts ? bit : 0;
        if (has_parts && !has_text)
            chosen->needs_parts |= bit;
        if (has_parts &&
            (!has_text || (text.n == parts.n && memcmp(text.bytes, parts.bytes, text.n) == 0)))
            chosen->takes_parts |= bit;
        jinja_output_fini(&text);
        jinja_output_fini(&parts);
    }
    uint8_t unseen = (uint8_t)(((1u << TEMPLATE_ROLE_COUNT) - 1) & ~seen.shown);
    if (chosen->takes_parts & 1u << TEMPLATE_USER)
        chosen->takes_parts |= unseen;
    if (chosen->needs_parts & 1u << TEMPLATE_USER)
        chosen->needs_parts |= unseen;
    return seen;
}

/* Some templates show what tools say only where there are tools. */
static bool template_probe_drops_with_tools(const struct template *chosen) {
    struct jinja_output output = {0};
    json_t *tools =
        json_pack("[{s:s, s:{s:s, s:s, s:{s:s, s:{}}}}]", "type", "function", "function", "name",
                  "f", "description", "f", "parameters", "type", "object", "properties");
    bool drops =
        tools &&
        template_probe_try(chosen, template_probe_of(TEMPLATE_TOOL, json_string(probe_text)), tools,
                           &output) &&
        !template_probe_has(&output, probe_text);
    json_decref(tools);
    jinja_output_fini(&output);
    return drops;
}

/* A name that no string of the template is equal to is one that it does not know, even where it
 * writes any name. */
static bool template_probe_has_literal(struct span source, const char *name) {
    for (const char *quote = "'\""; *quote; quote++) {
        char literal[16] = {*quote};
        size_t n = strlen(name);
        memcpy(literal + 1, name, n);
        literal[n + 1] = *quote;
        if (memmem(source.bytes, source.n, literal, n + 2))
            return true;
    }
    return false;
}

/* Of a template that shows no user's text either, these conversations tell nothing. */
static void template_probe_roles(struct template *chosen, struct span source,
                                 struct template_probe_seen seen) {
    const unsigned system = 1u << TEMPLATE_SYSTEM, developer = 1u << TEMPLATE_DEVELOPER;
    const unsigned tool = 1u << TEMPLATE_TOOL;
    bool shows_user = seen.shown & 1u << TEMPLATE_USER;
    bool knows = template_probe_has_literal(source, template_role_name(TEMPLATE_DEVELOPER));
    if (!knows || (shows_user && !(seen.shown & developer)))
        chosen->as_system = (uint8_t)developer;
    unsigned silent = shows_user ? seen.rendered & ~seen.shown : 0;
    if (silent & system)
        chosen->dropped |= (uint8_t)system;
    if (silent & tool)
        *(template_probe_drops_with_tools(chosen) ? &chosen->dropped : &chosen->dropped_bare) |=
            (uint8_t)tool;
}

void template_probe(struct template *chosen, struct span source) {
    struct template_probe_seen seen = template_probe_parts(chosen);
    template_probe_null(chosen);
    template_probe_roles(chosen, source, seen);
}
