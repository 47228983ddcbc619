"""Runs commands inside a sandbox: each in its own session, with capped output and a certain end."""

from __future__ import annotations

import base64
import contextlib
import errno
import os
import select
import signal
import time
from collections.abc import Iterator, Mapping

from meta_agent.core.sandbox.inside.frames import CHUNK_BYTES, Json
from meta_agent.core.sandbox.inside.processes import (
    CpuMeter,
    kill_descendants,
    oom_kills,
    step_down,
)

# A command's pipes may stay open after its end (`cmd > >(tee log)`): this long, then who holds
# them dies.
LINGER_SEC = 0.2
CPU_LOOK_SEC = 0.05


class CappedOutput:
    """Keeps the first and the last half of `limit` bytes of a stream of any length."""

    def __init__(self, limit: int) -> None:
        self._head_limit, self._tail_limit = limit - limit // 2, limit // 2
        self._head, self._tail, self.total = bytearray(), bytearray(), 0

    def feed(self, chunk: bytes) -> None:
        self.total += len(chunk)
        room = self._head_limit - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if len(self._tail) > 2 * self._tail_limit + CHUNK_BYTES:
            self._trim()

    def _trim(self) -> None:
        del self._tail[: len(self._tail) - self._tail_limit]

    @property
    def truncated(self) -> bool:
        return self.total > self._head_limit + self._tail_limit

    def value(self) -> bytes:
        if not self.truncated:
            return bytes(self._head + self._tail)
        self._trim()
        omitted = self.total - len(self._head) - len(self._tail)
        return bytes(self._head) + b"\n[... %d bytes omitted ...]\n" % omitted + bytes(self._tail)


class Command:
    """One running command in its own session: its pipes, its limits and its result."""

    def __init__(self, args: dict[str, Json]) -> None:
        self._started = time.monotonic()
        self._deadline = self._started + args["timeout_sec"]
        self._out = CappedOutput(args["output_limit_bytes"])
        self._err = CappedOutput(args["output_limit_bytes"])
        self._stdin = memoryview(base64.b64decode(args["stdin"]))
        self._status: int | None = None
        self._cpu, self._cpu_sec = CpuMeter(), args.get("cpu_sec")
        self.timed_out = self._spent = False
        self._spawn(args)

    def _spawn(self, args: dict[str, Json]) -> None:
        stdin, self._feed = os.pipe() if self._stdin else (os.open("/dev/null", os.O_RDONLY), -1)
        self._out_fd, out = os.pipe()
        self._err_fd, err = os.pipe()
        try:
            self.pid = spawn(args["argv"], args["cwd"], args["env"], (stdin, out, err))
        except BaseException:
            self._close(self._feed, self._out_fd, self._err_fd)
            raise
        finally:
            self._close(stdin, out, err)
        self._open = {self._out_fd: self._out, self._err_fd: self._err}
        for fd in (self._out_fd, self._err_fd, self._feed):
            if fd >= 0:
                os.set_blocking(fd, False)

    @staticmethod
    def _close(*fds: int) -> None:
        for fd in fds:
            if fd >= 0:
                os.close(fd)

    def run(self) -> dict[str, Json]:
        with exit_watch(self.pid) as watch:
            self._pump(watch)
        self._spent = self._spent or self._is_spent()  # what is dead by now is counted as well
        if self._status is None:
            self.timed_out = not self._spent
            self._kill()
        elif self._open:
            self._drain_until(time.monotonic() + LINGER_SEC)
        kill_descendants()
        self._drain_until(time.monotonic() + LINGER_SEC)
        self._close(self._feed, *self._open)
        return self._result()

    def _is_spent(self) -> bool:
        return self._cpu_sec is not None and self._cpu.used_sec() > self._cpu_sec

    def _pump(self, watch: int) -> None:
        """Moves bytes until the command ends (its pipes may stay open) or a limit is reached."""
        look = time.monotonic()
        waiter = select.poll()
        for fd in (*self._open, watch):
            if fd >= 0:
                waiter.register(fd, select.POLLIN)
        if self._feed >= 0:
            waiter.register(self._feed, select.POLLOUT)
        while self._status is None:
            now = time.monotonic()
            remaining_sec = self._deadline - now
            if self._cpu_sec is not None and now >= look:
                self._spent, look = self._is_spent(), now + CPU_LOOK_SEC
            if remaining_sec <= 0 or self._spent:
                return
            # Without a pidfd an end with open pipes is only found by looking.
            remaining_sec = remaining_sec if watch >= 0 else min(remaining_sec, 0.01)
            remaining_sec = (
                remaining_sec if self._cpu_sec is None else min(remaining_sec, CPU_LOOK_SEC)
            )
            ready = waiter.poll(remaining_sec * 1000)
            for fd, _ in ready:
                self._step(waiter, fd)
            if not ready or any(fd == watch for fd, _ in ready) or not self._open:
                self._reap(block=False)

    def _step(self, waiter: select.poll, fd: int) -> None:
        finished = (fd == self._feed and self._feed_more()) or (
            fd in self._open and not self._take(fd)
        )
        if finished:
            waiter.unregister(fd)
            os.close(fd)
            self._open.pop(fd, None)
            self._feed = -1 if fd == self._feed else self._feed

    def _feed_more(self) -> bool:
        try:
            self._stdin = self._stdin[os.write(self._feed, self._stdin[:CHUNK_BYTES]) :]
        except BlockingIOError:
            return False
        except BrokenPipeError:
            return True
        return not self._stdin

    def _take(self, fd: int) -> bool:
        """Reads once from a pipe. Returns False at the end of the stream."""
        try:
            chunk = os.read(fd, CHUNK_BYTES)
        except BlockingIOError:
            return True
        self._open[fd].feed(chunk)
        return bool(chunk)

    def _drain_until(self, deadline: float) -> None:
        waiter = select.poll()
        for fd in self._open:
            waiter.register(fd, select.POLLIN)
        while self._open and (remaining_sec := deadline - time.monotonic()) > 0:
            for fd, _ in waiter.poll(remaining_sec * 1000):
                self._step(waiter, fd)

    def _reap(self, block: bool) -> None:
        pid, status = os.waitpid(self.pid, 0 if block else os.WNOHANG)
        if pid:
            self._status = status

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._reap(block=True)

    def _result(self) -> dict[str, Json]:
        code = -signal.SIGXCPU if self._spent else os.waitstatus_to_exitcode(self._status or 0)
        return {
            "exit_code": code if code >= 0 else 128 - code,
            "stdout": base64.b64encode(self._out.value()).decode(),
            "stderr": base64.b64encode(self._err.value()).decode(),
            "timed_out": self.timed_out,
            "truncated": self._out.truncated or self._err.truncated,
            "duration_sec": time.monotonic() - self._started,
            "oom": code == -signal.SIGKILL and not self.timed_out and oom_kills.rose(),
        }


