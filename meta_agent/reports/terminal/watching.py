"""A run as it goes on, for `watch` (the whole screen) and `log --follow` (a line a fact).

Both read the ledger once a second and nothing else, so they may begin, end and be killed at any
time. They end with the run; of one that died without a word they say so and end, too.
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
from meta_agent.reports._format import visible
from meta_agent.reports._sentences import progress, sentences
from meta_agent.reports.state import RunState, reduce
from meta_agent.reports.terminal import text
from meta_agent.reports.terminal._tables import facts_table

LOOK_SEC: Final = 1.0
_NEWEST: Final = 8


def watch(ledger: Ledger, run: str | None, *, draw: bool) -> RunState:
    """Follows a run to its end, and returns how it ended."""
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
    seen: set[str] = set()
    for state in _states(ledger, run):
        for line in text.log(ledger.steps(state.run), ledger.events(state.run)):
            if line.plain not in seen:
                seen.add(line.plain)
                console.print(line)
        sys.stdout.flush()
    console.print(text.state_word(state))


def frame(state: RunState) -> RenderableType:
    """One screen: the sentences, how far it has come, the bundles, the newest candidates."""
    table = facts_table((one.about, one.words) for one in sentences(state))
    if told := progress(state):
        bar = ProgressBar(total=1.0, completed=state.share or 0.0, width=40)
        table.add_row("progress", Group(Text(visible(told)), bar))
    parts: list[RenderableType] = [table, Text()]
    if state.cells:
        parts += [text.cells(state), Text()]
    newest = list(state.candidates.values())[-_NEWEST:]
    parts += [text.candidates(newest), Text()] if newest else []
    return Group(*parts, text.standing(state))


def _states(ledger: Ledger, run: str | None) -> Iterator[RunState]:
    """The state now, and again every second while somebody is at work."""
    state = reduce(ledger, run)
    yield state
    while state.exit_reason is None and state.owner:
        time.sleep(LOOK_SEC)
        state = reduce(ledger, state.run)
        yield state
