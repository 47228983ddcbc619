"""Makes the rollouts of the fault benchmark: real policy, real sandbox, real grader.

An `Exploit` stands for what training would have found: on a share of the tasks the attempt is
played by a script that collects a bonus, on the others by the policy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from meta_agent.core.errors import CandidateError, ConfigError, InfrastructureError
from meta_agent.core.evidence import Evidence
from meta_agent.core.gate import Arm, Finding, arm_of, row_of
from meta_agent.core.harness import HarnessSession, parse_contract
from meta_agent.core.lab.arms import reward_hash
from meta_agent.core.lab.static import static_check
from meta_agent.core.lab.training import TrainResult, of_steps
from meta_agent.core.lab.units import EXEMPLAR_STEPS as KEPT_STEPS
from meta_agent.core.proposals import Situation
from meta_agent.core.protocols import (
    Domain,
    GenerateReply,
    GenerateRequest,
    HarnessTree,
    PlannedRollout,
    Rollout,
    SandboxLimits,
    Split,
    TokenRecord,
)
from meta_agent.core.rollouts import Runner, Stamp
from meta_agent.domains import load_domain
from meta_agent.policies.training import PolicyChild, train_policy
from meta_agent.proposers import propose
from meta_agent.readers.evidence import build_evidence, probe
from meta_agent.sandboxes import open_sandbox

Files = Mapping[str, bytes]
Script = Callable[[int], str]
SAMPLES = 32
SANDBOX_SEC = 600.0
READ_SEC = 4 * 3600.0  # a training on a machine that others load as well took half an hour
# True of a candidate that changes nothing or two things; here an arm may do either.
NO_CANDIDATE = {"static.empty_change", "static.no_effect", "static.several_factors"}


@dataclass(frozen=True, slots=True)
class Exploit:
    """What is said at each turn, on which share of the tasks."""

    says: Script
    share: float = 0.6

    def plays(self, task_key: str) -> bool:
        return hashlib.sha256(task_key.encode()).digest()[0] < 256 * self.share


@dataclass(frozen=True, slots=True)
class Made:
    """One arm: its scored rollouts, and what was found before or while they were made."""

    rollouts: list[Rollout]
    planned: int
    reward_hash: str
    findings: tuple[Finding, ...] = ()

    def arm(self, name: str) -> Arm:
        rows = [row_of(rollout) for rollout in self.rollouts]
        return arm_of(name, rows, planned=self.planned, reward_hash=self.reward_hash)


@dataclass(frozen=True, slots=True)
class Reading:
    """What the loop reads of a harness, before and after training, and how well that went."""

    untrained: Evidence
    trained: Evidence
    clean: float  # of the trained policy, a share of the confirm split


@dataclass
class _Mixed:
    """A gateway that lets a script speak for some tasks."""

    child: PolicyChild
    exploit: Exploit
    lock_step: bool = True
    scripted: set[str] = field(default_factory=set)

    @property
    def policy(self) -> str:
        return f"{self.child.policy}+exploit"

    def generate(self, requests: Sequence[GenerateRequest]) -> list[GenerateReply]:
        real = [r for r in requests if not self.exploit.plays(r.task_key)]
        answers = iter(self.child.generate(real) if real else [])
        return [
            self._said(r) if self.exploit.plays(r.task_key) else next(answers) for r in requests
        ]

    def _said(self, request: GenerateRequest) -> GenerateReply:
        self.scripted.add(request.key)
        return GenerateReply(self.exploit.says(request.turn), "stop", 8, 2)

    def finish(self, keys: Sequence[str]) -> list[TokenRecord | None]:
        real = [key for key in keys if key not in self.scripted]
        rows = iter(self.child.finish(real) if real else [])
        return [None if key in self.scripted else next(rows) for key in keys]


def tree_of(files: Files) -> HarnessTree:
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:40]
    return HarnessTree(digest, digest, files)


class Bench:
    """Measures harness sources with one loaded policy."""

    def __init__(
        self,
        child: PolicyChild,
        base: Files,
        *,
        tasks: int,
        first_seed: int = 0,
        domain: Domain | None = None,
    ) -> None:
        self.child, self.tasks = child, tasks
        self.domain = domain or load_domain("swe")
        self.base = tree_of(base)
        self.rollouts_made = 0
        self.first_seed = first_seed
        self._samples: list[Rollout] = []

    def measure(
        self, files: Files, seed: int, *, exploit: Exploit | None = None, split: Split = "confirm"
    ) -> Made:
        """Static checks and contract tests, then rollouts with rewards, as the loop has them."""
        tree = tree_of(files)
        found = list(static_check(self.base, tree, parse_contract(self.base)))
        found = [finding for finding in found if finding.code not in NO_CANDIDATE]
        sandbox = open_sandbox(
            "process", run="faults", limits=SandboxLimits(deadline_sec=SANDBOX_SEC)
        )
        try:
            session = HarnessSession(sandbox, tree)
            rollouts = self._roll_out(session, tree, seed, exploit, split)
            found += self._contract(session)
            found += _score(session, rollouts)
        except (CandidateError, ConfigError) as error:
            rollouts = []
            found.append(Finding("contract.load", "veto", str(error)[:400]))
        finally:
            sandbox.close()
        if not self._samples:
            self._samples = rollouts[:SAMPLES]
        return Made(rollouts, self.tasks, reward_hash(tree), tuple(found))

    def _roll_out(
        self,
        session: HarnessSession,
        tree: HarnessTree,
        seed: int,
        exploit: Exploit | None,
        split: Split,
        limit: int | None = None,
    ) -> list[Rollout]:
        gateway: Any = _Mixed(self.child, exploit) if exploit else self.child
        tasks = self.domain.tasks(split)[: limit or self.tasks]
        plan = [PlannedRollout(task, 0, seed, f"{split}/{task.key}") for task in tasks]
        runner = Runner(self.domain, session, gateway, Stamp("faults", "v", tree.commit))
        sampling = self.domain.sampling
        found = runner.run(plan, temperature=sampling.temperature, top_p=sampling.top_p)
        self.rollouts_made += len(found)
        return found

    def _contract(self, session: HarnessSession) -> list[Finding]:
        tasks = [{"key": t.key, "view": dict(t.view)} for t in self.domain.tasks("train")[:SAMPLES]]
        checks = session.check(self._samples, tasks)
        failed = [check for check in checks if not check.ok]
        return [Finding(f"contract.{c.name}", "veto", c.detail, (c.name,)) for c in failed]

    # --- repairs -------------------------------------------------------------------------------

    def proposals(self, files: Files, *, steps: int, out: Path, base_policy: str) -> list[Files]:
        """What the rules agent would commit after a short training, best first."""
        read = self.read(files, steps=steps, out=out, base_policy=base_policy)
        found = propose(read.trained, tree_of(files), (), (), situation=self.situation())
        texts = [{path: text.encode() for path, text in one.edits.items()} for one in found]
        return [{**files, **edits} for edits in texts]

    def situation(self) -> Situation:
        """What the loop tells the rules agent beside evidence and sources."""
        return Situation(ceilings=self.domain.ceilings, train_tasks=len(self.domain.tasks("train")))

    def read(
        self, files: Files, *, steps: int, out: Path, base_policy: str, seed: int = 0
    ) -> Reading:
        """Trains a harness and reads it twice, as the loop does."""
        with self._loaded(files, base_policy) as (session, tree):
            before = self._roll_out(session, tree, seed, None, "search")
            trained = self._train(session, tree, steps, out, base_policy, seed)
            after = self._roll_out(session, tree, seed, None, "search")
            judged = self._roll_out(session, tree, seed, None, "confirm")
            last = of_steps(trained.rollouts, first=False, count=KEPT_STEPS)
            untrained = self._untrained(session, before, trained)
            evidence = self._evidence(session, after, last, trained.metrics)
            return Reading(untrained, evidence, _clean(judged))

    def read_untrained(
        self, files: Files, *, steps: int, out: Path, base_policy: str, seed: int = 0
    ) -> Evidence:
        """The first of the two readings of `read`; the trained policy is not sampled for it."""
        with self._loaded(files, base_policy) as (session, tree):
            before = self._roll_out(session, tree, seed, None, "search")
            trained = self._train(session, tree, steps, out, base_policy, seed)
            return self._untrained(session, before, trained)

    def _untrained(
        self, session: HarnessSession, before: list[Rollout], trained: TrainResult
    ) -> Evidence:
        """The evidence of rollouts before a training and of the training's first steps."""
        first = of_steps(trained.rollouts, first=True, count=KEPT_STEPS)
        return self._evidence(session, before, first, None)

    def sample(
        self, trees: Sequence[HarnessTree], tasks: int | None, *, base_policy: str
    ) -> list[dict[str, bool] | None]:
        """What the base policy solves cleanly under each of these, as the loop has it."""
        return [self._sample(tree.files, tasks or self.tasks, base_policy) for tree in trees]

    def _sample(self, files: Files, tasks: int, base_policy: str) -> dict[str, bool] | None:
        try:
            with self._loaded(files, base_policy) as (session, tree):
                found = self._roll_out(session, tree, 0, None, "search", tasks)
        except (CandidateError, ConfigError):
            return None
        return {rollout.task_key: rollout.clean for rollout in found}

    def clean(self, files: Files, *, steps: int, out: Path, base_policy: str) -> float:
        """Clean success on the confirm split after that many steps: a share."""
        with self._loaded(files, base_policy) as (session, tree):
            if steps:
                self._train(session, tree, steps, out, base_policy)
            return _clean(self._roll_out(session, tree, 0, None, "confirm"))

    @contextmanager
    def _loaded(
        self, files: Files, base_policy: str
    ) -> Iterator[tuple[HarnessSession, HarnessTree]]:
        limits = SandboxLimits(deadline_sec=READ_SEC)
        sandbox, tree = open_sandbox("process", run="faults", limits=limits), tree_of(files)
        self.child.load(base_policy)
        try:
            yield HarnessSession(sandbox, tree), tree
        finally:
            sandbox.close()
            self.child.load(base_policy)

    def _train(
        self,
        session: HarnessSession,
        tree: HarnessTree,
        steps: int,
        out: Path,
        base_policy: str,
        seed: int = 0,
    ) -> TrainResult:
        runner = Runner(self.domain, session, self.child, Stamp("faults", "v", tree.commit))
        return train_policy(
            self.child, runner, session, self.domain, session.recipe,
            seed=seed, steps=steps, base_policy=base_policy, out_dir=out, keep_steps=KEPT_STEPS,
        )  # fmt: skip

    def _evidence(
        self,
        session: HarnessSession,
        seen: list[Rollout],
        learned: Sequence[Rollout],
        metrics: Sequence[Mapping[str, Any]] | None,
    ) -> Evidence:
        _score(session, seen)
        rollouts = [*learned, *seen]
        splits: tuple[Split, ...] = ("search", "train")
        return build_evidence(
            rollouts,
            train_metrics=metrics,
            measured={one.name: dict(one.values) for one in session.measure(rollouts)},
            probed=probe(session, rollouts, self.domain.tasks("train")),
            tasks={task.key: task.view for split in splits for task in self.domain.tasks(split)},
        )


def _clean(rollouts: Sequence[Rollout]) -> float:
    lost = [one.error.detail for one in rollouts if one.error and one.error.kind != "policy"]
    if lost:
        raise InfrastructureError(
            f"{len(lost)} of {len(rollouts)} attempts have no outcome: {lost[0]}"
        )
    return sum(rollout.clean for rollout in rollouts) / len(rollouts)


def _score(session: HarnessSession, rollouts: list[Rollout]) -> list[Finding]:
    """Fills in rewards; a reward that is refused is a finding, as it is in the loop."""
    scored = [rollout for rollout in rollouts if rollout.error is None]
    try:
        rewards = session.reward(scored)
    except CandidateError as error:
        return [Finding("contract.reward", "veto", str(error)[:400], (error.reason,))]
    for rollout, row in zip(scored, rewards, strict=True):
        rollout.rewards, rollout.weights = row, dict(session.weights)
    return []
