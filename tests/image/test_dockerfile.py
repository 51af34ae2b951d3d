"""One strict template; what it renders means the same to every builder."""

from __future__ import annotations

import pytest

from rocmfix.errors import CatalogError
from rocmfix.image import flavour as flavours
from rocmfix.image.dockerfile import Page, lint, quoted, render
from rocmfix.image.flavour import Variable


def page(name: str, **changed) -> Page:
    flavour = flavours.load(name)
    values = {
        "base": f"{flavour.base.image}@sha256:" + "0" * 64,
        "flavour": flavour,
        "features": flavours.features(flavour),
        "env": (*flavour.env, Variable(name="AITER_CONFIG_FMOE", value="/a:/b")),
        "labels": {"io.rocmfix.tool": "0.1.0", "io.rocmfix.flavour": name},
        "has_tables": True,
        "run": "",
        "tool": "0.1.0",
    }
    return Page(**{**values, **changed})


@pytest.mark.parametrize("name", flavours.names())
def test_each_flavour_renders_as_reviewed(name, golden):
    golden(f"image/{name}.Dockerfile", render(page(name)))


def test_there_is_a_flavour_for_each_gpu_and_rocm_line():
    lines = ("rocm700", "rocm720", "rocm724")
    assert set(flavours.names()) >= {f"{gpu.value}-{line}" for gpu in flavours.Gpu for line in lines}


@pytest.mark.parametrize("name", flavours.names())
def test_a_flavour_is_named_by_what_it_says(name):
    flavour = flavours.load(name)
    plain = f"{flavour.gpu.value}-{flavour.line}"
    assert name == plain or (name.startswith(f"{plain}-") and flavour.tables)
    assert flavour.stage.startswith(flavour.gpu.gfx)
    assert flavour.base.tag.endswith(f"{flavour.line}-{flavour.gpu.value}")


def test_comments_of_the_template_reach_the_reader_of_the_dockerfile():
    assert "# Labels come first" in render(page("mi35x-rocm720"))


def test_kernels_are_compiled_last_and_only_when_that_was_asked_for():
    assert render(page("mi35x-rocm720", run="python3 -m x")).rstrip().endswith("\nRUN python3 -m x")
    assert "RUN" not in render(page("mi35x-rocm720"))


def test_without_tables_nothing_is_added_for_them():
    assert "tables.tar" not in render(page("mi35x-rocm720", has_tables=False))


def test_a_template_cannot_name_what_it_was_not_given(tmp_path):
    (tmp_path / "overlay.Dockerfile.j2").write_text("FROM {{ base }}\nENV X={{ environ }}\n")
    with pytest.raises(CatalogError, match="'environ' is undefined"):
        render(page("mi35x-rocm720"), tmp_path)


@pytest.mark.parametrize("name", ["range", "lipsum", "cycler", "joiner", "namespace", "os", "environ"])
def test_a_template_reaches_no_environment(tmp_path, name):
    (tmp_path / "overlay.Dockerfile.j2").write_text("FROM {{ base }}\n# {{ " + name + " }}\n")
    with pytest.raises(CatalogError, match="is undefined"):
        render(page("mi35x-rocm720"), tmp_path)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("FROM x\nRUN python3 <<'PY'\nprint(1)\nPY\n", "heredoc"),
        ("FROM x\nRUN <<EOF\nEOF\n", "heredoc"),
        ("FROM x\nCOPY <<EOF /a\nEOF\n", "heredoc"),
        ("FROM x\nRUN echo a \\\n  && cat <<-EOF\n", "heredoc"),
        ("FROM x\nRUN --mount=type=cache,target=/c true\n", "RUN option"),
        ("FROM x\nCOPY --chmod=644 a /a\n", "COPY or ADD option"),
        ("FROM x\ncopy --link a /a\n", "COPY or ADD option"),
        ("# syntax=docker/dockerfile:1\nFROM x\n", "syntax line"),
    ],
)
def test_what_some_builder_skips_or_refuses_is_found(text, what):
    assert any(what in fault for fault in lint(text))


def test_a_fault_is_named_by_its_line():
    assert lint("FROM x\nRUN a \\\n  # comment\n  b <<EOF\n")[0].startswith("line 2: ")


@pytest.mark.parametrize(
    "text", ["FROM x\nCOPY --chown=1:2 a /a\nADD a.tar /\n", "FROM x\nRUN echo 1 << 2\n", "FROM x\n# RUN <<EOF\n"]
)
def test_what_every_builder_reads_alike_is_let_through(text):
    assert lint(text) == ()


def test_a_rendered_heredoc_is_refused(tmp_path):
    (tmp_path / "overlay.Dockerfile.j2").write_text("FROM {{ base }}\nRUN <<EOF\ntrue\nEOF\n")
    with pytest.raises(CatalogError) as caught:
        render(page("mi35x-rocm720"), tmp_path)
    assert "line 2" in caught.value.details[0]
    assert caught.value.hint


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain", '"plain"'),
        ('a"b', '"a\\"b"'),
        ("a$HOME", '"a\\$HOME"'),
        ("a\\", '"a\\\\"'),
        ("a b", '"a b"'),
        ("", '""'),
    ],
)
def test_values_are_taken_literally(value, expected):
    assert quoted(value) == expected


@pytest.mark.parametrize("value", ["a\nRUN rm -rf /", "a\r", "\x00", "\x7f"])
def test_a_value_cannot_end_its_line(value):
    with pytest.raises(CatalogError):
        quoted(value)
