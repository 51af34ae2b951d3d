"""Image names are taken apart as Docker does it, and what Docker would refuse is refused first."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from rocmfix.system.reference import Reference, is_tag, parse_reference

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("text", "registry", "repository", "tag", "digest"),
    [
        ("lmsysorg/sglang:v0.5.14-rocm720-mi35x", "docker.io", "lmsysorg/sglang", "v0.5.14-rocm720-mi35x", None),
        ("ubuntu", "docker.io", "library/ubuntu", "latest", None),
        ("localhost/x", "localhost", "x", "latest", None),
        ("127.0.0.1:5000/a/b:t", "127.0.0.1:5000", "a/b", "t", None),
        ("reg.example/a@" + DIGEST, "reg.example", "a", None, DIGEST),
        ("reg.example:5000/a:t@" + DIGEST, "reg.example:5000", "a", "t", DIGEST),
        ("[::1]:5000/a", "[::1]:5000", "a", "latest", None),
        ("rocm/sgl-dev:x", "docker.io", "rocm/sgl-dev", "x", None),
    ],
)
def test_a_name_has_registry_repository_tag_and_digest(text, registry, repository, tag, digest):
    assert parse_reference(text) == Reference(registry, repository, tag, digest)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Upper/Case:1",
        "a/../b",
        "a:b:c/",
        "a:",
        "a:-x",
        "a@sha256:12",
        "a b",
        "-x",
        "a//b",
        "x/$(id)",
        "a\nb",
        "x" * 300,
    ],
)
def test_what_is_no_name_is_refused(text):
    with pytest.raises(ValueError, match="not a"):
        parse_reference(text)


@pytest.mark.parametrize(
    ("text", "is_local"),
    [
        ("127.0.0.1:5000/a", True),
        ("127.9.9.9/a", True),
        ("localhost:5000/a", True),
        ("[::1]:5000/a", True),
        ("localhost.evil.example/a", False),
        ("127.0.0.1.evil.example/a", False),
        ("10.0.0.1:5000/a", False),
        ("lmsysorg/sglang", False),
    ],
)
def test_only_this_machine_is_spoken_to_without_tls(text, is_local):
    assert parse_reference(text).is_local is is_local


@given(st.from_regex(r"[a-z0-9]{1,8}(/[a-z0-9]{1,8}){0,2}:[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}", fullmatch=True))
def test_a_parsed_name_prints_as_it_was_typed(text):
    assert str(parse_reference(text)) == text


def test_tags_are_at_most_128_characters():
    assert is_tag("a" * 128)
    assert not is_tag("a" * 129)
