#include "worker/device/roofline.h"

#include <math.h>

#define FEW_TOKENS 16
#define MID_TOKENS 64
#define HEAD_BYTES 2.0 /* of a weight of the output head */
#define KV_BYTES   2.0 /* of a number of the KV cache */

static const char *const term_names[ROOFLINE_TERMS] = {
    "weights", "products",      "head", "KV",       "prompt attention",
    "sums",    "small kernels", "step", "sequences"};

const char *roofline_term_name(enum roofline_term term) {
    return term_names[term];
}

/* A scale and a zero point of 16 bits and `bits` for each group. */
static double roofline_bytes_of_weight(const struct roofline_shape *shape) {
    double scales = shape->group ? (16.0 + shape->bits) / shape->group : 0;
    return (shape->bits + scales) / 8;
}

void roofline_model(struct roofline_model *model, const struct roofline_shape *shape) {
    double dim = shape->dim, width = (double)shape->n_heads * shape->head_dim;
    double kv_width = (double)shape->n_kv_heads * shape->head_dim;
    double of_layer =
        dim * (2 * width + 2 * kv_width) + 3 * dim * shape->ffn_dim + dim * shape->n_experts;
    *model = (struct roofline_model){
        .n_layers = shape->n_layers,
        .dim = shape->dim,
        .n_heads = shape->n_heads,
        .n_kv_heads = shape->n_kv_heads,
        .head_dim = shape->head_dim,
        .n_weights = of_layer * shape->n_layers,
        .n_experts = shape->n_experts,
        .n_active = shape->n_active,
        .n_expert = 3 * dim * shape->expert_dim * shape->n_layers,
        .n_head = dim * shape->n_vocab,
        .n_table = dim * shape->n_vocab,
        .format = shape->bits <= 4   ? EFFICIENCY_4
                  : shape->bits <= 8 ? EFFICIENCY_8
                                     : EFFICIENCY_16,
        .weight_bytes = roofline_bytes_of_weight(shape),
        .kv_bytes = 2 * KV_BYTES * kv_width * shape->n_layers,
    };
}

static double roofline_unit_rate(const struct device *device, double unit) {
    const double rates[EFFICIENCY_UNITS] = {device->tensor_ops_s, device->mma_ops_s,
                                            device->int8_ops_s, device->float_ops_s};
    return rates[(unsigned)unit];
}

static double roofline_product_rate(const struct roofline *roofline, enum efficiency_format format,
                                    double n_tokens) {
    const struct efficiencies *own = &roofline->efficiencies;
    double share = n_tokens <= FEW_TOKENS   ? own->few[format]
                   : n_tokens <= MID_TOKENS ? own->mid[format]
                                            : own->many[format];
    return roofline_unit_rate(roofline->device, own->unit[format]) * share * roofline->tp;
}

/* Two bounds of which neither waits for the other; near where they meet they disturb each other. */
static double roofline_larger(double a, double b, double exponent) {
    return exponent > 0 && a > 0 && b > 0 ? pow(pow(a, exponent) + pow(b, exponent), 1 / exponent)
                                          : fmax(a, b);
}

/* Experts that a step of n tokens reads: each token chooses n_active of them. */
static double roofline_experts_read(const struct roofline_model *model, double n_tokens) {
    if (model->n_experts == 0)
        return 0;
    double missed = pow(1 - (double)model->n_active / model->n_experts, n_tokens);
    return model->n_experts * (1 - missed);
}

/* Small kernels take as long as the device's do, against those of the device that they were measured on. */
static double roofline_small_scale(const struct roofline *roofline) {
    const struct device *measured = device_find(roofline->efficiencies.device);
    return measured ? roofline->device->kernel_us / measured->kernel_us : 1;
}

static void roofline_add_products(struct roofline_terms *terms, const struct roofline *roofline,
                                  const struct roofline_step *step) {
    const struct roofline_model *model = &roofline->model;
    const struct efficiencies *own = &roofline->efficiencies;
    double copy = roofline->device->copy_bytes_s * roofline->tp, n = step->n_tokens;
    double read = copy * own->weights[model->format];
    double rate = roofline_product_rate(roofline, model->format, n);
    double experts = model->n_experts ? own->experts : 1;
    terms->us[ROOFLINE_WEIGHTS] =
        1e6 * model->weight_bytes *
        (model->n_weights / read +
         roofline_experts_read(model, n) * model->n_expert / (read * experts));
    /* One token's products are hidden behind its weights, on any device. */
    if (n > 1)
        terms->us[ROOFLINE_PRODUCTS] =
            2e6 * n *
            (model->n_weights / rate + model->n_active * model->n_expert / (rate * experts));
    double head_read = HEAD_BYTES * model->n_head / (copy * own->weights[EFFICIENCY_16]);
    double head_ops = step->n_sampled > 1
                          ? 2 * step->n_sampled * model->n_head /
                                roofline_product_rate(roofline, EFFICIENCY_16, step->n_sampled)
                          : 0;
    terms->us[ROOFLINE_HEAD] = step->n_sampled ? 1e6 * fmax(head_read, head_ops) : 0;
}

