"""Tasks from a repository with a past: fixes become tasks, other commits say why not."""

from __future__ import annotations

import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from _tasks_purse import FILES, MOODY, SOURCE, TESTS, Repository, bench_of, numbered_sandboxes

from meta_agent.core.errors import ConfigError
from meta_agent.domains.check import check_domain
from meta_agent.domains.swe import RealSwe, SandboxFactory
from meta_agent.domains.tasks import Made, Plan, manifest_path, mine, read_package

pytestmark = pytest.mark.slow

FAULTY = SOURCE.replace("    if start < 0:\n", "    if start > 0:\n")
OLD_TESTS = TESTS.split("def test_a_negative")[0].replace(
    "    assert total(coins, start=2) == 10\n", ""
)
NEW_FUNCTION = SOURCE + "\n\ndef poorest(coins):\n    return min(coins)\n"
NEW_TEST = """

def test_poorest():
    from purse import coins

    assert coins.poorest([2, 1]) == 1
"""

TIMED = """import time

from purse.coins import total


def test_timed():
    try:
        worth = total([3], start=2)
    except ValueError as problem:
        raise AssertionError(f"after {time.perf_counter_ns()} ns") from problem
    assert worth == 5
"""
ASYNC = """import pytest

from purse.coins import total


@pytest.mark.anyio
async def test_async():
    assert total([3], start=2) == 5


@pytest.mark.anyio
async def test_nothing():
    assert total([]) == 0


@pytest.fixture
def anyio_backend():
    return "asyncio"
"""


class Dug(NamedTuple):
    """One search, shared by the tests that only look at what it left."""

    made: Made
    out: Path
    row: dict[str, Any]
    untouched: bool


@pytest.fixture(scope="module")
def dug(tmp_path_factory: pytest.TempPathFactory) -> Dug:
    folder = tmp_path_factory.mktemp("mine")
    past = with_a_past(Repository(folder / "purse"))
    before, out = state(past.folder), folder / "out" / "purse.jsonl"
    made = mined(past, numbered_sandboxes(), out)
    return Dug(made, out, json.loads(out.read_text()), state(past.folder) == before)


def with_a_past(repository: Repository) -> Repository:
    """Oldest first: a start, a fix without a test, the fix, a feature called a fix, documents."""
    start = {**FILES, "purse/coins.py": FAULTY, "tests/test_coins.py": OLD_TESTS}
    repository.commit("start", start)
    repository.commit("fix: a typing mistake", {"purse/__init__.py": '"""Small coins."""\n'})
    repository.commit(
        "fix: a purse that starts in debt compared with the wrong sign",
        {"purse/coins.py": SOURCE, "tests/test_coins.py": TESTS, "tests/test_moody.py": MOODY},
    )
    repository.commit(
        "fix: poorest was missing",
        {"purse/coins.py": NEW_FUNCTION, "tests/test_coins.py": TESTS + NEW_TEST},
    )
    repository.commit("docs: more", {"README.md": "Fixes everything.\n"})
    repository.git("tag", "v1")
    return repository


def mined(
    past: Repository,
    factory: SandboxFactory,
    out: Path,
    lines: list[str] | None = None,
    **settings: Any,
) -> Made:
    bench = replace(bench_of(read_package(past.folder), factory), **settings)
    return mine(past.folder, bench, out, Plan(), [].append if lines is None else lines.append)


def state(folder: Path) -> list[tuple[str, int]]:
    return [(str(one), one.stat().st_mtime_ns) for one in sorted(folder.rglob("*"))]


def test_a_fix_becomes_a_task(dug: Dug) -> None:
    row, told = dug.row, dug.row["problem_statement"]
    assert row["origin"]["subject"].startswith("fix: a purse that starts in debt")
    assert json.loads(row["FAIL_TO_PASS"]) == [
        "tests/test_coins.py::test_a_negative_start_is_refused",
        "tests/test_coins.py::test_total",
    ]
    assert "in debt" not in told and "start < 0" not in told
    assert "start < 0" in row["patch"] and "start < 0" not in row["test_patch"]


def test_what_is_no_fix_is_counted(dug: Dug) -> None:
    assert dug.made.refused == {
        "does not touch both source and tests": 2,
        "its tests call what only the fix has, so it is a feature": 1,
    }


def test_the_task_is_fit(dug: Dug, factory: SandboxFactory) -> None:
    report = check_domain(RealSwe(dug.out, factory))
    assert report.ok, [task.reasons for task in report.tasks]


def test_a_moody_test_decides_nothing_and_the_repository_is_left_as_it_was(dug: Dug) -> None:
    assert dug.untouched
    assert dug.made.flaky == ("tests/test_moody.py::test_moody",)
    assert "moody" not in dug.row["PASS_TO_PASS"]


def test_the_past_and_the_future_are_absent_from_a_task(dug: Dug) -> None:
    archive = dug.out.parent / dug.row["source"]["archive"]
    with tarfile.open(archive) as packed:
        names = packed.getnames()
        texts = [packed.extractfile(name).read() for name in names]  # type: ignore[union-attr]
    assert not any(".git" in name.split("/") for name in names)
    assert not any(b"start < 0" in text or b"Fixes everything" in text for text in texts)
    assert [one.name for one in archive.parent.iterdir()] == [archive.name]


