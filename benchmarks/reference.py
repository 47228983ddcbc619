"""Measures what a clean harness shows, and writes it where evidence and rules look it up.

The competent harness of each suite is read untrained (several sampling seeds) and after a training
of `--steps` steps (several training seeds), as the loop reads a version. What is stored are the
ranges of all metrics, and the largest strength with which each rule speaks of such a reading.

    python benchmarks/reference.py [--suites swe math code] [--seeds 11 12] [--steps 30]
        [--untrained 11 12 13 14 15 16]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from faults_lab import SANDBOX_SEC, tree_of

from meta_agent.agents import Proposal, Situation, propose
from meta_agent.domains import load_domain
from meta_agent.domains.nano.sources import SUITES, sources
from meta_agent.evidence import Evidence, build_evidence, probe
from meta_agent.evidence import reference as stored
from meta_agent.evidence._rules import rule_alerts
from meta_agent.harness import HarnessSession
from meta_agent.protocols import Domain, HarnessTree, PlannedRollout, Rollout, SandboxLimits
from meta_agent.rollouts import Runner, Stamp
from meta_agent.sandbox import open_sandbox
from meta_agent.training import PolicyChild, train_policy
from meta_agent.training.run import of_steps, settings_of

TASKS = 256
OUT = Path(stored.__file__).with_name(stored.FILE)
ALL = 99


def main() -> None:
    args = _arguments()
    for suite in args.suites:
        store(
            suite,
            {
                "untrained": [read(suite, seed, 0) for seed in args.untrained],
                "trained": [read(suite, seed, args.steps) for seed in args.seeds],
            },
        )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--suites", nargs="+", choices=SUITES, default=SUITES)
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12])
    parser.add_argument("--untrained", type=int, nargs="+", default=[11, 12, 13, 14, 15, 16])
    parser.add_argument("--steps", type=int, default=30)
    return parser.parse_args()


# --- reading a version ----------------------------------------------------------------------------


def read(
    suite: str,
    seed: int,
    steps: int,
    files: Mapping[str, bytes] | None = None,
    *,
    child: PolicyChild | None = None,
) -> Evidence:
    """What the loop reads of a harness (the competent one), with the suite's warm start."""
    if child is None:
        with PolicyChild(threads=1) as own:
            return read(suite, seed, steps, files, child=own)
    domain, policy = load_domain(suite), "nano" if suite == "swe" else f"nano:{suite}"
    tree = tree_of(files or sources(suite, "competent"))
    with tempfile.TemporaryDirectory() as folder, _session(tree, steps) as session:
        runner = Runner(domain, session, child, Stamp("reference", "v", tree.commit))
        child.load(policy)
        trained: list[Rollout] = []
        metrics: list[Any] = []
        if steps:
            result = train_policy(
                child, runner, session, domain, settings_of(session.recipe), seed=seed,
                steps=steps, base_policy=policy, out_dir=Path(folder) / "out", keep_steps=3,
            )  # fmt: skip
            trained = of_steps(result.rollouts, first=False, count=3)
            metrics = result.metrics
        tasks = domain.tasks("search")[:TASKS]
        seen = runner.run([PlannedRollout(task, 0, seed, task.key) for task in tasks])
        return reading(session, domain, [*trained, *_scored(session, seen)], metrics)


@contextmanager
def _session(tree: HarnessTree, steps: int) -> Iterator[HarnessSession]:
    limits = SandboxLimits(deadline_sec=SANDBOX_SEC + 60.0 * steps)
    sandbox = open_sandbox("process", run="reference", limits=limits)
    try:
        yield HarnessSession(sandbox, tree)
    finally:
        sandbox.close()


def _scored(session: HarnessSession, rollouts: list[Rollout]) -> list[Rollout]:
    scored = [rollout for rollout in rollouts if rollout.error is None]
    for rollout, row in zip(scored, session.reward(scored), strict=True):
        rollout.rewards, rollout.weights = row, dict(session.weights)
    return rollouts


def reading(
    session: HarnessSession,
    domain: Domain,
    rollouts: Sequence[Rollout],
    metrics: Sequence[Mapping[str, Any]],
) -> Evidence:
    """Evidence as the loop builds it: with the harness's diagnostics and the probes."""
    seen = [rollout for rollout in rollouts if rollout.split != "train"]
    views = {t.key: t.view for split in ("search", "train") for t in domain.tasks(split)}  # type: ignore[arg-type]
    return build_evidence(
        rollouts,
        train_metrics=metrics,
        measured={found.name: dict(found.values) for found in session.measure(seen)},
        probed=probe(session, rollouts, domain.tasks("train")),
        tasks=views,
    )


# --- what is stored -------------------------------------------------------------------------------


def store(suite: str, readings: Mapping[str, Sequence[Evidence]]) -> None:
    """Writes the ranges; then how strongly rules speak of what lies within them."""
    written = json.loads(OUT.read_text()) if OUT.is_file() else {}
    found = {stage: _summary(seen) for stage, seen in readings.items()}
    written[load_domain(suite).name] = found
    _write(written)
    for stage, seen in readings.items():
        found[stage]["rules"] = _strengths(suite, seen)
    _write(written)


def _write(written: Mapping[str, Any]) -> None:
    """One metric a line, so that a change of the reference can be read."""
    OUT.write_text(json.dumps(written, indent=1, sort_keys=True) + "\n")
    stored.forget()


def _summary(seen: Sequence[Evidence]) -> dict[str, Any]:
    return {"ranges": _ranges(one.metrics() for one in seen), "rules": {}, "alerts": _alerts(seen)}


def _alerts(seen: Sequence[Evidence]) -> dict[str, float]:
    """The alerts over several metrics, each as far as it went."""
    raised: dict[str, float] = {}
    for alert in (alert for one in seen for alert in rule_alerts(one, None)):
        value = raised.get(alert.metric, 0.0)
        raised[alert.metric] = max(value, _four(alert.value), key=abs)
    return raised


def _ranges(rows: Iterable[Mapping[str, float]]) -> dict[str, list[float]]:
    values: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.items():
            values.setdefault(name, []).append(value)
    return {name: [_four(min(v)), _four(max(v))] for name, v in sorted(values.items())}


def _four(value: float) -> float:
    return float(f"{value:.4g}")


def ideas(
    suite: str, evidence: Evidence, files: Mapping[str, bytes] | None = None
) -> list[Proposal]:
    """What the rules propose for a harness (the competent one), strongest first."""
    domain, tree = load_domain(suite), tree_of(files or sources(suite, "competent"))
    situation = Situation(domain.ceilings, train_tasks=len(domain.tasks("train")))
    return propose(evidence, tree, (), (), ALL, situation=situation)


def _strengths(suite: str, seen: Sequence[Evidence]) -> dict[str, float]:
    """How strongly each rule speaks of these readings."""
    strongest: dict[str, float] = {}
    for evidence in seen:
        for proposal in ideas(suite, evidence):
            rule, strength = proposal.hypothesis.rule, _four(proposal.strength)
            strongest[rule] = max(strongest.get(rule, 0.0), strength)
    return dict(sorted(strongest.items()))


if __name__ == "__main__":
    main()
