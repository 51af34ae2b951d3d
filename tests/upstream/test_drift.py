"""Drift: what is news, what is not, what was not reached; one issue, one page, no false calm."""

from __future__ import annotations

import dataclasses
import html
import json
import re
import subprocess
from html.parser import HTMLParser

import pytest

from rocmfix.catalog import load
from rocmfix.errors import SourceError
from rocmfix.model import Outcome, Status, TreeReport, Upstream, Verdict
from rocmfix.tree import MemoryTree
from rocmfix.upstream import page, webpage
from rocmfix.upstream.compare import carried, new_gaps, next_run
from rocmfix.upstream.gather import Setting, Source, watch
from rocmfix.upstream.issue import keep
from rocmfix.upstream.looks import Looks, Question
from rocmfix.upstream.propose import as_diff, proposals
from rocmfix.upstream.watch import Line, Look, Seen, Watch, What, parse_watch
from tests.upstream.conftest import GUARDED, KERNEL, KERNEL_TEXT, LOADER, LOADER_TEXT, REMEMBERS

NEEDED, UPSTREAM, ABSENT = Outcome.NEEDED, Outcome.UPSTREAM, Outcome.NOT_APPLICABLE
CONFLICT, UNMENDED = Outcome.CONFLICT, Outcome.UNMENDED


def seen(source, *outcomes, line=Line.RELEASE, why="", **more):
    stand = Upstream(status=Status.LOCAL)
    verdicts = tuple(
        Verdict(fix=f"fix-{i}", verdict=outcome, reason="because", file="a.py", line=3, upstream=stand)
        for i, outcome in enumerate(outcomes)
    )
    report = TreeReport(source=source, release=source, verdicts=verdicts) if outcomes else None
    return Seen(source=source, line=line, reached=None if why else "now", report=report, not_reached=why, **more)


def outcome(now, source, fix):
    """What a run says of a fix on a source."""
    (found,) = [each.verdict(fix) for each in now.seen if each.source == source]
    return found.verdict if found else None


def includes(now, source):
    """What was found in a source beyond its fixes."""
    (found,) = [each.includes for each in now.seen if each.source == source]
    return found.found if found else None


def why_not(now, source):
    """Why a source was not reached."""
    (found,) = [each.not_reached for each in now.seen if each.source == source]
    return found


def run(*sources, oldest="0.5.1", day="today", **more):
    return Watch(day=day, project="sglang", oldest=oldest, is_first=False, seen=sources, **more)


def happened(last, now):
    return [(e.what, e.source, e.fix) for e in next_run(last, now).events]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (NEEDED, UPSTREAM, What.UPSTREAM),
        (UNMENDED, UPSTREAM, What.UPSTREAM),
        (CONFLICT, UPSTREAM, What.UPSTREAM),
        (ABSENT, NEEDED, What.ARRIVED),
        (UPSTREAM, NEEDED, What.RELAPSED),
        (UNMENDED, NEEDED, What.COVERED),
        (CONFLICT, NEEDED, What.COVERED),
        (NEEDED, CONFLICT, What.CONFLICT),
        (UPSTREAM, CONFLICT, What.CONFLICT),
        (NEEDED, UNMENDED, What.UNMENDED),
        (NEEDED, ABSENT, What.GONE),
        (NEEDED, NEEDED, None),
        (ABSENT, UPSTREAM, None),
        (UPSTREAM, ABSENT, None),
        (Outcome.APPLIED, UPSTREAM, None),
    ],
)
def test_a_moving_branch_is_compared_with_itself(before, after, expected):
    last = run(seen("0.5.1", NEEDED), seen("git:main", before, line=Line.BRANCH))
    now = run(seen("0.5.1", NEEDED), seen("git:main", after, line=Line.BRANCH))
    assert happened(last, now) == ([(expected, "git:main", "fix-0")] if expected else [])


