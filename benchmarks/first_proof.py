"""What a library of earlier runs saves: attempts until the first proof, with it and without.

Runs on the seeds `LEARNT_FROM` write a library for each domain, one after the other. Then pairs of
runs on fresh seeds, equal but for their library (`skill_trials`): with the domain's own, and with
that of the other domain (transfer). `DESIGN` has room for one idea, so all depends on which comes
first, and is the least at which one can be proven. A run is a function of its seed and its ideas:
where both sides have the same idea, the run without the library is made, and counts for both.
Repeating the command goes on with what is missing; `--pairs` stops after fewer pairs.

    python benchmarks/first_proof.py --out DIR

Does not cover: faults that act through training, which two steps hide; larger bundles, in which
the order of ideas counts for less; language models, which read skills.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any, Final

from meta_agent.composition.evolve import evolve
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import Interrupted
from meta_agent.core.ledger import Ledger
from meta_agent.core.ledger.kinds import Candidate, Proposal
from meta_agent.core.protocols import JSON
from meta_agent.core.skills import Skill
from meta_agent.reports import Display, open_display
from meta_agent.reports.terminal.display import beside
from meta_agent.skills import SkillLibrary
from meta_agent.studies.conditions import Comparison, carry_out
from meta_agent.studies.conditions_results import report, results_of
from meta_agent.studies.skill_trials import SIDES, WITH, WITHOUT, declare_trial, first_proof

LEARNT_FROM: Final = range(1, 5)
FIRST: Final = 11  # seed of the pairs
PAIRS, ACROSS = 10, 3
DESIGN: Final = RunConfig(
    generations=1, candidates=1, train_steps=2, budget=9400, jobs=1, sandbox="process", seed=FIRST
)
DOMAINS: Final = ("swe", "math")
Idea = Mapping[str, str]
"""The rule behind it and its edit; empty where there is none yet."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=PAIRS, help="of each kind, at most")
    args = parser.parse_args()
    out = args.out.absolute()
    for told in compared(out, args.pairs):
        print(json.dumps(told), flush=True)
        (out / f"{told['learnt_on']}-on-{told['used_on']}.json").write_text(json.dumps(told))


def compared(out: Path, most: int) -> Iterator[dict[str, JSON]]:
    """The domain's own library first, then transfer both ways."""
    one, other = DOMAINS
    for learnt, used, pairs in ((one, one, PAIRS), (other, one, ACROSS), (one, other, ACROSS)):
        skills = library(out / "learnt", learnt)
        config = DESIGN.model_copy(update={"domain": used})
        comparison = declare_trial(config, skills, pairs, out / f"{learnt}-on-{used}")
        yield {"learnt_on": learnt, "used_on": used, **trial(comparison, skills, min(pairs, most))}


def library(folder: Path, domain: str) -> list[Skill]:
    """What earlier runs on this domain wrote."""
    place = folder / domain
    for seed in LEARNT_FROM:
        own = folder / f"{domain}-s{seed}"
        told = {"domain": domain, "seed": seed, "workspace": own, "skills": place}
        evolve(DESIGN.model_copy(update=told), beside()(own.name))
    return SkillLibrary(place).all()


def trial(comparison: Comparison, skills: Sequence[Skill], pairs: int) -> dict[str, Any]:
    """The pairs one by one, and what they came to."""
    ideas: dict[int, dict[str, Idea]] = {}
    stopped: dict[str, str] = {}
    for seed in comparison.seeds[:pairs]:
        ideas[seed] = {side: first_idea(comparison, side, seed) for side in SIDES}
        sides = (WITHOUT,) if alike(ideas[seed]) else SIDES
        pair = replace(comparison, seeds=(seed,), conditions=sides)
        stopped |= {name: str(error) for name, error in carry_out(pair, evolve, beside()).items()}
    found = results_of(comparison)
    known = {(one.arm, one.seed) for one in found}
    same = [replace(r, arm=WITH) for r in found if r.seed in ideas and alike(ideas[r.seed])]
    found += [one for one in same if (WITH, one.seed) not in known]
    versus = report(comparison, found)["arms"][WITH].get("versus", {}).get(WITHOUT, {})
    return {
        "library": [skill.name for skill in skills],
        "ideas": {
            seed: {side: told["rule"] for side, told in of.items()} for seed, of in ideas.items()
        },
        "first_proof": first_proof(comparison, found),
        "clean": {side: [one.clean_success for one in found if one.arm == side] for side in SIDES},
        "clean_difference": versus.get("difference"),
        "stopped": stopped,
    }


def alike(ideas: Mapping[str, Idea]) -> bool:
    """Whether both sides do the same."""
    return len({told["diff"] for told in ideas.values()}) == 1


def first_idea(comparison: Comparison, side: str, seed: int) -> Idea:
    """What a run tries first: it is begun, and goes on from there where it has to."""
    one = replace(comparison, seeds=(seed,), conditions=(side,))
    (run,) = one.runs()

    def until_then(config: RunConfig, display: Display, stop: Event) -> object:
        if not proposed(config.workspace):
            return evolve(config, Watching(display, stop), stop)
        return None

    with suppress(Interrupted):
        carry_out(one, until_then, lambda _: open_display())
    return proposed(run.config.workspace)


def proposed(workspace: Path) -> Idea:
    """The rule and the edit of a run's first candidate; empty before there is one."""
    file = workspace / "ledger.sqlite"
    if not file.is_file():
        return {}
    with Ledger.open(file, owner_lock=False) as ledger:
        asked = ledger.outcomes("proposal", Proposal)
        made = ledger.outcomes("candidate", Candidate)
    if not made:
        return {"rule": "", "diff": ""} if asked and not asked[0]["candidates"] else {}
    return {"rule": str(made[0]["hypothesis"]["rule"]), "diff": made[0].get("diff", "")}


class Watching:
    """A display that stops a run once it tells what its first idea is."""

    def __init__(self, inner: Display, stop: Event) -> None:
        self._inner, self._stop = inner, stop

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def note(self, text: str) -> None:
        self._inner.note(text)
        if text.partition(": ")[0].endswith("g0/c0") or text.startswith("nothing to try"):
            self._stop.set()


if __name__ == "__main__":
    main()
