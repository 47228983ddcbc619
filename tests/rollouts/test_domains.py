"""Math and code as the loop will use them: harness in a sandbox, runner, regrading, export."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.protocols import Domain, PlannedRollout
from meta_agent.core.rollouts import Runner, Stamp
from meta_agent.domains.code import CodeDomain, code_runner
from meta_agent.domains.math import MathDomain, Verifier

from ._laboratory import ScriptGateway, session, tree

AGENT = """
async def run(task, model, tools):
    reply = await model.chat([{"role": "user", "content": task["problem"]}])
    await tools.call("submit", text=reply.content)
"""
PROBLEMS = [{"problem": f"{n} + {n}?", "answer": str(2 * n), "split": "search"} for n in range(4)]
PROGRAMS = [
    {
        "question": f"Read a number and add {n}.",
        "input_output": {"inputs": ["1\n", "5\n"], "outputs": [f"{1 + n}\n", f"{5 + n}\n"]},
        "split": "search",
    }
    for n in range(4)
]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


@contextmanager
def opened(name: str, folder: Path) -> Iterator[Domain]:
    if name == "math":
        math = MathDomain(write(folder / "math.jsonl", PROBLEMS), Verifier())
        yield math
        math.close()
    else:
        runner = code_runner("process", candidates_per_sandbox=8)
        code = CodeDomain(write(folder / "code.jsonl", PROGRAMS), runner)
        yield code
        code.close()


def replies(name: str, problem: str) -> str:
    """Right for the tasks of even numbers, wrong for the others."""
    number = int(problem.split()[0] if name == "math" else problem.rstrip(".").split()[-1])
    shift = number % 2
    if name == "math":
        return f"That is \\boxed{{{2 * number + shift}}}."
    return f"```python\nprint(int(input()) + {number + shift})\n```"


@pytest.mark.parametrize("name", ["math", "code"])
@pytest.mark.parametrize("lock_step", [True, False], ids=["lock-step", "free"])
def test_the_runner_rolls_the_domain_out(name: str, lock_step: bool, tmp_path: Path) -> None:
    with opened(name, tmp_path) as domain, session(tree(agent=AGENT)) as held:
        tasks = domain.tasks("search")
        plan = [PlannedRollout(task, 0, 7, task.key) for task in tasks]
        gateway = ScriptGateway(
            lambda request: replies(name, request.messages[-1]["content"]), lock_step=lock_step
        )
        rows = Runner(domain, held, gateway, Stamp("r", "v0", "c")).run(plan)
        assert [row.outcome for row in rows] == [True, False, True, False]
        assert {row.stop_reason for row in rows} == {"submitted"}
        assert {row.evaluator_hash for row in rows} == {domain.evaluator_hash}
        for row in rows:
            assert domain.regrade(row.task_key, row.verifier_inputs).success is row.outcome
