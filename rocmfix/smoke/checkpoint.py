"""Reads a checkpoint's headers and compares them with its config: what a server would load without a word."""

from __future__ import annotations

import contextlib
import json
import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rocmfix.errors import SmokeError
from rocmfix.model import Record

HEADER_LIMIT = 100 << 20
"""safetensors refuses longer headers too."""

PACKED = {"fp8": ("F8_E4M3", "F8_E5M2"), "quark": ("U8", "F8_E4M3", "I8"), "mxfp4": ("U8",), "awq": ("I32",)}
"""What the weights of a quantised checkpoint are stored as, by `quant_method`."""


class TensorHead(Record):
    """A tensor's name, type and shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class Checkpoint(Record):
    """A checkpoint's config facts and tensor headers."""

    folder: str
    architectures: tuple[str, ...]
    layers: int | None
    mtp_layers: int
    quant_method: str | None
    sizes: tuple[tuple[str, int], ...]
    tensors: tuple[TensorHead, ...]

    @property
    def mtp_tensors(self) -> tuple[TensorHead, ...]:
        """The MTP head: `mtp` in the name, or layers past the last one of the target (GLM, DeepSeek)."""
        return tuple(tensor for tensor in self.tensors if self._is_mtp(tensor.name))

    def size(self, name: str) -> int | None:
        return dict(self.sizes).get(name)

    def _is_mtp(self, name: str) -> bool:
        layer = re.search(r"\bmodel\.layers\.(\d+)\.", name)
        past = bool(layer and self.layers is not None and int(layer[1]) >= self.layers)
        return past or bool(re.search(r"(^|\.)mtp(_|\.|$)", name))


def stray(folder: Path) -> Path | None:
    """A file of the checkpoint that is a link out of its folder, as in a Hugging Face cache: a mount lacks it."""
    home = folder.resolve()
    return next((file for file in sorted(folder.iterdir()) if not file.resolve().is_relative_to(home)), None)


_SIZES = ("hidden_size", "vocab_size", "intermediate_size", "moe_intermediate_size")


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """Headers and config of the checkpoint in `folder`; None when it holds no safetensors."""
    shards = sorted(folder.glob("*.safetensors"))
    if not shards:
        return None
    tensors = tuple(head for shard in shards for head in _heads(shard))
    with _reading(folder / "config.json"):
        return _described(folder, json.loads((folder / "config.json").read_text(encoding="utf-8")), tensors)


@contextlib.contextmanager
def _reading(file: Path) -> Iterator[None]:
    """Turn whatever a cut, foreign or hostile file breaks in here into one error that names it."""
    try:
        yield
    except OSError as error:
        raise SmokeError(f"{file} cannot be read: {error.strerror}", hint=_HINT) from error
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        first = (str(error) or type(error).__name__).splitlines()[0]
        raise SmokeError(f"{file} is not a checkpoint's: {first[:200]}", hint=_HINT) from error


_HINT = "a Git LFS pointer, a broken link or a cut download? fetch the checkpoint again"


def _described(folder: Path, config: Any, tensors: tuple[TensorHead, ...]) -> Checkpoint:
    text = config.get("text_config") or config
    quant = config.get("quantization_config") or text.get("quantization_config") or {}
    return Checkpoint(
        folder=str(folder),
        architectures=tuple(config.get("architectures") or ()),
        layers=text.get("num_hidden_layers"),
        mtp_layers=int(text.get("num_nextn_predict_layers") or text.get("mtp_num_hidden_layers") or 0),
        quant_method=quant.get("quant_method"),
        sizes=tuple((name, int(text[name])) for name in _SIZES if isinstance(text.get(name), int)),
        tensors=tensors,
    )


def mismatches(checkpoint: Checkpoint) -> tuple[str, ...]:
    """Where tensors have another size than the config says. Packed weights are left out: their shape is halved."""
    return tuple(
        f"{head.name} has {head.shape[axis]}, config.json says {name} = {wanted}"
        for head in checkpoint.tensors
        for suffix, axis, name in _PLACES
        if head.name.endswith(suffix) and head.dtype in {"BF16", "F16", "F32"} and len(head.shape) == 2
        if (wanted := checkpoint.size(name)) is not None and head.shape[axis] != wanted
    )


def unpacked_claim(checkpoint: Checkpoint) -> str | None:
    """A quantisation the config claims and no tensor has: sglang loads it, and every answer is token 0."""
    packed = PACKED.get(checkpoint.quant_method or "")
    if packed is None or any(head.dtype in packed for head in checkpoint.tensors):
        return None
    types = ", ".join(sorted({head.dtype for head in checkpoint.tensors}))
    return f"config.json says {checkpoint.quant_method}, the tensors are {types}"


# Dense MLP only: an expert's width has its own key, and a shared expert's is a multiple of it.
_PLACES = (
    ("embed_tokens.weight", 0, "vocab_size"),
    ("embed_tokens.weight", 1, "hidden_size"),
    ("lm_head.weight", 0, "vocab_size"),
    (".self_attn.q_proj.weight", 1, "hidden_size"),
    ("layers.0.mlp.gate_proj.weight", 0, "intermediate_size"),
    ("layers.0.mlp.up_proj.weight", 0, "intermediate_size"),
    ("layers.0.mlp.down_proj.weight", 1, "intermediate_size"),
)


def _heads(shard: Path) -> tuple[TensorHead, ...]:
    if not shard.is_file():  # a pipe would be waited for
        raise SmokeError(f"{shard} is not a file", hint=_HINT)
    with _reading(shard), shard.open("rb") as file:
        length = file.read(8)
        size = struct.unpack("<Q", length)[0] if len(length) == 8 else HEADER_LIMIT + 1
        if size > HEADER_LIMIT:
            raise ValueError("a safetensors file begins with the length of its header")
        header: Mapping[str, Any] = json.loads(file.read(size))
        return tuple(
            TensorHead(name=name, dtype=entry["dtype"], shape=tuple(entry["shape"]))
            for name, entry in header.items()
            if name != "__metadata__"
        )
