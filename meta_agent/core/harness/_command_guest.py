"""Guest module `agent_command`: runs a user's agent as a command in the sandbox. Stdlib only.

The command starts once, in a session of its own, with the endpoint's address in the environment
variables that SDKs read. Each of its model calls becomes one call to the host, in OpenAI's form:

    {kind: "model", base, new, max, tools?}     [content, finish_reason, tool_calls, usage] or None

Calls are answered in the order they came, one at a time. An answer of None means that the attempt
is over: every later request is refused with status 403, and the agent has `grace_sec` to end.

Does not cover: processes that the command left outside its process group. The host's next command
ends everything below the worker before it starts to read.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

# Their sources are installed first; there is no package of ours inside a sandbox.
endpoint: Any = sys.modules["agent_endpoint"]
Json = Any

TAIL_BYTES = 16 << 10
JOIN_SEC = 1.0
ENDED = object()
NO_KEY = "no-key-is-needed-here"
OPENAI_NAMES = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
KEY_NAMES = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")


class Tail:
    """A pipe whose last 16 KiB a thread keeps; a process writes to the descriptor `sink`."""

    def __init__(self) -> None:
        source, self.sink = os.pipe()
        self._bytes = bytearray()
        self._thread = threading.Thread(target=self._drain, args=(source,), daemon=True)
        self._thread.start()

    def _drain(self, source: int) -> None:
        while chunk := os.read(source, 1 << 16):
            self._bytes = (self._bytes + chunk)[-TAIL_BYTES:]
        os.close(source)

    def text(self) -> str:
        """Returns the last bytes as text. Waits up to a second for processes that still write."""
        self._thread.join(JOIN_SEC)
        return bytes(self._bytes).decode("utf-8", "replace")


class Process:
    """Starts the agent's command as a process, and keeps the last bytes of its output."""

    def __init__(self, argv: list[str], env: Mapping[str, str], cwd: str) -> None:
        self.out, self.err = Tail(), Tail()
        null = os.open("/dev/null", os.O_RDONLY)
        stdio = (null, self.out.sink, self.err.sink)
        try:
            self.pid = self._spawn(argv, env, cwd, stdio)
        finally:
            for descriptor in stdio:
                os.close(descriptor)

    @staticmethod
    def _spawn(argv: list[str], env: Mapping[str, str], cwd: str, stdio: tuple[int, ...]) -> int:
        home = os.getcwd()  # noqa: PTH109
        os.chdir(cwd)
        try:
            return os.posix_spawn(
                shutil.which(argv[0], path=env.get("PATH")) or argv[0],
                argv,
                env,
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, at) for at, fd in enumerate(stdio)],
                setsid=True,
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
            )
        finally:
            os.chdir(home)

    def tell(self, events: queue.Queue[Any]) -> None:
        """Returns at once. A thread puts the object ENDED into `events` when the command ends."""

        def wait() -> None:
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            events.put(ENDED)

        threading.Thread(target=wait, daemon=True).start()

    def end(self) -> int:
        """Kills the command's process group. Returns its exit code; -N if signal N ended it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)


class Relay:
    """Passes the agent's model requests to the host until the command ends or its time is up."""

    def __init__(self, channel: Any, events: queue.Queue[Any], deadline: float) -> None:
        self.channel = channel
        self.events = events
        self.deadline = deadline
        self.known: list[Json] = []
        self.calls = 0
        self.over = False

    def serve(self, grace_sec: float) -> bool:
        """Relays requests. Returns True if the command ended, False if its time ran out first.

        `grace_sec` is the command's time once the host says that the attempt is over.
        """
        while (remaining_sec := self.deadline - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                event = self.events.get(timeout=remaining_sec)
                if event is ENDED:
                    return True
                before = self.over
                self._answer(event)
                if self.over and not before:
                    self.deadline = min(self.deadline, time.monotonic() + grace_sec)
        return False

    def _answer(self, ask: Any) -> None:
        answer = None if self.over else self._ask_host(ask.request)
        if answer is None:
            self.over = True
            ask.refuse(endpoint.Refusal(endpoint.OVER_STATUS, endpoint.OVER, endpoint.OVER_TEXT))
        elif "err" in answer:
            problem = str(answer["err"])
            code = "context_length_exceeded" if "maximum context" in problem else "invalid_request"
            ask.refuse(endpoint.Refusal(400, code, problem))
        else:
            self.known.append(assistant(answer["ok"]))
            ask.answer(answer["ok"])

    def _ask_host(self, request: Any) -> Json:
        """Returns the host's answer, or None if the attempt is over or time is up."""
        base = common_prefix(self.known, request.messages)
        new = request.messages[base:]
        call = {"kind": "model", "base": base, "new": new, "max": request.max_tokens}
        if request.tools is not None:
            call["tools"] = request.tools
        self.calls += 1
        self.channel.calls([call])
        answers = self.channel.wait(max(0.0, self.deadline - time.monotonic()))
        answer = answers[0] if answers else {"ok": None}
        if "err" not in answer:
            self.known[base:] = new
        return None if answer.get("ok", ENDED) is None else answer


def assistant(answer: list[Json]) -> Json:
    """Returns a model reply, as the host sent it, as an assistant message in OpenAI's form."""
    message = {"role": "assistant", "content": answer[0]}
    return {**message, "tool_calls": answer[2]} if answer[2] else message


def common_prefix(conversation: list[Json], messages: list[Json]) -> int:
    """Returns how many messages at the front are the same in both lists."""
    shorter = min(len(conversation), len(messages))
    return next((at for at in range(shorter) if conversation[at] != messages[at]), shorter)


def filled(text: str, values: Mapping[str, str]) -> str:
    """Returns the text with each `{name}` replaced by its value. Values are not expanded again."""
    names = "|".join(map(re.escape, values))
    return re.sub(r"\{(" + names + r")\}", lambda match: values[match[1]], text)


def environment(args: Json, port: int, values: Mapping[str, str]) -> dict[str, str]:
    """Returns the command's environment variables; those of harness.toml win over all others."""
    base = f"http://127.0.0.1:{port}"
    ours = {**os.environ, **args["env"], **dict.fromkeys(KEY_NAMES, NO_KEY)}
    ours |= {**dict.fromkeys(OPENAI_NAMES, f"{base}/v1"), "ANTHROPIC_BASE_URL": base}
    return ours | {name: filled(text, values) for name, text in args["own_env"].items()}


def run(args: Json, channel: Any) -> Json:
    """Runs the agent's command and a model server for it. Returns how the command ended.

    The result holds `exit_code`, `stderr` and the number of model `calls`; if the command started,
    also `stdout`, `ended` (before its time ran out) and `over` (the host ended the attempt).
    """
    events: queue.Queue[Any] = queue.Queue()
    server = endpoint.Endpoint(events)
    base = f"http://127.0.0.1:{server.port}"
    values = {**args["values"], "openai_base_url": f"{base}/v1", "anthropic_base_url": base}
    argv = [filled(part, values) for part in args["argv"]]
    try:
        process = Process(argv, environment(args, server.port, values), args["cwd"])
    except (OSError, ValueError) as error:
        server.stop()
        return {"exit_code": 127, "stderr": f"cannot run {argv[0]}: {error}", "calls": 0}
    try:
        process.tell(events)
        relay = Relay(channel, events, time.monotonic() + args["wall_sec"])
        ended = relay.serve(args["grace_sec"])
    finally:
        code = process.end()
        server.stop()
    return {
        "exit_code": code if code >= 0 else 128 - code,
        "ended": ended,
        "over": relay.over,
        "calls": relay.calls,
        "stdout": process.out.text(),
        "stderr": process.err.text(),
    }


OPERATIONS = {"command.run": run}
