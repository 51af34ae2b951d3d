"""Which kernel names an AITER has, told from its source: known, unknown, or cannot tell.

A name that is not there costs differently by family: FlyDSL raises at the first request (`Invalid FlyDSL kernel
name`), assembly aborts, Composable Kernel prints `ck kernel not found` and takes a slow heuristic.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

from rocmfix.aiter import dispatch
from rocmfix.aiter.evaluator import Evaluator
from rocmfix.aiter.interpreted import CannotTell, Function, Raised
from rocmfix.aiter.layout import FUSED_MOE, AiterTree
from rocmfix.aiter.schema import Family

FLYDSL = "aiter/ops/flydsl"
CK_MOE = "csrc/ck_gemm_moe_2stages_codegen/gemm_moe_ck2stages_common.py"
AUX_SHAPES = "csrc/kernels/mxfp4_moe/moe_aux/codegen/gen_instances.py"
OPUS = "csrc/opus_moe/opus_moe_common.py"
CK_NAME = re.compile(
    r"moe_ck2stages_gemm(?P<stage>[12])_[0-9x]+_[0-9x]+_\w+?_v\d_Nswizzle(?P<swizzle>[01])_Quant(?P<quant>[0-4])"
    r"_MulRoutedWeight(?P<weight>[01])(?:_(?P<act>[a-z]+))?_(?P<a>[A-Z0-9]+)_(?P<b>[A-Z0-9]+)_(?P<c>B16|F16)"
)
GEMM_LISTS: Mapping[str, str] = {
    "a8w8_blockscale_cktile": "csrc/ck_gemm_a8w8_blockscale",
    "a8w8_blockscale_bpreshuffle": "csrc/ck_gemm_a8w8_blockscale_bpreshuffle",
    "a8w8_blockscale": "csrc/ck_gemm_a8w8_blockscale",
    "a8w8_bpreshuffle_cktile": "csrc/cktile_gemm_a8w8_bpreshuffle",
    "a8w8_bpreshuffle": "csrc/ck_gemm_a8w8_bpreshuffle",
    "a8w8_rowwise": "csrc/ck_gemm_a8w8",
    "a8w8_batched_rowwise": "csrc/ck_batched_gemm_a8w8",
    "bf16_batched": "csrc/ck_batched_gemm_bf16",
    "a4w4_blockscale": "csrc/ck_gemm_a4w4_blockscale",
}
"""Name prefix, longest first where one begins another, and the folder that lists the kernels."""


UNTOLD = ("cktile_", "swiglu_", "opus_moe2_", "grouped_gemm")
"""Fused-MoE kernels that are picked by the beginning of the name alone, or from lists that are not read."""


class Knowledge(Enum):
    """Whether a kernel exists in this AITER."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class Answer:
    """What is known of one name, and from where."""

    knowledge: Knowledge
    why: str


KNOWN = Answer(Knowledge.KNOWN, "")


def unknown(why: str) -> Answer:
    """The kernel is not there."""
    return Answer(Knowledge.UNKNOWN, why)


def cannot_tell(why: str) -> Answer:
    """The tree does not say."""
    return Answer(Knowledge.CANNOT_TELL, why)


