"""Every cheat: see `_cheat_row` for what a row is."""

from __future__ import annotations

from typing import Final

from _cheat_row import GRADERS, Cheat, Grader, read_cheats

CHEATS: Final[tuple[Cheat, ...]] = tuple(
    cheat
    for name in ("code", "answers", "calls", "patches", "beside")
    for cheat in read_cheats(name)
)


def pairs(*graders: Grader) -> list[tuple[Cheat, Grader]]:
    """Every cheat with every grader that it applies to, or with those named."""
    wanted = graders or GRADERS
    return [(cheat, grader) for cheat in CHEATS for grader in wanted if grader in cheat.forms]
