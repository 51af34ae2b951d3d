"""Finds the rules an AITER reads its tables by, by looking at its source and never at its version.

Images pin commits between releases and cherry-pick, so each rule is asked of the code by itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rocmfix.aiter.evaluator import Evaluator
from rocmfix.aiter.generation import BUCKET, Act, Buckets, Columns, Duplicates, Generation, Tags
from rocmfix.aiter.interpreted import CannotTell, Raised
from rocmfix.aiter.layout import CORE, FUSED_MOE, AiterTree

EDGES: tuple[int, ...] = (
    *(1, 2, 3, 15, 16, 17, 100, 511, 1023, 1024, 1025, 2047, 2048, 2049, 5000, 16383, 16384, 16385),
    *(32767, 32768, 40000, 131071, 131072, 500000),
)
"""Token counts at which the known rules differ from each other, and their neighbours."""


def probe(tree: AiterTree) -> Generation | None:
    """The rules of this tree, or None where one of the questions has an answer not seen before."""
    source = {path: _parsed(tree.text(path)) for path in (CORE, FUSED_MOE)}
    core, moe = _functions(source[CORE]), _functions(source[FUSED_MOE])
    merge, pick, lookup = (
        core.get("update_config_files"),
        core.get("get_config_file"),
        moe.get("get_2stage_cfgs"),
    )
    if merge is None or pick is None or lookup is None or "get_padded_M" not in moe:
        return None
    columns, duplicates, tags = _columns(merge), _duplicates(merge), _tags(lookup)
    act, buckets = _act(lookup), _buckets(moe, source[FUSED_MOE])
    if not (columns and duplicates and tags and act and buckets):
        return None
    key = _index(lookup)
    return Generation(
        columns=columns,
        duplicates=duplicates,
        dedup_cu="'cu_num'" in ast.unparse(merge),
        dedup_present="in merge_df.columns]" in ast.unparse(merge),
        dedup_gfx="'gfx' not in keys" in ast.unparse(merge),
        key_gfx="gfx" in key,
        first_match=".duplicated(" in ast.unparse(lookup),
        act=act,
        tags=tags,
        buckets=buckets,
        ep_slot=any(isinstance(n, ast.AugAssign) and ast.unparse(n.target) == "topk" for n in ast.walk(lookup)),
        bypass=any(isinstance(n, ast.FunctionDef) and n.name == "use_cfg" for n in ast.walk(lookup)),
        csv_only=".csv" in "".join(_texts_of_globs(pick)),
        at_import=not any(isinstance(n, ast.ClassDef) and n.name == "AITER_CONFIG" for n in source[CORE].body),
    )


def _parsed(text: str | None) -> ast.Module:
    try:
        return ast.parse(text or "")
    except SyntaxError:
        return ast.Module(body=[], type_ignores=[])


def _functions(module: ast.Module) -> dict[str, ast.FunctionDef]:
    """Every function of a file by name, methods included."""
    return {node.name: node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)}


def _columns(merge: ast.FunctionDef) -> Columns | None:
    code = ast.unparse(merge)
    checks = [ast.unparse(node) for node in ast.walk(merge) if isinstance(node, ast.Assert | ast.Raise)]
    if any("Column mismatch" in text for text in checks):
        return Columns.SAME_BUT_TAG if "c != '_tag'" in code else Columns.SAME
    if "gfx_from_cu_num" in code:
        return Columns.UNION_GFX
    return Columns.UNION if "_FILL_DEFAULTS" in code else None


def _duplicates(merge: ast.FunctionDef) -> Duplicates | None:
    raises = [node for node in ast.walk(merge) if isinstance(node, ast.Raise)]
    if any("duplicate shape entries" in ast.unparse(node) for node in raises):
        return Duplicates.RAISE
    return Duplicates.FASTEST if "sort_values('us').drop_duplicates" in ast.unparse(merge) else None


def _tags(lookup: ast.FunctionDef) -> Tags | None:
    tests = [ast.unparse(node) for node in ast.walk(lookup) if isinstance(node, ast.Compare)]
    about = [test for test in tests if test.endswith((".fillna('') == ''", ".fillna('') != 'flydsl_fallback'"))]
    if not about:
        return Tags.KEPT if "_tag" not in ast.unparse(lookup) else None
    return Tags.ANY_DROPPED if about[0].endswith("== ''") else Tags.FALLBACK_DROPPED


def _act(lookup: ast.FunctionDef) -> Act | None:
    """A key with the enum in it never equals a table's text; one with `str()` of it does."""
    keys = next(
        (
            node.value.elts
            for node in ast.walk(lookup)
            if isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == "keys"
            and isinstance(node.value, ast.Tuple)
        ),
        None,
    )
    if keys is None:
        return None
    parts = {ast.unparse(part) for part in keys}
    ignores = "keys_disabled" in ast.unparse(lookup)
    if "str(activation)" in parts:
        return Act.EXACT_THEN_ANY if ignores else Act.EXACT
    return Act.ANY if "activation" in parts and ignores else None


def _index(lookup: ast.FunctionDef) -> tuple[str, ...]:
    """The column names AITER indexes by: the list that has `doweight_stage1` in it."""
    for node in ast.walk(lookup):
        if isinstance(node, ast.List):
            names = [part.value for part in node.elts if isinstance(part, ast.Constant)]
            if "doweight_stage1" in names:
                return tuple(str(name) for name in names)
    return ()


def _buckets(moe: dict[str, ast.FunctionDef], module: ast.Module) -> Buckets | None:
    """The known rule that agrees with the tree's `get_padded_M` at every edge."""
    parts = [ast.unparse(moe[name]) for name in ("nextPow2", "get_padded_M") if name in moe]
    parts += [
        ast.unparse(node)
        for node in module.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_PADDED_M_TIERS"
    ]
    try:
        rule = Evaluator("\n".join(parts), {})
        found = [rule.call("get_padded_M", tokens) for tokens in EDGES]
    except (CannotTell, Raised):
        return None
    matching = (buckets for buckets, known in BUCKET.items() if [known(tokens) for tokens in EDGES] == found)
    return next(matching, None)


def _texts_of_globs(pick: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(pick):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".glob"):
            yield ast.unparse(node)
