"""A: gaining rights, writing outside, seeing the host."""

from __future__ import annotations

import os
from pathlib import Path

from meta_agent.protocols import Sandbox
from meta_agent.sandbox._attacks._programs import (
    answers,
    describe,
    ends_with,
    program,
    program_check,
    run_python,
)
from meta_agent.sandbox.conformance import Check

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
    Check(
        "system calls are filtered",
        "seccomp",
        ends_with(0, STATUS.format(wanted={"Seccomp": "no such value"})),
        ends_with(43, STATUS.format(wanted={"Seccomp": "2"})),
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
