#!/usr/bin/env python3
"""GGUF files in parts, as the package `gguf` cuts them: the same model as the whole file, from any of them and from their
folder; and every set that is not whole, and every model of any format that lacks a tensor, is refused alike by `model info`,
`doctor`, `--dry-run` and `up`, with one line."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cluster import BIN, ROOT, TOOLS, Cluster, Tally, get_json, post_json

sys.path.insert(0, str(ROOT))
try:
    from tests.models import checkpoints, tiny_gguf
except ImportError as error:
    tally = Tally()
    tally.skip("parts of GGUF", error)
    sys.exit(tally.end())

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + 64 * "0" + "\nsize 9\n"


def cut(to, n_tensors, small_first=False):
    """Writes the model of main() in parts of `n_tensors` each; their paths come back."""
    tiny_gguf.write(str(to), "q8_0", split_max_tensors=n_tensors, small_first_shard=small_first)
    return sorted(to.parent.glob(to.stem + "-*-of-*.gguf"))


def output(*command, **more):
    done = subprocess.run([*map(str, command)], capture_output=True, timeout=60, **more)
    assert done.returncode == 0, (command, done.returncode, done.stderr[-500:])
    return done.stdout


def seen_of(model):
    """Logits, tokens, plan and sizes: what four programs read of it."""
    ids = json.dumps({"ids": [7, 5, 3, 2, 11], "binary": True, "all": True}).encode()
    info = json.loads(output(BIN / "tandem", "model", "info", "--json", model))
    plan = json.loads(output(BIN / "tandem-worker", "--dry-run", "--json", "--model", model))
    plan.pop("available_bytes")
    info.pop("name")
    return {"logits": output(TOOLS / "logits_cli", model, input=ids), "info": info, "plan": plan,
            "ids": output(BIN / "tandem", "model", "tokenize", model, input=b'"hello <s> world"\n')}


def same_as_whole(whole, n_tensors, small_first=False):
    expected = seen_of(whole)
    assert expected["info"]["tensors"] == 21 and len(expected["logits"]) > 1000, expected["info"]
    with tempfile.TemporaryDirectory() as scratch:
        parts = cut(Path(scratch) / "tiny.gguf", n_tensors, small_first)
        for model in (*parts, scratch):
            seen = seen_of(model)
            assert seen == expected, [(key, seen[key], expected[key]) for key in seen if seen[key] != expected[key]]
        text = output(BIN / "tandem", "model", "info", parts[-1]).decode()
        assert f"files         gguf, {len(parts)} parts\n" in text and "name          tiny\n" in text, text
        return f"{len(parts)} parts"


def served_from_a_hub_cache(whole, folder):
    """Router and workers read the set by its id; a request gives the ids of the whole file."""
    snapshot = folder / "models--acme--tiny/snapshots/0123"
    blobs = folder / "models--acme--tiny/blobs"
    snapshot.mkdir(parents=True)
    for i, part in enumerate(cut(folder / "tiny.gguf", 9)):
        blobs.mkdir(exist_ok=True)
        part.rename(blobs / str(i))
        (snapshot / part.name).symlink_to(f"../../blobs/{i}")
    answers = []
    for model in (whole, "acme/tiny"):
        with Cluster("--mixed", 1, model=model, env={"HF_HUB_CACHE": str(folder)}) as up:
            name = get_json(up.port, "/v1/models")["data"][0]["id"]
            answer = post_json(up.port, "/v1/completions", {"prompt": [1, 2, 3], "max_tokens": 20, "temperature": 0,
                                                            "return_token_ids": True})
            answers.append((name, answer["choices"][0]["token_ids"]))
    assert [name for name, _ in answers] == [Path(whole).stem, "acme/tiny"] and answers[0][1] == answers[1][1], answers
    assert len(answers[0][1]) > 2, answers


def refusals(model):
    """The line of each program, without its prefix."""
    lines = {}
    for program, command in (("info", [BIN / "tandem", "model", "info"]),
                             ("plan", [BIN / "tandem-worker", "--dry-run", "--model"]),
                             ("up", [BIN / "tandem", "up", "--listen", "127.0.0.1:0", "--model"])):
        done = subprocess.run([*command, model], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert done.returncode == 78 and len(errors) == 1, (program, done)
        lines[program] = errors[0][len("error: "):].removesuffix("; a later start may succeed")
    done = subprocess.run([BIN / "tandem", "doctor", "--json", model], capture_output=True, text=True, timeout=60)
    faults = [f for f in json.loads(done.stdout)["findings"] if f["level"] == "fault" and f["subject"] == "model"]
    assert done.returncode == 1 and len(faults) == 1, done
    lines["doctor"] = faults[0]["seen"]
    return lines, faults[0]["fix"]


def refused(spoil, words, fix):
    """spoil(parts, scratch): what is named then, and the file that is to blame."""
    with tempfile.TemporaryDirectory() as scratch:
        parts = cut(Path(scratch) / "tiny.gguf", 8)
        assert len(parts) == 3
        model, blamed = spoil(parts, Path(scratch))
        lines, told = refusals(model)
        line = lines["info"]
        assert set(lines.values()) == {line}, lines
        assert line.startswith(f"{blamed}: ") and words in line, line
        assert fix in told, told


def missing(i):
    def spoil(parts, scratch):
        parts[i].unlink()
        return scratch, parts[i]
    return spoil


def shorter(parts, scratch):
    os.truncate(parts[2], parts[2].stat().st_size - 32)
    return parts[0], parts[2]


def pointer(parts, scratch):
    parts[1].write_text(POINTER)
    return parts[0], parts[1]


def other_set(parts, scratch):
    (scratch / "other").mkdir()
    shutil.copy(cut(scratch / "other/tiny.gguf", 7)[1], parts[1])  # of three too
    return parts[2], parts[0]


def swapped(parts, scratch):
    parts[1].rename(scratch / "x")
    parts[2].rename(parts[1])
    (scratch / "x").rename(parts[2])
    return scratch, parts[1]


def renamed(parts, scratch):
    parts[0].rename(scratch / "model.gguf")
    return scratch / "model.gguf", scratch / "model.gguf"


def two_sets(_, scratch):
    cut(scratch / "another.gguf", 11)
    return scratch, scratch


def renamed_tensor(path, name):
    """The file holds a tensor of another name in its place."""
    data = path.read_bytes()
    at = data.index(name.encode())
    path.write_bytes(data[:at] + name.upper().encode() + data[at + len(name):])


def lacks(form, name):
    """One tensor is not there: `form` is "whole", "parts", or a family and format of the hubs."""
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(scratch) / "tiny"
        if form == "parts":
            for part in cut(model, 8):
                if name.encode() in part.read_bytes():
                    renamed_tensor(part, name)
            model = Path(scratch)
        elif form == "whole":
            model = model.with_suffix(".gguf")
            tiny_gguf.write(str(model), "q8_0")
            renamed_tensor(model, name)
        else:
            checkpoints.write(model, *form, edit=lambda _, tensors: tensors.pop(name))
        lines, fix = refusals(model)
        assert set(lines.values()) == {f"tiny: tensor {name} is missing"}, lines
        assert "some of its files are missing" in fix, fix


def main():
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole.gguf"
        tiny_gguf.write(str(whole), "q8_0")
        for n_tensors, small_first in ((8, False), (20, False), (1, False), (8, True)):
            tally.run(f"same_as_whole_{n_tensors}{'_small_first' * small_first}", same_as_whole, whole, n_tensors, small_first)
        tally.run("served_from_a_hub_cache", served_from_a_hub_cache, whole, Path(folder))
        parts = "fetch all parts of one file into one folder"
        for name, spoil, words, fix in (
                ("first_missing", missing(0), "part 1 of 3 is missing", parts),
                ("last_missing", missing(2), "part 3 of 3 is missing", parts),
                ("cut_short", shorter, "reaches past the file's end", "damaged or cut short"),
                ("a_pointer", pointer, "Git LFS", "git lfs pull"),
                ("another_set", other_set, "split.tensors.count is 21, but the 3 parts have 20", parts),
                ("swapped", swapped, "part 3 of 3 by its keys (split.no, split.count)", parts),
                ("renamed", renamed, "so its name has to end in -00001-of-00003.gguf", parts),
                ("two_sets", two_sets, "name one of them (another-00001-of-00002.gguf, tiny-00001-of-00003.gguf)", "")):
            tally.run(name, refused, spoil, words, fix)
        for form, name in (("whole", "output_norm.weight"), ("whole", "blk.1.ffn_down.weight"), ("parts", "blk.0.attn_k.weight"),
                           (("llama", "f16"), "model.norm.weight"),
                           (("llama", "awq-g32"), "model.layers.0.self_attn.q_proj.scales"),
                           (("qwen2", "f16"), "model.layers.1.self_attn.v_proj.bias"),
                           (("qwen2_moe", "f16"), "model.layers.1.mlp.experts.7.down_proj.weight"),
                           (("chatglm", "gptq4-g32"), "transformer.encoder.layers.0.mlp.dense_4h_to_h.qzeros")):
            tally.run(f"lacks_{name}", lacks, form, name)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