static void roofline_add_attention(struct roofline_terms *terms, const struct roofline *roofline,
                                   const struct roofline_step *step) {
    const struct roofline_model *model = &roofline->model;
    const struct efficiencies *own = &roofline->efficiencies;
    double shared = roofline->tp < model->n_kv_heads ? roofline->tp : model->n_kv_heads;
    double of_token = model->kv_bytes / shared; /* on each device */
    double heads = (double)model->n_heads / model->n_kv_heads;
    double read =
        of_token * (1 + own->kv_heads * (heads - 1)) / (roofline->device->copy_bytes_s * own->kv);
    terms->us[ROOFLINE_KV] = 1e6 * step->n_keys * read;
    double ops = 4.0 * model->n_heads * model->head_dim * model->n_layers;
    double rate =
        roofline_unit_rate(roofline->device, own->attend_unit) * own->attend * roofline->tp;
    terms->us[ROOFLINE_ATTEND] = 1e6 * step->n_pairs * ops / rate;
}

static void roofline_add_sums(struct roofline_terms *terms, const struct roofline *roofline,
                              const struct roofline_step *step) {
    const struct efficiencies *own = &roofline->efficiencies;
    const struct device *device = roofline->device;
    double tp = roofline->tp, n_sums = 2.0 * roofline->model.n_layers + 1;
    if (tp < 2)
        return;
    double bytes = (double)step->n_tokens * roofline->model.dim * own->sum_bytes;
    double share = device->link == DEVICE_NVLINK ? own->nvlink : own->pcie;
    /* A rank sends 2 (tp - 1) / tp of them and takes in as many; the link's rate is that of both. */
    double s = own->host_bytes_s > 0 ? bytes / own->host_bytes_s
                                     : bytes * 4 * (tp - 1) / tp / (device->link_bytes_s * share);
    terms->us[ROOFLINE_SUMS] = n_sums * (own->sum_us + 1e6 * s);
}

void roofline_terms(struct roofline_terms *terms, const struct roofline *roofline,
                    const struct roofline_step *step) {
    const struct efficiencies *own = &roofline->efficiencies;
    *terms = (struct roofline_terms){0};
    if (step->n_tokens == 0)
        return;
    roofline_add_products(terms, roofline, step);
    roofline_add_attention(terms, roofline, step);
    roofline_add_sums(terms, roofline, step);
    terms->us[ROOFLINE_LAYERS] =
        own->layer_us * roofline_small_scale(roofline) * roofline->model.n_layers;
    terms->us[ROOFLINE_STEP] = own->step_us;
    terms->us[ROOFLINE_SEQS] = own->seq_us * step->n_seqs;
    terms->total_us =
        roofline_larger(terms->us[ROOFLINE_WEIGHTS], terms->us[ROOFLINE_PRODUCTS], own->overlap);
    for (unsigned i = ROOFLINE_HEAD; i < ROOFLINE_TERMS; i++)
        terms->total_us += terms->us[i];
}

void roofline_add(double us[ROOFLINE_TERMS], const struct roofline_terms *terms) {
    bool reads = terms->us[ROOFLINE_WEIGHTS] >= terms->us[ROOFLINE_PRODUCTS];
    double rest_us = terms->total_us;
    for (unsigned i = ROOFLINE_HEAD; i < ROOFLINE_TERMS; i++) {
        us[i] += terms->us[i];
        rest_us -= terms->us[i];
    }
    us[reads ? ROOFLINE_WEIGHTS : ROOFLINE_PRODUCTS] += rest_us;
}

double roofline_weight_bytes(const struct roofline_model *model) {
    return (model->n_weights + model->n_experts * model->n_expert) * model->weight_bytes +
           (model->n_head + model->n_table) * HEAD_BYTES;
}

double roofline_kv_tokens(const struct roofline *roofline, double share, double spare_bytes) {
    const struct roofline_model *model = &roofline->model;
    double shared = roofline->tp < model->n_kv_heads ? roofline->tp : model->n_kv_heads;
    double room = (double)roofline->device->memory_bytes * share - spare_bytes -
                  roofline_weight_bytes(model) / roofline->tp;
    return room > 0 ? floor(room / (model->kv_bytes / shared)) : 0;
}
