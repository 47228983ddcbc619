"""The score layer: what was solved, cleanly or not, over a denominator that hides nothing.

Counts (`n_*`) are of planned rollouts. `success` and `clean_success` divide by all of them;
`success_known` leaves out those whose outcome nobody knows (infrastructure, verifier).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from meta_agent.core.gate import clustered
from meta_agent.core.protocols import Rollout
from meta_agent.readers.evidence._running import share


@dataclass(slots=True)
class TaskTally:
    """How often one task was tried, solved, and solved cleanly."""

    n: int = 0
    solved: int = 0
    clean: int = 0


@dataclass(slots=True)
class ScoreLayer:
    """Accumulates outcomes of evaluation rollouts into success rates with confidence intervals."""

    counts: Counter[str] = field(default_factory=Counter)
    tasks: dict[str, TaskTally] = field(default_factory=lambda: defaultdict(TaskTally))

    def add(self, rollout: Rollout) -> None:
        kind = rollout.error.kind if rollout.error else None
        has_verdict = kind not in ("infra", "verifier")
        solved = has_verdict and bool(rollout.outcome)
        self.counts["n"] += 1
        self.counts["n_solved"] += solved
        self.counts["n_clean"] += solved and not rollout.flags
        self.counts["n_failed"] += has_verdict and not solved and kind is None
        for name in ("infra", "verifier", "policy"):
            self.counts[f"n_{name}_error"] += kind == name and not solved
        tally = self.tasks[rollout.task_key]
        tally.n += 1
        tally.solved += solved
        tally.clean += solved and not rollout.flags

    def metrics(self) -> dict[str, float]:
        c = self.counts
        n, unknown = c["n"], c["n_infra_error"] + c["n_verifier_error"]
        if not n:
            return {"n": 0.0}
        # Attempts at one task are alike: they are worth as many as tasks make of them.
        tallies = self.tasks.values()
        solved = clustered((task.solved, task.n) for task in tallies).interval
        clean = clustered((task.clean, task.n) for task in tallies).interval
        return {
            **{name: float(count) for name, count in c.items()},
            "tasks": float(len(self.tasks)),
            "success": share(c["n_solved"], n),
            "success_low": solved.low,
            "success_high": solved.high,
            "success_known": share(c["n_solved"], n - unknown),
            "clean_success": share(c["n_clean"], n),
            "clean_success_low": clean.low,
            "clean_success_high": clean.high,
            "infra_share": share(unknown, n),
            **self._by_task(),
        }

    def _by_task(self) -> dict[str, float]:
        tallies = self.tasks.values()
        metrics = {"task_mean": share(sum(t.solved / t.n for t in tallies), len(tallies))}
        most = min(t.n for t in tallies)
        if most >= 2:  # every task was tried that often
            metrics["pass_k"] = float(most)
            metrics["pass_at_k"] = share(sum(_pass_at(t, most) for t in tallies), len(tallies))
        return metrics


def _pass_at(tally: TaskTally, k: int) -> float:
    """Returns the unbiased estimate of solving at least once in k tries (Chen et al. 2021)."""
    missed = 1.0
    for i in range(k):
        missed *= max(0.0, tally.n - tally.solved - i) / (tally.n - i)
    return 1.0 - missed
