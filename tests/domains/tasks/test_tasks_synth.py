"""`tasks make` on a small package: what comes out was measured, and comes out again."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from _tasks_purse import FILES, MOODY, SOURCE, bench_of, numbered_sandboxes, written

from meta_agent.core.errors import ConfigError
from meta_agent.domains.check import check_domain
from meta_agent.domains.swe import RealSwe, SandboxFactory
from meta_agent.domains.tasks import Bench, Plan, manifest_path, read_package, synthesize
from meta_agent.domains.tasks._measure import by_stability

Benches = Callable[[Path], Bench]


def quiet(line: str) -> None:
    del line


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class Search(NamedTuple):
    """A whole search, one candidate at a time."""

    out: Path
    made: Any


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Search:
    """One search that several tests read."""
    folder = tmp_path_factory.mktemp("whole")
    bench = bench_of(read_package(written(folder / "purse", FILES)), numbered_sandboxes())
    out = folder / "out" / "purse.jsonl"
    return Search(out, synthesize(bench, out, Plan(count=3, jobs=1), quiet))


@pytest.mark.slow
def test_planted_faults_are_fit_tasks(whole: Search, factory: SandboxFactory) -> None:
    out, made = whole
    rows = rows_of(out)
    assert made.tasks == len(rows) == 3
    assert made.refused.get("no test notices", 0) + made.tasks <= made.tried
    assert not any(row["origin"]["function"] == "unused" for row in rows)
    report = check_domain(RealSwe(out, factory))
    assert report.ok, [task.reasons for task in report.tasks]
    for row in rows:
        assert row["problem_statement"].count("```python\n") == 1
        assert "purse/coins.py" not in row["problem_statement"]
        hidden = {test.split("[")[0].split("::")[-1] for test in json.loads(row["FAIL_TO_PASS"])}
        assert not any(name in row["problem_statement"] for name in hidden)
        added = [line for line in row["test_patch"].splitlines() if line.startswith("+")]
        assert all(any(f"def {name}(" in line for line in added) for name in hidden)


@pytest.mark.slow
def test_faults_are_planted_in_sources_with_carriage_returns(
    purse: Path, tmp_path: Path, factory: SandboxFactory
) -> None:
    (purse / "purse" / "coins.py").write_bytes(SOURCE.replace("\n", "\r\n").encode())
    out = tmp_path / "out" / "purse.jsonl"
    package = read_package(purse)
    assert synthesize(bench_of(package, factory), out, Plan(count=1), quiet).tasks == 1
    report = check_domain(RealSwe(out, factory))
    assert report.ok, [task.reasons for task in report.tasks]


@pytest.mark.slow
def test_two_searches_agree_whatever_their_width(
    whole: Search, purse: Path, tmp_path: Path, bench: Benches
) -> None:
    out = tmp_path / "out" / "purse.jsonl"
    synthesize(bench(purse), out, Plan(count=3, jobs=3), quiet)
    assert out.read_bytes() == whole.out.read_bytes()
    assert manifest_path(out).read_bytes() == manifest_path(whole.out).read_bytes()


def test_a_moody_test_decides_nothing(purse: Path, tmp_path: Path, factory: SandboxFactory) -> None:
    written(purse, {"tests/test_moody.py": MOODY})
    out = tmp_path / "out" / "purse.jsonl"
    made = synthesize(bench_of(read_package(purse), factory), out, Plan(count=2), quiet)
    assert made.flaky == ("tests/test_moody.py::test_moody",)
    assert all("moody" not in row["FAIL_TO_PASS"] + row["PASS_TO_PASS"] for row in rows_of(out))


@pytest.mark.slow
def test_an_interrupted_search_goes_on(
    whole: Search, purse: Path, tmp_path: Path, factory: SandboxFactory
) -> None:
    class StopError(Exception):
        pass

    def stop(line: str) -> None:
        if line.startswith("[2/"):
            raise StopError

    part = tmp_path / "part" / "purse.jsonl"
    bench = bench_of(read_package(purse), factory)
    with pytest.raises(StopError):
        synthesize(bench, part, Plan(count=3), stop)
    said: list[str] = []
    synthesize(bench, part, Plan(count=3), said.append)
    assert said[0].startswith("using ")
    assert manifest_path(part).read_bytes() == manifest_path(whole.out).read_bytes()
    assert [one.name for one in part.parent.iterdir() if one.name.startswith(".")] == []


@pytest.mark.slow
def test_tasks_of_one_function_share_a_split(whole: Search) -> None:
    splits: dict[str, set[str]] = {}
    for row in rows_of(whole.out):
        splits.setdefault(row["origin"]["function"], set()).add(row["split"])
    assert splits and all(len(one) == 1 for one in splits.values())


@pytest.mark.slow
def test_the_same_lines_lost_twice_make_one_task(tmp_path: Path, bench: Benches) -> None:
    """Two tasks with one fix would have one name, and could stand in two splits."""
    function = "def {name}(n):\n    if n < 1:\n        return 0\n    return n * 3\n\n\n"
    tests = "def test_{name}():\n    from twin import {name}\n\n"
    tests += "    assert [{name}(n) for n in (1, -1)] == [3, 0]\n\n\n"
    names = ("one", "other", "third")
    files = {
        "twin.py": "".join(function.format(name=name) for name in names),
        "test_twin.py": "".join(tests.format(name=name) for name in names),
    }
    out = tmp_path / "out.jsonl"
    package = written(tmp_path / "twin", files)
    synthesize(bench(package), out, Plan(count=4), quiet)
    names_of_tasks = [row["instance_id"] for row in rows_of(out)]
    assert len(names_of_tasks) == len(set(names_of_tasks)) > 1
    assert RealSwe(out, bench(package).factory).rows.keys() == set(names_of_tasks)


def test_a_suite_that_does_not_run_is_refused(purse: Path, tmp_path: Path, bench: Benches) -> None:
    written(purse, {"tests/test_coins.py": "import nowhere_to_be_found\n"})
    with pytest.raises(ConfigError, match=r"unchanged source: .* tests/test_coins.py"):
        synthesize(bench(purse), tmp_path / "o.jsonl", Plan(count=1), quiet)


@pytest.mark.parametrize(
    "asked", ["--cov=purse --no-cov-on-fail --cov-report=term-missing -ra", "-ra --cov purse", "-q"]
)
def test_settings_that_ask_for_absent_plugins_are_left_out(
    purse: Path, bench: Benches, asked: str
) -> None:
    settings = f'[tool.pytest.ini_options]\naddopts = "{asked}"\n'
    written(purse, {"pyproject.toml": FILES["pyproject.toml"] + settings})
    found = bench(purse)
    said = found.suite(found.package.tree)
    assert said.verdict == "complete" and set(said.results.values()) == {"PASSED"}
    assert found.probe(found.package.tree).results == said.results


@pytest.mark.parametrize("name", ["pytest", "pluggy", "json"])
def test_what_tests_run_on_cannot_be_tested(tmp_path: Path, bench: Benches, name: str) -> None:
    files = {path.replace("purse", name): text for path, text in FILES.items()}
    with pytest.raises(ConfigError, match=f"pytest needs {name}"):
        synthesize(bench(written(tmp_path / name, files)), tmp_path / "o", Plan(count=1), quiet)


@pytest.mark.slow
def test_a_package_that_the_image_holds_is_tested_in_its_own_place(
    tmp_path: Path, bench: Benches, factory: SandboxFactory
) -> None:
    """pytest itself has imported another `iniconfig` before the tests ask for theirs."""
    files = {
        path.replace("purse", "iniconfig"): text.replace("purse", "iniconfig")
        for path, text in FILES.items()
    }
    out, said = tmp_path / "out" / "held.jsonl", list[str]()
    package = written(tmp_path / "iniconfig", files)
    made = synthesize(bench(package), out, Plan(count=1), said.append)
    assert made.tasks == 1 and made.manifest["made"]["held"] == ["iniconfig"]
    assert said[0].startswith("the image holds iniconfig too: tests and grading take the task's")
    assert rows_of(out)[0]["source"]["own"] == ["iniconfig"]
    report = check_domain(RealSwe(out, factory))
    assert report.ok, [task.reasons for task in report.tasks]


@pytest.mark.parametrize(
    ("gone", "says"), [("tests/test_coins.py", "has no tests"), ("purse/", "has no sources")]
)
def test_a_package_that_gives_nothing_is_refused(tmp_path: Path, gone: str, says: str) -> None:
    files = {name: text for name, text in FILES.items() if not name.startswith(gone)}
    with pytest.raises(ConfigError, match=says):
        read_package(written(tmp_path / "purse", files))


def test_a_source_distribution_and_its_folder_are_the_same_package(
    purse: Path, tmp_path: Path
) -> None:
    packed = tmp_path / "purse-1.2.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(purse, "purse-1.2")
    one, other = read_package(packed), read_package(purse)
    assert (one.tree, one.sources, one.tests) == (other.tree, other.sources, other.tests)
    assert (one.name, one.version) == ("purse", "1.2")
    assert read_package(purse).archive == other.archive


def test_a_src_layout_is_found(tmp_path: Path) -> None:
    files = {name.replace("purse/", "src/purse/"): text for name, text in FILES.items()}
    package = read_package(written(tmp_path / "purse", files))
    assert (package.pythonpath, package.top_names) == (("src",), frozenset({"purse"}))


@pytest.mark.parametrize("before", ["", "src/"])
@pytest.mark.parametrize(
    ("folders", "more"),
    [("corp/purse/", {}), ("corp/purse/", {"setup.py": "", "docs/conf.py": ""}), ("corp/", {})],
)
def test_a_namespace_package_is_found(
    tmp_path: Path, before: str, folders: str, more: dict[str, str]
) -> None:
    module = f"{before}{folders}coins.py"
    files = {module: SOURCE, "tests/test_coins.py": FILES["tests/test_coins.py"], **more}
    if folders == "corp/purse/":
        files[f"{before}{folders}__init__.py"] = ""
    package = read_package(written(tmp_path / "purse", files))
    assert module in package.sources and package.pythonpath == (before.rstrip("/") or ".",)
    assert package.top_names == {"corp"}


@pytest.mark.parametrize(
    ("runs", "passing", "failing", "flaky"),
    [
        (["PASSED", "PASSED"], True, False, False),
        (["FAILED", "ERROR"], False, True, False),
        (["PASSED", "FAILED"], False, False, True),
        (["PASSED", "MISSING"], False, False, True),
        (["SKIPPED", "SKIPPED"], False, False, False),
    ],
)
def test_what_repetition_says(runs: list[str], passing: bool, failing: bool, flaky: bool) -> None:
    said = by_stability([{} if one == "MISSING" else {"t": one} for one in runs])
    assert ("t" in said.passing, "t" in said.failing, "t" in said.flaky) == (
        passing,
        failing,
        flaky,
    )
