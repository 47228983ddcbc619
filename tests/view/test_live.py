"""The block of a run on a terminal: what it says at each width, and that the result stays alone."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from meta_agent.core.display import Standing
from meta_agent.core.protocols import Verdict, VerdictKind
from meta_agent.reports.terminal._lines import LineDisplay
from meta_agent.reports.terminal.display import open_display
from meta_agent.reports.terminal.live import EVENTS, LiveDisplay

STANDING = Standing(0.55, "generation 2 of 3, 55 % of 960 attempts", "9 ideas, 4 judged.", "$1.20")


def shown(console: Console, display: LiveDisplay) -> list[str]:
    with console.capture() as captured:
        console.print(display._block())
    return captured.get().splitlines()


@pytest.mark.parametrize("width", [80, 120])
def test_the_block_says_where_the_run_stands(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    display = LiveDisplay(console)
    display.stand(STANDING)
    display.phase("train", f"leg 2 ({STANDING.progress})")
    display.metric("g0/c0", 3, {"reward_mean": 0.5, "grad_norm": 1.0})
    reasons = ("no gain " * 40,)
    display.verdict("g0/c1", "reward", Verdict(VerdictKind.REJECT, reasons, evidence={}))
    rows = shown(console, display)
    assert rows[0].split() == ["train", "leg", "2"]
    assert "55 % of 960 attempts" in rows[1] and rows[1].startswith("━")
    assert "step 3" in rows[2] and "reward_mean 0.5" in rows[2] and "grad_norm" not in rows[2]
    assert rows[3:5] == [STANDING.so_far, STANDING.spent]
    assert "g0/c1 (reward) REJECT" in rows[5] and len(rows) == 6
    assert max(map(len, rows)) <= width


def test_the_last_events_are_kept_and_control_characters_are_not() -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    display = LiveDisplay(console)
    for number in range(EVENTS + 2):
        display.note(f"event {number} \x1b[2J")
    rows = shown(console, display)[1:]
    assert [row.split()[2] for row in rows] == [str(number) for number in range(2, EVENTS + 2)]
    assert "\x1b" not in "".join(rows)


def test_when_the_run_ends_the_block_is_gone() -> None:
    screen = io.StringIO()
    display = LiveDisplay(Console(file=screen, width=80, force_terminal=True))
    display.begin(["evolving math"])
    display.phase("train", "leg 2")
    display.close()
    display.close()
    ended = screen.getvalue()
    assert ended.startswith("evolving math")
    assert ended.rstrip().endswith(("\x1b[2K", "\x1b[?25h")), "the lines of the block are erased"


def test_lines_are_written_where_output_is_no_terminal() -> None:
    assert isinstance(open_display(live=True), LineDisplay)
    assert isinstance(open_display(io.StringIO(), live=True), LineDisplay)
