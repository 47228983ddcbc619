"""A: gaining rights, writing outside, seeing the host."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import tempfile
from functools import cache
from pathlib import Path

from meta_agent.core.protocols import Sandbox
from tests.sandbox.attacks._check import Check
from tests.sandbox.attacks._programs import (
    answers,
    describe,
    ends_with,
    program,
    program_check,
    run_python,
)

STATUS = """
fields = dict(line.split(":", 1) for line in open("/proc/self/status"))
wanted = {wanted!r}
if all(fields[name].strip() == value for name, value in wanted.items()):
    raise OSError("as it should be")
print({{name: fields[name].strip() for name in wanted}})
"""
NO_RIGHTS = {
    "CapInh": "0" * 16,
    "CapPrm": "0" * 16,
    "CapEff": "0" * 16,
    "CapBnd": "0" * 16,
    "CapAmb": "0" * 16,
    "NoNewPrivs": "1",
}
WRITE_OUTSIDE = """
written = []
for path in ("/breach", "/etc/breach", "/usr/bin/breach", "/proc/sys/kernel/core_pattern",
             "/sys/kernel/breach"):
    try:
        open(path, "a").close()
        written.append(path)
    except OSError:
        pass
if not written:
    raise OSError("all refused")
print(written)
"""
SEARCH_PROCESSES = """
wanted = bytes.fromhex({needle!r})
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("cmdline", "environ"):
        try:
            if wanted in open(f"/proc/{{pid}}/{{name}}", "rb").read():
                sys.exit(0)
        except OSError:
            pass
raise OSError("not in sight")
"""
ENGINE_SOCKETS = """
for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock"):
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        sys.exit(0)
    except OSError:
        pass
raise OSError("no engine")
"""
OWN_SOCKET = """
server = socket.socket(socket.AF_UNIX)
server.bind("own.sock")
server.listen()
socket.socket(socket.AF_UNIX).connect("own.sock")
"""
SYSTEM_CALL = """
number = {numbers}[os.uname().machine == "aarch64"]
libc = ctypes.CDLL(None, use_errno=True)
if libc.syscall(number, {arguments}) == -1:
    code = ctypes.get_errno()
    if code not in (errno.EPERM, errno.EACCES):
        sys.exit(f"refused for another reason: {{code}}")
    raise OSError(code, "refused")
"""
DEVICES = """
usual = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console", "shm", "mqueue"}
usual |= {"pts", "fd", "stdin", "stdout", "stderr", "core"}
if not set(os.listdir("/dev")) - usual:
    raise OSError("none in sight")
print(sorted(set(os.listdir("/dev")) - usual))
"""
BEING_ROOT = """
if {wanted} not in (*os.getresuid(), *os.getresgid(), *os.getgroups()):
    raise OSError("somebody else")
