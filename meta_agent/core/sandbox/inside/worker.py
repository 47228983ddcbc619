"""The program inside every sandbox: runs commands, moves files, hosts guest modules.

The host streams it, with the stdlib-only files beside it, to a bare Python over the pipe, so no
image can hold an outdated copy and nothing needs to be installed.
Promises: Frames travel on private descriptors, which no other process can open. Guest modules run
in a process of their own. If this process may become another user (`Here.stranger`, given by the
container), then guest modules, commands and file access use that user, who can neither signal nor
inspect this process. A command that exceeds its wall clock or processor time dies with everything
it started, even processes that left its session. Nothing that a command started outlives it.
Output is read to its end and capped; only regular files are read.
Does not cover, without another user: signals from commands; processor time of children that end
before they are counted and whose parents ignore their end. The host treats every frame as hostile,
and the container or the jail around this process is the wall.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import re
import select
import signal
import sys
import threading
import types
from collections.abc import Callable

from meta_agent.core.sandbox.inside.commands import run_command
from meta_agent.core.sandbox.inside.files import read_files, write_files
from meta_agent.core.sandbox.inside.frames import (
    CHUNK_BYTES,
    Channel,
    Json,
    Pipe,
    parsed,
    traceback_of,
)
from meta_agent.core.sandbox.inside.processes import (
    Here,
    as_stranger,
    descendants,
    settle,
    step_down,
)

PROTOCOL = 1
STDERR_TAIL_BYTES = 16 << 10
OWN_OPERATIONS = frozenset({"hello", "exec", "write", "read", "install"})
REQUEST = re.compile(rb'\{"id":(\d+),"op":"([^"\\]*)"')  # as the host writes it
MAX_DESCRIPTORS = 4096


class StderrTail:
    """Captures this process's standard output and error, and keeps their last 16 KiB as `text`."""

    def __init__(self) -> None:
        source, sink = os.pipe()
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        os.close(sink)
        self._tail = bytearray()
        threading.Thread(target=self._drain, args=(source,), daemon=True).start()

    def _drain(self, source: int) -> None:
        while chunk := os.read(source, CHUNK_BYTES):
            self._tail = (self._tail + chunk)[-STDERR_TAIL_BYTES:]

    def text(self) -> str:
        return bytes(self._tail).decode("utf-8", "replace")


class Worker:
    """Serves the host's requests one at a time until the host closes the pipe."""

    def __init__(self, pipe: Pipe, tail: StderrTail) -> None:
        self._pipe, self._tail = pipe, tail
        self._guest: Guest | None = None
        self._builtin: dict[str, Callable[[dict[str, Json]], Json]] = {
            "hello": hello,
            "exec": run_command,
            "write": as_stranger()(write_files),
            "read": as_stranger()(read_files),
        }

    def serve(self) -> None:
        with contextlib.suppress(EOFError):
            while True:
                frame = self._pipe.later.pop(0) if self._pipe.later else self._next()
                match = REQUEST.match(frame)
                if match and match[2].decode() in self._builtin:
                    answer(self._pipe, self._tail, parsed(frame), self._perform)
                elif match:  # else a late answer to an operation that is over
                    self._relay(frame, int(match[1]))

    def _next(self) -> bytes:
        while (frame := self._pipe.take()) is None:
            self._pipe.fill()
        return frame

    def _perform(self, frame: dict[str, Json]) -> Json:
        return self._builtin[frame["op"]](frame["args"])

    def _relay(self, request: bytes, number: int) -> None:
        """Passes frames between host and guest, unread, until the guest has replied."""
        self._guest = self._guest or Guest()
        theirs, ours = self._guest.pipe, self._pipe
        waiter = select.poll()
        for pipe in (theirs, ours):
            waiter.register(pipe.source, select.POLLIN)
        try:
            theirs.put(request)
            while True:
                while (frame := theirs.take()) is not None:
                    ours.put(frame)
                    if not frame.startswith(b'{"id":%d,"calls":' % number):
                        return
                while (frame := ours.take()) is not None:
                    if REQUEST.match(frame):
                        ours.later.append(frame)
                    else:
                        theirs.put(frame)
                ready = {fd for fd, _ in waiter.poll()}
                for pipe in (ours, theirs):
                    if pipe.source in ready:
                        pipe.fill()
        except (EOFError, BrokenPipeError):
            self._guest.end()