def spawn(argv: list[str], cwd: str, env: Mapping[str, str], stdio: tuple[int, int, int]) -> int:
    """Starts a program in a new session, as the stranger (the sandbox's user for untrusted code).

    Returns its process id. Raises OSError if the program cannot be started.
    """
    answer, say = os.pipe()
    pid = os.fork()
    if pid == 0:
        become(argv, cwd, {**os.environ, **env}, stdio, say)
    os.close(say)
    try:
        number, _, path = os.read(answer, CHUNK_BYTES).partition(b" ")
    finally:
        os.close(answer)
    if number:
        os.waitpid(pid, 0)
        raise OSError(int(number), os.strerror(int(number)), os.fsdecode(path))
    return pid


def become(
    argv: list[str], cwd: str, env: Mapping[str, str], stdio: tuple[int, int, int], say: int
) -> None:
    """Turns the forked child into the program, or writes the error to the pipe `say` and exits."""
    number, path = errno.EINVAL, argv[0]  # a name with a zero byte in it
    try:
        os.setsid()
        step_down()
        os.chdir(cwd)
        for target, fd in enumerate(stdio):
            os.dup2(fd, target)
        for number_of_signal in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number_of_signal, signal.SIG_DFL)
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        number, path = error.errno or errno.EINVAL, str(error.filename or path)
    finally:
        os.write(say, b"%d %s" % (number, os.fsencode(path)[:4000]))
        os._exit(126)


@contextlib.contextmanager
def exit_watch(pid: int) -> Iterator[int]:
    """Yields a descriptor that is readable once `pid` ended, or -1 if the kernel offers none."""
    try:
        watch = os.pidfd_open(pid)
    except (OSError, AttributeError):
        watch = -1
    try:
        yield watch
    finally:
        if watch >= 0:
            os.close(watch)


def run_command(args: dict[str, Json]) -> dict[str, Json]:
    """Runs a command and returns its result. The exit code 127 or 126 says that it cannot start."""
    started = time.monotonic()
    try:
        command = Command(args)
    except (OSError, ValueError) as error:
        code = 127 if getattr(error, "errno", None) == errno.ENOENT else 126
        text = base64.b64encode(f"cannot run {args['argv'][0]}: {error}\n".encode()).decode()
        return {
            "exit_code": code,
            "stdout": "",
            "stderr": text,
            "timed_out": False,
            "truncated": False,
            "duration_sec": time.monotonic() - started,
            "oom": False,
        }
    return command.run()
