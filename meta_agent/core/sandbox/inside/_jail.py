"""Puts a process sandbox behind limits and as many kernel fences as this machine allows.

Needs no root: it enters a user namespace of its own. There it takes away the network, the view of
other processes (and so of their environments), all capabilities, and the files of the machine.
The sandbox gets a root of its own, which shows the system's programs, the interpreter with its
packages, and its own folder. The worker becomes PID 1 of a PID namespace: when it ends, the kernel
ends everything in it.

A host that runs as root draws a second user for each sandbox, called the stranger. All untrusted
code becomes that user (`processes.step_down`); the worker keeps the right to end that user's
processes.

The host is told by name which fences hold; it assumes none. Inside a container or under a
hardening policy the kernel may refuse all of them. Not covered: files in the folders of system
programs and of the interpreter, which every sandbox may read.
"""

# Not pathlib: the kernel knows names.
# ruff: noqa: PTH101, PTH102, PTH103, PTH110, PTH112, PTH113, PTH114, PTH115, PTH120, PTH123, PTH211

from __future__ import annotations

import array
import ctypes
import errno
import fcntl
import os
import resource
import signal
import struct
import sys
from typing import Any, NamedTuple

CLONE_NEWNS, CLONE_NEWIPC = 0x00020000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE = 442, -100, 0x8000
MOUNT_ATTR_RDONLY = 1
MNT_DETACH, SYS_PIVOT_ROOT = 2, {"x86_64": 155, "aarch64": 41}
SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
)
MAX_COPIED_BYTES = 1 << 20
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 24, 38
STEPPING_DOWN = (5, 6, 7, 8)  # capabilities: to end others, and to become another user for good
CAPABILITY_VERSION_3 = 0x20080522
AF_INET, SOCK_DGRAM = 2, 2
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1

libc = ctypes.CDLL(None, use_errno=True)
WORKED: set[tuple[str, bool, bool]] = set()


class Plan(NamedTuple):
    """A sandbox's folder, Python's folders, and the user id for untrusted code (`stranger`)."""

    folder: str
    interpreter: list[str]  # the folders of the interpreter and its packages
    stranger: int | None


def check(result: int) -> None:
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def limit_resources(limits: dict[str, Any], stranger: int | None) -> None:
    """Limits the memory, file size and open files of each process.

    It also limits the number of processes of `stranger`, the user for untrusted code, if any.
    """
    memory = limits["memory_mb"] << 20
    limit_by_resource = {
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_FSIZE: limits["scratch_mb"] << 20,
        resource.RLIMIT_NOFILE: 1024,
        resource.RLIMIT_CORE: 0,
    }
    if stranger is not None:  # whoever else has that user's processes counts them as well
        limit_by_resource[resource.RLIMIT_NPROC] = limits["pids"]
    for name, value in limit_by_resource.items():
        hard = resource.getrlimit(name)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (value, value))


def enter_namespaces(stranger: int | None) -> None:
    """Moves this process into new namespaces, in which its own user and `stranger` exist.

    `stranger` is the user for untrusted code. Raises OSError if the kernel refuses.
    """
    flags = CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC
    here, (entered, say) = os.getpid(), os.pipe()
    outside = os.fork()  # from there alone, two users can be mapped
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
    """Waits for a byte on the pipe `entered`, gives the namespace of `pid` its users, and exits."""
    try:
        if os.read(entered, 1):
            alone = stranger is None
            for name, our_id in (("uid_map", os.getuid()), ("gid_map", os.getgid())):
                if alone and name == "gid_map":
                    with open(f"/proc/{pid}/setgroups", "w") as file:
                        file.write("deny")
                users = (our_id,) if alone else (our_id, stranger)
                with open(f"/proc/{pid}/{name}", "w") as file:
                    file.write("".join(f"{user} {user} 1\n" for user in users))
            os._exit(0)
    finally:
        os._exit(1)


def raise_loopback() -> None:
    """Switches on loopback, the sandbox's only network interface, where agents reach the model."""
    check(sock := libc.socket(AF_INET, SOCK_DGRAM, 0))
    try:
        request = array.array("B", struct.pack("16sh14x", b"lo", 0))
        fcntl.ioctl(sock, SIOCGIFFLAGS, request, True)
        flags = struct.unpack_from("h", request, 16)[0] | IFF_UP
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags))
    finally:
        os.close(sock)


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    check(libc.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode()))


def set_read_only(path: str, *, below: bool = False) -> None:
    """Makes a mount read-only, together with all mounts under it if `below` is set."""
    attributes = struct.pack("QQQQ", MOUNT_ATTR_RDONLY, 0, 0, 0)
    flags = AT_RECURSIVE if below else 0
    check(
        libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, path.encode(), flags, attributes, len(attributes))
    )


