#include "router/api/tools_form.h"

#include "base/buf.h"
#include "model/text/grammar/pack.h"
#include "model/text/template/template_tools.h"
#include "router/api/form.h"
#include "router/api/tools_parameters.h"
#include "router/api/tools_python.h"
#include "router/api/tools_schema.h"
#include "router/api/tools_tags.h"
#include "router/api/tools_text.h"

/* The arguments of the function that a template shows in place of a custom tool, spelled as templates write them. */
static enum status tools_form_put_input(struct ask *ask, const struct tool *tool,
                                        struct grammar_part *part) {
    struct grammar_part *parts = form_array(ask, 3);
    if (!parts)
        return STATUS_NOMEM;
    parts[0] = form_text(SPAN("{\"" TEMPLATE_TOOL_INPUT "\": "));
    parts[1] = *tool->input;
    parts[2] = form_text(SPAN("}"));
    *part = form_list(GRAMMAR_SEQUENCE, parts, 3);
    return STATUS_OK;
}

static enum status tools_form_put_arguments(struct ask *ask, const struct toolbox *box,
                                            const struct tool *tool, struct grammar_part *part) {
    bool any = box->loose && !tool->strict;
    if (box->format->arguments == TOOL_ARGUMENTS_TAGS)
        return tool->input ? tools_tags_input(ask, box, tool, part)
                           : tools_tags_part(ask, box, tool, part);
    if (box->format->arguments == TOOL_ARGUMENTS_PYTHON)
        return tools_python_part(ask, box, tool, part);
    if (tool->input)
        return tools_form_put_input(ask, tool, part);
    *part = (struct grammar_part){.kind = GRAMMAR_JSON_OBJECT};
    if (tool->parameters && json_object_size(tool->parameters) > 0 && !any)
        TRY(tools_schema_part(ask, tool->parameters, NULL, !tool->strict, part));
    part->region = SPAN(TOOLS_ARGUMENTS);
    return STATUS_OK;
}

/* Which of the format's marks are special tokens here: bit i is mark i. */
static struct grammar_part tools_form_mark_part(const struct toolbox *box, unsigned special,
                                                enum tool_mark mark) {
    return form_mark(box->format->marks[mark], special >> mark & 1);
}

/* A part that may be left out; it is copied. */
static enum status tools_form_put_maybe(struct ask *ask, const struct grammar_part *part,
                                        struct grammar_part *maybe) {
    struct grammar_part *own = form_array(ask, 1);
    if (!own)
        return STATUS_NOMEM;
    *own = *part;
    *maybe = form_maybe(own);
    return STATUS_OK;
}

/* An id that a model makes for a call, behind the call's name. */
static enum status tools_form_put_id(struct ask *ask, const struct toolbox *box, unsigned special,
                                     struct grammar_part *maybe) {
    struct grammar_part *parts = form_array(ask, 2);
    if (!parts)
        return STATUS_NOMEM;
    parts[0] = tools_form_mark_part(box, special, TOOL_MARK_ID);
    parts[1] = form_regex(SPAN("[A-Za-z0-9]{9}"));
    const struct grammar_part both = form_list(GRAMMAR_SEQUENCE, parts, 2);
    return tools_form_put_maybe(ask, &both, maybe);
}

/* The blank that may stand before each part of a call that is a turn. */
static enum status tools_form_put_blank(struct ask *ask, const struct toolbox *box,
                                        struct grammar_part *parts, size_t *n) {
    const struct grammar_part blank = form_text(SPAN(" "));
    return box->format->calls == TOOL_CALLS_TURN ? tools_form_put_maybe(ask, &blank, &parts[(*n)++])
                                                 : STATUS_OK;
}

/* The name of a tool and its arguments, with what stands between. */
static enum status tools_form_put_tool(struct ask *ask, const struct toolbox *box, unsigned special,
                                       const struct tool *tool, struct grammar_part *part) {
    const struct tool_format *format = box->format;
    struct grammar_part *own = form_array(ask, 7);
    size_t n = 0;
    if (!own)
        return STATUS_NOMEM;
    own[n] = form_text(tool->name);
    own[n++].region = tool->input ? SPAN(TOOLS_CUSTOM) : SPAN(TOOLS_NAME);
    if (format->marks[TOOL_MARK_ID].n > 0)
        TRY(tools_form_put_id(ask, box, special, &own[n++]));
    if (format->marks[TOOL_MARK_ARGUMENTS].n > 0)
        own[n++] = tools_form_mark_part(box, special, TOOL_MARK_ARGUMENTS);
    if (format->behind_name.n > 0)
        own[n++] = form_text(format->behind_name);
    TRY(tools_form_put_blank(ask, box, own, &n));
    if (format->before_arguments.n > 0)
        own[n++] = form_text(format->before_arguments);
    TRY(tools_form_put_arguments(ask, box, tool, &own[n++]));
    *part = form_list(GRAMMAR_SEQUENCE, own, n);
    return STATUS_OK;
}

