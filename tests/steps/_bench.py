"""A run whose policy is scripted: real ledger, git, store, sandbox and gate; nothing is trained."""

from __future__ import annotations

import atexit
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from meta_agent.composition.root import extensions_of, sandboxes_of
from meta_agent.core.config import RunConfig
from meta_agent.core.evidence import Evidence
from meta_agent.core.history import HarnessRepo
from meta_agent.core.lab.live import Evaluated, Lab, LabSettings, Trained
from meta_agent.core.lab.units import EvalUnit, TrainUnit, tasks_of
from meta_agent.core.ledger import Ledger
from meta_agent.core.loop.plan import FrozenPlan, Plan, TrainedPlan
from meta_agent.core.loop.records import Collected, Reading, Version
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs import propose as propose_step
from meta_agent.core.protocols import (
    JSON,
    Candidate,
    Ceilings,
    Factor,
    HarnessTree,
    Hypothesis,
    Rollout,
    Sampling,
    Split,
    Task,
)
from meta_agent.core.resources import shipped_harness
from meta_agent.core.rollouts import RolloutStore
from meta_agent.policies.opening import ChildPolicies
from meta_agent.proposers import Proposal, RulesAgent
from meta_agent.reports import open_display
from meta_agent.skills import SkillLibrary

TASKS = 200
PLAN = TrainedPlan(
    steps=2,
    looks=(3,),
    search=TASKS,
    confirm=TASKS,
    vault=TASKS,
    alpha=0.05,
    min_effect=0.0,
    generations=1,
)
Script = Callable[[HarnessTree], float]  # share of tasks that are solved, or it raises


@cache
def _seeded() -> TemporaryDirectory[str]:
    """The seed as a repository, made once and copied for every run."""
    files = shipped_harness("nano/swe/seed")
    folder = TemporaryDirectory()
    atexit.register(folder.cleanup)
    HarnessRepo.create(Path(folder.name), files, "feat: seed")
    return folder


class Tasks:
    """As much of a domain as the loop itself asks for."""

    name = "swe"
    evaluator_hash = "ev"
    ceilings = Ceilings(max_turns=8, max_tokens_per_turn=8, max_context_tokens=128, wall_sec=5.0)
    sampling = Sampling(temperature=1.0)

    def tasks(self, split: Split) -> Sequence[Task]:
        keys = (f"{split}-{n:03d}" for n in range(TASKS))
        return [Task("swe", key, split, f"hash {key}", {}) for key in keys]


class ScriptedLab(Lab):
    """Solves as many tasks as `script` says of the harness, and counts its work."""

    script: Script
    acts: Callable[[HarnessTree, Any], float] | None = None
    """What a policy solves, where that depends on more than the harness."""
    leaks: Callable[[HarnessTree, Any, Split], bool] | None = None
    """Where a solved attempt read its answer."""

    rollouts_a_step = 10

    def __init__(self, *settings: Any, **more: Any) -> None:
        super().__init__(*settings, **more)
        self.made: list[str] = []

    @property
    def trainings(self) -> int:
        return len(self.made)

    def _train(self, unit: TrainUnit, tree: HarnessTree) -> JSON:
        name, steps, every = unit.name, unit.steps, unit.keep_every
        self.made.append(name)
        self.script(tree)
        total = unit.before + steps
        kept = [
            {"steps": unit.before + n, "policy": f"{name}@{n}", "path": f"/{name}@{n}"}
            for n in (range(every, steps, every) if every else ())
        ]
        made = steps * self.rollouts_a_step
        return Trained(f"/{name}", name, unit.seed, total, None, [], steps, made, kept).to_json()

    def _evaluate(self, unit: EvalUnit, tree: HarnessTree) -> JSON:
        name, split, limit = unit.name, unit.split, unit.limit
        share = self.acts(tree, unit) if self.acts else self.script(tree)
        tasks = self.domain.tasks(split)[:limit]
        good = {task.key for task in tasks[: round(share * limit)]}
        leaky = self.leaks is not None and self.leaks(tree, unit, split)
        read = {"flags": ["leak:log"]} if leaky else {}
        rows = [
            rollout(
                task,
                name=name,
                solved=task.key in good,
                sample_idx=sample,
                harness_commit=tree.commit,
                **(read if task.key in good else {}),
            )
            for sample in unit.samples
            for task in tasks_of(self.domain, split, limit, unit.part)
        ]
        solved, clean = sum(bool(row.outcome) for row in rows), sum(row.clean for row in rows)
        shard = self.store.write(f"eval-{name}", rows)
        kept = {"name": shard.name, "sha256": shard.sha256}
        made = len(rows)
        return Evaluated(kept, made, solved, clean, unit.seed, made)._asdict()


