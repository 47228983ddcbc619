"""The Docker and podman backends: a worker attached through its container's standard streams.

Each sandbox is one container; killing the container kills everything in it. The engine closes
standard input when this host process goes away, and the worker then ends itself.
The engine may be on another machine, behind a forwarded socket or plain TCP.
Not covered: an engine behind TLS or ssh (the attached stream must be a plain socket).
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
import uuid
from typing import Any, Protocol

from meta_agent.core.errors import SandboxError
from meta_agent.core.protocols import SandboxLimits
from meta_agent.core.sandbox.worker_sandbox import WorkerSandbox
from meta_agent.sandboxes._bootstrap import READ_PROGRAM, worker_program
from meta_agent.sandboxes._engine import (
    IMAGE_HINTS,
    Container,
    ContainerPlan,
    Engine,
    Image,
    engine,
)
from meta_agent.sandboxes._names import BASE_IMAGE, FENCES
from meta_agent.sandboxes._owner import holder_mark, install_id, stranger_uid

READ_BYTES = 1 << 18
HEADER_BYTES = 8
STDOUT, STDERR = 1, 2
STDERR_TAIL_BYTES = 8 << 10
REAP_SLACK_SEC = 60.0
MOST_EARLY_BYTES = 64 << 20
TURN_SEC = 0.05


class Demultiplexer:
    """Splits a container's attached byte stream into its standard output and standard error."""

    def __init__(self) -> None:
        self._inbox = bytearray()
        self._kind = 0
        self._left = 0  # bytes of the current part still to come
        self.stderr = bytearray()

    def feed(self, chunk: bytes) -> bytes:
        """Takes the next bytes of the attached stream; returns those of standard output."""
        self._inbox += chunk
        output = bytearray()
        while self._next_part():
            part = self._inbox[: self._left]
            del self._inbox[: len(part)]
            self._left -= len(part)
            self._sort(part, output)
        return bytes(output)

    def _next_part(self) -> bool:
        if self._left == 0 and len(self._inbox) >= HEADER_BYTES:
            self._kind = self._inbox[0]
            self._left = int.from_bytes(self._inbox[4:HEADER_BYTES], "big")
            del self._inbox[:HEADER_BYTES]
        return bool(self._left and self._inbox)

    def _sort(self, part: bytearray, output: bytearray) -> None:
        if self._kind == STDOUT:
            output += part
        elif self._kind == STDERR:
            self.stderr = (self.stderr + part)[-STDERR_TAIL_BYTES:]


class Attached(Protocol):
    """A running container (or remote sandbox) with a socket to the worker, the program in it."""

    socket: socket.socket

    def remove(self) -> None: ...

    def state(self) -> dict[str, Any]: ...


