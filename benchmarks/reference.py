"""Measures what a clean harness shows, and writes it where evidence and rules look it up.

The competent harness of each suite is read twice over several seeds, as the loop reads a version:
as the base policy behaves under it, with the first groups of a training of `--steps` steps, and as
the trained policy does, with the last ones. What is stored are the ranges of all metrics, and the
largest strength with which each rule speaks of such a reading.

    python benchmarks/reference.py [--suites swe math code] [--seeds 11 12 13 14] [--steps 30]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from faults_lab import Bench, Files, Reading, tree_of

from meta_agent.core.evidence import Evidence
from meta_agent.core.proposals import Situation
from meta_agent.domains import load_domain
from meta_agent.domains.nano.sources import SUITES, sources
from meta_agent.policies.training import PolicyChild
from meta_agent.proposers import Proposal, propose
from meta_agent.readers.evidence import reference as stored
from meta_agent.readers.evidence._rules import rule_alerts

T = TypeVar("T")
TASKS = 256
OUT = Path(stored.__file__).with_name(stored.FILE)


def main() -> None:
    args = _arguments()
    for suite in args.suites:
        with PolicyChild(threads=1) as child:
            seen = [read(suite, seed, args.steps, child=child) for seed in args.seeds]
        readings = {
            "untrained": [one.untrained for one in seen],
            "trained": [one.trained for one in seen],
        }
        store(suite, readings)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--suites", nargs="+", choices=SUITES, default=SUITES)
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12, 13, 14])
    parser.add_argument("--steps", type=int, default=30)
    return parser.parse_args()


def read(
    suite: str, seed: int, steps: int, files: Files | None = None, *, child: PolicyChild
) -> Reading:
    """What the loop reads of a harness (the competent one), with the suite's warm start."""
    return _read(Bench.read, suite, seed, steps, files, child)


def read_untrained(
    suite: str, seed: int, steps: int, files: Files | None = None, *, child: PolicyChild
) -> Evidence:
    """The first reading of `read`, without rollouts of the trained policy."""
    return _read(Bench.read_untrained, suite, seed, steps, files, child)


def _read(
    method: Callable[..., T],
    suite: str,
    seed: int,
    steps: int,
    files: Files | None,
    child: PolicyChild,
) -> T:
    files = files or sources(suite, "competent")
    bench = Bench(child, files, tasks=TASKS, domain=load_domain(suite))
    with tempfile.TemporaryDirectory() as folder:
        options = {"steps": steps, "out": Path(folder) / "out", "seed": seed}
        return method(bench, files, base_policy=f"nano:{suite}", **options)


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
    return propose(evidence, tree, (), (), situation=situation)


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
