"""Every ceiling of a dialogue, in one place.

Money has its own caps in the ledger; these end a dialogue that goes nowhere before it costs much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from meta_agent.core.protocols import Role

CONTEXT_TOKENS: Final = 100_000
CHARS_PER_TOKEN: Final = 3.6
"""For estimates: code and JSON in current tokenizers lie between 3 and 4."""
COMPACT_TO: Final = 0.6
"""A compaction goes below this share of the ceiling, so that prompts keep a common prefix."""
KEEP_TURNS: Final = (6, 3, 1)
"""So many of the newest turns a compaction leaves as they are; fewer where it has to."""
SAME_CALLS: Final = 4
"""So many equal calls with equal results in a row are a loop."""
WINDOW_CALLS, WINDOW_DISTINCT = 16, 3
"""So many calls with so few different ones among them are a loop as well."""
IDLE_TURNS: Final = 3
"""Turns in a row without a tool call."""
FINISH_TRIES: Final = 3
"""Times that `finish` may be asked for while the work cannot be submitted."""
REVISIONS: Final = 1
"""Rounds that the reviewer may send the work back."""
RESULT_CHARS: Final = 16_000
PAGE_LINES: Final = 200
LINE_CHARS: Final = 1_000
SEARCH_HITS: Final = 60
EXPERIMENTS: Final = 8
"""Calls of experiments that a dialogue may make; their attempts are lent by the budget."""
TRIED_TASKS: Final = 32
SHELL_SEC: Final = 60.0
SHELL_BYTES: Final = 256 << 10
SHELL_CHARS: Final = 12_000
DIFF_CHARS: Final = 40_000
EDIT_CHARS: Final = 4_000


@dataclass(frozen=True, slots=True)
class DialogueLimits:
    """The limits of one conversation with a model: turns, and tokens of replies and prompts."""

    turns: int
    reply_tokens: int
    total_tokens: int
    """Of all its replies and prompts together."""
    context_tokens: int = CONTEXT_TOKENS
    """Estimated size of a prompt above which older tool results are left out."""


LIMITS: Final[Mapping[Role, DialogueLimits]] = {
    "analyst": DialogueLimits(turns=30, reply_tokens=12_000, total_tokens=2_000_000),
    "proposer": DialogueLimits(turns=40, reply_tokens=12_000, total_tokens=3_000_000),
    "reviewer": DialogueLimits(turns=6, reply_tokens=4_000, total_tokens=400_000),
    "librarian": DialogueLimits(turns=4, reply_tokens=4_000, total_tokens=200_000),
}
