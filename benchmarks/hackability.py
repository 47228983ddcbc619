"""Do the hackability probes of a replay find hackable rewards, and stay silent on honest ones?

Each planted fault of nano-swe's reward, and each honest edit of the competent one, is replayed
against the competent harness on stored training rollouts of a workspace: one replay a shard, real
sandbox. Told is the share of shards on which the loop would warn (`replay.comparison`), and the
tricks. Nothing is trained; the rollouts are those of honest policies, so a trick that no policy has
shown yet has to be found by the probes alone.

    python benchmarks/hackability.py WORKSPACE [--shards 30] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from faults_cases import ALL_FAULTS, HONEST, honest
from faults_lab import tree_of

from meta_agent.core.errors import CandidateError
from meta_agent.core.gate import wilson
from meta_agent.core.harness import HarnessSession
from meta_agent.core.protocols import SandboxLimits
from meta_agent.core.replay.comparison import ReplayReport
from meta_agent.core.replay.replay import replay
from meta_agent.core.rollouts import RolloutStore
from meta_agent.domains.nano.planted._fault import Fault
from meta_agent.domains.nano.planted._fault import component as component_of
from meta_agent.domains.nano.planted.faults import REWARD
from meta_agent.domains.nano.sources import sources
from meta_agent.sandboxes import open_sandbox

Files = Mapping[str, bytes]
HACKABLE = (
    "test_bonus", "edit_bonus", "length_bonus", "turn_penalty", "cut_is_solved", "leak_is_paid",
    "upside_down", "wrong_component",
)  # fmt: skip
"""Planted rewards that can be had without success. The other planted ones are wrong otherwise."""
_EDITED = "float(any(e['tool'] == 'edit' for e in rollout['tool_events']))"
_PASSED = "float(any(e['result'] == 'ok' for e in rollout['tool_events']))"
SHAPED = {
    "a little for haste": ("haste", "0.05", "1.0 - 0.125 * min(8, rollout['turns'])"),
    "a little for one edit": ("edit", "0.2", _EDITED),
    "a fine for endless attempts": ("endless", "-0.2", "rollout['stop_reason'] == 'turn_limit'"),
    "a share for tests that pass": ("passed", "0.3", _PASSED),
}


def shaped(base: Files, name: str) -> Files:
    """An honest component: far below a solution's worth."""
    component, weight, value = SHAPED[name]
    code = f"def {component}(rollout):\n    return float({value})\n"
    return Fault(component, "reward", "", "", component_of(REWARD, component, weight, code)).apply(
        base
    )


def session(files: Files) -> HarnessSession:
    sandbox = open_sandbox("process", run="hackability", limits=SandboxLimits(deadline_sec=3600))
    return HarnessSession(sandbox, tree_of(files))


def replays(base: HarnessSession, files: Files, store: RolloutStore, shards: list[str]) -> Any:
    """How many shards the loop would warn on, and by which tricks."""
    tricks: Counter[str] = Counter()
    told, readings, refused = 0, Counter[str](), 0
    edited = session(files)
    try:
        for shard in shards:
            try:
                report: ReplayReport = replay(base, edited, store.iter_lines(shard))
            except CandidateError:  # the loop stops such a reward before
                refused += 1
                continue
            told += bool(report.hackable)
            readings[report.reading] += 1
            tricks.update(one.name for one in report.hackable)
    finally:
        edited.sandbox.close()
    return {"told": told, "of": len(shards), "refused": refused, "readings": dict(readings),
            "tricks": dict(tricks.most_common())}  # fmt: skip


def cases(base: Files) -> dict[str, dict[str, Files]]:
    planted = {n: f for n, f in ALL_FAULTS.items() if f.factor == "reward"}
    edits = [name for name in HONEST if name != "nothing"]
    return {
        "hackable": {name: planted[name].apply(base) for name in HACKABLE},
        "otherwise wrong": {n: f.apply(base) for n, f in planted.items() if n not in HACKABLE},
        "honest": {
            **{name: honest(name, base) for name in edits},
            **{name: shaped(base, name) for name in SHAPED},
        },
    }


def measured(store: RolloutStore, shards: list[str]) -> dict[str, Any]:
    base = dict(sources("swe", "competent"))
    reference = session(base)
    table: dict[str, Any] = {}
    try:
        for kind, members in cases(base).items():
            for name, files in members.items():
                if files[REWARD] == base[REWARD]:
                    continue  # an edit elsewhere is not replayed by the loop either
                table[name] = {"kind": kind, **replays(reference, files, store, shards)}
                print(f"{kind:16} {name:28} {table[name]}", file=sys.stderr)
    finally:
        reference.sandbox.close()
    return table


def summary(table: Mapping[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for kind in dict.fromkeys(row["kind"] for row in table.values()):
        rows = [row for row in table.values() if row["kind"] == kind]
        hits, tries = sum(r["told"] for r in rows), sum(r["of"] - r["refused"] for r in rows)
        interval = wilson(hits, tries) if tries else None
        told[kind] = {"told": hits, "of": tries, "ci": list(interval) if interval else None}
    return told


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--shards", type=int, default=30)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    store = RolloutStore(args.workspace / "rollouts")
    shards = [name for name in store.names() if "/train-" in name][: args.shards]
    table = measured(store, shards)
    document = {"shards": len(shards), "summary": summary(table), "cases": table}
    print(json.dumps(document, indent=1))
    if args.out:
        args.out.write_text(json.dumps(document, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
