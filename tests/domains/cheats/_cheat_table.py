"""Every cheat: see `_cheat_row` for what a row is."""

from __future__ import annotations

from typing import Final

from _cheat_row import GRADERS, Cheat, Grader, read_cheats
from _cheats_beside import IN_BESIDE
from _cheats_in_patches import IN_PATCHES

CHEATS: Final[tuple[Cheat, ...]] = (
    *(cheat for name in ("code", "answers", "calls") for cheat in read_cheats(name)),
    *IN_PATCHES,
    *IN_BESIDE,
)


def pairs(*graders: Grader) -> list[tuple[Cheat, Grader]]:
    """Every cheat with every grader that it applies to, or with those named."""
    wanted = graders or GRADERS
    return [(cheat, grader) for cheat in CHEATS for grader in wanted if grader in cheat.forms]
