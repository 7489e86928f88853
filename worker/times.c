#include "worker/times.h"

#include "base/buf.h"
#include "model/model.h"
#include "worker/config.h"
#include "worker/device/roofline.h"
#include "worker/step/forward.h"

#include <string.h>

static const struct step_kind {
    const char *name;
    struct roofline_step step;
    unsigned n_tokens; /* that a client gets or gives by such a step */
} loads[] = {
    {"decode of 1 at 512", {1, 1, 1, 512, 0}, 1},
    {"decode of 16 at 512", {16, 16, 16, 16 * 512.0, 0}, 1},
    {"decode of 64 at 512", {64, 64, 64, 64 * 512.0, 0}, 1},
    {"prefill of 512", {512, 1, 1, 0, 512 * 512 / 2.0}, 512},
};

/* Weights as they lie in memory: what is left beside head and embedding, over the weights of the layers. */
static void times_take_bytes(struct roofline_model *model, const struct model_config *config,
                             double n_bytes) {
    double plain = (model->n_head + (config->tied_head ? 0 : model->n_table)) * 2;
    double n = model->n_weights + model->n_experts * model->n_expert;
    double each = (n_bytes - plain) / n;
    if (each <= 0)
        return;
    model->weight_bytes = each;
    model->format = each < 0.8 ? EFFICIENCY_4 : each < 1.5 ? EFFICIENCY_8 : EFFICIENCY_16;
}

static void times_shape_of(struct roofline_shape *shape, const struct model_config *config) {
    uint32_t n_sparse = 0;
    for (uint32_t i = 0; i < config->n_layers; i++)
        n_sparse += config_is_moe_layer(config, i);
    bool sparse = n_sparse > config->n_layers / 2; /* a few dense layers among them count as one */
    *shape = (struct roofline_shape){
        .n_layers = config->n_layers,
        .dim = config->dim,
        .n_heads = config->n_heads,
        .n_kv_heads = config->n_kv_heads,
        .head_dim = config->head_dim,
        .ffn_dim = sparse ? config->moe.shared_dim : config->ffn_dim,
        .n_vocab = config->n_vocab,
        .n_experts = sparse ? config->moe.n_experts : 0,
        .n_active = sparse ? config->moe.n_active : 0,
        .expert_dim = sparse ? config->moe.expert_dim : 0,
        .bits = 16,
    };
}

static void times_append_terms(struct buf *out, const struct roofline_terms *terms, bool json) {
    const char *before = "";
    for (unsigned i = 0; i < ROOFLINE_TERMS; i++) {
        if (terms->us[i] <= 0)
            continue;
        buf_printf(out, json ? "%s\"%s\":%.3f" : "%s%s %.3f", before,
                   roofline_term_name((enum roofline_term)i), terms->us[i] / 1e3);
        before = json ? "," : ", ";
    }
}

static void times_append_load(struct buf *out, const struct roofline *roofline,
                              const struct step_kind *load, bool json) {
    struct roofline_terms terms;
    roofline_terms(&terms, roofline, &load->step);
    double ms = terms.total_us / 1e3 / load->n_tokens;
    const char *name = roofline->efficiencies.name;
    if (json)
        buf_printf(out,
                   "{\"efficiencies\":\"%s\",\"step\":\"%s\",\"ms_per_token\":%.4f,\"terms_ms\":{",
                   name, load->name, ms);
    else
        buf_printf(out, "%s, %s: %.3f ms per token (step: ", name, load->name, ms);
    times_append_terms(out, &terms, json);
    buf_puts(out, json ? "}}" : ")\n");
}

void times_append(struct buf *out, const struct config *config, const struct model *model,
                  const struct forward_bytes *bytes) {
    struct roofline roofline = {.device = device_find(config->device), .tp = config->tp};
    bool fast = strstr(config->backend, "-fast") != NULL;
    const char *const names[] = {"limit", fast ? "tandem-fast" : "tandem-exact"};
    struct roofline_shape shape;
    if (!roofline.device || bytes->facts.forced)
        return;
    times_shape_of(&shape, &model->config);
    roofline_model(&roofline.model, &shape);
    times_take_bytes(&roofline.model, &model->config, (double)bytes->weights * config->tp);
    roofline.model.kv_bytes =
        (double)forward_block_bytes(&bytes->facts) / KV_BLOCK_TOKENS * bytes->facts.n_layers;
    buf_puts(out, config->json ? ",\"steps\":[" : "");
    for (unsigned i = 0; i < 2; i++) {
        roofline.efficiencies = *efficiencies_find(names[i]);
        for (unsigned k = 0; k < sizeof loads / sizeof *loads; k++) {
            buf_puts(out, config->json && i + k > 0 ? "," : "");
            times_append_load(out, &roofline, &loads[k], config->json);
        }
    }
    buf_puts(out, config->json ? "]" : "");
}
