"""The host's handle on a worker: the `Sandbox` protocol over any byte stream.

All backends are this class over different streams, so they behave alike. One request runs at a
time; others may be sent ahead and wait in the pipe. Promises: a request that outlives its deadline
kills the sandbox and raises `SandboxError(kind="timeout")`; afterwards every call raises the same
error. The time that the host takes to answer the guest's calls counts towards the deadline.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import shlex
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from meta_agent.core.errors import GuestError, SandboxError
from meta_agent.core.ledger.waiting import Wait, moved, owe, waiting
from meta_agent.core.parsing.strict import Budget
from meta_agent.core.protocols import JSON, Answer, Answerer, Call, CallServer, ExecResult
from meta_agent.core.sandbox.link import Link, LinkClosed, LinkTimeout, Stream, protocol_error

T = TypeVar("T")
# Above the worker's own deadline for a command: it kills and drains before it replies.
EXEC_GRACE_SEC = 45.0
FILES_TIMEOUT_SEC = 120.0
INSTALL_TIMEOUT_SEC = 60.0
WRITE_BATCH_BYTES = 8 << 20
ENVELOPE_BYTES = 512 << 10  # of a reply: around what was asked for, or a guest's whole traceback
NOTICE_BYTES = 64  # of the worker's line on what it left out of an output
MAX_CALLS = 16_384  # in one frame
MAX_NUMBER = 1 << 53


@dataclass(slots=True, eq=False)
class Sent:
    """A request that was sent to a sandbox, and the reply once it has arrived."""

    id: int
    op: str
    timeout_sec: float
    serve: CallServer
    budget: Budget
    subject: str = ""
    """The command that it runs, for people."""
    reply: dict[str, JSON] | None = None


class WorkerSandbox:
    """A sandbox that is controlled through its worker program at the other end of `stream`.

    If `program` is given, it is sent there first and becomes the worker. The constructor waits for
    the worker's greeting and raises SandboxError if none comes.
    """

    def __init__(
        self,
        backend: str,
        stream: Stream,
        program: bytes = b"",
        *,
        fences: frozenset[str] = frozenset(),
        start_timeout_sec: float = 120.0,
    ) -> None:
        self.backend = backend
        self._stream = stream
        self._link = Link(stream)
        self._ids = itertools.count(1)
        # One request at a time, held for its whole duration. Re-entrant: `serve` may close us.
        self._busy = threading.RLock()
        self._ahead: deque[Sent] = deque()  # sent and not replied to; the worker keeps the order
        self._end: SandboxError | None = None
        self._fences = fences
        self._facts = self._greet(program, start_timeout_sec)

    def _greet(self, program: bytes, timeout_sec: float) -> dict[str, JSON]:
        try:
            if program:
                self._link.send_raw((program,), time.monotonic() + timeout_sec)
            facts = parse_hello(self.request("hello", {}, timeout_sec=timeout_sec))
        except (LinkClosed, LinkTimeout, SandboxError) as error:
            cause = error if isinstance(error, SandboxError) else self._cause()
            self.close()
            raise SandboxError(
                f"the sandbox did not start: {cause}; run `meta-agent doctor`", kind="start"
            ) from error
        return facts

    @property
    def work_dir(self) -> str:
        """Returns the absolute path of the work directory, as processes in the sandbox see it."""
        work_dir: str = self._facts["work_dir"]
        return work_dir

    @property
    def fences(self) -> frozenset[str]:
        """Returns the names of the protections that the sandbox has, such as no network."""
        return self._fences | frozenset(self._facts["isolation"])

    def exec(
        self,
        argv: Sequence[str],
        *,
        cwd: str = ".",
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout_sec: float = 60.0,
        cpu_limit_sec: float | None = None,
        output_limit_bytes: int = 1 << 20,
    ) -> ExecResult:
        """Runs a command to its end and kills whatever it started.

        `cpu_limit_sec` limits the processor time of all its processes together; beyond it the
        command ends as by SIGXCPU. A killed command has exit code 128 + the signal's number. One
        that cannot start has 127 or 126. Raises SandboxError if the sandbox itself ends.
        """
        args = {
            "argv": list(argv),
            "cwd": cwd,
            "env": dict(env or {}),
            "stdin": encode(stdin),
            "timeout_sec": timeout_sec,
            "cpu_sec": cpu_limit_sec,
            "output_limit_bytes": output_limit_bytes,
        }
        budget = Budget(2 * encoded_size(output_limit_bytes + NOTICE_BYTES) + ENVELOPE_BYTES, 1000)
        subject = f"the command `{shlex.join(argv)[:120]}`"
        reply = self._request("exec", args, timeout_sec + EXEC_GRACE_SEC, budget, subject=subject)
        result = self._parsed(parse_exec, reply)
        if max(len(result.stdout), len(result.stderr)) > output_limit_bytes + NOTICE_BYTES:
            raise self._break_off(
                protocol_error(
                    "the sandbox worker returned more output than the command's limit and is killed"
                )
            )
        return result

    def write(self, files: Mapping[str, bytes], *, executable: bool = False) -> None:
        """Writes files, given as contents by relative path; creates folders and replaces files."""
        for batch in batches(files):
            self.request(
                "write", {"files": batch, "executable": executable}, timeout_sec=FILES_TIMEOUT_SEC
            )

    def read(self, paths: Sequence[str], *, limit_bytes: int = 16 << 20) -> dict[str, bytes]:
        """Returns the content of regular files by path; other and missing files are left out.

        Raises GuestError if all of them together exceed `limit_bytes`; no file is cut.
        """
        args = {"paths": list(paths), "limit_bytes": limit_bytes}
        names = sum(len(json.dumps(path)) + len('"":,===') for path in paths)
        budget = Budget(encoded_size(limit_bytes) + names + ENVELOPE_BYTES, len(paths) + 1000)
        reply = self._request("read", args, FILES_TIMEOUT_SEC, budget)
        files = self._parsed(parse_files, reply)
        if not files.keys() <= set(paths) or sum(map(len, files.values())) > limit_bytes:
            raise self._break_off(
                protocol_error(
                    "the sandbox worker returned files that were not requested and is killed"
                )
            )
        return files

    def install(self, name: str, source: str) -> None:
        """Loads Python source in the sandbox as a module, whose OPERATIONS `request` then calls."""
        self.request("install", {"name": name, "source": source}, timeout_sec=INSTALL_TIMEOUT_SEC)

    def request(
        self,
        op: str,
        args: Mapping[str, JSON],
        *,
        timeout_sec: float,
        serve: CallServer | None = None,
    ) -> JSON:
        """Calls the operation `op`, built in or of an installed module, and returns its result.

        `serve` answers the calls that code in the sandbox makes meanwhile. Raises GuestError if the
        operation raised, and SandboxError if the sandbox ended or time is up.
        """
        return self._request(op, args, timeout_sec, Budget(), serve or refuse)

    def _request(
        self,
        op: str,
        args: Mapping[str, JSON],
        timeout_sec: float,
        budget: Budget,
        serve: CallServer | None = None,
        subject: str = "",
    ) -> JSON:
        with self._taking_turns(op, timeout_sec):
            deadline = time.monotonic() + timeout_sec
            sent = Sent(next(self._ids), op, timeout_sec, serve or refuse, budget, subject)
            return self._reply_to(self._send(sent, args, ()), deadline)

    def begin(
        self,
        op: str,
        args: Mapping[str, JSON],
        *,
        timeout_sec: float,
        attached: Sequence[bytes] = (),
    ) -> Callable[[], JSON]:
        """Sends a request and returns at once, with a function that waits for the result.

        `timeout_sec` counts from the wait. The `attached` bytes arrive joined, as
        `args["attached"]`. The function raises as `request` does; calls to the host are refused.
        """
        with self._taking_turns(op, timeout_sec):
            sent = Sent(next(self._ids), op, timeout_sec, refuse, Budget())
            self._send(sent, args, attached)

        def wait() -> JSON:
            with self._taking_turns(op, timeout_sec):
                return self._reply_to(sent, time.monotonic() + timeout_sec)

        return wait

    def close(self) -> None:
        """Ends the sandbox and everything in it. A second call does nothing."""
        if self._end is None:
            self._end = SandboxError("the sandbox is closed, so it takes no request", kind="died")
        self._stream.kill()
        # A request in another thread sees the end at once; if it is busy serving, we do not wait
        # for it and leave its descriptors to the garbage collector.
        if self._busy.acquire(timeout=1.0):
            try:
                self._link.release()
            finally:
                self._busy.release()

    def __enter__(self) -> WorkerSandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _cause(self) -> SandboxError:
        try:
            return self._stream.post_mortem()
        except SandboxError as error:  # the engine itself is gone
            return error

    def _parsed(self, parse: Callable[[JSON], T], reply: JSON) -> T:
        try:
            return parse(reply)
        except SandboxError as error:
            raise self._break_off(error) from None

    def _break_off(self, error: SandboxError) -> SandboxError:
        self._end = self._end or error
        self._stream.kill()
        return error

    @contextlib.contextmanager
    def _taking_turns(self, op: str, timeout_sec: float) -> Iterator[None]:
        """Lets one thread at a time use the link; any error on the link ends the sandbox."""
        with self._busy:
            if self._end is not None:
                raise self._end
            try:
                yield
            except LinkTimeout:
                message = f"the sandbox was killed, because {op!r} took over {timeout_sec:g} s"
                raise self._break_off(SandboxError(message, kind="timeout")) from None
            except LinkClosed:
                raise self._break_off(self._end or self._cause()) from None
            except SandboxError as error:
                raise self._break_off(error) from None

    def _send(self, sent: Sent, args: Mapping[str, JSON], attached: Sequence[bytes]) -> Sent:
        # There may be no room in the pipe before those ahead are done.
        patience = sent.timeout_sec + sum(other.timeout_sec for other in self._ahead)
        message = {"id": sent.id, "op": sent.op, "args": dict(args)}
        self._link.send(message, time.monotonic() + patience, attached)
        self._ahead.append(sent)
        return sent

    def _reply_to(self, sent: Sent, deadline: float) -> JSON:
        while sent.reply is None:
            first = self._ahead.popleft()
            limit = deadline if first is sent else time.monotonic() + first.timeout_sec
            with self._waiting(first) as wait:
                first.reply = self._converse(first, limit, wait)
        return outcome(sent.reply)

    def _waiting(self, sent: Sent) -> contextlib.AbstractContextManager[Wait]:
        return waiting(
            "sandbox",
            f"{sent.subject or f'the operation `{sent.op}`'} in a sandbox ({self.backend})",
            limit_sec=sent.timeout_sec,
            advice="Nothing to do: at its limit the sandbox is killed, and the run continues.",
        )

    def _converse(self, sent: Sent, deadline: float, wait: Wait) -> dict[str, JSON]:
        def answer(answers: list[Answer], *, excused_sec: float = 0.0) -> None:
            nonlocal deadline
            deadline += excused_sec
            owe(wait, -len(answers))
            try:
                # What comes after the operation ended is dropped by the worker, by its id.
                self._link.send({"id": sent.id, "answers": answers}, deadline)
            except LinkTimeout:
                self._stream.kill()  # half a frame may be out: this link is of no more use

        budget, before = sent.budget, self._link.taken
        while True:
            frame = self._link.receive(deadline, budget)
            moved()
            if sent.serve is refuse:  # then one budget is for all frames together
                remaining = sent.budget.bytes - (self._link.taken - before)
                budget = replace(budget, bytes=remaining)
            if frame.get("id") != sent.id:
                raise protocol_error(
                    f"the sandbox worker answered request {frame.get('id')!r:.40} instead of "
                    f"{sent.id} and is killed"
                )
            if "calls" not in frame:
                return frame
            calls = parse_calls(frame["calls"])
            owe(wait, len(calls))
            sent.serve(calls, answer)


def refuse(calls: list[Call], answer: Answerer) -> None:
    """Answers every call from code in a sandbox with an error, where no calls are expected."""
    answer([{"cid": call["cid"], "err": "this request serves no calls"} for call in calls])


def outcome(frame: dict[str, JSON]) -> JSON:
    """Returns the value in a sandbox's reply (`frame`), or raises GuestError with its error."""
    if "ok" in frame:
        return frame["ok"]
    error = expect(frame.get("err"), dict)
    kind, message = str(error.get("type", "Exception")), str(error.get("message", ""))
    details = [str(error.get("traceback", "")), str(error.get("stderr", ""))]
    raise GuestError(kind, message, "\n".join(filter(None, details)))