def fence_files(plan: Plan) -> bool:
    """Replaces the file system root by a new one that holds only what a sandbox needs.

    System programs, the interpreter and the sandbox's own folder keep their paths. Only the work
    and temporary folders are writable. Returns whether file locks are invisible to other sandboxes.
    """
    root = f"{plan.folder}/root"
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=4m")
    make_folders(root)
    folders = system_folders(root) + [path for path in plan.interpreter if path != "/"]
    locks_are_own = [show(root, path) for path in with_links_last(folders)]
    make_devices(root)
    write_names(root, plan.stranger)
    bind(f"{plan.folder}/bin", root)
    set_read_only(f"{root}{plan.folder}/bin")
    for name in ("work", "tmp"):
        bind(f"{plan.folder}/{name}", root)
    # Read-only: for a real root user the files in /proc/sys are the machine's own.
    mount("proc", f"{root}/proc", "proc", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("/dev/null", f"{root}/proc/locks", "", MS_BIND)
    set_read_only(root)
    enter_root(root)
    os.chdir(f"{plan.folder}/work")
    return all(locks_are_own)


def make_folders(root: str) -> None:
    """Creates the empty folders that programs expect, and a private `/tmp`."""
    for name in ("proc", "run", "tmp", "var/tmp", "etc", "dev"):
        os.makedirs(f"{root}/{name}")
    flags = MS_NOSUID | MS_NODEV
    mount("tmpfs", f"{root}/tmp", "tmpfs", flags, "mode=1777,size=64m,nr_inodes=16k")


def system_folders(root: str) -> list[str]:
    """Returns the folders of system programs; copies the symbolic links among them into `root`."""
    folders = []
    for path in SYSTEM:
        if os.path.islink(path):
            os.symlink(os.readlink(path), f"{root}{path}")
        elif os.path.isdir(path):
            folders.append(path)
    return folders


def with_links_last(folders: list[str]) -> list[str]:
    """Returns the folders and the targets of the links among them, sorted with the links last."""
    paths = {*folders, *map(os.path.realpath, folders)}
    return sorted(paths, key=lambda path: (path != os.path.realpath(path), path))


def show(root: str, path: str) -> bool:
    """Mounts a folder read-only at the same path in the new root.

    Returns True if file locks in it are private to this sandbox, which an overlay mount gives.
    Without overlays the folder itself is mounted, and sandboxes can see each other's locks.
    """
    target = f"{root}{path}"
    os.makedirs(target, exist_ok=True)
    flags = MS_RDONLY | MS_NOSUID | MS_NODEV
    if not set(path) & set(':,\\"'):
        try:
            mount("overlay", target, "overlay", flags, f"lowerdir={path}:{root}/run")
            return True
        except OSError:
            pass
    mount(path, target, "", MS_BIND | MS_REC)
    set_read_only(target, below=True)
    return False


def bind(path: str, root: str) -> None:
    os.makedirs(f"{root}{path}", exist_ok=True)
    mount(path, f"{root}{path}", "", MS_BIND)


def make_devices(root: str) -> None:
    """Creates `/dev`: stateless devices, and terminals and shared memory of this sandbox only."""
    dev = f"{root}/dev"
    mount("tmpfs", dev, "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=1m")
    for name in ("null", "zero", "full", "random", "urandom", "tty"):
        if os.path.exists(f"/dev/{name}"):
            os.close(os.open(f"{dev}/{name}", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666))
            mount(f"/dev/{name}", f"{dev}/{name}", "", MS_BIND)
    for name in ("shm", "pts"):
        os.mkdir(f"{dev}/{name}")
    flags = MS_NOSUID | MS_NODEV
    mount("tmpfs", f"{dev}/shm", "tmpfs", flags, "mode=1777,size=64m,nr_inodes=16k")
    mount("devpts", f"{dev}/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666")
    for name, target in (
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        *((f"std{name}", f"/proc/self/fd/{n}") for n, name in enumerate(("in", "out", "err"))),
    ):
        os.symlink(target, f"{dev}/{name}")
    set_read_only(dev)


def write_names(root: str, stranger: int | None) -> None:
    """Writes the files in `/etc` that programs read: library paths, host names and users."""
    user = os.getuid() if stranger is None else stranger
    texts = {
        "passwd": f"root:x:0:0::/:/bin/sh\nsandbox:x:{user}:{user}::/tmp:/bin/sh\n",
        "group": f"root:x:0:\nsandbox:x:{user}:\n",
        "hosts": "127.0.0.1 localhost\n::1 localhost\n",
    }
    for name, text in texts.items():
        with open(f"{root}/etc/{name}", "w") as file:
            file.write(text)
    for name in ("ld.so.cache", "ld.so.conf", "localtime"):
        if os.path.isfile(f"/etc/{name}"):
            with open(f"/etc/{name}", "rb") as source, open(f"{root}/etc/{name}", "wb") as copy:
                copy.write(source.read(MAX_COPIED_BYTES))
    for name in ("ld.so.conf.d", "alternatives"):
        if os.path.isdir(f"/etc/{name}"):
            show(root, f"/etc/{name}")


def enter_root(root: str) -> None:
    """Makes the folder `root` the root of the file system, and unmounts the old root."""
    os.chdir(root)
    check(libc.syscall(SYS_PIVOT_ROOT[os.uname().machine], b".", b"."))
    check(libc.umount2(b".", MNT_DETACH))
    os.chdir("/")


def drop_privileges(stranger: int | None) -> None:
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    needed = () if stranger is None else STEPPING_DOWN
    for capability in range(64):
        if capability not in needed:
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # refused past the last one: fine
    mask = sum(1 << capability for capability in needed)
    header = struct.pack("Ii", CAPABILITY_VERSION_3, 0)
    check(libc.capset(header, struct.pack("6I", mask, mask, 0, 0, 0, 0)))


def die_with_parent() -> None:
    check(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))


