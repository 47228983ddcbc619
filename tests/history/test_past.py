"""Somebody's repository as values: commits, changes, trees; and what is not taken."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.core.history import foreign_history, read_foreign
from meta_agent.core.history._git import Git


def git(folder: Path, *argv: str, stdin: str = "") -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgSign=false"]
    done = subprocess.run(
        ["git", *who, *argv], cwd=folder, input=stdin, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """Root, two commits, a merge, a link; a hook and a filter that would leave a mark."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "root", "a.py", "1\n")
    commit(folder, "second\n\nwith a body", "sub/ä b.py", "2\n")
    git(folder, "switch", "-q", "-c", "side", "HEAD~1")
    commit(folder, "aside", "c.py", "3\n")
    git(folder, "switch", "-q", "main")
    git(folder, "merge", "-q", "--no-ff", "-m", "merge", "side")
    (folder / "link").symlink_to("/etc/passwd")
    (folder / ".gitattributes").write_text("*.py filter=mark\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "a link")
    git(folder, "config", "filter.mark.smudge", "touch ../marked; cat")
    return folder


def commit(folder: Path, message: str, path: str, text: str) -> None:
    (folder / path).parent.mkdir(exist_ok=True)
    (folder / path).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)


def test_commits_with_one_parent_come_with_what_they_changed(theirs: Path) -> None:
    with foreign_history(theirs, deep=True) as history:
        found = {commit.subject: commit.changed for commit in history.commits()}
    assert found == {
        "a link": (".gitattributes", "link"),
        "second": ("sub/ä b.py",),
        "aside": ("c.py",),
    }


def test_a_tree_holds_the_bytes_of_regular_files(theirs: Path) -> None:
    with foreign_history(theirs) as history:
        tree = history.tree(history.head())
    assert tree == {
        "a.py": b"1\n",
        "c.py": b"3\n",
        "sub/ä b.py": b"2\n",
        ".gitattributes": b"*.py filter=mark\n",
    }
    assert not (theirs.parent / "marked").exists()


def test_old_spellings_of_a_mode_do_not_shut_a_repository_out(theirs: Path) -> None:
    blob = git(theirs, "hash-object", "-w", "--stdin", stdin="x\n")
    entry = b"0100644 old.py\0" + bytes.fromhex(blob)
    tree = subprocess.run(
        ["git", "hash-object", "-w", "-t", "tree", "--literally", "--stdin"],
        cwd=theirs,
        input=entry,
        check=True,
        capture_output=True,
    )
    made = git(theirs, "commit-tree", tree.stdout.decode().strip(), "-p", "HEAD", "-m", "old")
    git(theirs, "update-ref", "refs/heads/main", made)
    with foreign_history(theirs) as history:
        assert history.head() == made
        assert history.tree(made) == {"old.py": b"x\n"}


def test_what_is_no_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=str(tmp_path)), foreign_history(tmp_path):
        pass


def _history_of(path: Path) -> None:
    with foreign_history(path):
        pass


@pytest.mark.parametrize("read", [_history_of, lambda path: read_foreign(str(path))])
def test_a_repository_of_sha256_is_refused_with_a_way_out(
    read: Callable[[Path], object], tmp_path: Path
) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "--object-format=sha256")
    commit(tmp_path, "root", "a.py", "1\n")
    with pytest.raises(ConfigError) as caught:
        read(tmp_path)
    assert "SHA-256" in str(caught.value.hint)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to another user")
def test_a_repository_of_another_user_is_refused_with_a_way_that_works(theirs: Path) -> None:
    """Git advises a setting of the user's, and no such setting is read here."""
    for path in (theirs, *theirs.rglob("*")):
        os.chown(path, 12_345, 12_345)
    with pytest.raises(ConfigError) as refused:
        _history_of(theirs)
    assert "safe.directory" not in f"{refused.value} {refused.value.hint}"
    assert "another user" in str(refused.value.hint)


def test_a_folder_with_too_many_files_is_refused_before_git_reads_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "docs").mkdir()
    for number in range(600):
        (tmp_path / "docs" / f"{number}.md").write_text(str(number))
    commit(tmp_path, "many", "agent.py", "1\n")
    commands: list[str] = []
    real = Git.run

    def noted(self: Git, *argv: str, **options: Any) -> Any:
        commands.extend(word for word in argv if word == "cat-file")
        return real(self, *argv, **options)

    monkeypatch.setattr(Git, "run", noted)
    with pytest.raises(ConfigError, match="601 files"):
        read_foreign(str(tmp_path))
    assert commands == []
    assert set(read_foreign(str(tmp_path), leave_out=["docs/**"]).files) == {"agent.py"}
    assert len(commands) == 1
