"""The ledger: the durable journal of a workspace, with steps, events, runs and money, in SQLite.

`Ledger.open(path)` opens it as the one owner. `Ledger.open(path, owner_lock=False)` reads it beside
a live run. Durable steps go through `Ledger.once`, so that the same command, run again, resumes.
"""

from meta_agent.core.ledger._crash import CRASH_VARIABLE, crash_point
from meta_agent.core.ledger._ledger import Ledger
from meta_agent.core.ledger._lock import live_owner
from meta_agent.core.ledger._retrace import RetracedLedger, UnrecordedError
from meta_agent.core.ledger._rows import DONE, WAIT, Event, RunRow, Spend, Step

__all__ = [
    "CRASH_VARIABLE",
    "DONE",
    "WAIT",
    "Event",
    "Ledger",
    "RetracedLedger",
    "RunRow",
    "Spend",
    "Step",
    "UnrecordedError",
    "crash_point",
    "live_owner",
]
