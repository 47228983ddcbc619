"""`meta-agent compare` from outside: what it refuses before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def test_what_is_no_pair_of_files_is_said(meta_agent: Runner, tmp_path: Path) -> None:
    done = meta_agent("compare", "a.jsonl", cwd=tmp_path)
    assert done.returncode == 2 and "takes two result files" in done.stderr
