"""`jit-negative-cache`: the patched loader of each release, run with a compiler that fails."""

import functools
import gc
import re
import traceback
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from tests.fixes.jit import ERROR, Compiler, Jit, open_jit

FIX = "jit-negative-cache"
RELEASES = (
    "0.5.8",
    "0.5.9",
    "0.5.10",
    "0.5.12.post1",
    "0.5.13",
    "0.5.14",
    "0.5.15.post1",
    "0.5.16",
    "0.5.17",
    "0.5.18",
    "0.5.23",
)
"""First and last release, and both ends of the windows between: every patch text is run."""
MULTI_BACKEND = tuple(release for release in RELEASES if release != "0.5.8")

pytestmark = pytest.mark.upstream


@pytest.fixture
def loader(checkout, tmp_path, monkeypatch):
    """`loader(release, hip=..., fix=..., works=...)` opens a release's JIT loader and gives it with its compiler."""

    def make(release: str, *, hip: str | None, fix: str | None = FIX, works: bool = False) -> tuple[Any, Compiler]:
        jit = Jit(release)
        world = checkout(release, *jit.files, fix=fix)
        compiler = Compiler(tmp_path, monkeypatch, works=works)
        open_jit(world, compiler, hip=hip)
        return world.load(jit.utils), compiler

    return make


def builder_of(utils: Any) -> Callable[..., Any]:
    """A module factory as upstream writes them: a `cache_once` function that calls `load_jit`."""

    def build(width: int, *, flag: bool = True) -> Any:
        return utils.load_jit(
            "copy", str(width), cuda_files=["elementwise/fused_metadata_copy.cuh"], cuda_wrappers=[("f", "g")]
        )

    once: Callable[..., Any] = utils.cache_once(build)
    return once


def failure(build: Callable[..., Any], *args: Any, **kwargs: Any) -> Exception:
    with pytest.raises(Exception, match="cuda_runtime") as caught:
        build(*args, **kwargs)
    return caught.value


@pytest.mark.parametrize("release", RELEASES)
def test_on_rocm_a_build_that_fails_is_run_once(loader, release):
    utils, compiler = loader(release, hip="7.2")
    build = builder_of(utils)

    failures = [failure(build, 4) for _ in range(20)]

    assert compiler.runs == 1
    assert len({str(each) for each in failures}) == 1
    assert all(isinstance(each, RuntimeError) for each in failures), "callers that catch RuntimeError still do"


@pytest.mark.parametrize("release", RELEASES)
def test_each_failure_is_a_fresh_exception_that_holds_nothing(loader, release):
    utils, _ = loader(release, hip="7.2")
    build = builder_of(utils)
    failure(build, 4)

    later = [failure(build, 4) for _ in range(3)]

    assert len({id(each) for each in later}) == 3
    assert len({len(traceback.extract_tb(each.__traceback__)) for each in later}) == 1, "the traceback grows"
    assert all(each.__cause__ is None and each.__context__ is None for each in later), "a chain holds old frames"


@pytest.mark.parametrize("release", RELEASES)
def test_the_frames_of_a_failed_build_are_let_go_without_the_collector(loader, release):
    """A tensor in a frame that met the failure must not live on: reference counting alone frees it."""
    utils, _ = loader(release, hip="7.2")
    build = builder_of(utils)

    class Held:
        pass

    def meet() -> weakref.ref[Held]:
        tensor = Held()
        try:
            build(4)
        except RuntimeError:
            return weakref.ref(tensor)
        raise AssertionError("the build did not fail")

    gc.disable()
    try:
        assert [meet()() for _ in range(3)] == [None, None, None]
    finally:
        gc.enable()


@pytest.mark.parametrize("release", RELEASES)
def test_another_module_is_tried_in_its_own_right(loader, release):
    utils, compiler = loader(release, hip="7.2")
    build = builder_of(utils)

    failure(build, 4)
    failure(build, 5)
    failure(build, 4, flag=False)
    failure(build, 4, flag=False)

    assert compiler.runs == 3