def parse_calls(value: JSON) -> list[Call]:
    """Returns the calls that code in a sandbox sent. Raises SandboxError if they are malformed."""
    calls: list[Call] = expect(value, list)
    if len(calls) > MAX_CALLS:
        raise protocol_error(
            f"the sandbox worker sent {len(calls)} calls in one message, above the limit of "
            f"{MAX_CALLS}, and is killed"
        )
    for call in calls:
        cid, kind = expect(call, dict).get("cid"), call.get("kind")
        if type(cid) is not int or not 0 <= cid < MAX_NUMBER or type(kind) is not str:
            raise protocol_error(
                "the sandbox worker sent a call without a valid `cid` or `kind` and is killed"
            )
    return calls


def parse_hello(value: JSON) -> dict[str, JSON]:
    """Returns a sandbox's greeting (folder and protections). Raises SandboxError if malformed."""
    facts: dict[str, JSON] = expect(value, dict)
    expect(facts.get("work_dir"), str)
    for name in expect(facts.get("isolation"), list):
        expect(name, str)
    return facts


def parse_files(value: JSON) -> dict[str, bytes]:
    """Returns file contents by path from an untrusted reply. Raises SandboxError if malformed."""
    return {path: decode(content) for path, content in expect(value, dict).items()}


def parse_exec(value: JSON) -> ExecResult:
    """Returns an `ExecResult` from an untrusted reply. Raises SandboxError if malformed."""
    reply = expect(value, dict)
    code, duration = expect(reply.get("exit_code"), int), reply.get("duration_sec")
    if not 0 <= code <= 255 or type(duration) not in (int, float) or not 0 <= duration < MAX_NUMBER:
        raise protocol_error(
            f"the sandbox worker sent the impossible exit code {code!r:.40} or duration "
            f"{duration!r:.40} s and is killed"
        )
    return ExecResult(
        exit_code=code,
        stdout=decode(reply.get("stdout")),
        stderr=decode(reply.get("stderr")),
        timed_out=expect(reply.get("timed_out"), bool),
        truncated=expect(reply.get("truncated"), bool),
        duration_sec=float(duration),
        oom=expect(reply.get("oom"), bool),
    )


