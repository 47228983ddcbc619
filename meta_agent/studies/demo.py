"""Plays a recorded run back on the screens of a live run, for `meta-agent demo`.

A recording is a workspace with its whole ledger, history and skills. `maintain/record_demo.py`
makes it, and every other command reads it. Checkpoints are left out for their size, and rollouts
too where a run has many.
"""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from meta_agent.core.display import Standing
from meta_agent.core.errors import ConfigError
from meta_agent.core.gate import verdict_from_json
from meta_agent.core.ledger import Ledger
from meta_agent.core.resources import resource_dir
from meta_agent.core.workspace import Workspace, claim_workspace, is_workspace, open_workspace
from meta_agent.reports import Display, RunState, duration, reduce, within_run

SUFFIX: Final = ".tar.zst"
DEFAULT: Final = "nano-swe"
_NAMES: Final = ("series", "step")  # in a metric's event, beside its numbers


class _Moment(NamedTuple):
    at: float
    kind: str
    payload: Any


def recording_folder(name: str) -> str:
    """Returns the folder name to which `meta-agent demo` unpacks the recorded run `name`."""
    return "meta-agent-demo" if name == DEFAULT else f"meta-agent-demo-{name}"


def unpacked(root: Path, name: str = DEFAULT) -> Workspace:
    """Returns the workspace of the recorded run `name`. Unpacks it to `root` if none is there.

    Raises ConfigError if there is no such recording, or if `root` holds other files.
    """
    if not is_workspace(root):
        packed = _recording(name)
        claim_workspace(root, lambda folder: _unpack(packed, folder))
    place = open_workspace(root)
    if not place.ledger_file.is_file():
        raise ConfigError(
            f"the folder {root} holds no recorded run",
            hint=f"rm -r {root}, then give the same command again",
        )
    return place


def play(
    ledger: Ledger, display: Display, seconds: float, wait: Callable[[float], None] = time.sleep
) -> RunState:
    """Plays a finished run back on a display within `seconds`, and returns the run's state."""
    state = reduce(ledger)
    moments = sorted(_moments(ledger, state.run), key=lambda event: event.at)
    display.begin(_headline(state, seconds))
    pace = seconds / max(state.wall_sec, 1.0)
    before = state.started_at
    for number, moment in enumerate(moments):
        share = number / len(moments)
        display.stand(Standing(share, f"{share:.0%} of a recorded run"))
        if pause := max(0.0, moment.at - before) * pace:
            wait(pause)
        before = moment.at
        _tell(display, state, moment)
    end = f"{state.exit_reason} after {duration(state.wall_sec)}"
    display.phase("done", f"run {state.run}: {end}")
    return state


def _recording(name: str) -> bytes:
    files = {
        path.name.removesuffix(SUFFIX): path
        for path in resource_dir("examples/recorded-run").glob(f"*{SUFFIX}")
    }
    if name not in files:
        raise ConfigError(
            f"there is no recording {name!r}", hint=f"take one of these: {', '.join(sorted(files))}"
        )
    return files[name].read_bytes()


def _unpack(packed: bytes, root: Path) -> None:
    import zstandard

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
