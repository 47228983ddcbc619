"""What the engine says of every sandbox while a run goes on."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

LABEL = "ma.owner"


class Watch:
    """`docker inspect` and the environment of each process of every sandbox that is seen.

    Of one installation, by its home: other tests have sandboxes of their own beside it.
    """

    def __init__(self, home: Path) -> None:
        self._name = home / ".local/state/meta-agent/install-id"
        self.seen: dict[str, str] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(2):
            if not self._name.is_file():
                continue  # it has made no sandbox yet
            owner = f"label={LABEL}={self._name.read_text()}"
            for name in _docker("ps", "-q", "--filter", owner).split():
                if name not in self.seen:
                    inside = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\\0' '\\n'"
                    ran = _docker("exec", name, "sh", "-c", inside)
                    self.seen[name] = _docker("inspect", name) + ran


def _docker(*argv: str) -> str:
    """Its output; nothing where the sandbox has gone meanwhile."""
    return subprocess.run(
        ["docker", *argv], capture_output=True, text=True, timeout=60, check=False
    ).stdout
