"""Every backend goes through the public suite, and the suite itself can fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from meta_agent.core.protocols import ExecResult, SandboxLimits
from meta_agent.sandboxes import WorkerSandbox, open_sandbox
from meta_agent.sandboxes._names import FENCES
from tests.sandbox import _conformance
from tests.sandbox._engines import on_engines, status
from tests.sandbox.attacks._check import LIMITS

CHECKS = _conformance.checks()
NEVER_IN_A_PROCESS = {"memory", "disk", "inodes"}


def opened(backend: str, limits: SandboxLimits) -> WorkerSandbox:
    return open_sandbox(backend, run="conformance", limits=limits)


def unbounded(engine: str) -> set[str]:
    """What an ordinary user's containers may lack, and Docker's never."""
    lacks = set(status(engine).unbounded)
    bounded_by_groups = ({"memory"} & lacks) | ({"worker"} if lacks & {"memory", "cpu"} else set())
    return bounded_by_groups | ({"inodes"} if engine == "podman" else set())


@pytest.fixture(scope="module")
def rooms(engine: str) -> Iterator[_conformance.Rooms]:
    with closing(_conformance.Rooms(lambda limits: opened(engine, limits))) as made:
        yield made


@on_engines(CHECKS)
def test_containers_hold(check: _conformance.Check, engine: str, rooms: _conformance.Rooms) -> None:
    result = rooms.run(check)
    if result.status == "not promised" and result.promise in unbounded(engine):
        pytest.skip(f"{engine} does not promise {result.promise!r} here")
    assert (result.status, result.detail) == ("passed", "")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_process_holds_what_it_promises(check: _conformance.Check) -> None:
    result = _conformance.run_check(check, lambda limits: opened("process", limits))
    if result.status == "not promised":
        pytest.skip(f"the process backend does not promise {result.promise!r} here")
    assert (result.status, result.detail) == ("passed", "")
    assert result.promise not in NEVER_IN_A_PROCESS


def test_names_are_unique_and_promises_known() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert {check.promise for check in CHECKS} == {*FENCES, ""}


PAGE = Path(__file__).parents[2] / "docs/security.md"


def promises_of_the_page() -> dict[str, dict[str, str]]:
    """By backend and promise: what the table of the page says."""
    rows = [
        line.strip("| \n").split(" | ") for line in PAGE.read_text().splitlines() if "|" in line
    ]
    (start,) = (at for at, row in enumerate(rows) if row[0] == "promise")
    backends = rows[start][2:]
    table = [row for row in rows[start + 2 :] if row[0].startswith("`")]
    cells = {row[0].strip("`"): dict(zip(backends, row[2:], strict=True)) for row in table}
    return {name: {promise: cells[promise][name] for promise in cells} for name in backends}


def test_the_page_names_every_promise_of_a_container() -> None:
    docker = promises_of_the_page()["Docker"]
    assert docker.keys() == FENCES
    assert all(cell.startswith("holds") for cell in docker.values())


def test_a_process_keeps_what_the_page_promises_and_no_more() -> None:
    cells = promises_of_the_page()["process"]
    with opened("process", LIMITS) as sandbox:
        if "host" not in sandbox.fences:
            pytest.skip("this kernel allows no user namespaces")
        assert {promise for promise, cell in cells.items() if cell == "holds"} <= sandbox.fences
        assert not {promise for promise, cell in cells.items() if cell.startswith("no")} & (
            sandbox.fences
        )


def named(name: str) -> _conformance.Check:
    return next(check for check in CHECKS if check.name == name)


class Boastful:
    """A process sandbox that claims every fence."""

    backend = "boastful"
    fences = FENCES

    def __init__(self, limits: SandboxLimits) -> None:
        self._inner = opened("process", limits)

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


@pytest.mark.parametrize("name", ["memory eaten by many processes", "filling the disk"])
def test_a_false_promise_is_caught(name: str) -> None:
    result = _conformance.run_check(named(name), Boastful)
    assert (result.status, result.detail.partition(": ")[0]) == ("failed", "attack")


class Broken(Boastful):
    """Refuses everything: it would hold against any attack, and is useless."""

    def exec(self, *_: object, **__: object) -> ExecResult:
        return ExecResult(43, b"", b"", False, False, 0.0)


def test_a_broken_sandbox_fails_its_controls() -> None:
    result = _conformance.run_check(named("mounting"), Broken)
    assert (result.status, result.detail.partition(": ")[0]) == ("failed", "control")


def test_a_sandbox_that_an_attack_spoiled_is_not_shared() -> None:
    made: list[Boastful] = []

    def factory(limits: SandboxLimits) -> Boastful:
        made.append(Broken(limits) if not made else Boastful(limits))
        return made[-1]

    with closing(_conformance.Rooms(factory)) as rooms:
        names = (
            "printing frames",
            "waiting for input",
            "printing frames",
            "faking a timeout by exit code",
        )
        ends = [rooms.run(named(name)).status for name in names]
    assert ends == ["failed", "passed", "passed", "passed"]
    assert len(made) == 3, "one was broken; the next is shared; another group has its own"
