"""What the live page shows, without HTTP.

The page is that of `report --html`, made anew whenever the ledger or its owner has changed.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from meta_agent.core.ledger import Ledger, live_owner
from meta_agent.core.ledger.waiting import Waits
from meta_agent.core.workspace import Workspace
from meta_agent.reports._format import duration
from meta_agent.reports.pages.html import Live, document, element, render_html
from meta_agent.reports.run_sections import state_word
from meta_agent.reports.state import RunState, reduce


class _Snapshot(NamedTuple):
    """A state, and the stamp of the ledger that it was read from."""

    stamp: str
    state: RunState | None


class Site:
    """The live HTML page of a workspace's run, made anew on changes. It is thread-safe."""

    def __init__(self, place: Workspace, run: str | None) -> None:
        self._place, self._run = place, run
        # Invariant: guards the snapshot; the first caller reads the ledger for all.
        self._lock = threading.Lock()
        self._snapshot = _Snapshot("", None)

    def stamp(self) -> str:
        """Returns a text that changes with the ledger, its process, and whether the run stalls."""
        ledger = self._place.ledger_file
        files = (ledger, ledger.with_name(ledger.name + "-wal"))
        sizes = []
        for file in files:
            with suppress(OSError):
                status = file.stat()
                sizes.append(f"{status.st_mtime_ns}.{status.st_size}")
        return ":".join((*sizes, live_owner(ledger) or "nobody", self._held_up()))

    def _held_up(self) -> str:
        """Returns a text that changes when the run ceases to make progress or moves again."""
        if (state := self._snapshot.state) is None:
            return ""
        state = replace(state, waits=Waits.read(self._place.root, state.run, state.owner))
        return f"{state.frozen_sec > 0} {state.stall.moved_at if state.stall else ''}"

    def page(self) -> str:
        state = self._now().state
        if state is None:
            return self._empty_page()
        dead = state.exit_reason is None and state.owner is None
        return render_html(state, Live(_word(state), dead))

    def _empty_page(self) -> str:
        heading = element("h1", "Nothing has run here yet", id="alive")
        command = element("code", f"meta-agent evolve --workspace {self._place.root}")
        words = element("p", "The page follows as soon as a run begins: ", command)
        main = element("main", element("header", heading, words))
        return document("nothing yet", main, live=Live())

    # --- inside ------------------------------------------------------------------------------

    def _now(self) -> _Snapshot:
        with self._lock:
            stamp = self.stamp()
            if stamp != self._snapshot.stamp:
                self._snapshot = _Snapshot(stamp, self._read())
            return self._snapshot

    def _read(self) -> RunState | None:
        if not self._place.ledger_file.is_file():
            return None
        with Ledger.open(self._place.ledger_file, owner_lock=False) as ledger:
            if not ledger.runs():
                return None
            return reduce(ledger, self._run)


def _word(state: RunState) -> str:
    """Returns how the run stands and, for an unfinished run, how old its last record is."""
    word = state_word(state)
    if state.exit_reason is None:
        word += f"; last sign of life {duration(max(0.0, time.time() - state.alive_at))} ago"
    return word
