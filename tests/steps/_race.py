"""A scripted race: a policy whose attempts are coins, and a proposer with rounds of edits."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from meta_agent.core.config import RunConfig
from meta_agent.core.lab.live import Evaluated
from meta_agent.core.lab.units import EvalUnit, tasks_of
from meta_agent.core.loop.budget import spent
from meta_agent.core.loop.records import HandedOver, Version
from meta_agent.core.loop.records import Tested as Checked
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs import propose as propose_step
from meta_agent.core.protocols import JSON, HarnessTree, Hypothesis
from meta_agent.proposers import Proposal, RulesAgent
from meta_agent.strategies import race as race_step
from meta_agent.strategies.strategies import STRATEGIES
from tests.steps._bench import PLAN, Bench, ScriptedLab, as_frozen, rollout

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


def as_raced(bench: Bench) -> Bench:
    """The bench as a race of 2,000 attempts on 40 tasks, with an exam on 40 others."""
    bench.lab.__class__ = Luck
    bench.run.config = FROZEN
    bench.run.plan = as_frozen(PLAN, looks=(5,), generations=3, race=2000, search=40, confirm=40)
    bench.lab.script = marked({"# better": 0.3, "# more": 0.3})
    return bench


def race(run: Run, start: Version) -> HandedOver:
    """All of it: the race, its exam, and what comes of that, within the budget."""
    handed = STRATEGIES["full"]().carry_out(run, start)
    assert 0 < spent(run.ledger, run.id) <= run.plan.race
    return handed


def claim_of(bench: Bench) -> Any:
    """The exam's verdict; None where there was none."""
    looks = [step.outcome for step in bench.run.ledger.steps(kind="live") if step.is_done]
    return looks[-1]["verdict"] if looks else None


def first(bench: Bench) -> Version:
    return Version("v0", bench.repo.head())


def verdicts(bench: Bench) -> dict[str, Any]:
    steps = bench.run.ledger.steps(kind="verdict")
    return {s.outcome["candidate"].partition("/")[2]: s.outcome for s in steps if s.is_done}