@dataclass
class Kernels:
    """The kernels of one AITER tree; every list is worked out when first asked for."""

    tree: AiterTree
    _answers: dict[tuple[str, str, bool], Answer] = field(default_factory=dict)
    _lists: dict[tuple[str, str], tuple[frozenset[str], str | None]] = field(default_factory=dict)
    _flat: dict[str, dict[str, int]] = field(default_factory=dict)
    _assembled: dict[str, frozenset[str]] = field(default_factory=dict)
    _ck: dict[tuple[Any, ...], frozenset[str]] = field(default_factory=dict)
    _tuners: dict[Family, str | None] = field(default_factory=dict)
    _evaluators: dict[tuple[str, str], Evaluator] = field(default_factory=dict)

    def ask(self, name: str, gfx: str, *, moe: bool = True) -> Answer:
        """Whether the kernel `name`, of a fused-MoE or a GEMM table, is there for the chip `gfx`."""
        asked = (name, gfx, moe)
        if asked not in self._answers:
            self._answers[asked] = self._ask(name, gfx, moe=moe)
        return self._answers[asked]

    def dispatch(self, libtype: str) -> Answer | None:
        """Whether a row of the bf16 GEMM table with this `libtype` can run; None when that hangs on its kernel."""
        if not self._functions or not libtype:
            return None
        if libtype not in self._functions:
            return unknown(f"libtype {libtype} is not in solMap of {dispatch.PATH}")
        return None if self._functions[libtype] else KNOWN

    @cached_property
    def _functions(self) -> dict[str, bool]:
        try:
            return dispatch.functions(self.tree.text(dispatch.PATH) or "")
        except (SyntaxError, ValueError):
            return {}

    def has_shape(self, expert: int, model_dim: int, topk: int) -> Answer:
        """Whether the mxmoe kernels' sorting was compiled for this shape (`no codegen'd instance for shape key`)."""
        if self._aux_shapes is None:
            return cannot_tell(f"{AUX_SHAPES} has no readable SHAPES")
        if (expert, model_dim, topk) in self._aux_shapes:
            return KNOWN
        return unknown(f"({expert}, {model_dim}, topk {topk}) is not in SHAPES of {AUX_SHAPES}")

    def _ask(self, name: str, gfx: str, *, moe: bool) -> Answer:
        try:
            if name.startswith("flydsl_mxmoe_"):
                return self._mxmoe(name)
            if name.startswith("flydsl_moe2_layout_"):
                return self._layout(name)
            if name.startswith(("flydsl_moe1_", "flydsl_moe2_")):
                return self._flydsl(name)
            if name.startswith("moe_ck2stages_"):
                return self._ck_moe(name, gfx)
            if name.startswith("_ZN"):
                return self._assembly(name, gfx)
            if name.startswith("opus_moe1_"):
                return self._opus(name)
            if moe:
                # Any other name goes to the assembly lookup, which aborts (`fused_moe_1stage`, `asm_stage1`).
                untold = name.startswith(UNTOLD)
                return (
                    cannot_tell("no list of this kind is read") if untold else unknown("no kind of kernel is so called")
                )
            return self._gemm(name, gfx)
        except (CannotTell, Raised) as error:
            return cannot_tell(str(error))

    def _evaluator(self, path: str, gfx: str = "") -> Evaluator:
        asked = (path, gfx)
        if asked not in self._evaluators:
            text = self.tree.text(path)
            if text is None:
                raise CannotTell(f"there is no {path}")
            given = {"get_gfx": lambda: gfx, "get_gfx_list": lambda: [gfx]} if gfx else {}
            self._evaluators[asked] = Evaluator(text, given)
        return self._evaluators[asked]

    @cached_property
    def _flydsl_lists(self) -> Evaluator:
        return self._evaluator(f"{FLYDSL}/moe_kernels.py")

    def _flydsl(self, name: str) -> Answer:
        path = f"{FLYDSL}/moe_kernels.py"
        if self.tree.read(path) is None:
            return unknown("this AITER has no FlyDSL kernels")
        params = self._flydsl_lists.call("get_flydsl_kernel_params", name)
        if params is None:
            return unknown(f"not in the registry of {path}")
        sort_block, tile_m = params.get("sort_block_m", 0), params.get("tile_m", 16)
        if sort_block and (sort_block % tile_m or sort_block & (sort_block - 1)):
            return unknown(f"_sbm{sort_block} is no multiple of the tile")
        return KNOWN if params.get("k_wave", 1) in {1, 2, 4} else unknown(f"_kw{params['k_wave']} is no wave count")

    @cached_property
    def _mxfp4_names(self) -> Evaluator | None:
        path = f"{FLYDSL}/mxfp4_kname.py"
        return None if self.tree.read(path) is None else self._evaluator(path)

    def _layout(self, name: str) -> Answer:
        parser = self._mxfp4_names
        if parser is None or not parser.has("parse_flydsl_v2_gemm2_kernel"):
            return unknown("this AITER is older than the layout kernels (ROCm/aiter#4179)")
        if parser.call("parse_flydsl_v2_gemm2_kernel", name) is None:
            return unknown(f"does not parse by {FLYDSL}/mxfp4_kname.py")
        base = re.sub(r"(_bf16lds)?(_sp\d+)?$", "", name)
        return KNOWN if base in self._layout_names else unknown("not among the layout kernels of this AITER")

    @cached_property
    def _layout_names(self) -> frozenset[str]:
        names: set[str] = set()
        for a, b in (("fp4", "fp4"), ("fp8", "fp4"), ("fp8", "fp8")):
            for out in ("bf16", "f16"):
                for block in (16, 32, 64, 128):
                    names.update(self._flydsl_lists.call("get_flydsl_stage2_v2_kernels", a, b, out, block))
        return frozenset(names)

    def _mxmoe(self, name: str) -> Answer:
        parser = self._mxfp4_names
        if parser is None:
            return unknown("this AITER is older than the mxmoe kernels (ROCm/aiter#3832)")
        stage = 1 if name.startswith("flydsl_mxmoe_g1_") else 2
        try:
            parsed = parser.call(f"_parse_mxfp4_g{stage}_kname", name)
        except Raised:
            return unknown(f"does not parse by {FLYDSL}/mxfp4_kname.py")
        # The parser ignores the rest of the tile and repeated flags; a tuner never writes such a name.
        parts = name.split("_")[4:]
        if parts[:1] != [f"{parsed['BM']}x256x256"] or len(set(parts)) < len(parts) or name != name.lower():
            return unknown("no name the tuner writes")
        return self._mxmoe_variant(stage, parsed)

    def _mxmoe_variant(self, stage: int, parsed: Mapping[str, Any]) -> Answer:
        path = f"{FLYDSL}/mxfp4_gemm{stage}_kernels.py"
        kernels = self._evaluator(path)
        if stage == 1:
            variant = (parsed["BM"], parsed["use_nt"], parsed["inline_quant"])
        else:
            epilog = kernels.call("_epilog_of", parsed["atomic"], parsed["mxfp4out"], parsed.get("cshuffle", False))
            variant = (parsed["BM"], parsed["use_nt"], epilog)
        supported = kernels.value("_SUPPORTED")
        return KNOWN if variant in supported else unknown(f"{variant} is not in _SUPPORTED of {path}")

    @cached_property
    def _aux_shapes(self) -> frozenset[tuple[int, int, int]] | None:
        try:
            shapes = self._evaluator(AUX_SHAPES).value("SHAPES")
        except CannotTell:
            return None
        return frozenset((shape[0], shape[1], shape[3]) for shape in shapes)

    def _ck_moe(self, name: str, gfx: str) -> Answer:
        match = CK_NAME.fullmatch(name)
        if match is None:
            return unknown("does not have the shape of a CK two-stage name")
        parts = match.groupdict()
        legal = {"FP4X2": "3", "B16": "0", "F16": "0"}.get(parts["a"], "124")
        if parts["quant"] not in legal or (parts["act"] is None) is (parts["stage"] == "1"):
            return unknown("no such combination of types and quantisation")
        names = self._ck_names(gfx, parts)
        return KNOWN if name in names else unknown(f"not in the lists of {CK_MOE} for {gfx}")

    def _ck_names(self, gfx: str, parts: Mapping[str, str]) -> frozenset[str]:
        asked = (gfx, *(parts[key] for key in ("stage", "swizzle", "quant", "weight", "act", "a", "b", "c")))
        if asked not in self._ck:
            self._ck[asked] = frozenset(self._generate_ck(gfx, parts))
        return self._ck[asked]

    def _generate_ck(self, gfx: str, parts: Mapping[str, str]) -> Iterable[str]:
        lists = self._evaluator(CK_MOE, gfx)
        function = f"get_gemm{parts['stage']}_kernels_list"
        node = lists.value(function)
        count = len(node.node.args.args) if isinstance(node, Function) else 0
        fixed: list[Any] = [parts["a"], parts["b"], parts["c"], parts["swizzle"] == "1", int(parts["quant"])]
        fixed += [parts["act"], parts["weight"] == "1"] if parts["stage"] == "1" else [parts["weight"] == "1"]
        for flags in ((False, False), (True, False), (False, True), (True, True)):
            try:
                _, kernels = lists.call(function, *fixed, *flags[: count - len(fixed)])
            except Raised:
                continue
            for kernel in kernels.values():
                yield lists.attribute(kernel, "name")

    def _assembly(self, name: str, gfx: str) -> Answer:
        manifests = self._manifests(gfx)
        if not manifests:
            return cannot_tell(f"the tree has no hsa/{gfx}")
        return KNOWN if name in manifests else unknown(f"in no manifest of hsa/{gfx}")

    def _manifests(self, gfx: str) -> frozenset[str]:
        if gfx not in self._assembled:
            cells = (cell for path in self.tree.paths(f"hsa/{gfx}", ".csv") for cell in self._cells(path))
            self._assembled[gfx] = frozenset(cell for cell in cells if cell.startswith("_ZN"))
        return self._assembled[gfx]

    def flat(self, name: str, gfx: str) -> int | None:
        """The `flat` of an assembly kernel by its manifest, or None where the manifest has none."""
        if gfx not in self._flat:
            self._flat[gfx] = dict(self._flat_cells(gfx))
        return self._flat[gfx].get(name)

    def _flat_cells(self, gfx: str) -> Iterable[tuple[str, int]]:
        for path in self.tree.paths(f"hsa/{gfx}/fmoe", ".csv"):
            for row in csv.DictReader((self.tree.text(path) or "").splitlines()):
                if (row.get("flat") or "").isdecimal() and row.get("knl_name"):
                    yield row["knl_name"], int(row["flat"])

    def _cells(self, path: str) -> Iterable[str]:
        for row in csv.reader((self.tree.text(path) or "").splitlines()):
            yield from row

    def _opus(self, name: str) -> Answer:
        instances = self._evaluator(OPUS).value("OPUS_A8W4_STAGE1_INSTANCES")
        names = {instance.values["name"].removesuffix("_fp8") for instance in instances}
        return KNOWN if name.removesuffix("_fp8") in names else unknown(f"not in {OPUS}")

    def _gemm(self, name: str, gfx: str) -> Answer:
        for prefix, folder in GEMM_LISTS.items():
            if name.startswith(prefix):
                names, gap = self._listed(folder, gfx)
                if name in names:
                    return KNOWN
                return cannot_tell(gap) if gap else unknown(f"not in the lists of {folder} for {gfx}")
        return cannot_tell("no list of this kind of kernel is read")

    def _listed(self, folder: str, gfx: str) -> tuple[frozenset[str], str | None]:
        """The names in a folder's lists, and why they are not all there, if so."""
        asked = (folder, gfx)
        if asked not in self._lists:
            self._lists[asked] = self._named_in(folder, gfx)
        return self._lists[asked]

    def _named_in(self, folder: str, gfx: str) -> tuple[frozenset[str], str | None]:
        names: set[str] = set()
        gap: str | None = f"there is no list in {folder}"
        for path in self.tree.paths(folder, ".py"):
            if path.endswith(("_common.py", "_instance.py")):
                lists = self._evaluator(path, gfx)
                names.update(lists.attribute(instance, "name") for instance in lists.instances())
                gap = f"{path} could not be worked out: {lists.gap}" if lists.gap else None if names else gap
        return frozenset(names), gap

    def looked_up_with(self, code: str) -> bool:
        """Whether AITER's fused-MoE lookup has `code` in it: what it does with a cell is told by that."""
        return code in self._lookup

    @cached_property
    def _lookup(self) -> str:
        return self.tree.text(FUSED_MOE) or ""

    def tuner(self, family: Family) -> str | None:
        """The command that tunes rows of `family`, where the tree has it."""
        if family not in self._tuners:
            found = (command for command in family.tuners if self.tree.read(command.split()[0]) is not None)
            self._tuners[family] = next(found, None)
        return self._tuners[family]

    @cached_property
    def forces_tiles(self) -> bool:
        """Whether AITER replaces a tile that does not divide (`resolve_flydsl_stage1_tile_n`)."""
        return "def resolve_flydsl_stage1_tile_n" in (self.tree.text(f"{FLYDSL}/moe_kernels.py") or "")
