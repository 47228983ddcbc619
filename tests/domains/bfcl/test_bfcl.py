"""Function calls in the leaderboard's form: how rows are made, split and graded.

`tasks.jsonl` holds tasks in our own words. `verdicts.jsonl` holds altered answers to them, with the
verdicts of the package's own checker, as `bfcl-eval` 2026.3.23 gives them.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.capabilities import Capabilities
from meta_agent.core.errors import ConfigError, PreflightError
from meta_agent.core.slices import slices_of
from meta_agent.domains import DomainOptions, open_domain
from meta_agent.domains.bfcl import CATEGORIES, rows_of
from meta_agent.domains.bfcl.bfcl_guest import PARTS, calls_of, grade
from meta_agent.domains.check import check_tasks
from meta_agent.domains.graded import GradedDomain
from meta_agent.domains.named import named_tasks

FOLDER = Path(__file__).parent
OPTIONS = DomainOptions("bfcl", FOLDER / "tasks.jsonl")


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


ROWS = {row["key"]: row for row in lines(FOLDER / "tasks.jsonl")}
OURS_ALONE = {"JSON"}
"""Alterations that are right here and wrong there: docs/log/tasks.md gives the reasons."""


@pytest.fixture
def domain() -> Iterator[GradedDomain]:
    domain = open_domain(OPTIONS)
    assert isinstance(domain, GradedDomain)
    yield domain
    domain.close()


def parts(key: str, reply: str) -> list[float]:
    detail = grade(ROWS[key], reply).detail
    return [detail[name] for name in PARTS]


# --- the grade ------------------------------------------------------------------------------------


def test_answers_are_graded_as_by_the_packages_own_checker() -> None:
    verdicts = lines(FOLDER / "verdicts.jsonl")
    assert len(verdicts) > 200
    for key, alteration, reply, theirs in verdicts:
        ours_alone = alteration in OURS_ALONE and calls_of(reply)
        empty_where_nothing_is_called = not ROWS[key]["expected"] and not reply
        if not ours_alone and not empty_where_nothing_is_called:
            assert grade(ROWS[key], reply).success is theirs, (key, alteration, reply)


@pytest.mark.parametrize(
    "reply",
    [
        "[kettle.boil(litres=1.5, celsius=79 + 1)]",
        "[kettle.boil(litres=1.5, celsius=__import__('os').getpid)]",
        "[kettle.boil(litres=1.5, celsius=[n for n in (80,)])]",
        "[kettle.boil(litres=1.5, celsius=(lambda: 80))]",
        "[kettle.boil(litres=1.5, celsius=f'80')]",
        "[kettle.boil(litres=1.5, celsius=" + "[" * 5000 + "]" * 5000 + ")]",
        "[kettle.boil(litres=1.5, celsius=" + "-" * 15_000 + "80)]",
        "[kettle.boil(litres=1.5, celsius=" + "9" * 8000 + ")]",
        "[" * 9000 + '{"name": "kettle.boil"}' + "]" * 9000,
        "[" + "kettle.boil(litres=1.5, celsius=80), " * 1000 + "]",
        '{"name": "kettle.boil", "arguments": "litres=1.5"}',
        "The kettle is on.",
        "\x00",
    ],
)
def test_what_is_no_list_of_literal_calls_is_no_call(reply: str) -> None:
    assert calls_of(reply) is None
    assert parts("simple_0", reply) == [0, 0, 0, 0]


def test_a_number_beyond_any_float_is_a_wrong_value() -> None:
    reply = f"[kettle.boil(litres={hex(1 << 5000)}, celsius=80)]"
    assert parts("simple_0", reply) == [1, 1, 0.5, 0]


@pytest.mark.parametrize(
    ("key", "reply", "graded"),
    [
        ("simple_0", "[kettle.boil(litres=1.5, celsius=80)]", [1, 1, 1, 1]),
        ("simple_0", "[kettle.boil(litres=1.5, celsius=81)]", [1, 1, 0.5, 0]),
        ("simple_0", "[kettle.boil(litres=1.5, celsius=80, lid='on')]", [1, 1, 2 / 3, 0]),
        ("simple_0", "[boil(litres=1.5, celsius=80)]", [1, 0, 0, 0]),
        ("simple_0", "[kettle.boil(litres=1.5, celsius=80), other()]", [1, 0.5, 0.5, 0]),
        ("parallel_0", "[kettle.boil(litres=2.0, celsius=40)]", [1, 0.5, 0.5, 0]),
        ("simple_0", "[]", [0, 0, 0, 0]),
        ("irrelevance_0", "No function tells that.", [1, 1, 1, 1]),
        ("irrelevance_0", "[kettle.boil(litres=1.5, celsius=80)]", [0, 0, 0, 0]),
    ],
)
def test_a_grade_has_parts(key: str, reply: str, graded: list[float]) -> None:
    assert parts(key, reply) == graded


# --- the tasks ------------------------------------------------------------------------------------


def wheel_of(folder: Path, **questions: list[dict[str, Any]]) -> Path:
    """Writes a wheel with questions in the package's format."""
    path = folder / "bfcl_eval-0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for category, rows in questions.items():
            answers = [{k: row[k] for k in ("id", "ground_truth")} for row in rows]
            data = f"bfcl_eval/data/BFCL_v4_{category}.json"
            archive.writestr(data, "".join(json.dumps(row) + "\n" for row in rows))
            if category != "irrelevance":
                data = f"bfcl_eval/data/possible_answer/BFCL_v4_{category}.json"
                archive.writestr(data, "".join(json.dumps(row) + "\n" for row in answers))
    return path


