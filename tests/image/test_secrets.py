"""No secret is in a layer, a label, the manifest, the history or a log: grepped for, on a real engine and registry."""

from __future__ import annotations

import json

import pytest

from tests.image import services
from tests.image.conftest import Files, rocmfix

pytestmark = [pytest.mark.docker, pytest.mark.upstream]

PROXY = "http://proxyuser:pr0xy-passw0rd@127.0.0.1:9/"
SECRETS = ("pr0xy-passw0rd", services.PASSWORD)


def test_passwords_of_proxy_and_registry_are_nowhere(client, base, tag, logged_in, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, PROXY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    said = []
    for argv in (
        ("build", "--base", base, "--flavour", "mi35x-rocm720", "-t", tag),
        ("publish", tag, "--to", f"{logged_in}/me/sglang", "--tag", "v1"),
        ("inspect", f"{logged_in}/me/sglang:v1", "--remote", "--json"),
        ("verify", tag),
    ):
        result = rocmfix(*argv)
        assert result.exit_code in (0, 10, 11), result.stderr
        said.append(result.stdout + result.stderr)
    image = json.dumps(client.api.inspect_image(tag)) + json.dumps(client.api.history(tag))
    saved = b"".join(client.api.get_image(tag))
    for secret in SECRETS:
        assert secret not in "".join(said)
        assert secret not in image
        assert secret.encode() not in saved
    assert b"hip_runtime.h" in Files(client, tag).read(
        "/sgl-workspace/sglang/python/sglang/jit_kernel/csrc/elementwise/fused_metadata_copy.cuh"
    )


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("HF_TOKEN=hf_abcdef", "reads like a secret"),
        ("URL=http://u:hunter2@h/", "URL with a password"),
        ("1A=x", "not a variable name"),
    ],
)
def test_an_env_that_is_a_secret_is_refused_without_showing_it(base, pair, said):
    result = rocmfix("build", "--base", base, "--flavour", "mi35x-rocm720", "--env", pair)
    assert result.exit_code == 4
    assert said in result.stderr
    assert "hf_abcdef" not in result.output
    assert "hunter2" not in result.output
    assert "hint: give it to the container instead" in result.stderr


def test_what_the_engine_prints_is_redacted():
    import io

    from rocmfix.image.progress import Progress
    from rocmfix.system.docker import Event

    stream = io.StringIO()
    Progress(stream, ("t0ken",)).listen(Event("Step 1/2 : RUN curl https://u:pw@h/ -H t0ken\n"))
    assert stream.getvalue() == "   Step 1/2 : RUN curl https://***@h/ -H ***\n"