def test_a_new_release_is_compared_with_the_one_before_it_not_with_the_newest():
    last = run(seen("0.5.1", NEEDED), seen("0.5.3", UPSTREAM))
    now = run(seen("0.5.1", NEEDED), seen("0.5.3", UPSTREAM), seen("0.5.2", NEEDED))
    assert happened(last, now) == [(What.NEW_SOURCE, "0.5.2", "")]


def test_two_new_releases_at_once_each_say_their_own():
    last = run(seen("0.5.1", NEEDED))
    now = run(seen("0.5.1", NEEDED), seen("0.5.2", CONFLICT), seen("0.5.3", UPSTREAM))
    assert happened(last, now) == [
        (What.NEW_SOURCE, "0.5.2", ""),
        (What.CONFLICT, "0.5.2", "fix-0"),
        (What.NEW_SOURCE, "0.5.3", ""),
        (What.UPSTREAM, "0.5.3", "fix-0"),
    ]


def test_a_nightly_image_is_compared_with_the_release_it_is_named_after():
    image = seen("image:r/sglang:v0.5.1-20260630", UPSTREAM, line=Line.IMAGE)
    image = image.model_copy(update={"report": image.report.model_copy(update={"release": "0.5.1"})})
    last = run(seen("0.5.1", NEEDED), seen("0.5.2", UPSTREAM))
    assert happened(last, run(*last.seen, image)) == [
        (What.NEW_SOURCE, image.source, ""),
        (What.UPSTREAM, image.source, "fix-0"),
    ]


def test_a_fix_is_to_be_dropped_once_when_support_moves_on():
    releases = (seen("0.5.1", NEEDED), seen("0.5.2", UPSTREAM))
    last, now = run(*releases), run(*releases, oldest="0.5.2")
    assert happened(last, now) == [(What.RETIRE, "catalogue", "fix-0")]
    assert happened(next_run(last, now), run(*releases, oldest="0.5.2")) == []


def test_a_fix_that_is_new_in_the_catalogue_is_news_once_and_not_on_every_release():
    last = run(seen("0.5.1", NEEDED), seen("0.5.2", NEEDED))
    now = run(seen("0.5.1", NEEDED, NEEDED), seen("0.5.2", NEEDED, UPSTREAM))
    assert happened(last, now) == [(What.NEW_FIX, "catalogue", "fix-1")]


def test_a_fix_that_left_the_catalogue_is_said():
    assert happened(run(seen("0.5.1", NEEDED, NEEDED)), run(seen("0.5.1", NEEDED))) == [
        (What.DROPPED_FIX, "catalogue", "fix-1")
    ]


def look(*found, by="1.0"):
    return Look(by=by, found=found)


def test_new_includes_and_broken_tables_are_news_by_name():
    last = run(seen("0.5.1", NEEDED, includes=look("a.cuh: cub.h"), broken_tables=look()))
    found = seen(
        "0.5.2",
        NEEDED,
        includes=look("a.cuh: cub.h", "b.cuh: cub.h", "b.cuh: inline PTX"),
        broken_tables=look("glm on gfx950: no kernel"),
    )
    events = next_run(last, run(*last.seen, found)).events
    assert [(e.what, e.text) for e in events[1:]] == [
        (What.INCLUDE, "b.cuh: cub.h, inline PTX"),
        (What.TABLE, "glm on gfx950: no kernel"),
    ]


def test_a_table_that_stays_broken_for_another_reason_is_no_news():
    last = run(seen("git:main", NEEDED, line=Line.BRANCH, broken_tables=look("glm on gfx950: AITER a lacks it")))
    now = run(seen("git:main", NEEDED, line=Line.BRANCH, broken_tables=look("glm on gfx950: AITER b lacks it")))
    assert happened(last, now) == []


def test_a_first_look_at_includes_is_no_flood_of_news():
    last = run(seen("0.5.1", NEEDED))
    assert happened(last, run(seen("0.5.1", NEEDED, includes=look("a.cuh: cub.h")))) == []


