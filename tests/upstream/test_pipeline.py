"""The pipeline that users copy, end to end here: its own shell steps, the real engine, a real registry, a fake server."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from rocmfix.smoke import fake
from tests.aiter import rows
from tests.image import services
from tests.image.conftest import (  # noqa: F401 - fixtures
    client,
    engine,
    few_files,
    import_image,
    release_files,
    remove_images,
    rocmfix,
    run_id,
)
from tests.image.standin import ENV, Rootfs, host_python, upstream_layout
from tests.upstream.runner import ROOT, TOOLS, Runner, matrix

pytestmark = [pytest.mark.docker, pytest.mark.upstream]

FLAVOUR = "mi35x-rocm720"
TAG = "v0.5.14-rocm720-mi35x"


@pytest.fixture(scope="module")
def base(engine, client, few_files, run_id) -> Iterator[str]:  # noqa: F811
    """A stand-in for upstream's image in which what starts as sglang is the smoke tests' fake server."""
    rootfs = Rootfs()
    host_python(rootfs)
    upstream_layout(rootfs, few_files)
    rootfs.add("/opt/fake/sglang/__init__.py", b"")
    for file in sorted(Path(fake.__file__).parent.glob("*.py")):
        rootfs.add(f"/opt/fake/sglang/launch_server/{file.name}", file.read_bytes())
    rootfs.folder("/tmp", mode=0o1777)
    prefix = f"rocmfix-test/pipeline-{run_id}"
    yield import_image(client, rootfs, f"{prefix}:{TAG}", {**ENV, "PYTHONPATH": "/opt/fake"})
    remove_images(client, prefix)


@pytest.fixture(scope="module")
def registry(tmp_path_factory) -> Iterator[str]:
    """One registry for upstream's image and for ours."""
    with services.registry(tmp_path_factory.mktemp("registry")) as name:
        yield name


@pytest.fixture(scope="module")
def upstream(client, base, registry) -> Iterator[str]:  # noqa: F811
    """The stand-in in a registry, as upstream's would be."""
    name = f"{registry}/lmsysorg/sglang"
    client.images.get(base).tag(name, TAG)
    push(client, name)
    yield f"{name}:{TAG}"
    remove_images(client, registry)


def push(client, name):  # noqa: F811
    for line in client.images.push(name, tag=TAG, stream=True, decode=True):
        assert "error" not in line, line


@dataclass(frozen=True)
class Fleet:
    """One repository of ours in the registry, and the workflow that fills it."""

    folder: Path
    name: str
    upstream: str

    def run(self, number: int = 1) -> tuple[list[dict[str, str]], Runner]:
        """The whole workflow once, as GitHub would run it; what it planned, and the steps that ran."""
        work = self.folder / f"work-{number}"
        work.mkdir(parents=True)
        (self.folder / "model").mkdir(exist_ok=True)
        variables = {
            "ROCM_REPOSITORY": self.name,
            "ROCM_MODEL": str(self.folder / "model"),
            "ROCM_TP": "1",
            "ROCM_PLAN_OPTIONS": f"--flavour {FLAVOUR} --base {self.upstream}",
            "ROCM_SMOKE_OPTIONS": "--device cpu --concurrency 16 --start-limit 60",
        }
        github = {
            "run_id": str(number),
            "run_attempt": "1",
            "server_url": "https://github.example",
            "repository": "a/b",
        }
        runner = Runner(ROOT / "ci/github/images.yml", work, {"vars": variables, "github": github})
        jobs = matrix(runner.job("plan")["builds"])
        for name in ("build", "prove"):
            for job in jobs:
                runner.job(name, job)
        return jobs, runner


@pytest.fixture(scope="module")
def fleet(tmp_path_factory, registry, upstream) -> Fleet:
    """A fleet whose pipeline can be run."""
    return Fleet(tmp_path_factory.mktemp("fleet"), f"{registry}/fleet/sglang", upstream)


@pytest.fixture(scope="module")
def published(fleet) -> tuple[dict[str, str], Runner]:
    """What one run of the pipeline planned, and its runner."""
    (job,), runner = fleet.run()
    return job, runner


def head(name: str, reference: str) -> str | None:
    """The digest behind a tag, asked of the registry without rocmfix."""
    server, _, repository = name.partition("/")
    types = "application/vnd.docker.distribution.manifest.v2+json, application/vnd.oci.image.manifest.v1+json"
    answer = requests.head(
        f"http://{server}/v2/{repository}/manifests/{reference}", headers={"Accept": types}, timeout=10
    )
    return answer.headers["Docker-Content-Digest"] if answer.ok else None


