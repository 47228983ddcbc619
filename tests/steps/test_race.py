"""The race of a frozen policy in the loop: real git, ledger, store and gate, a scripted policy."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from meta_agent.composition import evolve
from meta_agent.composition.headline import cautions
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import CandidateError, ConfigError, Interrupted
from meta_agent.core.history._repo import LEAD
from meta_agent.core.lab.inspector import Inspector
from meta_agent.core.lab.live import Evaluated
from meta_agent.core.lab.units import EvalUnit, tasks_of
from meta_agent.core.loop.budget import spent
from meta_agent.core.loop.finish import finish
from meta_agent.core.loop.plan import plan_for
from meta_agent.core.loop.records import HandedOver, Version
from meta_agent.core.loop.records import Tested as Checked
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs import propose as propose_step
from meta_agent.core.protocols import JSON, HarnessTree, Hypothesis, Split
from meta_agent.core.task_splits import Halves
from meta_agent.proposers import Proposal, RulesAgent
from meta_agent.reports import reduce
from meta_agent.strategies import race as race_step
from meta_agent.strategies.strategies import STRATEGIES
from tests.steps._again import gone_through_again
from tests.steps._bench import PLAN, Bench, ScriptedLab, Tasks, as_frozen, rollout

FROZEN = RunConfig(policy="openai/m", samples=2, generations=3, candidates=2)
AGENT = "swe/agent.py"
Idea = Callable[[str, int], str]


class Luck(ScriptedLab):
    """Each attempt is won with the harness's chance, by a coin that its name decides."""

    def _evaluate(self, unit: EvalUnit, tree: HarnessTree) -> JSON:
        name = unit.name
        share, text = self.script(tree), tree.files[AGENT].decode()
        rows = []
        for sample in unit.samples:
            for task in tasks_of(self.domain, unit.split, unit.limit, unit.part):
                coin = hashlib.sha256(f"{text} {task.key} {sample}".encode()).digest()[0] / 256
                looked = "# leaks" in text or ("# peeks" in text and coin < 0.2)
                flags = ("leak:log",) if looked else ()
                won = coin < share
                told = {"solved": won, "sample_idx": sample, "harness_commit": tree.commit}
                rows.append(rollout(task, name=name, flags=flags, **told))
        solved, clean = sum(bool(row.outcome) for row in rows), sum(row.clean for row in rows)
        shard = self.store.write(f"eval-{name}", rows)
        made = len(rows)
        kept = {"name": shard.name, "sha256": shard.sha256}
        return Evaluated(kept, made, solved, clean, unit.seed, made)._asdict()


def marked(share: dict[str, float]) -> Callable[[HarnessTree], float]:
    """A start of 0.3, and what each mark in the agent adds."""

    def script(tree: HarnessTree) -> float:
        text = tree.files[AGENT].decode()
        return 0.3 + sum(gain for mark, gain in share.items() if mark in text)

    return script


def ideas(bench: Bench, monkeypatch: pytest.MonkeyPatch, *rounds: list[str]) -> None:
    """One list of lines a generation, each line an edit at the agent's end or its beginning."""
    pending, asked = list(rounds), dict[str, list[str]]()

    def idea(_evidence: Any, tree: HarnessTree, *_: Any, **__: Any) -> list[Proposal]:
        if tree.commit not in asked:  # a version is asked about more than once
            asked[tree.commit] = pending.pop(0) if pending else []
        lines = asked[tree.commit]
        text = tree.files[AGENT].decode()
        found = []
        for at, line in enumerate(lines):
            told = Hypothesis("scaffold", f"if {line} then better", "clean_success", "up", 0.1)
            after = f"{text}\n{line}\n" if at % 2 == 0 else f"{line}\n{text}"
            found.append(Proposal(replace(told, rule=line), line, {AGENT: after}, 0.9 - at / 100))
        return found

    bench.run.extensions.proposer = RulesAgent(idea)
    monkeypatch.setattr(propose_step, "_situation", lambda _: None)
    passed: Any = lambda _run, _collected, one: Checked(one, ())  # noqa: E731
    monkeypatch.setattr(race_step, "test", passed)
    monkeypatch.setattr(race_step, "keeps_contract", lambda *_: [])


