"""`dsa-topk-v2-off`: what the patched switch says, by platform and by what the user set."""

import pytest

from tests.fixes.world import torch

FIX = "dsa-topk-v2-off"
SWITCH = "SGLANG_OPT_USE_TOPK_V2"

pytestmark = [pytest.mark.upstream, pytest.mark.parametrize("release", ["0.5.15", "0.5.15.post1"])]


@pytest.fixture
def switch(checkout, monkeypatch):
    """`switch(release, hip=..., user=...)`: the real switch, as a server with that environment sees it."""

    def make(release, *, hip, user=None, fix=FIX):
        monkeypatch.delenv(SWITCH, raising=False)
        if user is not None:
            monkeypatch.setenv(SWITCH, user)
        world = checkout(release, "srt/environ.py", fix=fix)
        world.open({"torch": torch(hip=hip)})
        return getattr(world.load("sglang.srt.environ").envs, SWITCH)

    return make


def test_it_is_off_by_default_on_rocm_only(switch, release):
    assert switch(release, hip="7.2", fix=None).get() is True, "the defect is no longer there to mend"
    assert switch(release, hip="7.2").get() is False
    assert switch(release, hip=None).get() is True


@pytest.mark.parametrize(("user", "says"), [("1", True), ("true", True), ("0", False), ("false", False)])
@pytest.mark.parametrize("hip", ["7.2", None])
def test_what_the_user_sets_is_obeyed(switch, release, hip, user, says):
    assert switch(release, hip=hip, user=user).get() is says


@pytest.mark.parametrize("hip", ["7.2", None])
def test_the_default_counts_as_not_set(switch, release, hip):
    """Code that asks `is_set` must still tell the user's choice from the default."""
    assert switch(release, hip=hip).is_set() is False


def test_upstreams_own_arms_still_override_it(switch, release):
    """DeepSeek-V4 sets it in code; `set` and `override` work as on any switch."""
    value = switch(release, hip="7.2")
    with value.override(True):
        assert value.get() is True
    assert value.get() is False
    value.set(True)
    assert value.get() is True
    value.clear()
    assert value.get() is False


def test_no_torch_means_no_rocm(checkout, monkeypatch, release):
    monkeypatch.delenv(SWITCH, raising=False)
    world = checkout(release, "srt/environ.py", fix=FIX)
    world.open({"torch": None})

    assert getattr(world.load("sglang.srt.environ").envs, SWITCH).get() is True
