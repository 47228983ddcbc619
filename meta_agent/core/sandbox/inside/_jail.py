"""Runs first in a process sandbox: limits, then as many kernel fences as this machine allows.

In a user namespace of its own (no root needed) it takes away the network, the sight of other
processes (and so of their environments), write access outside the sandbox's folder, and all
capabilities. The worker becomes PID 1 of a PID namespace: when it ends, the kernel ends everything
in it. Temporary files, devices and /run are its own.

Whoever starts it as root gets a second user in that namespace, drawn for this sandbox, whom all
that is untrusted becomes (`processes.step_down`); the worker keeps the right to do that and to end
what that one runs. Folders that only root may pass are covered, but for the interpreter.

What could be fenced is told to the host by name (`ISOLATION`), never assumed: inside a container or
under a hardening policy the kernel may refuse all of it. Not covered: reading what the sandbox's
user may read, and a service that starts to listen on a socket file after the sandbox was opened.
"""

# Not pathlib: the kernel knows names.
# ruff: noqa: PTH101, PTH102, PTH103, PTH110, PTH112, PTH114, PTH116, PTH120, PTH123, PTH211

from __future__ import annotations

import array
import ctypes
import errno
import fcntl
import os
import resource
import signal
import stat
import struct
import sys
from typing import Any, NamedTuple

CLONE_NEWNS, CLONE_NEWIPC = 0x00020000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE = 442, -100, 0x8000
MOUNT_ATTR_RDONLY = 1
COVERED = ("/tmp", "/var/tmp", "/run", "/dev")
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 24, 38
STEPPING_DOWN = (5, 6, 7, 8)  # capabilities: to end others, and to become another user for good
CAPABILITY_VERSION_3 = 0x20080522
AF_INET, SOCK_DGRAM = 2, 2
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1

libc = ctypes.CDLL(None, use_errno=True)
WORKED: set[tuple[str, bool, bool]] = set()


class Plan(NamedTuple):
    """What one jail is made of."""

    folder: str
    kept: list[str]  # what stays in sight wherever it lies: the interpreter and its packages
    sockets: list[str]
    stranger: int | None


def check(result: int) -> None:
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def limit_resources(limits: dict[str, Any], stranger: int | None) -> None:
    """Caps one process each (memory, file size, open files), and a user of its own in number."""
    memory = limits["memory_mb"] << 20
    wanted = {
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_FSIZE: limits["scratch_mb"] << 20,
        resource.RLIMIT_NOFILE: 1024,
        resource.RLIMIT_CORE: 0,
    }
    if stranger is not None:  # whoever else has that user's processes counts them as well
        wanted[resource.RLIMIT_NPROC] = limits["pids"]
    for name, value in wanted.items():
        hard = resource.getrlimit(name)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (value, value))


def enter_namespaces(stranger: int | None) -> None:
    """Into namespaces of our own, in which we are who we were, and the stranger is known."""
    flags = CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC
    here, (entered, say) = os.getpid(), os.pipe()
    outside = os.fork()
    if outside == 0:
        os.close(say)
        map_users(here, stranger, entered)
    try:
        check(libc.unshare(flags))
        os.write(say, b"!")
    finally:
        os.close(entered)
        os.close(say)
        mapped = os.waitpid(outside, 0)[1] == 0
    if not mapped:
        raise OSError(errno.EPERM, "the users of the namespace are not mapped")


def map_users(pid: int, stranger: int | None, entered: int) -> None:
    """The life of a child that stays outside, from where alone two users can be mapped."""
    try:
        if os.read(entered, 1):
            alone = stranger is None
            for name, own in (("uid_map", os.getuid()), ("gid_map", os.getgid())):
                if alone and name == "gid_map":
                    with open(f"/proc/{pid}/setgroups", "w") as file:
                        file.write("deny")
                users = (own,) if alone else (own, stranger)
                with open(f"/proc/{pid}/{name}", "w") as file:
                    file.write("".join(f"{one} {one} 1\n" for one in users))
            os._exit(0)
    finally:
        os._exit(1)