def test_another_search_gives_the_same_bytes(dug: Dug, tmp_path: Path) -> None:
    past = with_a_past(Repository(tmp_path / "purse"))
    again = tmp_path / "out" / "purse.jsonl"
    mined(past, numbered_sandboxes(), again)
    assert again.read_bytes() == dug.out.read_bytes()
    assert manifest_path(again).read_bytes() == manifest_path(dug.out).read_bytes()


def test_a_failure_that_reads_differently_each_time_is_not_shown(
    repository: Repository, tmp_path: Path, factory: SandboxFactory
) -> None:
    repository.commit(
        "start", {**FILES, "purse/coins.py": FAULTY, "tests/test_coins.py": OLD_TESTS}
    )
    repository.commit("fix: signs", {"purse/coins.py": SOURCE, "tests/test_timed.py": TIMED})
    with pytest.raises(ConfigError, match="no failing test can be shown"):
        mined(repository, factory, tmp_path / "o.jsonl")


def test_tests_that_fail_with_the_fix_too_say_what_they_miss(
    repository: Repository, tmp_path: Path, factory: SandboxFactory
) -> None:
    repository.commit(
        "start", {**FILES, "purse/coins.py": FAULTY, "tests/test_coins.py": OLD_TESTS}
    )
    needy = "import nonesuch\n" + TESTS
    repository.commit("fix: signs", {"purse/coins.py": SOURCE, "tests/test_needy.py": needy})
    said: list[str] = []
    with pytest.raises(ConfigError, match="its tests fail with the fix too") as caught:
        mined(repository, factory, tmp_path / "o.jsonl", said)
    assert "lack the module nonesuch; build an image with it" in str(caught.value.hint)
    assert "No module named 'nonesuch'" in said[-1]


def test_a_shallow_clone_is_read_as_far_as_it_goes(
    repository: Repository, tmp_path: Path, factory: SandboxFactory
) -> None:
    past = with_a_past(repository)
    clone, lines = tmp_path / "clone", list[str]()
    past.git("clone", "-q", "--depth", "4", f"file://{past.folder}", str(clone))
    bench = bench_of(read_package(clone), factory)
    made = mine(clone, bench, tmp_path / "o.jsonl", Plan(), lines.append)
    assert made.tasks == 1 and made.advice.startswith("every candidate was tried")
    assert lines[0].startswith("the clone is shallow")


def test_a_suite_that_does_not_start_says_why(
    repository: Repository, tmp_path: Path, factory: SandboxFactory
) -> None:
    hook = "def pytest_collection_modifyitems(items):\n    raise RuntimeError('no such mark')\n"
    start = {**FILES, "purse/coins.py": FAULTY, "tests/conftest.py": hook}
    repository.commit("start", {**start, "tests/test_coins.py": OLD_TESTS})
    repository.commit("fix: signs", {"purse/coins.py": SOURCE, "tests/test_coins.py": TESTS})
    said: list[str] = []
    with pytest.raises(ConfigError, match="results"):
        mined(repository, factory, tmp_path / "o.jsonl", said)
    assert "RuntimeError: no such mark" in said[-1]


def test_a_suite_may_need_a_plugin(
    repository: Repository, tmp_path: Path, factory: SandboxFactory
) -> None:
    repository.commit(
        "start", {**FILES, "purse/coins.py": FAULTY, "tests/test_coins.py": OLD_TESTS}
    )
    repository.commit("fix: signs", {"purse/coins.py": SOURCE, "tests/test_async.py": ASYNC})
    out = tmp_path / "o.jsonl"
    with pytest.raises(ConfigError, match="its tests fail with the fix too"):
        mined(repository, factory, out)
    mined(repository, factory, out, plugins=("AnyIO",))
    assert json.loads(out.read_text())["source"]["plugins"] == ["AnyIO"]
    assert check_domain(RealSwe(out, factory)).ok


def test_a_plugin_that_is_not_there_is_named_before_anything_runs(
    repository: Repository, tmp_path: Path, factory: SandboxFactory
) -> None:
    repository.commit("start", FILES)
    with pytest.raises(ConfigError, match="pytest-nonesuch"):
        mined(repository, factory, tmp_path / "o.jsonl", plugins=("pytest_nonesuch",))


def test_a_repository_without_fixes_says_so(
    repository: Repository, tmp_path: Path, factory: SandboxFactory
) -> None:
    repository.commit("start", FILES)
    repository.commit("chore: a test", {"tests/test_coins.py": TESTS + "\n"})
    with pytest.raises(ConfigError, match="all 0 "):
        mined(repository, factory, tmp_path / "o.jsonl")


def test_a_folder_that_is_no_repository_is_refused(purse: Path, factory: SandboxFactory) -> None:
    bench = bench_of(read_package(purse), factory)
    with pytest.raises(ConfigError, match="git"):
        mine(purse, bench, purse / "o.jsonl", Plan(), lambda line: None)


def test_a_repository_is_read_as_committed(repository: Repository) -> None:
    head = repository.commit("start", FILES)
    (repository.folder / "purse" / "secret.py").write_text("not committed")
    package = read_package(repository.folder)
    assert (package.commit, "purse/secret.py" in package.tree) == (head, False)
