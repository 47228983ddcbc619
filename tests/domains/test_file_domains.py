"""A task file is read by the domain that was asked for, when it is asked for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.domains import DomainOptions, load_domain, open_domain

PROBLEMS = [
    {"question": f"What is {n} and 1?", "answer": f"#### {n + 1}", "split": split}
    for n, split in enumerate(("train", "search", "confirm", "vault"))
]
FUNCTION = {
    "task_id": "HumanEval/0",
    "prompt": "def one():\n",
    "entry_point": "one",
    "canonical_solution": "    return 1\n",
    "test": "def check(candidate):\n    assert candidate() == 1\n",
}


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_file_of_problems_is_a_math_domain(tmp_path: Path) -> None:
    path = write(tmp_path / "math.jsonl", *PROBLEMS)
    domain = open_domain(DomainOptions("math", path))
    assert domain.name == "math"
    task = domain.tasks("search")[0]
    assert task.view["problem"] == "What is 1 and 1?"
    assert domain.regrade(task.key, {"answer": "2"}).success
    assert not domain.regrade(task.key, {"answer": "3"}).success


def test_a_file_of_functions_is_a_code_domain(tmp_path: Path) -> None:
    path = write(tmp_path / "code.jsonl", FUNCTION)
    assert open_domain(DomainOptions("code", path)).name == "code"


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "code.jsonl", FUNCTION)
    with pytest.raises(ConfigError):
        open_domain(DomainOptions("math", path))


def test_a_built_in_suite_that_does_not_exist_names_those_that_do() -> None:
    with pytest.raises(ConfigError, match="chess") as caught:
        load_domain("chess")
    assert "math" in (caught.value.hint or "")


def test_a_suite_imports_no_other(tmp_path: Path) -> None:
    program = (
        "import sys; from meta_agent.domains import load_domain; load_domain('math'); "
        "print([m for m in sys.modules if m.startswith('meta_agent.domains.swe')])"
    )
    argv = [sys.executable, "-c", program]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
