"""Writing and reading of safetensors files, of one file and of shards with their index.

The format (huggingface/safetensors, README): eight bytes little-endian length of a JSON header, the header
(`dtype`, `shape`, `data_offsets` from the end of the header for each name), the tensors' bytes, row-major.
"""
import json
import struct

import numpy as np

_NUMPY = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1", "BF16": "<u2"}
_NAMES = {np.dtype(text): name for name, text in _NUMPY.items() if name != "BF16"}


class Bf16:
    """A tensor in bfloat16: the upper halves of float32, rounded to the nearest even."""

    def __init__(self, values):
        bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
        self.bits = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        self.shape = self.bits.shape


def _bytes_of(tensor):
    if isinstance(tensor, Bf16):
        return "BF16", tensor.bits.tobytes()
    tensor = np.ascontiguousarray(tensor)
    return _NAMES[tensor.dtype], tensor.tobytes()


def write_file(path, tensors, header_edit=None):
    """tensors: name -> numpy array or Bf16. header_edit(header) may spoil the header before it is written."""
    header, parts, at = {"__metadata__": {"format": "pt"}}, [], 0
    for name, tensor in tensors.items():
        kind, raw = _bytes_of(tensor)
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [at, at + len(raw)]}
        parts.append(raw)
        at += len(raw)
    if header_edit:
        header_edit(header)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for raw in parts:
            out.write(raw)


def write_folder(folder, tensors, n_shards=1):
    """model.safetensors, or shards of about equal numbers of tensors with model.safetensors.index.json."""
    if n_shards == 1:
        write_file(folder / "model.safetensors", tensors)
        return
    names = list(tensors)
    bounds = [len(names) * i // n_shards for i in range(n_shards + 1)]
    where, total = {}, 0
    for i in range(n_shards):
        file = f"model-{i + 1:05}-of-{n_shards:05}.safetensors"
        part = {name: tensors[name] for name in names[bounds[i]:bounds[i + 1]]}
        write_file(folder / file, part)
        where.update({name: file for name in part})
        total += sum(len(_bytes_of(tensor)[1]) for tensor in part.values())
    index = {"metadata": {"total_size": total}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))


def _read_file(path):
    data = np.fromfile(path, dtype=np.uint8)
    size = struct.unpack("<Q", data[:8].tobytes())[0]
    header = json.loads(data[8:8 + size].tobytes())
    header.pop("__metadata__", None)
    tensors = {}
    for name, info in header.items():
        begin, end = info["data_offsets"]
        raw = data[8 + size + begin:8 + size + end].view(_NUMPY[info["dtype"]]).reshape(info["shape"])
        if info["dtype"] == "BF16":
            raw = (raw.astype(np.uint32) << 16).view(np.float32)
        tensors[name] = raw
    return tensors


def read_folder(folder):
    """Every tensor of a folder's safetensors files: name -> array (bfloat16 comes back as float32)."""
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return _read_file(folder / "model.safetensors")
    tensors = {}
    for file in sorted(set(json.loads(index.read_text())["weight_map"].values())):
        tensors.update(_read_file(folder / file))
    return tensors
