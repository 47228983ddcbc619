"""What a lab does about rollouts that machines lost: real sandbox, ledger and store; no model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from meta_agent.composition.root import sandboxes_of
from meta_agent.core.errors import InfrastructureError
from meta_agent.core.lab.live import Evaluated, Lab, LabSettings, Trained
from meta_agent.core.ledger import Ledger
from meta_agent.core.protocols import GenerateReply, GenerateRequest, RolloutFailure, Task
from meta_agent.core.rollouts import RolloutStore

from ..rollouts._laboratory import LabDomain, ScriptGateway, task, tree

TASKS = 10
BASE = Trained("base", "base", 0, 0, None, [])


class Tasks(LabDomain):
    def tasks(self, split: str) -> Sequence[Task]:
        return [task(f"t{n}") for n in range(TASKS)]


class Server:
    """A policy that solves everything, behind a server that loses what `loses` says."""

    def __init__(self, *, lock_step: bool, loses: Callable[[str, int], str]) -> None:
        self.lock_step = lock_step
        self.asked: Counter[str] = Counter()
        self._loses = loses

    @contextmanager
    def acting(self, path: str, label: str) -> Iterator[ScriptGateway]:
        yield ScriptGateway(self._answer, lock_step=self.lock_step)

    def training(self) -> Any:
        raise AssertionError("nothing is trained here")

    def close(self) -> None: ...

    def _answer(self, request: GenerateRequest) -> GenerateReply | str:
        self.asked[request.task_key] += 1
        if lost := self._loses(request.task_key, self.asked[request.task_key]):
            failure = RolloutFailure("infra", lost)
            return GenerateReply("", "error", 0, 0, failure=failure)
        return "submit yes"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "ledger.sqlite") as opened:
        opened.start_run("r", {}, config_hash="h")
        yield opened


def lab_of(folder: Path, ledger: Ledger, server: Server) -> Lab:
    return Lab(
        LabSettings("r", "base", 1, folder / "checkpoints", 0, concurrency=2),
        ledger=ledger,
        store=RolloutStore(folder / "rollouts"),
        domain=Tasks(),  # type: ignore[arg-type]
        on_step=lambda *_: None,
        stopping=lambda: False,
        policies=server,
        open_sandbox=sandboxes_of("process", "r"),
    )


def evaluated(lab: Lab) -> Evaluated:
    return lab.evaluate(tree(), BASE, split="search", limit=TASKS)


def once(key: str, number: int) -> str:
    return "model: timeout: no first byte" if key == "t3" and number == 1 else ""


def always(key: str, number: int) -> str:
    return "model: timeout: no first byte" if key == "t3" else ""


def test_of_a_frozen_policy_only_what_was_lost_is_made_again(
    tmp_path: Path, ledger: Ledger
) -> None:
    server = Server(lock_step=False, loses=once)
    lab = lab_of(tmp_path, ledger, server)
    seen = evaluated(lab)
    assert (seen.planned, seen.solved, seen.rollouts) == (TASKS, TASKS, TASKS)
    assert server.asked == {f"t{n}": 2 if n == 3 else 1 for n in range(TASKS)}
    rows = lab.rollouts(seen.shard)
    assert [row.task_key for row in rows] == [f"t{n}" for n in range(TASKS)]
    assert all(row.rewards for row in rows)


@pytest.mark.parametrize(
    ("lock_step", "lost"),
    [
        (True, "model: timeout: x"),
        (False, "sandbox oom: of its own"),
        (False, "tool run: SandboxError: died"),
    ],
)
def test_all_is_made_again_where_a_part_would_not_be_the_same(
    tmp_path: Path, ledger: Ledger, lock_step: bool, lost: str
) -> None:
    server = Server(lock_step=lock_step, loses=lambda key, n: lost if once(key, n) else "")
    assert evaluated(lab_of(tmp_path, ledger, server)).solved == TASKS
    assert set(server.asked.values()) == {2}


def test_what_is_lost_twice_is_a_row_without_an_outcome(tmp_path: Path, ledger: Ledger) -> None:
    server = Server(lock_step=False, loses=always)
    lab = lab_of(tmp_path, ledger, server)
    seen = evaluated(lab)
    assert (seen.planned, seen.rollouts, seen.solved) == (TASKS, TASKS, TASKS - 1)
    assert [row.outcome for row in lab.rollouts(seen.shard)].count(None) == 1
    assert server.asked["t3"] == 2


def test_one_lost_rollout_of_a_small_set_is_borne(tmp_path: Path, ledger: Ledger) -> None:
    lab = lab_of(tmp_path, ledger, Server(lock_step=False, loses=always))
    lab.require(tree())
    assert evaluated(lab).solved == TASKS - 1


def test_a_version_that_lost_too_much_stops_the_run_and_can_be_measured_later(
    tmp_path: Path, ledger: Ledger
) -> None:
    down = [True]

    def two(key: str, number: int) -> str:
        return "model: timeout: no first byte" if down[0] and key in ("t3", "t4") else ""

    server = Server(lock_step=False, loses=two)
    lab = lab_of(tmp_path, ledger, server)
    lab.label(tree(), "v0")
    lab.require(tree())
    with pytest.raises(InfrastructureError, match=r"2 of 10 .*v0.*search") as told:
        evaluated(lab)
    assert told.value.exit_code == 5 and "timeout" in str(told.value) and told.value.hint
    down[0] = False
    assert evaluated(lab).solved == TASKS
