"""Attacks as small Python programs, and what their exit codes mean.

Exit 0 is a breach, 43 says that the sandbox held. Anything else is a program that did not get to
its point, which counts against the sandbox: only a proven refusal passes.
"""

from __future__ import annotations

from collections.abc import Callable

from meta_agent.core.protocols import ExecResult, Sandbox
from tests.sandbox.attacks._check import Check

BREACH, HELD = 0, 43

# An attack body that raises OSError was refused.
FRAME = """
import os, sys, socket, time, errno, signal, subprocess, threading, ctypes
def attack():
{body}
try:
    attack()
except OSError as error:
    print(error)
    sys.exit(43)
sys.exit(0)
"""


def program(body: str) -> str:
    """A whole program around the body of `attack`."""
    return FRAME.format(body="\n".join("    " + line for line in body.strip().splitlines()))


def run_python(sandbox: Sandbox, source: str, *, timeout_sec: float = 20.0) -> ExecResult:
    """Runs source by the sandbox's `python3`."""
    return sandbox.exec(["python3", "-c", source], timeout_sec=timeout_sec)


def ends_with(code: int, body: str) -> Callable[[Sandbox], str]:
    """Runs the program and tells what was wrong with its end."""

    def examine(sandbox: Sandbox) -> str:
        result = run_python(sandbox, program(body))
        return "" if result.exit_code == code else describe(result, code)

    return examine


def describe(result: ExecResult, expected: int) -> str:
    """One line on a result that was not the expected one."""
    text = (result.stdout + result.stderr).decode("utf-8", "replace")[-300:]
    return f"exit {result.exit_code}, not {expected}: {text}"


def program_check(
    name: str, promise: str, *, control: str, attack: str, alone: bool = False
) -> Check:
    """A check whose control must get through and whose attack must be refused."""
    ends = ends_with(BREACH, control), ends_with(HELD, attack)
    return Check(name, promise, *ends, alone=alone)


def answers(sandbox: Sandbox) -> str:
    """The sandbox still works: empty, or what is wrong."""
    result = sandbox.exec(["echo", "alive"], timeout_sec=10)
    return "" if result.stdout == b"alive\n" else describe(result, 0)
