"""Finds characters in a text that no reader sees, by their properties in Unicode.

They are control, format, surrogate, private and unassigned characters, separators of lines, and
what may be left undrawn (Default_Ignorable_Code_Point: fillers, joiners, selectors).
"""

from __future__ import annotations

import re
import unicodedata

# The ignorable ones among letters and accents (the others are of category C), and a filler.
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0"
    "\U00016fe4\U000e0100-\U000e01ef]"
)


def unseen(char: str) -> bool:
    """Returns True for a character that is invisible, or that reorders the text around it."""
    kind = unicodedata.category(char)
    return kind[0] == "C" or kind in ("Zl", "Zp") or _IGNORABLE.match(char) is not None