def test_the_pipeline_runs_through_and_one_digest_has_both_tags(fleet, published):
    job, runner = published
    assert runner.ran == [
        "Which images are out of date", "Build", "Verify", "Hand over", "Fetch", "Smoke", "Publish what was proved",
        "Attest",
    ]  # fmt: skip
    assert job["why"] == "never built"
    digest = head(fleet.name, job["tag"])
    assert digest is not None
    assert digest == head(fleet.name, job["moving"])


def test_the_attestations_are_read_from_the_registry(fleet, published):
    job, _ = published
    digest = head(fleet.name, job["tag"]) or ""
    read = rocmfix("ci", "attestations", f"{fleet.name}:{job['tag']}", "--json")
    assert read.exit_code == 0, read.output
    documents = {each["media_type"]: json.loads(each["text"]) for each in json.loads(read.stdout)["documents"]}
    bom = documents["application/vnd.cyclonedx+json"]
    assert bom["metadata"]["component"]["version"] == digest
    (patches,) = [c["pedigree"]["patches"] for c in bom["components"] if c["name"] == "sglang"]
    assert {r["id"] for patch in patches for r in patch["resolves"]} >= {
        "jit-fused-metadata-guard",
        "jit-negative-cache",
    }
    statement = documents["application/vnd.in-toto+json"]
    assert statement["subject"][0]["digest"]["sha256"] == digest.removeprefix("sha256:")
    assert statement["predicate"]["runDetails"]["builder"]["id"] == "https://github.example/a/b/actions/runs/1"
    assert statement["predicate"]["buildDefinition"]["internalParameters"]["inputs"] == job["inputs"]


def test_a_second_run_builds_nothing(fleet, published):
    jobs, runner = fleet.run(2)
    assert jobs == []
    assert runner.ran == ["Which images are out of date"]
    assert "was built from these inputs" in runner.said[0]


def test_attesting_twice_attaches_once(fleet, published):
    name = f"{fleet.name}:{published[0]['tag']}"
    before = rocmfix("ci", "attestations", name).stdout
    assert rocmfix("ci", "attest", name).stdout == before
    assert before.count("application/") == 2


