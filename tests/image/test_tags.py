"""Of a tag that does not exist, the nearest that do."""

from __future__ import annotations

import pytest

from rocmfix.image.tags import nearest

DATED = (
    "v0.5.18-rocm720-mi35x-20260825",
    "v0.5.18-rocm720-mi35x-20260826",
    "v0.5.18-rocm720-mi30x-20260825",
    "v0.5.17-rocm700-mi35x-20260810",
)


@pytest.mark.parametrize(
    ("wanted", "tags", "first"),
    [
        ("v0.5.18-rocm720-mi35x", DATED, "v0.5.18-rocm720-mi35x-20260826"),
        ("v0.5.18-rocm720-mi30x", DATED, "v0.5.18-rocm720-mi30x-20260825"),
        ("v0.5.14-rocm720-mi35", ("v0.5.14-rocm720-mi35x", "v0.5.14-rocm720-mi30x", "latest"), "v0.5.14-rocm720-mi35x"),
        ("v0.5.14-rocm720-mi35x", ("v0.5.15-rocm720-mi35x", "v0.5.14-rocm700-mi30x"), "v0.5.15-rocm720-mi35x"),
    ],
)
def test_the_nearest_shares_release_line_and_gpu_and_is_the_newest(wanted, tags, first):
    assert nearest(wanted, tags)[0] == first


def test_what_is_nothing_like_it_is_not_named():
    assert nearest("v0.5.14-rocm720-mi35x", ("zzz",)) == ()


def test_at_most_five_are_named():
    assert len(nearest("v1", tuple(f"v1-{n}" for n in range(50)))) == 5
