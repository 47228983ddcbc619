"""A trial of skills: runs with them and runs without any, paired by seed at equal budget.

A trial is a comparison (`conditions`) of two sides, which differ only in their library of skills.
The library of `with` holds these skills alone, that of `without` holds none. Each run learns into
its own copy. Repeating the command resumes a trial.

`first_proof` counts the attempts that a run had made before its first proof. A run without a proof
counts with its whole budget, so means never exceed the budget.

Not covered: what a trial means for a skill (`skills.worth`). With `--meta-model rules`, only the
rule that a skill names has an effect, so a trial of skills that name none is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.core.gate.numbers.results import interval
from meta_agent.core.protocols import JSON
from meta_agent.core.skills import Skill
from meta_agent.skills import SkillLibrary
from meta_agent.skills.worth import Trial
from meta_agent.studies._figures import Result
from meta_agent.studies.conditions import Comparison, declare

WITH, WITHOUT = "with", "without"
SIDES: Final = (WITH, WITHOUT)


def declare_trial(
    config: RunConfig, skills: Sequence[Skill], seeds: int, folder: Path
) -> Comparison:
    """Returns a comparison of runs with `skills` and without any, for each of `seeds` seeds.

    Raises ConfigError if rules propose the edits and no skill names a rule.
    """
    if config.meta_model == "rules" and not any(skill.rule for skill in skills):
        reason = f"{skills[0].name} names none" if skills else "there is no skill"
        raise ConfigError(
            f"--meta-model rules follows the rule that a skill names, but {reason}",
            hint="use a language model, which can read any skill: --meta-model PROVIDER/MODEL",
        )
    libraries = {side: folder / "given" / side for side in SIDES}
    for place in libraries.values():
        place.mkdir(parents=True, exist_ok=True)
    for skill in skills:
        if not (libraries[WITH] / skill.path.name).exists():
            # Offered as if it held everywhere: whether it does is what is asked.
            SkillLibrary(libraries[WITH]).mark(skill, status="global", origin="")
    return declare(config, SIDES, seeds, folder, libraries)


def trial_of(
    skill: Skill, comparison: Comparison, results: Sequence[Result], document: JSON
) -> Trial:
    """Returns the result of a skill's trial. `document` is the report on the comparison.

    Raises ConfigError if no seed has an ended run on both sides.
    """
    versus = document["arms"][WITH].get("versus", {}).get(WITHOUT)
    if not versus:
        raise ConfigError(
            f"no seed has an ended run both with and without the skill {skill.name}",
            hint="give the same command again, which continues the runs",
        )
    difference = versus["difference"]
    proof = first_proof(comparison, results)
    return Trial(
        skill=skill.name,
        domain=comparison.config.domain,
        seeds=list(versus["seeds"]),
        budget=comparison.budget,
        difference=difference["value"],
        low=difference["low"],
        high=difference["high"],
        first_proof={side: proof[side] for side in SIDES},
    )


def first_proof(comparison: Comparison, results: Sequence[Result]) -> dict[str, JSON]:
    """Returns how many attempts each run, with and without the skill, had made at its first proof.

    A run without proof has None, and counts as the budget in `difference` (None for one seed).
    """
    of = {(attempts.arm, attempts.seed): attempts for attempts in results if not attempts.void}
    seeds = [seed for seed in comparison.seeds if all((side, seed) in of for side in SIDES)]
    after = {side: [of[side, seed].proven_after for seed in seeds] for side in SIDES}
    cost = {side: [attempts or comparison.budget for attempts in after[side]] for side in SIDES}
    gaps = [attempts - other for attempts, other in zip(cost[WITH], cost[WITHOUT], strict=True)]
    mean = interval(gaps, "mean").to_json() if len(gaps) > 1 else None
    return {"seeds": seeds, **after, "budget": comparison.budget, "difference": mean}
