"""The program inside every sandbox: runs commands, moves files, hosts guest modules.

One stdlib-only file. The host streams it to a bare Python over the pipe, so no image can hold a
stale copy and nothing needs to be installed.

Promises: frames travel on private descriptors, which no other process can open; guest modules run
in a process of their own, and where this one may become another user (`STRANGER`, given by the
container) they, all commands and all access to files have that user, who can neither signal nor
look into this process; a command that runs out of time, wall clock or the processors' in sum, dies
with everything it started, also what left its session; nothing that a command started outlives it;
output is read to its end and capped; reads touch regular files only.

Does not cover: without another user, signals from commands; there, processor time of children that
are gone before anyone looks and whose parents ignore their end. The host treats every frame as
hostile, and the container or the jail around this process is the wall.
"""

# Not pathlib: what this imports is paid for at every start.
# ruff: noqa: PTH109, PTH123, PTH208

from __future__ import annotations

import base64
import contextlib
import ctypes
import errno
import json
import linecache
import os
import re
import select
import signal
import stat
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

PROTOCOL = 1
FRAME_LIMIT_BYTES = 64 << 20
CHUNK_BYTES = 1 << 16
# A command's pipes may stay open after its end (`cmd > >(tee log)`): this long, then who holds
# them dies.
LINGER_SEC = 0.2
KILL_PATIENCE_SEC = 20.0
STDERR_TAIL_BYTES = 16 << 10
EXIT_UNKILLABLE = 71
CPU_LOOK_SEC = 0.05
TICKS_A_SEC = os.sysconf("SC_CLK_TCK")
PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER = 4, 24, 36
CAPABILITIES = 64
CAPABILITY_VERSION_3 = 0x20080522
STRANGER: int | None = globals().get("STRANGER")
libc = ctypes.CDLL(None)

Json = Any


# --- frames ------------------------------------------------------------------------------------


class Pipe:
    """Length-prefixed frames over two private descriptors: a line of JSON each.

    What the host sends after that line, raw bytes, becomes the message's `attached`.
    While a write waits for room, arriving bytes are taken in, so that host and guest can both
    write large frames at the same moment without a deadlock.
    """

    def __init__(self, source: int, sink: int) -> None:
        self.source, self._sink = source, sink
        self._inbox = bytearray()
        self.later: list[bytes] = []  # requests sent ahead that a guest operation came across
        self._write_lock = threading.Lock()  # whole frames only, from whichever thread
        os.set_blocking(sink, False)

    def send(self, message: Json) -> None:
        self.put(wire(message))

    def put(self, body: bytes) -> None:
        """Sends a frame as it is."""
        if len(body) > FRAME_LIMIT_BYTES:
            raise ValueError(f"a frame of {len(body)} bytes exceeds {FRAME_LIMIT_BYTES}")
        with self._write_lock:
            self._write(memoryview(len(body).to_bytes(4, "little") + body))

    def receive(self, timeout_sec: float | None = None) -> Json:
        """Returns the next frame; None when time is up. Raises EOFError when the host is gone."""
        deadline = None if timeout_sec is None else time.monotonic() + timeout_sec
        while (frame := self.take()) is None:
            if deadline is not None and not self._readable(max(0.0, deadline - time.monotonic())):
                return None
            self.fill()
        return parsed(frame)

    def _write(self, data: memoryview) -> None:
        while data:
            try:
                data = data[os.write(self._sink, data) :]
            except BlockingIOError:
                self._wait_for_room()

    def _wait_for_room(self) -> None:
        waiter = select.poll()
        waiter.register(self._sink, select.POLLOUT)
        waiter.register(self.source, select.POLLIN)
        if any(fd == self.source for fd, _ in waiter.poll()):
            self.fill()

    def _readable(self, timeout_sec: float) -> bool:
        waiter = select.poll()
        waiter.register(self.source, select.POLLIN)
        return bool(waiter.poll(timeout_sec * 1000))

    def fill(self) -> None:
        """Takes in what has arrived, and waits where there is nothing."""
        chunk = os.read(self.source, CHUNK_BYTES)
        if not chunk:
            raise EOFError
        self._inbox += chunk

    def take(self) -> bytes | None:
        """The next frame as it came; None before all of it is here."""
        if len(self._inbox) < 4:
            return None
        end = 4 + int.from_bytes(self._inbox[:4], "little")
        if len(self._inbox) < end:
            return None
        with memoryview(self._inbox) as inbox:  # a large frame is copied once
            frame = bytes(inbox[4:end])
        del self._inbox[:end]
        return frame