@pytest.mark.parametrize("hip", ["7.2", None])
@pytest.mark.parametrize("release", RELEASES)
def test_a_build_that_works_is_run_once_and_kept(loader, release, hip):
    utils, compiler = loader(release, hip=hip, works=True)
    build = builder_of(utils)

    assert build(4) is build(4)
    assert compiler.runs == 1


@pytest.mark.parametrize("hip", ["7.2", None])
@pytest.mark.parametrize("release", RELEASES)
def test_a_check_that_builds_nothing_is_asked_again_after_any_other_error(loader, release, hip):
    """cache_once has many users that build nothing; their failures may pass."""
    utils, _ = loader(release, hip=hip)
    answers = iter([RuntimeError("no device yet"), ValueError("not now"), True])
    asked = []

    @utils.cache_once
    def can_use():
        asked.append(1)
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with pytest.raises(RuntimeError, match="no device yet"):
        can_use()
    with pytest.raises(ValueError, match="not now"):
        can_use()
    assert (can_use(), can_use()) == (True, True)
    assert len(asked) == 3


@pytest.mark.parametrize("release", RELEASES)
def test_a_request_that_never_reaches_the_compiler_is_not_remembered(loader, release):
    utils, compiler = loader(release, hip="7.2")
    asked = []

    @utils.cache_once
    def build():
        asked.append(1)
        return utils.load_jit("copy", cuda_wrappers=[("only one",)])

    for _ in range(2):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - a tuple that does not unpack
            build()
        assert type(caught.value).__name__ != "JitBuildError"
    assert (len(asked), compiler.runs) == (2, 0)


@pytest.mark.parametrize("release", RELEASES)
def test_on_cuda_the_loader_does_what_it_did(loader, release):
    def story(fix: str | None) -> tuple[Any, ...]:
        utils, compiler = loader(release, hip=None, fix=fix)
        build = builder_of(utils)
        before = compiler.runs
        failures = [failure(build, 4) for _ in range(3)]
        chains = [(type(each), each.__cause__, each.__context__) for each in failures]
        frames = [[frame.name for frame in traceback.extract_tb(each.__traceback__)] for each in failures]
        return compiler.runs - before, chains, frames

    assert story(FIX) == story(None)
    assert story(FIX)[0] == 3


@pytest.mark.parametrize("release", MULTI_BACKEND)
def test_at_depth_5_a_hundred_replays_cost_one_build_and_one_warning(depth_5, caplog, capsys, release):
    """The real attention step, the real copy wrapper, the real loader: only the compiler is a stand-in."""
    said: list[str] = []
    replays, compiler = depth_5(release, hip="7.2", fix=FIX, warn=functools.lru_cache(None)(said.append))

    replays.run(100)

    assert compiler.runs == 1
    assert replays.copied == [f"backend {step}" for step in range(4)] * 100, "every replay must still copy"
    assert len(said) == 1
    assert ERROR in said[0]
    assert "falling back to loop" in said[0]
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1, "the builder logs once"
    assert "falling back" not in capsys.readouterr().out


@pytest.mark.parametrize("release", MULTI_BACKEND)
def test_at_depth_5_cuda_tries_and_says_what_it_did(depth_5, capsys, release):
    def story(fix: str | None) -> tuple[Any, ...]:
        replays, compiler = depth_5(release, hip=None, fix=fix)
        before = compiler.runs
        replays.run(3)
        said = re.sub(r"\.staging-[0-9a-f]+", "STAGING", capsys.readouterr().out)
        return compiler.runs - before, replays.copied, [line for line in said.splitlines() if "Warning" in line]

    patched, plain = story(FIX), story(None)
    assert patched == plain
    assert (patched[0], len(patched[2])) == (3, 3)


@pytest.mark.parametrize("release", MULTI_BACKEND)
def test_the_warning_comes_from_a_function_that_each_release_has_and_that_says_it_once(checkout, release):
    world = checkout(release, "srt/utils/common.py")
    said: list[str] = []
    warn = world.function(
        "sglang/srt/utils/common.py",
        "print_warning_once",
        {
            "functools": functools,
            "lru_cache": functools.lru_cache,
            "logger": type("Log", (), {"warning": staticmethod(said.append)}),
        },
    )

    warn("a")
    warn("a")

    assert said == ["a"]
