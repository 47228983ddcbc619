"""What a cluster may do to a unit: die, hang, come back late, differ. No Ray: scripted places."""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.errors import (
    CandidateError,
    InfrastructureError,
    IntegrityError,
    Interrupted,
    PreflightError,
)
from meta_agent.core.lab.units import EvalUnit, Outputs, Report, TrainUnit, pack_of, unit_from_json
from meta_agent.core.protocols import JSON, HarnessTree
from meta_agent.core.rollouts import RolloutStore
from meta_agent.executors.cluster import dispatch, node
from meta_agent.executors.cluster._ray import Needs, PlaceLost
from meta_agent.executors.cluster.dispatch import MOST_DISPATCHES, ClusterExecutor
from meta_agent.executors.cluster.node import Node
from meta_agent.policies.training.checkpoint import open_checkpoint, write_checkpoint
from meta_agent.sandboxes import BASE_IMAGE, engine_status, image_ids

from ._harness import rollout, tree

TREE = tree()
UNIT = TrainUnit("t", hashlib.sha256(pack_of(TREE)).hexdigest(), 0, 2, 0, "nano", "nano", 0)


class Tasks:
    evaluator_hash = "ev"


class Bench:
    """In place of an apparatus: writes weights and rows as a training does."""

    domain = Tasks()

    def carry_out(
        self,
        unit: Any,
        tree: HarnessTree,
        outputs: Outputs,
        report: Report,
        stopping: Callable[[], bool],
    ) -> JSON:
        if unit.seed == 13:
            raise CandidateError("its recipe is refused", reason="recipe_refused")
        assert tree.files == TREE.files
        seal = outputs.checkpoints / "t.seals"
        report(1, {"step": 1, "resumed": seal.exists()})
        seal.mkdir(parents=True, exist_ok=True)
        if stopping():
            raise Interrupted("kept as of step 1")
        shutil.rmtree(outputs.checkpoints / unit.name, ignore_errors=True)
        made = write_checkpoint(
            outputs.checkpoints / unit.name,
            lambda folder: (folder / "model.json").write_text("weights") and None,
            kind="nano",
            steps=unit.steps,
            seed=unit.seed,
        )
        shard = outputs.store.write(f"r/train-{unit.name}", [rollout(0, n) for n in range(3)])
        return {
            "path": unit.name,
            "policy": made.policy,
            "kept": [],
            "shard": {"name": shard.name, "sha256": shard.sha256},
        }


def build(told: JSON) -> Bench:
    return Bench()


class Place:
    """A place whose `ends` says how each of its units ends: done, lost before or after it."""

    def __init__(self, nodes: Nodes, node: str) -> None:
        self.node, self._nodes = node, nodes
        self._code = Node(f"{__name__}:build", nodes.told)
        self.ended = False

    def facts(self, probe: str, timeout_sec: float) -> dict[str, str]:
        return self._code.facts(probe) | self._nodes.other.get(self.node, {})

    def start(self, folder: str) -> str:
        self._nodes.started.append((self.node, Path(folder)))
        return folder

    def finished(self, begun: str, within_sec: float) -> str | None:
        end = self._nodes.ends.pop(0) if self._nodes.ends else "done"
        if end == "sealed":
            (Path(begun) / "checkpoints" / "t.seals").mkdir(parents=True)
        if end in ("lost", "sealed"):
            raise PlaceLost("ActorUnavailableError: gone")
        if end == "late":
            self._nodes.late = lambda: self._code.carry_out(begun)
            raise PlaceLost("said nothing")
        return self._code.carry_out(begun) if end == "done" else end

    def metrics_since(self, count: int, timeout_sec: float) -> list[tuple[int, JSON]]:
        return self._code.metrics_since(count)

    def end(self) -> None:
        self.ended = True


class Nodes:
    """A cluster of two nodes with room for one unit each."""

    def __init__(self, *ends: str, told: JSON | None = None) -> None:
        self.ends, self.told = list(ends), told or {}
        self.other: dict[str, dict[str, str]] = {}
        self.started: list[tuple[str, Path]] = []
        self.places: list[Place] = []
        self.late: Callable[[], str] = lambda: ""
        self.rooms = {"a": 1, "b": 1}

    def room(self, needs: Needs) -> dict[str, int]:
        return self.rooms

    def place(self, node: str, needs: Needs, build: str, settings: JSON) -> Place:
        self.places.append(Place(self, node))
        return self.places[-1]

    def close(self) -> None: ...


