"""Do the rules repair faults that their author has not seen? `unseen_faults/` says who may look.

Each fault is planted in its suite's competent harness. The evidence is read twice, from the
untrained policy and after a training, and the rules agent is asked for its ideas on both, the
strongest first. Of the first six, those that touch the fault's factor are applied one after the
other and measured on the confirm split, until one brings back at least half of what the fault
costs. On the three clean harnesses, ideas above the threshold are counted: there should be none. A
repair that the clean harness is offered as well is *recited*: it says nothing of the fault.

Measurements are kept in `--book` by the content of the harness, so a second run after a change of
the rules measures only edits that are new. Evidence is kept as well: after a change of how it is
*read*, take a new book.

    python benchmarks/unseen.py [NAME ...] [--book FILE] [--steps 30] [--threshold X] [--costs]

Not covered: that a fault costs something on other seeds than training seed 0, and the candidates'
validity, which the loop checks before it trains them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults_lab import Bench, Files, tree_of
from unseen_faults import Unseen, unseen_faults

from meta_agent.core.errors import CandidateError, ConfigError
from meta_agent.core.evidence import Evidence
from meta_agent.domains import load_domain
from meta_agent.domains.nano.sources import sources
from meta_agent.policies.training import PolicyChild
from meta_agent.proposers import WORTH_TRYING, Proposal, propose

TASKS = 512
FIRST, SOONEST = 6, 3  # ideas that a generation's bundle takes, and half of them
RESTORED = 0.5  # of the loss
Edits = frozenset[tuple[str, str]]


@dataclass
class Lab:
    """Measures with one policy child, and never the same thing twice."""

    child: PolicyChild
    book: Path
    steps: int

    def clean(self, suite: str, files: Files, steps: int) -> float:
        """Clean success on the confirm split, in per cent."""
        return float(self._kept(suite, files, steps, "clean"))

    def ideas(self, suite: str, files: Files) -> list[Proposal]:
        """What the rules agent proposes on either reading, the strongest first, each edit once."""
        tree, situation = tree_of(files), self._bench(suite, files).situation()
        found: dict[Edits, Proposal] = {}
        for read in self._kept(suite, files, self.steps, "evidence"):
            evidence = Evidence.from_json(read)
            for one in propose(evidence, tree, (), (), situation=situation):
                known = found.setdefault(_edits(one), one)
                if one.strength > known.strength:
                    found[_edits(one)] = one
        return sorted(found.values(), key=lambda one: -one.strength)

    def _bench(self, suite: str, files: Files) -> Bench:
        return Bench(self.child, files, tasks=TASKS, domain=load_domain(suite))

    def _kept(self, suite: str, files: Files, steps: int, what: str) -> Any:
        book = json.loads(self.book.read_text()) if self.book.exists() else {}
        key = f"{suite}/{tree_of(files).commit}/{steps}"
        if what not in book.get(key, {}):
            made = self._measured(suite, files, steps, what == "evidence")
            book.setdefault(key, {}).update(made)
            self.book.write_text(json.dumps(book))
        return book[key][what]

    def _measured(self, suite: str, files: Files, steps: int, evidence: bool) -> dict[str, Any]:
        bench, policy = self._bench(suite, files), f"nano:{suite}"
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "p"
            if not evidence:
                return {"clean": 100 * bench.clean(files, steps=steps, out=out, base_policy=policy)}
            read = bench.read(files, steps=steps, out=out, base_policy=policy)
        told = [read.untrained.to_json(), read.trained.to_json()]
        return {"clean": 100 * read.clean, "evidence": told}


def _edits(one: Proposal) -> Edits:
    return frozenset(one.edits.items())


@dataclass(frozen=True, slots=True)
class Repair:
    """The first idea that restores behaviour, and what was tried before it."""

    place: int | None
    restored: float  # the best share of the loss that any idea brought back
    recited: bool
    tried: tuple[str, ...]


def repair(lab: Lab, fault: Unseen, recited: set[str], threshold: float) -> Repair:
    """Applies the first ideas on the fault's factor until one restores half of the loss."""
    plain = sources(fault.suite, "competent")
    broken, steps = fault.apply(plain), lab.steps if fault.trained else 0
    # Ideas first: the training that they are read from measures the loss as well.
    ideas = [one for one in lab.ideas(fault.suite, broken) if one.strength >= threshold]
    low, high = (lab.clean(fault.suite, files, steps) for files in (broken, plain))
    best, tried = 0.0, []
    for place, idea in enumerate(ideas[:FIRST], 1):
        if fault.kind not in {idea.hypothesis.factor, *idea.hypothesis.factors}:
            continue
        try:
            now = lab.clean(fault.suite, _edited(broken, idea), steps)
        except (CandidateError, ConfigError) as error:
            tried.append(f"{place} {idea.subject}: {error}")
            continue
        best = max(best, (now - low) / (high - low))
        tried.append(f"{place} {idea.subject}: {now:.1f} %")
        if best >= RESTORED:
            return Repair(place, best, idea.subject in recited, tuple(tried))
    return Repair(None, best, False, tuple(tried))