class ContainerStream:
    """The byte stream to the worker, the program in a container, through the container's socket."""

    def __init__(self, container: Attached, limits: SandboxLimits) -> None:
        self._container, self._limits = container, limits
        self._socket = container.socket
        self._socket.setblocking(False)
        self._parts = Demultiplexer()
        self._early = bytearray()  # came while something was sent, and was not yet received
        self._receiving = threading.Lock()  # guards the two above and reading from the socket
        self._started = time.monotonic()
        self._removed = False
        self._remove_lock = threading.Lock()  # the container is removed once

    def send(self, data: memoryview, timeout_sec: float) -> int:
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return self._send_later(data, timeout_sec)
        except OSError:
            return len(data)  # the other side is gone: the next receive finds out and says why

    def _send_later(self, data: memoryview, timeout_sec: float) -> int:
        """Waits for room to send, and reads arriving bytes meanwhile if no other thread does.

        Podman's monitor of a container reads nothing from us while its own output waits for us.
        """
        deadline = time.monotonic() + timeout_sec
        while (remaining_sec := deadline - time.monotonic()) > 0:
            mine = self._receiving.acquire(blocking=False)
            try:
                room = mine and len(self._early) < MOST_EARLY_BYTES
                occurred = self._events(
                    select.POLLOUT | (select.POLLIN if room else 0), min(remaining_sec, TURN_SEC)
                )
                if room and occurred & select.POLLIN:
                    chunk = self._socket.recv(READ_BYTES)
                    self._early += self._parts.feed(chunk)
                    if not chunk:
                        return len(data)
                if occurred & ~select.POLLIN:
                    return self._socket.send(data)
            except BlockingIOError:
                continue
            except OSError:
                return len(data)
            finally:
                if mine:
                    self._receiving.release()
        return 0

    def receive(self, timeout_sec: float) -> bytes | None:
        deadline = time.monotonic() + timeout_sec
        with self._receiving:
            if self._early:
                early, self._early = bytes(self._early), bytearray()
                return early
            while self._events(select.POLLIN, max(0.0, deadline - time.monotonic())):
                try:
                    chunk = self._socket.recv(READ_BYTES)
                except OSError:
                    return b""
                output = self._parts.feed(chunk)
                if output or not chunk:
                    return output
        return None

    def _events(self, event_mask: int, timeout_sec: float) -> int:
        if self._socket.fileno() < 0:
            return select.POLLHUP  # released: the read or write that follows says so
        poller = select.poll()
        poller.register(self._socket, event_mask)
        return next((occurred for _, occurred in poller.poll(timeout_sec * 1000)), 0)

    def kill(self) -> None:
        with self._remove_lock:
            if not self._removed:
                self._removed = True
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
                self._container.remove()

    def release(self) -> None:
        self._socket.close()

    def post_mortem(self) -> SandboxError:
        state = self._container.state()
        if problem := state.get("Problem"):
            return SandboxError(f"the service of the sandbox failed: {problem}", kind="engine")
        if state["OOMKilled"]:
            limit = f"its limit of {self._limits.memory_mb} MB"
            return SandboxError(f"the sandbox was killed for memory at {limit}", kind="oom")
        if time.monotonic() - self._started >= self._limits.deadline_sec:
            limit = f"{self._limits.deadline_sec:g} s"
            return SandboxError(f"the sandbox ran longer than its limit of {limit}", kind="timeout")
        detail = bytes(self._parts.stderr).decode("utf-8", "replace").strip() or state["Error"]
        message = f"the sandbox container ended with code {state['ExitCode']}"
        return SandboxError(f"{message}: {detail}" if detail else message, kind="died")


def open_container(
    backend: str, run: str, limits: SandboxLimits, image: str | None
) -> WorkerSandbox:
    """Starts a container of a local image and returns the sandbox in it.

    `backend` is `docker` or `podman`; `run` becomes part of the container's name. Raises
    SandboxError if it cannot be started.
    """
    on = engine(backend)
    name = f"ma-{run}-{uuid.uuid4().hex[:12]}"
    labels = {
        "ma.owner": install_id(),
        "ma.run": run,
        "ma.holder": holder_mark(),
        "ma.deadline": str(int(time.time() + limits.deadline_sec + REAP_SLACK_SEC)),
    }
    usable = usable_image(image or BASE_IMAGE, on)
    stranger = stranger_uid(on.strangers)
    container = Container(
        on, ContainerPlan(usable.id, name, READ_PROGRAM, labels, limits, stranger)
    )
    stream = ContainerStream(container, limits)
    contained = on.name == "docker" or {"memory", "cpu"} <= on.bounds
    # Without a control group, children that are gone before anyone looks are not counted.
    # Podman refuses a limit on the number of files of a tmpfs.
    holds = {
        "memory": "memory" in on.bounds and container.bounds_tcp,
        "worker": contained,
        "inodes": on.name == "docker",
    }
    promised = FENCES - {fence for fence, is_held in holds.items() if not is_held}
    program = worker_program(
        stranger,
        contained=contained,
        limits=None if on.name == "docker" else per_process(limits, on.bounds),
    )
    return WorkerSandbox(backend, stream, program, fences=promised)


def per_process(limits: SandboxLimits, bounds: frozenset[str]) -> dict[str, int]:
    """Returns rlimit values for each untrusted process, by names such as `NOFILE`.

    `bounds` names what the engine limits for all processes together: `memory`, `pids`, `cpu`.
    """
    bounds_by_name = {"NOFILE": 1024, "CORE": 0}
    bounds_by_name |= {} if "memory" in bounds else {"AS": limits.memory_mb << 20}
    bounds_by_name |= {} if "pids" in bounds else {"NPROC": limits.pids}
    return bounds_by_name


def usable_image(name: str, on: Engine) -> Image:
    """Returns the engine's image `name`. Raises SandboxError if it is missing or has volumes."""
    image = on.find_image(name)
    if image is None:
        hint = IMAGE_HINTS[on.name]
        raise SandboxError(f"the image {name} is not on this machine", kind="image", hint=hint)
    if image.volumes:
        raise SandboxError(
            f"the image {name} declares volumes ({', '.join(image.volumes)}), which have no size "
            "limit",
            kind="image",
            hint="remove VOLUME from its Dockerfile and build it again",
        )
    return image