def parsed(frame: bytes) -> Json:
    """The line of JSON, with what is attached to it."""
    line, _, attached = frame.partition(b"\n")
    message = json.loads(line)
    return {**message, "attached": attached} if attached else message


def wire(message: Json) -> bytes:
    """A frame's text: ASCII, finite numbers, and "?" for halves of surrogate pairs."""
    text = json.dumps(message, separators=(",", ":"), allow_nan=False)
    if "\\ud" in text:
        whole = json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")
        text = json.dumps(json.loads(whole), separators=(",", ":"))
    return text.encode()


class Channel:
    """What a guest operation gets: a way to ask the host in the middle of its work."""

    def __init__(self, pipe: Pipe, request_id: int) -> None:
        self._pipe, self._id, self._next_cid = pipe, request_id, 0

    def calls(self, calls: Sequence[dict[str, Json]]) -> list[int]:
        """Sends calls in one frame and returns their `cid`s, given where missing; does not wait."""
        numbered = [self._numbered(call) for call in calls]
        self._pipe.send({"id": self._id, "calls": numbered})
        return [call["cid"] for call in numbered]

    @staticmethod
    def cpu_meter() -> CpuMeter:
        """Measures from now on what everything below this process uses."""
        return CpuMeter()

    def wait(self, timeout_sec: float | None = None) -> list[dict[str, Json]]:
        """Blocks for the next answers: `[{"cid", "ok"} or {"cid", "err"}]`; empty if time is up.

        The host groups answers as it likes: one frame may answer a part of one `calls`, or parts
        of several.
        """
        while (frame := self._pipe.receive(timeout_sec)) is not None:
            if frame["id"] == self._id:  # else a late answer to an operation that is over
                answers: list[dict[str, Json]] = frame["answers"]
                return answers
        return []

    def _numbered(self, call: dict[str, Json]) -> dict[str, Json]:
        if "cid" in call:
            self._next_cid = max(self._next_cid, call["cid"] + 1)
            return call
        self._next_cid += 1
        return {"cid": self._next_cid - 1, **call}


# --- commands ----------------------------------------------------------------------------------


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
    """One child in a session of its own, its pipes, and its end."""

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
        """Moves bytes until the command has ended (its pipes may still be open) or time is up."""
        look = time.monotonic()
        waiter = select.poll()
        for fd in (*self._open, watch):
            if fd >= 0:
                waiter.register(fd, select.POLLIN)
        if self._feed >= 0:
            waiter.register(self._feed, select.POLLOUT)
        while self._status is None:
            now = time.monotonic()
            left = self._deadline - now
            if self._cpu_sec is not None and now >= look:
                self._spent, look = self._is_spent(), now + CPU_LOOK_SEC
            if left <= 0 or self._spent:
                return
            # Without a pidfd an end with open pipes is only found by looking.
            left = left if watch >= 0 else min(left, 0.01)
            left = left if self._cpu_sec is None else min(left, CPU_LOOK_SEC)
            ready = waiter.poll(left * 1000)
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
        """Reads once; False at the end of the stream."""
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
        while self._open and (left := deadline - time.monotonic()) > 0:
            for fd, _ in waiter.poll(left * 1000):
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
    """Starts a program in a new session, as the stranger."""
    said, say = os.pipe()
    pid = os.fork()
    if pid == 0:
        become(argv, cwd, {**os.environ, **env}, stdio, say)
    os.close(say)
    try:
        number, _, path = os.read(said, CHUNK_BYTES).partition(b" ")
    finally:
        os.close(said)
    if number:
        os.waitpid(pid, 0)
        raise OSError(int(number), os.strerror(int(number)), os.fsdecode(path))
    return pid


