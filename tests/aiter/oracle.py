"""AITER's own reader in a process of its own, and the comparison of what it does with what the model says."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

from rocmfix.aiter.reader import Refusal, key_columns

WORKER = Path(__file__).with_name("oracle_worker.py")


class Oracle:
    """One AITER tree's reader; ask it case by case."""

    def __init__(self, root):
        argv = [sys.executable, "-W", "ignore", WORKER, root]
        self.process: Any = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, files, untuned, gfx, keys=(), *, is_ep=False):
        """`files` and `untuned` are bytes, or None for a file that is not there."""
        texts = [None if data is None else data.decode("latin-1") for data in files]
        case = {"files": texts, "gfx": gfx, "keys": keys, "is_ep": is_ep}
        case["untuned"] = None if untuned is None else untuned.decode("latin-1")
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def same(left, right):
    """Equal as cells; floats but for the last place (pandas before 3.1 rounds differently)."""
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-12) or left == right
    return left == right


def difference(model, real):
    """What differs between the model and AITER in words, or None."""
    if isinstance(model, Refusal) or "error" in real:
        got = model.error if isinstance(model, Refusal) else "a table"
        want = real.get("error", "a table")
        return None if got == want else f"model: {got}, AITER: {want} ({real.get('message') or model})"
    names = key_columns(model.rules)
    act = names.index("act_type")
    tables = [model.exact, {(*k[:act], "__ignore__", *k[act:]): row for k, row in model.any_act.items()}]
    for ours, theirs in zip(tables, real["tables"], strict=False):
        if problem := _difference(ours, theirs, model, names):
            return problem
    return None


def _difference(ours, theirs, model, names):
    tied = {place for loss in model.losses if loss.tied for place in (loss.row, loss.winner)}
    rows = {_comparable(key): row for key, row in ours.items()}
    if len(rows) != len(theirs):
        return f"{len(rows)} rows against {len(theirs)}"
    for key, values in theirs:
        at = rows.get(_comparable(key))
        if at is None and not tied:
            return f"no key {key}; there is {next(iter(rows), None)}"
        if at is None or model.frame.origins[at] in tied:
            continue  # AITER sorts with numpy's default, which is not stable
        mine = {name: cell for name, cell in model.frame.row(at).items() if name not in names}
        if set(mine) != set(values) or not all(same(mine[name], values[name]) for name in values):
            return f"{key}: {mine} against {values}"
    return None


def _comparable(key):
    return tuple(float(cell) if isinstance(cell, int | float) else cell for cell in key)
