"""E: the process that answers for a sandbox: its pipes, its memory, its signals, its accounts."""

from __future__ import annotations

from meta_agent.core.protocols import Sandbox
from tests.sandbox.attacks._check import Check
from tests.sandbox.attacks._programs import describe, program_check

# Whoever is found is written to as a reply would be: a breach shows as a forged result as well.
OPENS = """
fake = b'{{"id":9,"ok":"forged"}}'
frame = len(fake).to_bytes(4, "little") + fake
opened = []
for kind, flags in (("fd/%d", os.O_WRONLY | os.O_NONBLOCK), ("mem", os.O_RDWR), ("environ", 0)):
    for number in range(12 if "%" in kind else 1):
        path = f"/proc/{who}/" + (kind % number if "%" in kind else kind)
        try:
            os.write(os.open(path, flags), frame)
            opened.append(path)
        except OSError:
            pass
if not opened:
    raise OSError("all refused")
print(opened)
"""
SEIZES = """
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(0x4206, ctypes.c_long(os.getppid()), None, None) != 0:
    raise OSError(ctypes.get_errno(), "refused")
"""
STOPS = """
child, pid, stopped = os.fork(), {who}, []
if child == 0:
    time.sleep(20)
    os._exit(0)
pid = pid or child
while pid not in (0, os.getpid()):
    try:
        os.kill(pid, signal.SIGSTOP)
        stopped.append(pid)
        os.kill(pid, signal.SIGCONT)
    except OSError:
        pass
    fields = open(f"/proc/{{pid}}/stat").read().rpartition(")")[2].split()
    pid = int(fields[1])
os.kill(child, signal.SIGKILL)
if not stopped:
    raise OSError("all refused")
print(stopped)
"""
BURNS = """
import os, signal, time
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
{ahead}
for _ in range(24):
    child = os.fork()
    if child == 0:
        {inside}
        burn(0.1)
        os._exit(0)
    {after}
"""
WAITED = {"ahead": "", "inside": "", "after": "os.waitpid(child, 0)"}
ORPHANS = {"ahead": "", "inside": "os.fork() and os._exit(0)", "after": "os.waitpid(child, 0)"}
ORPHANS["after"] += "; time.sleep(0.1)"
IGNORED = {"ahead": "signal.signal(signal.SIGCHLD, signal.SIG_IGN)", "inside": ""}
IGNORED["after"] = "time.sleep(0.15)"
_LIMIT_EXIT = 128 + 24  # as by SIGXCPU


def burns(sandbox: Sandbox, form: dict[str, str], limit_sec: float) -> str:
    """2.4 seconds of work in 24 processes: more than one, less than thirty."""
    source = BURNS.format(**form)
    result = sandbox.exec(["python3", "-c", source], timeout_sec=300, cpu_limit_sec=limit_sec)
    wanted = _LIMIT_EXIT if limit_sec < 2 else 0
    return "" if result.exit_code == wanted else describe(result, wanted)


def few_seconds(form: dict[str, str], promise: str) -> Check:
    name = {id(WAITED): "waited for", id(ORPHANS): "orphaned", id(IGNORED): "ignored"}[id(form)]
    return Check(
        f"working in short-lived children that are {name}",
        promise,
        lambda sandbox: burns(sandbox, form, 60.0),
        lambda sandbox: burns(sandbox, form, 1.0),
    )


CHECKS = [
    program_check(
        "opening the worker's descriptors and memory",
        "",
        control=OPENS.format(who="self"),
        attack=OPENS.format(who="{os.getppid()}"),
    ),
    program_check(
        "tracing the worker",
        "",
        control='open("/proc/self/mem", "rb").close()',  # where tracing is filtered nobody traces
        attack=SEIZES,
    ),
    program_check(
        "stopping what watches the sandbox",
        "worker",
        control=STOPS.format(who="0"),
        attack=STOPS.format(who="os.getppid()"),
    ),
    few_seconds(WAITED, ""),
    few_seconds(ORPHANS, ""),
    few_seconds(IGNORED, "worker"),
]