print(os.getresuid(), os.getresgid(), os.getgroups())
"""
GUEST_IDENTITY = """
import os
OPERATIONS = {"who": lambda args, channel: [*os.getresuid(), *os.getresgid(), *os.getgroups()]}
"""
CANARY = "MA_CONFORMANCE_CANARY"


def host_is_in_sight(sandbox: Sandbox) -> str:
    """Looks for this very process by its command line."""
    needle = Path("/proc/self/cmdline").read_bytes().rstrip(b"\0")
    result = run_python(sandbox, program(SEARCH_PROCESSES.format(needle=needle.hex())))
    # The needle is in the program's own command line only as hex.
    return "" if result.exit_code == 43 else describe(result, 43)


def own_process_is_in_sight(sandbox: Sandbox) -> str:
    """The same search finds the searcher: the words are in its own program."""
    return ends_with(0, SEARCH_PROCESSES.format(needle=b"not in sight".hex()))(sandbox)


def own_temporary_file(sandbox: Sandbox) -> str:
    """What a command keeps in its own temporary folder is there."""
    return ends_with(0, "import tempfile; tempfile.NamedTemporaryFile().write(b'x')")(sandbox)


def host_temporary(sandbox: Sandbox) -> str:
    """A file of another program on this machine, in the folder that all programs share."""
    with tempfile.NamedTemporaryFile(dir="/tmp", prefix="ma-conformance-") as file:
        return ends_with(43, f"open({file.name!r})")(sandbox)


def host_socket(sandbox: Sandbox) -> str:
    """A service that listened before the sandbox was opened: see `listening`."""
    path = str(listening())
    return ends_with(43, f"socket.socket(socket.AF_UNIX).connect({path!r})")(sandbox)


@cache
def listening() -> Path:
    """A socket file beside this package, where no folder is private to a sandbox."""
    folder = Path(tempfile.mkdtemp(prefix=".ma-conformance-", dir=Path.home()))
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(folder / "service"))
    server.listen()
    atexit.register(server.close)
    atexit.register(shutil.rmtree, folder)
    return folder / "service"


def guest_identity(sandbox: Sandbox) -> list[int]:
    sandbox.install("identity", GUEST_IDENTITY)
    found: list[int] = sandbox.request("who", {}, timeout_sec=20)
    return found


def guest_is_root(sandbox: Sandbox) -> str:
    found = guest_identity(sandbox)
    return f"guest modules run as {found}" if 0 in found else ""


def files_of_root(sandbox: Sandbox) -> str:
    """What the host and commands leave in the work folder belongs to nobody who is root."""
    sandbox.write({"given": b"x"})
    source = "import os; open('made', 'w'); print(os.stat('given').st_uid, os.stat('made').st_uid)"
    found = run_python(sandbox, source).stdout.split()
    return f"files of {found}" if b"0" in found or len(found) != 2 else ""


def environment_leaks(sandbox: Sandbox) -> str:
    """No variable of the host reaches a command, whatever it is called."""
    result = sandbox.exec(["env"])
    names = {line.split(b"=")[0].decode() for line in result.stdout.splitlines() if b"=" in line}
    expected = {"PATH", "HOME", "TMPDIR", "LANG", "HOSTNAME", "PWD", "SHLVL", "_"}
    expected |= {"PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE"}
    leaked = (names & os.environ.keys()) - expected
    return f"host variables inside: {sorted(leaked)}" if leaked else ""


def environment_can_be_set(sandbox: Sandbox) -> str:
    """`env` shows what we do set."""
    result = sandbox.exec(["env"], env={CANARY: "seen"})
    return "" if f"{CANARY}=seen".encode() in result.stdout else "a variable we set is missing"


CHECKS = [
    Check(
        "no capabilities and none to gain",
        "capabilities",
        ends_with(0, STATUS.format(wanted={"CapEff": "no such value"})),
        ends_with(43, STATUS.format(wanted=NO_RIGHTS)),
    ),
    program_check(
        "a command that is root",
        "unprivileged",
        control=BEING_ROOT.format(wanted="os.getuid()"),
        attack=BEING_ROOT.format(wanted="0"),
    ),
    Check(
        "a guest module that is root",
        "unprivileged",
        lambda sandbox: "" if guest_identity(sandbox) else "nobody",
        guest_is_root,
    ),
    Check("files that belong to root", "unprivileged", own_temporary_file, files_of_root),
    Check(
        "system calls are filtered",
        "seccomp",
        ends_with(0, STATUS.format(wanted={"Seccomp": "no such value"})),
        ends_with(43, STATUS.format(wanted={"Seccomp": "2"})),
    ),
    *(
        program_check(
            f"the system call {name}",
            "seccomp",
            control="os.getpid()",
            attack=SYSTEM_CALL.format(numbers=numbers, arguments=arguments),
        )
        for name, numbers, arguments in (
            ("unshare, for a user namespace", (272, 97), "0x10000000"),
            ("clone, for a user namespace", (56, 220), "0x10000011, 0, 0, 0, 0"),
            ("io_uring_setup", (425, 425), "8, ctypes.create_string_buffer(120)"),
            ("bpf", (321, 280), "0, ctypes.create_string_buffer(72), 72"),
            ("add_key", (248, 217), "b'user', b'x', b'y', 1, -3"),
            ("userfaultfd", (323, 282), "1"),
            ("perf_event_open", (298, 241), "ctypes.create_string_buffer(112), 0, -1, -1, 0"),
        )
    ),
    *(
        program_check(
            f"a socket of the family {name}",
            "seccomp",
            control="socket.socket(socket.AF_UNIX)",
            attack=f"socket.socket({family}, {kind})",
        )
        for name, family, kind in (
            ("netlink", 16, 3),
            ("vsock", 40, 1),
            ("alg", 38, 5),
            ("packet", 17, 3),
        )
    ),
    Check("a file of the host's temporary folder", "files", own_temporary_file, host_temporary),
    Check(
        "a socket of the host outside of /run",
        "files",
        ends_with(0, OWN_SOCKET),
        host_socket,
        before=listening,
    ),
    program_check(
        "a device of the host",
        "files",
        control='open("/dev/null", "w").write("x"); open("/dev/urandom", "rb").read(4)',
        attack=DEVICES,
    ),
    program_check(
        "writing outside the work folder",
        "files",
        control='open("inside", "a").write("x")',
        attack=WRITE_OUTSIDE,
    ),
    program_check(
        "reaching a container engine's socket", "files", control=OWN_SOCKET, attack=ENGINE_SOCKETS
    ),
    program_check(
        "making a device node",
        "capabilities",
        control='os.mkfifo("fifo")',
        attack='os.mknod("disk", 0o60600, os.makedev(8, 0))',
    ),
    program_check(
        "mounting",
        "capabilities",
        control='os.mkdir("m")',
        attack="""
os.makedirs("m", exist_ok=True)
if ctypes.CDLL(None).mount(b"none", b"m", b"tmpfs", 0, None) != 0:
    raise OSError("refused")
""",
    ),
    program_check(
        "becoming another user",
        "capabilities",
        control="os.setresuid(os.getuid(), os.getuid(), os.getuid())",
        attack="os.setresuid(12345, 12345, 12345)",
    ),
    Check("seeing host processes", "processes", own_process_is_in_sight, host_is_in_sight),
    Check("host variables in the environment", "", environment_can_be_set, environment_leaks),
    Check("a fresh sandbox works", "", answers, answers),
]
