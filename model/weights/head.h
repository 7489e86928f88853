/* model/weights/head.h: which output head a folder means whose config.json ties it to the embedding
 * while its files hold one as well. */
#pragma once

#include "model/tensor.h"

struct model_config;
struct tensors;

/* Where the config ties the head and a tensor of a head is there all the same: equal bytes stay
 * tied, other ones make the head the model's own (config->tied_head becomes false) and come back, so
 * that a caller can say so. NULL: nothing contradicts the config. Reads both tensors to their first
 * difference and hands the pages back on the way. */
const struct tensor *head_untie(struct model_config *config, const struct tensors *tensors);
