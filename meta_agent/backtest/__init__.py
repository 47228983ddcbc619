"""Backtests measure: statically, on stored rollouts, live, and again when asked to verify.

`static_check` reads a candidate's source, `replay` scores stored rollouts under its reward and
filter, `regrade` asks the grader again. The live apparatus is in `meta_agent.backtest.live`, and
the one that reads what is stored in `recorded`; they are imported from there, for they bring the
training child along.
"""

from meta_agent.backtest.replays._compare import ReplayReport
from meta_agent.backtest.replays.replay import replay
from meta_agent.backtest.static import changed_paths, static_check
from meta_agent.backtest.verify import VerifyReport, compared, regrade

__all__ = [
    "ReplayReport",
    "VerifyReport",
    "changed_paths",
    "compared",
    "regrade",
    "replay",
    "static_check",
]