def rollout(task: Task, *, name: str = "n", solved: bool = True, **changes: Any) -> Rollout:
    facts: dict[str, Any] = {
        "run": "r",
        "version": name,
        "domain": "swe",
        "split": task.split,
        "task_key": task.key,
        "task_hash": task.content_hash,
        "group_id": f"{task.split}/{task.key}",
        "sample_idx": 0,
        "seed": 0,
        "harness_commit": "c",
        "policy": "p",
        "evaluator_hash": "ev",
        "outcome": solved,
        "turns": 2,
    }
    return Rollout(**{**facts, **changes})


def make_lab(folder: Path, ledger: Ledger, *, stopping: Callable[[], bool]) -> ScriptedLab:
    settings = LabSettings("r", "nano", 2, folder / "checkpoints", 0)
    lab = ScriptedLab(
        settings,
        ledger=ledger,
        store=RolloutStore(folder / "rollouts"),
        domain=Tasks(),  # type: ignore[arg-type]
        on_step=lambda *_: None,
        stopping=stopping,
        policies=ChildPolicies(1),
        open_sandbox=sandboxes_of("process", "r"),
    )
    lab.script = lambda _: 0.5
    return lab


class Bench:
    """A run at its first generation, and what a test does to it."""

    def __init__(self, folder: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stop = False
        self._patch = monkeypatch
        ledger.start_run("r", {}, config_hash="h")
        self.repo = HarnessRepo(shutil.copytree(_seeded().name, folder / "harness"))
        self.lab = make_lab(folder, ledger, stopping=lambda: self.stop)
        config = RunConfig(profile="tiny")
        self.run = Run(
            "r",
            config,
            PLAN,
            ledger,
            self.repo,
            self.lab,
            SkillLibrary(folder / "skills"),
            open_display(),
            1_800_000_000,
            lambda: self.stop,
            extensions_of(config, "r", None),
        )
        self.reading = Reading(Evidence({"clean_success": 0.5}, {}, {}), ())

    def collected(self, version: Version | None = None) -> Collected:
        version = version or Version("v0", self.repo.head())
        tree = self.repo.tree(version.commit)
        trained = self.lab.train(tree, seed=0, steps=PLAN.steps)
        seen = self.lab.evaluate(tree, trained, split="search", limit=PLAN.search)
        return Collected(version, tree, trained, seen)

    def candidates(
        self,
        collected: Collected,
        *edits: tuple[Factor, Mapping[str, str]],
        metric: str = "",
        generation: int = 0,
    ) -> list[Candidate]:
        """Real candidates with these edits, by way of `propose`."""
        proposals = [_proposal(at, *edit, metric) for at, edit in enumerate(edits)]
        answer = lambda *_, **__: proposals  # noqa: E731
        self.run.extensions.proposer = RulesAgent(answer)
        self._patch.setattr(propose_step, "_situation", lambda _: None)
        return propose_step.propose(self.run, collected, self.reading, generation)

    def forget(self) -> None:
        """What a process that is killed loses: all but its files."""
        self.lab.budget.forget()
        self.run.grants.clear()

    def text(self, path: str) -> str:
        return shipped_harness("nano/swe/seed")[path].decode()


def as_frozen(plan: Plan, **changes: Any) -> FrozenPlan:
    """The same sizes where nothing is trained."""
    return FrozenPlan(**{**asdict(plan), "steps": 0, **changes})


def replace_plan(bench: Bench, **changes: Any) -> None:
    bench.run.plan = replace(bench.run.plan, **changes)


def _proposal(at: int, factor: Factor, edits: Mapping[str, str], metric: str) -> Proposal:
    says = f"if idea {at} then better because so"
    hypothesis = Hypothesis(factor, says, metric or "clean_success", "up", 0.1, rule=f"rule-{at}")
    return Proposal(hypothesis, f"idea {at}", edits, 0.5)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        yield Bench(tmp_path, ledger, monkeypatch)
