/* worker/times.h: how long steps of a model take on a named device, for --dry-run. */
#pragma once

struct buf;
struct config;
struct forward_bytes;
struct model;

/* Appends the times of some steps on --device, each with its terms: at the device's own rates ("limit") and at those of
 * this program's kernels. Lines of text, or with --json a member ("steps") that begins with a comma. Nothing where the
 * device has no row in worker/device/device.c, or the family computes nothing. */
void times_append(struct buf *out, const struct config *config, const struct model *model,
                  const struct forward_bytes *bytes);
