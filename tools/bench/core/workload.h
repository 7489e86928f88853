/* tools/bench/core/workload.h: what is asked: the prompts and the bodies of requests.
 *
 * Pure: a prompt depends on the workload and the ask's serial number alone, so that a run can be
 * repeated. No two prompts of a run begin alike unless a shared prefix is asked for. */
#pragma once

#include "base/buf.h"
#include "tools/bench/core/record.h"

enum source {
    SOURCE_WORDS, /* common words in random order */
    SOURCE_TEXTS, /* pieces of given texts: a corpus, the first turns of ShareGPT */
    SOURCE_IDS    /* random token ids, for servers that take them as prompt */
};

struct workload {
    enum source source;
    uint64_t seed;
    double words_per_token; /* by calibration; 0 counts as 1 */
    double overhead;        /* tokens of the chat format around the words */
    uint32_t n_shared;      /* tokens that all prompts begin with */
    bool repeats;           /* no nonce: texts begin as they are, as in --compat */
    uint32_t n_vocabulary;  /* SOURCE_IDS: ids are below; the first 256 are left out */
    char *const *texts;     /* borrowed (n_texts), each with a word at least */
    uint32_t n_texts;
};

/* How the server is asked. */
struct ask_form {
    const char *model; /* borrowed */
    const char *role;  /* of a chat's one message: "user" */
    bool chat;         /* /v1/chat/completions, else /v1/completions */
    bool stream;
    bool ignore_eos;
    bool own_sampling; /* temperature is left to the server */
};

const char *ask_path(const struct ask_form *form);

/* Appends a prompt of about `n_tokens` tokens: text, or ids as a JSON list. */
void workload_prompt(const struct workload *workload, uint64_t serial, uint32_t n_tokens,
                     struct buf *out);

/* Appends the JSON body of a request. */
void workload_body(const struct workload *workload, const struct ask_form *form,
                   const struct ask *ask, struct buf *out);

/* Appends text as a JSON string with its quotes. */
void json_text(struct buf *out, const char *text, size_t n);
