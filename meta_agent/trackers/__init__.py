"""Who else hears of a run: experiment trackers (`--log`) and a URL (`--notify`).

A tracker is a name in the settings and a file here: one of its runs per training, a parent for the
search, metrics by the names that TRL gives them. Each listener has a thread and a queue of its own,
so a run never waits for one; the first error of a listener is a note, and it hears no more.

Does not cover: what a tracker does with its data. Its own variables say where that goes and with
which key; without them everything stays in the workspace, or where the tracker keeps local runs.
"""

from meta_agent.trackers._listening import listening, require_trackers
from meta_agent.trackers._tracker import Place, Tracker

__all__ = ["Place", "Tracker", "listening", "require_trackers"]
