"""Which classes inherit from which, told by their names."""

from __future__ import annotations

import pytest

from rocmfix.guards.families import Families

FILES = {
    "a.py": b"class Base(nn.Module):\n    pass\n\nclass Mixin: ...\n",
    "b.py": b"from a import Base\nclass Heir(\n    a.Base,\n    Mixin,\n    metaclass=Meta,\n):\n    pass\n",
    "c.py": b"if x:\n    class Late(Heir, Generic[T]): ...\nclass Other(nn.Module): ...\nclass Mixin: ...\n",
}


@pytest.mark.parametrize(
    ("name", "heirs"),
    [
        ("Base", {"Base", "Heir", "Late"}),
        ("Mixin", {"Mixin", "Heir", "Late"}),
        ("Late", {"Late"}),
        ("Module", {"Module", "Base", "Heir", "Late", "Other"}),
        ("Nobody", {"Nobody"}),
    ],
)
def test_heirs_are_found_through_others_and_in_other_files(name: str, heirs: set[str]) -> None:
    assert Families(FILES).heirs(name) == heirs


def test_kin_are_what_an_object_of_the_class_can_be_as_well() -> None:
    families = Families(FILES)
    assert families.kin("Mixin") >= {"Mixin", "Heir", "Late", "Base", "Module"}
    assert "Other" not in families.kin("Mixin")
    assert "Mixin" not in families.kin("Other")


def test_every_file_that_defines_one_of_the_classes_is_a_place() -> None:
    families = Families(FILES)
    assert families.places(["Mixin", "Late"]) == ("a.py", "c.py")
    assert families.places(["Module"]) == ()


def test_classes_that_inherit_in_a_circle_end() -> None:
    assert Families({"x.py": b"class A(B): ...\nclass B(A): ...\n"}).heirs("A") == {"A", "B"}
