"""The index of attempts, the map, and what one attempt shows."""

import re
from html import unescape
from pathlib import Path

import pytest

from meta_agent.core.rollouts import RolloutStore
from meta_agent.reports.live import drawn
from meta_agent.reports.live.attempts import PAGE, Attempts, Chosen, Wanted
from meta_agent.reports.live.heat import drawn as map_drawn
from meta_agent.reports.live.heat import heat

from .sample import HOSTILE, RUN, TOKENS, attempt, lost, mixed


def words(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


@pytest.fixture
def store(tmp_path: Path) -> RolloutStore:
    store = RolloutStore(tmp_path)
    rows = [attempt(0), attempt(1, flags=["leak:log"]), attempt(2, outcome=False), lost(3)]
    store.write(f"{RUN}/eval-a-s0-x-search", rows)
    later = [
        attempt(0, outcome=False, harness_commit="d" * 40),
        attempt(0, harness_commit="d" * 40),
    ]
    store.write(f"{RUN}/eval-b-s12-x-search", later)
    store.write("another/eval-a", [attempt(9)])
    return store


@pytest.fixture
def index(store: RolloutStore) -> Attempts:
    index = Attempts(store, RUN)
    index.look()
    index.wait()
    return index


def found(index: Attempts, start: int = 0, **wanted: str) -> Chosen:
    return index.find(Wanted(**wanted), lambda commit: commit[:1], start)


def test_only_this_run_is_read_and_every_outcome_is_told(index: Attempts) -> None:
    every = found(index)
    assert every.counts == {"clean": 2, "flagged": 1, "failed": 2, "lost": 1}
    assert (every.read, every.stored, every.flags) == (6, 6, ["leak:log"])
    assert [one.seed for one in index.measurements()] == ["0", "12"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"task": "0001"}, ["lab/0001"]),
        ({"outcome": "lost"}, ["lab/0003"]),
        ({"flag": "leak:log"}, ["lab/0001"]),
        ({"version": "d"}, ["lab/0000", "lab/0000"]),
        ({"version": "d", "outcome": "clean"}, ["lab/0000"]),
        ({"split": "vault"}, []),
        ({"measurement": "eval-b-s12-x-search"}, ["lab/0000", "lab/0000"]),
        ({"task": "%' OR 1"}, []),
    ],
)
def test_filters(index: Attempts, wanted: dict[str, str], expected: list[str]) -> None:
    assert [row.task for _, row in found(index, **wanted).rows] == expected


def test_what_is_stored_later_is_found_and_what_is_damaged_is_named(
    store: RolloutStore, index: Attempts
) -> None:
    store.write(f"{RUN}/eval-c-s0-x-search", mixed(2 * PAGE + 3, seed=1))
    damaged = store.write(f"{RUN}/eval-d-s0-x-search", [attempt(0)])
    (store.directory / damaged.path).write_bytes(b"nothing")
    index.look()
    index.wait()
    last = found(index, 2 * PAGE, measurement="eval-c-s0-x-search")
    assert (last.total, len(last.rows)) == (2 * PAGE + 3, 3)
    (told,) = last.damaged
    assert told.startswith("eval-d") and "sha256" in told


def test_an_attempt_is_shown_call_by_call_as_the_policy_saw_it() -> None:
    one = attempt(0, flags=["leak:log"], tokens=TOKENS, outcome_detail={"passed": 3})
    html = drawn.attempt(one, "v0", "30 steps", {7: "<b>", 9: "z"})
    shown = words(html)
    assert "\u202e" not in html and "<script" not in html and "<b>" not in html
    order = [
        "call 1",
        "the question ends",
        "let me look",
        "view",
        "a.py",
        "call 2",
        "no longer shown: 2 messages",
        "in short",
        "done",
    ]
    places = [shown.index(part) for part in order]
    assert places == sorted(places)
    for part in (
        "flagged",
        "tidy 0.5 × 0.2",
        "reward 1.1",
        "passed 3",
        "leak:log",
        "v0, commit cccc",
    ):
        assert part in shown
    assert re.findall(r'class="p(\d)" title="([\d.]+) %">([^<]*)<', html) == [
        ("2", "90.5", "&lt;b&gt;"),
        ("0", "5.0", "z"),
    ]


def test_an_attempt_without_calls_shows_its_messages() -> None:
    foreign = attempt(0, turns=0, views=[], tool_events=[])
    assert "in short the policy done" in words(drawn.attempt(foreign, "v0", "p", {}))
    bare = attempt(0, turns=0, views=[], tool_events=[], messages=[])
    assert "call" not in words(drawn.attempt(bare, "v0", "p", {}))


def test_the_map_tells_not_run_from_failed(index: Attempts) -> None:
    told = heat(index.measurements(), "search", lambda one: f"{one.seed} {HOSTILE}")
    states = [
        [column.states.get(task, "not run") for task in told.tasks] for column in told.columns
    ]
    assert list(told.tasks) == ["lab/0000", "lab/0001", "lab/0002", "lab/0003"]
    assert states == [["clean", "flagged", "failed", "lost"], ["part", *["not run"] * 3]]
    svg = str(map_drawn(told))
    assert "\u202e" not in svg and "<script" not in svg
    assert [len(path) for path in re.findall(r' d="([^"]*)"', svg)].count(0) == 0


def test_a_vocabulary_is_read_where_its_form_is_known() -> None:
    assert drawn.vocabulary_of({"model": {"vocab": {"a": 3, "b": "x"}}}) == {3: "a"}
    for odd in (None, [], {}, {"model": []}, {"model": {"vocab": [["a", -1.0]]}}):
        assert drawn.vocabulary_of(odd) == {}
