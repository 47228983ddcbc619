"""The process that a host's process sandboxes are forked from; it loads the shared imports once.

It holds only this project's code, and its environment was cleared before it began. A forked child
closes every descriptor but its own pipes and enters the jail before it reads from them.
Promises: it answers each order before it takes the next; a process keeps its number until the host
has been told that it ended; this process and all its children end with the host.
"""

from __future__ import annotations

import inspect  # noqa: F401 - these four for the guests, which import them
import json
import os
import pathlib  # noqa: F401
import shutil  # noqa: F401
import socket
import tempfile  # noqa: F401
import traceback

from meta_agent.core.sandbox.inside._jail import Plan, chosen, enter
from meta_agent.core.sandbox.inside.frames import Json
from meta_agent.core.sandbox.inside.lockdown import lock
from meta_agent.core.sandbox.inside.processes import Here
from meta_agent.core.sandbox.inside.worker import MAX_DESCRIPTORS, main

ORDER_BYTES = 1 << 18  # more than a socket takes at once


def serve(descriptor: int) -> None:
    """Forks sandboxes, and says how they ended, as the host orders; exits once the host is gone."""
    os.umask(0o022)
    host = socket.socket(fileno=descriptor)
    while True:
        line, stdio, _, _ = socket.recv_fds(host, ORDER_BYTES, 3)
        if not line:
            os._exit(0)
        try:
            answer = perform(json.loads(line), stdio)
        except OSError as error:
            answer = {"error": str(error)}
        for descriptor_of_guest in stdio:
            os.close(descriptor_of_guest)
        host.send(json.dumps(answer).encode())


def perform(order: dict[str, Json], stdio: list[int]) -> dict[str, Json]:
    """Carries out one order of the host and returns the answer.

    The answer holds the new process's id, or the exit code of an older one (None while it runs).
    """
    if "ended" in order:
        pid, status = os.waitpid(order["ended"], os.WNOHANG)
        return {"code": os.waitstatus_to_exitcode(status) if pid else None}
    plan, fenced = chosen(Plan(order["folder"], order["interpreter"], order["stranger"]))
    if pid := os.fork():
        return {"pid": pid}
    try:
        become(plan, fenced, order, stdio)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def become(plan: Plan, fenced: bool, order: dict[str, Json], stdio: list[int]) -> None:
    """Turns the forked process into a sandbox's worker program, restricted; never returns."""
    os.setsid()
    for target, descriptor in enumerate(stdio):
        os.dup2(descriptor, target)
    os.closerange(len(stdio), MAX_DESCRIPTORS)
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(f"{plan.folder}/work")
    fences = enter(plan, fenced, order["limits"])
    fences += lock(plan.folder, "files" in fences)
    Here.fences, Here.stranger = tuple(fences), plan.stranger
    main()
