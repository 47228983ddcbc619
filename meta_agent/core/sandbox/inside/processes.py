"""Processes inside a sandbox: their users, their processor time, and the end of orphans."""

# Not pathlib: what this imports is paid for at every start.
# ruff: noqa: PTH123, PTH208

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import resource
import signal
import time
from collections.abc import Iterator

KILL_PATIENCE_SEC = 20.0
EXIT_UNKILLABLE = 71
TICKS_A_SEC = os.sysconf("SC_CLK_TCK")
PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER = 4, 24, 36
CAPABILITIES = 64
CAPABILITY_VERSION_3 = 0x20080522
libc = ctypes.CDLL(None)


class Here:
    """What this process knows of its sandbox: folder, users, limits and protections."""

    work_dir = ""
    """The path of this sandbox's work folder, as seen inside."""
    stranger: int | None = None
    """The user that untrusted code runs as, or None if this process cannot change users."""
    contained = False
    """Whether the visible control group belongs to this sandbox alone."""
    limits: dict[str, int] = {}  # noqa: RUF012 - set once, before anything runs
    """The limits of each untrusted process, by the names of RLIMIT_*."""
    fences: tuple[str, ...] = ()
    guest = -1
    """The id of the process that runs guest modules and outlives commands; -1 without one."""


def step_down() -> None:
    """Makes this process the stranger (the user for untrusted code) without any right to go back.

    Does nothing if there is no stranger. Raises OSError if the capabilities cannot be given up.
    """
    if Here.stranger is None:
        return
    for name, value in Here.limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))
    for capability in range(CAPABILITIES):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # refused past the last one: fine
    os.setgroups([])
    os.setresgid(Here.stranger, Here.stranger, Here.stranger)
    os.setresuid(Here.stranger, Here.stranger, Here.stranger)
    none = (ctypes.c_uint32 * 6)()
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    if libc.capset(header, none) != 0:
        raise OSError(errno.EPERM, "cannot give up capabilities")


@contextlib.contextmanager
def as_stranger() -> Iterator[None]:
    """Opens and creates files as the user for untrusted code, inside the `with` block."""
    if Here.stranger is None:
        yield
        return
    libc.setfsgid(Here.stranger)
    libc.setfsuid(Here.stranger)
    try:
        yield
    finally:
        libc.setfsuid(os.getuid())
        libc.setfsgid(os.getgid())


class CpuMeter:
    """Sums the processor time that all processes below this one have used since it was created.

    In a container the control group's clock is read. Elsewhere it takes the larger of two sums: the
    time of living processes and of dead ones that were waited for, and the time observed of each
    process while it lived.
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
        for path, pattern, unit in self.GROUPS if Here.contained else ():
            with contextlib.suppress(OSError), open(path) as file:
                if match := re.search(pattern, file.read()):
                    return int(match[1]) / unit - time.process_time()
        return None

    def _waited_for(self) -> float:
        times, living = os.times(), 0
        for pid in descendants(os.getpid()):
            ticks, waited_for = cpu_ticks(pid)
            living += ticks + waited_for
            self._seen += max(0, ticks - self._own.get(pid, 0))
            self._own[pid] = ticks
        return times.children_user + times.children_system + living / TICKS_A_SEC


def cpu_ticks(pid: int) -> tuple[int, int]:
    """Returns the clock ticks of a process and of its reaped children; (0, 0) if it is gone."""
    user, system, *waited_for = [int(field) for field in stat_of(pid)[11:15]] or [0, 0]
    return user + system, sum(waited_for)


class OomCounter:
    """Watches the kernel's count of out-of-memory kills in this container's memory group."""

    FILES = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")

    def __init__(self) -> None:
        self._seen = 0

    def rose(self) -> bool:
        before, self._seen = self._seen, self._count()
        return self._seen > before

    def _count(self) -> int:
        for path in self.FILES if Here.contained else ():
            with contextlib.suppress(OSError), open(path) as lines:
                for line in lines:
                    if line.startswith("oom_kill "):
                        return int(line.split()[1])
        return 0


def kill_descendants() -> None:
    """Kills and reaps every process below this one, orphans included.

    The process of guest modules is spared, but what it started is killed too.
    """
    give_up = time.monotonic() + KILL_PATIENCE_SEC
    while alive := [pid for pid in living() if pid != Here.guest]:
        for pid in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > give_up:
            os._exit(EXIT_UNKILLABLE)  # the wall around us goes down with us: nothing leaks


def living() -> list[int]:
    """Returns the ids of all processes below this one that still run; reaps the dead ones."""
    try:
        while (pid := os.waitpid(-1, os.WNOHANG)[0]) and pid != Here.guest:
            pass
    except ChildProcessError:
        return []
    return [pid for pid in descendants(os.getpid()) if stat_of(pid)[:1] not in ([], [b"Z"])]


def descendants(root: int) -> list[int]:
    """Returns the ids of all processes below `root`, by one pass over /proc."""
    parents = {int(name): parent_of(name) for name in os.listdir("/proc") if name.isdigit()}
    below: list[int] = []
    frontier = {root}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier}
        below.extend(frontier)
    return below


def parent_of(pid: str) -> int:
    """Returns the id of a process's parent, or -1 once the process is gone."""
    return int((stat_of(int(pid))[1:2] or [b"-1"])[0])


def stat_of(pid: int) -> list[bytes]:
    """Returns the fields of `/proc/PID/stat` from the state on, or [] once the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def settle() -> None:
    """Makes this process adopt orphans below it, and hides it from other processes of its user."""
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


oom_kills = OomCounter()
