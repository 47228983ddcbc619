"""Where a run's model replies came from a recording: which, of what kind, and how well it fits."""

from __future__ import annotations

from collections.abc import Iterator

from meta_agent.reports._format import visible
from meta_agent.reports.state import RunState


def replay_facts(state: RunState) -> Iterator[tuple[str, str]]:
    """Names and values for a reader; nothing for a run that asked its models itself."""
    if not state.replay:
        return
    yield "replayed from", visible(state.replay.get("recording", "?"))
    labels = state.replay.get("labels")
    for name, value in (labels if isinstance(labels, dict) else {}).items():
        yield visible(name), visible(value)
    drift = state.replay.get("drift")
    if isinstance(drift, int):
        word = "every request is the recorded one" if drift == 0 else _drifted(drift)
        yield "drift", word


def _drifted(count: int) -> str:
    which = "request differs" if count == 1 else "requests differ"
    return f"{count} {which} from the recorded one at the same place"