@pytest.fixture
def raced(bench: Bench) -> Bench:
    bench.lab.__class__ = Luck
    bench.run.config = FROZEN
    bench.run.plan = as_frozen(PLAN, looks=(5,), generations=3, race=2000, search=40, confirm=40)
    bench.lab.script = marked({"# better": 0.3, "# more": 0.3})
    return bench


def race(run: Run, start: Version) -> HandedOver:
    """All of it: the race, its exam, and what comes of that."""
    return STRATEGIES["full"]().carry_out(run, start)


def claim_of(bench: Bench) -> Any:
    """The exam's verdict; None where there was none."""
    looks = [step.outcome for step in bench.run.ledger.steps(kind="live") if step.is_done]
    return looks[-1]["verdict"] if looks else None


def first(bench: Bench) -> Version:
    return Version("v0", bench.repo.head())


def again(bench: Bench, found: HandedOver) -> HandedOver:
    """The same run, taken up by a new process: everything is read from the journal."""
    made = len(bench.run.ledger.steps())
    back = race(bench.run, Version("v0", start_of(bench)))
    assert len(bench.run.ledger.steps()) == made and back.version == found.version
    return back


def start_of(bench: Bench) -> str:
    return bench.repo.log(100)[-1].commit


def verdicts(bench: Bench) -> dict[str, Any]:
    steps = bench.run.ledger.steps(kind="verdict")
    return {s.outcome["candidate"].partition("/")[2]: s.outcome for s in steps if s.is_done}


