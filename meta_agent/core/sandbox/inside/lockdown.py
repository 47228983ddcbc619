"""The jail's last step: refuses the system calls and file writes that no command needs.

Runs after the namespaces, or without them if the kernel refuses those. It uses two mechanisms that
need no rights. Seccomp refuses further namespaces, mounts, io_uring, bpf, key rings, tracing and
unusual sockets, hypervisor ones included. Landlock allows writing, signals and abstract sockets
only inside. A mechanism that the kernel lacks is skipped and reported.
Not covered: processors other than x86-64 and AArch64 (no filter of system calls there).
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
RET_ALLOW, RET_ERRNO = 0x7FFF0000, 0x00050000
LD_WORD, JUMP_EQUAL, JUMP_ABOVE, JUMP_SET, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, ARCH, FIRST_ARGUMENT = 0, 4, 16  # offsets in what a filter sees
X32 = 0x40000000
NEW_NAMESPACES = 0x7E020080  # every CLONE_NEW* flag
# Not netlink: its buffers count towards no limit, two gigabytes in a sandbox of 256 MB.
FAMILIES = (1, 2, 10)  # unix, inet, inet6

# The numbers of x86-64 and of AArch64; -1 where there is no such call.
REFUSED = {
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "chroot": (161, 51), "bpf": (321, 280),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "userfaultfd": (323, 282), "perf_event_open": (298, 241), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "open_by_handle_at": (304, 265), "ptrace": (101, 117),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pidfd_getfd": (438, 438),
    "iopl": (172, -1), "ioperm": (173, -1), "swapon": (167, 224), "swapoff": (168, 225),
    "reboot": (169, 142), "acct": (163, 89), "quotactl": (179, 60), "syslog": (103, 116),
    "fanotify_init": (300, 262),
}  # fmt: skip
CLONE, CLONE3, SOCKET, SOCKETPAIR = (56, 220), (435, 435), (41, 198), (53, 199)
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
# By version of the kernel's Landlock: what counts as writing, and what else can be scoped.
WRITING = {1: 0x1FF2, 2: 0x3FF2, 3: 0x7FF2}
SCOPES = 0b11  # abstract sockets and signals, from version 6
WRITE_FILE, MAKE_REG, REMOVE_FILE = 1 << 1, 1 << 8, 1 << 5

libc = ctypes.CDLL(None, use_errno=True)


def instruction(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    """Returns one packed instruction of a BPF program."""
    return struct.pack("HBBI", code, then, otherwise, value)


def refuse(code: int) -> bytes:
    """Returns the BPF instruction that makes a system call fail with this error number."""
    return instruction(RETURN, RET_ERRNO | code)


def filter_program(machine: str) -> bytes:
    """Returns the seccomp filter for a processor such as `x86_64`, as packed BPF instructions."""
    column, arch = MACHINES[machine]
    steps = [
        instruction(LD_WORD, ARCH),
        instruction(JUMP_EQUAL, arch, 1, 0),
        refuse(errno.EPERM),
        instruction(LD_WORD, NUMBER),
        instruction(JUMP_ABOVE, X32, 0, 1),
        refuse(errno.ENOSYS),
    ]
    for numbers in REFUSED.values():
        if numbers[column] >= 0:
            steps += [instruction(JUMP_EQUAL, numbers[column], 0, 1), refuse(errno.EPERM)]
    # glibc takes ENOSYS for an old kernel and falls back to clone, whose flags can be looked at.
    steps += [instruction(JUMP_EQUAL, CLONE3[column], 0, 1), refuse(errno.ENOSYS)]
    steps += [
        instruction(JUMP_EQUAL, CLONE[column], 0, 4),
        instruction(LD_WORD, FIRST_ARGUMENT),
        instruction(JUMP_SET, NEW_NAMESPACES, 0, 1),
        refuse(errno.EPERM),
        instruction(RETURN, RET_ALLOW),
    ]
    ends = range(len(FAMILIES), 0, -1)
    families = [
        instruction(JUMP_EQUAL, family, end) for family, end in zip(FAMILIES, ends, strict=True)
    ]
    steps += [
        instruction(JUMP_EQUAL, SOCKET[column], 1, 0),
        instruction(JUMP_EQUAL, SOCKETPAIR[column], 0, len(FAMILIES) + 2),
        instruction(LD_WORD, FIRST_ARGUMENT),
        *families,
        refuse(errno.EAFNOSUPPORT),
        instruction(RETURN, RET_ALLOW),
    ]
    return b"".join(steps)


def filter_calls() -> bool:
    """Installs the seccomp filter for this process and its children. Returns True if it holds."""
    if os.uname().machine not in MACHINES:
        return False
    program = filter_program(os.uname().machine)
    held = ctypes.create_string_buffer(program, len(program))
    argument = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(held))
    return bool(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, argument, 0, 0) == 0)


def restrict_files(folder: str, fenced: bool) -> bool:
    """Allows writing only in the sandbox's folders and signals only to processes inside.

    Returns False if the kernel has no Landlock or refuses the rules.
    """
    version = libc.syscall(LANDLOCK_CREATE, None, 0, 1)
    if version < 1:
        return False
    writing = WRITING[min(version, 3)]
    scoped = SCOPES if version >= 6 else 0
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    attributes = struct.pack("QQQ", writing, 0, scoped)[:size]
    ruleset = libc.syscall(LANDLOCK_CREATE, attributes, size, 0)
    if ruleset < 0:
        return False
    try:
        for path in (f"{folder}/work", f"{folder}/tmp", "/dev/shm", *(["/tmp"] if fenced else [])):
            allow(ruleset, path, writing)
        for name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts"):
            allow(ruleset, f"/dev/{name}", WRITE_FILE)
        return bool(libc.syscall(LANDLOCK_RESTRICT, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def allow(ruleset: int, path: str, rights: int) -> None:
    """Adds Landlock rights for everything below a path; a missing path is skipped."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rule = struct.pack("=Qi", rights, descriptor)
        libc.syscall(LANDLOCK_ADD, ruleset, 1, rule, 0)
    finally:
        os.close(descriptor)


def lock(folder: str, fenced: bool) -> list[str]:
    """Restricts the files (Landlock) and system calls (seccomp) of this process.

    Returns ["seccomp"] if the filter of system calls holds, else []. Landlock is not reported,
    because it only backs up the mounts that already hide the host's files.
    """
    restrict_files(folder, fenced)
    return ["seccomp"] if filter_calls() else []