def expect(value: JSON, kind: type[Any]) -> Any:
    """Returns `value` if its type is exactly `kind`. Raises SandboxError otherwise."""
    if type(value) is not kind:
        raise protocol_error(
            f"the sandbox worker sent a {type(value).__name__} instead of a {kind.__name__} and "
            "is killed"
        )
    return value


def encoded_size(size: int) -> int:
    """Returns an upper bound on the length of `size` bytes as base64 text."""
    return 4 * (size // 3 + 1)


def encode(content: bytes) -> str:
    """Returns bytes as base64 text, as JSON messages to and from a sandbox carry them."""
    return base64.b64encode(content).decode()


def decode(content: JSON) -> bytes:
    """Returns the bytes of an untrusted base64 string. Raises SandboxError if it is not base64."""
    try:
        return base64.b64decode(expect(content, str), validate=True)
    except ValueError as error:  # not base64, or not even ASCII
        raise protocol_error(
            f"the sandbox worker sent bytes that are not base64 ({error}) and is killed"
        ) from error


def batches(files: Mapping[str, bytes]) -> Iterator[dict[str, str]]:
    """Yields the files as base64 text by path, in groups that each fit into one message."""
    batch: dict[str, str] = {}
    size = 0
    for path, content in files.items():
        if batch and size + len(content) > WRITE_BATCH_BYTES:
            yield batch
            batch, size = {}, 0
        batch[path] = encode(content)
        size += len(content)
    if batch:
        yield batch
