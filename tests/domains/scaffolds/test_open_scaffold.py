"""The harness for any task: through the runner, with a scripted model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from _scaffold_play import Cut, Play, shipped, write_rows

from meta_agent.core.harness import HarnessSession
from meta_agent.domains import DomainOptions, open_domain
from meta_agent.sandboxes import open_sandbox


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    folder = tmp_path_factory.mktemp("open")
    rows = [{"prompt": f"What is {n} and 1?", "gold": str(n + 1)} for n in range(20)]
    tasks = write_rows(folder / "tasks.jsonl", *rows)
    grader = folder / "grader.py"
    grader.write_text("def grade(task, answer):\n    return answer == task['gold']\n")
    sandbox = open_sandbox("process", run="test-open-scaffold")
    yield Play(
        open_domain(DomainOptions("graded", tasks, grade=grader)),
        HarnessSession(sandbox, shipped("open")),
    )
    sandbox.close()


def gold_of(play: Play) -> str:
    row = play.domain.tasks("search")[0]
    return str(int("".join(filter(str.isdigit, str(row.view["prompt"]).split(" and ")[0]))) + 1)


def test_a_plain_reply_is_the_answer(play: Play) -> None:
    row, _ = play(gold_of(play))
    assert (row.outcome, row.stop_reason, row.turns) == (True, "submitted", 1)


def test_after_a_cut_reply_the_model_is_asked_once_for_its_answer(play: Play) -> None:
    row, gateway = play(Cut("It is a long"), gold_of(play))
    assert (row.outcome, row.turns) == (True, 2)
    assert "give the answer now" in str(gateway.asked[1].messages[-1]["content"])


def test_a_model_that_never_ends_is_not_asked_again(play: Play) -> None:
    row, gateway = play(Cut("and on and on"))
    assert (row.outcome, row.turns, len(gateway.asked)) == (False, 2, 2)
