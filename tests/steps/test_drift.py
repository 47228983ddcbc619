"""A model behind somebody's server may change while a run measures it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from meta_agent.core.lab.units import EvalUnit
from meta_agent.core.loop.drift import MOST, ModelNames
from meta_agent.core.loop.plan import plan_for
from tests.steps._bench import Bench
from tests.steps._race import FROZEN, Luck, claim_of, first, ideas, marked, race


def served(bench: Bench, monkeypatch: pytest.MonkeyPatch, by: Callable[[str], list[str]]) -> None:
    """What the server calls the model in each evaluation, by its name."""
    evaluate = Luck._evaluate

    def told(self: Any, unit: EvalUnit, tree: Any) -> dict[str, Any]:
        return {**evaluate(self, unit, tree), "served": by(unit.name)}

    monkeypatch.setattr(Luck, "_evaluate", told)


def findings(bench: Bench) -> dict[str, str]:
    found = claim_of(bench)["evidence"]["findings"]
    return {one["code"]: one["severity"] for one in found if one["code"].startswith("drift")}


@pytest.fixture
def behind_a_server(raced: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    bench = raced
    bench.run.plan = replace(bench.run.plan, again=20)
    ideas(bench, monkeypatch, ["# better"])
    bench.lab.script = marked({"# better": 0.4})
    return bench


def test_both_sides_take_turns_and_a_model_that_stayed_what_it_was_is_no_finding(
    behind_a_server: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = behind_a_server
    served(bench, monkeypatch, lambda _: ["m fp_1"])
    found = race(bench.run, first(bench))
    steps = [s.key for s in bench.run.ledger.steps(kind="eval") if "-confirm-" in s.key]
    theirs = {key.partition("/eval/")[2][:12] for key in steps}
    assert len(theirs) == 2 and len(steps) == 2 * 5 * 2, "five samples in two blocks each"
    sides = "".join("ab"[key.partition("/eval/")[2][:12] == min(theirs)] for key in steps)
    assert sides in ("abba" * 5, "baab" * 5)
    arms = claim_of(bench)["evidence"]["arms"]
    assert arms["baseline"]["n"] == arms["candidate"]["n"] == 200
    assert found.standing == "proven" and findings(bench) == {}
    made = bench.run.ledger.step("r/race/again")
    assert made is not None and made.outcome["attempts"] == 20 and made.outcome["p"] == 1


def test_a_start_that_does_otherwise_before_the_exam_is_a_finding(
    behind_a_server: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = Luck._evaluate

    def drifted(self: Any, unit: EvalUnit, tree: Any) -> Any:
        if unit.name.endswith("-again"):
            self.script = lambda _: 1.0
        return evaluate(self, unit, tree)

    monkeypatch.setattr(Luck, "_evaluate", drifted)
    race(behind_a_server.run, first(behind_a_server))
    assert findings(behind_a_server)["drift.outcomes"] == "warn"


def test_a_model_that_is_named_otherwise_is_a_finding_and_no_veto(
    behind_a_server: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = lambda name: ["m fp_2"] if "-confirm-" in name else ["m fp_1"]  # noqa: E731
    served(behind_a_server, monkeypatch, names)
    assert race(behind_a_server.run, first(behind_a_server)).standing == "proven"
    assert findings(behind_a_server) == {"drift.model": "warn"}


def test_sides_that_were_answered_by_different_models_prove_nothing(
    behind_a_server: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides: dict[str, str] = {}
    served(
        behind_a_server,
        monkeypatch,
        lambda name: [sides.setdefault(name[:12], f"m fp_{len(sides)}")],
    )
    found = race(behind_a_server.run, first(behind_a_server))
    assert findings(behind_a_server)["drift.sides"] == "unproven"
    assert claim_of(behind_a_server)["kind"] == "INCONCLUSIVE" and found.standing == "unproven"


@pytest.mark.parametrize(("policy", "again"), [("openai/m", True), ("vllm:/models/m", False)])
def test_only_what_somebody_else_serves_is_asked_once_more(policy: str, again: bool) -> None:
    plan = plan_for(FROZEN.model_copy(update={"policy": policy}))
    assert bool(plan.again) is again and plan.again < plan.race / 20


def blocks(bench: Bench) -> list[tuple[str, str]]:
    return [(s.outcome["of"], s.outcome["kind"]) for s in bench.run.ledger.steps(kind="race")]


def test_a_model_that_changes_in_the_race_gets_the_tip_fresh_attempts(
    behind_a_server: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = behind_a_server
    heard: list[str] = []

    def by(name: str) -> list[str]:
        heard.append(name)
        return ["m fp_2" if len(heard) > 1 else "m fp_1"]

    served(bench, monkeypatch, by)
    bench.lab.script = marked({})
    race(bench.run, first(bench))
    kinds = blocks(bench)
    turned = kinds.index(("r/g0/c0", "screen"))
    assert "the start" in [of for of, _ in kinds[turned:]], "measured again beside the edit"
    made = bench.run.ledger.step("r/race/again")
    assert made is not None and made.outcome["attempts"] == 20, "though nothing was found"


def test_a_server_that_names_every_reply_otherwise_ends_no_race(
    behind_a_server: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []

    def by(name: str) -> list[str]:
        heard.append(name)
        return [f"m fp_{len(heard)}"]

    served(behind_a_server, monkeypatch, by)
    assert race(behind_a_server.run, first(behind_a_server)).version
    kinds = [kind for _, kind in blocks(behind_a_server)]
    assert "screen" in kinds


@pytest.mark.parametrize(
    ("served", "changes"),
    [
        ([["a"], ["a"], ["a", "b"], ["b"]], 0),
        ([[], ["a"], [], ["b"], ["a"]], 1),
        ([[name] for name in "abcdefgh"], MOST),
    ],
)
def test_a_change_is_a_name_that_nobody_heard(served: list[list[str]], changes: int) -> None:
    named = ModelNames()
    assert sum([named.changed(names) for names in served]) == changes
