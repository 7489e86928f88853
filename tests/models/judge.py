"""When our engine's answers agree with the float64 model: what families_test.py asks of the engine, and of mutants.py's
models with one trap sprung, which it must refuse."""
import numpy as np

N_GREEDY = 32
EXACT, ROUNDED = 1e-5, 2e-2  # of the largest logit: float32 checkpoints; 16-bit and quantized ones
# A 16-bit engine may pick another expert where two router logits are this near: what follows says nothing.
ROUTER_TIE = 0.05


class Disagreement(AssertionError):
    pass


def tolerance_of(fmt):
    return EXACT if fmt == "f32" else ROUNDED


def relative(ours, truth, scale=None):
    """Of the largest logit: truth's own, or `scale`."""
    if not np.all(np.isfinite(ours)):
        return np.inf
    return float(np.abs(ours - truth).max() / (scale or np.abs(truth).max()))


def check_greedy(model, ids, tokens, error, tie=0.0):
    """Each of the tokens must be the likeliest, or as near to it as `error` (absolute, of one logit) excuses; each is
    judged after the engine's own tokens before it, up to a router's choice closer than `tie`. Returns how many were."""
    assert len(tokens) == N_GREEDY, f"{len(tokens)} tokens"
    n_vocab = len(model.embedding)
    if not all(0 <= t < n_vocab for t in tokens):
        raise Disagreement(f"an id outside the vocabulary of {n_vocab}: {tokens}")
    rows = model.logits(ids + tokens[:-1], n_prompt=len(ids))[len(ids) - 1:]
    margins = model.router_margins(len(ids) + N_GREEDY - 1)
    for step, (row, token) in enumerate(zip(rows, tokens)):
        if margins[:len(ids) + step].min() < tie:
            return step
        gap = row.max() - row[token]
        if gap > 2 * error:
            raise Disagreement(f"greedy step {step} of {len(ids)} ids: {token} is {gap:.3g} below the best"
                               f" {row.argmax()}, more than twice the error {error:.3g}")
    return N_GREEDY


def agree(model, prompts, answers, tolerance, truths=None):
    """Raises Disagreement, or returns the largest relative error of any logit; truths: the model's logits, where the
    caller has them."""
    worst = 0.0
    for ids, answer, truth in zip(prompts, answers, truths or map(model.logits, prompts), strict=True):
        largest = np.abs(truth).max()
        errors = {"decode": relative(answer.rows, truth), "prefill": relative(answer.last, truth[-1], largest)}
        for what, error in errors.items():
            if not error <= tolerance:
                rows = np.abs(answer.rows - truth).max(1) / np.abs(truth).max()
                first = int(np.argmax(rows > tolerance)) if what == "decode" else len(ids) - 1
                raise Disagreement(f"{what} of {len(ids)} ids: error {error:.2e} > {tolerance:.0e},"
                                   f" first at position {first}")
        worst = max(worst, *errors.values())
        if answer.greedy is not None:
            # Later steps may err more than the prompt's did; none may err more than is allowed to a logit.
            slack = max(4 * max(errors.values()), EXACT)
            tie = 1e-4 if tolerance == EXACT else ROUTER_TIE
            check_greedy(model, ids, answer.greedy, min(slack, tolerance) * np.abs(truth).max(), tie)
    return worst


def same(answers, others):
    """float32 answers of two tensor-parallel sizes: logits to 1e-5, greedy ids equal."""
    for one, other in zip(answers, others, strict=True):
        error = relative(one.rows, other.rows)
        if not error <= EXACT:
            raise Disagreement(f"differs from TP 1 by {error:.2e}")
        if one.greedy != other.greedy:
            raise Disagreement(f"greedy ids differ from TP 1's: {one.greedy}, {other.greedy}")


def clear_prompts(model, config, lengths, make, tolerance):
    """Prompts of these lengths; for mixtures in 16 bits short ones, of many those whose experts are chosen most
    clearly."""
    if tolerance == EXACT or not model.has_router():
        return [make(config, n, 1) for n in lengths]

    def margin(ids):
        model.logits(ids)
        return model.router_margins(len(ids)).min()

    return [max((make(config, n, seed) for seed in range(1, 17)), key=margin) for n in (6, 10)]
