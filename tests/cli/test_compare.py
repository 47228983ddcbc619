"""`meta-agent compare` from outside, before anything is started."""

from __future__ import annotations

from pathlib import Path

from ._command import Runner


def test_what_has_not_begun_is_shown_as_unfinished(meta_agent: Runner, tmp_path: Path) -> None:
    flags = ("--profile", "tiny", "--seeds", "1", "--out", str(tmp_path / "c"), "--read-only")
    told = meta_agent("compare", *flags, "--json", cwd=tmp_path).document
    assert told["unfinished"] == ["full-s0", "static-s0", "score-only-s0"]
    assert {condition["runs"] for condition in told["arms"].values()} == {0}
    again = meta_agent("compare", *flags, "--train-steps", "9", cwd=tmp_path)
    assert again.returncode == 2
