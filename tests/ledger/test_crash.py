"""SIGKILL at every named point, torn tails and full disks: nothing recorded is lost."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_agent.core.errors import InfrastructureError, IntegrityError
from meta_agent.core.ledger import CRASH_VARIABLE, Ledger, crash_point
from tests.ledger._child import main

CHILD = Path(__file__).with_name("_child.py")
POINTS = [
    f"{place}:{kind}"
    for place in ("before_work", "after_work", "after_outcome")
    for kind in ("first", "outer", "inner")
]

IN_ORDER = [
    *(f"{place}:first" for place in ("before_work", "after_work", "after_outcome")),
    "before_work:outer",
    *(f"{place}:inner" for place in ("before_work", "after_work", "after_outcome")),
    *(f"{place}:outer" for place in ("after_work", "after_outcome")),
]
"""As a run passes them: each run that goes on gets as far as the next one."""


def run_child(ledger: Path, effects: Path, crash_at: str) -> int:
    environment = {**os.environ, CRASH_VARIABLE: crash_at}
    return subprocess.run(
        [sys.executable, str(CHILD), str(ledger), str(effects)],
        env=environment,
        capture_output=True,
        timeout=60,
        check=False,
    ).returncode


@pytest.mark.parametrize("point", POINTS)
def test_killed_run_finishes_with_the_same_outcomes(tmp_path: Path, point: str) -> None:
    ledger, effects = tmp_path / "ledger.sqlite", tmp_path / "effects"
    assert run_child(ledger, effects, point) == -signal.SIGKILL
    done_before = _done(ledger)
    main(str(ledger), str(effects))
    assert _done(ledger) == {"r1/first": "one", "r1/inner": [1, 2], "r1/outer": {"inner": [1, 2]}}
    assert done_before.items() <= _done(ledger).items()
    ran = effects.read_text().split()
    again = {name for name in ran if ran.count(name) > 1}
    # Only the step whose work ended but was not yet recorded may have run twice.
    assert again == ({point.split(":")[1]} if point.startswith("after_work") else set())


def _done(path: Path) -> dict[str, object]:
    with Ledger.open(path, owner_lock=False) as ledger:
        return {step.key: step.outcome for step in ledger.steps() if step.is_done}


def test_recovery_may_itself_be_killed(tmp_path: Path) -> None:
    ledger, effects = tmp_path / "ledger.sqlite", tmp_path / "effects"
    for point in IN_ORDER:
        assert run_child(ledger, effects, point) == -signal.SIGKILL
    main(str(ledger), str(effects))
    main(str(ledger), str(effects))  # a finished run can be run again; nothing happens
    assert len(_done(ledger)) == 3


def test_crash_point_can_wait_for_a_later_passage(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda _pid, signal_number: killed.append(signal_number))
    monkeypatch.setenv(CRASH_VARIABLE, "after_work:third_time:3")
    for expected in (0, 0, 1, 1):
        crash_point("after_work:third_time")
        assert len(killed) == expected


@pytest.mark.parametrize("tail", [b"", b"\x00" * 512, b"torn" * 300], ids=["cut", "zeros", "junk"])
def test_torn_log_loses_only_what_was_never_recorded(tmp_path: Path, tail: bytes) -> None:
    ledger, effects = tmp_path / "ledger.sqlite", tmp_path / "effects"
    assert run_child(ledger, effects, "after_outcome:first") == -signal.SIGKILL
    wal = tmp_path / "ledger.sqlite-wal"
    if tail:
        wal.write_bytes(wal.read_bytes() + tail)
    else:
        # Cut into the last frame after one more write that is then lost: the rest must stand.
        assert run_child(ledger, effects, "before_work:outer") == -signal.SIGKILL
        wal.write_bytes(wal.read_bytes()[:-100])
    assert _done(ledger) == {"r1/first": "one"}
    for _ in range(2):  # write to the recovered file, and read it again, twice
        main(str(ledger), str(effects))
        assert len(_done(ledger)) == 3


def test_file_that_is_no_ledger_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(b"this is not a database, it is a shopping list\n" * 100)
    with pytest.raises(IntegrityError, match=r"ledger\.sqlite"):
        Ledger.open(path)


def test_failed_write_is_a_clear_error_and_the_step_reruns(tmp_path: Path) -> None:
    """A file-size limit makes write(2) fail the way a broken disk does."""
    path = tmp_path / "ledger.sqlite"
    with Ledger.open(path) as ledger:
        ledger.once("small", "s", {}, lambda: 1)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limits[1]))
        try:
            with pytest.raises(InfrastructureError, match=r"ledger\.sqlite"):
                ledger.once("big", "b", {}, lambda: "x" * 600_000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        with pytest.raises(InfrastructureError):  # no retry after a failed sync: reopen
            ledger.once("next", "n", {}, lambda: 2)
    with Ledger.open(path) as ledger:
        assert [(step.key, step.is_done) for step in ledger.steps()] == [
            ("small", True),
            ("big", False),
        ]
        assert ledger.once("big", "b", {}, lambda: "y") == "y"


def test_full_disk_is_a_clear_error_and_the_step_reruns(small_disk: Path) -> None:
    path = small_disk / "ledger.sqlite"
    with Ledger.open(path) as ledger:
        ledger.once("small", "s", {}, lambda: 1)
        with pytest.raises(InfrastructureError, match=r"ledger\.sqlite"):
            ledger.once("big", "b", {}, lambda: "x" * 3_000_000)
    with Ledger.open(path) as ledger:
        assert ledger.once("small", "s", {}, lambda: 2) == 1
        assert ledger.once("big", "b", {}, lambda: "fits") == "fits"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of one megabyte; needs the right to mount."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip("cannot mount a small tmpfs here (needs root)")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)
