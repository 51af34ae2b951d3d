"""The hipcc of an image: the compiler runs in a container, the files stay here."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from rocmfix.cli import main
from rocmfix.errors import ToolMissingError
from rocmfix.guards.chain import SUFFIXES
from rocmfix.guards.compile import Came, Kernels, build
from rocmfix.guards.toolchain import Toolchain, image_toolchain, toolchain_for
from rocmfix.system.files import Copied, write_out
from rocmfix.tree import PACKAGE, Tree
from tests.guards.kernels import FILE, tree
from tests.image.standin import Rootfs

# What `hipcc` is in the small image: it looks for one header in the kernel, by the shell's own words alone.
HIPCC = r"""#!/bin/sh
for each; do
    case $each in *.hip) source=$each ;; esac
    out=$each
done
kernel=
while read -r word name; do
    case $word$name in '#include"'*k.cuh*) kernel=${name#?} kernel=${kernel%?} ;; esac
done <"$source"
if [ -n "$kernel" ]; then
    while read -r word name; do
        case $name in '<cuda_runtime.h>')
            echo "$kernel:1:10: fatal error: 'cuda_runtime.h' file not found" >&2
            exit 1 ;;
        esac
    done <"$kernel"
fi
: >"$out"
"""
PYTHON = '#!/bin/sh\necho "/site/tvm_ffi"\n'
OLD = "#!/bin/sh\necho \"probe.hip:2:1: error: unknown type name 'hipLaunchConfig_t'\" >&2\nexit 1\n"

# `docker run` on this machine: the options are dropped, the entry point is looked for in the image's folder.
DOCKER = r"""#!/bin/sh
for each; do
    shift
    case $each in
    --workdir=*) folder=${each#*=} ;;
    --entrypoint=*) program=${each#*=} ;;
    some/image) break ;;
    esac
