/* model/text/template/template_kinds.h: the members behind struct template_kind, for template.c. */
#pragma once

#include "model/text/template/template.h"

extern const struct template_kind template_kind_jinja;
extern const struct template_kind template_kind_chatml;
extern const struct template_kind template_kind_chatglm;
extern const struct template_kind template_kind_baichuan;