def test_another_version_may_see_more_and_is_not_compared():
    last = run(seen("git:main", NEEDED, line=Line.BRANCH, includes=look(by="1.0")))
    now = run(seen("git:main", NEEDED, line=Line.BRANCH, includes=look("a.cuh: cub.h", by="1.1")))
    assert happened(last, now) == []


def test_a_source_that_was_not_reached_keeps_its_last_verdicts_and_says_that_they_are_old():
    last = run(seen("git:main", NEEDED, line=Line.BRANCH))
    old = carried(last, seen("git:main", line=Line.BRANCH, why="no network"))
    now = run(old)
    assert happened(last, now) == []
    assert outcome(now, "git:main", "fix-0") is NEEDED
    assert [(gap.what, gap.why) for gap in now.unreached] == [("git:main", "no network")]
    text = "\n".join(page.lines(now, ()))
    assert "not reached today; as of now" in text
    assert "NOT REACHED" in text
    assert new_gaps(last, now) == now.unreached


def test_a_source_that_is_reached_again_is_compared_with_what_was_known_of_it():
    last = run(seen("git:main", NEEDED, line=Line.BRANCH))
    lost = next_run(last, run(carried(last, seen("git:main", line=Line.BRANCH, why="no network"))))
    assert happened(lost, run(seen("git:main", UPSTREAM, line=Line.BRANCH))) == [(What.UPSTREAM, "git:main", "fix-0")]


def test_a_release_that_could_not_be_opened_when_it_was_new_is_judged_when_it_can():
    last = run(seen("0.5.1", NEEDED))
    lost = next_run(last, run(seen("0.5.1", NEEDED), seen("0.5.2", why="not listed yet")))
    assert [e.what for e in lost.events] == [What.NEW_SOURCE]
    assert happened(lost, run(seen("0.5.1", NEEDED), seen("0.5.2", CONFLICT))) == [(What.CONFLICT, "0.5.2", "fix-0")]


def test_exit_code_12_as_long_as_something_is_in_conflict():
    assert run(seen("0.5.1", CONFLICT)).exit_code == 12
    assert run(seen("0.5.1", NEEDED, UNMENDED)).exit_code == 0


def test_a_damaged_state_is_an_error_and_not_a_first_run():
    with pytest.raises(SourceError, match="no record of a drift run"):
        parse_watch(b"{}", "drift.json")
    assert parse_watch(None, "drift.json") is None


def trees(**changes):
    files = {KERNEL: KERNEL_TEXT, LOADER: LOADER_TEXT, **changes}
    return MemoryTree({path: text.encode() for path, text in files.items()})


def source(name, tree, line=Line.RELEASE):
    def refuse():
        raise SourceError("no route to host")

    return Source(name, line, (lambda: tree) if tree else refuse)


@pytest.fixture
def catalog(catalogue_folder):
    return load(catalogue_folder)


def test_an_unreachable_source_spoils_no_other(catalog):
    now = watch(catalog, [source("0.5.14", None), source("0.5.15", trees())], None, Setting("today", "0.5.14"))
    assert why_not(now, "0.5.14") == "no route to host"
    assert outcome(now, "0.5.15", "guard") is NEEDED


def test_a_source_that_is_no_longer_asked_about_is_not_called_unchanged(catalog):
    setting = Setting("today", "0.5.14")
    main = source("git:main", trees(), Line.BRANCH)
    last = watch(catalog, [source("0.5.14", trees()), main], None, setting)
    now = watch(catalog, [source("0.5.14", trees())], last, setting)
    assert why_not(now, "git:main") == "not asked about in this run"


class Scanner:
    """Looks at trees, and remembers at which."""

    def __init__(self, by="1.0", found=(), *, fails=False):
        self.by, self.found, self.fails, self.asked = by, found, fails, []

    def ask(self, tree):
        self.asked.append(tree.source)
        if self.fails:
            raise SourceError("no route to AITER")
        return self.found

    def setting(self):
        return Setting("today", "0.5.14", Looks(self.by, (Question("includes", "CUDA-only code", self.ask),)))


