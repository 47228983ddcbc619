"""Backtests measure: statically, on stored rollouts, live, and again when asked to verify.

`static_check` reads a candidate's source, `replay` scores stored rollouts under its reward and
filter, `verify_commit` computes a recorded verdict again. The live apparatus is in
`meta_agent.backtest.live`; it is imported from there, for it brings the training child along.
"""

from meta_agent.backtest.replays._compare import ReplayReport
from meta_agent.backtest.replays.replay import replay
from meta_agent.backtest.static import changed_paths, static_check
from meta_agent.backtest.verify import (
    Difference,
    Regrade,
    VerdictSource,
    VerifyReport,
    regrade,
    verify_commit,
    verify_verdict,
)

__all__ = [
    "Difference",
    "Regrade",
    "ReplayReport",
    "VerdictSource",
    "VerifyReport",
    "changed_paths",
    "regrade",
    "replay",
    "static_check",
    "verify_commit",
    "verify_verdict",
]
