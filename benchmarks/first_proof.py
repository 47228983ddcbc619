"""What a library of earlier runs saves: attempts until the first proof, with it and without.

Runs on the seeds `LEARNT_FROM` write a library for each domain, one after the other, with room to
try `EARLIER["candidates"]` ideas together and without each. Then pairs of runs on fresh seeds with
room for one idea, equal but for their library (`skill_trials`): with the domain's own, and with
that of the other domain (transfer). A claim is provable at this size where the idea is the right
one, so all depends on which comes first.
Repeating the command goes on with the runs that are missing.

    python benchmarks/first_proof.py --out DIR

Does not cover: faults that act through training, which two steps hide; larger bundles, in which
the order of ideas counts for less; language models, which read skills.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from meta_agent.config import RunConfig
from meta_agent.evolve import evolve
from meta_agent.protocols import JSON
from meta_agent.skills import Skill, SkillLibrary
from meta_agent.studies.conditions import carry_out
from meta_agent.studies.conditions_results import report, results_of
from meta_agent.studies.skill_trials import SIDES, WITH, WITHOUT, declare_trial, first_proof
from meta_agent.view.pages.compare import beside

LEARNT_FROM: Final = range(1, 5)
FIRST: Final = 11  # seed of the pairs
PAIRS, ACROSS = 10, 3
DESIGN: Final = RunConfig(
    generations=1, candidates=1, train_steps=2, budget=9400, jobs=1, sandbox="process", seed=FIRST
)
EARLIER: Final = {"candidates": 4, "budget": 16_000}
DOMAINS: Final = ("swe", "math")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out.absolute()
    for told in compared(out):
        print(json.dumps(told), flush=True)
        (out / f"{told['learnt_on']}-on-{told['used_on']}.json").write_text(json.dumps(told))


def compared(out: Path) -> Iterator[dict[str, JSON]]:
    """The domain's own library first, then transfer both ways."""
    one, other = DOMAINS
    for learnt, used, pairs in ((one, one, PAIRS), (other, one, ACROSS), (one, other, ACROSS)):
        skills = library(out / "learnt", learnt)
        yield {"learnt_on": learnt, "used_on": used, **trial(out, learnt, used, skills, pairs)}


def library(folder: Path, domain: str) -> list[Skill]:
    """What earlier runs on this domain wrote."""
    place = folder / domain
    for seed in LEARNT_FROM:
        own = folder / f"{domain}-s{seed}"
        told = {"domain": domain, "seed": seed, "workspace": own, "skills": place, **EARLIER}
        evolve(DESIGN.model_copy(update=told), beside()(own.name))
    return SkillLibrary(place).all()


def trial(out: Path, learnt: str, used: str, skills: Sequence[Skill], pairs: int) -> dict[str, Any]:
    config = DESIGN.model_copy(update={"domain": used})
    comparison = declare_trial(config, skills, pairs, out / f"{learnt}-on-{used}")
    stopped = carry_out(comparison, evolve, beside())
    results = results_of(comparison)
    versus = report(comparison, results)["arms"][WITH].get("versus", {}).get(WITHOUT, {})
    clean = {side: [r.clean_success for r in results if r.arm == side] for side in SIDES}
    return {
        "library": [skill.name for skill in skills],
        "first_proof": first_proof(comparison, results),
        "clean": clean,
        "clean_difference": versus.get("difference"),
        "stopped": {name: str(error) for name, error in stopped.items()},
    }


if __name__ == "__main__":
    main()