def several(*names):
    """Releases, and main."""
    made = [source(name, dataclasses.replace(trees(), source=name)) for name in names]
    return [*made, source("git:main", dataclasses.replace(trees(), source="main"), Line.BRANCH)]


def test_only_what_is_new_or_moves_is_scanned(catalog):
    """A scan takes seconds; a release is what it was."""
    first, second, third, fourth = (Scanner() for _ in range(4))
    one = watch(catalog, several("0.5.13", "0.5.14"), None, first.setting())
    assert first.asked == ["0.5.14", "main"], "there is nothing yet to compare an older one with"
    two = watch(catalog, several("0.5.13", "0.5.14"), one, second.setting())
    assert second.asked == ["main"]
    assert includes(two, "0.5.14") == includes(one, "0.5.14") == ()
    three = watch(catalog, several("0.5.13", "0.5.14", "0.5.15", "0.5.16"), two, third.setting())
    assert third.asked == ["0.5.15", "0.5.16", "main"]
    watch(catalog, several("0.5.13", "0.5.14", "0.5.15", "0.5.16"), three, fourth.setting())
    assert fourth.asked == ["main"]


def test_a_new_release_and_the_one_before_it_are_scanned_by_the_same_version(catalog):
    """A new release is known to a new version of rocmfix only."""
    one = watch(catalog, several("0.5.14"), None, Scanner().setting())
    newer = Scanner("1.1", found=("a.cuh: cub.h",))
    now = watch(catalog, several("0.5.14", "0.5.15"), one, newer.setting())
    assert newer.asked == ["0.5.14", "0.5.15", "main"]
    assert [event.what for event in now.events] == [What.NEW_SOURCE]
    assert [(gap.what, gap.why) for gap in now.gaps] == [
        (f"CUDA-only code of {name}", "rocmfix 1.1 looked anew, and does not compare with what 1.0 saw")
        for name in ("0.5.14", "git:main")
    ]


def test_what_cannot_be_told_is_a_gap_keeps_its_last_answer_and_spoils_no_verdict(catalog):
    one = watch(catalog, several("0.5.14"), None, Scanner(found=("a.cuh: cub.h",)).setting())
    now = watch(catalog, several("0.5.14"), one, Scanner(fails=True).setting())
    assert [(gap.what, gap.why) for gap in now.gaps] == [("CUDA-only code of git:main", "no route to AITER")]
    assert outcome(now, "git:main", "guard") is NEEDED
    assert includes(now, "git:main") == ("a.cuh: cub.h",)
    assert now.events == ()


@pytest.fixture
def mended(catalog):
    """Three releases: broken, guarded, guarded and remembering."""
    sources = [
        source("0.5.14", trees()),
        source("0.5.15", trees(**{KERNEL: GUARDED})),
        source("0.5.16", trees(**{KERNEL: GUARDED, LOADER: REMEMBERS})),
    ]
    return lambda oldest="0.5.14": watch(catalog, sources, None, Setting("2026-11-30", oldest))


def test_series_edits_are_proposed_with_a_reason_and_as_a_diff(catalog, mended, golden):
    found = proposals(catalog, mended())
    assert [(each.fix, each.why) for each in found] == [
        ("guard", "guard.patch does not apply from 0.5.15 on"),
        ("remember", "0.5.16 is the first release that has it; find the pull request that did it"),
        ("remember", "remember.patch does not apply from 0.5.16 on"),
    ]
    (patches,) = catalog.sets
    golden("drift_series.diff", as_diff(patches, (patches.folder / "series.toml").read_text(), found))


def test_the_proposed_edit_loads(catalog, mended, catalogue_folder, tmp_path):
    (patches,) = catalog.sets
    series = patches.folder / "series.toml"
    diff = as_diff(patches, series.read_text(), proposals(catalog, mended())).replace("owner/repo#N", "a/b#3")
    (tmp_path / "edit.diff").write_text(diff)
    subprocess.run(["git", "init", "-q"], cwd=catalogue_folder.parent, check=True)
    subprocess.run(["git", "apply", str(tmp_path / "edit.diff")], cwd=catalogue_folder.parent, check=True)
    fix = load(catalogue_folder).find("remember")[1]
    assert (fix.upstream.status, fix.upstream.since) == (Status.MERGED, "0.5.16")


