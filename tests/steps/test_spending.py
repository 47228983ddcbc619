"""What runs of one workspace share: the error of their claims, the vault, the halves of a set."""

from __future__ import annotations

from typing import Any

import pytest

from meta_agent.core.errors import CandidateError, ConfigError, Interrupted
from meta_agent.core.ledger import Ledger
from meta_agent.core.loop import spending
from meta_agent.core.loop.plan import ALPHA
from meta_agent.core.loop.records import Version
from meta_agent.core.loop.verbs._briefing import past, tried
from meta_agent.core.loop.verbs.claim import Sides, examine, prove_version
from tests.steps._bench import Bench, replace_plan


def earlier_claims(ledger: Ledger, *runs: str) -> None:
    for run in runs:
        ledger.start_run(run, {}, config_hash="h")
        ledger.once(f"{run}/claim/begun", "claim", {}, lambda: {})


def sides(bench: Bench) -> Sides:
    return Sides(Version("v0", bench.repo.head()), Version("v1", bench.repo.head()))


def test_the_first_run_has_the_whole_error_and_all_later_ones_share_as_much_again(
    bench: Bench,
) -> None:
    bench.run.ledger.start_run("idle", {}, config_hash="h")  # it claims nothing
    assert spending.alpha_of(bench.run.ledger, "new") == ALPHA
    earlier_claims(bench.run.ledger, "a")
    assert spending.alpha_of(bench.run.ledger, "new") == ALPHA / 2
    earlier_claims(bench.run.ledger, "b")
    assert spending.alpha_of(bench.run.ledger, "new") == ALPHA / 6
    assert spending.alpha_of(bench.run.ledger, "b") == ALPHA / 2, "a later one changes no promise"
    assert sum(spending.share_of(n) for n in range(10_000)) < 2


@pytest.mark.parametrize("claim", [examine, prove_version])
def test_a_claim_that_dies_before_it_is_recorded_has_spent_its_share(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, claim: Any
) -> None:
    replace_plan(bench, looks=(1,))

    def dies(*_: Any, **__: Any) -> Any:
        raise Interrupted

    monkeypatch.setattr(bench.lab.__class__, "_evaluate", dies)
    trained = bench.lab.untrained()
    more = () if claim is examine else ((trained, trained),)
    with pytest.raises(Interrupted):
        claim(bench.run, sides(bench), *more)
    assert spending.alpha_of(bench.run.ledger, "another") == ALPHA / 2
    assert spending.alpha_of(bench.run.ledger, "r") == ALPHA, "the same run goes on as declared"


@pytest.mark.parametrize("claim", [examine, prove_version])
def test_a_start_that_cannot_be_measured_is_not_held_against_the_new_version(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, claim: Any
) -> None:
    replace_plan(bench, looks=(1,))

    def fails(*_: Any, **__: Any) -> Any:
        raise CandidateError("it crashed", reason="crash", hint="look at its log")

    trained = bench.lab.untrained()
    monkeypatch.setattr(bench.lab.__class__, "_evaluate", fails)
    with pytest.raises(ConfigError, match=r"v0 .*it crashed") as caught:
        claim(bench.run, sides(bench), *(() if claim is examine else ((trained, trained),)))
    assert caught.value.hint == "look at its log", "the ledger keeps it"


# --- halves --------------------------------------------------------------------------------------


def a_past(ledger: Ledger, run: str, search: list[str] | None) -> None:
    ledger.start_run(run, {}, config_hash="h")
    if search is not None:
        ledger.once(f"{run}/race/tasks", "tasks", {}, lambda: {"search": search})
    told = {"statement": "if x then y because z", "code": "looped", "reason": "r"}
    ledger.once(f"{run}/g0/propose", "proposal", {}, lambda: {"refused": [told], "generation": 0})


@pytest.mark.parametrize(
    ("search", "halved", "seen"),
    [
        (["search-001"], True, True),
        (["confirm-001"], True, False),
        (["confirm-001"], False, False),
        (None, True, False),
        (None, False, True),
    ],
    ids=["same half", "the other half", "the other half, now split", "split, now halved", "split"],
)
def test_history_does_not_cross_from_one_half_to_the_other(
    bench: Bench, search: list[str] | None, halved: bool, seen: bool
) -> None:
    a_past(bench.run.ledger, "old", search)
    bench.run.ledger.start_run("r", {}, config_hash="h")
    replace_plan(bench, halved=halved)
    assert bool(past(bench.run, "base")) is seen
    assert tried(bench.run, "base") == []


def test_a_race_on_half_a_set_writes_down_which(bench: Bench) -> None:
    spending.note_half(bench.run)
    kept = bench.run.ledger.step("r/race/tasks")
    assert kept is not None and "search-000" in kept.outcome["search"]
    assert not spending.crosses(bench.run, "r")
