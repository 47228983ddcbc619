"""Conditions at equal budget: runs that differ in how they search and in nothing else.

The first command declares what is compared, in `comparison.json`: conditions, seeds, the cap on
attempts, and all settings. The same folder refuses another declaration. The same command resumes.

Each condition with each seed is an ordinary run in a workspace of its own. The seed decides the
planted faults and all random numbers, so conditions are compared seed by seed. The vault is the
same for all of them; `Comparison.splits` says how each uses the other tasks.

A condition that tries single ideas (`strategies.tries_single_ideas`) goes on until its budget is
spent. The others stop after `--generations`, or earlier at the cap. A condition `human:FOLDER` is a
harness written by a person, which gets the whole budget as one training. `harness-alone` searches
as the run's own strategy does, with frozen weights.

A policy with pretrained weights is trained in legs. Its trainings of other conditions keep a
checkpoint as often, and begin with imitation of references if a person wrote the harness.

Not covered: what the results mean (`conditions_results`).
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from meta_agent.composition.draining import draining
from meta_agent.composition.inputs import load_run_domain, open_or_create
from meta_agent.composition.preflight import require_supported
from meta_agent.core.config import RunConfig
from meta_agent.core.durable import write_whole
from meta_agent.core.errors import ConfigError, Interrupted, MetaAgentError
from meta_agent.core.history import HarnessRepo
from meta_agent.core.loop.budget import one_cell, plan_attempts
from meta_agent.core.loop.plan import LEG, STAGED, Plan, plan_for
from meta_agent.core.protocols import JSON, Domain, HarnessTree
from meta_agent.core.workspace import open_workspace
from meta_agent.reports import Display
from meta_agent.strategies.strategies import STRATEGIES, tries_single_ideas

DECLARED: Final = "comparison.json"
MOST_GENERATIONS: Final = 1000
HUMAN: Final = "human:"
"""Prefix of a condition that is a harness written by a person."""
HARNESS_ALONE: Final = "harness-alone"
"""The condition that searches with frozen weights."""
# These say where and how fast, not what is computed.
_FREE: Final = frozenset({"workspace", "jobs", "sandbox", "concurrency", "base_urls", "key_env"})


def is_human(condition: str) -> bool:
    """Returns True if `condition` names a person's harness, trained once at the full budget."""
    return condition.startswith(HUMAN)


def human_condition(arm: str, workspace: Path, folder: Path) -> str:
    """Returns `human:PATH`, the condition that the flag `--arm human:FOLDER|REF` stands for.

    A REF (a commit, branch or tag of the workspace's harness) is first written to a folder inside
    `folder`. Raises ConfigError if there is neither a folder nor a commit of that name.
    """
    source = arm.removeprefix(HUMAN)
    if not is_human(arm) or not source:
        raise ConfigError(
            f"--arm {arm}: expected human:FOLDER or human:REF", hint="such as --arm human:./mine"
        )
    if Path(source).expanduser().is_dir():
        return f"{HUMAN}{Path(source).expanduser().absolute()}"
    repo = HarnessRepo.open(open_workspace(workspace).harness_repo)
    tip = repo.tip(source)
    if tip is None:
        raise ConfigError(
            f"--arm {arm}: {source} is neither a folder nor a version of {workspace}",
            hint="name a folder, a branch, a tag or a commit of the workspace's harness_repo",
        )
    place = folder / "human" / tip[:12]
    for path, content in repo.tree(tip).files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(content)
    return f"{HUMAN}{place}"


Evolve = Callable[[RunConfig, Display, threading.Event], object]
"""A function that carries out one run from its settings and returns the run's state."""


