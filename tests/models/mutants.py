"""The traps of serving these families, each as a mutant of the float64 model with the trap sprung, and the case of
families_test.py that would catch it. Trap.prove() shows that the judge refuses the mutant's answers on that case.

Traps that only tensor parallelism can spring are mutants of what all ranks together would compute.
"""
import copy
import tempfile
from pathlib import Path

import numpy as np

from tests.models import cases, checkpoints, judge, numpy_models, packing
from tests.models.cases import Case
from tests.models.engine import Answers
from tests.models.numpy_models import Linear, Mlp, Moe


class Trap:
    """mutate(model, folder) changes a copy of the case's model; with `greedy` only the continuation can show it."""

    def __init__(self, name, variant, fmt, mutate, greedy=False):
        self.name, self.case, self.mutate, self.greedy = name, Case(variant, fmt), mutate, greedy

    def prove(self):
        with tempfile.TemporaryDirectory() as folder:
            _, config, model = self.case.make(Path(folder))
            wrong = copy.deepcopy(model)
            self.mutate(wrong, Path(folder))
            tolerance = judge.tolerance_of(self.case.fmt)
            prompts = judge.clear_prompts(model, config, cases.LENGTHS, checkpoints.prompt_ids, tolerance)
            answers = []
            for ids in prompts:
                rows = wrong.logits(ids)
                answers.append(Answers(rows, rows[-1], wrong.greedy(ids, judge.N_GREEDY) if self.greedy else None))
            try:
                error = judge.agree(model, prompts, answers, tolerance)
            except judge.Disagreement as why:
                return why
            raise AssertionError(f"not seen: error {error:.1e} within {tolerance:.0e}")


def _each(change):
    """A mutation of every layer."""
    def mutate(model, _):
        for layer in model.layers:
            change(model, layer)
    return mutate


def _set(**values):
    def mutate(model, _):
        for name, value in values.items():
            assert hasattr(model, name), name
            setattr(model, name, value)
    return mutate


def _reload(patch):
    """The folder read again with one function of packing.py or Checkpoint replaced."""
    def mutate(model, folder):
        with patch():
            model.__dict__.update(numpy_models.load(folder).__dict__)
    return mutate


class _replaced:
    def __init__(self, owner, name, value):
        self.owner, self.name, self.value = owner, name, value

    def __enter__(self):
        self.kept = getattr(self.owner, self.name)
        setattr(self.owner, self.name, self.value)

    def __exit__(self, *_):
        setattr(self.owner, self.name, self.kept)


# ---- Qwen ---------------------------------------------------------------------------------------------------------

def swap_gate_up(_, layer):
    layer.mlp.gate, layer.mlp.up = layer.mlp.up, layer.mlp.gate


def logn_off_by_one(model, _):
    def factor(n):
        p = np.maximum(np.arange(n), 1.0)
        return np.where(p > model.logn_from, np.log(p) / np.log(model.logn_from), 1.0)
    model.query_factor = factor


def logn_on_keys(model, _):
    model.key_factor, model.query_factor = model.query_factor, lambda n: np.ones(n)


def ntk_per_step(model, _):
    """Every decoded token under the factor of the length so far."""
    plain = model.logits
    model.logits = lambda ids, n_prompt=None: plain(ids, len(ids))


def ntk_of_the_maximum(model, _):
    plain = model.frequencies
    model.frequencies = lambda n_prompt: plain(256)


# ---- rotary, masks, slopes ------------------------------------------------------------------------------------------

def all_dims(model, _):
    model.rotary_dims, model.wave_dims = model.head_dim, None


def even_half(model, _):
    """The pair that reaches past an odd half of a head left out."""
    model.rotary_dims -= 2


def no_scaling(model, _):
    model.scaling = {}


def yarn_without_factor(model, _):
    plain = model.frequencies
    model.frequencies = lambda n_prompt: (plain(n_prompt)[0], 1.0)


def slopes_of_n(model, _):
    model.slopes = 2.0 ** (-8 * np.arange(1, model.n_heads + 1) / model.n_heads)


