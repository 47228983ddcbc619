"""B: eating memory, processes, disk, time and the pipe."""

from __future__ import annotations

import time

from meta_agent.core.errors import GuestError, SandboxError
from meta_agent.core.protocols import ExecResult, Sandbox
from tests.sandbox.attacks._check import LIMITS, Check
from tests.sandbox.attacks._programs import (
    answers,
    describe,
    ends_with,
    program,
    program_check,
    run_python,
)

FORKS = """
children = []
try:
    for _ in range({count}):
        pid = os.fork()
        if pid == 0:
            time.sleep(30)
            os._exit(0)
        children.append(pid)
finally:
    for pid in children:
        os.kill(pid, signal.SIGKILL)
"""
FORK_BOMB = (
    "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n"
)
GUEST_BOMB = """
def allocate(args, channel):
    return len(bytearray(args["mb"] << 20).replace(b"\\0", b"x"))
OPERATIONS = {"allocate": allocate}
"""
EAT = 'block = bytearray({mb} << 20).replace(b"\\0", b"x")'
EAT_IN_SUM = """
readers = []
for _ in range({count}):
    source, sink = os.pipe()
    if os.fork() == 0:
        block = bytearray({mb} << 20).replace(b"\\0", b"x")
        os.write(sink, b"!")
        time.sleep(20)
        os._exit(0)
    os.close(sink)
    readers.append(source)
if not all(os.read(source, 1) for source in readers):
    raise OSError("a child was killed")
"""
EAT_BY_TCP = """
source, sink = os.pipe()
if os.fork() == 0:
    server = socket.create_server(("127.0.0.1", 0), backlog=64)
    held, kept = 0, []
    for _ in range({pairs}):
        client = socket.socket()
        for one in (client, server):
            for size in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                one.setsockopt(socket.SOL_SOCKET, size, 8 << 20)
        client.connect(server.getsockname())
        kept += [client, server.accept()[0]]
        client.setblocking(False)
        try:
            while True:
                held += client.send(bytes(1 << 16))
        except OSError:
            pass
    os.write(sink, b"%d" % held)
    time.sleep(1)
    os._exit(0)
os.close(sink)
said = os.read(source, 20)
if not said or int(said) < {most}:
    raise OSError(f"held {{said}}")
print(said)
"""
# Sent to oneself, or to the kernel, which sends a request that it refuses back whole.
EAT_BY_NETLINK = """
import struct
held, kept = 0, [socket.socketpair() for _ in range(2)]
for one, _ in kept:
    held += one.send(bytes(1 << 14))
for index in range({sockets}):
    kept.append(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, {protocol}))
    kept[-1].setblocking(False)
    kept[-1].bind((0, 0))
    to = {to}
    size = 100_000
    message = struct.pack("IHHII", size, 999, 5, 1, 0) + bytes(size - 16)
    try:
        while True:
            held += kept[-1].sendto(message, (to, 0))
    except OSError:
        pass
print(held)
if held < {most}:
    raise OSError(f"held {{held}}")
"""
FILL = """
for index in range({files}):
    with open(f"fill{{index}}", "wb") as file:
        for _ in range(8):
            file.write(b"x" * (1 << 20))
"""
MANY_FILES = """
for index in range({files}):
    os.close(os.open(f"empty{{index}}", os.O_CREAT | os.O_WRONLY))
"""
FLOOD = "import os\nblock = b'x' * (1 << 20)\nfor _ in range({mb}):\n    os.write(1, block)\n"


def memory_bomb_in_guest(sandbox: Sandbox) -> str:
    """A typed end, by the kernel or the interpreter, and never a plain result."""
    sandbox.install("bomb", GUEST_BOMB)
    try:
        sandbox.request("allocate", {"mb": 4 * LIMITS.memory_mb}, timeout_sec=60)
    except SandboxError as error:
        return "" if error.kind == "oom" else f"typed {error.kind}, not oom: {error}"
    except GuestError as error:
        return "" if error.kind == "MemoryError" else repr(error)
    return "the limit was exceeded"


def memory_in_guest(sandbox: Sandbox) -> str:
    sandbox.install("bomb", GUEST_BOMB)
    size = sandbox.request("allocate", {"mb": 16}, timeout_sec=60)
    return "" if size == 16 << 20 else f"allocated {size}"


def memory_bomb_in_command(sandbox: Sandbox) -> str:
    """The command ends, and says why where the kernel did it; the worker lives."""
    result = run_python(sandbox, EAT.format(mb=4 * LIMITS.memory_mb))
    refused = result.exit_code == 1 and b"MemoryError" in result.stderr
    return answers(sandbox) if refused or result.oom else describe(result, 137)


def fork_bomb(sandbox: Sandbox) -> str:
    result = run_python(sandbox, FORK_BOMB, timeout_sec=1.5)
    return answers(sandbox) if result.timed_out else describe(result, 137)


def spin(sandbox: Sandbox) -> str:
    started = time.monotonic()
    result = sandbox.exec(["sh", "-c", "while :; do :; done"], timeout_sec=0.5)
    took = time.monotonic() - started
    return answers(sandbox) if result.timed_out and took < 5 else f"{took:.1f} s, {result}"