/* One call of any of the tools: mark, name, arguments. */
static enum status tools_form_put_call(struct ask *ask, const struct toolbox *box, unsigned special,
                                       struct grammar_part *call) {
    const struct tool_format *format = box->format;
    struct grammar_part *parts = form_array(ask, 7), *tools = form_array(ask, box->n);
    size_t n = 0, n_tools = 0;
    if (!parts || !tools)
        return STATUS_NOMEM;
    for (size_t i = 0; i < box->n; i++)
        if (box->all[i].allowed)
            TRY(tools_form_put_tool(ask, box, special, &box->all[i], &tools[n_tools++]));
    const struct grammar_part mark = tools_form_mark_part(box, special, TOOL_MARK_CALL);
    if (format->calls == TOOL_CALLS_ROW)
        parts[n++] = mark;
    else if (format->calls == TOOL_CALLS_ONE)
        TRY(tools_form_put_maybe(ask, &mark, &parts[n++]));
    TRY(tools_form_put_blank(ask, box, parts, &n));
    if (format->before_name.n > 0)
        parts[n++] = form_text(format->before_name);
    parts[n++] = form_list(GRAMMAR_EITHER, tools, n_tools);
    if (format->beside) {
        const struct grammar_part beside = form_regex(span_of(format->beside));
        TRY(tools_form_put_maybe(ask, &beside, &parts[n++]));
    }
    if (format->behind.n > 0)
        parts[n++] = form_text(format->behind);
    if (format->marks[TOOL_MARK_END].n > 0)
        parts[n++] = tools_form_mark_part(box, special, TOOL_MARK_END);
    *call = form_list(GRAMMAR_SEQUENCE, parts, n);
    return STATUS_OK;
}

/* Calls behind each other; what stands between two of them may stand behind the last, too, so that all are one part. */
static enum status tools_form_put_row(struct ask *ask, const struct toolbox *box, unsigned special,
                                      struct grammar_part *calls) {
    const bool several = box->several && !tool_format_is_single(box->format);
    struct grammar_part *all = form_array(ask, 1), *each = form_array(ask, 2);
    const struct grammar_part between = form_text(box->format->between);
    if (!all || !each)
        return STATUS_NOMEM;
    TRY(tools_form_put_call(ask, box, special, &each[0]));
    TRY(tools_form_put_maybe(ask, &between, &each[1]));
    *all = form_list(GRAMMAR_SEQUENCE, each, several && between.text.n > 0 ? 2 : 1);
    *calls = (struct grammar_part){.kind = GRAMMAR_REPEAT,
                                   .parts = all,
                                   .n = 1,
                                   .min = 1,
                                   .max = several ? GRAMMAR_NO_BOUND : 1};
    return STATUS_OK;
}

/* Calls in a list that is opened and closed. */
static enum status tools_form_put_list(struct ask *ask, const struct toolbox *box, unsigned special,
                                       struct grammar_part *calls) {
    const struct tool_format *format = box->format;
    struct grammar_part *parts = form_array(ask, 6), *more = form_array(ask, 2);
    struct grammar_part *each = form_array(ask, 1);
    const struct grammar_part blank = form_text(SPAN(" "));
    size_t n = 0;
    if (!parts || !more || !each)
        return STATUS_NOMEM;
    parts[n++] = tools_form_mark_part(box, special, TOOL_MARK_CALL);
    TRY(tools_form_put_maybe(ask, &blank, &parts[n++]));
    parts[n++] = form_text(format->opening);
    TRY(tools_form_put_call(ask, box, special, &more[1]));
    parts[n++] = more[1];
    more[0] = form_text(format->between);
    *each = form_list(GRAMMAR_SEQUENCE, more, 2);
    if (box->several)
        parts[n++] = (struct grammar_part){
            .kind = GRAMMAR_REPEAT, .parts = each, .n = 1, .max = GRAMMAR_NO_BOUND};
    parts[n++] = form_text(format->closing);
    *calls = form_list(GRAMMAR_SEQUENCE, parts, n);
    return STATUS_OK;
}

/* A call or, where there may be several, calls. */
static enum status tools_form_put_calls(struct ask *ask, const struct toolbox *box,
                                        unsigned special, struct grammar_part *calls) {
    return box->format->calls == TOOL_CALLS_LIST ? tools_form_put_list(ask, box, special, calls)
                                                 : tools_form_put_row(ask, box, special, calls);
}