def test_a_fix_that_nobody_needs_is_proposed_for_removal(catalog, mended):
    found = {each.fix: each for each in proposals(catalog, mended("0.5.15"))}
    assert "remove the fix" in found["guard"].why
    assert 'id = "guard"' in found["guard"].before
    assert 'id = "remember"' not in found["guard"].before
    assert found["guard"].after == ""


def test_an_open_window_that_ends_is_proposed_to_close(catalog):
    rewritten = trees(**{LOADER: LOADER_TEXT.replace("build(name)", "assemble(name)")})
    sources = [source("0.5.10", trees()), source("0.5.11", rewritten)]
    found = {each.fix: each for each in proposals(catalog, watch(catalog, sources, None, Setting("d", "0.5.10")))}
    assert found["remember"].why == "remember.patch does not apply from 0.5.11 on"
    assert found["remember"].after == 'file = "remember.patch", since = "0.5.10", until = "0.5.11"'


def test_a_release_that_has_it_earlier_than_was_thought_is_proposed(catalog):
    """The catalogue says 0.5.15 of guard."""
    sources = [source("0.5.13", trees()), source("0.5.14", trees(**{KERNEL: GUARDED}))]
    found = proposals(catalog, watch(catalog, sources, None, Setting("d", "0.5.13")))
    assert "0.5.14 is the first release that has it" in {each.why for each in found if each.fix == "guard"}


def test_a_window_that_is_closed_stays_as_it_is(catalogue_folder):
    (series,) = catalogue_folder.rglob("series.toml")
    series.write_text(
        series.read_text().replace('"remember.patch", since', '"remember.patch", until = "0.5.12", since')
    )
    rewritten = trees(**{LOADER: LOADER_TEXT.replace("build(name)", "assemble(name)")})
    sources = [source("0.5.10", trees()), source("0.5.11", rewritten)]
    catalog = load(catalogue_folder)
    found = proposals(catalog, watch(catalog, sources, None, Setting("d", "0.5.10")))
    assert "remember" not in {each.fix for each in found}


def test_one_issue_is_opened_on_the_first_event_then_kept_and_commented_on(github):
    from rocmfix.system.github import GitHub

    hub = GitHub.from_environment()
    calm = run(seen("0.5.1", NEEDED))
    assert keep(hub, "me/fleet", calm, "text") is None
    assert github.issues["me/fleet"] == []
    news = next_run(calm, run(seen("0.5.1", NEEDED), seen("0.5.2", CONFLICT)))
    assert keep(hub, "me/fleet", news, page.markdown(news, (), ())) == "https://github.com/me/fleet/issues/1"
    assert keep(hub, "me/fleet", news, page.markdown(news, (), ())) == "https://github.com/me/fleet/issues/1"
    quiet = run(*news.seen)
    keep(hub, "me/fleet", quiet, page.markdown(quiet, (), ()))
    assert len(github.issues["me/fleet"]) == 1
    assert "nothing new" in github.issues["me/fleet"][0]["body"]
    assert len(github.comments) == 1
    assert "newly conflicting" in github.comments[0]


