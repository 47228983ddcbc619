"""Runs math-verify inside a sandbox: one forked child per comparison, each with a deadline.

A child inherits the imported libraries (which cost a second) and nothing else: its descriptors are
closed but for the pipe of its answer, so what a text does to the interpreter, or a hang, ends with
the child. Installed by the host; needs math-verify on a path that the host names.

Does not cover: a text that makes the library itself execute code could forge its own verdict. Only
the LaTeX parser is used on answers (no `eval`, which the library's expression parser would do).
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

READ_BYTES = 1 << 16
FAR = 1e-3
# Parsing builds tables in the parser, and comparing fills caches: every child finds them ready.
WARMING = (
    ("1", "2"),
    (r"\frac{1}{2}+x", "x+0.5"),
    (r"\frac{\sqrt{2}}{3}\pi", r"\dfrac{\sqrt 2 \pi}{3}"),
    (r"x^2-3x+1", r"(x-1)^{2}-x"),
    (r"(1, \frac{\pi}{2})", r"(1,\pi/2)"),
    (r"[1,2)\cup(3,\infty)", r"(3,\infty)\cup[1,2)"),
    (r"\{1,2,3\}", "3,2,1"),
    (r"x \in [1,2]", r"1\le x\le 2"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1\\3\end{pmatrix}"),
    (r"y=2x+1", r"y = 1+2x"),
    (r"\log_2 3 + e^{i\pi}", r"\sin(30^\circ)"),
    (r"1+2i", r"2i+1"),
)
_library: dict[str, Any] = {}


def warm(args: dict[str, Any], channel: Any) -> dict[str, str]:
    """Imports the library once; says which versions there are."""
    sys.path.extend(path for path in args["paths"] if path not in sys.path)
    import logging

    import latex2sympy2_extended
    import math_verify
    import sympy

    del latex2sympy2_extended
    logging.disable(logging.CRITICAL)
    _library["math_verify"] = math_verify
    for gold, answer in WARMING:
        compare(gold, answer)
    return {"sympy": str(sympy.__version__)}


def check(args: dict[str, Any], channel: Any) -> list[dict[str, Any]]:
    """One verdict per (gold, answer) pair, in order."""
    del channel
    return [
        in_a_child(lambda pair=pair: compare(*pair), args["wall_sec"], args["cpu_sec"])  # type: ignore[misc]
        for pair in args["pairs"]
    ]


def compare(gold: str, answer: str) -> dict[str, Any]:
    """Whether two LaTeX answers are equal; what did not parse says so."""
    library = _library["math_verify"]
    parsed = [parse(library, text) for text in (gold, answer)]
    if not all(parsed):
        return {"end": "ok", "gold": bool(parsed[0]), "answer": bool(parsed[1]), "equal": False}
    equal = bool(library.verify(*parsed, strict=True, timeout_seconds=None))
    near = not equal or not is_far(parsed[0][0], parsed[1][0])
    return {"end": "ok", "gold": True, "answer": True, "equal": equal and near}


def is_far(gold: Any, answer: Any) -> bool:
    """Whether an answer with a decimal point is off by more than a thousandth of the gold.

    The library compares decimals by their first six places, to which `0.0` is any small number.
    """
    import sympy

    if not all(isinstance(one, sympy.Expr) and one.is_number for one in (gold, answer)):
        return False
    if not answer.has(sympy.Float):
        return False
    wanted = abs(complex(gold))
    return abs(complex(answer) - complex(gold)) > wanted * FAR


def parse(library: Any, text: str) -> list[Any]:
    """What the LaTeX parser makes of an answer; an empty list where it makes nothing."""
    found = library.parse(
        "\\boxed{" + text + "}",
        extraction_config=[library.LatexExtractionConfig(boxed_match_priority=0)],
        fallback_mode="no_fallback",
        extraction_mode="first_match",
        parsing_timeout=None,
    )
    return list(found)


def in_a_child(work: Callable[[], Any], wall_sec: float, cpu_sec: int) -> dict[str, Any]:
    """Runs `work` in a fork; its answer, or how it ended without one."""
    source, sink = os.pipe()
    pid = os.fork()
    if pid == 0:
        run_and_leave(work, sink, cpu_sec)
    os.close(sink)
    try:
        text = read_until(source, time.monotonic() + wall_sec)
    finally:
        os.close(source)
        kill(pid)
    if text is None:
        return {"end": "timeout"}
    try:
        return dict(json.loads(text))
    except ValueError:
        return {"end": "died"}


def run_and_leave(work: Callable[[], Any], sink: int, cpu_sec: int) -> None:
    """The child's whole life."""
    code = 1
    try:
        os.dup2(sink, 3)
        os.closerange(4, 4096)
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_sec, cpu_sec))
        try:
            answer = work()
        except (Exception, RecursionError) as error:
            answer = {"end": "error", "detail": f"{type(error).__name__}: {error}"[:200]}
        os.write(3, json.dumps(answer).encode())
        code = 0
    finally:
        os._exit(code)


def read_until(source: int, deadline: float) -> bytes | None:
    """All that the child writes; None when time is up first."""
    waiter = select.poll()
    waiter.register(source, select.POLLIN)
    text = b""
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not waiter.poll(left * 1000):
            return None
        chunk = os.read(source, READ_BYTES)
        if not chunk:
            return text
        text += chunk


def kill(pid: int) -> None:
    """Ends the child for sure, and reaps it."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


OPERATIONS = {"warm": warm, "check": check}