def become(
    argv: list[str], cwd: str, env: Mapping[str, str], stdio: tuple[int, int, int], say: int
) -> None:
    """The child up to its program; says by its number why it did not get there."""
    number, path = errno.EINVAL, argv[0]  # a name with a zero byte in it
    try:
        os.setsid()
        step_down()
        os.chdir(cwd)
        for target, fd in enumerate(stdio):
            os.dup2(fd, target)
        for one in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(one, signal.SIG_DFL)
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        number, path = error.errno or errno.EINVAL, str(error.filename or path)
    finally:
        os.write(say, b"%d %s" % (number, os.fsencode(path)[:4000]))
        os._exit(126)


def step_down() -> None:
    """This process becomes the stranger, with no right left and none to gain."""
    if STRANGER is None:
        return
    for capability in range(CAPABILITIES):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # refused past the last one: fine
    os.setgroups([])
    os.setresgid(STRANGER, STRANGER, STRANGER)
    os.setresuid(STRANGER, STRANGER, STRANGER)
    none = (ctypes.c_uint32 * 6)()
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    if libc.capset(header, none) != 0:
        raise OSError(errno.EPERM, "cannot give up capabilities")


@contextlib.contextmanager
def as_stranger() -> Iterator[None]:
    """Files are reached with the stranger's rights, and are the stranger's."""
    if STRANGER is None:
        yield
        return
    libc.setfsgid(STRANGER)
    libc.setfsuid(STRANGER)
    try:
        yield
    finally:
        libc.setfsuid(os.getuid())
        libc.setfsgid(os.getgid())


class CpuMeter:
    """Processor time that everything below this process has used since, in sum.

    In a container its group counts. Elsewhere the larger of two: what the dead who were waited for
    and the living have used, and what was seen of every one of them while it lived.
    """

    GROUPS = (
        ("/sys/fs/cgroup/cpuacct/cpuacct.usage", r"(\d+)", 1e9),
        ("/sys/fs/cgroup/cpu.stat", r"usage_usec (\d+)", 1e6),
    )

    def __init__(self) -> None:
        self._own: dict[int, int] = {}
        self._seen = 0
        self._before = self._group() or self._waited_for()
        self._seen = 0

    def used_sec(self) -> float:
        group = self._group()
        if group is not None:
            return group - self._before
        return max(self._waited_for() - self._before, self._seen / TICKS_A_SEC)

    def _group(self) -> float | None:
        for path, pattern, unit in self.GROUPS if STRANGER is not None else ():
            with contextlib.suppress(OSError), open(path) as file:
                if found := re.search(pattern, file.read()):
                    return int(found[1]) / unit - time.process_time()
        return None

    def _waited_for(self) -> float:
        times, living = os.times(), 0
        for pid in descendants(os.getpid()):
            own, waited_for = cpu_ticks(pid)
            living += own + waited_for
            self._seen += max(0, own - self._own.get(pid, 0))
            self._own[pid] = own
        return times.children_user + times.children_system + living / TICKS_A_SEC


def cpu_ticks(pid: int) -> tuple[int, int]:
    """What a process has used, and those that it waited for; nothing once it is gone."""
    user, system, *waited_for = [int(field) for field in stat_of(pid)[11:15]] or [0, 0]
    return user + system, sum(waited_for)


@contextlib.contextmanager
def exit_watch(pid: int) -> Iterator[int]:
    """A descriptor that is readable once `pid` ended, or -1 where the kernel refuses."""
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
    """Runs one command; one that cannot start ends as in a shell: 127 not found, 126 refused."""
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


