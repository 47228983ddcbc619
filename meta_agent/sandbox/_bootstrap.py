"""The few lines given to `python3 -c`: they read a program from the pipe and become it.

`-I` would be the usual switch, but it also ignores PYTHONHASHSEED, and then sets in harness code
iterate in a new order in every sandbox: runs could not be repeated. The environment is ours
anyway; what is left of `-I` is taking the current directory off the import path, done here.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

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


def source_of(module: str) -> str:
    """The text of a file of this package that runs inside the sandbox."""
    return resources.files(__package__).joinpath(f"{module}.py").read_text(encoding="utf-8")


def worker_program(stranger: int) -> bytes:
    """What is streamed into a container: our filter on top of the engine's, then the worker.

    It becomes the user `stranger` for all that is untrusted.
    """
    parts = {name: source_of(name) for name in ("_lockdown", "worker")}
    return f"""
parts = {parts!r}
lockdown = {{"__name__": "lockdown"}}
exec(compile(parts["_lockdown"], "<lockdown>", "exec"), lockdown)
lockdown["filter_calls"]()
names = {{"__name__": "__main__", "STRANGER": {stranger}}}
exec(compile(parts["worker"], "<worker>", "exec"), names)
""".encode()


def jailed_program(folder: str, limits: dict[str, Any]) -> bytes:
    """The jail, which enters itself, locks what is left, and then becomes the worker."""
    parts = {name: source_of(name) for name in ("_jail", "_lockdown", "worker")}
    return f"""
import json, sys
parts = json.loads({json.dumps(json.dumps(parts))})
jail = {{"__name__": "jail"}}
exec(compile(parts["_jail"], "<jail>", "exec"), jail)
fences = jail["enter"]({folder!r}, json.loads({json.dumps(json.dumps(limits))}))
lockdown = {{"__name__": "lockdown"}}
exec(compile(parts["_lockdown"], "<lockdown>", "exec"), lockdown)
fences += lockdown["lock"]({folder!r}, bool(fences))
exec(compile(parts["worker"], "<worker>", "exec"), {{"__name__": "__main__", "ISOLATION": fences}})
""".encode()
