"""`ClusterExecutor`: runs units on the nodes of a cluster, and handles lost nodes.

Each dispatch of a unit has its own numbered folder in the shared folder, such as `units/NAME/3`. To
dispatch a unit again, the executor renames the folder of the last dispatch. The new dispatch
resumes from the seals there. A node that still works for the old number writes to a path that
nobody reads. A file is published in the workspace only if its hash is in the announced result.

Promises: a place that dies, or does not answer for `silence_sec`, is given up. Its unit is
dispatched again, and its later answers are dropped. A place with other code, package versions,
tasks or shared folder is refused before it gets a unit, and a message names the difference. A new
driver takes up the results that a killed driver left.

Not covered: how places are reached (`_ray`), and how the shared folder is mounted. All machines
must see it at the same path.
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
"""A unit that lost so many places stops the run: the unit itself may kill them."""
_JOIN_SEC: Final = 300.0
_LOOK_SEC: Final = 1.0


class Reached(Protocol):
    """An actor on a cluster node, as `ClusterExecutor` uses it (`_ray.Place` is the real one)."""

    node: str

    def facts(self, probe: str, timeout_sec: float) -> dict[str, str]: ...
    def start(self, folder: str) -> Any: ...
    def finished(self, begun: Any, within_sec: float) -> str | None: ...
    def metrics_since(self, count: int, timeout_sec: float) -> list[tuple[int, JSON]]: ...
    def end(self) -> None: ...


class Nodes(Protocol):
    """A cluster's nodes, as `ClusterExecutor` uses them (`_ray.Cluster` is the real one)."""

    def room(self, needs: Needs) -> dict[str, int]: ...
    def place(self, node: str, needs: Needs, build: str, settings: JSON) -> Reached: ...
    def close(self) -> None: ...