def test_edits_that_help_are_found_one_by_one_and_proven_together(
    raced: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ideas(raced, monkeypatch, ["# nothing", "# better"], ["# more", "# worse"])
    raced.lab.script = marked({"# better": 0.3, "# more": 0.3, "# worse": -0.3})
    start = first(raced)
    found = race(raced.run, start)
    told = verdicts(raced)
    assert found.standing == "proven" and claim_of(raced)["kind"] == "PROMOTE"
    assert {name: one["kind"] for name, one in told.items()} == {
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
    assert inputs["budget"]["alpha"] == 0.05 and inputs["budget"]["candidates"] == 1
    assert raced.repo.tip(LEAD) is None
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


@pytest.mark.parametrize("rules", [2, 3])
def test_an_edit_that_is_proposed_again_gets_further_attempts(
    raced: Bench, monkeypatch: pytest.MonkeyPatch, rules: int
) -> None:
    """By earlier rules its first attempts count again; a run that began so keeps to them."""
    raced.run.plan = replace(raced.run.plan, rules=rules)
    raced.lab.script = marked({"# worse": -0.3})
    ideas(raced, monkeypatch, ["# worse"])
    race(raced.run, first(raced))
    blocks = [step.outcome for step in raced.run.ledger.steps(kind="race") if step.is_done]
    edits = [block for block in blocks if block["of"] != "the start"]
    assert len({block["of"] for block in edits}) == 3, "each generation proposes it"
    further = [block["made"] for block in edits] == [8 * at for at in range(1, len(edits) + 1)]
    assert further == (rules == 3)
    made = sum(block["attempts"] for block in blocks)
    assert (spent(raced.run.ledger, "r", ["eval"]) >= made) == (rules == 3)


@pytest.mark.parametrize("cheat", ["# leaks", "# peeks"])
def test_an_edit_that_wins_by_a_leak_never_joins(
    raced: Bench, monkeypatch: pytest.MonkeyPatch, cheat: str
) -> None:
    """Whoever always looks has no clean success; who looks now and then has more than the start."""
    raced.lab.script = marked({cheat: 0.6, "# better": 0.3})
    ideas(raced, monkeypatch, [cheat, "# better"])
    found = race(raced.run, first(raced))
    told = verdicts(raced)
    assert told["g0/c0"]["kind"] == "INVALID" and "leak" in told["g0/c0"]["reasons"][0]
    assert found.standing == "proven" and told["g0/c1"]["kind"] == "PROMOTE"
    assert cheat not in raced.repo.tree(found.version.commit).files[AGENT].decode()


def test_an_edit_that_breaks_is_invalid_and_the_race_goes_on(
    raced: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    better = marked({"# better": 0.4})

    def script(tree: HarnessTree) -> float:
        if "# broken" in tree.files[AGENT].decode():
            raise CandidateError("it does not load", reason="load")
        return better(tree)

    raced.lab.script = script
    ideas(raced, monkeypatch, ["# broken", "# better"])
    found = race(raced.run, first(raced))
    told = verdicts(raced)
    assert told["g0/c0"]["kind"] == "INVALID" and told["g0/c1"]["kind"] == "PROMOTE"
    assert found.standing == "proven"


@pytest.mark.parametrize("budget", [60, 300, pytest.param(2000, marks=pytest.mark.slow)])
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
    assert stops >= 5 and found.standing == "proven"
    keys = [step.key for step in raced.run.ledger.steps()]
    assert len(keys) == len(set(keys))
    assert {told["kind"] for told in verdicts(raced).values()} == {"INCONCLUSIVE", "PROMOTE"}
    assert raced.repo.head() == found.version.commit


def test_the_loop_races_and_opens_the_vault(raced: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    ideas(raced, monkeypatch, ["# better"])
    evolve._evolve(raced.run)
    ends = {s.outcome["which"]: s.outcome for s in raced.run.ledger.steps(kind="vault")}
    assert ends["final"]["commit"] == raced.repo.head() != ends["baseline"]["commit"]
    assert ends["final"]["clean_success"] > ends["baseline"]["clean_success"]
    assert raced.run.finished


def test_every_member_s_verdict_is_computed_again(
    raced: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ideas(raced, monkeypatch, ["# better", "# more"])
    race(raced.run, first(raced))
    again = gone_through_again(raced, lambda bench: race(bench.run, first(bench)))
    assert again.differences == []
    assert {told["kind"] for told in again.verdicts.values()} == {"PROMOTE"}


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
    assert plan.budget.at(0) == plan.alpha and len(plan.gate().looks) == 1
    halves, branch = cautions(plan, few)
    assert "27 tasks raced on, 28 others for the exam" in halves and "lead" in branch
    assert plan_for(FROZEN.model_copy(update={"strategy": "no-diagnostics"}), few) == plan
    for other in ("score-only", "static"):
        told = plan_for(FROZEN.model_copy(update={"strategy": other}), few)
        assert not told.race and not told.halved and (told.search, told.confirm) == (23, 22)
    many: Any = Tasks()
    assert plan_for(FROZEN, many).race and not plan_for(FROZEN, many).halved
    assert not plan_for(RunConfig(), few).race


def test_the_budget_decides_how_deep_the_exam_is_and_says_where_it_proves_nothing() -> None:
    few: Any = Few()
    sized = {
        cap: plan_for(FROZEN.model_copy(update={"budget": cap}), few) for cap in (20, 560, 3000)
    }
    assert [plan.looks for plan in sized.values()] == [(1,), (2,), (10,)]
    assert [plan.confirm for plan in sized.values()] == [2, 28, 28]
    *_, told = cautions(sized[20], few)
    assert "2 confirm tasks cannot prove any effect" in told


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
    with pytest.raises(ConfigError, match="cannot be measured"):
        race(raced.run, first(raced))


def test_a_run_without_a_vault_says_so(raced: Bench) -> None:
    raced.run.plan = replace(raced.run.plan, vault=0)
    main = first(raced)
    finish(raced.run, main, HandedOver(main, None, "start"))
    assert list(raced.run.ledger.steps(kind="vault")) == []