class OomCounter:
    """Kills by the kernel in this container's memory group (v2, then v1)."""

    FILES = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")

    def __init__(self) -> None:
        self._seen = self._count()

    def rose(self) -> bool:
        before, self._seen = self._seen, self._count()
        return self._seen > before

    def _count(self) -> int:
        for path in self.FILES:
            with contextlib.suppress(OSError), open(path) as lines:
                for line in lines:
                    if line.startswith("oom_kill "):
                        return int(line.split()[1])
        return 0


def kill_descendants() -> None:
    """Kills and reaps whatever is left below this process, which adopts every orphan.

    But for the process of guest modules; what that one started does not survive the next command.
    """
    give_up = time.monotonic() + KILL_PATIENCE_SEC
    while left := [pid for pid in living() if pid != Guest.pid]:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > give_up:
            os._exit(EXIT_UNKILLABLE)  # the wall around us goes down with us: nothing leaks


def living() -> list[int]:
    """Every process below this one that is not dead; reaps our own dead."""
    try:
        while (pid := os.waitpid(-1, os.WNOHANG)[0]) and pid != Guest.pid:
            pass
    except ChildProcessError:
        return []
    return [pid for pid in descendants(os.getpid()) if stat_of(pid)[:1] not in ([], [b"Z"])]


def descendants(root: int) -> list[int]:
    """Every process below `root`, by one pass over /proc."""
    parents = {int(name): parent_of(name) for name in os.listdir("/proc") if name.isdigit()}
    found: list[int] = []
    frontier = {root}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier}
        found.extend(frontier)
    return found


def parent_of(pid: str) -> int:
    """The parent of a process; -1 once it is gone."""
    return int((stat_of(int(pid))[1:2] or [b"-1"])[0])


def stat_of(pid: int) -> list[bytes]:
    """The fields of `/proc/PID/stat` from its state on; none once it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


# --- files -------------------------------------------------------------------------------------


@contextlib.contextmanager
def parent_directory(path: str, create: bool) -> Iterator[tuple[int, str]]:
    """Opens a path's directory step by step, never through a link; yields it and the last name."""
    *folders, name = [part for part in path.split("/") if part not in ("", ".")] or [""]
    if path.startswith("/") or ".." in (*folders, name) or not name:
        raise ValueError(f"not a path inside the work directory: {path!r}")
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    here = os.open(WORK_DIR, flags)
    try:
        for folder in folders:
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(folder, dir_fd=here)
            inner = os.open(folder, flags, dir_fd=here)
            os.close(here)
            here = inner
        yield here, name
    finally:
        os.close(here)


def write_files(args: dict[str, Json]) -> None:
    """Writes new files, never through what stood at their paths."""
    mode = 0o755 if args["executable"] else 0o644
    for path, content in args["files"].items():
        with parent_directory(path, create=True) as (folder, name):
            # A fresh file each time: whatever stood there (link, FIFO) is not written through.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(name, flags, mode, dir_fd=folder), "wb") as file:
                file.write(base64.b64decode(content))


def read_files(args: dict[str, Json]) -> dict[str, str]:
    """Reads what is a regular file; one size limit for all of them."""
    left, found = args["limit_bytes"], {}
    for path in args["paths"]:
        content = read_regular(path, left)
        if content is not None:
            left -= len(content)
            found[path] = base64.b64encode(content).decode()
    return found