def slopes_of_next_power(model, _):
    c = 1 << model.n_heads.bit_length()
    model.slopes = 2.0 ** (-8 * np.arange(1, model.n_heads + 1) / c)


def slopes_of_local_heads(model, _):
    """Each of two ranks takes the first slopes."""
    model.slopes = np.tile(model.slopes[:model.n_heads // 2], 2)


def norm_after_rope(model, _):
    rms, rotate = model.rms, model.rotate
    gains = {id(g): g for layer in model.layers for g in (layer.q_norm, layer.k_norm)}
    pending = []

    def late(x, gain):
        if id(gain) in gains:
            pending.append(gain)
            return x
        return rms(x, gain)
    model.rms = late
    model.rotate = lambda x, n_prompt: rms(rotate(x, n_prompt), pending.pop(0))


def no_head_norm(model, folder):
    model.head = numpy_models.Checkpoint(folder).array("lm_head.weight")


def head_norm(model, _):
    model.head = model.head / np.linalg.norm(model.head, axis=1, keepdims=True)


# ---- mixtures -------------------------------------------------------------------------------------------------------

def renormalise(_, layer):
    layer.mlp.renormalise = not layer.mlp.renormalise


def experts_swapped(_, layer):
    """The second rank's experts in another order."""
    layer.mlp.experts = layer.mlp.experts[:6] + layer.mlp.experts[:5:-1]


def softmax_after_choice(_, layer):
    mlp = layer.mlp

    def weights(logits):
        bound = -np.sort(-logits, axis=-1)[:, mlp.n_chosen - 1:mlp.n_chosen]
        return numpy_models.softmax(np.where(logits >= bound, logits, -np.inf))
    mlp.weights = weights


def shared_ungated(_, layer):
    layer.mlp.shared_gate = Linear(np.zeros_like(layer.mlp.shared_gate.weight), np.array([50.0]))


def no_shared(_, layer):
    layer.mlp.shared = Mlp(lambda x: x, lambda x: x, lambda x: 0.0)


# ---- tensor parallelism ---------------------------------------------------------------------------------------------

def fused_cut_first(model, layer):
    """Rank r of two takes half r of the rows of q|k|v and splits that: it believes its q, k, v lie there."""
    sizes = [len(part.weight) for part in (layer.q, layer.k, layer.v)]
    rows = np.concatenate([part.weight for part in (layer.q, layer.k, layer.v)])
    bias = None if layer.q.bias is None else np.concatenate([part.bias for part in (layer.q, layer.k, layer.v)])
    half, at, parts = sum(sizes) // 2, 0, []
    for size in sizes:
        index = np.concatenate([r * half + at + np.arange(size // 2) for r in range(2)])
        parts.append(Linear(rows[index], None if bias is None else bias[index]))
        at += size // 2
    layer.q, layer.k, layer.v = parts


def kv_by_remainder(model, _):
    """8 q heads, 2 kv heads at TP4: rank r takes kv head r % 2 instead of r / 2."""
    model.kv_head = lambda head: (head // 2) % 2


def even_groups(_, layer):
    """Three groups over two ranks, the second's scales taken one group off: its rows change places."""
    weight = layer.mlp.down.weight
    third = weight.shape[1] // 3
    layer.mlp.down = Linear(np.concatenate([weight[:, :third], weight[:, 2 * third:], weight[:, third:2 * third]], 1))


def bias_on_every_rank(_, layer):
    layer.o = Linear(layer.o.weight, 2 * layer.o.bias)


# ---- packings -------------------------------------------------------------------------------------------------------

def _awq_place(place):
    return lambda: _replaced(packing, "AWQ_PLACE", place)


def _gptq(change):
    plain = packing.gptq_weight
    return lambda: _replaced(packing, "gptq_weight", lambda parts, *rest: change(plain, dict(parts), *rest))


def _awq_plus_one():
    plain = packing.awq_weight
    return _replaced(packing, "awq_weight",
                     lambda parts: plain(parts) - np.repeat(np.asarray(parts["scales"], dtype=np.float64),
                                                            len(parts["qweight"]) // len(parts["scales"]), 0).T)


def other_version(plain, parts, bits, v2, group):
    return plain(parts, bits, not v2, group)


def masked_per_field(plain, parts, bits, v2, group):
    words, mask = parts["qzeros"].view(np.uint32), (1 << bits) - 1
    fields = [(((words >> np.uint32(bits * k)) & mask) + 1) & mask for k in range(32 // bits)]
    parts["qzeros"] = packing.pack_last(np.stack(fields, -1).reshape(len(words), -1), bits)
    return plain(parts, bits, True, group)


def no_g_idx(plain, parts, *rest):
    return plain({n: p for n, p in parts.items() if n != "g_idx"}, *rest)


def zero_g_idx(plain, parts, bits, v2, group):
    n_in = parts["qweight"].shape[0] * 32 // bits
    shift = np.zeros(n_in, dtype=np.int32)
    shift[-1] = len(parts["scales"]) - 1  # all zero as written, but for the one that keeps the rule from seeing it
    return plain({**parts, "g_idx": shift}, bits, v2, group)


def one_order_for_all(plain, parts, *rest):
    """Every linear of a layer under the order of the first that was read with as many inputs."""
    first = one_order_for_all.seen.setdefault(len(parts["g_idx"]), parts["g_idx"])
    return plain({**parts, "g_idx": first}, *rest)


one_order_for_all.seen = {}


TRAPS = [
    Trap("qwen_w1_w2_swapped", "qwen", "f32", _each(swap_gate_up)),
    Trap("qwen_logn_off_by_one", "qwen", "f32", logn_off_by_one),
    Trap("qwen_logn_on_keys", "qwen", "f32", logn_on_keys),
    Trap("qwen_logn_missing", "qwen", "f32", _set(logn_from=None)),
    Trap("qwen_ntk_missing", "qwen", "f32", _set(ntk_from=None)),
    Trap("qwen_ntk_per_step", "qwen", "f32", ntk_per_step, greedy=True),
    Trap("qwen_ntk_of_the_maximum", "qwen", "f32", ntk_of_the_maximum),
    Trap("qwen_logn_where_it_is_off", "qwen-plain", "f32", _set(logn_from=16)),
    Trap("qwen_fused_cut_before_splitting", "qwen", "bf16", _each(fused_cut_first)),
    Trap("chatglm_rotary_on_all_dims", "chatglm", "f32", all_dims),
    Trap("chatglm_rotary_half_split", "chatglm", "f32", _set(layout="half")),
    Trap("chatglm_odd_half_without_its_last_pair", "chatglm-odd", "f32", even_half),
    Trap("chatglm_odd_half_over_the_pairs", "chatglm-odd", "f32", _set(wave_dims=26)),
    Trap("chatglm_gate_and_up_swapped", "chatglm", "f32", _each(swap_gate_up)),
    Trap("chatglm_fused_cut_before_splitting", "chatglm", "f32", _each(fused_cut_first)),
    Trap("chatglm_rope_ratio_ignored", "chatglm-ratio", "f32", _set(theta=10000.0)),
    Trap("baichuan_six_slopes_as_if_a_power_of_two", "baichuan", "f32", slopes_of_n),
    Trap("baichuan_five_slopes_as_if_a_power_of_two", "baichuan-5", "f32", slopes_of_n),
    Trap("baichuan_slopes_of_the_next_power", "baichuan-24", "f32", slopes_of_next_power),
    Trap("baichuan_slopes_by_local_head", "baichuan", "f32", slopes_of_local_heads),
    Trap("baichuan_slopes_missing", "baichuan", "f32", _set(slopes=None)),
    Trap("baichuan_rotary_as_well", "baichuan", "f32", _set(layout="half")),
    Trap("baichuan_head_not_normalised", "baichuan", "f32", no_head_norm),
    Trap("baichuan_first_head_normalised", "baichuan-first", "f16", head_norm),
    Trap("baichuan_fused_cut_before_splitting", "baichuan", "f32", _each(fused_cut_first)),
    Trap("moe_renormalised", "qwen2_moe", "f32", _each(renormalise)),
    Trap("moe_not_renormalised", "qwen2_moe-renorm", "f32", _each(renormalise)),
    Trap("moe_softmax_over_the_chosen", "qwen2_moe", "f32", _each(softmax_after_choice)),
    Trap("moe_experts_in_another_order", "qwen2_moe", "f32", _each(experts_swapped)),
    Trap("moe_shared_expert_ungated", "qwen2_moe", "f32", _each(shared_ungated)),
    Trap("moe_shared_expert_missing", "qwen2_moe", "bf16", _each(no_shared)),
    Trap("kv_replication", "llama", "f32", kv_by_remainder),
    Trap("kv_replication_of_chatglm", "chatglm", "f32", kv_by_remainder),
    Trap("uneven_groups", "llama", "awq-g128", _each(even_groups)),
    Trap("output_bias_added_by_every_rank", "llama-bias", "f32", _each(bias_on_every_rank)),
    Trap("awq_nibbles_in_natural_order", "llama", "awq-g32", _reload(_awq_place(tuple(range(8))))),
    Trap("awq_nibbles_by_the_packing_order", "llama", "awq-g32", _reload(_awq_place(packing.AWQ_ORDER))),
    Trap("awq_zero_plus_one", "llama", "awq-g32", _reload(_awq_plus_one)),
    Trap("gptq_v1_without_plus_one", "llama", "gptq4-g32-asym", _reload(_gptq(other_version))),
    Trap("gptq_v2_with_plus_one", "llama", "gptq4-g32-v2", _reload(_gptq(other_version))),
    Trap("gptq8_v2_with_plus_one", "llama", "gptq8-g32-v2", _reload(_gptq(other_version))),
    Trap("gptq_v1_zero_that_wrapped", "llama", "gptq4-g32-wrapped", _reload(_gptq(masked_per_field))),
    Trap("gptq8_v1_zero_that_wrapped", "llama", "gptq8-g32-wrapped", _reload(_gptq(masked_per_field))),
    Trap("gptq_order_ignored", "llama", "gptq4-g32-act", _reload(_gptq(no_g_idx))),
    Trap("gptq_one_order_for_all", "llama", "gptq4-g32-act-own", _reload(_gptq(one_order_for_all))),
    Trap("gptq_zero_g_idx_believed", "llama", "gptq4-g32-zeroidx", _reload(_gptq(zero_g_idx))),
    Trap("window_ignored", "mistral", "f32", _set(window=None)),
    Trap("window_one_too_wide", "mistral", "f32", _set(window=17)),
    Trap("window_used_where_it_is_off", "qwen2", "f32", _set(window=8, window_layers=1)),
    Trap("window_in_every_layer", "qwen2-window", "f32", _set(window_layers=0)),
    Trap("qwen2_bias_missing", "qwen2", "f32", _each(lambda _, layer: setattr(layer.q, "bias", None))),
    Trap("qwen3_norms_missing", "qwen3", "f32", _each(lambda _, layer: setattr(layer, "q_norm", None))),
    Trap("qwen3_norms_after_rope", "qwen3", "f32", norm_after_rope),
    Trap("scaling_llama3_ignored", "llama-rope-llama3", "f32", no_scaling),
    Trap("scaling_linear_ignored", "llama-rope-linear", "f32", no_scaling),
    Trap("scaling_yarn_ignored", "llama-rope-yarn", "f32", no_scaling),
    Trap("scaling_yarn_without_its_factor", "llama-rope-yarn", "f32", yarn_without_factor),
    Trap("scaling_dynamic_ignored", "llama-rope-dynamic", "f32", no_scaling),
    Trap("gguf_llama_half_split", "gguf-llama", "f32", _set(layout="half")),
    Trap("gguf_qwen2_interleaved", "gguf-qwen2", "f32", _set(layout="interleaved")),
]
