"""Colours of verdicts on a terminal. Every verdict is also a word: colour adds, never carries."""

from __future__ import annotations

from typing import Final

_STYLES: Final = {
    "PROMOTE": "bold green",
    "REJECT": "yellow",
    "INVALID": "bold red",
    "INCONCLUSIVE": "cyan",
}


def verdict_style(kind: object) -> str:
    """A rich style; plain for what is no verdict yet."""
    return _STYLES.get(str(kind), "dim")
