"""The pictures of a page: the way of a run, the map of its attempts, curves, time and money."""

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.ledger import Ledger, Spend
from meta_agent.core.protocols import Rollout, RolloutFailure
from meta_agent.core.rollouts import RolloutStore
from meta_agent.reports import MetricPoint, RunState, reduce, run_figures
from meta_agent.reports.attempts import attempts_of
from meta_agent.reports.pages.html import render_html
from meta_agent.reports.sections import PALETTE_SIZE
from meta_agent.studies.demo import unpacked

from ._sample import HOSTILE
from ._screen import missing


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> RunState:
    """The recorded run of a real model, with all its attempts."""
    place = unpacked(tmp_path_factory.mktemp("pictures") / "run", "smollm2")
    with Ledger.open(place.ledger_file, owner_lock=False) as ledger:
        return reduce(ledger)


@pytest.fixture(scope="module")
def page(recorded: RunState) -> str:
    return render_html(recorded)


def test_the_way_names_what_was_kept_and_what_was_dropped(recorded: RunState) -> None:
    kinds = [(point.kind, round(point.share, 3)) for point in recorded.course.points]
    dropped = [("dropped", share) for share in (0.25, 0.375, 0.375)]
    passes = [("imitation", share) for share in (0.906, 0.938, 1.0)]
    before = [("start", 0.0), ("dropped", 0.062), ("edit", 0.354)]
    assert kinds == [*before, *dropped, *passes]
    assert [point.at for point in recorded.course.points] == [
        *(32, 48, 96, 112, 128, 144, 208, 240, 272)
    ]
    table = run_figures.way_table(recorded)
    assert table.rows[2][3] == "g0/c1: the conversation begins with 3 worked example(s)"


def test_the_way_is_drawn_for_wide_and_for_narrow_screens(page: str) -> None:
    charts = re.findall(r'<svg viewBox="0 0 (\d+) \d+"[^>]*aria-label="Clean success over', page)
    assert charts == ["950", "350"]
    assert page.count('class="curve way"') == 2 and page.count('class="mark imitation"') == 6


def test_parts_of_one_training_are_one_curve_and_no_band(recorded: RunState) -> None:
    curves = run_figures.training(recorded)
    assert [name for name, _ in curves.legend] == ["imitation"]
    ((_, (loss,)),) = curves.charts
    assert [step for step, _ in loss.points] == list(range(1, 19)) and not loss.band


def test_every_square_leads_to_an_attempt_of_its_version(recorded: RunState, page: str) -> None:
    block = attempts_of(recorded)
    assert (len(block.versions), len(block.rows)) == (10, 32)
    counts = [
        sum(each.status == "solved" for row in block.rows for each in row.attempts[column])
        for column in range(10)
    ]
    by_name = dict(zip(block.versions, counts, strict=True))
    assert (by_name["v0"], by_name["v1, 6 steps"], by_name["v1, 18 steps"]) == (0, 29, 32)
    links = re.findall(r'href="#(a\d+-\d+)"', page)
    assert len(links) > 200 and set(links) == set(re.findall(r'<article id="(a\d+-\d+)">', page))


def test_attempts_at_confirm_and_vault_tasks_are_on_no_page(recorded: RunState, page: str) -> None:
    store = RolloutStore(Path(recorded.workspace) / "rollouts")
    hidden = [name for name in store.names() if "confirm" in name or "vault" in name]
    keys = {rollout.task_key for name in hidden for rollout in store.read(name)}
    assert len(keys) == 160 and not [key for key in keys if key in page]


def attempt(task: str, sample: int = 0, **how: Any) -> Rollout:
    identity = ("r", "v0", "graded", "search", task, "h", f"g{task}", sample, 0, "c" * 40, "p", "e")
    return Rollout(*identity, **how)  # type: ignore[arg-type]


def written(tmp_path: Path, *rollouts: Rollout) -> RunState:
    RolloutStore(tmp_path / "rollouts").write("r/eval", rollouts)
    shard = {"shard": {"name": "r/eval"}, "rollouts": len(rollouts)}
    with Ledger.open(tmp_path / "l.sqlite") as ledger:
        ledger.start_run("r", {"workspace": str(tmp_path)}, config_hash="h")
        ledger.once("r/eval", "eval", {"split": "search"}, lambda: shard)
        return reduce(ledger)


