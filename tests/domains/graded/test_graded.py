"""A grader in Python: what it may return, what it may not, and what the agent sees of a task."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from _grader_files import EXACT, ROWS, opened, write

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import SPLITS, PlannedRollout
from meta_agent.core.rollouts._attempt import Attempt, AttemptTerms, Stamp
from meta_agent.domains import DomainOptions, open_domain
from meta_agent.domains.check import check_tasks
from meta_agent.domains.graded import GraderError, _workers
from tests.cli._command import meta_agent as meta_agent


def test_an_agent_sees_the_prompt_and_the_tools_and_nothing_else(tmp_path: Path) -> None:
    tools = "def tools(task):\n    def add(a: int, b: int = 0) -> int:\n"
    tools += "        'Add.'\n        return a + b\n    return [add]\n"
    with opened(write(tmp_path, EXACT + tools)) as domain:
        task = domain.tasks("search")[0]
        assert set(task.view) == {"prompt", "tools", "schemas"}
        assert task.view["tools"] == ["add", "submit"]
        (schema,) = task.view["schemas"]
        assert schema["function"]["parameters"] == {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a"],
        }


def test_what_was_submitted_is_graded_and_else_the_last_words(tmp_path: Path) -> None:
    with opened(write(tmp_path, EXACT, [*ROWS, ROWS[0]])) as domain:
        assert len(domain.rows) == len(ROWS) and domain.notes, "a repeated row is one task"
        task = domain.tasks("search")[0]
        gold = str(domain.rows[task.key].row["gold"])
        spoke = domain.open(task)
        assert not spoke.grade().success
        spoke.saw([{"role": "user", "content": "?"}, {"role": "assistant", "content": gold}])  # type: ignore[attr-defined]
        assert spoke.grade().success
        submitted = domain.open(task)
        submitted.saw([{"role": "assistant", "content": gold}])  # type: ignore[attr-defined]
        assert submitted.call("submit", {"answer": "wrong"}).done
        assert not submitted.grade().success
        assert domain.regrade(task.key, submitted.verifier_inputs()) == submitted.grade()


def test_each_attempt_has_tools_with_a_state_of_its_own(tmp_path: Path) -> None:
    grader = (
        "def tools(task):\n    seen = []\n    def note(text: str) -> int:\n"
        "        seen.append(text)\n        return len(seen)\n    return {'note': note}\n"
        "def grade(task, answer):\n    return [c['text'] for c in answer.calls] == ['1', '2']\n"
    )
    with opened(write(tmp_path, grader)) as domain:
        one, other = (domain.open(domain.tasks("search")[0]) for _ in range(2))
        for environment in (one, other, one):
            assert environment.call("note", {"text": "x"}).ok
        assert not other.call("note", {"words": "x"}).ok, "what a tool raises the agent reads"
        assert one.grade().success and not other.grade().success
        one.close()
        other.close()


TABLE = Path(__file__).with_name("graders.jsonl").read_text(encoding="utf-8")
GRADERS: list[dict[str, Any]] = [json.loads(line) for line in TABLE.splitlines()]


@pytest.mark.parametrize("line", GRADERS, ids=lambda line: line["name"])
def test_what_a_grader_may_return_and_what_is_refused_before_anything_starts(
    line: dict[str, Any], tmp_path: Path
) -> None:
    asked = write(tmp_path, line["grader"])
    if "named" in line:
        with pytest.raises(ConfigError) as caught:
            open_domain(asked)
        assert all(name in str(caught.value) for name in line["named"]), caught.value
        assert "\n" not in str(caught.value)
        return
    with opened(asked) as domain:
        outcome = domain.regrade(next(iter(domain.rows)), {"answer": "1"})
    assert (outcome.success, outcome.detail) == (line["success"], line["detail"])


def test_a_grader_that_hangs_is_killed_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meta_agent.domains.graded._domain.GRADE_SEC", 0.5)
    grader = "import time\ndef grade(t, a):\n    time.sleep(60 if a else 0)\n    return False\n"
    with opened(write(tmp_path, grader)) as domain:
        key = next(iter(domain.rows))
        with pytest.raises(GraderError, match=r"0\.5 s"):
            domain.regrade(key, {"answer": "x"})
        assert not domain.regrade(key, {"answer": ""}).success, "another process goes on"


def test_an_error_of_the_grader_is_a_failure_of_the_verifier_and_no_zero(tmp_path: Path) -> None:
    grader = "def grade(task, answer):\n    return bool(1 / 0) if answer else False\n"
    with opened(write(tmp_path, grader)) as domain:
        task = domain.tasks("search")[0]
        terms = AttemptTerms(domain, Stamp("r", "v", "c"), "p", domain.ceilings, 1.0, 1.0)
        attempt = Attempt(terms, PlannedRollout(task, 0, 0, "g"), 0, "k")
        assert attempt.open()
        attempt.use_tool({"tool": "submit", "args": {"answer": "x"}})
        attempt.end({"err": None})
        row = attempt.finish(None)
    assert row.outcome is None and row.error is not None
    assert row.error.kind == "verifier" and "ZeroDivisionError" in row.error.detail


BAD_ROWS: dict[str, tuple[Any, dict[str, str], str]] = {
    "keys": ([{"key": "a", "prompt": "x"}, {"key": "a", "prompt": "y"}], {}, "'a'"),
    "no prompt": ([{"text": "x"}], {}, "text"),
    "mapping": (ROWS, {"question": "prompt"}, "'question'"),
    "empty": ("", {}, "t.jsonl"),
    "not json": ("{\n", {}, "t.jsonl:1"),
    "list": ("[1]\n", {}, "t.jsonl:1"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_bad_rows_are_refused_by_their_line_or_field(tmp_path: Path, case: str) -> None:
    rows, mapping, named = BAD_ROWS[case]
    with pytest.raises(ConfigError) as caught:
        open_domain(replace(write(tmp_path, EXACT, rows), mapping=mapping))
    assert named in str(caught.value)


def test_fields_of_any_set_are_read_by_mapping_also_from_csv(tmp_path: Path) -> None:
    rows = [{"q": {"text": "Capital of France?"}, "a": "Paris"}]
    nested = replace(write(tmp_path, EXACT, rows), mapping={"q.text": "prompt", "a": "gold"})
    table = tmp_path / "t.csv"
    table.write_text('q,a\n"Capital of\nFrance?",Paris\n')
    for asked in (nested, replace(nested, tasks=table, mapping={"q": "prompt", "a": "gold"})):
        with opened(asked) as domain:
            (key,) = domain.rows
            assert domain.regrade(key, {"answer": "Paris"}).success
            assert "Paris" not in json.dumps(dict(domain.task(key).view))


def test_math_rows_are_read_by_mapping_too(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text(json.dumps({"frage": "What is 1 and 1?", "antwort": "2"}) + "\n")
    domain = open_domain(
        DomainOptions(
            "math", path, mapping={"frage": "prompt", "antwort": "gold"}, sandbox="process"
        )
    )
    (task,) = [task for split in SPLITS for task in domain.tasks(split)]
    assert domain.regrade(task.key, {"answer": "2"}).success


def test_the_evaluator_is_another_one_where_grader_helper_rows_or_threshold_are(
    tmp_path: Path,
) -> None:
    helped = "import helper\nTHRESHOLD = 0.5\ndef grade(t, a):\n    return helper.score(a)\n"

    def identity(score: str = "0.1", rows: Any = ROWS, threshold: float | None = None) -> str:
        (tmp_path / "helper.py").write_text(f"def score(a):\n    return {score}\n")
        with opened(replace(write(tmp_path, helped, rows), threshold=threshold)) as domain:
            return domain.evaluator_hash

    others = [identity("0.20"), identity(rows=ROWS[:-1]), identity(threshold=0.7)]
    assert identity() == identity() and len({identity(), *others}) == 4


def test_files_of_a_task_are_worked_on_and_graded(tmp_path: Path) -> None:
    grader = (
        "def files(task):\n    return {'a.txt': 'one', 'b.bin': b'\\xff'}\n"
        "def grade(task, answer):\n"
        "    return answer.files.get('a.txt') == 'two' and answer.files['b.bin'] == b'\\xff'"
        " if answer.files else False\n"
    )
    with opened(write(tmp_path, grader)) as domain:
        task = domain.tasks("search")[0]
        assert task.view["tools"] == ["run", "write", "submit"]
        environment = domain.open(task)
        assert environment.call("run", {"command": "cat a.txt"}).text == "one\n[exit 0]"
        assert not environment.call("write", {"path": "../x", "content": ""}).ok
        assert environment.call("write", {"path": "a.txt", "content": "two"}).ok
        environment.call("submit", {"answer": "done"})
        assert environment.grade().success
        assert domain.regrade(task.key, environment.verifier_inputs()).success
        environment.close()


def test_the_check_names_what_passes_that_should_not(tmp_path: Path) -> None:
    lenient = "def grade(task, answer):\n    return task['gold'] in answer or not answer\n"
    found = check_tasks(write(tmp_path, lenient, ROWS[:6]), jobs=2)
    assert not found.ok
    assert all(task.reasons for task in found.tasks)


def test_a_grader_that_hangs_while_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_workers, "LOAD_SEC", 0.5)
    with pytest.raises(ConfigError):
        open_domain(write(tmp_path, "import time\ntime.sleep(60)\n"))


def test_the_start_of_a_domain_of_ones_own_works_and_is_never_written_over(
    tmp_path: Path, meta_agent: Any
) -> None:
    told = meta_agent("init", "--domain", "mine", "--json", cwd=tmp_path).document
    assert Path(told["grader"]).is_file()
    own = ("tasks.jsonl", "--grade", "grader.py", "--sandbox", "process", "--json")
    assert meta_agent("tasks", "check", *own, cwd=tmp_path).document["ok"]
    again = meta_agent("init", "--domain", "mine", cwd=tmp_path)
    assert again.returncode == 2


def test_a_gold_that_the_grader_accepts_is_a_solution(tmp_path: Path) -> None:
    grader = (
        "import json\n\ndef grade(task, answer):\n    try:\n"
        "        return json.loads(answer) == task['gold']\n"
        "    except ValueError:\n        return False\n"
    )
    rows = [{"prompt": f"Count to {n}.", "gold": {"upto": n}} for n in range(8)]
    with opened(write(tmp_path / "json", grader, rows)) as domain:
        key = next(iter(domain.rows))
        assert domain.solution(key) == ("Count to 0.", '{"upto": 0}')
    with opened(write(tmp_path / "text")) as domain:
        assert domain.solution(next(iter(domain.rows))) == ("What is 0 and 1?", "1")
        assert domain.reference(next(iter(domain.rows))) == {"answer": "1"}
    one_of = "def grade(task, answer):\n    return answer in task['gold']\n"
    rows = [{"prompt": f"{n} + 1?", "gold": [f"{n + 1}", "one more"]} for n in range(8)]
    with opened(write(tmp_path / "list", one_of, rows)) as domain:
        assert domain.solution(next(iter(domain.rows))) == ("0 + 1?", "1")
    refuses = "def grade(task, answer):\n    return False\n"
    with opened(write(tmp_path / "none", refuses)) as domain:
        assert domain.solution(next(iter(domain.rows))) is None


def test_a_grader_is_begun_beside_tasks_that_are_there(tmp_path: Path, meta_agent: Any) -> None:
    (tmp_path / "tasks.jsonl").write_text('{"prompt": "Say yes.", "gold": "yes"}\n')
    begun = meta_agent("init", "--domain", "mine", "--json", cwd=tmp_path).document
    assert begun["written"] == ["grader.py"]
    assert "Say yes." in (tmp_path / "tasks.jsonl").read_text()
