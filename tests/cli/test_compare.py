"""`meta-agent compare` from outside: what it refuses before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..view.recorded_workspace import workspace
from .conftest import Runner


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--conditions", "full,best"), "unknown condition 'best'"),
        (("--conditions", "full,full"), "different names"),
        (("--seeds", "0"), "--seeds is 0"),
        (("--budget", "10"), "cannot pay"),
        (("--policy", "openai/m"), "needs tasks"),
        (("--train-steps", "-1"), "train_steps"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    meta_agent: Runner, tmp_path: Path, flags: tuple[str, ...], told: str
) -> None:
    done = meta_agent("compare", "--profile", "tiny", *flags, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert told in done.stderr and "hint:" in done.stderr
    assert done.stdout == ""


def test_what_has_not_begun_is_shown_as_unfinished(meta_agent: Runner, tmp_path: Path) -> None:
    flags = ("--profile", "tiny", "--seeds", "1", "--out", str(tmp_path / "c"), "--read-only")
    told = meta_agent("compare", *flags, "--json", cwd=tmp_path).document
    assert told["unfinished"] == ["full-s0", "static-s0", "score-only-s0"]
    assert {condition["runs"] for condition in told["arms"].values()} == {0}
    again = meta_agent("compare", *flags, "--train-steps", "9", cwd=tmp_path)
    assert again.returncode == 2 and "another" in again.stderr


def test_two_recorded_runs_are_set_side_by_side(meta_agent: Runner, tmp_path: Path) -> None:
    for name in ("a", "b"):
        workspace(tmp_path / name, finished=name == "a")
    told = meta_agent("compare", "a", "b", "--json", cwd=tmp_path).document
    assert [one["exit_reason"] for one in told["runs"]] == ["done", None]
    assert told["settings"] == {}
    shown = meta_agent("compare", "a", "b", cwd=tmp_path).stdout
    for part in (
        "61.3 % [57.1, 65.5]",
        "1 PROMOTE",
        "stopped without finishing",
        "luck is not ruled out",
    ):
        assert part in shown
    here = meta_agent("compare", "r1", "../b", "--json", cwd=tmp_path / "a").document
    assert [one["run"] for one in here["runs"]] == ["r1", "r1"]


@pytest.mark.parametrize(
    ("runs", "told"), [(("r1",), "takes two runs"), (("r1", "r9"), "there is no run 'r9'")]
)
def test_what_is_no_pair_of_runs_is_said(
    meta_agent: Runner, tmp_path: Path, runs: tuple[str, ...], told: str
) -> None:
    place = workspace(tmp_path / "a")
    done = meta_agent("compare", *runs, cwd=place.root)
    assert done.returncode == 2 and told in done.stderr
