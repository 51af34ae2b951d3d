"""Stopgap until guards.conditionals lands."""

import re


def guarded(text: str, header: str) -> tuple[bool, int | None]:
    stack: list[bool] = []
    seen = None
    active_any = False
    for n, line in enumerate(text.splitlines(), 1):
        s = line.strip()
        if m := re.match(r"#\s*(ifdef|ifndef|if)\b(.*)", s):
            rest = m[2]
            rocm = "USE_ROCM" in rest or "__HIP" in rest
            neg = m[1] == "ifndef" or "!defined" in rest.replace(" ", "")
            stack.append(not (rocm and neg))
        elif re.match(r"#\s*else", s) and stack:
            stack[-1] = not stack[-1]
        elif re.match(r"#\s*endif", s) and stack:
            stack.pop()
        elif re.match(r'#\s*include\s*[<"]([^>"]*/)?' + re.escape(header), s):
            seen = n
            active_any |= all(stack)
    return seen is not None and not active_any, seen