def flood_without_end(sandbox: Sandbox) -> str:
    """10 GB on standard output in one line: bounded by the deadline, never kept."""
    result = sandbox.exec(
        ["python3", "-c", FLOOD.format(mb=10 << 10)], timeout_sec=1, output_limit_bytes=1000
    )
    return answers(sandbox) if result.timed_out else _flood_is_capped(result)


def flood_to_the_end(sandbox: Sandbox) -> str:
    result = sandbox.exec(
        ["python3", "-c", FLOOD.format(mb=64) + "print('the end')"], output_limit_bytes=1000
    )
    if not result.stdout.endswith(b"the end\n"):
        return "the output's end is missing"
    return _flood_is_capped(result)


def _flood_is_capped(result: ExecResult) -> str:
    capped = result.exit_code == 0 and result.truncated and len(result.stdout) < 1200
    return "" if capped else f"{len(result.stdout)} bytes, exit {result.exit_code}"


def quiet_output(sandbox: Sandbox) -> str:
    result = sandbox.exec(["echo", "short"])
    return "" if (result.stdout, result.truncated) == (b"short\n", False) else repr(result)


def giant_argument(sandbox: Sandbox) -> str:
    result = sandbox.exec(["echo", "x" * (3 << 20)])
    return answers(sandbox) if result.exit_code == 126 else describe(result, 126)


def waits_for_input(sandbox: Sandbox) -> str:
    result = sandbox.exec(["cat"], timeout_sec=5)
    return "" if result.exit_code == 0 and not result.timed_out else repr(result)


def gets_input(sandbox: Sandbox) -> str:
    text = b"line\n" * 100_000
    return "" if sandbox.exec(["cat"], stdin=text).stdout == text else "input came out changed"


def lingers_at_deadline(sandbox: Sandbox) -> str:
    """A request that never returns costs the sandbox its life, with a typed error."""
    sandbox.install(
        "spin", "def spin(args, channel):\n    while True: pass\nOPERATIONS={'spin': spin}"
    )
    try:
        sandbox.request("spin", {}, timeout_sec=0.5)
    except SandboxError as error:
        return "" if error.kind == "timeout" else repr(error)
    return "it returned"


def fd_exhaustion(sandbox: Sandbox) -> str:
    body = "kept = [os.dup(0) for _ in range(100000)]"
    result = run_python(sandbox, program(body))
    return answers(sandbox) if result.exit_code == 43 else describe(result, 43)


CHECKS = [
    Check(
        "memory bomb in a guest operation", "", memory_in_guest, memory_bomb_in_guest, alone=True
    ),
    Check(
        "memory bomb in a command",
        "",
        ends_with(0, EAT.format(mb=16)),
        memory_bomb_in_command,
        alone=True,
    ),
    Check(
        "memory eaten by many processes",
        "memory",
        ends_with(0, EAT_IN_SUM.format(count=2, mb=8)),
        lambda sandbox: (
            ""
            if run_python(sandbox, program(EAT_IN_SUM.format(count=4, mb=100))).exit_code != 0
            else "four processes hold more than the limit"
        ),
        alone=True,
    ),
    program_check(
        "memory in the buffers of connections",
        "memory",
        control=EAT_BY_TCP.format(pairs=2, most=1 << 16),
        attack=EAT_BY_TCP.format(pairs=400, most=LIMITS.memory_mb << 20),
        alone=True,
    ),
    *(
        program_check(
            f"memory in the buffers of netlink, {name}",
            "seccomp",
            control=EAT_BY_NETLINK.format(sockets=0, protocol=0, to=0, most=1 << 14),
            attack=EAT_BY_NETLINK.format(sockets=900, protocol=protocol, to=to, most=64 << 20),
        )
        for name, protocol, to in (
            ("between users", 2, "kept[-1].getsockname()[0]"),
            ("echoed by the kernel", 0, "0"),
        )
    ),
    program_check(
        "more processes than allowed",
        "pids",
        control=FORKS.format(count=8),
        attack=FORKS.format(count=2 * LIMITS.pids),
    ),
    Check("fork bomb", "pids", answers, fork_bomb, alone=True),
    program_check(
        "filling the disk",
        "disk",
        control=FILL.format(files=1),
        attack=FILL.format(files=2 * LIMITS.scratch_mb // 8),
        alone=True,
    ),
    program_check(
        "filling the disk with empty files",
        "inodes",
        control=MANY_FILES.format(files=100),
        attack=MANY_FILES.format(files=1000 * LIMITS.scratch_mb),
        alone=True,
    ),
    Check("running out of descriptors", "", answers, fd_exhaustion),
    Check("spinning for ever", "", answers, spin),
    Check("a guest operation that never returns", "", answers, lingers_at_deadline, alone=True),
    Check("flooding standard output", "", quiet_output, flood_without_end),
    Check("output is read to its end", "", quiet_output, flood_to_the_end),
    Check("an argument that is too long", "", answers, giant_argument),
    Check("waiting for input", "", gets_input, waits_for_input),
]
