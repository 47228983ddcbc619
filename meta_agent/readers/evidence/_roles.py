"""Maps a tool's name to the role of the tool, so that one analysis serves every domain.

Whole words of the name decide (`run_tests` holds `tests`). A tool without a known word has no role.
A shell has none either, because it can do anything. Tools without a role count only in the tool
mix.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, Literal

from meta_agent.core.protocols import ToolEvent

ToolRole = Literal["test", "edit", "view", "submit", "history"]

ROLE_WORDS: Final[dict[ToolRole, frozenset[str]]] = {
    "history": frozenset({"log", "history", "blame", "git"}),
    "submit": frozenset({"submit", "finish", "answer", "final", "done"}),
    "test": frozenset({"test", "tests", "pytest", "check", "verify", "run", "python", "execute"}),
    "edit": frozenset({"edit", "write", "patch", "replace", "insert", "apply", "create"}),
    "view": frozenset({"view", "read", "open", "search", "find", "grep", "list", "ls", "cat"}),
}
_ANYTHING: Final = frozenset({"bash", "shell", "sh", "terminal", "command", "ipython", "jupyter"})

_PASSED: Final = re.compile(r"\b(ok|pass|passed|passes|success)\b|\[exit 0\]\s*\Z", re.IGNORECASE)
_FAILED: Final = re.compile(
    r"\b[1-9]\d* (failed|failures?|errors?)\b|\bFAILED\b|\bTraceback\b|\bnot ok\b"
    r"|\[exit -?[1-9]\d*\]\s*\Z|\A\d+t (?:lo|hi)\b"
)


@cache
def role_of(tool: str) -> ToolRole | None:
    """Returns a tool's role (edit, test ...) by the words of its name, or None if none is known."""
    words = set(re.findall(r"[a-z]+", tool.lower()))
    if words & _ANYTHING:
        return None
    return next((role for role, role_words in ROLE_WORDS.items() if words & role_words), None)


def passed_tests(event: ToolEvent) -> bool | None:
    """Returns True if a test run passed, False if it failed, None if its output tells neither."""
    if not event.ok or _FAILED.search(event.result):
        return False
    return True if _PASSED.search(event.result) else None
