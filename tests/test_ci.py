"""Which checks CI chooses, and how it ends."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from maintain import ci

TABLE = """
[containers]
shard = "containers"
paths = ["meta_agent/boxes"]
tests = ["tests/boxes"]

[engine]
shard = "engines"
paths = ["meta_agent/engine.py"]

[site]
shard = "site"
paths = ["docs"]
"""
FILES = {
    ".ci/shards.toml": TABLE,
    "meta_agent/boxes/_box.py": "from meta_agent.core import (\n    Limit as Bound,\n)\n",
    "meta_agent/core/__init__.py": "from meta_agent.core._limits import Limit\n",
    "meta_agent/core/_limits.py": "class Limit: ...\n",
    "meta_agent/core/other.py": "",
    "meta_agent/engine.py": "",
    "docs/page.md": "",
}


def git(root: Path, *words: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    done = subprocess.run(
        ["git", *identity, *words], cwd=root, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit(root: Path, **files: str) -> str:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(root, "add", "--all")
    git(root, "commit", "-qm", "a commit")
    return git(root, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose CI passed on its first commit."""
    git(tmp_path, "init", "-q")
    green = commit(tmp_path, **FILES)
    commit(tmp_path, **{".ci/green": green})
    return tmp_path


@pytest.mark.parametrize(
    ("path", "check"),
    [
        ("meta_agent/boxes/_box.py", "containers"),
        ("tests/boxes/test_box.py", "containers"),
        ("meta_agent/core/_limits.py", "containers"),
        ("meta_agent/engine.py", "engine"),
        ("docs/deep/page.md", "site"),
    ],
)
def test_a_check_runs_if_its_files_or_what_they_import_changed(
    path: str, check: str, repository: Path
) -> None:
    commit(repository, **{path: "# changed\n"})
    chosen = ci.choose(repository)
    assert chosen[check] == f"{path} changed"
    assert len(chosen) == 2, "and one in turn"


def test_the_turn_goes_round_and_is_the_same_for_the_same_commit(repository: Path) -> None:
    turns = set()
    for number in range(20):
        commit(repository, **{"meta_agent/core/other.py": f"# {number}\n"})
        (turn,) = ci.choose(repository)
        assert [turn] == [*ci.choose(repository)]
        turns.add(turn)
    assert turns == {"containers", "engine", "site"}


def test_all_run_where_the_last_green_commit_is_unknown(repository: Path, tmp_path: Path) -> None:
    clone = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repository}", str(clone))
    assert len(ci.choose(clone)) == 3
    assert len(ci.choose(repository)) == 1
    assert len(ci.choose(repository, everything=True)) == 3
    (repository / ".ci/green").unlink()
    assert len(ci.choose(repository)) == 3


@pytest.mark.parametrize("path", [".ci/run", "Makefile", "locks/base.txt"])
def test_every_check_runs_if_what_all_rest_on_changed(path: str, repository: Path) -> None:
    commit(repository, **{path: "changed\n"})
    assert len(ci.choose(repository)) == 3


def test_a_flaky_test_fails_ci_at_its_third_entry(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = tmp_path / "logs"
    commit(repository, **{"logs/flaky": "tests/a.py::test[x y]\n"})
    line = "2026-11-01 0123abc tests/a.py::test[x y]\n"
    for entries, passes in ((1, True), (2, False)):
        (repository / ".ci/flaky").write_text(line * entries)
        assert ci.report(logs, repository) == passes
    assert "\nFAILED tests/a.py::test[x y]" in capsys.readouterr().out


def test_the_last_line_sums_up_all_calls_of_pytest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "output").write_text(
        "== 1 failed, 20 passed, 3 skipped in 4.00s ==\n"
        "== 5 passed, 1 skipped in 70.10s (0:01:10) ==\n"
    )
    (tmp_path / "failed").write_text("tests/a.py::test_b\n")
    (tmp_path / "seconds").write_text("75\n")
    assert not ci.report(tmp_path, tmp_path)
    *_, failed, last = capsys.readouterr().out.splitlines()
    assert failed == "FAILED tests/a.py::test_b"
    assert last.strip("= ") == "1 failed, 25 passed, 4 skipped in 75s"


def test_the_age_of_the_nightly_run_is_counted_in_commits(repository: Path) -> None:
    assert "never" in ci.since_nightly(repository)
    green = (repository / ".ci/green").read_text()
    commit(repository, **{".ci/nightly": f"{green} 2026-11-28T23:00Z 7000 s\n"})
    assert " 2 commits ago" in ci.since_nightly(repository)


def test_the_tests_that_pytest_left_failing_are_read_from_its_cache(tmp_path: Path) -> None:
    assert ci.failing(tmp_path) == []
    cache = tmp_path / ".pytest_cache/v/cache"
    cache.mkdir(parents=True)
    (cache / "lastfailed").write_text(json.dumps({"tests/b.py::test": True, "tests/a.py": True}))
    assert ci.failing(tmp_path) == ["tests/a.py", "tests/b.py::test"]


def test_every_path_and_target_of_the_table_exists() -> None:
    makefile = (ci.ROOT / "Makefile").read_text()
    for check in ci.table().values():
        assert all(
            (ci.ROOT / path).exists() for path in (*check.get("paths", ()), *check.get("tests", ()))
        )
        assert f"\n{check.get('target', 'test-slow')}:" in makefile
