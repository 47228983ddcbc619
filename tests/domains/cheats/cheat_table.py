"""Every cheat: see `cheat_row` for what a row is."""

from __future__ import annotations

from typing import Final

from cheat_row import GRADERS, Cheat, Grader
from cheats_beside import IN_BESIDE
from cheats_in_answers import IN_ANSWERS
from cheats_in_calls import IN_CALLS
from cheats_in_code import IN_CODE
from cheats_in_patches import IN_PATCHES

CHEATS: Final[tuple[Cheat, ...]] = (*IN_CODE, *IN_PATCHES, *IN_BESIDE, *IN_ANSWERS, *IN_CALLS)


def pairs(*graders: Grader) -> list[tuple[Cheat, Grader]]:
    """Every cheat with every grader that it applies to, or with those named."""
    wanted = graders or GRADERS
    return [(cheat, grader) for cheat in CHEATS for grader in wanted if grader in cheat.forms]