def test_cosign_signs_and_verifies_what_the_workflow_signs(fleet, published, tmp_path, monkeypatch):
    pinned = rocmfix("tags", "resolve", f"{fleet.name}:{published[0]['tag']}").stdout.strip()
    monkeypatch.setenv("COSIGN_PASSWORD", "")
    monkeypatch.setenv("PATH", str(TOOLS / "bin"), prepend=":")
    if not shutil.which("cosign"):
        pytest.skip("no cosign (ci/tools installs it)")
    for argv in (
        ["generate-key-pair"],
        ["sign", "--yes", "--key", "cosign.key", "--tlog-upload=false", pinned],
        ["verify", "--key", "cosign.pub", "--insecure-ignore-tlog", pinned],
    ):
        done = subprocess.run(["cosign", *argv], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_a_failed_smoke_test_publishes_nothing(registry, upstream, tmp_path):
    fleet = Fleet(tmp_path, f"{registry}/failing/sglang", upstream)
    (tmp_path / "model").mkdir()
    (tmp_path / "model/plays").write_text("fallback")
    with pytest.raises(AssertionError, match=r"^Smoke: "):
        fleet.run()
    assert head(fleet.name, f"{TAG}-rf") is None
    tags = requests.get(f"http://{registry}/v2/failing/sglang/tags/list", timeout=10).json()["tags"]
    candidate = next(tag for tag in tags if tag.startswith("candidate-"))
    report = tmp_path / "work-1/smoke/report.json"
    refused = rocmfix(
        "publish", f"{fleet.name}:{candidate}", "--to", fleet.name, "--tag", "x", "--require-smoke", report
    )
    assert refused.exit_code == 9
    assert "does not vouch for" in refused.output
    assert head(fleet.name, "x") is None


def test_a_stock_image_is_not_attested(upstream):
    result = rocmfix("ci", "attest", upstream)
    assert result.exit_code == 9
    assert "is no image of rocmfix" in result.output


def test_the_bake_file_is_what_buildx_takes(upstream, registry, tmp_path):
    out = tmp_path / "docker-bake.json"
    options = ("--to", f"{registry}/other/sglang", "--flavour", FLAVOUR, "--base", upstream, "--day", "20261130")
    assert rocmfix("ci", "bake", *options, "-o", out).exit_code == 0
    context = tmp_path / "contexts" / FLAVOUR
    made = rocmfix("build", "--flavour", FLAVOUR, "--base", upstream, "--context", context)
    assert made.exit_code == 0, made.output
    if subprocess.run(["docker", "buildx", "version"], capture_output=True, check=False).returncode:
        pytest.skip("no buildx (ci/engine installs it)")
    done = subprocess.run(
        ["docker", "buildx", "bake", "--print", "--file", out], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    target = json.loads(done.stdout)["target"][FLAVOUR]
    assert target["context"] == f"contexts/{FLAVOUR}"
    assert (context / target["dockerfile"]).is_file()
    (tag,) = target["tags"]
    assert tag.startswith(f"{registry}/other/sglang:{TAG}-rf")
    assert tag.endswith("-20261130")


def test_a_base_that_moved_is_built_again_and_the_moving_tag_keeps_its_name(fleet, published, client, upstream):  # noqa: F811
    first, _ = published
    name = upstream.rpartition(":")[0]
    container = client.containers.create(upstream, ["/bin/true"])
    container.commit(name, TAG, changes="LABEL moved=1")
    container.remove()
    push(client, name)
    plan = rocmfix("ci", "plan", "--to", fleet.name, "--flavour", FLAVOUR, "--base", upstream, "--json")
    (second,) = json.loads(plan.stdout)["include"]
    assert second["why"] == "its inputs changed"
    assert second["base"] != first["base"]
    assert second["moving"] == first["moving"]
    assert second["tag"] != first["tag"]


GLM = "mi35x-rocm724-glm5"
BUCKETS = tuple(1 << n for n in range(16))
TABLES = (rows.table(rows.ladder(BUCKETS, tflops="")), rows.table(rows.ladder(BUCKETS, expert=256, topk=8, tflops="")))


def pin(folder: Path, cache: Path, *tables: bytes) -> None:
    """The flavour's tables with these as their content, in the cache already: nothing is fetched."""
    index = folder / "aiter/index.toml"
    (cache / "tables").mkdir(parents=True, exist_ok=True)
    entries = index.read_text("utf-8").split("[[table]]")
    for number, data in enumerate(tables, 1):
        digest = hashlib.sha256(data).hexdigest()
        entries[number] = re.sub(r'(?m)^(sha256 +=) "\w+"', rf'\1 "{digest}"', entries[number])
        (cache / "tables" / f"{digest}.csv").write_bytes(data)
    index.write_text("[[table]]".join(entries), "utf-8")


def test_a_flavour_with_tables_is_built_once_and_again_when_a_table_changes(fleet, upstream, tmp_path, monkeypatch):
    folder, cache, to = tmp_path / "dockerfiles", tmp_path / "cache", f"{fleet.name}-glm5"
    shutil.copytree(ROOT / "dockerfiles", folder)
    monkeypatch.setattr("rocmfix.image.flavour.shipped", lambda name: tmp_path / name)
    monkeypatch.setattr("rocmfix.aiter.sources.shipped", lambda name: tmp_path / name)
    monkeypatch.setenv("ROCMFIX_CACHE", str(cache))
    pin(folder, cache, *TABLES)

    def plan():
        asked = rocmfix("ci", "plan", "--to", to, "--flavour", GLM, "--base", upstream, "--day", "20261130", "--json")
        assert asked.exit_code == 0, asked.output
        return json.loads(asked.stdout)

    (job,) = plan()["include"]
    assert job["why"] == "never built"
    image = f"{to}:{job['candidate']}"
    built = rocmfix("build", "--flavour", GLM, "--base", job["base"], "--tag", image)
    assert built.exit_code == 0, built.output
    assert rocmfix("verify", image).exit_code == 0
    done = rocmfix("publish", image, "--to", to, "--tag", job["tag"], "--moving", job["moving"])
    assert done.exit_code == 0, done.output
    again = plan()
    assert (again["include"], [kept["flavour"] for kept in again["kept"]]) == ([], [GLM])
    pin(folder, cache, TABLES[0], TABLES[1] + b"\n")
    (changed,) = plan()["include"]
    assert (changed["why"], changed["moving"]) == ("its inputs changed", job["moving"])
    assert changed["tag"] != job["tag"]