def question(name: str, *offered: str, **allowed: list[Any]) -> dict[str, Any]:
    def function(name: str) -> dict[str, Any]:
        properties = {"size": {"type": "integer"}, "tags": {"type": "dict"}}
        parameters = {"type": "dict", "properties": properties, "required": ["size"]}
        return {"name": name, "description": name, "parameters": parameters}

    return {
        "id": f"{name}-{'-'.join(offered)}",
        "question": [[{"role": "user", "content": f"Use {name}."}]],
        "function": [function(name), *map(function, offered)],
        "ground_truth": [{name: allowed}],
    }


def test_a_reference_is_the_first_allowed_value_of_what_is_needed(tmp_path: Path) -> None:
    tags = [{"a": ["x", "y"], "b": ["", 1]}]
    questions = [
        question("full", size=[3, 4], tags=tags),
        question("short", size=[3], tags=["", {}]),
        question("hopeless", size=[]),
        question("silent", tags=tags),
    ]
    wheel = wheel_of(tmp_path, simple_python=questions, irrelevance=[question("none", size=[3])])
    rows = list(rows_of(wheel, ["simple_python", "irrelevance"]))
    golds = [row["gold"] for row in rows]
    assert golds == ["[full(size=3, tags={'a': 'x'})]", "[short(size=3)]", "[]"]
    assert all(grade(row, row["gold"]).success for row in rows)
    assert [row["labels"]["kind"] for row in rows] == [*["simple_python"] * 2, "irrelevance"]


def test_no_function_stands_in_two_splits(tmp_path: Path) -> None:
    simple = [question(f"f{n % 70}", size=[1]) for n in range(100)]
    chain = [question(f"g{n}", f"g{n + 1}", size=[1]) for n in range(30)]
    wheel = wheel_of(tmp_path, simple_python=simple, multiple=chain)
    rows = list(rows_of(wheel, ["simple_python", "multiple"]))
    splits: dict[str, set[str]] = {}
    for row in rows:
        for function in row["view"]["functions"]:
            splits.setdefault(function["name"], set()).add(row["split"])
    assert all(len(places) == 1 for places in splits.values())
    sizes = [sum(row["split"] == split for row in rows) for split in ("train", "search", "vault")]
    assert sizes == [75, 11, 26]
    assert rows == list(rows_of(wheel, ["simple_python", "multiple"]))


def test_a_run_sees_functions_and_references_but_no_answers(domain: GradedDomain) -> None:
    task = domain.tasks("train")[0]
    assert set(task.view) == {"prompt", "functions", "question", "tools", "schemas"}
    assert slices_of(domain, "vault")["irrelevance_0"] == {"kind": "irrelevance"}
    solve = Capabilities.of(domain).solution
    assert solve(task.key) == (task.view["prompt"], ROWS[task.key]["gold"])


def test_its_tasks_pass_the_check() -> None:
    report = check_tasks(OPTIONS, jobs=1)
    assert report.ok and len(report.tasks) == len(ROWS)


# --- by name --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bfcl", "bfcl:chess", "bfcl:multiple=FOLDER/no.whl"])
def test_a_name_without_such_tasks_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ConfigError):
        named_tasks(name.replace("FOLDER", str(tmp_path)), "python3", lambda _: None)


def test_another_wheel_is_refused_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    wheel = wheel_of(tmp_path, multiple=[question("f", size=[1])])
    with pytest.raises(ConfigError, match=hashlib.sha256(wheel.read_bytes()).hexdigest()):
        named_tasks(f"bfcl:multiple={wheel}", "python3", lambda _: None)
    assert not list((tmp_path / "cache").rglob("*.whl"))


@pytest.mark.slow
def test_the_real_tasks_are_those_that_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    name = f"bfcl:{','.join(CATEGORIES)}"
    try:
        named = named_tasks(name, "python3", lambda _: None)
    except PreflightError as error:
        pytest.skip(f"the package index is not reached: {error}")
    assert named is not None and named.domain == "bfcl"
    rows = lines(named.path)
    kinds = [row["labels"]["kind"] for row in rows]
    assert {kind: kinds.count(kind) for kind in CATEGORIES} == CATEGORIES
    assert all(grade(row, row["gold"]).success for row in rows)
    assert named_tasks(name, "python3", lambda _: None) == named  # from the cache