class Run:
    def __init__(self, folder: Path, nodes: Nodes, told: JSON | None = None) -> None:
        self.nodes, self.notes, self.stop = nodes, list[str](), threading.Event()
        self.rows: list[JSON] = []
        self.outputs = Outputs(folder / "checkpoints", RolloutStore(folder / "rollouts"))
        self.shared = folder / "shared"
        self.executor = ClusterExecutor(
            nodes,
            Needs(1),
            build=f"{__name__}:build",
            settings=told or {},
            domain=Tasks(),  # type: ignore[arg-type]
            shared=self.shared,
            tell=self.notes.append,
            stopping=self.stop.is_set,
        )

    def __call__(self, unit: TrainUnit = UNIT) -> JSON:
        return self.executor.run(unit, TREE, self.outputs, lambda _, row: self.rows.append(row))

    def require_whole(self, outcome: JSON) -> None:
        assert open_checkpoint(self.outputs.checkpoints / "t").policy == outcome["policy"]
        assert len(self.outputs.store.read("r/train-t")) == 3
        assert list((self.shared / "units").iterdir()) == [], "nothing of a dispatch is left"


def test_units_are_json() -> None:
    part = dispatch.json.loads(dispatch.json.dumps(UNIT.to_json()))
    assert unit_from_json(part) == UNIT
    asked = EvalUnit("e", "h", 0, "search", 4, range(1, 3), None, "nano", "nano", 0, "")
    assert unit_from_json(dispatch.json.loads(dispatch.json.dumps(asked.to_json()))) == asked


def test_what_a_node_made_gets_its_names_in_the_workspace(tmp_path: Path) -> None:
    run = Run(tmp_path, Nodes())
    run.require_whole(run())
    assert run.executor.width == 2 and [row["resumed"] for row in run.rows] == [False]


def test_a_lost_node_costs_its_unit_another_dispatch(tmp_path: Path) -> None:
    run = Run(tmp_path, Nodes("lost", "lost"))
    run.require_whole(run())
    assert [folder.name for _, folder in run.nodes.started] == ["1", "2", "3"]
    assert [place.ended for place in run.nodes.places][:2] == [True, True]
    assert "ActorUnavailableError" in run.notes[0]


def test_the_next_dispatch_goes_on_from_what_was_sealed(tmp_path: Path) -> None:
    run = Run(tmp_path, Nodes("sealed"))
    run.require_whole(run())
    assert [row["resumed"] for row in run.rows] == [True]


def test_a_stop_is_heard_where_the_training_is(tmp_path: Path) -> None:
    run = Run(tmp_path, Nodes())
    run.stop.set()
    with pytest.raises(Interrupted, match="kept as of step 1") as told:
        run()
    assert told.value.hint
    run.stop.clear()
    run.require_whole(run())
    assert run.rows[-1]["resumed"], "from the seal, and nobody stops it again"


def test_a_late_result_of_an_older_dispatch_is_dropped(tmp_path: Path) -> None:
    run = Run(tmp_path, Nodes("late"))
    outcome = run()
    run.require_whole(outcome)
    before = {path: path.read_bytes() for path in run.outputs.checkpoints.rglob("*.json")}
    with pytest.raises(FileNotFoundError):
        run.nodes.late()
    run.require_whole(outcome)
    assert before == {path: path.read_bytes() for path in before}


def test_a_unit_that_loses_every_node_stops_the_run(tmp_path: Path) -> None:
    run = Run(tmp_path, Nodes(*["lost"] * MOST_DISPATCHES))
    with pytest.raises(InfrastructureError, match=str(MOST_DISPATCHES)) as told:
        run()
    assert told.value.hint
    run.require_whole(run())


def test_a_result_that_a_killed_driver_did_not_see_is_not_made_again(tmp_path: Path) -> None:
    killed = Run(tmp_path, Nodes())
    folder = killed.executor._dispatch_folder(UNIT)
    (killed.shared / "packs" / UNIT.harness).write_bytes(pack_of(TREE))
    Node(f"{__name__}:build", {}).carry_out(str(folder))
    run = Run(tmp_path, Nodes())
    run.require_whole(run())
    assert run.nodes.started == []


@pytest.mark.parametrize(
    ("last", "made_again"),
    [
        ((dispatch, "crash_point"), 0),
        ((RolloutStore, "adopt"), 0),
        ((RolloutStore, "_publish"), 0),
        ((dispatch.shutil, "rmtree"), 1),
    ],
)
def test_a_driver_killed_while_it_gives_files_their_names_is_followed_by_one_that_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: tuple[Any, str], made_again: int
) -> None:
    run = Run(tmp_path, Nodes())

    def killed(*told: Any, **_: Any) -> None:
        if told != (run.outputs.checkpoints / "t",):  # room is made there for what is moved
            raise Killed

    folder = run.executor._dispatch_folder(UNIT)
    (run.shared / "packs" / UNIT.harness).write_bytes(pack_of(TREE))
    Node(f"{__name__}:build", {}).carry_out(str(folder))
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(*last, killed)
        run()
    run.require_whole(run())
    assert len(run.nodes.started) == made_again


class Killed(BaseException):
    """In place of SIGKILL, which test_ray sends."""