class Guest:
    """The process that runs guest modules, which is Python source that the host sends."""

    def __init__(self) -> None:
        source, to = os.pipe()
        back, sink = os.pipe()
        Here.guest = os.fork()
        if Here.guest == 0:
            serve_modules(source, sink)
        os.close(source)
        os.close(sink)
        self.pipe = Pipe(back, to)

    def end(self) -> None:
        """Kills the guest process, and ends this process with the guest's exit code."""
        with contextlib.suppress(OSError):
            os.kill(Here.guest, signal.SIGKILL)
        status = 0
        with contextlib.suppress(ChildProcessError):
            status = os.waitpid(Here.guest, 0)[1]
        code = os.waitstatus_to_exitcode(status)
        os._exit(code if code >= 0 else 128 - code)


def serve_modules(source: int, sink: int) -> None:
    """Runs guest modules, Python source that the host sends, in this process; never returns."""
    try:
        low, high = sorted((source, sink))
        for first, last in ((3, low), (low + 1, high), (high + 1, MAX_DESCRIPTORS)):
            os.closerange(first, last)
        step_down()
        settle()
        Here.guest = -1
        Modules(Pipe(source, sink), StderrTail()).serve()
    finally:
        os._exit(0)


class Modules:
    """Loads guest modules, Python source that the host sends, and runs their operations."""

    def __init__(self, pipe: Pipe, tail: StderrTail) -> None:
        self._pipe, self._tail = pipe, tail
        self._operations: dict[str, Callable[[Json, Channel], Json]] = {}

    def serve(self) -> None:
        with contextlib.suppress(EOFError):
            while True:
                frame = self._pipe.receive()
                if "op" in frame:
                    answer(self._pipe, self._tail, frame, self._perform)

    def _perform(self, frame: dict[str, Json]) -> Json:
        name, args = frame["op"], frame["args"]
        if name == "install":
            return self._install(args)
        if "attached" in frame:
            args["attached"] = frame["attached"]
        if name not in self._operations:
            raise LookupError(
                f"no operation {name!r} is installed; choose from {sorted(self._operations)}"
            )
        return self._operations[name](args, Channel(self._pipe, frame["id"]))

    def _install(self, args: dict[str, Json]) -> list[str]:
        name, source = args["name"], args["source"]
        module = types.ModuleType(name)
        module.__file__ = f"<guest {name}>"
        linecache.cache[module.__file__] = (
            len(source),
            None,
            source.splitlines(True),
            module.__file__,
        )
        sys.modules[name] = module
        exec(compile(source, module.__file__, "exec"), module.__dict__)  # noqa: S102
        operations: dict[str, Callable[[Json, Channel], Json]] = module.__dict__["OPERATIONS"]
        if taken := set(operations) & OWN_OPERATIONS:
            raise ValueError(
                f"the worker has operations {sorted(taken)} itself; rename those of the module"
            )
        self._operations.update(operations)
        return sorted(operations)


def answer(
    pipe: Pipe, tail: StderrTail, frame: dict[str, Json], perform: Callable[[dict[str, Json]], Json]
) -> None:
    """Performs a request and sends its result, or the error with its traceback."""
    try:
        pipe.send({"id": frame["id"], "ok": perform(frame)})
    except EOFError:
        raise
    except BaseException as error:  # also SystemExit: guest code must not end the worker
        problem = {"type": type(error).__name__, "message": str(error)[:4000]}
        problem |= {"traceback": traceback_of(error)[-16000:], "stderr": tail.text()}
        pipe.send({"id": frame["id"], "err": problem})


def hello(args: dict[str, Json]) -> dict[str, Json]:
    """Returns facts about this sandbox: protocol, Python version, folder, protections and user."""
    return {
        "protocol": PROTOCOL,
        "python": list(sys.version_info[:3]),
        "work_dir": Here.work_dir,
        "isolation": list(Here.fences),
        "uid": os.getuid() if Here.stranger is None else Here.stranger,
    }


def die_with_host(source: int) -> None:
    """Waits until the host closes the pipe, then kills everything below this process, and exits."""
    waiter = select.poll()
    waiter.register(source, 0)  # hang-up only
    waiter.poll()
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    os._exit(0)


def main() -> None:
    """Serves the host's requests, over copies of the pipes that untrusted code cannot reach."""
    Here.work_dir = os.getcwd()  # noqa: PTH109 - not pathlib: a container pays for it at each start
    source, sink = os.dup(0), os.dup(1)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    tail = StderrTail()
    settle()
    threading.Thread(target=die_with_host, args=(source,), daemon=True).start()
    Worker(Pipe(source, sink), tail).serve()
    os._exit(0)
