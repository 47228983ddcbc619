"""The loop of a process that forks others as a host orders; what it imported, they have too.

Promises: it answers each order before it takes the next; a fork keeps its process id until the host
has been told that it ended; the process ends with the host.
Not covered: what a fork does (`forkserver`, `policies/training/child.py`). A process that serves
has one thread, since a fork has only the thread that made it.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from typing import TypeVar

from meta_agent.core.sandbox.inside.frames import Json

ORDER_BYTES = 1 << 18  # more than a socket takes at once
T = TypeVar("T")


def fork_on_orders(descriptor: int, prepare: Callable[[dict[str, Json]], T]) -> tuple[T, list[int]]:
    """Forks a process for each order of the host, and exits once the host is gone.

    Returns in the forks alone: what `prepare` made of the order, and the descriptors that came with
    it. If `prepare` raises OSError, the host is told and nothing is forked.
    """
    host = socket.socket(fileno=descriptor)
    while True:
        line, descriptors, _, _ = socket.recv_fds(host, ORDER_BYTES, 3)
        if not line:
            os._exit(0)
        order = json.loads(line)
        try:
            answer: dict[str, Json]
            if "ended" in order:
                pid, status = os.waitpid(order["ended"], os.WNOHANG)
                answer = {"code": os.waitstatus_to_exitcode(status) if pid else None}
            else:
                prepared = prepare(order)
                if not (pid := os.fork()):
                    host.close()
                    return prepared, descriptors
                answer = {"pid": pid}
        except OSError as error:
            answer = {"error": str(error)}
        for received in descriptors:
            os.close(received)
        host.send(json.dumps(answer).encode())