def test_a_shared_folder_that_goes_away_stops_the_run_resumable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, honest = Run(tmp_path, Nodes()), Place.finished

    def unmounted(self: Place, begun: str, within_sec: float) -> str | None:
        run.shared.rename(tmp_path / "elsewhere")
        return honest(self, str(tmp_path / "elsewhere" / Path(begun).relative_to(run.shared)), 0)

    with monkeypatch.context() as patched:
        patched.setattr(Place, "finished", unmounted)
        with pytest.raises(InfrastructureError, match=r"result\.json"):
            run()
    (tmp_path / "elsewhere").rename(run.shared)
    run.require_whole(run())
    assert len(run.nodes.started) == 1, "its result was there and is taken up"


@pytest.mark.parametrize(
    ("whose", "number", "wanted"),
    [
        (node, errno.ENOSPC, "No space left"),
        (dispatch, errno.ENOSPC, "No space left"),
        (dispatch, errno.ESTALE, "Stale file handle"),
    ],
)
def test_a_shared_folder_that_is_full_or_stale_stops_the_run_resumable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whose: Any, number: int, wanted: str
) -> None:
    run = Run(tmp_path, Nodes())
    with monkeypatch.context() as patched:
        patched.setattr(whose, "write_whole", raising(number))
        with pytest.raises(InfrastructureError, match=wanted) as told:
            run()
    assert told.value.hint
    run.require_whole(run())


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ESTALE, errno.EIO])
def test_a_node_that_lost_the_shared_folder_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    run, whole = Run(tmp_path, Nodes()), node.write_whole
    monkeypatch.setattr(node, "write_whole", raising(number, then=whole))
    run.require_whole(run())
    assert os.strerror(number) in run.notes[0]
    assert len(run.nodes.started) == 2


def raising(number: int, then: Callable[..., None] | None = None) -> Callable[..., None]:
    """Raises as a disk does: every time, or once."""
    left = [1]

    def written(path: Path, *told: Any, **more: Any) -> None:
        if then is None or left:
            left.clear()
            raise OSError(number, os.strerror(number), str(path))
        then(path, *told, **more)

    return written


def test_a_result_that_was_not_announced_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, honest = Run(tmp_path, Nodes()), Place.finished
    monkeypatch.setattr(Place, "finished", lambda *asked: honest(*asked) and "f" * 64)
    with pytest.raises(IntegrityError, match=r"result\.json"):
        run()


def test_weights_that_changed_on_the_way_are_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, Nodes())
    honest = Place.finished

    def meddled(self: Place, begun: str, within_sec: float) -> str | None:
        announced = honest(self, begun, within_sec)
        (Path(begun) / "checkpoints" / "t" / "model.json").write_text("other")
        return announced

    monkeypatch.setattr(Place, "finished", meddled)
    with pytest.raises(IntegrityError, match=r"model\.json"):
        run()


def test_an_error_of_the_unit_is_the_same_here(tmp_path: Path) -> None:
    run = Run(tmp_path, Nodes())
    with pytest.raises(CandidateError) as told:
        run(UNIT._replace(seed=13))
    assert told.value.reason == "recipe_refused"
    run.require_whole(run())


def test_a_node_that_differs_is_refused_and_the_difference_named(tmp_path: Path) -> None:
    nodes = Nodes()
    nodes.other["b"] = {"torch": "1.0", "code of meta-agent": "x"}
    run = Run(tmp_path, nodes)
    nodes.rooms = {"b": 1, "a": 1}
    run.require_whole(run())
    assert [node for node, _ in nodes.started] == ["a"]
    assert "torch" in run.notes[0] and "1.0" in run.notes[0]


@pytest.mark.docker
def test_a_node_whose_image_is_another_is_refused_with_the_command_that_brings_it(
    tmp_path: Path,
) -> None:
    """One has the image that the run was opened with; the other's name means another image."""
    if not engine_status().ready:
        pytest.skip(engine_status().problem)
    held = image_ids("docker", [BASE_IMAGE])
    other = {BASE_IMAGE: f"sha256:{'0' * 64}"}
    told = {"backend": "docker", "images": held}
    run = Run(tmp_path / "same", Nodes(told=told), told)
    run.require_whole(run())
    told = {"backend": "docker", "images": other}
    with pytest.raises(PreflightError) as refused:
        Run(tmp_path / "other", Nodes(told=told), told)()
    for name in (BASE_IMAGE, platform.node(), "docker load --input FILE", "sha256:0000"):
        assert name in str(refused.value)


def test_where_every_node_differs_nothing_is_measured(tmp_path: Path) -> None:
    nodes = Nodes()
    nodes.other = {"a": {"shared folder": "x"}, "b": {"python": "2.7"}}
    with pytest.raises(PreflightError, match=r"a: shared folder.*b: python.*2\.7"):
        Run(tmp_path, nodes)()
    assert nodes.started == []


def test_units_beside_each_other_have_places_of_their_own(tmp_path: Path) -> None:
    run, done = Run(tmp_path, Nodes()), list[str]()
    units = [UNIT._replace(name=f"t{n}") for n in range(4)]
    threads = [threading.Thread(target=lambda u=one: done.append(run(u)["path"])) for one in units]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == ["t0", "t1", "t2", "t3"]
    assert len(run.nodes.places) <= 2
