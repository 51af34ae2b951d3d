"""A flavour is one TOML file; whatever is wrong in it is said, and nothing secret gets into an image by it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from rocmfix.errors import CatalogError
from rocmfix.image import flavour as flavours
from rocmfix.image.flavour import Variable

GOOD = """
summary = "sglang for a test"
gpu = "mi35x"
rocm = "7.2.0"
stage = "gfx950-rocm720"
[base]
image = "lmsysorg/sglang"
tag = "v1"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "flavours").mkdir()
    (tmp_path / "features.toml").write_text('[loud]\nwhy = "because it is loud"\nenv = { LOUD = "1" }\n')

    def write(text: str):
        (tmp_path / "flavours" / "mine.toml").write_text(text)
        return tmp_path

    return write


def test_adding_a_flavour_is_adding_one_file(folder):
    assert flavours.names(folder(GOOD)) == ("mine",)
    assert flavours.load("mine", folder(GOOD)).gpu.gfx == "gfx950"


def test_a_pinned_base_is_asked_for_by_digest(folder):
    digest = "sha256:" + "b" * 64
    flavour = flavours.load("mine", folder(GOOD + f'digest = "{digest}"\n'))
    assert flavour.base.reference.version == digest


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("mi35x", "mi99x"), "gpu"),
        (('rocm = "7.2.0"', 'rocm = "7"'), "rocm"),
        (('"v1"', '"-v1"'), "not a tag"),
        (("lmsysorg/sglang", "lmsysorg/sglang:x"), "name the repository alone"),
        (("lmsysorg/sglang", "Bad Name"), "not a repository"),
        (("summary", "sumary"), "sumary"),
        (("[base]", 'aiter = "7d604af"\n[base]'), "aiter"),
        (("[base]", '[env]\nHF_TOKEN = "x"\n[base]'), "reads like a secret"),
        (("[base]", '[env]\n"A B" = "x"\n[base]'), "not a variable name"),
        (("[base]", '[env]\nA = "http://u:p@h/"\n[base]'), "URL with a password"),
        (("[base]", "[base"), "Expected"),
    ],
)
def test_what_is_wrong_is_said_with_its_key(folder, change, said):
    with pytest.raises(CatalogError) as caught:
        flavours.load("mine", folder(GOOD.replace(*change)))
    assert said in " ".join(caught.value.details)
    assert caught.value.hint


def test_an_unknown_feature_names_those_there_are(folder):
    with pytest.raises(CatalogError) as caught:
        flavours.load("mine", folder(GOOD.replace("[base]", 'features = ["lowd"]\n[base]')))
    assert "loud" in (caught.value.hint or "")


def test_an_unknown_flavour_names_the_nearest():
    with pytest.raises(CatalogError) as caught:
        flavours.load("mi35x-rocm72")
    assert "mi35x-rocm720" in (caught.value.hint or "")


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "a/b"])
def test_a_name_that_is_a_path_opens_nothing(name):
    with pytest.raises(CatalogError, match="no flavour"):
        flavours.load(name)


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "db_password", "OPENAI_API_KEY", "MY_CREDENTIALS"]
)
def test_what_reads_like_a_secret_is_never_baked_in(name):
    with pytest.raises(ValidationError, match="reads like a secret"):
        Variable(name=name, value="x")


@pytest.mark.parametrize("name", ["TOKENIZERS_PARALLELISM", "MAX_TOKENS", "SGLANG_KEYED_CACHE", "SECRETARY"])
def test_what_only_begins_like_a_secret_is_a_setting(name):
    """TOKENIZERS_PARALLELISM, which every Hugging Face user knows, was refused for a token."""
    assert Variable(name=name, value="x").name == name


def test_every_shipped_flavour_and_feature_is_in_the_readme():
    text = (flavours.default_folder() / "README.md").read_text()
    assert not [name for name in flavours.names() if name not in text]
    assert "log-tuned-configs" in text
    assert "legacy-ipc" in text
