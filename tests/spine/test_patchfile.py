"""A patch from outside is hostile until `parse_patch` has read it."""

from __future__ import annotations

import pytest

from rocmfix.errors import CatalogError
from rocmfix.patchfile import MAX_BYTES, parse_patch, safe_path

GOOD = """From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
From: =?UTF-8?q?J=C3=B6rg=20Writer?= <j@example.com>
Date: Mon, 1 Jun 2026 10:00:00 +0200
Subject: [PATCH] [AMD] Guard a header that
 hipcc does not have

hipcc cannot find it.

Signed-off-by: Writer <j@example.com>
---
 python/sglang/a.py | 2 +-
 1 file changed, 1 insertion(+), 1 deletion(-)

diff --git a/python/sglang/a.py b/python/sglang/a.py
index 1111111111111111111111111111111111111111..2222222222222222222222222222222222222222 100644
--- a/python/sglang/a.py
+++ b/python/sglang/a.py
@@ -1,3 +1,3 @@
 one
-two
+TWO
 three
"""


def parse(text: str):
    return parse_patch(text.encode(), "x.patch")


def test_reads_what_format_patch_wrote():
    patch = parse(GOOD)
    assert patch.author == "Jörg Writer <j@example.com>"
    assert patch.subject == "[AMD] Guard a header that hipcc does not have"
    assert patch.message.endswith("\n\nhipcc cannot find it.\n\nSigned-off-by: Writer <j@example.com>\n")
    assert patch.paths == ("python/sglang/a.py",)
    assert (patch.changes[0].hunks[0].leading, patch.changes[0].hunks[0].trailing) == (1, 1)


PATH = "python/sglang/a.py"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (GOOD.replace(PATH, "../../etc/passwd"), "leaves the tree"),
        (GOOD.replace(PATH, "x/../../y"), "leaves the tree"),
        (GOOD.replace(PATH, "/etc/passwd"), "leaves the tree"),
        (GOOD.replace(PATH, ".git/config"), "leaves the tree"),
        (GOOD.replace(f"+++ b/{PATH}", "+++ b/.git/config"), "names b/.git/config in a part about"),
        (GOOD.replace(f"--- a/{PATH}", "--- /etc/passwd"), "names /etc/passwd in a part about"),
        (GOOD.replace(f"diff --git a/{PATH}", "diff --git a/other.py"), "a rename"),
        (GOOD.replace("index 11", "rename from python/x\nrename to python/y\nindex 11"), "a rename"),
        (GOOD.replace("index 11", "old mode 100644\nnew mode 100755\nindex 11"), "a mode change"),
        (GOOD.replace("index 11", "new file mode 120000\nindex 11"), "a symbolic link"),
        (GOOD.replace("index 11", "GIT binary patch\nindex 11"), "binary content"),
        (GOOD.replace("index 11", "new file mode 160000\nindex 11"), "a submodule"),
        (GOOD.replace("index 11", "new file mode 100755\nindex 11"), "an executable file"),
        (GOOD.replace("index 11", "deleted file mode 120000\nindex 11"), "a symbolic link"),
        (GOOD.replace("index 11", "copy from python/x\ncopy to python/y\nindex 11"), "a copy"),
        (GOOD.replace("index 11", "Binary files a/x and b/x differ\nindex 11"), "binary content"),
        (GOOD.replace(PATH, "python/a b.py"), "a path with blanks"),
        (GOOD.replace(" three\n", ""), "damaged"),
        (GOOD.replace("\n", "\r\n"), "CR line endings"),
        (GOOD.replace("Date: Mon, 1 Jun 2026 10:00:00 +0200\n", ""), "no Date"),
        (GOOD.replace("Mon, 1 Jun 2026 10:00:00 +0200", "yesterday"), "a Date that is none"),
        (GOOD.replace("From: =?UTF-8?q?J=C3=B6rg=20Writer?= <j@example.com>\n", ""), "no From"),
        (GOOD.replace("Signed-off-by: Writer <j@example.com>\n", ""), "no Signed-off-by"),
        (GOOD.replace("hipcc cannot find it.\n", ""), "says no reason"),
        ("", "is not a `git format-patch` file"),
        ("hello\n", "is not a `git format-patch` file"),
        (GOOD[GOOD.index("diff --git") :], "is not a `git format-patch` file"),
        (GOOD[: GOOD.index("diff --git")], "changes no file"),
        (GOOD + GOOD[GOOD.index("diff --git") :], "twice"),
    ],
)  # fmt: skip
def test_refuses_what_a_fix_never_needs(wrong, said):
    with pytest.raises(CatalogError) as caught:
        parse(wrong)
    assert said in caught.value.message
    assert caught.value.message.startswith("x.patch: ")


def test_refuses_a_large_patch_and_one_that_is_not_text():
    with pytest.raises(CatalogError, match="larger than"):
        parse_patch(b"x" * (MAX_BYTES + 1), "x.patch")
    with pytest.raises(CatalogError, match="not UTF-8"):
        parse_patch(GOOD.encode() + b"\xff", "x.patch")


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/a",
        "../a",
        "a/../b",
        "a//b",
        "./a",
        "a\\b",
        "a/.git/config",
        "a/.Git/config",
        ".rocmfix/state.json",
        "a/",
        "a\0b",
    ],
)
def test_paths_that_leave_a_tree_are_unsafe(path):
    assert not safe_path(path)


def test_a_removed_line_may_look_like_a_header():
    """`-- x` removed from a file reads `--- x` in the patch."""
    patch = parse(GOOD.replace("-two\n", "--- /etc/passwd\n"))
    assert patch.changes[0].hunks[0].old[1] == b"-- /etc/passwd\n"