@pytest.mark.parametrize("name", ["../secret", "r/none", 7])
def test_a_set_that_is_misnamed_or_missing_is_left_out(tmp_path: Path, name: Any) -> None:
    shard = {"shard": {"name": name}, "rollouts": "many", "clean_success": "all"}
    with Ledger.open(tmp_path / "l.sqlite") as ledger:
        ledger.start_run("r", {"workspace": str(tmp_path)}, config_hash="h")
        ledger.once("r/eval", "eval", {"split": "search"}, lambda: shard)
        state = reduce(ledger)
    assert state.rollouts == 0 and attempts_of(state).rows == []


def test_each_way_to_end_has_its_own_square_and_hostile_text_is_inert(tmp_path: Path) -> None:
    call = {"function": {"name": "look", "arguments": '{"at": 1}'}}
    spoken = [{"role": "user", "content": HOSTILE}, {"role": "assistant", "tool_calls": [call]}]
    rollouts = [
        attempt("good", outcome=True, messages=spoken),
        attempt("half", outcome=True, messages=spoken),
        attempt("half", 1, outcome=False, messages=spoken),
        attempt("bad", outcome=False, messages=spoken, outcome_detail={"gold": "SECRET"}),
        attempt("cheat", outcome=True, flags=["leak:gold"], messages=spoken),
        attempt("gone", error=RolloutFailure("infra", "the server went away"), messages=spoken),
    ]
    page = render_html(written(tmp_path, *rollouts))
    squares = re.findall(r'<a class="square (\w+)"[^>]*title="(\w+): \w+"', page)
    assert sorted(squares) == [
        *(("failed", "bad"), ("flagged", "cheat"), ("lost", "gone"), ("solved", "good")),
        ("some", "half"),
    ]
    text = unescape(page)
    assert missing(text, "leak:gold", "the server went away", 'look({"at": 1})') == []
    assert "SECRET" not in page and "<script" not in page and "\x1b" not in page


@pytest.mark.parametrize(
    ("calls", "shown"),
    [
        (5, "<div>5</div>"),
        ("look", '<div>"look"</div>'),
        ({"name": "look"}, '<div>{"name": "look"}</div>'),
        ([{"function": None}, "look"], '<div>{"function": null} "look"</div>'),
    ],
)
def test_tool_calls_of_any_form_are_shown(tmp_path: Path, calls: Any, shown: str) -> None:
    spoken = [{"role": "user", "content": "q"}, {"role": "assistant", "tool_calls": calls}]
    page = render_html(written(tmp_path, attempt("odd", outcome=False, messages=spoken)))
    assert missing(unescape(page), shown) == []


def test_a_page_keeps_its_size_where_attempts_are_long(tmp_path: Path) -> None:
    rollouts = [
        attempt(
            f"t{n:03}", outcome=False, messages=[{"role": "user", "content": f"{n}" * 5000}] * 9
        )
        for n in range(10, 70)
    ]
    page = render_html(written(tmp_path, *rollouts))
    assert len(page) < 2_200_000
    assert page.count('<i class="square failed" title') > 10, "squares without a conversation"


def test_the_first_ten_curves_have_a_colour_each_and_the_others_share_a_grey() -> None:
    points = {
        f"g0/c{arm} seed 0, 2 steps": [
            MetricPoint("", step, {"reward": arm + step, "kl": 0.0}) for step in (1, 2)
        ]
        for arm in range(13)
    }
    curves = run_figures.training(RunState("r", metrics=points))
    assert len({colour for _, colour in curves.legend}) == PALETTE_SIZE + 1 == 11
    assert curves.legend[-1] == ("3 more", PALETTE_SIZE)
    assert [name for name, _ in curves.charts] == ["reward"] and "kl" in curves.caption


def test_money_by_role_falls_back_to_tokens_where_a_price_is_unknown() -> None:
    spend = {"policy": Spend(0.5, 10, 0.0, 0, 2, 0), "analyst": Spend(1.5, 90, 0.0, 0, 1, 0)}
    priced = run_figures.money(RunState("r", spend=spend))
    assert [row[:2] for row in priced.rows] == [("policy", 0.5), ("analyst", 1.5)]
    spend["judge"] = Spend(0.0, 5, 0.0, 0, 1, 1)
    assert [text for *_, text in run_figures.money(RunState("r", spend=spend)).rows] == [
        *("10 tokens", "90 tokens", "5 tokens")
    ]


def test_time_is_split_by_activity(recorded: RunState, page: str) -> None:
    seconds = recorded.course.seconds
    assert list(seconds)[:2] == ["attempts", "training"]
    assert 0.9 * recorded.wall_sec < sum(seconds.values()) < 1.1 * recorded.wall_sec
    assert missing(page, "Time by activity", "3 min 29 s") == []
