"""A skill's trial: runs with it and runs without any, paired by seed at equal budget.

It is a comparison like that of ways to search (`conditions`), which differ in their library and in
nothing else: `with` has the skill alone, `without` has none. What a run learns goes into its own
copy. Repeating a trial goes on where it ended.

Not covered: what follows for the skill (`skills.worth`); that the words of a skill do nothing for
the rules agent, which goes by the rule that a skill names: such a trial is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from meta_agent.config import RunConfig
from meta_agent.errors import ConfigError
from meta_agent.protocols import JSON
from meta_agent.skills import Skill, SkillLibrary
from meta_agent.skills.worth import Trial
from meta_agent.studies._figures import Result
from meta_agent.studies.conditions import Comparison, declare

WITH, WITHOUT = "with", "without"
SIDES: Final = (WITH, WITHOUT)


def declare_trial(config: RunConfig, skill: Skill, seeds: int, folder: Path) -> Comparison:
    """The runs of a trial. Raises ConfigError where they could tell nothing."""
    if config.meta_model == "rules" and not skill.rule:
        raise ConfigError(
            f"the rules agent goes by the rule that a skill names, and {skill.name} names none",
            hint="--meta-model PROVIDER/MODEL: language models read it",
        )
    given = {side: folder / "given" / side for side in SIDES}
    for place in given.values():
        place.mkdir(parents=True, exist_ok=True)
    if not (given[WITH] / skill.path.name).exists():
        # Offered as if it held everywhere: whether it does is what is asked.
        SkillLibrary(given[WITH]).mark(skill, status="global", origin="")
    return declare(config, SIDES, seeds, folder, given)


def trial_of(skill: Skill, comparison: Comparison, results: Sequence[Result], told: JSON) -> Trial:
    """What the runs came to. Raises ConfigError where no pair is whole."""
    versus = told["arms"][WITH].get("versus", {}).get(WITHOUT)
    if not versus:
        raise ConfigError(
            f"no pair of runs of {skill.name} has ended", hint="give the same command again"
        )
    seen = versus["difference"]
    ended = {side: [one for one in results if one.arm == side] for side in SIDES}
    return Trial(
        skill=skill.name,
        domain=comparison.config.domain,
        seeds=list(versus["seeds"]),
        budget=comparison.budget,
        difference=seen["value"],
        low=seen["low"],
        high=seen["high"],
        first_proof={
            side: [one.spent if one.standing == "proven" else None for one in runs]
            for side, runs in ended.items()
        },
    )
