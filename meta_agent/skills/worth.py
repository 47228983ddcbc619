"""Measures what skills are worth: trials with and without them, and the status that follows.

A trial is runs with a skill and runs without any, paired by seed at equal budget. It is a line in
the library's `trials.jsonl`, and the skill's metadata sums its trials up.

| standing | how |
|---|---|
| quarantine | taken from elsewhere, written by a language model, or tried here and doing harm |
| general | ships with meta-agent as advice for every domain; trials have not proven it in two |
| domain | in one domain the interval of the difference is above 0 |
| global | in two domains at least, and harm in none |
| retired | in quarantine, and every domain it was tried in was harmed: out of the library's sight |

Promises: fewer than `ENOUGH` pairs move nothing, nor does an interval that holds 0. All trials in
a domain count together, weighed by their precision, so that trying again adds to what was seen and
takes its place only where it had the very same seeds.

Does not cover: that the sum is looked at after every trial, which makes luck likelier than 1 in 40.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Final, Literal

from meta_agent.core.errors import IntegrityError
from meta_agent.core.skills import Skill, Status
from meta_agent.skills._library import SkillLibrary

FILE: Final = "trials.jsonl"
ENOUGH: Final = 3
_FINEST: Final = 0.005  # half an interval: no few runs know it better
Standing = Status | Literal["retired"]


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial of a skill: its effect on clean success on the vault split, over paired runs.

    `difference` is the clean success with the skill minus that without it, as a share.
    """

    skill: str
    domain: str
    seeds: Sequence[int]
    budget: int
    difference: float
    low: float
    high: float
    first_proof: Mapping[str, Sequence[int | None]]
    """Attempts that each run had made at its first proof, by side; None: nothing was proven."""

    @property
    def pairs(self) -> int:
        return len(self.seeds)

    @property
    def words(self) -> str:
        ends = (100 * self.difference, 100 * self.low, 100 * self.high)
        points = "{:+.1f} points [{:+.1f}, {:+.1f}]".format(*ends)
        return f"{points} over {self.pairs} pairs of {self.budget} attempts on {self.domain}"


def record(library: SkillLibrary, trial: Trial) -> Standing:
    """Stores a trial, updates or retires its skill, and returns the new status."""
    skill = library.skill(trial.skill)
    with (library.path / FILE).open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(asdict(trial), sort_keys=True) + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    mine = together(trials(library.path), skill.name)
    after = standing(skill, mine)
    words = "; ".join(entry.words for entry in mine.values())
    library.mark(skill, status="quarantine" if after == "retired" else after, worth=words)
    if after == "retired":
        library.retire(skill.name)
    return after


def standing(skill: Skill, mine: Mapping[str, Trial]) -> Standing:
    """Returns a skill's status after its trials; `mine` holds one combined trial per domain."""
    conclusive = [
        trial for trial in mine.values() if trial.pairs >= ENOUGH and math.isfinite(trial.low)
    ]
    good, bad = (
        sum(trial.low > 0 for trial in conclusive),
        sum(trial.high < 0 for trial in conclusive),
    )
    if bad:
        return (
            "retired" if skill.status == "quarantine" and bad == len(conclusive) else "quarantine"
        )
    if not good:
        return skill.status
    if good > 1:
        return "global"
    return skill.status if skill.status in ("general", "global") else "domain"


def together(trials: Sequence[Trial], name: str) -> dict[str, Trial]:
    """Returns all trials of the skill `name` combined into one for each domain.

    Of trials with a seed in common, only the last one counts.
    """
    by_domain: dict[str, list[Trial]] = {}
    for latest in (trial for trial in trials if trial.skill == name):
        before = by_domain.get(latest.domain, [])
        by_domain[latest.domain] = [x for x in before if not {*x.seeds} & {*latest.seeds}] + [
            latest
        ]
    return {domain: reduce(_both, several) for domain, several in by_domain.items()}


def _both(first: Trial, second: Trial) -> Trial:
    """Returns two trials combined, weighted by their precision as normal distributions."""
    halves = [max((x.high - x.low) / 2, _FINEST) for x in (first, second)]
    weights = [half**-2 for half in halves]
    mean = sum(w * x.difference for w, x in zip(weights, (first, second), strict=True)) / sum(
        weights
    )
    half = sum(weights) ** -0.5
    proofs = {
        side: [*first.first_proof.get(side, ()), *second.first_proof.get(side, ())]
        for side in {**first.first_proof, **second.first_proof}
    }
    seeds = [*first.seeds, *second.seeds]
    return Trial(
        first.skill, first.domain, seeds, second.budget, mean, mean - half, mean + half, proofs
    )


def trials(library: Path) -> list[Trial]:
    """Returns all trials recorded in a library's folder, oldest first, or raises IntegrityError."""
    path = library / FILE
    lines = path.read_text("utf-8").splitlines() if path.is_file() else []
    return [_trial(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]


def _trial(path: Path, number: int, line: str) -> Trial:
    try:
        fields: dict[str, Any] = json.loads(line)
        return Trial(**fields)
    except (ValueError, TypeError) as error:
        raise IntegrityError(
            f"line {number} of {path} is not a trial: {error}", hint="correct or remove that line"
        ) from error