def _edited(files: Files, idea: Proposal) -> dict[str, bytes]:
    return {**files, **{path: text.encode() for path, text in idea.edits.items()}}


# --- running -------------------------------------------------------------------------------------


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    known = [fault.name for fault in unseen_faults()]
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all faults")
    parser.add_argument("--book", type=Path, default=Path("unseen.json"), help="measurements")
    parser.add_argument("--steps", type=int, default=30, help="of a training; 10 is cheaper")
    parser.add_argument(
        "--threshold", type=float, default=WORTH_TRYING, metavar="X", help="of an idea's strength"
    )
    parser.add_argument("--costs", action="store_true", help="measure the losses and end")
    args = parser.parse_args()
    if unknown := sorted(set(args.names) - set(known)):
        parser.error(f"no fault {unknown[0]!r}; choose from: {', '.join(known)}")
    return args


def costs(lab: Lab, faults: Iterable[Unseen]) -> None:
    """Prints clean success without and with each fault, where its loss shows."""
    for fault in faults:
        plain, steps = sources(fault.suite, "competent"), lab.steps if fault.trained else 0
        low = lab.clean(fault.suite, fault.apply(plain), steps)
        high = lab.clean(fault.suite, plain, steps)
        cells = fault.suite, fault.name, fault.kind, f"{steps}", f"{high:.1f}", f"{low:.1f}"
        print(f"| {' | '.join(cells)} | {low - high:+.1f} |", flush=True)


def offered(lab: Lab, suites: Iterable[str], threshold: float) -> dict[str, set[str]]:
    """What the clean harnesses are offered, by suite: the subjects, all of them recited."""
    found: dict[str, set[str]] = {}
    for suite in suites:
        ideas = lab.ideas(suite, sources(suite, "competent"))
        above = [one for one in ideas if one.strength >= threshold]
        told = ", ".join(f"{one.subject} ({one.strength:.2g})" for one in above)
        print(f"{suite}, clean: {len(above)} ideas above {threshold:g}: {told}", flush=True)
        found[suite] = {one.subject for one in above}
    return found


def repairs(lab: Lab, faults: Sequence[Unseen], threshold: float) -> None:
    """Prints for each fault what the first ideas restored."""
    recited = offered(lab, dict.fromkeys(fault.suite for fault in faults), threshold)
    made = []
    print("| suite | fault | factor | repaired by idea | of the loss | tried |")
    print("|---|---|---|---|---|---|")
    for fault in faults:
        one = repair(lab, fault, recited[fault.suite], threshold)
        place = f"{one.place or '-'}{' (recited)' if one.recited else ''}"
        tried = "; ".join(one.tried) or "nothing on this factor"
        cells = fault.suite, fault.name, fault.kind, place, f"{one.restored:.0%}", tried
        print(f"| {' | '.join(cells)} |", flush=True)
        made.append(one)
    places = [one.place for one in made if one.place and not one.recited]
    soon = sum(place <= SOONEST for place in places)
    print(
        f"repaired within {FIRST} ideas: {len(places)} of {len(made)}, within {SOONEST}: {soon};"
        f" recited besides: {sum(one.recited for one in made)}"
    )


def main() -> None:
    args = arguments()
    known = {fault.name: fault for fault in unseen_faults()}
    faults = [known[name] for name in args.names or known]
    with PolicyChild(threads=1) as child:
        lab = Lab(child, args.book, args.steps)
        if args.costs:
            costs(lab, faults)
        else:
            repairs(lab, faults, args.threshold)


if __name__ == "__main__":
    main()
