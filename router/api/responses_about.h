/* router/api/responses_about.h: the members of a request of /v1/responses, and what /openapi.json says of them.
 *
 * responses_read.c reads by these rows. docs/http-api.md prints them (a test compares). Constant; any thread. */
#pragma once

#include "router/api/about.h"

#define RESPONSES_MEMBERS 51

/* In order of names, as strcmp() has it; one without a name is behind the last. */
extern const struct dialect_member responses_members[RESPONSES_MEMBERS + 1];
extern const struct dialect_about responses_about;

enum responses_use {
    RESPONSES_COPIED,  /* is the chat's field `as`, whose row has its bounds */
    RESPONSES_READ,    /* means what `says` says */
    RESPONSES_IDLE,    /* taken, and asks nothing of the answer */
    RESPONSES_REFUSED, /* a 400 that says why: `says`; null and false ask for nothing */
};

enum responses_use responses_use(const struct dialect_member *member);
