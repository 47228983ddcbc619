"""Small files are there whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from meta_agent.core.durable import part_of, write_whole
from meta_agent.core.errors import ConfigError, InfrastructureError, MetaAgentError, of_disk


def test_what_a_crash_left_behind_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    part_of(path).write_text("x" * 5000)
    write_whole(path, "{}\n")
    assert path.read_text() == "{}\n"
    assert [one.name for one in tmp_path.iterdir()] == ["manifest.json"]


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    write_whole(path, "old\n")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "new \ud800\n")
    assert path.read_text() == "old\n"


@pytest.mark.parametrize(
    ("number", "kind", "part"),
    [
        (errno.ENOSPC, InfrastructureError, "it resumes"),
        (errno.EDQUOT, InfrastructureError, "it resumes"),
        (errno.ESTALE, InfrastructureError, "still mounted"),
        (errno.ENOTCONN, InfrastructureError, "still mounted"),
        (errno.EROFS, ConfigError, "ls -ld"),
    ],
)
def test_what_a_disk_does_is_told_with_the_file_and_a_way_out(
    number: int, kind: type[MetaAgentError], part: str
) -> None:
    told = of_disk(OSError(number, os.strerror(number), "/mnt/w/ledger"))
    assert type(told) is kind and "/mnt/w/ledger: " in str(told) and part in str(told.hint)
    assert of_disk(OSError(errno.ENOENT, "x", "y")) is None


def test_a_file_may_be_its_owners_alone(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", "", mode=0o600)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
