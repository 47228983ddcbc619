"""Grades programs ("candidates") by the tests of their problem, in sandboxes.

Promises: expected outputs and test code never enter the sandbox of a candidate. All tests of a
candidate run in one sandbox, which no other candidate has used unless `candidates_per_sandbox` is
above 1. If a sandbox dies twice while it runs a candidate, the candidate fails. Any other failure
of a sandbox raises `SandboxError`.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Final

from meta_agent.core.errors import CANDIDATE_KILLS, GuestError, SandboxError
from meta_agent.core.protocols import JSON, Answerer, Call, Sandbox
from meta_agent.domains.code._compare import same_output, same_value
from meta_agent.domains.code.values_guest import Codec, NotDataError
from meta_agent.domains.formats.code_sets import CodeRow, ProgramTest

SandboxFactory = Callable[[int], Sandbox]  # takes the memory limit of what runs inside, in MB

OUTPUT_BYTES: Final = 16 << 20
_CHUNK_CASES: Final = 16
_CHUNK_BYTES: Final = 8 << 20
_GRACE_SEC: Final = 30.0
_SPARE_MB: Final = 256  # for the worker beside what it runs
_JUDGE_MB: Final = 1024
# What a candidate's side may report of itself. It can write what it likes into its pipes, so any
# other word, `passed` above all, means that the run broke off.
_FAILURES: Final = frozenset(
    {"no_program", "crashed", "killed", "timeout", "out_of_memory", "too_much_output", "raised"}
)
# What the judge decides by itself, in a sandbox where no candidate runs.
_JUDGED: Final = frozenset({"passed", "failed", "raised", "never_called"})


class UngradableError(Exception):
    """Raised if a task's tests pass values that are no plain data, so nothing can be graded."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a program's tests. `end` is `passed` or the first failure, like `timeout`."""

    end: str
    passed: int = 0
    total: int = 0
    detail: str = ""

    @property
    def success(self) -> bool:
        return self.end == "passed"


@dataclass(slots=True)
class _Box:
    """A sandbox with our guests in it, and how many programs it has run."""

    role: str
    memory_mb: int
    sandbox: Sandbox
    used: int = 0


@dataclass(slots=True)
class CodeRunner:
    """Grades programs by their problem's tests, in sandboxes. Threads may share one runner."""

    factory: SandboxFactory
    candidates_per_sandbox: int = 1
    _idle: list[_Box] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)  # guards the idle sandboxes

    def run(self, row: CodeRow, source: str) -> Verdict:
        """Returns the tests' verdict on a program. SandboxError if a sandbox fails on its own."""
        for last_try in (False, True):
            try:
                return self._once(row, source)
            except SandboxError as problem:
                if problem.kind not in CANDIDATE_KILLS:
                    raise
                if last_try or problem.kind == "protocol":
                    total = len(row.cases)
                    return Verdict(f"killed_{problem.kind}", 0, total, str(problem)[:300])
        raise AssertionError("internal error, to be reported: the second try had no end")

    def close(self) -> None:
        """Ends all idle sandboxes."""
        with self._lock:
            idle = list(self._idle)
            self._idle.clear()
        for box in idle:
            box.sandbox.close()

    def _once(self, row: CodeRow, source: str) -> Verdict:
        memory_mb = row.memory_mb + _SPARE_MB
        with self._lent("candidate", memory_mb, self.candidates_per_sandbox) as sandbox:
            if row.kind == "asserts":
                return self._asserts(row, source, sandbox)
            return self._cases(row, source, sandbox)

    # --- tests that are data ---

    def _cases(self, row: CodeRow, source: str, sandbox: Sandbox) -> Verdict:
        passed = 0
        for chunk in _chunks(row.cases):
            for case, result in zip(chunk, _ask(row, source, chunk, sandbox), strict=True):
                end, detail = _judged(row, case, result)
                if end != "passed":
                    return Verdict(end, passed, len(row.cases), detail)
                passed += 1
        return Verdict("passed", passed, len(row.cases))

    # --- tests that are a program ---

    def _asserts(self, row: CodeRow, source: str, sandbox: Sandbox) -> Verdict:
        opened = sandbox.request(
            "open_candidate",
            {"source": source, "limits": _limits(row)},
            timeout_sec=_wall(row) + _GRACE_SEC,
        )
        if not isinstance(opened, dict):
            raise SandboxError("check the program: its sandbox did not answer", kind="protocol")
        if opened.get("end") != "ok":
            return Verdict(_failure(opened), 0, 1, str(opened.get("detail", ""))[:300])
        try:
            reply = self._tested(row, sandbox)
        finally:
            with contextlib.suppress(SandboxError, GuestError):
                sandbox.request("shut", {}, timeout_sec=_GRACE_SEC)
        if reply.get("end") == "ungradable":
            raise UngradableError(
                f"leave {row.key} out: its tests use a value that is no plain data"
            )
        end = reply["end"] if reply.get("end") in _JUDGED else _failure(reply)
        return Verdict(end, int(end == "passed"), 1, str(reply.get("detail", ""))[:300])

    def _tested(self, row: CodeRow, sandbox: Sandbox) -> dict[str, JSON]:
        relay = _Relay(sandbox, _wall(row))
        args = {"prelude": row.prelude, "program": row.program, "names": list(row.names)}
        limit = 2 * _wall(row) + _GRACE_SEC
        # Test code is the data set's own, so its sandbox serves many candidates.
        with self._lent("judge", _JUDGE_MB, math.inf) as judge:
            try:
                reply: dict[str, JSON] = judge.request(
                    "judge", args, timeout_sec=limit, serve=relay.serve
                )
            except SandboxError as problem:
                if relay.broken is None and problem.kind == "timeout":
                    return {"end": "timeout", "detail": "the tests did not end"}
                raise relay.broken or problem from problem
        if relay.broken is not None:
            raise relay.broken
        return reply

    # --- sandboxes ---

    @contextlib.contextmanager
    def _lent(self, role: str, memory_mb: int, uses: float) -> Iterator[Sandbox]:
        """Lends an idle or a new sandbox. Ends it after `uses` uses, or if one raises."""
        with self._lock:
            fitting = (b for b in self._idle if (b.role, b.memory_mb) == (role, memory_mb))
            box = next(fitting, None)
            if box is not None:
                self._idle.remove(box)
        if box is None:
            box = _Box(role, memory_mb, _started(self.factory, memory_mb, role))
        try:
            yield box.sandbox
        except GuestError as broken:  # the candidate broke our guest
            box.sandbox.close()
            raise SandboxError(f"the sandbox's runner failed: {broken}", kind="died") from broken
        except BaseException:
            box.sandbox.close()
            raise
        box.used += 1
        if box.used >= uses:
            box.sandbox.close()
            return
        with self._lock:
            self._idle.append(box)


