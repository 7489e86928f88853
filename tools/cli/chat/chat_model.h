/* tools/cli/chat/chat_model.h: which model a server has, and how it is to be sampled. One thread. */
#pragma once

#include "base/error.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdio.h>

struct http_url;

/* A model that brings no defaults is sampled at temperature 1 with nothing cut off, which small ones do not bear. */
#define CHAT_TEMPERATURE 0.7
#define CHAT_TOP_P       0.9

struct chat_model {
    double temperature; /* as the user chose; negative: not at all. The same of */
    double top_p;
    char id[160];        /* "": the server does not say */
    bool brings_nothing; /* it says that the model has no sampling defaults of its own */
    char defaults[160];  /* those that it has, as "temperature 0.6, top_p 0.95"; "" */
};

/* Asks GET /v1/models. api_key may be NULL. Errors are those of a server that cannot be reached; one that answers otherwise
 * leaves the fields that it could fill as they are. */
NODISCARD enum status chat_model_ask(const struct http_url *url, const char *api_key,
                                     struct chat_model *model, struct error *error);

/* What is sent: the user's choice, else ours where the model brings nothing; negative: nothing. */
double chat_model_temperature(const struct chat_model *model);
double chat_model_top_p(const struct chat_model *model);

/* A line: what is sent, and what the model has where nothing is. */
void chat_model_say_sampling(const struct chat_model *model, FILE *out);

/* Two lines: the model's name and where it is served, and how it is sampled; nothing where there is no name. */
void chat_model_say(const struct chat_model *model, const char *server, FILE *out);
