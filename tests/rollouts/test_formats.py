"""Each format, by the cases of its golden file; no value anywhere crashes a reader."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meta_agent.core.rollouts import RolloutStore
from meta_agent.domains.formats.files import Placed
from meta_agent.readers.formats import FORMATS, read_rollouts
from meta_agent.readers.formats._draft import AttemptDraft
from meta_agent.readers.formats._row import RowError, SourceRow

from ._foreign import GOLDEN, first, golden, outcome, place

CASES = [(name, case) for name in FORMATS for case in golden(name)]


@pytest.mark.parametrize(("name", "case"), CASES, ids=lambda part: part and str(part)[10:60])
def test_a_case_is_read_as_its_golden_line_says(
    name: str, case: dict[str, Any], tmp_path: Path
) -> None:
    told = {key: value for key, value in case.items() if key not in ("case", "files")}
    assert outcome(place(tmp_path, case["files"])) == told


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_read_can_be_stored_and_read_again(name: str, tmp_path: Path) -> None:
    found = list(read_rollouts(place(tmp_path / "files", golden(name)[0]["files"])))
    store = RolloutStore(tmp_path / "store")
    assert store.read(store.write("imported", found), tokens=True) == found


def test_every_golden_file_is_a_formats() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(FORMATS)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=6,
)
ROWS = {name: json.dumps(first(name)) for name in FORMATS}


@st.composite
def spoiled(draw: st.DrawFn) -> tuple[str, Any]:
    """A row of some format with any value put anywhere near its top."""
    name = draw(st.sampled_from(sorted(ROWS)))
    row = json.loads(ROWS[name])
    spot = row
    for _ in range(draw(st.integers(0, 3))):
        inner = [v for v in spot.values() if isinstance(v, dict) and v]
        inner += [x for v in spot.values() if isinstance(v, list) for x in v if isinstance(x, dict)]
        spot = draw(st.sampled_from(inner)) if inner else spot
        if not spot:
            break
    if spot:
        spot[draw(st.sampled_from(sorted(spot)))] = draw(json_values)
    return name, row


@settings(max_examples=200, deadline=None)
@given(spoiled())
def test_no_value_anywhere_crashes_a_reader(case: tuple[str, Any]) -> None:
    name, row = case
    for each in FORMATS.values():
        each.claims(row)
    reader = FORMATS[name]
    whole = Placed("here", row)
    for placed in reader.expand(whole) if reader.expand else (whole,):
        if isinstance(placed.value, dict):
            with suppress(RowError):
                draft = reader.read(SourceRow(placed.value), lambda _: None)
                assert not isinstance(draft, AttemptDraft) or draft.absent() is not None
