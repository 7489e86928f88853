/* tools/bench/core/workload.h: what is asked: the prompts and the bodies of requests.
 *
 * Pure: a prompt depends on the workload and the ask's serial number alone, so that a run can be
 * repeated. No two prompts of a run begin alike unless a shared prefix is asked for. */
#pragma once

#include "base/buf.h"
#include "tools/bench/core/record.h"
#include "tools/bench/core/words.h"

enum source {
    SOURCE_WORDS, /* common words in random order */
    SOURCE_TEXTS, /* pieces of given texts: a corpus, the first turns of ShareGPT */
    SOURCE_IDS    /* random token ids, for servers that take them as prompt */
};

/* Some words of a text, and what they cost in tokens with a blank in front. */
struct piece {
    char *text; /* owned by the maker of the piece; one blank between words, none at the ends */
    uint32_t n_tokens;
};

/* A trace's block of tokens (Mooncake's have 512): equal ids stand for equal tokens. */
#define TRACE_BLOCK_TOKENS 512

struct trace_line;

struct workload {
    enum source source;
    uint64_t seed;
    struct words words;         /* with their costs on this server */
    int32_t overhead;           /* tokens of a prompt beyond its words' */
    uint32_t n_shared;          /* tokens that all prompts begin with */
    bool repeats;               /* no nonce: texts begin as they are, as in --compat */
    uint32_t n_vocabulary;      /* SOURCE_IDS: ids are below; the first 256 are left out */
    const struct piece *pieces; /* borrowed (n_pieces): SOURCE_TEXTS; they follow each other */
    uint32_t n_pieces;
    const struct trace_line *trace; /* borrowed: whose hash ids prompts are made from; or NULL */
};

/* The APIs of their own, POST /generate, by which the published grids asked their servers: answers
 * in one piece. */
enum native { NATIVE_NONE, NATIVE_VLLM, NATIVE_TGI };

/* How the server is asked. */
struct ask_form {
    const char *model; /* borrowed */
    const char *role;  /* of a chat's one message: "user" */
    bool chat;         /* /v1/chat/completions, else /v1/completions */
    bool stream;
    bool ignore_eos;
    bool own_sampling;  /* temperature is left to the server */
    enum native native; /* if any, `model`, `role` and the switches above mean nothing */
};

const char *ask_path(const struct ask_form *form);

/* Appends the ask's prompt: text, or ids as a JSON list. A trace's prompt with hash ids is made of
 * their blocks, of words or ids; any other is the shared prefix and what is its own. */
void workload_prompt(const struct workload *workload, const struct ask *ask, struct buf *out);

/* Appends the JSON body of a request. */
void workload_body(const struct workload *workload, const struct ask_form *form,
                   const struct ask *ask, struct buf *out);

/* The same around a given prompt: JSON, a string or a list of ids. */
void workload_body_around(const struct ask_form *form, const char *prompt, size_t n,
                          uint32_t n_output, struct buf *out);

/* Appends text as a JSON string with its quotes. */
void json_text(struct buf *out, const char *text, size_t n);
