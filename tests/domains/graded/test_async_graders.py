"""Async graders and tools: what they hold on to between calls belongs to one event loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from meta_agent.domains.graded._workers import Workers

LOCKED = """
import asyncio

GATE = asyncio.Semaphore(1)


async def _waits(task, answer):
    async with GATE:
        await asyncio.sleep(0.001)
        return answer == task["gold"]


async def grade(task, answer):
    return all(await asyncio.gather(_waits(task, answer), _waits(task, answer)))


def tools(task):
    queue, lock = asyncio.Queue(), asyncio.Lock()

    async def put(text: str) -> str:
        async def add():
            async with lock:
                await asyncio.sleep(0.001)
                await queue.put(text)

        await asyncio.gather(add(), add())
        return str(queue.qsize())

    return [put]
"""
READS_INPUT = """
import subprocess
import sys


def grade(task, answer):
    subprocess.run(["cat"], timeout=20, check=True)
    return sys.stdin.read() == "" and answer == task["gold"]
"""


@pytest.mark.parametrize("source", [LOCKED, READS_INPUT])
def test_one_process_grades_again_and_again(tmp_path: Path, source: str) -> None:
    (tmp_path / "grader.py").write_text(source)
    pool = Workers({"path": str(tmp_path / "grader.py")})
    row = {"gold": "yes"}
    with pool.leased() as worker:
        grades = [
            worker.ask("graded", 30, row=row, submission={"answer": answer})
            for answer in ("yes", "no", "yes")
        ]
    pool.close()
    assert [grade["success"] for grade in grades] == [True, False, True]


def test_async_tools_of_an_attempt_share_what_they_made(tmp_path: Path) -> None:
    (tmp_path / "grader.py").write_text(LOCKED)
    pool = Workers({"path": str(tmp_path / "grader.py")})
    with pool.leased() as worker:
        worker.ask("open", 30, row={"gold": "yes"})
        replies = [worker.ask("call", 30, name="put", arguments={"text": "a"}) for _ in range(3)]
    pool.close()
    assert [(reply["text"], reply["ok"]) for reply in replies] == [
        ("2", True),
        ("4", True),
        ("6", True),
    ]
