"""Runs a candidate's code inside its own sandbox: programs on inputs, functions on arguments.

Every program run is a forked child with its own session, limits on processor time, wall clock,
memory and output, and no descriptor but its three standard ones. What a run should have put out is
not here: the host compares. A candidate whose functions are called by a test program lives in one
child that answers calls over a pipe (`open`, `call`, `shut`), so that test code and candidate code
never share a process, not even a container.

Does not cover: secrecy of a task's own inputs from the candidate that runs on them.
"""

from __future__ import annotations

import _sitebuiltins
import atexit
import builtins
import contextlib
import ctypes
import io
import json
import os
import resource
import select
import signal
import sys
import time
import types
from collections.abc import Callable
from typing import Any

from values_guest import Codec  # type: ignore[import-not-found]  # installed beside

READ_BYTES = 1 << 16
STDERR_TAIL_BYTES = 2000
REPLY_LIMIT_BYTES = 16 << 20
CPU_SLACK_SEC = 0.5  # the kernel counts one process to the second, and we read what it wrote
LOOK_SEC = 0.05
PR_SET_DUMPABLE = 4

_open: dict[str, Any] = {}


# --- programs ------------------------------------------------------------------------------------


def stdio(args: dict[str, Any], channel: Any) -> list[dict[str, Any]]:
    """Runs the program `args["source"]` on each of `args["inputs"]`; returns results in order."""
    try:
        code = compile(args["source"], "solution.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        failed = {"end": "no_program", "detail": f"{type(error).__name__}: {error}"[:200]}
        return [failed for _ in args["inputs"]]
    return [run_once(code, text, args["limits"], channel) for text in args["inputs"]]


def run_once(code: Any, text: str, limits: dict[str, Any], channel: Any) -> dict[str, Any]:
    """Runs a program on one input, ends all processes that it started, and returns its result."""
    feed = os.memfd_create("stdin")
    with open(feed, "wb", closefd=False) as file:
        file.write(text.encode("utf-8", "surrogatepass"))
    os.lseek(feed, 0, os.SEEK_SET)
    out, out_sink = os.pipe()
    err, err_sink = os.pipe()
    started, spent = time.monotonic(), watch(limits, channel)
    pid = os.fork()
    if pid == 0:
        become_program(code, (feed, out_sink, err_sink), limits)
    for fd in (feed, out_sink, err_sink):
        os.close(fd)
    taken = drain(out, err, limits, started + limits["wall_sec"], spent)
    status = end_family(pid, taken["timed_out"] or taken["flooded"], channel)
    taken["timed_out"] |= spent()
    return result_of(status, taken, time.monotonic() - started)


def become_program(code: Any, fds: tuple[int, int, int], limits: dict[str, Any]) -> None:
    """Runs the program in the forked child. Never returns: the child ends by `os._exit`."""
    status = 1
    try:
        os.setsid()
        for target, fd in enumerate(fds):
            os.dup2(fd, target)
        os.closerange(3, 4096)
        fence(limits)
        out = open_streams()
        status = run_as_main(code)
        if not out.closed:
            out.flush()
    except BaseException:  # a flush into a closed pipe, a broken stream object
        status = status or 1
    finally:
        os._exit(status)


def open_streams() -> Any:
    """Opens `sys.stdin`, `stdout` and `stderr` anew for the program. Returns the output stream."""
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8")  # type: ignore[misc]  # noqa: SIM115
    out = open(1, "w", encoding="utf-8")  # noqa: SIM115
    sys.stdout = sys.__stdout__ = out  # type: ignore[misc]
    error = io.TextIOWrapper(io.FileIO(2, "w"), encoding="utf-8", write_through=True)
    sys.stderr = sys.__stderr__ = error  # type: ignore[misc]
    return out


def run_as_main(code: Any) -> int:
    """Runs the program as `__main__` and returns the exit status that Python would give."""
    main = types.ModuleType("__main__")
    main.__file__ = "solution.py"
    sys.modules["__main__"] = main
    sys.argv = ["solution.py"]
    atexit._clear()
    try:
        exec(code, main.__dict__)  # noqa: S102
        finish(main)
    except SystemExit as leaving:
        finish(main)
        return exit_status(leaving.code)
    except BaseException as error:
        with contextlib.suppress(BaseException):
            sys.stderr.write(f"{type(error).__name__}: {error}"[:STDERR_TAIL_BYTES])
        return 1
    return 0


def finish(main: types.ModuleType) -> None:
    """Does what Python does at a program's end, but does not exit; empties the module `main`."""
    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    main.__dict__.clear()


def exit_status(code: Any) -> int:
    """Returns the exit status, from 0 to 255, that `sys.exit(code)` gives a process."""
    if code is None:
        return 0
    return code & 0xFF if isinstance(code, int) else 1


def fence(limits: dict[str, Any]) -> None:
    """Limits this process's processor time, memory and stack. Ends the ban on attaching to it."""
    shield(on=False)
    cpu = limits["cpu_sec"]
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    memory = limits["memory_mb"] << 20
    memory = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
    resource.setrlimit(resource.RLIMIT_AS, (memory, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_STACK, (64 << 20, resource.RLIM_INFINITY))


def watch(limits: dict[str, Any], channel: Any) -> Callable[[], bool]:
    """Returns a function that tells whether a run's processes have used up their CPU time."""
    meter, limit = channel.cpu_meter(), limits["cpu_sec"] + CPU_SLACK_SEC

    def spent() -> bool:
        return bool(meter.used_sec() > limit)

    return spent


def drain(
    out: int, err: int, limits: dict[str, Any], deadline: float, spent: Callable[[], bool]
) -> dict[str, Any]:
    """Reads a run's output up to its end or a limit. Returns the text, and which limit was met."""
    text, tail, flooded = bytearray(), bytearray(), False
    waiter = select.poll()
    open_pipes = {out, err}
    for fd in open_pipes:
        waiter.register(fd, select.POLLIN)
    while open_pipes and not flooded:
        patience = deadline - time.monotonic()
        if patience <= 0 or spent():
            break
        for fd, _ in waiter.poll(min(patience, LOOK_SEC) * 1000):
            chunk = os.read(fd, READ_BYTES)
            if not chunk:
                waiter.unregister(fd)
                open_pipes.discard(fd)
            elif fd == out:
                text += chunk
                flooded = len(text) > limits["output_bytes"]
            else:
                tail = (tail + chunk)[-STDERR_TAIL_BYTES:]
    os.close(out)
    os.close(err)
    return {
        "text": bytes(text),
        "tail": bytes(tail),
        "flooded": flooded,
        "timed_out": bool(open_pipes) and not flooded,
    }


def end_family(pid: int, kill: bool, channel: Any) -> int:
    """Awaits (or kills) a run's first process and returns its status; kills all its descendants."""
    if kill:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    status = 0
    with contextlib.suppress(ChildProcessError):  # `ended` has reaped it already
        status = os.waitpid(pid, 0)[1]
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    channel.kill_descendants()
    return status


def result_of(status: int, taken: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Returns how a run ended (as `exited` or `timeout`), its exit code, output and seconds."""
    code = os.waitstatus_to_exitcode(status)
    end = "exited"
    if taken["flooded"]:
        end = "too_much_output"
    elif taken["timed_out"] or code == -signal.SIGXCPU:
        end = "timeout"
    elif code:
        end = "killed" if code < 0 else "crashed"
    detail = taken["tail"].decode("utf-8", "replace")[-300:]
    if end == "crashed" and "MemoryError" in detail:
        end = "out_of_memory"
    output = taken["text"].decode("utf-8", "replace") if end == "exited" else ""
    return {"end": end, "code": code, "output": output, "detail": detail, "seconds": seconds}


# --- functions -----------------------------------------------------------------------------------


def cases(args: dict[str, Any], channel: Any) -> list[dict[str, Any]]:
    """Calls a function with each of `args["cases"]`, each in a new process; returns the replies."""
    replies = []
    for case in args["cases"]:
        reply = open_candidate(args, channel)
        if reply["end"] == "ok":
            reply = call(
                {"name": args["name"], "given": case, "wall_sec": args["wall_sec"]}, channel
            )
        shut({}, channel)
        replies.append(reply)
    return replies


def open_candidate(args: dict[str, Any], channel: Any) -> dict[str, Any]:
    """Starts a process that loads the candidate's code. Returns `ok`, or why it does not load."""
    shut({}, channel)
    ask_source, ask = os.pipe()
    reply, reply_sink = os.pipe()
    spent = watch(args["limits"], channel)
    pid = os.fork()
    if pid == 0:
        become_callee(args, ask_source, reply_sink)
    os.close(ask_source)
    os.close(reply_sink)
    _open.update(pid=pid, ask=ask, reply=reply, spent=spent)
    return receive(args["limits"]["wall_sec"])


def call(args: dict[str, Any], channel: Any) -> dict[str, Any]:
    """Asks the open candidate to call a function. Returns its reply, or how its process ended."""
    del channel
    if "pid" not in _open:
        return {"end": "died"}
    line = json.dumps({"name": args["name"], "given": args["given"]}).encode() + b"\n"
    try:
        write_all(_open["ask"], line)
    except BrokenPipeError:
        return {"end": "died"}
    return receive(args["wall_sec"])


def shut(args: dict[str, Any], channel: Any) -> bool:
    """Ends the open candidate and all processes that it started. Returns False if none is open."""
    del args
    if "pid" not in _open:
        return False
    pid = _open["pid"]
    for name in ("ask", "reply"):
        os.close(_open[name])
    _open.clear()
    end_family(pid, kill=True, channel=channel)
    return True


def receive(wall_sec: float) -> dict[str, Any]:
    """Returns the candidate's next reply, untrusted JSON, or an end such as `timeout` or `died`."""
    deadline, text = time.monotonic() + wall_sec, bytearray()
    waiter = select.poll()
    waiter.register(_open["reply"], select.POLLIN)
    while not text.endswith(b"\n"):
        seconds = deadline - time.monotonic()
        if seconds <= 0 or _open["spent"]():
            return {"end": "timeout"}
        if not waiter.poll(min(seconds, LOOK_SEC) * 1000):
            continue
        chunk = os.read(_open["reply"], READ_BYTES)
        text += chunk
        if not chunk:
            return {"end": ended()}
        if len(text) > REPLY_LIMIT_BYTES:
            return {"end": "too_much_output"}
    try:
        reply = json.loads(text)
    except (ValueError, RecursionError):
        return {"end": "died"}
    return reply if isinstance(reply, dict) and "end" in reply else {"end": "died"}


def ended() -> str:
    """Returns why the candidate's process ended: `timeout` (processor time) or `died`."""
    with contextlib.suppress(ChildProcessError):
        pid, status = os.waitpid(_open["pid"], 0)
        if pid and os.waitstatus_to_exitcode(status) == -signal.SIGXCPU:
            return "timeout"
    return "died"


def write_all(fd: int, data: bytes) -> None:
    """Writes all bytes, also into a pipe that takes only a part at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def become_callee(args: dict[str, Any], source: int, sink: int) -> None:
    """Serves the candidate's functions in the forked child. Never returns."""
    try:
        os.setsid()
        null = os.open("/dev/null", os.O_RDWR)
        for target in (0, 1, 2):
            os.dup2(null, target)
        os.dup2(source, 200)
        os.dup2(sink, 201)
        os.closerange(3, 200)
        os.closerange(202, 4096)
        fence(args["limits"])
        sys.stdin = io.StringIO()
        sys.stdout = sys.stderr = io.StringIO()
        serve_calls(args["source"])
    finally:
        os._exit(0)


def serve_calls(source: str) -> None:
    """Loads the candidate's code, then answers requests until the pipe closes."""
    namespace: dict[str, Any] = {"__name__": "candidate"}
    say(load(source, namespace))
    codec = Codec(keep=True)
    with os.fdopen(200, "rb") as lines:
        for line in lines:
            request = json.loads(line)
            say(answer(request["name"], request["given"], namespace, codec))


def load(source: str, namespace: dict[str, Any]) -> dict[str, Any]:
    """Runs the candidate's module, and returns `ok` or why it does not load."""
    try:
        exec(compile(source, "solution.py", "exec", dont_inherit=True), namespace)  # noqa: S102
    except BaseException as error:  # also SystemExit: code that leaves while it loads
        return {"end": "no_program", "detail": f"{type(error).__name__}: {error}"[:200]}
    return {"end": "ok"}


def answer(name: str, sent: Any, namespace: dict[str, Any], codec: Any) -> dict[str, Any]:
    """Returns what a call returned or raised, and its arguments if it changed them."""
    try:
        arguments = codec.decode(sent)
        value = function_named(name, namespace)(*arguments)
        encoded, after = codec.encode(value), codec.encode(arguments)
    except BaseException as error:  # a candidate may raise anything, and exit
        kind = type(error).__name__
        return {"end": "raised", "kind": kind, "detail": safe_text(error)}
    reply = {"end": "ok", "value": encoded}
    return reply if after == sent else {**reply, "after": after}


def function_named(name: str, namespace: dict[str, Any]) -> Any:
    """Returns the function of that name, or `Solution().name`. Raises NameError if missing."""
    if name in namespace:
        return namespace[name]
    if "Solution" in namespace and hasattr(namespace["Solution"], name):
        return getattr(namespace["Solution"](), name)
    raise NameError(f"name {name!r} is not defined")


def safe_text(error: BaseException) -> str:
    """Returns an exception's text, or the empty string if its own code raises."""
    try:
        return str(error)[:200]
    except BaseException:
        return ""


def say(reply: dict[str, Any]) -> None:
    """Writes a reply as a line of JSON to the pipe that the worker reads."""
    write_all(201, json.dumps(reply).encode() + b"\n")


def shield(on: bool) -> None:
    """Forbids other processes of the same user to attach to this one (`on`), or allows this."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0 if on else 1, 0, 0, 0)


def add_builtins() -> None:
    """Adds the built-ins `exit` and `quit`, which a worker lacks, as it starts without `site`."""
    for name in ("exit", "quit"):
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D"))


shield(on=True)
add_builtins()
OPERATIONS = {
    "stdio": stdio,
    "cases": cases,
    "open_candidate": open_candidate,
    "call": call,
    "shut": shut,
}