def stand_guard(child: int) -> None:
    """Waits for the process `child` and exits with its exit code; never returns."""
    for descriptor in (0, 1):
        os.close(descriptor)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os._exit(code if code >= 0 else 128 - code)


def fork_inside() -> None:
    """Forks, and returns only in the child, PID 1 of the new namespace. The parent waits for it."""
    child = os.fork()
    if child:
        stand_guard(child)
    die_with_parent()


def give_away(folder: str, user: int) -> bool:
    """Makes `user` the only one who may enter the sandbox's work and temporary folders.

    Returns False if this process may not change their owner.
    """
    try:
        for name in ("work", "tmp"):
            os.chown(f"{folder}/{name}", user, user)
            os.chmod(f"{folder}/{name}", 0o700)
        os.chmod(folder, 0o711)
    except OSError:
        return False
    return True


def settle_in(plan: Plan) -> None:
    """Becomes the user for untrusted code, to test whether that user can work in the sandbox.

    Raises OSError if that user cannot enter the work folder or run the interpreter.
    """
    if plan.stranger is not None:
        os.setgroups([])
        os.setresgid(plan.stranger, plan.stranger, plan.stranger)
        os.setresuid(plan.stranger, plan.stranger, plan.stranger)
        os.chdir(f"{plan.folder}/work")
        os.close(os.open(os.__file__, os.O_RDONLY))
        if not os.access(os.path.realpath(sys.executable), os.X_OK):
            raise OSError(errno.EACCES, "the interpreter is closed to other users")


def works(plan: Plan, *, fenced: bool) -> bool:
    """Returns True if a sandbox starts by this plan (`fenced`: in namespaces); caches successes."""
    tried = os.path.dirname(plan.folder), plan.stranger is not None, fenced
    if tried not in WORKED and attempt(plan, fenced):
        WORKED.add(tried)
    return tried in WORKED


def attempt(plan: Plan, fenced: bool) -> bool:
    """Starts a sandbox by the plan in a child process, and returns True if that worked.

    A failure leaves its process half restricted, so the caller's process is never used for it.
    """
    child = os.fork()
    if child == 0:
        try:
            if fenced:
                enter_namespaces(plan.stranger)
            inner = os.fork()
            if inner == 0:
                if fenced:
                    fence_files(plan)
                drop_privileges(plan.stranger)
                settle_in(plan)
                os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", ""])
            os._exit(os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1]) and 1)
        except BaseException:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def chosen(plan: Plan) -> tuple[Plan, bool]:
    """Returns the strictest plan that works here, and whether the kernel grants namespaces."""
    if plan.stranger is not None and give_away(plan.folder, plan.stranger):
        for fenced in (True, False):
            if works(plan, fenced=fenced):
                return plan, fenced
        give_away(plan.folder, os.getuid())
    plan = plan._replace(stranger=None)
    return plan, works(plan, fenced=True)


def enter(plan: Plan, fenced: bool, limits: dict[str, Any]) -> list[str]:
    """Puts this process under the plan's restrictions; returns the names of those in force."""
    die_with_parent()
    root = os.getuid() == 0
    own_locks = False
    if fenced:
        enter_namespaces(plan.stranger)
        raise_loopback()
        fork_inside()
        own_locks = fence_files(plan)
    else:
        check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    if fenced or plan.stranger is not None:
        drop_privileges(plan.stranger)
    limit_resources(limits, plan.stranger)
    os.umask(0o077)
    fences = [] if root and plan.stranger is None else ["unprivileged"]
    fences += [] if plan.stranger is None else ["pids"]
    if fenced:
        fences += ["network", "processes", "files", "capabilities", "peers", "host"]
        fences += ["locks"] if own_locks else []
    return fences