done
cd "$folder" || exit
export PATH=IMAGE/opt/rocm/bin:IMAGE/usr/bin:/usr/bin:/bin
exec "$program" "$@"
"""


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, hipcc: str | None = HIPCC) -> None:
    """A `docker` on PATH whose only image lies in a folder."""
    programs = {"usr/bin/python3": PYTHON} | ({"opt/rocm/bin/hipcc": hipcc} if hipcc else {})
    for name, text in (*((f"image/{path}", text) for path, text in programs.items()), ("docker", DOCKER)):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("IMAGE", str(folder / "image")))
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("kernel", "came"), [("int a;\n", Came.COMPILED), ("#include <cuda_runtime.h>\n", Came.FAILED)]
)
def test_the_kernels_of_an_image_are_compiled_by_its_own_hipcc(
    kernel: str, came: Came, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch)
    found = toolchain_for("image:some/image")
    assert found.name.endswith("hipcc of some/image")
    assert found.tvm_ffi == (Path("/site/tvm_ffi/include"),)
    (each,) = build(Kernels(tree(kernel)), [FILE], ["gfx942"], found).built
    assert each.came is came


@pytest.mark.parametrize(("hipcc", "why"), [(None, "has no hipcc"), (OLD, "toolchain too old")])
def test_an_image_that_cannot_compile_is_not_compiled(
    hipcc: str | None, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, hipcc)
    with pytest.raises(ToolMissingError, match=why):
        toolchain_for("image:some/image")


def test_without_docker_the_images_hipcc_is_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolMissingError, match="docker is not on PATH"):
        image_toolchain("some/image")


@pytest.fixture
def image(tmp_path: Path) -> Iterator[str]:
    """An image of a shell, its libraries and the two programs, in the real engine."""
    name = "rocmfix-test/hipcc:small"
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "info"], capture_output=True, check=False).returncode
    ):
        pytest.skip("no engine here")
    root = Rootfs()
    shell = Path("/bin/sh").resolve()
    said = subprocess.run(["ldd", str(shell)], capture_output=True, text=True, check=True).stdout
    for library in re.findall(r"(/\S+) \(", said):
        root.add(library, Path(library).read_bytes(), mode=0o755)
    root.add("/bin/sh", shell.read_bytes(), mode=0o755)
    root.add("/opt/rocm/bin/hipcc", HIPCC.encode(), mode=0o755)
    root.add("/usr/bin/python3", PYTHON.encode(), mode=0o755)
    subprocess.run(["docker", "import", "-", name], input=root.tar(), capture_output=True, check=True)
    yield name
    subprocess.run(["docker", "rmi", "--force", name], capture_output=True, check=False)


@pytest.mark.docker
def test_the_real_engine_runs_the_images_hipcc_and_leaves_no_container(image: str) -> None:
    found = image_toolchain(image)
    assert found.name == f"/opt/rocm/bin/hipcc of {image}"
    assert found.tvm_ffi[0] == Path("/site/tvm_ffi/include")
    for kernel, came in (("int a;\n", Came.COMPILED), ("#include <cuda_runtime.h>\n", Came.FAILED)):
        (each,) = build(Kernels(tree(kernel)), [FILE], ["gfx950"], found).built
        assert each.came is came
    left = subprocess.run(
        ["docker", "ps", "--all", "--quiet", "--filter", f"ancestor={image}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not left.stdout


@pytest.fixture
def compiling(hip: Toolchain, release_tree: Callable[[str], Tree], tmp_path: Path) -> Iterator[str]:
    """An image of sglang 0.5.14 with a real compiler as its hipcc: this machine's, with AMD's headers."""
    name = "rocmfix-test/hipcc:real"
    own = tmp_path / "own"
    start = f'#!/bin/sh\nexec {shlex.join(hip.command[:-2])} "$@"\n'
    for path, text in {"opt/rocm/bin/hipcc": start, "usr/bin/python3": PYTHON}.items():
        (own / path).parent.mkdir(parents=True)
        (own / path).write_text(text)
        (own / path).chmod(0o755)
    tree = release_tree("0.5.14")
    kept = (path for path in tree.paths(PACKAGE) if path.endswith((".py", *SUFFIXES)))
    write_out(own / "sgl-workspace/sglang", (Copied(path, tree.read(path) or b"") for path in kept))
    shutil.copytree(hip.tvm_ffi[0].parents[0], own / "site/tvm_ffi")
    packed = [
        "tar",
        "--create",
        "--hard-dereference",
        "--file=-",
        "--directory=/",
        *_compiler_of(hip),
        f"--directory={own}",
        ".",
    ]
    with subprocess.Popen(packed, stdout=subprocess.PIPE) as tar:
        subprocess.run(["docker", "import", "-", name], stdin=tar.stdout, check=True)
    assert tar.returncode == 0
    yield name
    subprocess.run(["docker", "rmi", "--force", name], capture_output=True, check=False)


def _compiler_of(hip: Toolchain) -> list[str]:
    """What a compilation reads of this machine, and the shell that starts it: paths below the root."""
    clang = Path(str(shutil.which(hip.command[0]))).resolve()
    said = subprocess.run([clang, "-print-resource-dir"], capture_output=True, text=True, check=True).stdout.strip()
    programs = [clang, clang.with_name("lld"), Path("/bin/sh")]
    libraries = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=True).stdout
    rocm = next(each.partition("=")[2] for each in hip.command if each.startswith("--rocm-path="))
    headers = [*Path("/usr/include").glob("*.h"), *map(Path("/usr/include").joinpath, ("c++", "linux", "asm-generic"))]
    used: list[str | Path] = [
        *programs,
        hip.command[0],
        said,
        rocm,
        *headers,
        *Path("/usr/include").glob("*-linux-gnu"),
        "/usr/lib/gcc",
    ]
    used += re.findall(r"(/\S+) \(", libraries)
    places = {Path(path).parent.resolve() / Path(path).name for path in used}  # no path through a link
    links = {Path(path) for path in ("/bin", "/lib", "/lib64") if Path(path).is_symlink()}
    every = links | places | {path.resolve() for path in places}
    return [str(path).lstrip("/") for path in sorted(every) if every.isdisjoint(path.parents)]


@pytest.mark.docker
@pytest.mark.upstream
def test_a_real_compiler_in_an_image_proves_the_shipped_guard_on_the_tree_of_the_image(compiling: str) -> None:
    done = CliRunner().invoke(
        main,
        [
            "guards",
            "compile",
            f"image:{compiling}",
            "fused_metadata_copy.cuh",
            "--patched",
            "--arch",
            "gfx950",
            "--json",
        ],
    )
    assert done.exit_code == 0, done.output
    proof = json.loads(done.stdout)
    assert proof["toolchain"] == f"/opt/rocm/bin/hipcc of {compiling}"
    assert {each["error"] for each in proof["before"]} == {"'cuda_runtime.h' file not found"}
    assert [each["came"] for each in proof["after"]] == ["compiled"] * 2
    assert proof["cuda_changed"] == []


@pytest.mark.docker
def test_an_image_that_is_not_here_is_not_pulled(image: str) -> None:
    with pytest.raises(ToolMissingError, match="cannot be run"):
        image_toolchain(f"{image}-of-nobody")
