/* tools/cli/doctor/findings.h: what `tandem doctor` found, and how it is printed. One thread. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

enum finding_level { FINDING_OK, FINDING_WARNING, FINDING_FAULT, FINDING_LEVELS };

struct finding {
    enum finding_level level;
    char subject[32]; /* "port" */
    char seen[512];   /* what was looked at, and what is so or is wrong */
    char fix[256];    /* "": nothing is to be done */
};

struct findings {
    struct finding *all; /* owned (n) */
    unsigned n;
};

void findings_fini(struct findings *findings);

/* Adds one; fix may be NULL. What was said before word by word is not said again. */
void findings_add(struct findings *findings, enum finding_level level, const char *subject,
                  const char *fix, const char *format, ...) __attribute__((format(printf, 5, 6)));

unsigned findings_count(const struct findings *findings, enum finding_level level);

bool findings_has(const struct findings *findings, enum finding_level level, const char *subject);

struct findings_style {
    bool on_lines; /* for eyes: the fix on a line of its own; else a line is a finding */
    bool has_color;
};

/* Worst last, where the eye is, then a line with the counts. */
void findings_print(const struct findings *findings, struct findings_style style, FILE *out);
void findings_print_json(const struct findings *findings, FILE *out);
