"""`meta-agent demo`: shows a recorded run to new users."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from meta_agent.cli._options import JsonOption
from meta_agent.cli._output import emit, stdout_for_data


def demo(
    seconds: Annotated[
        float, typer.Option("--seconds", min=0, max=3600, help="Length of the playback.")
    ] = 40.0,
    recording: Annotated[
        str, typer.Option("--recording", help="Which run: nano-swe or smollm2.")
    ] = "nano-swe",
    as_json: JsonOption = False,
) -> None:
    """Play a recorded run on the real screens, without a model, a key or training."""
    from meta_agent.core.ledger import Ledger
    from meta_agent.reports import open_display, run_sections
    from meta_agent.reports.terminal.paint import painted
    from meta_agent.studies.demo import play, recording_folder, unpacked

    with stdout_for_data():
        place = unpacked(Path(recording_folder(recording)), recording)
        display = open_display()
        try:
            with Ledger.open(place.ledger_file, owner_lock=False) as ledger:
                state = play(ledger, display, seconds)
        finally:
            display.close()
    emit(as_json, state.to_json, lambda: painted(run_sections.summary(state)))
