"""A checkpoint that a server would load without a word is caught by its headers, before the start."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from click import UsageError

from rocmfix.errors import SmokeError
from rocmfix.smoke.checkpoint import mismatches, read_checkpoint, stray, unpacked_claim
from rocmfix.smoke.records import Depth, Outcome
from tests.smoke.conftest import planned
from tests.smoke.real import checkpoint as tiny
from tests.smoke.scenes import judge, plan, rung

FP8: dict[str, object] = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}


def outcomes(folder: Path, **asked: Any) -> dict[str, Outcome]:
    read = read_checkpoint(folder)
    found = {name: judge(name, rung(), checkpoint=read, asked=plan(depths=(Depth.parse("4"),), **asked))
             for name in ("mtp-tensors", "tensor-sizes", "tensor-types")}  # fmt: skip
    return {name: verdict.outcome for name, verdict in found.items() if verdict}


def test_a_whole_checkpoint_passes(tmp_path):
    assert set(outcomes(tiny.write(tmp_path / "m")).values()) == {Outcome.PASSED}


def test_missing_mtp_tensors_are_caught(tmp_path):
    """sglang 0.5.14 starts without them, /health says 200, and no draft is ever accepted."""
    folder = tiny.write(tmp_path / "m", head="none")
    assert outcomes(folder)["mtp-tensors"] is Outcome.FAILED
    assert "mtp-tensors" not in outcomes(folder, draft_model="/other")


def head(name: str = "model.embed_tokens.weight", **entry: object) -> bytes:
    return json.dumps({name: {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8], **entry}}).encode()


@pytest.mark.parametrize("header", [
    b"[1]", b'{"a": 1}', b'{"a": {"shape": [1]}}', head(shape="xy"), b"[" * 100_000, b'{"\xff": 1}', b"{", b"",
])  # fmt: skip
def test_a_broken_header_is_an_error_that_names_the_file(header, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(SmokeError, match=r"x\.safetensors is not a checkpoint's") as raised:
        read_checkpoint(tmp_path)
    assert raised.value.hint


@pytest.mark.parametrize("config", [
    "[]", "{", "\0", "[" * 100_000, '{"num_hidden_layers": "two"}', '{"num_hidden_layers": NaN}', '{"architectures": 7}',
    '{"text_config": [1]}', '{"quantization_config": [1]}', '{"num_nextn_predict_layers": "x"}', None,
])  # fmt: skip
def test_a_broken_config_is_an_error_that_names_the_file(config, tmp_path):
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(head())) + head())
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    with pytest.raises(SmokeError, match=r"config\.json"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("nowhere")])
def test_what_is_no_file_is_an_error_and_not_waited_for(make, tmp_path):
    make(tmp_path / "x.safetensors")
    with pytest.raises(SmokeError, match=r"x\.safetensors is not a file"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("shape", [[], [2], [2, 2, 2]])
def test_a_tensor_of_another_rank_is_not_compared(shape, tmp_path):
    (tmp_path / "config.json").write_text('{"hidden_size": 3, "vocab_size": 3}')
    header = head(shape=shape)
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    read = read_checkpoint(tmp_path)
    assert read is not None
    assert mismatches(read) == ()


def test_links_out_of_the_folder_are_not_seen_in_a_container(tmp_path):
    """A Hugging Face cache keeps its files in blobs/, two folders up from the snapshot."""
    blob, snapshot = tmp_path / "blobs/1", tmp_path / "snapshots/2"
    blob.parent.mkdir()
    blob.touch()
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").touch()
    (snapshot / "inner").symlink_to("config.json")
    assert stray(snapshot) is None
    (snapshot / "x.safetensors").symlink_to("../../blobs/1")
    assert stray(snapshot) == snapshot / "x.safetensors"
    with pytest.raises(UsageError, match="a container does not see"):
        planned(image="img", runtime="docker", model=str(snapshot))
    assert planned(model=str(snapshot)).model  # a process does


def test_wrong_sizes_are_caught(tmp_path):
    """sglang 0.5.14 cuts the tensors to size and serves."""
    folder = tiny.write(tmp_path / "m", config={"intermediate_size": 96})
    assert outcomes(folder)["tensor-sizes"] is Outcome.FAILED
    read = read_checkpoint(folder)
    assert read
    assert "model.layers.0.mlp.gate_proj.weight has 128, config.json says intermediate_size = 96" in mismatches(read)


def test_a_quantisation_that_no_tensor_has_is_caught(tmp_path):
    """sglang 0.5.14 serves it, and answers token 0 for ever."""
    folder = tiny.write(tmp_path / "m", config=FP8)
    assert outcomes(folder)["tensor-types"] is Outcome.FAILED
    read = read_checkpoint(folder)
    assert read
    assert unpacked_claim(read) == "config.json says fp8, the tensors are BF16"


def shard(folder: Path, name: str, heads: dict[str, tuple[str, list[int]]]) -> None:
    header = {key: {"dtype": dtype, "shape": shape, "data_offsets": [0, 0]} for key, (dtype, shape) in heads.items()}
    text = json.dumps(header).encode()
    (folder / name).write_bytes(struct.pack("<Q", len(text)) + text)


def test_an_mtp_layer_past_the_last_one_is_found_over_all_shards(tmp_path):
    """GLM and DeepSeek keep the MTP layer as one more layer, often in the last shard."""
    (tmp_path / "config.json").write_text(json.dumps({
        "architectures": ["GlmMoeDsaForCausalLM"], "num_hidden_layers": 78, "num_nextn_predict_layers": 1,
        "quantization_config": {"quant_method": "quark"},
    }))  # fmt: skip
    shard(tmp_path, "a.safetensors", {"model.layers.77.mlp.experts.0.w1.weight": ("U8", [4, 4])})
    shard(tmp_path, "b.safetensors", {"model.layers.78.eh_proj.weight": ("BF16", [4, 8])})
    read = read_checkpoint(tmp_path)
    assert read
    assert [head.name for head in read.mtp_tensors] == ["model.layers.78.eh_proj.weight"]
    assert unpacked_claim(read) is None


def test_a_folder_without_weights_is_no_checkpoint(tmp_path):
    assert read_checkpoint(tmp_path) is None


@pytest.mark.parametrize(
    "data", [b"", b"version https://git-lfs.github.com/spec/v1\n", struct.pack("<Q", 9) + b"not json!"]
)
def test_what_is_no_safetensors_file_is_refused(tmp_path, data):
    """A Git LFS pointer's first bytes would be a header of exabytes."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "m.safetensors").write_bytes(data)
    with pytest.raises(SmokeError, match="safetensors"):
        read_checkpoint(tmp_path)
