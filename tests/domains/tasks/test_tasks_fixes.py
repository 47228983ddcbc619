"""Which commits are fixes, and what a repository lacks that a build would have made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from _tasks_purse import FILES, SOURCE, TESTS, Repository, bench_of, written

from meta_agent.core.history import foreign_history
from meta_agent.domains.swe import SandboxFactory
from meta_agent.domains.tasks import Made, Plan, mine, read_package
from meta_agent.domains.tasks._mine import Fix, read_fixes
from meta_agent.domains.tasks._package import built_files

FAULTY = SOURCE.replace("    if start < 0:\n", "    if start > 0:\n")
OLD_TESTS = TESTS.split("def test_a_negative")[0].replace(
    "    assert total(coins, start=2) == 10\n", ""
)
CEILING = SOURCE.replace("start=0):", "start=0, ceiling=None):")
CEILING_TEST = """

def test_ceiling():
    assert total([1], ceiling=5) == 1
"""


@pytest.mark.parametrize(
    ("message", "is_fix"),
    [
        ("Fix the sign", True),
        ("Handle an empty purse (#31)", True),
        ("Add a ceiling (#12)", False),
        ("Bump to 1.3 (#77)\n\nAlso fixes a typo.", False),
        ("Compare with zero\n\nCloses #4.", True),
        ("Purses\n\nfixes: owner/purse#4", True),
        ("Limit the depth\n\nCVE-2031-1234", True),
        ("Merge pull request #9", False),
    ],
)
def test_a_title_says_whether_it_is_a_fix(
    message: str, is_fix: bool, repository: Repository
) -> None:
    repository.commit("start", {"a.py": "x = 1\n", "test_a.py": "def test_a(): pass\n"})
    repository.commit(message, {"a.py": "x = 2\n", "test_a.py": "def test_b(): pass\n"})
    with foreign_history(repository.folder, deep=True) as history:
        (found,) = read_fixes(history, any_message=False)
    assert isinstance(found, Fix) is is_fix


@pytest.mark.slow
def test_a_package_with_a_version_of_its_build_and_a_lone_test_file(
    repository: Repository, tmp_path: Path, factory: SandboxFactory
) -> None:
    start = {
        "purse/__init__.py": "from importlib.metadata import version\n\n"
        "from ._version import __version__\n\nassert version('purse') == __version__\n",
        "purse/coins.py": FAULTY,
        "test.py": OLD_TESTS,
        ".gitignore": "purse/_version.py\n",
        "pyproject.toml": '[project]\nname = "purse"\ndynamic = ["version"]\n',
    }
    repository.commit("start", start)
    repository.commit("Fix a sign (#3)", {"purse/coins.py": SOURCE, "test.py": TESTS})
    repository.commit("Fix ceilings", {"purse/coins.py": CEILING, "test.py": TESTS + CEILING_TEST})
    repository.commit("back", {"purse/coins.py": FAULTY, "test.py": OLD_TESTS})
    repository.commit("Fix that sign", {"purse/coins.py": CEILING, "test.py": TESTS})
    said: list[str] = []
    made = mined(repository, tmp_path, factory, said)
    (row,) = map(json.loads, (tmp_path / "o.jsonl").read_text().splitlines())
    assert row["origin"]["subject"] == "Fix that sign"
    assert made.refused == {
        "its title does not speak of a fix and its message closes no issue": 1,
        "its tests call what only the fix has, so it is a feature": 1,
        "the same text or lines as another task": 1,
    }
    assert any(line.endswith("feature ceiling") for line in said)
    assert "every candidate was tried" in made.lines()[-1]


def mined(past: Repository, tmp_path: Path, factory: SandboxFactory, said: list[str]) -> Made:
    bench = bench_of(read_package(past.folder), factory)
    return mine(past.folder, bench, tmp_path / "o.jsonl", Plan(), said.append)


def test_a_lone_test_file_without_tests_is_no_suite(tmp_path: Path) -> None:
    helper = {"purse/test.py": "def compare(a, b):\n    return a == b\n"}
    package = read_package(written(tmp_path / "purse", {**FILES, **helper}))
    assert package.tests == ("tests/test_coins.py",)
    lone = {name: text for name, text in FILES.items() if not name.startswith("tests/")}
    (tmp_path / "alone").mkdir()
    alone = written(tmp_path / "alone" / "purse", {**lone, "test.py": TESTS})
    assert read_package(alone).tests == ("test.py",)


@pytest.mark.parametrize(
    ("imported", "settings", "made"),
    [
        ("from ._version import version", "p/_version.py", {"p/_version.py"}),
        ("from ._version import version", "/p/_version.py", {"p/_version.py"}),
        ("from p._version import *", 'version-file = "p/_version.py"', {"p/_version.py"}),
        ("from ._version import version", "", set()),  # nobody makes it
        ("from ._there_version import x", "p/_there_version.py", set()),
        ("import importlib.metadata", "", {"p_q-1.5.dist-info/METADATA"}),
    ],
)
def test_what_a_build_makes(imported: str, settings: str, made: set[str]) -> None:
    tree = {
        "p/__init__.py": f"{imported}\n".encode(),
        "p/_there_version.py": b"",
        "pyproject.toml": settings.encode(),
    }
    files = built_files(tree, ["p/__init__.py", "p/_there_version.py"], ".", "p-q", "1.5")
    assert files.keys() == made
    if "p/_version.py" in made:
        lines = files["p/_version.py"].decode().splitlines()
        assert lines[0] == "__version__ = version = '1.5'"
        assert lines[1] == "__version_tuple__ = version_tuple = (1, 5)"