def read_regular(path: str, limit: int) -> bytes | None:
    """The content of a regular file; None for anything else, and for a path through a link."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    try:
        with parent_directory(path, create=False) as (folder, name):
            descriptor = os.open(name, flags, dir_fd=folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            return None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise ValueError(f"{path}: the files asked for exceed the limit by at least one byte")
    return content


# --- guest modules and the main loop -----------------------------------------------------------

OWN_OPERATIONS = frozenset({"hello", "exec", "write", "read", "install"})
REQUEST = re.compile(rb'\{"id":(\d+),"op":"([^"\\]*)"')  # as the host writes it
MAX_DESCRIPTORS = 4096


class StderrTail:
    """Takes descriptors 1 and 2 of guest code and keeps the last bytes, for error reports."""

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
    """Serves requests one at a time until the host closes the pipe."""

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
                found = REQUEST.match(frame)
                if found and found[2].decode() in self._builtin:
                    answer(self._pipe, self._tail, parsed(frame), self._perform)
                elif found:  # else a late answer to an operation that is over
                    self._relay(frame, int(found[1]))

    def _next(self) -> bytes:
        while (frame := self._pipe.take()) is None:
            self._pipe.fill()
        return frame

    def _perform(self, frame: dict[str, Json]) -> Json:
        return self._builtin[frame["op"]](frame["args"])

    def _relay(self, request: bytes, number: int) -> None:
        """Passes frames to and fro until the guest has replied. Nothing of them is read here."""
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
    """The process in which guest modules run."""

    pid = -1  # of the one there is

    def __init__(self) -> None:
        source, to = os.pipe()
        back, sink = os.pipe()
        Guest.pid = os.fork()
        if Guest.pid == 0:
            serve_modules(source, sink)
        os.close(source)
        os.close(sink)
        self.pipe = Pipe(back, to)

    def end(self) -> None:
        """The guest is gone, or else the host: so are we, as the guest ended."""
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
        status = 0
        with contextlib.suppress(ChildProcessError):
            status = os.waitpid(self.pid, 0)[1]
        code = os.waitstatus_to_exitcode(status)
        os._exit(code if code >= 0 else 128 - code)


def serve_modules(source: int, sink: int) -> None:
    """The life of the guest's process: nothing is open in it but its own pipe."""
    try:
        low, high = sorted((source, sink))
        for first, last in ((3, low), (low + 1, high), (high + 1, MAX_DESCRIPTORS)):
            os.closerange(first, last)
        step_down()
        settle()
        Guest.pid = -1
        Modules(Pipe(source, sink), StderrTail()).serve()
    finally:
        os._exit(0)


class Modules:
    """Serves what installed modules offer."""

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
            raise LookupError(f"no operation {name!r}; there are {sorted(self._operations)}")
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
            raise ValueError(f"the worker's own operations cannot be replaced: {sorted(taken)}")
        self._operations.update(operations)
        return sorted(operations)


def answer(
    pipe: Pipe, tail: StderrTail, frame: dict[str, Json], perform: Callable[[dict[str, Json]], Json]
) -> None:
    """Performs a request and sends what came of it."""
    try:
        pipe.send({"id": frame["id"], "ok": perform(frame)})
    except EOFError:
        raise
    except BaseException as error:  # also SystemExit: guest code must not end the worker
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        problem = {"type": type(error).__name__, "message": str(error)[:4000]}
        problem |= {"traceback": text[-16000:], "stderr": tail.text()}
        pipe.send({"id": frame["id"], "err": problem})


def hello(args: dict[str, Json]) -> dict[str, Json]:
    """What the host wants to know of the place."""
    return {
        "protocol": PROTOCOL,
        "python": list(sys.version_info[:3]),
        "work_dir": WORK_DIR,
        "isolation": globals().get("ISOLATION", []),
        "uid": os.getuid() if STRANGER is None else STRANGER,
    }


def die_with_host(source: int) -> None:
    """Ends everything once the host's end of the pipe is gone, also in the middle of guest code."""
    waiter = select.poll()
    waiter.register(source, 0)  # hang-up only
    waiter.poll()
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    os._exit(0)


def settle() -> None:
    """Orphans below come to us, and nobody of the same user may look into us."""
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def main() -> None:
    """Takes the frame descriptors away from guest code, then serves."""
    source, sink = os.dup(0), os.dup(1)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    tail = StderrTail()
    settle()
    threading.Thread(target=die_with_host, args=(source,), daemon=True).start()
    Worker(Pipe(source, sink), tail).serve()
    os._exit(0)


WORK_DIR = os.getcwd()
oom_kills = OomCounter()

if __name__ == "__main__":
    main()
