"""Runs first in a process sandbox: limits, then as many kernel fences as this machine allows.

Sent over the pipe ahead of the worker. In a user namespace of its own (no root needed) it takes
away the network, the sight of other processes (and so of their environments), write access outside
the sandbox's folder, and all capabilities. The worker becomes PID 1 of a PID namespace: when it
ends, the kernel ends everything in it.

What could be fenced is told to the host by name (`ISOLATION`), never assumed: inside a container or
under a hardening policy the kernel may refuse all of it. Not covered: reading the user's files.
"""

# Not pathlib: what this imports is paid for at every start.
# ruff: noqa: PTH123

from __future__ import annotations

import array
import ctypes
import fcntl
import os
import resource
import signal
import socket
import struct
import sys
from typing import Any

CLONE_NEWNS, CLONE_NEWIPC = 0x00020000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE = 442, -100, 0x8000
MOUNT_ATTR_RDONLY = 1
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 24, 38
CAPABILITY_VERSION_3 = 0x20080522
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int) -> None:
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def limit_resources(limits: dict[str, Any]) -> None:
    """Caps one process each (memory, file size, open files); `pids` counts the user's processes."""
    memory = limits["memory_mb"] << 20
    wanted = {
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_FSIZE: limits["scratch_mb"] << 20,
        resource.RLIMIT_NOFILE: 1024,
        resource.RLIMIT_CORE: 0,
    }
    for name, value in wanted.items():
        hard = resource.getrlimit(name)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (value, value))


def enter_namespaces() -> None:
    uid, gid = os.getuid(), os.getgid()
    flags = CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC
    check(libc.unshare(flags))
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def raise_loopback() -> None:
    """The guest's own loopback (a relay for agents listens there); no other interface exists."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = array.array("B", struct.pack("16sh14x", b"lo", 0))
        fcntl.ioctl(sock, SIOCGIFFLAGS, request, True)
        flags = struct.unpack_from("h", request, 16)[0] | IFF_UP
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags))


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    check(libc.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode()))


def set_read_only(path: str, on: bool) -> None:
    attributes = struct.pack(
        "QQQQ", MOUNT_ATTR_RDONLY if on else 0, 0 if on else MOUNT_ATTR_RDONLY, 0, 0
    )
    check(
        libc.syscall(
            SYS_MOUNT_SETATTR, AT_FDCWD, path.encode(), AT_RECURSIVE, attributes, len(attributes)
        )
    )


def fence_files(folder: str) -> None:
    """Everything read-only but the two folders of this sandbox; only this namespace in /proc.

    /run is covered too: a read-only view still lets one connect to a socket that lies there, such
    as Docker's, which would be root on the machine.
    """
    writable = [f"{folder}/work", f"{folder}/tmp"]
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    for path in writable:
        mount(path, path, "", MS_BIND)
    set_read_only("/", True)
    for path in writable:
        set_read_only(path, False)
    # Read-only: for a real root user the files in /proc/sys are the machine's own.
    mount("proc", "/proc", "proc", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "size=64m")
    mount("tmpfs", "/run", "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV)
    os.chdir(writable[0])  # the working directory we came with lies on the mount below


def drop_privileges() -> None:
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    for capability in range(64):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # refused past the last one: fine
    header = struct.pack("Ii", CAPABILITY_VERSION_3, 0)
    check(libc.capset(header, struct.pack("6I", *[0] * 6)))


def die_with_parent() -> None:
    check(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))


def stand_guard(child: int) -> None:
    """The outer process: holds no fence of its own, passes on how the inner one ended."""
    for descriptor in (0, 1):
        os.close(descriptor)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os._exit(code if code >= 0 else 128 - code)


def fork_inside() -> None:
    """Returns in the child, PID 1 of the new namespace."""
    child = os.fork()
    if child:
        stand_guard(child)
    die_with_parent()


def fences_work(folder: str) -> bool:
    """Tries the whole sequence in a throw-away child: a half-entered jail is no place to go on."""
    child = os.fork()
    if child == 0:
        try:
            enter_namespaces()
            inner = os.fork()
            if inner == 0:
                fence_files(folder)
                drop_privileges()
                os._exit(0)
            os._exit(os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1]) and 1)
        except BaseException:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def enter(folder: str, limits: dict[str, Any]) -> list[str]:
    """Puts this process behind its fences; returns their names."""
    die_with_parent()
    fenced = fences_work(folder)
    if fenced:
        enter_namespaces()
        raise_loopback()
        fork_inside()
        fence_files(folder)
        drop_privileges()
    else:
        check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    limit_resources(limits)
    os.umask(0o077)
    sys.stdout.flush()
    return ["network", "processes", "files", "capabilities"] if fenced else []
