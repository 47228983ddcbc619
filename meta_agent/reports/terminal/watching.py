"""A run as it goes on, for `watch` (the whole screen) and `log --follow` (a line a fact).

Both read the ledger once a second and nothing else, so they may begin, end and be killed at any
time. They end with the run. If the run died without a word, they say so and end, too.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from meta_agent.core.errors import ConfigError
from meta_agent.core.ledger import Ledger
from meta_agent.reports._sentences import progress
from meta_agent.reports.run_sections import state_word, watched
from meta_agent.reports.state import RunState, reduce
from meta_agent.reports.terminal import text
from meta_agent.reports.terminal.paint import painted

LOOK_SEC: Final = 1.0
_NEWEST: Final = 8


def watch(ledger: Ledger, run: str | None, *, draw: bool) -> RunState:
    """Follows a run to its end, and returns its last state. Raises ConfigError in a pipe."""
    states = _states(ledger, run)
    if not draw:
        return list(states)[-1]
    console = Console(stderr=True)
    if not console.is_terminal:
        raise ConfigError(
            "watch fills a terminal, and this is none",
            hint="meta-agent log --follow, meta-agent status, or meta-agent watch --json",
        )
    state = next(states)
    with Live(frame(state), console=console, screen=True, auto_refresh=False) as live:
        for state in states:
            live.update(frame(state), refresh=True)
    return state


def follow(ledger: Ledger, run: str | None) -> None:
    """Prints what there is, then what comes, each line whole."""
    console = Console(highlight=False, soft_wrap=True)
    printed: set[str] = set()
    for state in _states(ledger, run):
        for line in text.log(ledger.steps(state.run), ledger.events(state.run)):
            if line.plain not in printed:
                printed.add(line.plain)
                console.print(line)
        sys.stdout.flush()
    console.print(Text(state_word(state)))


def frame(state: RunState) -> RenderableType:
    """One screen: the sentences, a bar of progress, the bundles, the newest candidates."""
    screen = painted(watched(state, _NEWEST))
    if not progress(state):
        return screen
    return Group(ProgressBar(total=1.0, completed=state.share or 0.0, width=40), screen)


def _states(ledger: Ledger, run: str | None) -> Iterator[RunState]:
    """Yields the state now, and again every second while a process works on the run."""
    state = reduce(ledger, run)
    yield state
    while state.exit_reason is None and state.owner:
        time.sleep(LOOK_SEC)
        state = reduce(ledger, state.run)
        yield state
