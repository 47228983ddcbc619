"""The race of a frozen policy in the loop: real git, ledger, store and gate, a scripted policy."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from meta_agent.core.config import RunConfig
from meta_agent.core.errors import CandidateError, ConfigError, Interrupted
from meta_agent.core.history._repo import LEAD
from meta_agent.core.lab.inspector import Inspector
from meta_agent.core.lab.units import EvalUnit
from meta_agent.core.loop.budget import spent
from meta_agent.core.loop.finish import finish
from meta_agent.core.loop.plan import plan_for
from meta_agent.core.loop.records import HandedOver, Version
from meta_agent.core.protocols import JSON, HarnessTree, Split
from meta_agent.core.task_splits import Halves
from meta_agent.reports import reduce
from tests.steps._again import gone_through_again
from tests.steps._bench import Bench, Tasks
from tests.steps._race import AGENT, FROZEN, Luck, claim_of, first, ideas, marked, race, verdicts


def again(bench: Bench, found: HandedOver) -> HandedOver:
    """The same run, taken up by a new process: everything is read from the journal."""
    made = len(bench.run.ledger.steps())
    back = race(bench.run, Version("v0", start_of(bench)))
    assert len(bench.run.ledger.steps()) == made and back.version == found.version
    return back


def start_of(bench: Bench) -> str:
    return bench.repo.log(100)[-1].commit


def test_edits_that_help_are_found_one_by_one_and_proven_together(
    raced: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ideas(raced, monkeypatch, ["# nothing", "# better"], ["# more", "# worse"])
    raced.lab.script = marked({"# better": 0.3, "# more": 0.3, "# worse": -0.3})
    start = first(raced)
    found = race(raced.run, start)
    told = verdicts(raced)
    assert found.standing == "proven" and claim_of(raced)["kind"] == "PROMOTE"
    kinds = {name: one["kind"] for name, one in told.items()}
    assert kinds == {
        "g0/c0": "INCONCLUSIVE",
        "g0/c1": "PROMOTE",
        "g1/c0": "PROMOTE",
        "g1/c1": "INCONCLUSIVE",
        "claim": "PROMOTE",
    }
    text = raced.repo.tree(raced.repo.head()).files[AGENT].decode()
    assert "# better" in text and "# more" in text and "# nothing" not in text
    assert raced.repo.head() == found.version.commit and found.version.id == "v0+2"
    merges = [entry for entry in raced.repo.log(10) if len(entry.parents) == 2]
    assert len(merges) == 2, "one --no-ff merge a member"
    claim = told["g1/c0"]["evidence"]["claim"]
    assert claim["with"] == ["r/g0/c1"] and claim["against"] == start.commit
    inputs = told["claim"]["evidence"]["inputs"]
    assert inputs["alpha"] == 0.05
    assert raced.repo.tip(LEAD) is None
    walk = gone_through_again(raced, lambda bench: race(bench.run, start))
    assert walk.differences == []
    assert {name[2:]: one["kind"] for name, one in walk.verdicts.items()} == kinds
    finish(raced.run, start, found)
    ends = {s.outcome["which"]: s.outcome for s in raced.run.ledger.steps(kind="vault")}
    assert ends["final"]["commit"] == raced.repo.head() != ends["baseline"]["commit"]
    assert ends["final"]["clean_success"] > ends["baseline"]["clean_success"]
    again(raced, found)


def test_two_edits_of_one_round_meet_on_the_tip(
    raced: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ideas(raced, monkeypatch, ["# better", "# more"])
    found = race(raced.run, first(raced))
    assert found.standing == "proven" and {v["kind"] for v in verdicts(raced).values()} == {
        "PROMOTE"
    }
    lines = raced.repo.tree(found.version.commit).files[AGENT].decode().splitlines()
    assert lines[0] == "# more" and lines[-1] == "# better"


@pytest.mark.parametrize(("gain", "winner"), [(0.6, "g0/c2"), (0.1, "g0/c0")])
def test_an_edit_that_conflicts_with_the_tip_races_in_its_place(
    raced: Bench, monkeypatch: pytest.MonkeyPatch, gain: float, winner: str
) -> None:
    ideas(raced, monkeypatch, ["# better", "", "# more"])
    raced.lab.script = marked({"# better": 0.3, "# more": gain})
    raced.run.config = FROZEN.model_copy(update={"candidates": 3, "generations": 1})
    found = race(raced.run, first(raced))
    kinds = {name: row["kind"] for name, row in verdicts(raced).items()}
    assert kinds.pop(winner) == kinds.pop("claim") == "PROMOTE"
    assert set(kinds.values()) == {"INCONCLUSIVE"} and {"g0/c0", "g0/c2"} & kinds.keys()
    text = raced.repo.tree(raced.repo.head()).files[AGENT].decode()
    assert ("# more" in text, "# better" in text) == (winner == "g0/c2", winner == "g0/c0")
    again(raced, found)


def test_what_the_exam_cannot_prove_is_handed_over_as_unproven(
    raced: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Better on the half that was searched, by nearly nothing on the other."""

    def elsewhere(split: Split, limit: int) -> None:
        raced.lab.script = marked({"# better": 0.02 if split == "confirm" else 0.4})

    evaluate = Luck._evaluate

    def by_split(self: Any, unit: EvalUnit, tree: Any) -> JSON:
        elsewhere(unit.split, 0)
        return evaluate(self, unit, tree)

    monkeypatch.setattr(Luck, "_evaluate", by_split)
    ideas(raced, monkeypatch, ["# better"])
    start = first(raced)
    found = race(raced.run, start)
    claim = claim_of(raced)
    assert claim["kind"] == "INCONCLUSIVE" and raced.repo.head() == start.commit
    if claim["effect"]["delta"] > 0:
        assert found.standing == "unproven" and raced.repo.tip(LEAD) == found.version.commit
        assert reduce(raced.run.ledger, "r").lead is not None
    else:
        assert (found.version, found.standing) == (start, "start")
        assert raced.repo.tip(LEAD) is None
    assert raced.run.skills.all() == []
    again(raced, found)