/* A text that is not the beginning of a call of any tool. Where schemas are too long, it is none of a call of any name. */
static enum status tools_form_put_other(struct ask *ask, const struct toolbox *box,
                                        struct grammar_part *text) {
    const struct tool_format *format = box->format;
    struct span *starts = arena_alloc(&ask->arena, (box->n + 1) * sizeof *starts);
    struct buf buf;
    size_t n = 1;
    if (!starts)
        return STATUS_NOMEM;
    starts[0] = format->marks[TOOL_MARK_CALL];
    for (size_t i = 0; i < box->n && !box->loose; i++) {
        buf_init(&buf, 0);
        buf_append(&buf, format->before_name.bytes, format->before_name.n);
        buf_append(&buf, box->all[i].name.bytes, box->all[i].name.n);
        buf_append(&buf, format->before_arguments.bytes, 1); /* ends the name */
        TRY(form_keep(ask, &buf, &starts[n]));
        n += box->all[i].allowed;
    }
    if (box->loose)
        starts[n++] = format->before_name;
    buf_init(&buf, GRAMMAR_PACKED_MAX);
    tools_text_other(starts, n, &buf);
    *text = (struct grammar_part){.kind = GRAMMAR_GBNF, .region = SPAN(TOOLS_CONTENT)};
    return form_keep(ask, &buf, &text->text);
}

/* The call, or a text behind which it may come. */
static enum status tools_form_put_turn(struct ask *ask, const struct toolbox *box, unsigned special,
                                       const struct grammar_part *call,
                                       struct grammar_part *answer) {
    struct grammar_part *text = form_array(ask, 4), *either = form_array(ask, 2);
    struct grammar_part *turn = form_array(ask, 2);
    size_t n = 0;
    if (!text || !either || !turn)
        return STATUS_NOMEM;
    turn[0] = tools_form_mark_part(box, special, TOOL_MARK_CALL);
    turn[1] = *call;
    const struct grammar_part behind = form_list(GRAMMAR_SEQUENCE, turn, 2);
    TRY(tools_form_put_blank(ask, box, text, &n));
    text[n++] = form_text(box->format->before_text);
    text[n++] = (struct grammar_part){.kind = GRAMMAR_UNTIL,
                                      .text = box->format->marks[TOOL_MARK_CALL],
                                      .region = SPAN(TOOLS_CONTENT)};
    TRY(tools_form_put_maybe(ask, &behind, &text[n++]));
    either[0] = form_list(GRAMMAR_SEQUENCE, text, n);
    either[1] = *call;
    *answer = form_list(GRAMMAR_EITHER, either, 2);
    return STATUS_OK;
}

/* Calls, where they are required. Else a text, or what the request's form says, or calls behind a text. */
static enum status tools_form_put_answer(struct ask *ask, const struct toolbox *box,
                                         unsigned special, const struct grammar_part *form,
                                         struct grammar_part *answer) {
    if (box->required)
        return tools_form_put_calls(ask, box, special, answer);
    struct grammar_part *behind = form_array(ask, 2), *either = form_array(ask, 2), calls;
    if (!behind || !either)
        return STATUS_NOMEM;
    TRY(tools_form_put_calls(ask, box, special, &calls));
    if (form || box->format->calls == TOOL_CALLS_ONE) {
        if (form)
            either[0] = *form;
        else
            TRY(tools_form_put_other(ask, box, &either[0]));
        either[0].region = SPAN(TOOLS_CONTENT);
        either[1] = calls;
        *answer = form_list(GRAMMAR_EITHER, either, 2);
        return STATUS_OK;
    }
    if (box->format->calls == TOOL_CALLS_TURN)
        return tools_form_put_turn(ask, box, special, &calls, answer);
    behind[0] = (struct grammar_part){.kind = GRAMMAR_UNTIL,
                                      .text = box->format->marks[TOOL_MARK_CALL],
                                      .region = SPAN(TOOLS_CONTENT)};
    TRY(tools_form_put_maybe(ask, &calls, &behind[1]));
    *answer = form_list(GRAMMAR_SEQUENCE, behind, 2);
    return STATUS_OK;
}

/* What workers follow, token by token; and what the answer's text is read by: there marks are text, too. */
enum status tools_form(struct ask *ask, const struct ask_limits *limits, const struct toolbox *box,
                       const struct grammar_part *form) {
    struct grammar_part *text = form_array(ask, 1), masked;
    if (!text)
        return STATUS_NOMEM;
    TRY(tools_parameters_check(box));
    TRY(tools_form_put_answer(ask, box, 0, form, text));
    TRY(tools_form_put_answer(ask, box, limits->tool_marks_special, form, &masked));
    TRY(form_pack(ask, &masked));
    ask->format = text;
    return STATUS_OK;
}