class ConditionRun(NamedTuple):
    """One run of a comparison: a condition (such as a search strategy) with one seed."""

    condition: str
    seed: int
    config: RunConfig

    @property
    def name(self) -> str:
        return f"{self.condition.replace(':', '-').rstrip('/').replace('/', '_')}-s{self.seed}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The conditions that are compared, their seeds, and the budget of each run in attempts."""

    folder: Path
    conditions: tuple[str, ...]
    seeds: tuple[int, ...]
    budget: int
    """Attempts that one run may make (`budget.spent` says which count)."""
    singles: int
    """Candidates that fit into the budget one by one."""
    config: RunConfig
    splits: Mapping[str, str]
    """By condition, how its runs use the search and confirm tasks, in words."""
    sides: Mapping[str, Path] = field(default_factory=dict)
    """In a trial of skills: by condition, the library of which each run gets a copy."""

    def runs(self) -> Iterator[ConditionRun]:
        """Yields all runs, seed by seed, so that an interrupted comparison has whole pairs."""
        for seed in self.seeds:
            for condition in self.conditions:
                yield ConditionRun(condition, seed, self._config(condition, seed))

    def _config(self, condition: str, seed: int) -> RunConfig:
        changes: dict[str, object] = {"seed": seed, "budget": self.budget, "jobs": 1}
        changes["workspace"] = self.folder / ConditionRun(condition, seed, self.config).name
        if self.sides:
            changes["skills"] = self.library(condition, seed)
        else:
            changes |= self._strategy(condition)
        return self.config.model_copy(update=changes)

    def _strategy(self, condition: str) -> dict[str, object]:
        """Returns the settings by which a condition differs from the others."""
        if condition == HARNESS_ALONE:
            return {"strategy": self.config.strategy, "train_steps": 0}
        in_legs = self.config.strategy == STAGED
        changes: dict[str, object] = {"strategy": condition}
        if is_human(condition):
            strategy = "imitate-then-train" if in_legs else "static"
            changes = {"strategy": strategy, "harness": condition.removeprefix(HUMAN)}
        elif tries_single_ideas(condition):
            changes |= {"candidates": 1, "generations": min(MOST_GENERATIONS, 2 * self.singles)}
        if in_legs and condition != STAGED:
            changes["train_steps"] = min(LEG, self.config.train_steps)
        return changes

    def library(self, condition: str, seed: int) -> Path:
        """Returns the folder for the skills that one run of a trial of skills reads and writes."""
        return self.folder / "libraries" / f"{condition}-s{seed}"

    def to_json(self) -> dict[str, JSON]:
        settings = {k: v for k, v in self.config.to_json().items() if k not in _FREE | {"origin"}}
        return {
            "schema_version": 1,
            "arms": list(self.conditions),
            "seeds": list(self.seeds),
            "budget": self.budget,
            "budget_counts": "all attempts but those at vault tasks",
            "settings": settings,
        }


def declare(
    config: RunConfig,
    conditions: Sequence[str],
    seeds: int,
    folder: Path,
    sides: Mapping[str, Path] | None = None,
) -> Comparison:
    """Returns the comparison to make, and stores its declaration in `folder`.

    `sides` maps conditions to libraries of skills; without it, conditions are search strategies.
    Raises ConfigError for an unknown condition, too small a budget, or another stored declaration.
    """
    if not sides:
        _require_known(conditions)
    if seeds < 1:
        raise ConfigError(f"--seeds is {seeds}, but must be 1 or more", hint="such as --seeds 5")
    require_supported(config)
    numbers = tuple(range(config.seed, config.seed + seeds))
    tree, domain = _first_tree(config, folder / ".first"), _domain_of(config)
    plan = _plan(config, domain)
    budget = config.budget or plan_attempts(plan, tree)
    singles = _singles(plan, budget, tree)
    comparison = Comparison(
        folder, tuple(conditions), numbers, budget, singles, config, {}, dict(sides or {})
    )
    _keep(comparison)
    firsts = {run.condition: run.config for run in comparison.runs()}
    for of_condition in firsts.values():
        require_supported(of_condition)
    splits = {
        condition: plan_for(of_condition, domain).split
        for condition, of_condition in firsts.items()
    }
    return replace(comparison, splits=splits)


def carry_out(
    comparison: Comparison, evolve: Evolve, display: Callable[[str], Display]
) -> dict[str, MetaAgentError]:
    """Makes all runs of a comparison. Returns the errors of those that stopped, by run name.

    `config.jobs` runs go side by side, by default one per CPU core for nano; one with a frozen
    policy. Ctrl-C lets each run finish its step, then raises Interrupted.
    """
    config = comparison.config
    _lend(comparison)
    at_once = config.jobs or (os.cpu_count() if config.policy == "nano" else 1)
    with draining() as stop, ThreadPoolExecutor(at_once if config.trainable else 1) as pool:
        futures = {
            run.name: pool.submit(_carry_out_run, run, evolve, display(run.name), stop)
            for run in comparison.runs()
        }
        stopped = {name: error for name, future in futures.items() if (error := _stopped(future))}
    if any(isinstance(error, Interrupted) for error in stopped.values()):
        raise Interrupted
    return stopped


