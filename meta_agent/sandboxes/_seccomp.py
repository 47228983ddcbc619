"""The system calls that every container may make, as a list for the engine.

The engine applies it before anything of an image runs. So it holds for its init, for commands that
the engine starts, and without a Python to apply a filter. A call that is not listed is refused:
new namespaces, mounts, io_uring, bpf, key rings, userfaultfd, and sockets of all but the usual
families (netlink's buffers count towards no limit: two gigabytes in a container of 256 MB).
Tracing is allowed only in a task's own container, in which none of this project's processes run,
because tasks debug programs. Listing network interfaces is refused there, which `ip` and
`os.networkInterfaces()` do; that is the price of a bound on memory.
Does not cover: processors other than x86-64 and AArch64; there the engine's own list stays.
"""

from __future__ import annotations

import json
import platform
from typing import Any, Final

from meta_agent.core.sandbox.inside.lockdown import FAMILIES, MACHINES, NEW_NAMESPACES

_NO_SUCH_CALL: Final = 38  # ENOSYS: glibc falls back to `clone`, whose flags can be looked at
_PERSONALITIES: Final = (0, 8, 0x20000, 0x20008, 0xFFFFFFFF)
_TRACING: Final = ("process_vm_readv", "process_vm_writev", "ptrace")
_FILES: Final = """
    access cachestat chdir chmod chown chown32 close close_range copy_file_range creat dup dup2 dup3
    faccessat faccessat2 fadvise64 fadvise64_64 fallocate fanotify_mark fchdir fchmod fchmodat
    fchmodat2 fchown fchown32 fchownat fcntl fcntl64 fdatasync fgetxattr flistxattr flock
    fremovexattr fsetxattr fstat fstat64 fstatat64 fstatfs fstatfs64 fsync ftruncate ftruncate64
    futimesat getcwd getdents getdents64 getxattr inotify_add_watch inotify_init inotify_init1
    inotify_rm_watch ioctl lchown lchown32 lgetxattr link linkat listxattr llistxattr _llseek
    lremovexattr lseek lsetxattr lstat lstat64 mkdir mkdirat mknod mknodat name_to_handle_at
    newfstatat open openat openat2 pipe pipe2 pread64 preadv preadv2 pwrite64 pwritev pwritev2 read
    readahead readlink readlinkat readv removexattr rename renameat renameat2 rmdir sendfile
    sendfile64 setxattr splice stat stat64 statfs statfs64 statx symlink symlinkat sync
    sync_file_range sync_file_range2 arm_sync_file_range arm_fadvise64_64 syncfs tee truncate
    truncate64 umask unlink unlinkat utime utimensat utimensat_time64 utimes vmsplice write writev
"""
_MEMORY: Final = """
    brk madvise map_shadow_stack membarrier memfd_create mincore mlock mlock2 mlockall mmap mmap2
    mprotect mremap mseal msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect
    remap_file_pages shmat shmctl shmdt shmget
"""
_PROCESSES: Final = """
    arch_prctl breakpoint cacheflush capget capset execve execveat exit exit_group fork futex
    futex_requeue futex_time64 futex_wait futex_waitv futex_wake get_robust_list get_thread_area
    getcpu getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups getgroups32 getpgid getpgrp
    getpid getppid getpriority getresgid getresgid32 getresuid getresuid32 getrlimit getrusage
    getsid gettid getuid getuid32 ioprio_get ioprio_set kill landlock_add_rule
    landlock_create_ruleset landlock_restrict_self pause pidfd_open pidfd_send_signal prctl
    prlimit64 process_mrelease restart_syscall rseq rt_sigaction rt_sigpending rt_sigprocmask
    rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64
    rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr
    sched_getparam sched_getscheduler sched_rr_get_interval sched_rr_get_interval_time64
    sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield seccomp
    set_robust_list set_thread_area set_tid_address set_tls setfsgid setfsgid32 setfsuid setfsuid32
    setgid setgid32 setgroups setgroups32 setpgid setpriority setregid setregid32 setresgid
    setresgid32 setresuid setresuid32 setreuid setreuid32 setrlimit setsid setuid setuid32
    sigaltstack signalfd signalfd4 sigprocmask sigreturn sysinfo tgkill tkill ugetrlimit uname vfork
    wait4 waitid waitpid
"""
_TIME_AND_EVENTS: Final = """
    adjtimex alarm clock_adjtime clock_adjtime64 clock_getres clock_getres_time64 clock_gettime
    clock_gettime64 clock_nanosleep clock_nanosleep_time64 epoll_create epoll_create1 epoll_ctl
    epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2 getitimer
    getrandom gettimeofday io_cancel io_destroy io_getevents io_pgetevents io_pgetevents_time64
    io_setup io_submit nanosleep _newselect poll ppoll ppoll_time64 pselect6 pselect6_time64 select
    setitimer time timer_create timer_delete timer_getoverrun timer_gettime timer_gettime64
    timer_settime timer_settime64 timerfd_create timerfd_gettime timerfd_gettime64 timerfd_settime
    timerfd_settime64 times
"""
# Not `socketcall`: what it would open cannot be seen from outside.
_TALK: Final = """
    accept accept4 bind connect getpeername getsockname getsockopt listen mq_getsetattr mq_notify
    mq_open mq_timedreceive mq_timedreceive_time64 mq_timedsend mq_timedsend_time64 mq_unlink msgctl
    msgget msgrcv msgsnd recv recvfrom recvmmsg recvmmsg_time64 recvmsg semctl semget semop
    semtimedop semtimedop_time64 send sendmmsg sendmsg sendto setsockopt shutdown
"""
_ALLOWED: Final = (_FILES, _MEMORY, _PROCESSES, _TIME_AND_EVENTS, _TALK)


def seccomp_profile(*, tracing: bool) -> str:
    """Returns the list of allowed system calls as JSON; `tracing` adds ptrace.

    Returns "" on a processor type for which there is no list; Docker's own list then applies.
    """
    if platform.machine() not in MACHINES:
        return ""
    return json.dumps(_profile(tracing), separators=(",", ":"))


def _profile(tracing: bool) -> dict[str, Any]:
    names = [name for part in _ALLOWED for name in part.split()] + [*_TRACING] * tracing
    sockets = [
        _where(name, 0, "SCMP_CMP_EQ", value)
        for name in ("socket", "socketpair")
        for value in FAMILIES
    ]
    flags = NEW_NAMESPACES & ~0xFF  # below that are signals
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "archMap": [
            _machine("SCMP_ARCH_X86_64", "SCMP_ARCH_X86"),
            _machine("SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"),
        ],
        "syscalls": [
            {"names": names, "action": "SCMP_ACT_ALLOW"},
            {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": _NO_SUCH_CALL},
            _where("clone", 0, "SCMP_CMP_MASKED_EQ", flags),
            *(_where("personality", 0, "SCMP_CMP_EQ", value) for value in _PERSONALITIES),
            *sockets,
        ],
    }


def _machine(name: str, below: str) -> dict[str, Any]:
    return {"architecture": name, "subArchitectures": [below]}


def _where(name: str, index: int, op: str, value: int) -> dict[str, Any]:
    """Returns a rule that allows a call if an argument equals a value.

    With `MASKED_EQ` the argument must have none of the value's bits.
    """
    argument = {"index": index, "op": op, "value": value, "valueTwo": 0}
    return {"names": [name], "action": "SCMP_ACT_ALLOW", "args": [argument]}
