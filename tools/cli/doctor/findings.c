#include "tools/cli/doctor/findings.h"

#include "base/assert.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[FINDING_LEVELS] = {"ok", "warning", "fault"};

void findings_fini(struct findings *findings) {
    free(findings->all);
    *findings = (struct findings){0};
}

/* A line stays a line: names of files and other programs' words may hold control characters. */
static void doctor_make_printable(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

static bool doctor_finding_is_known(const struct findings *findings,
                                    const struct finding *finding) {
    for (unsigned i = 0; i < findings->n; i++)
        if (findings->all[i].level == finding->level &&
            strcmp(findings->all[i].subject, finding->subject) == 0 &&
            strcmp(findings->all[i].seen, finding->seen) == 0)
            return true;
    return false;
}

void findings_add(struct findings *findings, enum finding_level level, const char *subject,
                  const char *fix, const char *format, ...) {
    struct finding finding = {.level = level};
    va_list args;
    va_start(args, format);
    vsnprintf(finding.seen, sizeof finding.seen, format, args);
    va_end(args);
    snprintf(finding.subject, sizeof finding.subject, "%s", subject);
    snprintf(finding.fix, sizeof finding.fix, "%s", fix ? fix : "");
    doctor_make_printable(finding.seen);
    doctor_make_printable(finding.fix);
    if (doctor_finding_is_known(findings, &finding))
        return;
    struct finding *grown = reallocarray(findings->all, findings->n + 1, sizeof *findings->all);
    ASSERT(grown); /* a few kilobytes, before anything runs */
    findings->all = grown;
    findings->all[findings->n++] = finding;
}

unsigned findings_count(const struct findings *findings, enum finding_level level) {
    unsigned n = 0;
    for (unsigned i = 0; i < findings->n; i++)
        n += findings->all[i].level == level;
    return n;
}

bool findings_has(const struct findings *findings, enum finding_level level, const char *subject) {
    for (unsigned i = 0; i < findings->n; i++)
        if (findings->all[i].level == level && strcmp(findings->all[i].subject, subject) == 0)
            return true;
    return false;
}

static const char *doctor_plural(unsigned n) {
    return n == 1 ? "" : "s";
}

void findings_print(const struct findings *findings, struct findings_style style, FILE *out) {
    static const char *const colors[FINDING_LEVELS] = {"\033[32m", "\033[33m", "\033[1;31m"};
    const char *before_fix = style.on_lines ? "\n                         fix: " : "; fix: ";
    bool has_color = style.has_color;
    for (unsigned level = 0; level < FINDING_LEVELS; level++)
        for (unsigned i = 0; i < findings->n; i++) {
            const struct finding *finding = &findings->all[i];
            if (finding->level != level)
                continue;
            fprintf(out, "%s%-7s%s  %-15s %s%s%s\n", has_color ? colors[level] : "", words[level],
                    has_color ? "\033[0m" : "", finding->subject, finding->seen,
                    finding->fix[0] ? before_fix : "", finding->fix);
        }
    unsigned n_faults = findings_count(findings, FINDING_FAULT);
    unsigned n_warnings = findings_count(findings, FINDING_WARNING);
    fprintf(out, "%u looked at: %u fault%s, %u warning%s\n", findings->n, n_faults,
            doctor_plural(n_faults), n_warnings, doctor_plural(n_warnings));
}

void findings_print_json(const struct findings *findings, FILE *out) {
    json_t *all = json_array();
    for (unsigned i = 0; i < findings->n; i++) {
        const struct finding *finding = &findings->all[i];
        /* Names of files may be in any encoding: what is not UTF-8 would have no JSON. */
        json_t *seen = json_string(finding->seen);
        json_t *fix = json_string(finding->fix);
        json_array_append_new(all, json_pack("{s:s, s:s, s:o, s:o}", "level", words[finding->level],
                                             "subject", finding->subject, "seen",
                                             seen ? seen : json_string("(not UTF-8)"), "fix",
                                             fix ? fix : json_string("")));
    }
    json_t *root =
        json_pack("{s:b, s:i, s:i, s:o}", "ok", findings_count(findings, FINDING_FAULT) == 0,
                  "faults", (int)findings_count(findings, FINDING_FAULT), "warnings",
                  (int)findings_count(findings, FINDING_WARNING), "findings", all);
    json_dumpf(root, out, JSON_INDENT(2));
    fputc('\n', out);
    json_decref(root);
}
