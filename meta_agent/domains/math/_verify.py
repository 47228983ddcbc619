"""The host's handle on math-verify: a worker in a process sandbox that can be killed at any time.

Model text is parsed there and nowhere else: no network, read-only files, bounded memory (as far as
the kernel allows, see `sandbox`), one forked child with a deadline per comparison. The worker is a
process sandbox also where code runs in Docker, because the libraries are on this machine and not
in the image. Promises: `check` always returns one verdict per pair, or raises `SandboxError` for
infrastructure; a comparison that runs out of time says so and is not equal.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata, resources, util
from pathlib import Path
from typing import Final

from meta_agent.core.distribution import install
from meta_agent.core.errors import CANDIDATE_KILLS, PreflightError, SandboxError
from meta_agent.core.protocols import JSON, Sandbox, SandboxLimits

WALL_SEC: Final = 10.0
CPU_SEC: Final = 5
PACKAGES: Final = ("math-verify", "latex2sympy2_extended", "antlr4-python3-runtime", "sympy")
_BATCH: Final = 64
_WARM_SEC: Final = 120.0
_LIMITS: Final = SandboxLimits(memory_mb=2048, scratch_mb=16, deadline_sec=24 * 3600.0)
_ENDS: Final = frozenset({"ok", "timeout", "died", "error"})


@dataclass(frozen=True, slots=True)
class Comparison:
    """What became of one pair. `end` is `ok`, `timeout`, `died` or `error`."""

    end: str
    equal: bool = False
    gold_parsed: bool = False
    answer_parsed: bool = False
    detail: str = ""


class Verifier:
    """Compares answers by algebra. Any thread may call it; one comparison runs at a time."""

    def __init__(self, *, wall_sec: float = WALL_SEC, cpu_sec: int = CPU_SEC) -> None:
        self._wall_sec, self._cpu_sec = wall_sec, cpu_sec
        self._sandbox: Sandbox | None = None
        self._lock = threading.Lock()  # guards the worker, which answers one request at a time

    def check(self, pairs: Sequence[tuple[str, str]]) -> list[Comparison]:
        """One comparison per (gold, answer), in order."""
        with self._lock:
            found: list[Comparison] = []
            for start in range(0, len(pairs), _BATCH):
                found += self._batch(pairs[start : start + _BATCH])
            return found

    def close(self) -> None:
        """Ends the worker; the next check starts another."""
        with self._lock:
            self._drop()

    def _batch(self, pairs: Sequence[tuple[str, str]]) -> list[Comparison]:
        """A worker that dies gets one successor, and then every pair is tried alone."""
        try:
            return self._ask(pairs)
        except SandboxError:
            self._drop()
            if len(pairs) == 1:
                return [self._alone(pairs[0])]
            return [one for pair in pairs for one in self._batch([pair])]

    def _alone(self, pair: tuple[str, str]) -> Comparison:
        """The second try of one pair: a pair that kills two workers is to blame itself."""
        try:
            return self._ask([pair])[0]
        except SandboxError as error:
            self._drop()
            if error.kind not in CANDIDATE_KILLS:
                raise
            return Comparison("died", detail=str(error)[:200])

    def _ask(self, pairs: Sequence[tuple[str, str]]) -> list[Comparison]:
        args = {"pairs": list(pairs), "wall_sec": self._wall_sec, "cpu_sec": self._cpu_sec}
        limit = (self._wall_sec + 1) * len(pairs) + 30
        reply = self._worker().request("check", args, timeout_sec=limit)
        if not isinstance(reply, list) or len(reply) != len(pairs):
            raise SandboxError("the math worker sent no list of verdicts", kind="protocol")
        return [_parsed(item) for item in reply]

    def _worker(self) -> Sandbox:
        if self._sandbox is None:
            require_library()
            self._sandbox = _start()
        return self._sandbox

    def _drop(self) -> None:
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None


def _start() -> Sandbox:
    from meta_agent.sandboxes import open_sandbox

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
    """The text of what runs in the sandbox."""
    source = resources.files("meta_agent.domains.math").joinpath("verify_guest.py")
    return source.read_text("utf-8")


def require_library() -> None:
    """Refuses before anything starts where the extra is not installed."""
    if util.find_spec("math_verify") is None:
        raise PreflightError(
            "answers are checked with math-verify, which is not installed",
            hint=install("math"),
        )


@cache
def library_versions() -> dict[str, str]:
    """What decides verdicts besides our own code; part of the evaluator's identity."""
    require_library()
    return {name: metadata.version(name) for name in PACKAGES}


def _library_paths() -> list[str]:
    """Where the packages lie: `-S` keeps a sandbox's Python from looking there by itself."""
    found = [util.find_spec(name) for name in ("math_verify", "sympy", "mpmath", "antlr4")]
    origins = [spec.origin for spec in found if spec is not None and spec.origin]
    return sorted({str(Path(origin).parent.parent) for origin in origins})


def _parsed(item: JSON) -> Comparison:
    if not isinstance(item, dict) or item.get("end") not in _ENDS:
        raise SandboxError("the math worker sent a malformed verdict", kind="protocol")
    return Comparison(
        end=item["end"],
        equal=item.get("equal") is True,
        gold_parsed=item.get("gold") is True,
        answer_parsed=item.get("answer") is True,
        detail=str(item.get("detail", ""))[:200],
    )
