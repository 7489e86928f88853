/* Mistral 7B v0.3, Nemo and others of their time: one mark and a list of JSON objects, each with an id of nine letters and digits or
 * none. Tokenizers of SentencePiece put a blank behind the mark. */
#include "model/text/template/formats/formats.h"

const struct tool_format tool_format_mistral_list = {
    .name = "mistral-list",
    .signs = {"[TOOL_CALLS]"},
    .others = {"[ARGS]"},
    .marks = {[TOOL_MARK_CALL] = SPAN("[TOOL_CALLS]")},
    .calls = TOOL_CALLS_LIST,
    .opening = SPAN("["),
    .before_name = SPAN("{\"name\": \""),
    .before_arguments = SPAN("\", \"arguments\": "),
    .beside = ", \"id\": \"[A-Za-z0-9]{9}\"",
    .behind = SPAN("}"),
    .between = SPAN(", "),
    .closing = SPAN("]"),
};
