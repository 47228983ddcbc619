"""References of training tasks: what solves them, and how long a reply has to be."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from meta_agent.composition.inputs import open_or_create
from meta_agent.core.capabilities import Capabilities
from meta_agent.core.config import RunConfig
from meta_agent.core.history import HarnessRepo
from meta_agent.core.lab.replies import reply_tokens, tokens_at_most
from meta_agent.domains import DomainOptions, open_domain
from meta_agent.domains.check import check_tasks
from meta_agent.domains.graded import GradedDomain
from meta_agent.domains.math import open_domain as open_math

EXACT = "import json\n\n\ndef grade(task, answer):\n    try:\n"
EXACT += "        return json.loads(answer) == task['gold']\n"
EXACT += "    except ValueError:\n        return False\n"
ANYWHERE = "def grade(task, answer):\n    return str(task['gold']['n']) in answer\n"
REFERENCE = 'def grade(task, answer):\n    return answer == f\'n is {task["gold"]["n"]}\'\n\n\n'
REFERENCE += 'def reference(task):\n    return f\'n is {task["gold"]["n"]}\'\n'
TOOLS = (
    "\n\ndef tools(task):\n    def look() -> str:\n        return 'nothing'\n\n    return [look]\n"
)


def opened(folder: Path, grader: str) -> GradedDomain:
    domain = open_domain(options(folder, grader))
    assert isinstance(domain, GradedDomain)
    return domain


def options(folder: Path, grader: str) -> DomainOptions:
    splits = (*["train"] * 3, "search", "confirm", "vault")
    tasks = [
        {"prompt": f"{n}?", "gold": {"n": n}, "split": split} for n, split in enumerate(splits)
    ]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    (folder / "grader.py").write_text(grader)
    return DomainOptions("graded", folder / "tasks.jsonl", grade=folder / "grader.py")


def test_a_grader_says_by_a_reference_what_solves_a_task(tmp_path: Path) -> None:
    with closing(opened(tmp_path, REFERENCE)) as domain:
        task = domain.tasks("train")[2]
        assert Capabilities.of(domain).solution(task.key) == ("2?", "n is 2")
    report = check_tasks(options(tmp_path, REFERENCE), jobs=1)
    assert report.ok, report
    wrong = REFERENCE.replace("return f'n is", "return f'n was")
    with closing(opened(tmp_path, wrong)) as domain:
        assert Capabilities.of(domain).solution(task.key) is None
    assert not check_tasks(options(tmp_path, wrong), jobs=1).ok


@pytest.mark.parametrize(
    ("grader", "tokens"),
    [(EXACT, 16), (REFERENCE, 16), (ANYWHERE, 0), (EXACT + TOOLS, 0)],
    ids=["exact", "by a reference", "words are allowed", "tools"],
)
def test_references_bound_a_reply_where_nothing_can_stand_beside_the_answer(
    tmp_path: Path, grader: str, tokens: int
) -> None:
    with closing(opened(tmp_path, grader)) as domain:
        assert reply_tokens(domain) == tokens


def test_a_text_has_no_more_tokens_than_are_estimated() -> None:
    assert tokens_at_most("") == 0
    assert tokens_at_most("abcd [12]") == 2 + 5
    assert tokens_at_most("é") == 2


@pytest.mark.parametrize(("policy", "limit"), [("hf:model", 16), ("openai/model", 512)])
def test_a_harness_for_a_local_policy_begins_with_the_limit_that_references_call_for(
    tmp_path: Path, policy: str, limit: int
) -> None:
    with closing(opened(tmp_path, EXACT)) as domain:
        config = RunConfig(
            domain="graded",
            tasks=tmp_path / "tasks.jsonl",
            grade=tmp_path / "grader.py",
            policy=policy,
            workspace=tmp_path / "workspace",
        )
        workspace = open_or_create(config, domain=domain)
    repo = HarnessRepo.open(workspace.harness_repo)
    agent = repo.tree(repo.head()).files["agent/agent.py"].decode()
    assert f"\nMAX_TOKENS = {limit} " in agent


def test_a_worked_solution_ends_in_a_box_and_leaves_room_to_reason(tmp_path: Path) -> None:
    worked = "6 + 7 = <<6+7=13>>13 apples.\n#### 13"
    row = {"question": "6 apples and 7?", "answer": worked, "split": "train"}
    (tmp_path / "tasks.jsonl").write_text(json.dumps(row))
    with closing(open_math(DomainOptions("math", tmp_path / "tasks.jsonl"))) as domain:
        (task,) = domain.tasks("train")
        solution = Capabilities.of(domain).solution(task.key)
        assert solution == ("6 apples and 7?", "6 + 7 = 13 apples.\n\\boxed{13}")
        assert reply_tokens(domain) == 0