class ClusterExecutor:
    """Runs trainings and evaluations on a cluster, and repeats those of a lost node.

    Each node calls `build` (`module:function`) with `settings` to make the object that runs them.
    """

    def __init__(
        self,
        nodes: Nodes,
        needs: Needs,
        *,
        build: str,
        settings: JSON,
        domain: Domain,
        shared: Path,
        tell: Callable[[str], None],
        stopping: Callable[[], bool] = lambda: False,
        silence_sec: float = 60.0,
    ) -> None:
        self._nodes, self._needs = nodes, needs
        self._build, self._settings, self._stopping = build, settings, stopping
        self._shared, self._tell, self._silence_sec = shared, tell, silence_sec
        (shared / PACKS).mkdir(parents=True, exist_ok=True)
        self._probe = shared / "probe"
        write_whole(self._probe, secrets.token_hex(8))
        self._here = facts(domain, self._probe) | image_facts(settings.get("images", {}))
        self._idle: list[Reached] = []
        self._open: list[Reached] = []
        self._refused: dict[str, str] = {}
        self._changed = threading.Condition()  # guards the three above, and the writing of packs
        self.width = sum(nodes.room(needs).values())
        if not self.width:
            raise PreflightError(
                f"no node of the cluster has {needs.CPU} CPUs and {needs.GPU} GPUs, which a "
                "training needs",
                hint="compare with ray status; --threads sets how many CPUs a training takes",
            )

    def run(self, unit: Unit, tree: HarnessTree, outputs: Outputs, report: Report) -> JSON:
        """Runs a training or evaluation of the harness `tree` on a node and returns its outcome.

        Its files go to `outputs`, its metrics to `report`. Raises the error that the work raised,
        or InfrastructureError if the shared folder or every node is gone.
        """
        try:
            return self._run(unit, tree, outputs, report)
        except OSError as error:
            if disk_error := of_disk(error):
                raise disk_error from error
            if self._probe.exists():
                raise
            raise InfrastructureError(
                f"the shared folder {self._shared} is gone: {error.filename} cannot be opened",
                hint="mount it again here and on the nodes, then run the same command again",
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
            f"{unit.name} was started {MOST_DISPATCHES} times, and its node was lost each time",
            hint="check ray status and the memory of the nodes, then run the same command again",
        )

    def close(self) -> None:
        """Ends the work on every node, and the connection to the cluster."""
        for place in self._open:
            place.end()
        self._nodes.close()

    # --- a dispatch ----------------------------------------------------------------------------

    def _dispatch_folder(self, unit: Unit) -> Path:
        """Makes the folder of a new dispatch, with the files of the unit's last dispatch."""
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
        """Returns the result of a dispatch that ended after its driver was killed, or None."""
        if not (folder / RESULT).is_file():
            return None
        result = (folder / RESULT).read_bytes()
        if "error" in json.loads(result):  # the unit is repeated: it may not fail again
            (folder / RESULT).unlink()
            return None
        return result

    def _carried_out(self, folder: Path, report: Report) -> bytes | None:
        """Runs a dispatch on a place. Returns its result, or None if the place was lost."""
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
            raise IntegrityError(
                f"{folder / RESULT} has another hash than its node reported; run the same "
                "command again, and check the shared folder if it happens again"
            )
        return result

    def _watched(self, place: Reached, folder: Path, report: Report) -> str:
        """Reports a unit's metrics until it ends. Returns the announced hash of its result."""
        begun, row_count = place.start(str(folder)), 0
        while True:
            if self._stopping():
                (folder / STOP).touch()
            announced = _finished(place, begun)
            for step, row in place.metrics_since(row_count, self._silence_sec):
                row_count += 1
                report(step, row)
                crash_point("under_way")
            if announced is not None:
                crash_point("announced")
                return announced

    # --- places --------------------------------------------------------------------------------

    def _take(self) -> Reached:
        """Returns an idle place, or a new one if a node has room. Waits until there is one."""
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
                    "no node of the cluster is left" + self._refusals(),
                    hint="start the nodes again, then run the same command: it resumes",
                )

    def _new_place(self) -> Reached | None:
        room = self._nodes.room(self._needs)
        if room and room.keys() <= self._refused.keys():
            raise PreflightError(
                "every node of the cluster differs from this machine" + self._refusals(),
                hint="install the same versions on every node as here",
            )
        for node, most in room.items():
            held = sum(open_place.node == node for open_place in self._open)
            if node not in self._refused and held < most:
                place = self._nodes.place(node, self._needs, self._build, self._settings)
                self._open.append(place)
                return place
        return None

    def _joined(self, place: Reached) -> bool:
        """Returns whether a place may get units. Refuses it if a fact differs from those here."""
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

    def _refusals(self) -> str:
        return "".join(f"; {node[:12]}: {why}" for node, why in self._refused.items())

    # --- results -------------------------------------------------------------------------------

    def _published(self, unit: Unit, folder: Path, result: bytes, outputs: Outputs) -> JSON:
        """Moves the files of a dispatch into the workspace, after their hashes are checked."""
        record = json.loads(result)
        if error := record.get("error"):
            (folder / RESULT).unlink()
            raise error_from_json(error)
        outcome = record["outcome"]
        if isinstance(unit, TrainUnit):
            for checkpoint in (outcome, *outcome["kept"]):
                _move_checkpoint(folder / CHECKPOINTS, outputs.checkpoints, checkpoint)
        crash_point("half_published")
        outputs.store.adopt(RolloutStore(folder / ROLLOUTS), **outcome["shard"])
        (folder / RESULT).unlink()  # first, so that a folder removed in part is not published again
        shutil.rmtree(folder.parent, ignore_errors=True)
        return outcome


def _finished(place: Reached, begun: Any) -> str | None:
    """Returns the hash of a finished unit, or None.

    A full disk stops the run, because all nodes share it. Any other OSError loses the place.
    """
    try:
        return place.finished(begun, _LOOK_SEC)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise
        raise PlaceLost(f"{type(error).__name__}: {error}") from error


def difference(here: Mapping[str, str], there: Mapping[str, str]) -> str:
    """Returns text that names each version or hash that differs between two machines, or ""."""
    other = [name for name in here if here[name] != there.get(name)]
    return "; ".join(f"{name} is {there.get(name)} there, {here[name]} here" for name in other)


def _move_checkpoint(source: Path, target: Path, checkpoint: Mapping[str, JSON]) -> None:
    origin, destination = source / checkpoint["path"], target / checkpoint["path"]
    is_moved = (
        not origin.exists() and destination.exists()
    )  # by a driver that was killed before it finished
    policy = open_checkpoint(destination if is_moved else origin, alone=True).policy
    if policy != checkpoint["policy"]:
        raise IntegrityError(
            f"{origin} has the hash {policy}, but its node announced {checkpoint['policy']}; run "
            "the same command again, and check the shared folder if it happens again"
        )
    if is_moved:
        return
    destination.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(destination, ignore_errors=True)
    origin.rename(destination)
