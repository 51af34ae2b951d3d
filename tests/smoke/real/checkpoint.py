"""Writes a tiny MiMo checkpoint with an MTP head whose acceptance is known exactly; standard library only.

Every token is its own axis of the hidden space, so `lm_head` can hold any map from a token to the next one,
and the MTP head's projection any map of its own. Attention and MLP are small noise: all kernels do real work.
"""

from __future__ import annotations

import json
import random
import struct
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

HIDDEN, VOCAB, HEADS, HEAD_DIM, INNER = 512, 320, 2, 64, 128
END, PAD = 256, 259
SPECIAL = {"<|endoftext|>": END, "<|im_start|>": 257, "<|im_end|>": 258, "<|pad|>": PAD}
PEAKED, SOFT = 1.1, 0.22  # lm_head scale: at SOFT the best token has about a third of the probability

Tensor = tuple[tuple[int, ...], "array[float]"]


def following(token: int) -> int:
    """The target's map: the alphabet in a circle with a space, the digits once, anything else to `a`."""
    if ord("a") <= token < ord("z") or ord("0") <= token < ord("9"):
        return token + 1
    return {ord("z"): ord(" "), ord("9"): END}.get(token, ord("a"))


HEADS_KNOWN: dict[str, Callable[[int], bool]] = {
    "always": lambda _: True,
    "never": lambda _: False,
    "partial": lambda token: token not in set(b"dhlptx"),
}


def write(
    folder: Path,
    *,
    head: str = "always",
    sharpness: float = PEAKED,
    config: dict[str, object] | None = None,
) -> Path:
    """Make the checkpoint; `head` is always, partial, never, or none (the MTP tensors are left out)."""
    folder.mkdir(parents=True)
    tensors = dict(_target(sharpness))
    if head != "none":
        tensors |= dict(_mtp(HEADS_KNOWN[head]))
    (folder / "model.safetensors").write_bytes(safetensors(tensors))
    _json(folder / "config.json", CONFIG | (config or {}))
    _json(folder / "tokenizer.json", _tokenizer())
    _json(folder / "tokenizer_config.json", TOKENIZER_CONFIG)
    _json(folder / "generation_config.json", {"eos_token_id": [END], "pad_token_id": PAD, "do_sample": False})
    return folder


def safetensors(tensors: dict[str, Tensor]) -> bytes:
    """The safetensors container: a JSON header with shapes and offsets, then the values as bfloat16."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    blobs, at = [], 0
    for name, (shape, values) in tensors.items():
        blob = _bfloat16(values)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(blobs)


def _bfloat16(values: array[float]) -> bytes:
    single = values.tobytes()
    half = bytearray(len(single) // 2)
    half[0::2], half[1::2] = single[2::4], single[3::4]
    return bytes(half)


def _target(sharpness: float) -> Iterator[tuple[str, Tensor]]:
    axis = HIDDEN**0.5
    yield "model.embed_tokens.weight", _placed((VOCAB, HIDDEN), ((t, t, axis) for t in range(VOCAB)))
    yield "lm_head.weight", _placed((VOCAB, HIDDEN), ((following(t), t, sharpness) for t in range(VOCAB)))
    yield "model.norm.weight", _ones()
    yield from _layer("model.layers.0.", seed=1)


def _mtp(is_right: Callable[[int], bool]) -> Iterator[tuple[str, Tensor]]:
    """The head sees (hidden, token) side by side and looks at the token alone."""
    prefix = "model.mtp_layers.0."
    yield from _layer(prefix, seed=2)
    for norm in ("token_layernorm", "hidden_layernorm", "final_layernorm"):
        yield f"{prefix}{norm}.weight", _ones()
    seen_as = ((t if is_right(t) else _other(t), HIDDEN + t, 1.0) for t in range(VOCAB))
    yield f"{prefix}input_proj.weight", _placed((HIDDEN, 2 * HIDDEN), seen_as)


def _other(token: int) -> int:
    """A token with another follower than this one's."""
    return next(t for t in (ord("m"), ord("q")) if following(t) != following(token))


def _layer(prefix: str, *, seed: int) -> Iterator[tuple[str, Tensor]]:
    noise = random.Random(seed)
    yield f"{prefix}input_layernorm.weight", _ones()
    yield f"{prefix}post_attention_layernorm.weight", _ones()
    for name, heads in (("q", HEADS), ("k", 1), ("v", 1)):
        yield f"{prefix}self_attn.{name}_proj.weight", _noise(noise, (heads * HEAD_DIM, HIDDEN), 0.02)
        yield f"{prefix}self_attn.{name}_proj.bias", _noise(noise, (heads * HEAD_DIM,), 0.02)
    yield f"{prefix}self_attn.o_proj.weight", _noise(noise, (HIDDEN, HEADS * HEAD_DIM), 0.004)
    yield f"{prefix}mlp.gate_proj.weight", _noise(noise, (INNER, HIDDEN), 0.02)
    yield f"{prefix}mlp.up_proj.weight", _noise(noise, (INNER, HIDDEN), 0.02)
    yield f"{prefix}mlp.down_proj.weight", _noise(noise, (HIDDEN, INNER), 0.004)


def _placed(shape: tuple[int, int], entries: Iterator[tuple[int, int, float]]) -> Tensor:
    values = array("f", bytes(4 * shape[0] * shape[1]))
    for row, column, value in entries:
        values[row * shape[1] + column] = value
    return shape, values


def _noise(source: random.Random, shape: tuple[int, ...], scale: float) -> Tensor:
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    return shape, array("f", (source.uniform(-scale, scale) * 3**0.5 for _ in range(count)))


def _ones() -> Tensor:
    return (HIDDEN,), array("f", [1.0]) * HIDDEN


def _json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1))


def _visible(byte: int) -> str:
    """The character byte-level tokenizers write for a byte: itself where printable, else from 256 upwards."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return chr(byte if byte in printable else 256 + [b for b in range(256) if b not in printable].index(byte))


def _tokenizer() -> dict[str, object]:
    added = [
        {"id": token, "content": text, "special": True, "normalized": False}
        | {"single_word": False, "lstrip": False, "rstrip": False}
        for text, token in SPECIAL.items()
    ]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    model = {"type": "BPE", "vocab": {_visible(byte): byte for byte in range(256)} | SPECIAL, "merges": []}
    return {
        "version": "1.0", "added_tokens": added, "pre_tokenizer": level, "decoder": level, "model": model
    }  # fmt: skip


CONFIG: dict[str, object] = {
    "architectures": ["MiMoForCausalLM"],
    "model_type": "qwen2",  # sglang takes the class from `architectures`; no remote code is needed
    "attention_bias": True,
    "eos_token_id": END,
    "bos_token_id": END,
    "pad_token_id": PAD,
    "head_dim": HEAD_DIM,
    "hidden_act": "silu",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "max_position_embeddings": 4096,
    "num_attention_heads": HEADS,
    "num_hidden_layers": 1,
    "num_key_value_heads": 1,
    "num_nextn_predict_layers": 1,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "use_sliding_window": False,
    "vocab_size": VOCAB,
}
TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "model_max_length": 4096,
    "eos_token": "<|endoftext|>",
    "pad_token": "<|pad|>",
    "clean_up_tokenization_spaces": False,
    "chat_template": "{% for m in messages %}{{ m['content'] }}{% endfor %}",
}
