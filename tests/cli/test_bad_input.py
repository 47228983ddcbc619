"""What people get wrong at the doors: each is one sentence with a next step, and nothing is lost.

The same table for all: the command ends with an exit code for the user's mistakes, says one line
and at most one hint, makes no workspace, and leaves every file as it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from meta_agent.sandboxes import engine_status
from tests.cli.conftest import Runner
from tests.cli.conftest import meta_agent as meta_agent
from tests.domains.harbor.harbor_tasks import write_task
from tests.training.test_handover import hub

GOOD = "def grade(task, answer):\n    return answer == task['gold']\n"
ROWS = "".join(json.dumps({"prompt": f"{n} + 1?", "gold": str(n + 1)}) + "\n" for n in range(40))
TWICE = '{"key": "a", "prompt": "x"}\n{"key": "a", "prompt": "y"}\n'
FROZEN = ("--policy", "openai/any", "--base-url", "policy=http://127.0.0.1:9/v1")
OWN = ("--tasks", "t.jsonl", "--grade", "g.py", *FROZEN)


class Bad(NamedTuple):
    """A mistake: the files and flags, and the words of the sentence."""

    words: str
    files: Mapping[str, str]
    flags: tuple[str, ...] = OWN


def grader(text: str, words: str) -> Bad:
    return Bad(words, {"g.py": text, "t.jsonl": ROWS})


def body(line: str, head: str = "") -> str:
    return f"{head}def grade(task, answer):\n    {line}\n"


CASES: dict[str, Bad] = {
    "a grader that raises": grader(body("raise KeyError('x')"), "KeyError: 'x' (at g.py:2)"),
    "a grader that hangs": grader(body("time.sleep(60)", "import time\n"), "took over 0.5 s"),
    "a grader that returns NaN": grader(body("return float('nan')"), "it returned nan"),
    "a grader that returns a string": grader(body("return 'yes'"), "it returned 'yes' (str)"),
    "a grader that prints and raises": grader(body("print('{}'); 1 / 0"), "ZeroDivisionError"),
    "a grader that needs the network": grader(
        body("urllib.request.urlopen('http://127.0.0.1:9/')", "import urllib.request\n"),
        "it asked the network and got no answer",
    ),
    "a factory that is no domain": Bad(
        "which is not a domain",
        {"mine.py": "def make():\n    return 3\n"},
        ("--domain", "mine:make", *FROZEN),
    ),
    "a factory that is not there": Bad(
        "no_such_module", {}, ("--domain", "no_such_module:make", *FROZEN)
    ),
    "a mapping to a missing field": Bad(
        "--map names the field 'question'",
        {"g.py": GOOD, "t.jsonl": ROWS},
        (*OWN, "--map", "question=prompt"),
    ),
    "duplicate keys": Bad("has the same key 'a'", {"g.py": GOOD, "t.jsonl": TWICE}),
    "a judge that nobody named": grader(
        "def judge(task, answer):\n    return 'It is right.'\n",
        "asks a judge model, but none is set",
    ),
    "a tracker that does not exist": Bad(
        "comet is not one of", {"g.py": GOOD, "t.jsonl": ROWS}, (*OWN, "--log", "comet")
    ),
    "a hub name that does not exist": Bad(
        "the hub did not deliver hf:org/nothing",
        {"g.py": GOOD, "t.jsonl": ROWS},
        (*OWN[:4], "--policy", "hf:org/nothing"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_is_one_sentence_and_nothing_is_lost(
    tmp_path: Path, meta_agent: Runner, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    bad = CASES[case]
    monkeypatch.setattr(
        "meta_agent.domains.graded._domain.GRADE_SEC", 0.5 if "hang" in case else 60
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, text in bad.files.items():
        (tmp_path / name).write_text(text)
    with hub({}) as address:
        if "hub" in case:
            constants = pytest.importorskip("huggingface_hub.constants")
            pytest.importorskip("trl", reason="an hf: policy needs the train extra")
            monkeypatch.setattr(constants, "ENDPOINT", address)
        expect(meta_agent, tmp_path, bad.words, *bad.flags)
    kept = {path.name: path.read_text() for path in tmp_path.iterdir() if path.is_file()}
    assert kept == bad.files


def expect(meta_agent: Runner, folder: Path, words: str, *flags: str) -> None:
    done = meta_agent("evolve", *flags, cwd=folder)
    lines = done.stderr.splitlines()
    assert done.returncode in (2, 3), done.stderr
    assert done.stdout == "" and words in lines[0], done.stderr
    assert len(lines) == 1 or (len(lines) == 2 and lines[1].startswith("  hint: ")), done.stderr
    assert not (folder / "meta-agent-workspace").exists()


@pytest.mark.docker
@pytest.mark.skipif(not engine_status().ready, reason="Docker is not here")
@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda task: (task / "tests/test.sh").unlink(), "test.sh"),
        (lambda task: (task / "task.toml").write_text("[agent\n"), "task.toml"),
        (lambda task: (task / "instruction.md").unlink(), "instruction.md"),
    ],
    ids=["without tests", "torn settings", "without an instruction"],
)
def test_a_task_folder_that_lacks_something_is_named(
    tmp_path: Path, meta_agent: Runner, harm: Callable[[Path], None], words: str
) -> None:
    harm(write_task(tmp_path / "tasks", "one"))
    expect(meta_agent, tmp_path, words, "--domain", "harbor", "--tasks", "tasks", *FROZEN)
