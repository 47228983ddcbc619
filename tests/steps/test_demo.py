"""A recorded run on the real screens: everything it told, in order, in the time that is given."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.display import Standing
from meta_agent.core.errors import ConfigError
from meta_agent.core.ledger import Ledger
from meta_agent.core.protocols import Verdict
from meta_agent.reports import reduce
from meta_agent.studies.demo import play, unpacked


class Told:
    """A display that keeps what it heard."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def begin(self, headline: Sequence[str]) -> None:
        self.heard.append(("begin", headline[0]))

    def stand(self, standing: Standing) -> None: ...

    def phase(self, name: str, detail: str = "", **progress: int | None) -> None:
        self.heard.append(("phase", name))

    def note(self, text: str) -> None:
        self.heard.append(("note", text))

    def metric(self, series: str, step: int, values: Mapping[str, float]) -> None:
        assert "step" not in values and "series" not in values
        self.heard.append(("metric", series))

    def verdict(self, candidate: str, factor: str, verdict: Verdict, statement: str = "") -> None:
        assert factor and statement
        self.heard.append(("verdict", f"{candidate} {verdict.kind}"))

    def ask(self, *_: Any) -> None:
        raise AssertionError("nobody is asked in a recording")

    def close(self) -> None: ...


def test_the_recording_tells_a_whole_run_in_the_time_that_is_given(tmp_path: Path) -> None:
    place = unpacked(tmp_path / "demo")
    told, waits = Told(), list[float]()
    with Ledger.open(place.ledger_file, owner_lock=False) as ledger:
        state = play(ledger, told, 40.0, waits.append)
        assert ledger.broken() is None, "the journal is what its chain says"
        assert reduce(ledger).to_json() == state.to_json()
    kinds = [kind for kind, _ in told.heard]
    assert kinds[0] == "begin" and "recorded" in told.heard[0][1]
    assert told.heard[-1] == ("phase", "done")
    phases = [name for kind, name in told.heard if kind == "phase"]
    assert phases.index("propose") < phases.index("claim") < phases.index("merge")
    assert kinds.count("verdict") == len(state.candidates) > 0
    assert sum(waits) == pytest.approx(40.0, rel=0.2)
    assert state.exit_reason == "done" and state.final is not None


def test_a_folder_of_somebody_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match=re.escape(str(tmp_path))):
        unpacked(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_another_workspace_is_no_demo(tmp_path: Path) -> None:
    place = unpacked(tmp_path / "demo")
    assert unpacked(place.root).root == place.root, "a second time plays what is there"
    place.ledger_file.unlink()
    with pytest.raises(ConfigError, match="demo"):
        unpacked(place.root)


def test_a_recording_that_there_is_not_lists_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'llama'") as refused:
        unpacked(tmp_path / "demo", "llama")
    assert "nano-swe" in refused.value.hint and "smollm2" in refused.value.hint
    assert not (tmp_path / "demo").exists()