def raise_loopback() -> None:
    """The guest's own loopback (a relay for agents listens there); no other interface exists."""
    check(sock := libc.socket(AF_INET, SOCK_DGRAM, 0))
    try:
        request = array.array("B", struct.pack("16sh14x", b"lo", 0))
        fcntl.ioctl(sock, SIOCGIFFLAGS, request, True)
        flags = struct.unpack_from("h", request, 16)[0] | IFF_UP
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags))
    finally:
        os.close(sock)


def set_read_only_alone(path: str) -> None:
    """This mount and none below it."""
    attributes = struct.pack("QQQQ", MOUNT_ATTR_RDONLY, 0, 0, 0)
    check(libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, path.encode(), 0, attributes, len(attributes)))


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


def host_sockets() -> list[str]:
    """Where services of the host listen in the file system, as far as this namespace knows."""
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
            rows = [line.split(None, 7) for line in file]
    except OSError:
        return []
    return sorted({row[7].rstrip("\n") for row in rows if len(row) == 8 and row[7][0] == "/"})


def closed_folders(paths: list[str]) -> list[str]:
    """The outermost folder on the way to each of these that only its owner may pass."""
    found = set()
    for path in paths:
        parts = path.strip("/").split("/")
        above = ["/" + "/".join(parts[:count]) for count in range(1, len(parts))]
        closed = [one for one in above if not os.stat(one).st_mode & stat.S_IXOTH]
        found.update(closed[:1])
    return sorted(found)


def covered_places(plan: Plan) -> list[str]:
    usual = [path for path in COVERED if os.path.isdir(path) and not os.path.islink(path)]
    return usual + ([] if plan.stranger is None else closed_folders([plan.folder, *plan.kept]))


def fence_files(plan: Plan, covered: list[str]) -> None:
    """Everything read-only but the folders of this sandbox; only this namespace in /proc.

    What others share through it is covered: temporary files, devices, /run, and every socket that a
    service of the host listens on. A read-only view still lets one connect to a socket, and to
    Docker's that would be root on the machine.
    """
    writable = [f"{plan.folder}/work", f"{plan.folder}/tmp"]
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    around = tuple(f"{one}/" for one in covered)
    below = [path for path in (plan.folder, *plan.kept) if path.startswith(around)]
    held = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in below}
    held |= {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in devices()}
    try:
        set_read_only("/", True)
        for path in covered:
            mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=64m")
        for path, descriptor in held.items():
            bring_back(path, descriptor)
    finally:
        for descriptor in held.values():
            os.close(descriptor)
    for path in writable:
        mount(path, path, "", MS_BIND)
        set_read_only(path, False)
    finish_devices()
    for path in plan.sockets:
        hide(path)
    # Read-only: for a real root user the files in /proc/sys are the machine's own.
    mount("proc", "/proc", "proc", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    if os.path.isdir("/tmp"):
        os.chmod("/tmp", 0o1777)
    for path in covered:
        if path != "/tmp":
            set_read_only_alone(path)
    os.chdir(writable[0])  # the working directory we came with lies on the mount below


def devices() -> list[str]:
    found = [f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty")]
    return [path for path in found if os.path.exists(path)]


def bring_back(path: str, descriptor: int) -> None:
    """Puts back what a fresh mount has covered: by its descriptor it is still there."""
    if path.startswith("/dev/"):
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666))
    else:
        os.makedirs(path, exist_ok=True)
    mount(f"/proc/self/fd/{descriptor}", path, "", MS_BIND | MS_REC)


def finish_devices() -> None:
    os.mkdir("/dev/shm")
    mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777,size=64m")
    os.mkdir("/dev/pts")
    mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666")
    for name, target in (
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        *((f"std{name}", f"/proc/self/fd/{n}") for n, name in enumerate(("in", "out", "err"))),
    ):
        os.symlink(target, f"/dev/{name}")


