"""Compares answers by math-verify, in a worker process that can be killed at any time.

LaTeX is parsed in that worker alone: without network, with read-only files and bounded memory, as
far as the kernel allows. The worker is a process sandbox even where code runs in Docker, because
the libraries are on this machine and not in the image. `check` returns one verdict per question, or
raises `SandboxError` for infrastructure. A comparison that runs out of time is not equal.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata, resources, util
from pathlib import Path
from typing import Final

from meta_agent.core.distribution import install
from meta_agent.core.errors import CANDIDATE_KILLS, PreflightError, SandboxError
from meta_agent.core.protocols import JSON, Sandbox, SandboxLimits

WALL_SEC: Final = 10.0
PACKAGES: Final = ("math-verify", "latex2sympy2_extended", "antlr4-python3-runtime", "sympy")
_BATCH: Final = 64
_WARM_SEC: Final = 120.0
_RETRY_HINT: Final = f"run the same command again; if it fails again, {install('math')}"
_LIMITS: Final = SandboxLimits(memory_mb=2048, scratch_mb=16, deadline_sec=24 * 3600.0)
Question = Mapping[str, JSON]
"""`gold` and `answer` in LaTeX; `places` and `digits` of a decimal; the `form` that is asked."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """An answer compared with the gold one. `end` is `ok`, or `timeout` or `died` on a failure."""

    end: str
    equal: bool = False
    wrong_form: bool = False
    reason: str = ""


class Verifier:
    """Compares answers with gold answers by algebra, in a worker process. Threads may share it."""

    def __init__(self, *, wall_sec: float = WALL_SEC) -> None:
        self._wall_sec = wall_sec
        self._sandbox: Sandbox | None = None
        self._lock = threading.Lock()  # guards the worker, which answers one request at a time

    def check(self, questions: Sequence[Question]) -> list[Comparison]:
        """Returns one comparison per question, in order. Raises SandboxError if a sandbox fails."""
        starts = range(0, len(questions), _BATCH)
        with self._lock:
            return [c for start in starts for c in self._batch(questions[start : start + _BATCH])]

    def close(self) -> None:
        """Ends the worker process. The next `check` starts another."""
        with self._lock:
            self._drop()

    def _batch(self, questions: Sequence[Question], *, is_retry: bool = False) -> list[Comparison]:
        """Sends all questions at once. If the worker dies, a new one gets them one at a time."""
        try:
            return self._ask(questions)
        except SandboxError as error:
            self._drop()
            if not is_retry:
                return [c for question in questions for c in self._batch([question], is_retry=True)]
            if error.kind not in CANDIDATE_KILLS:
                raise
            return [Comparison("died", reason=str(error)[:200])]

    def _ask(self, questions: Sequence[Question]) -> list[Comparison]:
        if self._sandbox is None:
            self._sandbox = _start()
        limit = (self._wall_sec + 1) * len(questions) + 30
        args: dict[str, JSON] = {
            "questions": [dict(question) for question in questions],
            "wall_sec": self._wall_sec,
        }
        reply = self._sandbox.request("check", args, timeout_sec=limit)
        if not isinstance(reply, list) or len(reply) != len(questions):
            problem = "the process that checks math answers sent no verdicts"
            raise SandboxError(problem, kind="protocol", hint=_RETRY_HINT)
        return [_comparison(verdict) for verdict in reply]

    def _drop(self) -> None:
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None


def _start() -> Sandbox:
    from meta_agent.sandboxes import open_sandbox

    require_library()
    sandbox = open_sandbox("process", run="math-verify", limits=_LIMITS)
    try:
        sandbox.install("verify_guest", guest_source())
        sandbox.request("warm", {"paths": _library_paths()}, timeout_sec=_WARM_SEC)
    except BaseException:
        sandbox.close()
        raise
    return sandbox


@cache
def guest_source() -> str:
    """Returns the source of the module that compares answers inside the sandbox."""
    return resources.files(__package__).joinpath("verify_guest.py").read_text("utf-8")


def has_library() -> bool:
    """Returns whether the library math-verify is installed."""
    return util.find_spec("math_verify") is not None


def require_library() -> None:
    """Raises `PreflightError` if the library math-verify is not installed."""
    if not has_library():
        problem = "answers are checked with math-verify, which is not installed"
        raise PreflightError(problem, hint=install("math"))


@cache
def library_versions() -> dict[str, str]:
    """Returns versions of math-verify and its packages. PreflightError if these are missing."""
    require_library()
    return {name: metadata.version(name) for name in PACKAGES}


def _library_paths() -> list[str]:
    """Returns the folders of the packages, which a sandbox's Python does not search itself."""
    specs = [util.find_spec(name) for name in ("math_verify", "sympy", "mpmath", "antlr4")]
    return sorted({str(Path(s.origin).parent.parent) for s in specs if s and s.origin})


def _comparison(verdict: JSON) -> Comparison:
    if not isinstance(verdict, dict) or verdict.get("end") not in ("ok", "timeout", "died"):
        problem = f"the process that checks math answers sent a bad verdict: {verdict!r:.80}"
        raise SandboxError(problem, kind="protocol", hint=_RETRY_HINT)
    flags = (verdict.get("equal") is True, verdict.get("wrong_form") is True)
    return Comparison(str(verdict["end"]), *flags, str(verdict.get("reason", ""))[:200])
