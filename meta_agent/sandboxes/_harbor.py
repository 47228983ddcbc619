"""The backend `harbor:SERVICE[@IMAGE]`: sandboxes at a service, through Harbor's client of it.

Harbor needs Python 3.12 and versions of its own, so another interpreter runs it (`_bridge`):
META_AGENT_HARBOR_PYTHON names it. The bridge sees the variables that begin with the service's name
(E2B_API_KEY for e2b) and no other key; the sandbox sees none.
Not covered: limits of disk, of files and of processes, and filters of system calls. Harbor does not
say which service keeps them, so they are not promised. Nor is memory: most services limit it, but
none says whether the buffers of connections count.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import sys
import uuid
from pathlib import Path
from typing import Any, Final

from meta_agent.core.errors import SandboxError
from meta_agent.core.protocols import SandboxLimits
from meta_agent.core.sandbox.worker_sandbox import WorkerSandbox
from meta_agent.sandboxes._bootstrap import READ_PROGRAM, source_of, worker_program
from meta_agent.sandboxes._containers import ContainerStream, per_process
from meta_agent.sandboxes._names import SERVICE_PREFIX
from meta_agent.sandboxes._owner import stranger_uid
from meta_agent.sandboxes._services import socket_of

IMAGE: Final = "python:3.12-slim"
_PYTHON: Final = "META_AGENT_HARBOR_PYTHON"
_START_SEC: Final = 900.0  # the service may have to fetch the image
_ASK_SEC: Final = 90.0
_WORKER_START_SEC: Final = 300.0
_MAPPED: Final = range(1 << 14, 1 << 15)  # users that also a container with few users has


class Remote:
    """A sandbox at a cloud service, with a socket to the process that relays its bytes."""

    def __init__(self, service: str, image: str, run: str, limits: SandboxLimits) -> None:
        self._service, self._name = service, f"ma-{run}-{uuid.uuid4().hex[:12]}"
        order: dict[str, Any] = {
            "open": self._name,
            "service": service,
            "image": image,
            "work": "/scratch",
        }
        order |= {"relay.py": source_of("relay"), "program": READ_PROGRAM}
        order |= {"cpus": limits.cpus, "memory_mb": limits.memory_mb}
        self.socket, answer = _send_order(service, order | {"deadline_sec": limits.deadline_sec})
        if "error" in answer:
            self.socket.close()
            raise SandboxError(
                f"a sandbox at {service} does not start: {answer['error']}",
                kind="start",
                hint=f"check the login, the image and the service: {_environment_hint(service)}",
            )
        self.fences = frozenset(answer["fences"])
        self.bounds = frozenset({"memory"} if answer["bounds_memory"] else ())

    def remove(self) -> None:
        """Deletes the sandbox at the service; does nothing if it is gone."""
        with contextlib.suppress(SandboxError, OSError):
            _send_order(self._service, {"remove": self._name})[0].close()

    def state(self) -> dict[str, Any]:
        """Returns how the program in the sandbox ended, under Docker's keys such as `ExitCode`.

        The key `Problem` holds the service's error message, if the service failed.
        """
        try:
            connection, answer = _send_order(self._service, {"state": self._name})
            connection.close()
        except (SandboxError, OSError) as error:
            answer = {"Problem": str(error)}
        return {"OOMKilled": False, **answer}


def open_remote(backend: str, run: str, limits: SandboxLimits, image: str | None) -> WorkerSandbox:
    """Starts a sandbox at a cloud service. `backend` is `harbor:SERVICE` or `harbor:SERVICE@IMAGE`.

    Raises SandboxError if it does not start.
    """
    service, _, image_of_service = backend.removeprefix(SERVICE_PREFIX).partition("@")
    remote = Remote(service, image or image_of_service or IMAGE, run, limits)
    program = worker_program(
        stranger_uid(_MAPPED),
        contained="processes" in remote.fences,
        limits=per_process(limits, remote.bounds),
    )
    return WorkerSandbox(
        backend,
        ContainerStream(remote, limits),
        program,
        fences=remote.fences,
        start_timeout_sec=_WORKER_START_SEC,
    )


def _send_order(service: str, order: dict[str, Any]) -> tuple[socket.socket, dict[str, Any]]:
    """Sends an order to the bridge. Returns the connection and the line that it answers."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(_START_SEC if "open" in order else _ASK_SEC)
        connection.connect(str(_bridge(service)))
        connection.sendall(json.dumps(order).encode() + b"\n")
        line = b""
        while not line.endswith(b"\n"):  # the bridge says no more until it is asked more
            if not (chunk := connection.recv(1 << 16)):
                raise OSError("the process that talks to Harbor ended; run the command again")
            line += chunk
        return connection, json.loads(line)
    except OSError as error:
        connection.close()
        hint = f"see whether it answers: {_environment_hint(service)}"
        raise SandboxError(f"no answer from {service}: {error}", kind="start", hint=hint) from error
    except BaseException:
        connection.close()
        raise


def _bridge(service: str) -> Path:
    python = os.environ.get(_PYTHON, sys.executable)
    prefix = f"{re.split('[:.]', service)[0].upper().replace('-', '_')}_"
    bridge = Path(__file__).with_name("_bridge.py")
    return socket_of(
        f"Harbor ({python}) for {service}",
        lambda path: [python, "-P", str(bridge), str(path)],
        variables={name: value for name, value in os.environ.items() if name.startswith(prefix)},
        hint=f"python3.12 -m venv harbor && harbor/bin/pip install 'harbor[{service}]' && "
        f"export {_PYTHON}=$PWD/harbor/bin/python",
    )


def _environment_hint(service: str) -> str:
    return f"meta-agent doctor --sandbox {SERVICE_PREFIX}{service}"