class Outline(HTMLParser):
    """The text, links and ids of a page."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loads, self.said = set(), set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        names = dict(attrs)
        self.ids |= {names["id"]} if "id" in names else set()
        self.links |= {names["href"]} if tag == "a" else set()
        self.loads += [tag] if tag in {"script", "link", "img", "iframe"} or "src" in names else []

    def handle_data(self, data):
        self.said.append(data)


def test_the_page_is_one_file_whose_links_lead_somewhere(catalog, mended):
    outline = Outline(webpage.html(catalog, mended(), (), ()))
    assert outline.loads == []
    assert {link[1:] for link in outline.links if link.startswith("#")} <= outline.ids
    assert "1 needed" in "".join(outline.said)


def test_the_page_shows_text_of_a_tree_as_text(catalog):
    evil = trees(**{LOADER: "def load(name):\n    return '<script>alert(1)</script>'\n"})
    now = watch(catalog, [source("0.5.14", evil), source("<b>main", None, Line.BRANCH)], None, Setting("d", "0.5.14"))
    text = webpage.html(catalog, now, (), ())
    assert "<script" not in text
    assert "<b>main" not in text
    assert "@\N{ZERO WIDTH SPACE}someone" in page._md("@someone"), "an issue must not notify people"


def test_the_badge_says_the_newest_release_in_its_colour(mended):
    svg = page.badge(mended())
    assert "0.5.16: 1 needed" in svg
    assert "#b26a00" in svg
    assert "#c62828" in page.badge(run(seen("0.5.1", CONFLICT, NEEDED)))
    assert "#2e7d32" in page.badge(run(seen("0.5.1", UPSTREAM)))


PROBE = """<script>onload = () => {
  const page = document.querySelector("iframe").contentDocument, all = (css) => [...page.querySelectorAll(css)];
  document.title = JSON.stringify({
    over: page.documentElement.scrollWidth - page.documentElement.clientWidth,
    first: all("#today .big").filter((e) => e.getBoundingClientRect().top < 700).map((e) => e.textContent),
    tallest: Math.max(...all("tbody tr").map((e) => e.offsetHeight)),
  });
}</script>"""


def chromium(tmp_path, text, width):
    """What a real browser makes of the page in a frame of this width: headless windows are never that narrow."""
    frame = f'<iframe style="width:{width}px;height:800px;border:0" srcdoc="{html.escape(text, quote=True)}"></iframe>'
    (tmp_path / "frame.html").write_text(f"<body style='margin:0'>{frame}{PROBE}")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile", "--dump-dom"]
    done = subprocess.run(
        ["chromium", *flags, "--window-size=1400,900", f"file://{tmp_path}/frame.html"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    (title,) = re.findall(r"<title>(\{.*?)</title>", done.stdout)
    return json.loads(html.unescape(title))


@pytest.mark.parametrize("width", [1280, 390])
def test_in_a_real_browser_the_first_screen_says_what_is_wrong_and_nothing_runs_off_it(
    catalog, mended, tmp_path, width
):
    try:
        shown = chromium(tmp_path, webpage.html(catalog, mended(), (), ()), width)
    except FileNotFoundError:
        pytest.skip("no chromium")
    assert shown["over"] == 0
    assert shown["first"] == ["1 needed"]
    assert shown["tallest"] < 60, "a fix's name is not broken letter by letter"


def card_of(catalog, now, position):
    """The text of one card of the page."""
    text = webpage.html(catalog, now, (), ())
    return " ".join(re.sub(r"<[^>]*>", " ", re.findall(r"<article.*?</article>", text, re.DOTALL)[position]).split())


def test_a_branch_is_shown_against_the_newest_release(catalog):
    sources = [source("0.5.15", trees(**{KERNEL: GUARDED})), source("git:main", trees(), Line.BRANCH)]
    card = card_of(catalog, watch(catalog, sources, None, Setting("d", "0.5.15")), 1)
    assert "against 0.5.15: 1 more, 0 fewer" in card
    assert "what it has and 0.5.15 has not guard needed" in card
    sources[1] = source("git:main", trees(**{KERNEL: GUARDED, LOADER: REMEMBERS}), Line.BRANCH)
    card = card_of(catalog, watch(catalog, sources, None, Setting("d", "0.5.15")), 1)
    assert "against 0.5.15: 0 more, 1 fewer does not have remember" in card
    sources[1] = source("git:main", trees(**{KERNEL: GUARDED}), Line.BRANCH)
    assert "the same defects as 0.5.15" in card_of(catalog, watch(catalog, sources, None, Setting("d", "0.5.15")), 1)


def test_a_broken_table_is_wrong_today_too(catalog):
    tables = look("glm on gfx950: AITER c16d cannot run it: no kernel")
    now = run(seen("0.5.1", UPSTREAM), seen("git:main", UPSTREAM, line=Line.BRANCH, broken_tables=tables))
    said = "\n".join(page.lines(now, ()))
    assert "1 broken table\n" in f"{said}\n".replace(" \n", "\n")
    assert re.search(r"^git:main +glm on gfx950 +AITER c16d cannot run it: no kernel$", said, re.MULTILINE)
    assert "- **git:main**: 1 broken table\n  - table glm on gfx950: AITER c16d" in page.markdown(now, (), ())
    assert '<article class="card conflict">' in webpage.html(catalog, now, (), ())
    assert "1 tuned table cannot run glm on gfx950 AITER c16d cannot run it: no kernel" in card_of(catalog, now, 1)


def test_the_matrix_has_what_is_broken_in_the_newest_release_first(catalog, mended):
    """Of the three, guard and remember are mended in it."""
    text = webpage.html(catalog, mended(), (), ())
    matrix = text.partition('<section id="matrix">')[2].partition("</section>")[0]
    rows = re.findall(r'scope="row(?:group)?">(?:<a [^>]*>)?([^<]*)', matrix)
    assert rows == ["broken in the newest release", "quiet", "fine in the newest release", "guard", "remember"]


def test_by_how_much_a_patch_is_off_is_no_reason(catalog):
    moved = {LOADER: "# one\n# two\n" + LOADER_TEXT}
    now = watch(catalog, [source("0.5.14", trees(**moved))], None, Setting("d", "0.5.14"))
    reasons = {verdict.reason for verdict in now.seen[0].report.verdicts} if now.seen[0].report else set()
    assert any("lines off)" in reason for reason in reasons)
    assert "lines off)" not in webpage.html(catalog, now, (), ())


def test_what_was_not_reached_is_said_at_the_top(catalog):
    now = watch(
        catalog, [source("0.5.14", trees()), source("git:main", None, Line.BRANCH)], None, Setting("d", "0.5.14")
    )
    assert re.search(
        r'<header>.*href="#unreached">1 not reached</a>.*</header>', webpage.html(catalog, now, (), ()), re.DOTALL
    )


def test_a_run_that_reached_nothing_has_a_page(catalog):
    nothing = watch(catalog, [], None, Setting("d", "0.5.14"))
    assert "<h1>sglang on ROCm" in webpage.html(catalog, nothing, (), ())
    lost = watch(catalog, [source("0.5.14", None), source("git:main", None, Line.BRANCH)], None, Setting("d", "0.5.14"))
    assert "not reached yet" in card_of(catalog, lost, 0)
    reached = watch(
        catalog, [source("0.5.14", None), source("git:main", trees(), Line.BRANCH)], None, Setting("d", "0.5.14")
    )
    assert "3 needed" in card_of(catalog, reached, 0)


def test_the_verb_writes_state_page_text_and_badge(run_drift, tmp_path):
    result = run_drift("--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"index.html", "drift.md", "badge.svg"}
    assert "first run" in result.stdout
    assert "NOT REACHED" in result.stdout
    assert "package index" in result.stdout
    assert "nothing new" in run_drift("--out", tmp_path / "out").stdout


def test_a_dry_run_writes_nothing(run_drift, tmp_path):
    assert run_drift("--dry-run", "--out", tmp_path / "out").exit_code == 0
    assert not (tmp_path / "state.json").exists()
    assert not (tmp_path / "out").exists()


@pytest.fixture
def run_drift(run, clone, tmp_path):
    """`rocmfix drift` offline: no release is cached, and one folder is at hand."""
    return lambda *args: run("drift", str(clone.root), "--offline", "--state", tmp_path / "state.json", *args)
