"""Runs scripts as a user could have sent them (in the sandbox; stdlib only): what came out.

Does not cover: distrust; the package is its owner's.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

_CHARS = 3000
_WALL_SEC = 60


def main() -> None:
    """One process for each script, so that none finds what another left."""
    order = json.loads(sys.stdin.readline())
    sys.dont_write_bytecode = True
    sys.path[:0] = [str(Path(path).resolve()) for path in order["pythonpath"]]
    print(json.dumps([_said(code, order["cpu_sec"]) for code in order["scripts"]]))


def _said(code: str, cpu_sec: int) -> list[str]:
    """What was printed, the kind of the error that ended it (empty: none), what the error says."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _run(code, cpu_sec, writer)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8", errors="replace") as pipe:
        out, mark, told = pipe.read().rpartition("\0")
    os.waitpid(child, 0)
    if not mark:  # ended by a limit, or by itself
        return ["", "timeout", ""]
    kind, message = json.loads(told)
    return [out[:_CHARS], kind, message[:_CHARS]]


def _run(code: str, cpu_sec: int, writer: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(writer, 1)
    os.dup2(null, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_sec, cpu_sec + 2))
    signal.alarm(_WALL_SEC)
    told = ["", ""]
    scope: dict[str, Any] = {"__name__": "__main__"}
    try:
        exec(compile(code, "script.py", "exec"), scope)  # noqa: S102 - what a test of theirs does
    except BaseException as error:
        told = [type(error).__name__, "".join(traceback.format_exception_only(type(error), error))]
    sys.stdout.flush()
    os.write(1, f"\0{json.dumps(told)}".encode())
    os._exit(0)


if __name__ == "__main__":
    main()
