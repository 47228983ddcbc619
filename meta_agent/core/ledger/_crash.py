"""Named places where a test may kill this process, to check that a run resumes.

`META_AGENT_CRASH_AT="name"` kills at the first passage of `crash_point("name")`, `"name:3"` at the
third. The signal is SIGKILL: no handler, no `finally`, no flush runs, exactly as in an OOM kill.
Without the variable a crash point costs one dictionary look-up.

Not covered: power loss. Whether a commit reaches the disk is up to SQLite and the disk.
"""

from __future__ import annotations

import os
import signal
import threading

CRASH_VARIABLE = "META_AGENT_CRASH_AT"

_passages: dict[str, int] = {}
_passages_lock = threading.Lock()  # guards the counter: training jobs pass crash points in threads


def crash_point(name: str) -> None:
    """Kills this process with SIGKILL if the variable META_AGENT_CRASH_AT names this point."""
    point = os.environ.get(CRASH_VARIABLE)
    if not point:
        return
    target, passage = _parse(point)
    if target == name and _count(name) == passage:
        os.kill(os.getpid(), signal.SIGKILL)


def _parse(point: str) -> tuple[str, int]:
    """Splits `name:3`. A name may itself hold colons (`after_work:merge`)."""
    head, _, tail = point.rpartition(":")
    return (head, int(tail)) if head and tail.isdigit() else (point, 1)


def _count(name: str) -> int:
    with _passages_lock:
        _passages[name] = _passages.get(name, 0) + 1
        return _passages[name]
