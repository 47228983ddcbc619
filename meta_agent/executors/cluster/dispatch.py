"""`ClusterExecutor`: units on the nodes of a cluster, and what a lost node means.

Each dispatch of a unit has a folder with a number of its own, `units/NAME/3` in the shared folder.
A unit is dispatched again by renaming the folder of the dispatch before: what was sealed there is
gone on from, and whoever still works for the older number writes where nobody looks. Only files
whose hashes are those of the result that this dispatch announced get their names in the workspace.

Promises: a place that dies, or says nothing for `silence_sec`, is given up, its unit is dispatched
again, and what it says later is dropped. A place whose code, versions, tasks or shared folder are
others is refused before it gets a unit, and the difference is named. What a killed driver left
behind is taken up: a result that was there already is not made again.

Not covered: how places are reached (`_ray`), and the folder itself, which all machines have to see
at the same path.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from meta_agent.core.durable import write_whole
from meta_agent.core.errors import (
    NO_ROOM,
    InfrastructureError,
    IntegrityError,
    PreflightError,
    of_disk,
)
from meta_agent.core.lab.units import Outputs, Report, TrainUnit, Unit, pack_of
from meta_agent.core.ledger import crash_point
from meta_agent.core.protocols import JSON, Domain, HarnessTree
from meta_agent.core.rollouts import RolloutStore
from meta_agent.executors.cluster._ray import Needs, PlaceLost
from meta_agent.executors.cluster.node import (
    CHECKPOINTS,
    PACKS,
    RESULT,
    ROLLOUTS,
    STOP,
    UNIT,
    error_from_json,
    facts,
    image_facts,
)
from meta_agent.policies.training.checkpoint import open_checkpoint

MOST_DISPATCHES: Final = 5
"""A unit that lost so many places stops the run: it may be what ends them."""
_JOIN_SEC: Final = 300.0
_LOOK_SEC: Final = 1.0


class Reached(Protocol):
    """A place, as `_ray.Place` is one."""

    node: str

    def facts(self, probe: str, timeout_sec: float) -> dict[str, str]: ...
    def start(self, folder: str) -> Any: ...
    def finished(self, begun: Any, within_sec: float) -> str | None: ...
    def heard(self, seen: int, timeout_sec: float) -> list[tuple[int, JSON]]: ...
    def end(self) -> None: ...


class Nodes(Protocol):
    """A cluster, as `_ray.Cluster` is one."""

    def room(self, needs: Needs) -> dict[str, int]: ...
    def place(self, node: str, needs: Needs, build: str, told: JSON) -> Reached: ...
    def close(self) -> None: ...


class ClusterExecutor:
    """Units on places of a cluster; `build` and `told` say how a node makes its apparatus."""

    def __init__(
        self,
        nodes: Nodes,
        needs: Needs,
        *,
        build: str,
        told: JSON,
        domain: Domain,
        shared: Path,
        tell: Callable[[str], None],
        stopping: Callable[[], bool] = lambda: False,
        silence_sec: float = 60.0,
    ) -> None:
        self._nodes, self._needs = nodes, needs
        self._build, self._told, self._stopping = build, told, stopping
        self._shared, self._tell, self._silence_sec = shared, tell, silence_sec
        (shared / PACKS).mkdir(parents=True, exist_ok=True)
        self._probe = shared / "probe"
        write_whole(self._probe, secrets.token_hex(8))
        self._here = facts(domain, self._probe) | image_facts(told.get("images", {}))
        self._idle: list[Reached] = []
        self._open: list[Reached] = []
        self._refused: dict[str, str] = {}
        self._changed = threading.Condition()  # guards the three above, and the writing of packs
        self.width = sum(nodes.room(needs).values())
        if not self.width:
            raise PreflightError(
                f"no node of the cluster has room for {needs.CPU} CPUs and {needs.GPU} GPUs",
                hint="ray status says what there is; --threads is what a unit takes",
            )

    def run(self, unit: Unit, tree: HarnessTree, outputs: Outputs, report: Report) -> JSON:
        """The unit's outcome; its files lie at `outputs` once this returns."""
        try:
            return self._run(unit, tree, outputs, report)
        except OSError as error:
            if known := of_disk(error):
                raise known from error
            if self._probe.exists():
                raise
            raise InfrastructureError(
                f"the shared folder {self._shared} is gone: {error.filename} was looked for",
                hint="mount it again here and on the nodes; then the same command goes on",
            ) from error

    def _run(self, unit: Unit, tree: HarnessTree, outputs: Outputs, report: Report) -> JSON:
        pack = self._shared / PACKS / unit.harness
        with self._changed:
            if not pack.exists():
                write_whole(pack, pack_of(tree).decode())
        folder = self._dispatch_folder(unit)
        for _ in range(MOST_DISPATCHES):
            result = self._finished_before(folder) or self._carried_out(folder, report)
            if result is not None:
                return self._published(unit, folder, result, outputs)
            folder = self._dispatch_folder(unit)
        raise InfrastructureError(
            f"{unit.name} was dispatched {MOST_DISPATCHES} times, and each time its node was lost",
            hint="ray status, and the nodes' memory; the same command goes on with it",
        )

    def close(self) -> None:
        """Ends every place."""
        for place in self._open:
            place.end()
        self._nodes.close()

    # --- a dispatch ----------------------------------------------------------------------------

    def _dispatch_folder(self, unit: Unit) -> Path:
        """A new number for this unit, with what the newest older one left of the same unit."""
        text = json.dumps(unit.to_json(), sort_keys=True)
        home = self._shared / "units" / f"{unit.to_json()['kind']}-{unit.name}"
        home.mkdir(parents=True, exist_ok=True)
        numbers = sorted(int(path.name) for path in home.iterdir() if path.name.isdecimal())
        folder = home / str(numbers[-1] + 1 if numbers else 1)
        before = home / str(numbers[-1]) if numbers else None
        if before and (before / UNIT).is_file() and (before / UNIT).read_text() == text:
            before.rename(folder)
            (folder / STOP).unlink(missing_ok=True)
        else:
            folder.mkdir()
            write_whole(folder / UNIT, text)
        return folder

    def _finished_before(self, folder: Path) -> bytes | None:
        """A result that a driver before this one did not live to see."""
        if not (folder / RESULT).is_file():
            return None
        result = (folder / RESULT).read_bytes()
        if "error" in json.loads(result):  # made again: what failed may not fail twice
            (folder / RESULT).unlink()
            return None
        return result

    def _carried_out(self, folder: Path, report: Report) -> bytes | None:
        """The result of this dispatch; None where its place was lost."""
        place = self._take()
        try:
            announced = self._watched(place, folder, report)
        except PlaceLost as error:
            self._give_up(place, f"{folder.parent.name} is dispatched again: {error}")
            return None
        except BaseException:
            self._give_up(place, f"{folder.parent.name} was broken off")
            raise
        with self._changed:
            self._idle.append(place)
            self._changed.notify()
        result = (folder / RESULT).read_bytes()
        if hashlib.sha256(result).hexdigest() != announced:
            raise IntegrityError(f"{folder / RESULT} is not the result that its node announced")
        return result

    def _watched(self, place: Reached, folder: Path, report: Report) -> str:
        """Waits for the end of a unit, and tells its metrics on the way."""
        begun, seen = place.start(str(folder)), 0
        while True:
            if self._stopping():
                (folder / STOP).touch()
            announced = _finished(place, begun)
            for step, row in place.heard(seen, self._silence_sec):
                seen += 1
                report(step, row)
                crash_point("under_way")
            if announced is not None:
                crash_point("announced")
                return announced

    # --- places --------------------------------------------------------------------------------

    def _take(self) -> Reached:
        """An idle place, or a new one where a node has room."""
        until = time.monotonic() + _JOIN_SEC
        while True:
            with self._changed:
                if self._idle:
                    return self._idle.pop()
                place = self._new_place()
                if place is None:
                    self._changed.wait(_LOOK_SEC)
            if place is not None:
                if self._joined(place):
                    return place
            elif not self._open and time.monotonic() > until:
                raise InfrastructureError(
                    "no node of the cluster is left" + self._said(),
                    hint="the same command goes on where this one stopped",
                )

    def _new_place(self) -> Reached | None:
        room = self._nodes.room(self._needs)
        if room and room.keys() <= self._refused.keys():
            raise PreflightError(
                "every node of the cluster was refused" + self._said(),
                hint="install on every node what is installed here",
            )
        for node, most in room.items():
            held = sum(one.node == node for one in self._open)
            if node not in self._refused and held < most:
                place = self._nodes.place(node, self._needs, self._build, self._told)
                self._open.append(place)
                return place
        return None

    def _joined(self, place: Reached) -> bool:
        """Whether it may work here: everything that could change a result is as it is here."""
        try:
            there = place.facts(str(self._probe), _JOIN_SEC)
        except PlaceLost as error:
            self._give_up(place, f"it did not join: {error}")
            return False
        if other := difference(self._here, there):
            self._refused[place.node] = other
            self._give_up(place, f"it is refused: {other}")
            return False
        return True

    def _give_up(self, place: Reached, why: str) -> None:
        place.end()
        with self._changed:
            self._open.remove(place)
            self._changed.notify()
        self._tell(f"node {place.node[:12]}: {why}")

    def _said(self) -> str:
        return "".join(f"; {node[:12]}: {why}" for node, why in self._refused.items())

    # --- results -------------------------------------------------------------------------------

    def _published(self, unit: Unit, folder: Path, result: bytes, outputs: Outputs) -> JSON:
        """Gives what the dispatch made its names in the workspace; hashes decide what it made."""
        told = json.loads(result)
        if error := told.get("error"):
            (folder / RESULT).unlink()
            raise error_from_json(error)
        outcome = told["outcome"]
        if isinstance(unit, TrainUnit):
            for one in (outcome, *outcome["kept"]):
                _move_checkpoint(folder / CHECKPOINTS, outputs.checkpoints, one)
        crash_point("half_published")
        outputs.store.adopt(RolloutStore(folder / ROLLOUTS), **outcome["shard"])
        (folder / RESULT).unlink()  # first: what is removed in part is not published again
        shutil.rmtree(folder.parent, ignore_errors=True)
        return outcome


def _finished(place: Reached, begun: Any) -> str | None:
    """What the place says. A disk that is full is full for all; one it cannot see is its loss."""
    try:
        return place.finished(begun, _LOOK_SEC)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise
        raise PlaceLost(f"{type(error).__name__}: {error}") from error


def difference(here: Mapping[str, str], there: Mapping[str, str]) -> str:
    """The first facts that differ, in words; empty where none does."""
    other = [name for name in here if here[name] != there.get(name)]
    return "; ".join(f"{name} is {there.get(name)} there, {here[name]} here" for name in other)


def _move_checkpoint(source: Path, target: Path, told: Mapping[str, JSON]) -> None:
    made, place = source / told["path"], target / told["path"]
    moved = not made.exists() and place.exists()  # by a driver that did not live to finish
    found = open_checkpoint(place if moved else made, alone=True).policy
    if found != told["policy"]:
        raise IntegrityError(f"{made} is {found}, its node announced {told['policy']}")
    if moved:
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(place, ignore_errors=True)
    made.rename(place)