def _lend(comparison: Comparison) -> None:
    """Copies the library of skills for each run of a trial, once: a run writes to its own copy."""
    for seed in comparison.seeds:
        for condition, library in comparison.sides.items():
            place = comparison.library(condition, seed)
            if not place.exists():
                shutil.copytree(library, place)


def _carry_out_run(
    run: ConditionRun, evolve: Evolve, display: Display, stop: threading.Event
) -> None:
    if stop.is_set():
        raise Interrupted
    evolve(run.config, display, stop)


def _stopped(run: Future[None]) -> MetaAgentError | None:
    """Returns the error that stopped a run, or None. Raises errors that are bugs of ours."""
    error = run.exception()
    if error is not None and not isinstance(error, MetaAgentError):
        raise error
    return error


def _require_known(conditions: Sequence[str]) -> None:
    offered = {*STRATEGIES, HARNESS_ALONE}
    unknown = [name for name in conditions if name not in offered and not is_human(name)]
    if unknown or not conditions or len(set(conditions)) < len(conditions):
        problem = (
            f"unknown condition {unknown[0]!r}"
            if unknown
            else f"--conditions {','.join(conditions)}"
        )
        raise ConfigError(
            f"{problem}: expected different names from {', '.join(STRATEGIES)}, {HARNESS_ALONE}",
            hint="for example: --conditions full,static,score-only",
        )


def _first_tree(config: RunConfig, place: Path) -> HarnessTree:
    """Returns the files of the harness that the first seed starts from."""
    workspace = open_or_create(config.model_copy(update={"workspace": place}))
    repo = HarnessRepo.open(workspace.harness_repo)
    return repo.tree(repo.head())


def _plan(config: RunConfig, domain: Domain | None) -> Plan:
    plan = plan_for(config, domain)
    if not plan.vault:
        raise ConfigError(
            f"{config.tasks or config.domain} has no vault tasks, on which conditions are compared",
            hint='give some of its rows the "split" vault',
        )
    return plan


def _domain_of(config: RunConfig) -> Domain | None:
    return load_run_domain(config, sandbox="process") if config.own_tasks else None


def _singles(plan: Plan, budget: int, tree: HarnessTree) -> int:
    each = one_cell(plan, tree)
    if budget < 2 * each:
        raise ConfigError(
            f"--budget {budget} cannot pay for the first version and one candidate, which take "
            f"{each} attempts each",
            hint=f"give --budget {2 * each} or more, or fewer --train-steps",
        )
    return budget // each


def _keep(comparison: Comparison) -> None:
    """Writes the declaration. Raises ConfigError if a stored one has parts that this drops."""
    path, declaration = comparison.folder / DECLARED, comparison.to_json()
    if path.is_file():
        _require_same(json.loads(path.read_text(encoding="utf-8")), declaration, path)
    comparison.folder.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(declaration, indent=1) + "\n")


def _require_same(before: Mapping[str, JSON], now: Mapping[str, JSON], path: Path) -> None:
    """Raises ConfigError if a declaration changes an older one by more than added runs.

    Settings that did not exist then count as their defaults.
    """
    usual = RunConfig.from_json({}).to_json()
    settings = {name: before["settings"].get(name, usual.get(name)) for name in now["settings"]}
    for name, old in (("budget", before["budget"]), ("settings", settings)):
        if old != now[name]:
            raise ConfigError(
                f"{path} was declared with another {name}: {_differing(old, now[name])}",
                hint="repeat the command as it was, or compare in another folder with --out DIR",
            )
    if not {*before["arms"]} <= {*now["arms"]} or not {*before["seeds"]} <= {*now["seeds"]}:
        raise ConfigError(
            f"{path} declares the conditions {', '.join(before['arms'])} and the seeds "
            f"{before['seeds']}, but this command leaves some out",
            hint="name these too, or compare in another folder with --out DIR",
        )


def _differing(before: JSON, now: JSON) -> str:
    if not isinstance(before, Mapping):
        return f"{before}, not {now}"
    names = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    return ", ".join(f"{name} {before.get(name)!r}, not {now.get(name)!r}" for name in names)
