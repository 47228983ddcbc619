"""C: outliving a command, killing what one should not, forging replies."""

from __future__ import annotations

import time

from meta_agent.core.errors import SandboxError
from meta_agent.core.protocols import Sandbox
from tests.sandbox.attacks._check import Check
from tests.sandbox.attacks._programs import answers, describe, run_python

# Leaves its session twice over and then shows by a growing file that it lives.
ESCAPE = """
import os, sys, time, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        while True:
            open("heartbeat", "a").write("x")
            time.sleep(0.02)
    os._exit(0)
time.sleep({sleep})
"""
FORGE = """
import json, os
def forge(args, channel):
    fake = json.dumps({"id": args["id"], "ok": "forged"}).encode()
    frame = len(fake).to_bytes(4, "little") + fake
    for descriptor in (1, 2):
        os.write(descriptor, frame)
    print(frame, flush=True)
    return "true"
OPERATIONS = {"forge": forge}
"""


def heartbeat(sandbox: Sandbox) -> int:
    """How often the escaped process has shown that it lives."""
    return len(sandbox.read(["heartbeat"]).get("heartbeat", b""))


def escapes(sandbox: Sandbox, sleep_sec: float, timeout_sec: float) -> str:
    """Runs the escaping program to its end, then looks whether the heart still beats."""
    run_python(sandbox, ESCAPE.format(sleep=sleep_sec), timeout_sec=timeout_sec)
    before = heartbeat(sandbox)
    time.sleep(0.2)
    if not before:
        return "the escaped process never ran"
    return (
        f"{heartbeat(sandbox) - before} beats after its end" if heartbeat(sandbox) > before else ""
    )


def heart_beats_at_first(sandbox: Sandbox) -> str:
    source = "import time\nwhile True:\n    open('heartbeat', 'a').write('x')\n    time.sleep(0.02)"
    run_python(sandbox, source, timeout_sec=2.0)
    return "" if heartbeat(sandbox) > 3 else "no heartbeat"


def ignores_sigterm(sandbox: Sandbox) -> str:
    result = sandbox.exec(["sh", "-c", "trap '' TERM INT HUP; sleep 30; sleep 30"], timeout_sec=0.3)
    return "" if result.timed_out and result.duration_sec < 5 else repr(result)


def grandchild_holds_pipe(sandbox: Sandbox) -> str:
    started = time.monotonic()
    result = sandbox.exec(["sh", "-c", "sleep 30 & echo done"], timeout_sec=20)
    took = time.monotonic() - started
    good = result.stdout == b"done\n" and not result.timed_out and took < 5
    return "" if good else f"{took:.1f} s: {result}"


def kills_first_process(sandbox: Sandbox) -> str:
    """PID 1 is out of reach, or its death is typed: a result can never be made up."""
    try:
        sandbox.exec(["sh", "-c", "kill -9 1; kill -9 -1; true"], timeout_sec=5)
        return answers(sandbox)
    except SandboxError as error:
        return "" if error.kind == "died" else repr(error)


def kills_the_worker(sandbox: Sandbox) -> str:
    try:
        sandbox.exec(["sh", "-c", "kill -9 $PPID; sleep 1"], timeout_sec=5)
        return answers(sandbox)
    except SandboxError as error:
        return "" if error.kind == "died" else repr(error)


def forges_replies(sandbox: Sandbox) -> str:
    sandbox.install("forge", FORGE)
    for request_id in range(1, 8):
        if sandbox.request("forge", {"id": request_id}, timeout_sec=5) != "true":
            return "a printed frame was taken for a reply"
    return answers(sandbox)


def prints_frames(sandbox: Sandbox) -> str:
    fake = b'\x0d\0\0\0{"id":9,"ok":1}'
    result = sandbox.exec(["cat"], stdin=fake)
    return "" if result.stdout == fake else repr(result)


def fakes_timeout(sandbox: Sandbox) -> str:
    for code in (124, 137):
        result = sandbox.exec(["sh", "-c", f"exit {code}"])
        if result.timed_out or result.exit_code != code or result.oom:
            return repr(result)
    return ""


def real_timeout(sandbox: Sandbox) -> str:
    result = sandbox.exec(["sleep", "30"], timeout_sec=0.2)
    return "" if result.timed_out else describe(result, 137)


def exits_quietly(sandbox: Sandbox) -> str:
    """Guest code that ends the interpreter is an error, not a result."""
    sandbox.install("quit", "import os\ndef quit(a, c): os._exit(0)\nOPERATIONS = {'quit': quit}")
    try:
        return f"returned {sandbox.request('quit', {}, timeout_sec=5)!r}"
    except SandboxError as error:
        return "" if error.kind == "died" else repr(error)


CHECKS = [
    Check("ignoring the polite signals", "", real_timeout, ignores_sigterm),
    Check(
        "leaving the session, then running out of time",
        "",
        heart_beats_at_first,
        lambda sandbox: escapes(sandbox, 30, 0.5),
    ),
    Check(
        "leaving the session, then ending well",
        "",
        heart_beats_at_first,
        lambda sandbox: escapes(sandbox, 0.3, 20),
    ),
    Check("a grandchild holds the pipe", "", answers, grandchild_holds_pipe),
    Check("killing the first process", "processes", answers, kills_first_process, alone=True),
    Check("killing the worker", "", answers, kills_the_worker, alone=True),
    Check("forging replies on standard output", "", answers, forges_replies),
    Check("printing frames", "", answers, prints_frames),
    Check("faking a timeout by exit code", "", real_timeout, fakes_timeout),
    Check("guest code ends the interpreter", "", answers, exits_quietly, alone=True),
]
