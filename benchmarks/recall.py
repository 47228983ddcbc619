"""What the rules agent finds: each planted fault alone, and the rank of what repairs it.

A case is a built-in harness with one fault planted, or with none (the control). It is opened,
trained, rolled out on the search split, read and proposed for by the loop's own steps; proposals
are the commits that were admitted. Whether one repairs the fault is judged by what its sources do
(`_oracle.py`). The control shows what is proposed where nothing was planted: false alarms, and
the rank that the same rule gets without the fault.

    python benchmarks/recall.py --steps 30 --threads 1 --jobs 2 --out recall.json

Any proposer can be asked: with `--meta-model openai/... --candidates 3 --sandbox docker` the team
of language models is, by the same steps, and judged by the same oracle; what it cost is in the row.

With `--work DIR` an interrupted run goes on, and `--reading 1` (2, ...) reads the rollouts that
lie there again, for instance after a rule changed. Nothing is trained twice.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from _oracle import repaired

from meta_agent.composition.inputs import FIRST_COMMIT
from meta_agent.composition.opening import first_version, open_run
from meta_agent.core.config import RunConfig
from meta_agent.core.history import HarnessRepo
from meta_agent.core.loop.verbs.collect import collect, read
from meta_agent.core.loop.verbs.propose import propose
from meta_agent.core.settings import resolve
from meta_agent.core.workspace import init_workspace
from meta_agent.domains.nano.planted.faults import FAULTS, Fault, fault
from meta_agent.domains.nano.sources import sources
from meta_agent.reports import open_display

CONTROL = "none"
ALL_PROPOSALS = 40  # more than there are rules
TOP = 3  # candidates of one generation by default


@dataclass(frozen=True, slots=True)
class Proposed:
    """One proposal; `rank` 1 is the first."""

    rank: int
    rule: str
    factor: str
    statement: str
    repairs: bool


@dataclass(frozen=True, slots=True)
class Case:
    """One harness as the agent saw it, and what it proposed."""

    name: str
    clean_success: float
    vetoes: list[str]
    proposals: list[Proposed]
    evidence: dict[str, float]
    usd: float | None = 0.0  # None: a price is unknown
    tokens: int = 0

    @property
    def found(self) -> Proposed | None:
        """The first proposal that repairs the fault."""
        return next((proposal for proposal in self.proposals if proposal.repairs), None)

    def rank_of(self, rule: str) -> int | None:
        return next((one.rank for one in self.proposals if one.rule == rule), None)


def main() -> None:
    args = _arguments()
    with tempfile.TemporaryDirectory() as scratch:
        work = args.work or Path(scratch)
        names = args.only or [CONTROL, *(each.name for each in FAULTS)]
        with ThreadPoolExecutor(args.jobs) as pool:
            cases = list(pool.map(lambda name: run(name, work / args.base / name, args), names))
    result = summary(cases)
    print(table(result))
    told = {"base": args.base, "steps": args.steps, "threads": args.threads, **result}
    if args.out:
        args.out.write_text(json.dumps({**told, "cases": [asdict(c) for c in cases]}, indent=1))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=30, help="training steps of a case")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of a training child")
    parser.add_argument("--jobs", type=int, default=2, help="cases at a time")
    parser.add_argument("--only", metavar="NAME", nargs="+", help=f"these faults, or {CONTROL}")
    parser.add_argument("--base", choices=("seed", "competent"), default="seed")
    parser.add_argument("--meta-model", default="rules", metavar="MODEL", help="who proposes")
    parser.add_argument("--candidates", type=int, default=ALL_PROPOSALS, help="of one generation")
    parser.add_argument("--sandbox", choices=("auto", "docker", "process"), default="process")
    parser.add_argument("--reading", type=int, default=0, help="another number reads anew")
    parser.add_argument("--work", type=Path, metavar="DIR", help="keep the workspaces here")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write JSON here")
    return parser.parse_args()


def run(name: str, workspace: Path, args: argparse.Namespace) -> Case:
    """Measures one case with the steps of the loop, and judges its proposals."""
    planted = None if name == CONTROL else fault(name)
    files = sources("swe", args.base)
    files = planted.apply(files) if planted else files
    workspace.parent.mkdir(parents=True, exist_ok=True)
    init_workspace(
        workspace,
        domain="swe",
        harness=args.base,
        create_repo=lambda path: HarnessRepo.create(path, files, FIRST_COMMIT),
    )
    with workspace.with_suffix(".log").open("a") as log:
        case = _measure(name, planted, _config(workspace, args), args.reading, log)
    print(f"{name}: {case.found or 'no repair among'} {len(case.proposals)} proposals", flush=True)
    return case


def _config(workspace: Path, args: argparse.Namespace) -> RunConfig:
    return resolve(
        {
            "domain": "swe",
            "workspace": workspace,
            "harness": args.base,
            "train_steps": args.steps,
            "threads": args.threads,
            "candidates": args.candidates,
            "meta_model": args.meta_model,
            "jobs": 1,
            "sandbox": args.sandbox,
        }
    )


def _measure(
    name: str, planted: Fault | None, config: RunConfig, reading_number: int, log: Any
) -> Case:
    with open_run(config, open_display(log), purpose="recall") as run:
        collected = collect(run, first_version(run))
        reading = read(run, collected, reading_number, None)
        candidates = propose(run, collected, reading, reading_number)
        base, spent = collected.tree.files, run.ledger.spend(run.id).values()
        proposals = [
            Proposed(
                rank=candidate.index + 1,
                rule=candidate.hypothesis.rule,
                factor=candidate.factor,
                statement=candidate.hypothesis.statement,
                repairs=planted is not None
                and repaired(planted, base, run.repo.tree(candidate.commit).files),
            )
            for candidate in candidates
        ]
    seen = collected.evaluated
    vetoes = [finding.code for finding in reading.findings if finding.severity == "veto"]
    evidence = reading.evidence.metrics()
    prices = [one.usd for one in spent]
    usd = None if None in prices else sum(price for price in prices if price is not None)
    cost = usd, sum(one.tokens for one in spent)
    return Case(name, seen.clean / seen.planned, vetoes, proposals, evidence, *cost)


# --- what came of it ----------------------------------------------------------------------------


def summary(cases: Sequence[Case]) -> dict[str, Any]:
    """Rows by fault, recall by kind of fault, and what the control set off."""
    control = next((case for case in cases if case.name == CONTROL), None)
    rows = [_row(case, control) for case in cases if case is not control]
    return {
        "faults": rows,
        "recall": {
            kind: _recall([row for row in rows if row["ruled"] is ruled])
            for kind, ruled in (("ruled", True), ("unruled", False))
        },
        "control": [] if control is None else [asdict(one) for one in control.proposals],
    }


def _row(case: Case, control: Case | None) -> dict[str, Any]:
    planted, found = fault(case.name), case.found
    return {
        "fault": case.name,
        "factor": planted.factor,
        "ruled": planted.ruled,
        "clean_success": case.clean_success,
        "vetoes": case.vetoes,
        "usd": case.usd,
        "tokens": case.tokens,
        "rank": found.rank if found else None,
        "top3": found is not None and found.rank <= TOP,
        "rule": found.rule if found else None,
        "rank_in_control": control.rank_of(found.rule) if control and found else None,
        "first": [one.rule for one in case.proposals[:TOP]],
    }


def _recall(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    return {
        "faults": len(rows),
        "first": sum(row["rank"] == 1 for row in rows),
        "top3": sum(row["top3"] for row in rows),
        "found": sum(row["rank"] is not None for row in rows),
    }


def table(result: Mapping[str, Any]) -> str:
    """The summary for people."""
    head = ("fault", "factor", "rule?", "clean", "rank", "by", "rank without", "first three")
    lines = [head, *(_cells(row) for row in result["faults"])]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    text = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    for kind, recall in result["recall"].items():
        text.append("{kind}: {found} of {faults} repaired, {top3} in the top {top}, {first} first"
                    .format(kind=kind, top=TOP, **recall))  # fmt: skip
    text.append("proposed where nothing is planted: " + _listed(result["control"]))
    return "\n".join(text)


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        row["fault"],
        row["factor"],
        "yes" if row["ruled"] else "no",
        f"{row['clean_success']:.3f}",
        str(row["rank"] or "-"),
        row["rule"] or "-",
        str(row["rank_in_control"] or "-"),
        ", ".join(row["first"]),
    )


def _listed(proposals: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"{one['rank']} {one['rule']}" for one in proposals) or "nothing"


if __name__ == "__main__":
    main()
