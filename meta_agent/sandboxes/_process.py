"""Sandboxes that are local processes: the only file that starts them.

For this project's own code (or if a user insists). Promises: own session, resource limits, a
cleared environment, a folder of its own, death with its parent, and a kill that reaches the whole
tree. If the kernel allows, also no network and a read-only view of the machine (`inside/_jail`).
If root starts it, untrusted code gets another user and a limit on its processes.
Does not cover: secrecy of what that user may read; a limit on memory *in sum*, and, if another
user than root started it, on processes.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import select
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from meta_agent.core.durable import remove_folder
from meta_agent.core.errors import SandboxError
from meta_agent.core.processes import DEVNULL, PIPE, STDOUT, Popen, TimeoutExpired, start
from meta_agent.core.protocols import SandboxLimits
from meta_agent.core.sandbox.forks import Forked, ForkServer
from meta_agent.core.sandbox.inside.processes import descendants
from meta_agent.core.sandbox.worker_sandbox import WorkerSandbox
from meta_agent.sandboxes._bootstrap import READ_PROGRAM, fork_server_program
from meta_agent.sandboxes._names import FOLDER_PREFIX, HOLDER_FILE
from meta_agent.sandboxes._owner import holder_mark, stranger_uid

READ_BYTES = 1 << 20
STDERR_TAIL_BYTES = 8 << 10
PACKAGE_FOLDERS = {"site-packages", "dist-packages"}


@lru_cache(maxsize=1)
def _spawner() -> ThreadPoolExecutor:
    """Returns a pool of one thread: PR_SET_PDEATHSIG fires when the *thread* that forked ends."""
    return ThreadPoolExecutor(1, thread_name_prefix="sandbox-spawner")


_OF_PODMAN = ("CONTAINERS_", "STORAGE_", "DBUS_SESSION_BUS_ADDRESS")


_servers: dict[int, ForkServer] = {}  # by the process it serves: a fork of ours wants its own
_servers_lock = threading.Lock()


def fork_server() -> ForkServer:
    """Returns this process's server that forks sandboxes; starts one if none is running."""
    with _servers_lock:
        server = _servers.get(os.getpid())
        if server and server.process.poll() is not None:
            server.close()
            server = None
        _servers[os.getpid()] = server = server or ForkServer(_start_server)
        return server


def _start_server(descriptor: int, errors: IO[bytes]) -> Popen[bytes]:
    """Starts the process that forks sandboxes as the socket `descriptor` orders."""
    process = start(
        [sys.executable, "-s", "-S", "-u", "-c", READ_PROGRAM],
        stdin=PIPE,
        stdout=DEVNULL,
        stderr=errors,
        cwd="/",
        variables=clean_environment(Path("/")),
        inherit=False,
        start_new_session=True,
        pass_fds=(descriptor,),
    )
    program = fork_server_program(descriptor)
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
        pipe.write(len(program).to_bytes(4, "little") + program)
    return process


