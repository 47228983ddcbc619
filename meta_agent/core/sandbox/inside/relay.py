"""Starts a worker where the host can only run commands, and passes its bytes on through files.

The host writes `in.0`, `in.1`, ... into a folder that only root may enter, and this process removes
each when the worker has it. It writes `out.0`, `out.1`, ..., which the host removes, and at the end
`code`: the worker's exit code, or `oom` if the kernel killed something in this container for
memory. `sandboxes._bridge` is the other side.
Promises: A file appears whole. The worker can gain no rights. It ends at its deadline, and once the
host has not touched `alive` for SILENCE_SEC, because then the host is gone.
Does not cover: the end of the container, which is the service's to end.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time

SILENCE_SEC = 120.0
GRACE_SEC = 3.0
LOOK_MS, MORE_SEC = 20, 0.01
READ_BYTES, PART_BYTES, MOST_PARTS = 1 << 20, 4 << 20, 8
PR_SET_NO_NEW_PRIVS = 38


class Relay:
    """Moves bytes between the host's files in a folder and the pipes of the worker program."""

    def __init__(self, folder: str, worker: int, to: int, source: int, contained: bool) -> None:
        self._folder, self._worker, self._to, self._source = folder, worker, to, source
        self._contained = contained
        self._taken = self._written = 0
        self._waiting = memoryview(b"")
        os.set_blocking(to, False)

    def run(self, deadline: float) -> str:
        """Moves bytes until the worker ends or is killed at `deadline`; returns its exit code."""
        while self._write_output():
            self._read_input()
            if time.monotonic() > deadline or self._is_silent():
                os.close(self._to)  # at the hang-up the worker ends all that it started, and itself
                time.sleep(GRACE_SEC)
                os.kill(self._worker, signal.SIGKILL)
                return "137"
        code = os.waitstatus_to_exitcode(os.waitpid(self._worker, 0)[1])
        code = code if code >= 0 else 128 - code
        return "oom" if code == 137 and self._contained and oom_kills() else str(code)

    def _is_silent(self) -> bool:
        touched = os.stat(f"{self._folder}/alive").st_mtime  # noqa: PTH116 - pathlib starts slowly
        return time.time() - touched > SILENCE_SEC

    def _read_input(self) -> None:
        """Writes to the worker what it takes now. A worker that ended takes everything."""
        if not self._waiting:
            path = f"{self._folder}/in.{self._taken}"
            with contextlib.suppress(FileNotFoundError):
                with open(path, "rb") as file:  # noqa: PTH123
                    self._waiting = memoryview(file.read())
                os.unlink(path)  # noqa: PTH108
                self._taken += 1
        try:
            while self._waiting:
                self._waiting = self._waiting[os.write(self._to, self._waiting) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._waiting = self._waiting[:0]

    def _write_output(self) -> bool:
        """Puts what the worker has written into a file. Returns False at the end of its output."""
        oldest = self._written - MOST_PARTS
        if oldest >= 0 and os.path.exists(f"{self._folder}/out.{oldest}"):  # noqa: PTH110
            time.sleep(LOOK_MS / 1000)  # the host is behind, so the worker has to wait
            return True
        poller, data, ended = select.poll(), bytearray(), False
        poller.register(self._source, select.POLLIN)
        if self._waiting:
            poller.register(self._to, select.POLLOUT)
        if self._source not in dict(poller.poll(LOOK_MS)):
            return True
        while (
            not ended
            and len(data) < PART_BYTES
            and select.select([self._source], [], [], MORE_SEC)[0]
        ):
            chunk = os.read(self._source, READ_BYTES)
            data += chunk
            ended = not chunk
        if data:
            write(f"{self._folder}/out.{self._written}", bytes(data))
            self._written += 1
        return not ended


def oom_kills() -> bool:
    """Returns True if the kernel killed a process of the visible control group for memory."""
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        with contextlib.suppress(OSError), open(path, encoding="ascii") as file:  # noqa: PTH123
            return any(line.startswith("oom_kill ") and line[9] != "0" for line in file)
    return False


def write(path: str, data: bytes) -> None:
    """Writes a file under another name and then renames it, so that nobody reads half of it."""
    with open(f"{path}.part", "wb") as file:  # noqa: PTH123
        file.write(data)
    os.rename(f"{path}.part", path)  # noqa: PTH104


def become_worker(folder: str, work: str, source: int, sink: int) -> None:
    """Replaces this process by the worker program, which reads `source` and writes to `sink`."""
    ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    errors = os.open(f"{folder}/errors", os.O_WRONLY | os.O_CREAT, 0o600)
    for descriptor, end in enumerate((source, sink, errors)):
        os.dup2(end, descriptor)
    os.chdir(work)
    with open(f"{folder}/program", encoding="utf-8") as file:  # noqa: PTH123
        program = file.read()
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        **{"HOME": "/tmp", "TMPDIR": "/tmp", "LANG": "C.UTF-8"},
        **{"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"},
    }
    os.execve(sys.executable, [sys.executable, "-s", "-u", "-c", program], environment)


def main(folder: str, work: str, deadline_sec: str, contained: str) -> None:
    """Starts the worker in the folder `work`, and leaves a relay behind that outlives this call.

    A `contained` that is not empty says that the visible control group is this sandbox's own.
    """
    os.makedirs(work, mode=0o755, exist_ok=True)  # noqa: PTH103
    write(f"{folder}/alive", b"")
    if os.fork():
        return
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    (theirs, to), (source, sink) = os.pipe(), os.pipe()
    worker = os.fork()
    if not worker:
        become_worker(folder, work, theirs, sink)
    os.close(theirs)
    os.close(sink)
    relay = Relay(folder, worker, to, source, bool(contained))
    write(f"{folder}/code", relay.run(time.monotonic() + float(deadline_sec)).encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
