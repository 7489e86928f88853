/* tools/cli/model/model_info.h: `tandem model info`: what a model is, from its files alone. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

struct model;

/* One fact a line, or one JSON object. */
void model_info_print(const struct model *model, bool json, FILE *out);