class ProcessStream:
    """The byte stream to a sandbox's worker process, through pipes; it can kill the process."""

    def __init__(self, folder: Path, limits: SandboxLimits) -> None:
        self._folder, self._limits = folder, limits
        self._stderr = bytearray()
        self._deadline_passed = False
        self._kill_lock = threading.Lock()  # the folder is removed once, after the last process
        self._released = False
        (stdin, to), (come, stdout), (errors, stderr) = _pipe(), _pipe(), _pipe()
        self._ours = (to, come, errors)
        self._to, self._from, self._errors = (end.fileno() for end in self._ours)
        for descriptor in (self._to, self._from, self._errors):
            os.set_blocking(descriptor, False)
        with contextlib.ExitStack() as unstarted, stdin, stdout, stderr:
            for end in self._ours:
                unstarted.enter_context(end)
            theirs = [end.fileno() for end in (stdin, stdout, stderr)]
            self._child = Forked(fork_server(), _order(folder, limits), theirs)
            unstarted.pop_all()
        self._timer = threading.Timer(limits.deadline_sec, self._expire)
        self._timer.daemon = True
        self._timer.start()

    def send(self, data: memoryview, timeout_sec: float) -> int:
        if self._released:
            return len(data)
        with contextlib.suppress(BlockingIOError):
            return self._write(data)
        poller = select.poll()
        poller.register(self._to, select.POLLOUT)
        if not poller.poll(timeout_sec * 1000):
            return 0
        return self._write(data)

    def _write(self, data: memoryview) -> int:
        try:
            return os.write(self._to, data)
        except BrokenPipeError:
            return len(data)  # the reader is gone: the next receive finds out and says why

    def receive(self, timeout_sec: float) -> bytes | None:
        if self._released:
            return b""
        poller = select.poll()
        poller.register(self._from, select.POLLIN)
        if not poller.poll(timeout_sec * 1000):
            return None
        return os.read(self._from, READ_BYTES)

    def kill(self) -> None:
        with self._kill_lock:
            self._timer.cancel()
            kill_tree(self._child)
            remove_folder(self._folder)

    def release(self) -> None:
        self._released = True
        for end in self._ours:
            end.close()

    def _expire(self) -> None:
        self._deadline_passed = True
        kill_tree(self._child)

    def _keep_stderr(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while chunk := os.read(self._errors, READ_BYTES):
                self._stderr = (self._stderr + chunk)[-STDERR_TAIL_BYTES:]

    def post_mortem(self) -> SandboxError:
        if self._deadline_passed:
            limit = f"{self._limits.deadline_sec:g} s"
            return SandboxError(f"the sandbox ran longer than its limit of {limit}", kind="timeout")
        with contextlib.suppress(TimeoutExpired):
            self._child.wait(timeout=2)
        self._keep_stderr()
        detail = bytes(self._stderr).decode("utf-8", "replace").strip()
        message = f"the sandbox process ended with code {self._child.returncode}"
        return SandboxError(f"{message}: {detail}" if detail else message, kind="died")


def _pipe() -> tuple[io.FileIO, io.FileIO]:
    """Returns the reading and the writing end of a new pipe."""
    source, sink = os.pipe()
    with contextlib.suppress(OSError):  # where this user's pipes hold all they may, a small one
        fcntl.fcntl(sink, fcntl.F_SETPIPE_SZ, READ_BYTES)
    return io.FileIO(source, "r"), io.FileIO(sink, "w")


def _order(folder: Path, limits: SandboxLimits) -> dict[str, Any]:
    return {
        "folder": str(folder),
        "interpreter": interpreter_folders(),
        "limits": asdict(limits),
        "stranger": stranger_uid() if os.geteuid() == 0 else None,
        "env": clean_environment(folder),
    }


def open_process(limits: SandboxLimits) -> WorkerSandbox:
    """Starts a process sandbox in a fresh folder. Raises SandboxError if it cannot be started."""
    folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX)).resolve()
    (folder / HOLDER_FILE).write_text(holder_mark(), encoding="ascii")
    for name in ("work", "tmp", "bin", "root"):
        (folder / name).mkdir()
    # Our interpreter under its usual name, without the packages of the environment it came from.
    (folder / "bin" / "python3").symlink_to(sys.executable)
    try:
        stream = ProcessStream(folder, limits)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise SandboxError(
            f"cannot start a sandbox process: {error}",
            kind="start",
            hint="remove the cause and repeat the command, or use --sandbox docker",
        ) from error
    return WorkerSandbox("process", stream)


def interpreter_folders() -> list[str]:
    """Returns the folders of this Python: interpreter, standard library and installed packages.

    Of `sys.path` only folders named `site-packages` or `dist-packages` count, since any other may
    be a user's project.
    """
    executable = Path(sys.executable).resolve()
    folders = [sys.base_prefix, sys.base_exec_prefix, sys.prefix, str(executable.parent)]
    return [*folders, *(path for path in sys.path if _holds_packages(Path(path)))]


def _holds_packages(path: Path) -> bool:
    return path.name in PACKAGE_FOLDERS and path.is_absolute() and path.is_dir()


def stream_lines(argv: Sequence[str], also: Sequence[str] = ()) -> Iterator[str]:
    """Runs a trusted program; yields the lines of its standard output and standard error.

    Environment variables whose names begin with one of `also` are passed on to it as well.
    """
    with start(argv, also=also, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT) as child:
        assert child.stdout is not None
        for line in child.stdout:
            yield line.decode("utf-8", "replace").rstrip()


def start_service(
    argv: Sequence[str], log: Path, variables: Mapping[str, str] | None = None
) -> Popen[bytes]:
    """Starts a trusted program that writes its output to the file `log`.

    The program gets SIGTERM when this process ends. `variables` are added to its environment.
    """

    def start_it() -> Popen[bytes]:
        with log.open("wb") as file:
            return start(
                ["setpriv", "--pdeathsig", "TERM", "--", *argv],
                variables=variables,
                also=_OF_PODMAN,
                stdin=DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    return _spawner().submit(start_it).result()


def clean_environment(folder: Path) -> dict[str, str]:
    """Returns the environment variables for a command in a sandbox; only PATH is the host's."""
    temp = folder / "tmp"
    return {
        "PATH": f"{folder / 'bin'}:{os.environ.get('PATH', os.defpath)}",
        "HOME": str(temp),
        "TMPDIR": str(temp),
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def kill_tree(child: Popen[bytes] | Forked) -> None:
    """Kills a sandbox's process and every process below it, and waits for its end."""
    if child.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(child.pid, signal.SIGSTOP)
    below = descendants(child.pid)
    for pid in [*below, child.pid]:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
