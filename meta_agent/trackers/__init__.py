"""Sends the progress of a run to experiment trackers (`--log`) and to a URL (`--notify`).

A tracker is a name in the settings and a file here. Each training becomes one run of the tracker,
under a parent run for the search. Metrics have the names that TRL gives them. Each listener has its
own thread and queue, so a run never waits for one. After its first error, which is shown as a note,
a listener receives nothing more.

Does not cover: what a tracker does with its data. Its own environment variables set where the data
go and with which key. Without them everything stays in the workspace, or in its local store.
"""

from meta_agent.trackers._listening import listening, require_trackers
from meta_agent.trackers._tracker import Place, Tracker

__all__ = ["Place", "Tracker", "listening", "require_trackers"]
