"""`meta-agent demo`: a recorded run played back on the screens of a live one; nothing is trained.

The recording is a workspace whose ledger, history and skills are whole, made by
`benchmarks/record_demo.py`; every other reader works on it too. Does not cover: its rollouts and
checkpoints, which are left out for their size, so nothing in it can be computed again.
"""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from meta_agent.core.errors import ConfigError
from meta_agent.core.gate import verdict_from_json
from meta_agent.core.ledger import Ledger
from meta_agent.core.resources import resource_dir
from meta_agent.core.workspace import Workspace, claim_workspace, is_workspace, open_workspace
from meta_agent.reports import Display, RunState, duration, reduce, within_run

FOLDER: Final = "meta-agent-demo"
_RECORDING: Final = "workspace.tar.zst"
_NAMES: Final = ("series", "step")  # in a metric's event, beside its numbers


class _Moment(NamedTuple):
    at: float
    kind: str
    payload: Any


def unpacked(root: Path) -> Workspace:
    """The recorded workspace in a folder of its own; one that is there is taken as it is."""
    if not is_workspace(root):
        claim_workspace(root, _unpack)
    place = open_workspace(root)
    if not place.ledger_file.is_file():
        raise ConfigError(f"{root} holds no recorded run", hint=f"rm -r {root}, then run it again")
    return place


def play(
    ledger: Ledger, display: Display, seconds: float, wait: Callable[[float], None] = time.sleep
) -> RunState:
    """Tells a finished run again, its pauses shortened to so many seconds in all."""
    state = reduce(ledger)
    moments = sorted(_moments(ledger, state.run), key=lambda event: event.at)
    display.begin(_headline(state, seconds))
    pace = seconds / max(state.wall_sec, 1.0)
    before = state.started_at
    for moment in moments:
        if pause := max(0.0, moment.at - before) * pace:
            wait(pause)
        before = moment.at
        _tell(display, state, moment)
    end = f"{state.exit_reason} after {duration(state.wall_sec)}"
    display.phase("done", f"run {state.run}: {end}")
    return state


def _unpack(root: Path) -> None:
    import zstandard

    packed = (resource_dir("examples/recorded-run") / _RECORDING).read_bytes()
    with tarfile.open(fileobj=io.BytesIO(zstandard.decompress(packed))) as archive:
        archive.extractall(root, filter="data")


def _headline(state: RunState, seconds: float) -> list[str]:
    day = time.strftime("%Y-%m-%d", time.gmtime(state.started_at))
    return [
        f"a recorded run of {day}, played back: {duration(state.wall_sec)} in {seconds:.0f} s; "
        "nothing is trained and nobody is asked",
        f"domain {state.domain}, policy {state.config['policy']}, "
        f"meta-agent {state.config['meta_model']}",
    ]


def _moments(ledger: Ledger, run: str) -> Iterator[_Moment]:
    for event in ledger.events(run):
        yield _Moment(event.at, event.kind, event.fields)
    for step in ledger.steps(run, kind="verdict"):
        if step.finished_at is not None:
            yield _Moment(step.finished_at, step.kind, step.fields)


def _tell(display: Display, state: RunState, moment: _Moment) -> None:
    payload = moment.payload
    match moment.kind:
        case "phase":
            display.phase(payload["name"], payload["detail"])
        case "note":
            display.note(within_run(payload["text"], state.run))
        case "metrics":
            numbers = {name: value for name, value in payload.items() if name not in _NAMES}
            display.metric(payload["series"], payload["step"], numbers)
        case "verdict" if payload["candidate"] in state.candidates:
            candidate = state.candidates[payload["candidate"]]
            display.verdict(
                candidate.short_id,
                candidate.factor,
                verdict_from_json(payload),
                candidate.statement,
            )