def hide(path: str) -> None:
    """Nothing listens at /dev/null. A socket that we cannot even see needs no hiding."""
    try:
        if stat.S_ISSOCK(os.stat(path).st_mode):
            mount("/dev/null", path, "", MS_BIND)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.ELOOP):
            raise


def drop_privileges(stranger: int | None) -> None:
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    kept = () if stranger is None else STEPPING_DOWN
    for capability in range(64):
        if capability not in kept:
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # refused past the last one: fine
    mask = sum(1 << capability for capability in kept)
    header = struct.pack("Ii", CAPABILITY_VERSION_3, 0)
    check(libc.capset(header, struct.pack("6I", mask, mask, 0, 0, 0, 0)))


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


def give_away(folder: str, user: int) -> bool:
    """The folders to work in are the stranger's from now on, and nobody else's."""
    try:
        for name in ("work", "tmp"):
            os.chown(f"{folder}/{name}", user, user)
            os.chmod(f"{folder}/{name}", 0o700)
        os.chmod(folder, 0o711)
    except OSError:
        return False
    return True


def settle_in(plan: Plan) -> None:
    """Raises OSError where the stranger cannot work; for a process that ends afterwards."""
    if plan.stranger is not None:
        os.setgroups([])
        os.setresgid(plan.stranger, plan.stranger, plan.stranger)
        os.setresuid(plan.stranger, plan.stranger, plan.stranger)
        os.chdir(f"{plan.folder}/work")
        os.close(os.open(os.__file__, os.O_RDONLY))
        if not os.access(os.path.realpath(sys.executable), os.X_OK):
            raise OSError(errno.EACCES, "the interpreter is closed to other users")


def works(plan: Plan, *, fenced: bool) -> bool:
    """Whether one can enter here: what this machine has allowed once it is not asked again."""
    tried = os.path.dirname(plan.folder), plan.stranger is not None, fenced
    if tried not in WORKED and attempt(plan, fenced):
        WORKED.add(tried)
    return tried in WORKED


def attempt(plan: Plan, fenced: bool) -> bool:
    """The whole sequence in a throw-away child: a half-entered jail is no place to go on."""
    child = os.fork()
    if child == 0:
        try:
            if fenced:
                enter_namespaces(plan.stranger)
            inner = os.fork()
            if inner == 0:
                if fenced:
                    fence_files(plan, covered_places(plan))
                drop_privileges(plan.stranger)
                settle_in(plan)
                os._exit(0)
            os._exit(os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1]) and 1)
        except BaseException:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def chosen(plan: Plan) -> tuple[Plan, bool]:
    """Whether there is a stranger, and whether there are fences, as far as this machine allows."""
    if plan.stranger is not None and give_away(plan.folder, plan.stranger):
        for fenced in (True, False):
            if works(plan, fenced=fenced):
                return plan, fenced
        give_away(plan.folder, os.getuid())
    plan = plan._replace(stranger=None)
    return plan, works(plan, fenced=True)


def enter(plan: Plan, fenced: bool, limits: dict[str, Any]) -> list[str]:
    """Puts this process behind its fences, as `chosen`; returns their names."""
    die_with_parent()
    root = os.getuid() == 0
    covered = covered_places(plan)
    if fenced:
        enter_namespaces(plan.stranger)
        raise_loopback()
        fork_inside()
        fence_files(plan, covered)
    else:
        check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    if fenced or plan.stranger is not None:
        drop_privileges(plan.stranger)
    limit_resources(limits, plan.stranger)
    os.umask(0o077)
    found = [] if root and plan.stranger is None else ["unprivileged"]
    found += [] if plan.stranger is None else ["pids"]
    if fenced:
        found += ["network", "processes", "files", "capabilities"]
        # A folder among others' is in sight only where the folder around them is not covered.
        found += ["peers"] if plan.folder.startswith(tuple(f"{one}/" for one in covered)) else []
    return found