def test_what_is_worse_on_the_other_half_gives_way_to_the_start(
    raced: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = Luck._evaluate

    def by_split(self: Any, unit: EvalUnit, tree: Any) -> JSON:
        self.script = marked({"# better": -0.2 if unit.split == "confirm" else 0.4})
        return evaluate(self, unit, tree)

    monkeypatch.setattr(Luck, "_evaluate", by_split)
    ideas(raced, monkeypatch, ["# better"])
    start = first(raced)
    found = race(raced.run, start)
    assert (found.version, found.standing) == (start, "start")
    assert raced.repo.head() == start.commit and raced.repo.tip(LEAD) is None
    assert reduce(raced.run.ledger, "r").lead is None
    assert verdicts(raced)["g0/c0"]["kind"] != "PROMOTE"
    assert raced.repo.candidates(), "its candidates keep their refs"


@pytest.mark.slow
def test_where_nothing_helps_the_start_is_handed_over_and_no_exam_is_paid(
    raced: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    raced.lab.script = marked({"# worse": -0.2})
    ideas(raced, monkeypatch, ["# worse", "# worse 2"], ["# worse 3"])
    start = first(raced)
    found = race(raced.run, start)
    assert (found.version, found.standing) == (start, "start")
    assert not [s for s in raced.run.ledger.steps(kind="eval") if "confirm" in s.key]
    assert {told["kind"] for told in verdicts(raced).values()} == {"INCONCLUSIVE"}


def test_an_edit_that_is_proposed_again_gets_further_attempts(
    raced: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    raced.lab.script = marked({"# worse": -0.3})
    ideas(raced, monkeypatch, ["# worse"])
    race(raced.run, first(raced))
    blocks = [step.outcome for step in raced.run.ledger.steps(kind="race") if step.is_done]
    edits = [block for block in blocks if block["of"] != "the start"]
    assert len({block["of"] for block in edits}) == 3, "each generation proposes it"
    assert [block["made"] for block in edits] == [8 * at for at in range(1, len(edits) + 1)]
    made = sum(block["attempts"] for block in blocks)
    assert spent(raced.run.ledger, "r", ["eval"]) >= made


def test_edits_that_leak_or_break_never_join(raced: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever always looks has no clean success; who looks now and then has more than the start."""
    raced.run.config = FROZEN.model_copy(update={"candidates": 4})
    solves = marked({"# leaks": 0.6, "# peeks": 0.6, "# better": 0.3})

    def script(tree: HarnessTree) -> float:
        if "# broken" in tree.files[AGENT].decode():
            raise CandidateError("it does not load", reason="load")
        return solves(tree)

    raced.lab.script = script
    ideas(raced, monkeypatch, ["# leaks", "# peeks", "# broken", "# better"])
    found = race(raced.run, first(raced))
    told = verdicts(raced)
    assert [told[f"g0/c{at}"]["kind"] for at in range(4)] == ["INVALID"] * 3 + ["PROMOTE"]
    assert all("leak" in told[f"g0/c{at}"]["reasons"][0] for at in range(2))
    text = raced.repo.tree(found.version.commit).files[AGENT].decode()
    assert found.standing == "proven" and "# leaks" not in text and "# peeks" not in text


@pytest.mark.parametrize("budget", [60, 300])
def test_no_attempt_is_made_beyond_the_budget(
    raced: Bench, monkeypatch: pytest.MonkeyPatch, budget: int
) -> None:
    domain: Any = raced.lab.domain
    raced.run.config = FROZEN.model_copy(update={"budget": budget})
    raced.run.plan = plan_for(raced.run.config, domain)
    ideas(raced, monkeypatch, ["# better", "# nothing"], ["# more"], ["# nothing else"])
    race(raced.run, first(raced))
    assert 0 < spent(raced.run.ledger, "r") <= budget


@pytest.mark.slow
def test_a_run_that_is_stopped_at_any_step_ends_the_same(
    raced: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = (["# nothing", "# better"], ["# more"])
    ideas(raced, monkeypatch, *rounds)
    once, left = raced.run.ledger.once, [3]

    def dies(*args: Any) -> JSON:
        if not left[0]:
            raise Interrupted
        known = raced.run.ledger.step(args[0])
        left[0] -= known is None or not known.is_done
        return once(*args)

    monkeypatch.setattr(raced.run.ledger, "once", dies)
    start, found, stops = first(raced), None, 0
    while found is None:
        try:
            found = race(raced.run, start)
        except Interrupted:
            left[0], stops = 7, stops + 1
            raced.forget()
    assert stops >= 5 and found.standing == "proven"
    keys = [step.key for step in raced.run.ledger.steps()]
    assert len(keys) == len(set(keys))
    assert {told["kind"] for told in verdicts(raced).values()} == {"INCONCLUSIVE", "PROMOTE"}
    assert raced.repo.head() == found.version.commit


# --- sizes ---------------------------------------------------------------------------------------


class Few(Tasks):
    """A task file of 60 rows, 23 of them to search and 22 to confirm on."""

    sizes: ClassVar = {"train": 10, "search": 23, "confirm": 22, "vault": 5}

    def tasks(self, split: Any) -> Any:
        return super().tasks(split)[: self.sizes[split]]


def test_full_races_wherever_nothing_is_trained() -> None:
    few: Any = Few()
    plan = plan_for(FROZEN, few)
    assert plan.race and plan.halved and (plan.search, plan.confirm) == (27, 28)
    assert plan.test.alpha == plan.alpha and len(plan.gate().analyses) == 1
    assert plan_for(FROZEN.model_copy(update={"strategy": "no-diagnostics"}), few) == plan
    for other in ("score-only", "static"):
        told = plan_for(FROZEN.model_copy(update={"strategy": other}), few)
        assert not told.race and not told.halved and (told.search, told.confirm) == (23, 22)
    many: Any = Tasks()
    assert plan_for(FROZEN, many).race and not plan_for(FROZEN, many).halved
    assert not plan_for(RunConfig(), few).race


def test_train_tasks_are_searched_on_and_never_examined() -> None:
    few: Any = Few()
    halves = Halves(few)
    search, confirm = ({task.key for task in halves.tasks(s)} for s in ("search", "confirm"))
    assert not search & confirm and len(search | confirm) == 55
    assert {task.key for task in few.tasks("train")} <= search
    assert {task.split for task in halves.tasks("search")} == {"search"}
    assert len(halves.tasks("vault")) == 5 and halves.evaluator_hash == "ev"


def test_tasks_that_nothing_trains_on_are_no_overlap(
    raced: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    halves: Any = Halves(Tasks())  # type: ignore[arg-type]
    raced.lab.domain, raced.lab.inspector = halves, Inspector(raced.lab.store, halves)
    ideas(raced, monkeypatch, ["# better"])
    assert race(raced.run, first(raced)).standing == "proven"


def test_a_start_that_cannot_be_measured_stops_the_run(raced: Bench) -> None:
    def script(_tree: HarnessTree) -> float:
        raise CandidateError("it does not load", reason="load")

    raced.lab.script = script
    with pytest.raises(ConfigError, match="it does not load"):
        race(raced.run, first(raced))
