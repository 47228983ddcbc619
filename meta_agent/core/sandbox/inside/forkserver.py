"""The process that a host's process sandboxes are forked from: what they import is loaded once.

It holds our own code and nothing else: its environment was cleared before it began. What it forks
closes all but its own pipes and enters the jail before it takes a word from them.

Promises: one order at a time, each answered; a process keeps its number until the host has heard of
its end; this one ends with the host, and with it what it forked.
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
    """Answers the host until it is gone: forks a sandbox, tells how one `ended`."""
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
    """What the host gets to hear: a process, or the code it ended with (None: not yet)."""
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
    """The forked process up to its worker."""
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
