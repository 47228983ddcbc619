"""Starts model servers, and is the only file that does. Their output goes to a log file.

Promises: the server gets an allowlisted environment (no provider key can leak into it) and its own
process group. It ends with this process, however this process ends (`_server_guard`).
Not covered: what is started (`vllm_server`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from meta_agent.core.processes import PIPE, TimeoutExpired, run, start

_FAMILIES: Final = ("VLLM_", "NCCL_", "TORCH_")
_GUARD: Final = Path(__file__).with_name("_server_guard.py")
_LAST_WORDS_BYTES: Final = 2000


class ServerProcess:
    """A running model server and its log; a guard process ends it when this process dies."""

    def __init__(self, argv: Sequence[str], extra: Mapping[str, str], log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        with log.open("wb") as out:
            self._guard = start(
                [sys.executable, "-I", str(_GUARD), *argv],
                variables=extra,
                also=_FAMILIES,
                stdin=PIPE,
                stdout=out,
                stderr=out,
                process_group=0,
                bufsize=0,
            )

    @property
    def pid(self) -> int:
        """Returns the id of the guard process, which ends the server if this process dies."""
        return self._guard.pid

    @property
    def exit_code(self) -> int | None:
        """Returns the server's exit code, or None while it runs."""
        return self._guard.poll()

    def last_words(self) -> str:
        """Returns the last 2000 bytes of the server's log as text."""
        with self._log.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(0, size - _LAST_WORDS_BYTES))
            return log.read().decode(errors="replace").strip()

    def close(self, grace_sec: float = 30.0) -> None:
        """Ends the server and waits for it; a second call does nothing."""
        if self._guard.stdin and not self._guard.stdin.closed:
            self._guard.stdin.close()
        try:
            self._guard.wait(grace_sec)
        except TimeoutExpired:
            self._guard.kill()
            self._guard.wait()


def runs(argv: Sequence[str], timeout_sec: float = 60.0) -> bool:
    """Runs a command; returns True if it ends with exit code 0 within `timeout_sec`."""
    try:
        return run(argv, also=_FAMILIES, timeout_sec=timeout_sec).returncode == 0
    except (OSError, TimeoutExpired):
        return False
