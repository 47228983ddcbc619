"""The few lines given to `python3 -c`: they read a program from the pipe and run it.

The usual switch would be `-I`, but it ignores PYTHONHASHSEED. Then sets in harness code would
iterate in a new order in every sandbox, and runs could not be repeated. The environment is set by
this project anyway. The rest of `-I`, taking the current directory off the import path, is done
here.
The files of `inside` travel as text and become modules under the same names, in the order in which
they import each other.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from typing import Final

from meta_agent.core.sandbox import inside

READ_PROGRAM = """
import os, sys
sys.path[:] = [entry for entry in sys.path if entry]
def take(count):
    data = b""
    while len(data) < count:
        chunk = os.read(0, count - len(data))
        if not chunk: os._exit(0)
        data += chunk
    return data
program = take(int.from_bytes(take(4), "little"))
exec(compile(program, "<worker>", "exec"), {"__name__": "__main__"})
"""
INSIDE: Final = inside.__name__
WORKER: Final = ("processes", "frames", "commands", "files", "worker")


def source_of(module: str) -> str:
    """Returns the source text of a module of `meta_agent.core.sandbox.inside`."""
    return resources.files(INSIDE).joinpath(f"{module}.py").read_text(encoding="utf-8")


def worker_program(stranger: int, *, contained: bool, limits: dict[str, int] | None) -> bytes:
    """Returns the source of the program that serves the host's requests in a container.

    Untrusted code runs as the user id `stranger`, each process under `limits`, by names such as
    `NOFILE`, unless they are None. `contained` says that the control group is the container's own.
    """
    return _program(
        WORKER,
        f"""
import os
here, worker = modules[:: {len(WORKER) - 1}]
here.Here.stranger, here.Here.contained, limits = {stranger}, {contained}, {limits}
if limits is not None:
    here.Here.limits = limits
    os.chown(".", {stranger}, {stranger})
    os.environ.pop("TERM", None)
worker.main()
""",
    )


def fork_server_program(descriptor: int) -> bytes:
    """Returns the source of a program that forks sandboxes as the socket `descriptor` orders."""
    names = ("_jail", "lockdown", *WORKER, "forks", "forkserver")
    return _program(names, f"modules[-1].serve({descriptor})")


def _program(names: Sequence[str], then: str) -> bytes:
    texts = json.dumps({name: source_of(name) for name in names})
    return f"""
import json, sys, types
def bring(name, text):
    module = types.ModuleType("{INSIDE}." + name)
    sys.modules[module.__name__] = module
    exec(compile(text, "<" + name + ">", "exec"), module.__dict__)
    return module
modules = [bring(name, text) for name, text in json.loads({texts!r}).items()]
{then}""".encode()
