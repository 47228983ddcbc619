"""Trainings of nano-swe as tests start them, and the host's loop on rollouts that a test writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from meta_agent.core.harness import HarnessSession
from meta_agent.core.lab.training import TrainResult
from meta_agent.core.protocols import PlannedRollout, Rollout, RolloutFailure, Task
from meta_agent.core.rollouts import Runner, Stamp
from meta_agent.domains.nano import NanoSwe
from meta_agent.policies.training import PolicyChild, train_policy
from meta_agent.policies.training.run import _Loop

STAMP = Stamp(run="r", version="v", harness_commit="c0ffee")
TINY = {"groups_per_step": 4, "num_generations": 4, "learning_rate": 1e-4}


def run(
    child: PolicyChild, session: HarnessSession, base: str | Path, out: Path, **options: Any
) -> TrainResult:
    domain = NanoSwe()
    runner = Runner(domain, session, child, STAMP)
    settings = {"recipe": TINY, "steps": 3, **options}
    return train_policy(child, runner, session, domain, base_policy=base, out_dir=out, **settings)


class FakeRunner:
    """Plays rollouts that a test writes, and remembers the plan."""

    def __init__(self, *spoiled: int) -> None:
        self.spoiled = spoiled
        self.plan: Sequence[PlannedRollout] = ()

    def run(
        self,
        plan: Sequence[PlannedRollout],
        *,
        temperature: float | None = None,
        top_p: float | None = None,
        stopping: Callable[[], bool],
    ) -> list[Rollout]:
        self.plan = plan
        assert (temperature, top_p) == (0.8, 1.0)
        return [self._play(index, planned) for index, planned in enumerate(plan)]

    def _play(self, index: int, planned: PlannedRollout) -> Rollout:
        made = Rollout(
            run="r", version="v", domain="d", split="train", task_key=planned.task.key,
            task_hash="h", group_id=planned.group_id, sample_idx=planned.sample_idx,
            seed=planned.seed, harness_commit="c", policy="p", evaluator_hash="e",
            outcome=index % 2 == 0,
        )  # fmt: skip
        if index in self.spoiled:
            made.outcome, made.error = None, RolloutFailure("infra", "gone")
        return made


class FakeHarness:
    weights: dict[str, float] = {"solved": 2.0}  # noqa: RUF012

    def __init__(self, order: list[str]) -> None:
        self._order = order
        self.histories: list[Mapping[str, Any]] = []
        self.groups: Sequence[Mapping[str, Any]] = ()
        self.remembered: Any = None

    def filter_state(self) -> Any:
        return self.remembered

    def start_filter(self, state: Any = None) -> None:
        self.remembered = state

    def reward(self, rollouts: Sequence[Rollout]) -> list[dict[str, float]]:
        return [{"solved": float(bool(rollout.outcome))} for rollout in rollouts]

    def keep(self, groups: Sequence[Mapping[str, Any]]) -> list[float]:
        self.groups = groups
        return [0.5 + index for index in range(len(groups))]

    def order(
        self, tasks: Sequence[Mapping[str, Any]], history: Mapping[str, Mapping[str, int]]
    ) -> list[str]:
        self.histories.append({key: dict(value) for key, value in history.items()})
        return self._order


class FakeDomain:
    def tasks(self, split: str) -> list[Task]:
        assert split == "train"
        return [Task("d", key, "train", "h", {"q": key}) for key in "abcde"]


def loop(runner: FakeRunner, harness: FakeHarness, refill: float = 0, **options: Any) -> _Loop:
    recipe = {"temperature": 0.8} | ({"refill_factor": refill} if refill else {})
    return _Loop(runner, harness, FakeDomain(), recipe, 3, 1, None, **options)  # type: ignore[arg-type]


class Drops(FakeHarness):
    """Its filter drops the groups of these tasks, and remembers how many groups it was shown."""

    def __init__(self, order: list[str], *dropped: str) -> None:
        super().__init__(order)
        self._dropped = dropped

    def keep(self, groups: Sequence[Mapping[str, Any]]) -> list[float]:
        self.remembered = (self.remembered or 0) + len(groups)
        return [float(group["task_key"] not in self._dropped) for group in groups]