@dataclass(slots=True)
class _Relay:
    """Passes calls of the test code to the candidate's sandbox."""

    sandbox: Sandbox
    wall_sec: float
    broken: SandboxError | None = None

    def serve(self, calls: list[Call], answer: Answerer) -> None:
        answer([{"cid": call["cid"], "ok": self._answer(call)} for call in calls])

    def _answer(self, call: Call) -> dict[str, JSON]:
        args = {
            "name": str(call.get("name")),
            "given": call.get("given"),
            "wall_sec": self.wall_sec,
        }
        try:
            if self.broken is None:
                reply = self.sandbox.request("call", args, timeout_sec=self.wall_sec + _GRACE_SEC)
                return _judge_reply(reply)
        except SandboxError as problem:
            self.broken = problem
        return {"end": "died"}


def _judge_reply(reply: JSON) -> dict[str, JSON]:
    """Returns a candidate's reply as the judge may see it: a value or how it failed."""
    if not isinstance(reply, dict):
        return {"end": "died"}
    if reply.get("end") in ("ok", "raised"):
        return {n: reply[n] for n in ("end", "value", "after", "kind", "detail") if n in reply}
    return {"end": _failure(reply)}


def _failure(reply: dict[str, JSON]) -> str:
    end = reply.get("end")
    return end if isinstance(end, str) and end in _FAILURES else "died"


