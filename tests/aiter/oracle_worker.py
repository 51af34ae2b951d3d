"""Runs AITER's own table reader, cut out of its source, on cases that come in as JSON lines: for tests only.

Importing AITER needs ROCm; the reader alone needs pandas. It runs here with resource limits, in a folder of
its own, with every path under /tmp moved there, on copies of the files, because it rewrites them.
"""

from __future__ import annotations

import ast
import functools
import json
import logging
import math
import os
import re
import resource
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

KEY = (
    "gfx", "cu_num", "token", "model_dim", "inter_dim", "expert", "topk", "act_type", "dtype", "q_dtype_a",
    "q_dtype_w", "q_type", "use_g1u1", "doweight_stage1",
)  # fmt: skip


class Act:
    """Stands for the pybind enum: prints as AITER prints it, equals no text."""

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return self.name


class Moved(ast.NodeTransformer):
    """Moves every path under /tmp."""

    def __init__(self, home):
        self.home = home

    def visit_Constant(self, node):
        if isinstance(node.value, str) and node.value.startswith("/tmp"):
            return ast.copy_location(ast.Constant(self.home + node.value), node)
        return node


def find(module, name):
    return next(n for n in ast.walk(module) if isinstance(n, ast.FunctionDef) and n.name == name)


def assigns(node, *names):
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in names


def execute(nodes, names):
    module = ast.fix_missing_locations(ast.Module(body=list(nodes), type_ignores=[]))
    exec(compile(module, "aiter", "exec"), names)


class Oracle:
    def __init__(self, root, home):
        self.home = Path(home)
        core = ast.parse((Path(root) / "aiter/jit/core.py").read_text())
        moe = ast.parse((Path(root) / "aiter/fused_moe.py").read_text())
        self.merge = Moved(home).visit(find(core, "update_config_files"))
        self.method = self.merge.args.args[0].arg == "self"
        self.padded = [find(moe, "nextPow2"), find(moe, "get_padded_M")]
        self.padded += [n for n in moe.body if assigns(n, "_PADDED_M_TIERS")]
        outer = find(moe, "get_2stage_cfgs")
        self.reader = [n for n in outer.body if assigns(n, "_INDEX_COLS") or self.named(n, "_ensure_gfx_column")]
        self.reader += [find(outer, "get_cfg_2stages")]
        self.lookup = [n for n in outer.body if isinstance(n, ast.AugAssign) and ast.unparse(n.target) == "topk"]
        self.lookup += [n for n in outer.body if assigns(n, "keys", "keys_disabled")]
        self.lookup += [n for n in outer.body if self.named(n, "_lookup_cfg", "use_cfg")]
        self.lookup += [next(n for n in outer.body if assigns(n, "cfg"))]
        self.chip = self.guesser(Path(root) / "aiter/jit/utils/chip_info.py")

    @staticmethod
    def named(node, *names):
        return isinstance(node, ast.FunctionDef) and node.name in names

    def guesser(self, path):
        chip = ast.parse(path.read_text()) if path.exists() else ast.Module(body=[], type_ignores=[])
        nodes = [n for n in chip.body if assigns(n, "_LEGACY_CU_NUM_TO_GFX") or self.named(n, "gfx_from_cu_num")]
        return nodes if len(nodes) == 2 else []

    def names(self, gfx, work):
        logger = logging.getLogger("oracle")
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
        names = {
            "os": os, "re": re, "functools": functools, "logger": logger, "AITER_ROOT_DIR": str(work),
            "mp_lock": lambda _path, work: work(), "_ACT_TYPE_DISABLED_KEY": "__ignore__",
            "config_file": None, "get_gfx_runtime": lambda: gfx, "print": lambda *_: None,
        }  # fmt: skip
        if self.chip:
            execute(self.chip, names)
            fake: Any = types.ModuleType("aiter.jit.utils.chip_info")
            fake.gfx_from_cu_num = names["gfx_from_cu_num"]
            for name in ("aiter", "aiter.jit", "aiter.jit.utils"):
                sys.modules[name] = types.ModuleType(name)
            sys.modules["aiter.jit.utils.chip_info"] = fake
        return names

    def run(self, case):
        with tempfile.TemporaryDirectory(dir=self.home) as folder:
            work = Path(folder)
            (self.home / "tmp").mkdir(exist_ok=True)
            configs = work / "aiter/configs"
            configs.mkdir(parents=True)
            if case["untuned"] is not None:
                (configs / "untuned_fmoe.csv").write_bytes(case["untuned"].encode("latin-1"))
            paths = [work / f"{number}.csv" for number in range(len(case["files"]))]
            for path, text in zip(paths, case["files"], strict=True):
                if text is not None:
                    path.write_bytes(text.encode("latin-1"))
            names = self.names(case["gfx"], work)
            result = self.load(os.pathsep.join(map(str, paths)), names)
            result["after"] = [p.read_bytes().decode("latin-1") if p.exists() else None for p in paths]
            if "error" not in result:
                result["found"] = [self.find(key, names, is_ep=case["is_ep"]) for key in case["keys"]]
            return result

    def load(self, paths, names):
        try:
            execute([self.merge], names)
            merge = names["update_config_files"]
            path = merge(None, paths, "tuned_fmoe") if self.method else merge(paths, "tuned_fmoe")
            execute(self.reader, names)
            tables = names["get_cfg_2stages"](path)
        except Exception as error:  # noqa: BLE001 - any type is an answer
            return {"error": type(error).__name__, "message": str(error)[:300]}
        names["cfg_2stages"] = names["active_cfg_2stages"] = tables
        pair = tables if isinstance(tables, tuple) else (tables,)
        return {"tables": [[[plain(list(key)), plain(row)] for key, row in table.items()] for table in pair]}

    def find(self, key, names, *, is_ep):
        """What a request with `key`, whose token is the number of tokens, is answered with."""
        row = dict(zip(KEY, key, strict=True))
        names = {**names, **row, "is_ep": is_ep, "activation": Act(row["act_type"])}
        names["use_g1u1"], names["doweight_stage1"] = bool(row["use_g1u1"]), bool(row["doweight_stage1"])
        if any(self.named(n, "use_cfg") for n in self.lookup):
            names |= self.enums(row)
        execute(self.padded, names)
        names["token"] = names["get_padded_M"](row["token"])
        execute(self.lookup, names)
        return plain(names["cfg"])

    @staticmethod
    def enums(row):
        """Stand-ins that compare as the enums of `use_cfg` do, by what the key says."""
        space = types.SimpleNamespace
        fp8 = row["q_dtype_w"] if row["q_dtype_w"].startswith("torch.float8") else "torch.float8"
        return {
            "ActivationType": space(Silu="ActivationType.Silu"),
            "QuantType": space(per_1x128="QuantType.per_1x128"),
            "dtypes": space(bf16="torch.bfloat16", fp8=fp8),
            "activation": row["act_type"],
            "aiter": space(logger=space(info=lambda *_: None)),
        }


def plain(value):
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and math.isnan(value):
        return None
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def main():
    import pandas as pd  # type: ignore[import-untyped]  # noqa: F401 - before the limits, and AITER's code imports it in every call

    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 28, 1 << 28))
    with tempfile.TemporaryDirectory() as home:
        oracle = Oracle(sys.argv[1], home)
        for line in sys.stdin:
            sys.stdout.write(json.dumps(oracle.run(json.loads(line))) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