def _ask(row: CodeRow, source: str, chunk: Sequence[ProgramTest], sandbox: Sandbox) -> list[JSON]:
    limits = _limits(row)
    args: dict[str, JSON] = {"source": source, "limits": limits}
    if row.kind == "stdio":
        args["inputs"] = [str(case.input) for case in chunk]
    else:
        codec = Codec()
        args |= {"name": row.entry_point, "wall_sec": limits["wall_sec"]}
        args["cases"] = [codec.encode(case.input) for case in chunk]
    limit = (limits["wall_sec"] * 2 + 2) * len(chunk) + _GRACE_SEC
    reply = sandbox.request("stdio" if row.kind == "stdio" else "cases", args, timeout_sec=limit)
    if not isinstance(reply, list) or len(reply) != len(chunk):
        raise SandboxError(f"check the program: {len(chunk)} results are missing", kind="protocol")
    return [item if isinstance(item, dict) else {"end": "died"} for item in reply]


def _judged(row: CodeRow, case: ProgramTest, result: dict[str, JSON]) -> tuple[str, str]:
    """Returns `passed`, or how a case failed and with what."""
    if row.kind == "function":
        return _value_verdict(row, case, result)
    if result.get("end") != "exited":
        return _failure(result), str(result.get("detail", ""))[:300]
    output = str(result.get("output", ""))
    same = same_output(str(case.expected), output)
    return ("passed", "") if same else ("wrong_answer", _output_text(output))


def _value_verdict(row: CodeRow, case: ProgramTest, result: dict[str, JSON]) -> tuple[str, str]:
    if result.get("end") != "ok":
        kind = result.get("kind", "")
        return _failure(result), f"{kind} {result.get('detail', '')}".strip()[:300]
    try:
        value = Codec().decode(result.get("value"))
        same = same_value(case.expected, value, row.source)
        return ("passed", "") if same else ("wrong_answer", _output_text(repr(value)))
    except (NotDataError, RecursionError, ValueError) as problem:  # a number too long to print
        return "wrong_answer", str(problem)[:300]


def _chunks(cases: Sequence[ProgramTest]) -> Iterator[list[ProgramTest]]:
    """Yields the cases in chunks, small ones first: most wrong programs fail the first test."""
    chunk: list[ProgramTest] = []
    size, room = 0, 1
    for case in cases:
        texts = [text for text in (case.input, case.expected) if isinstance(text, str)]
        cost = sum(map(len, texts)) + 1000
        if chunk and (len(chunk) >= room or size + cost > _CHUNK_BYTES):
            yield chunk
            chunk, size, room = [], 0, min(_CHUNK_CASES, room * 4)
        chunk.append(case)
        size += cost
    if chunk:
        yield chunk


def _limits(row: CodeRow) -> dict[str, Any]:
    return {
        "cpu_sec": max(1, math.ceil(row.time_sec)),
        "wall_sec": _wall(row),
        "memory_mb": row.memory_mb,
        "output_bytes": OUTPUT_BYTES,
    }


def _wall(row: CodeRow) -> float:
    """Returns the limit in elapsed seconds, which ends code that sleeps but uses no processor."""
    return 10.0 + 3.0 * row.time_sec


def _started(factory: SandboxFactory, memory_mb: int, role: str) -> Sandbox:
    """Starts a sandbox with this package's guests. Failures are ours: nothing untrusted has run."""
    try:
        sandbox = factory(memory_mb)
    except SandboxError as problem:
        raise SandboxError(str(problem), kind="start", hint=problem.hint) from problem
    try:
        for name in ("values_guest", f"{role}_guest"):
            sandbox.install(name, guest_source(name))
    except SandboxError as problem:
        sandbox.close()
        raise SandboxError(f"the sandbox cannot load {name}: {problem}", kind="start") from problem
    except BaseException:
        sandbox.close()
        raise
    return sandbox


@cache
def guest_source(name: str) -> str:
    """Returns the source of a guest: a module of this package that runs inside a sandbox."""
    return resources.files("meta_agent.domains.code").joinpath(f"{name}.py").read_text("utf-8")


def _output_text(output: str) -> str:
    return f"got {output[:200]!r}"
