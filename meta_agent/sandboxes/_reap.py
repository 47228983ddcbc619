"""Removes sandboxes whose owner is gone: after a kill -9, a power cut, a lost terminal.

Promises: it touches only this installation's sandboxes, and of those only ones past their deadline
or with a dead owner; it may be repeated. Not covered: processes of the process backend, which the
kernel ends with their parent; only their folders have to be removed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from meta_agent.core.errors import SandboxError
from meta_agent.core.workspace import read_small
from meta_agent.sandboxes._names import (
    CONTAINERS,
    FOLDER_PREFIX,
    HOLDER_FILE,
    SEALED_LABEL,
    SNAPSHOT_LABEL,
)
from meta_agent.sandboxes._owner import holder_is_dead, install_id


def reap(owner: str | None = None, backends: Iterable[str] = CONTAINERS) -> list[str]:
    """Removes folders and containers of sandboxes whose opener is dead, and overdue containers.

    Returns their names. `owner` is an installation's id (None: this one's).
    """
    removed = reap_folders(Path(tempfile.gettempdir()))
    for name in CONTAINERS:
        if name in backends:
            removed += _reap_containers(owner or install_id(), name)
    return removed


def reap_images(backend: str = "docker") -> list[str]:
    """Removes unused images that were made for tasks, and returns their names.

    They are snapshots of containers, and copies of images without their git history.
    """
    from meta_agent.sandboxes import _engine

    engine = _engine.engine(backend)
    images = [*engine.labelled_images(SEALED_LABEL), *engine.labelled_images(SNAPSHOT_LABEL)]
    return [name for image_id, name in images if engine.remove_image(image_id)]


def _reap_containers(owner: str, backend: str) -> list[str]:
    from meta_agent.sandboxes import _engine

    engine = _engine.engine(backend)
    try:
        rows = engine.owned_containers(owner)
    except SandboxError:
        return []  # no engine, no containers
    orphans = [(id_, name) for id_, name, labels in rows if is_orphan(labels, time.time())]
    for container_id, _ in orphans:
        engine.remove_container(container_id)
    return [name for _, name in orphans]


def is_orphan(labels: Mapping[str, str], now: float) -> bool:
    """Returns True if a container is past its deadline, or the process that opened it is dead.

    `labels` are the container's, and `now` is in seconds since the epoch.
    """
    deadline = labels.get("ma.deadline", "")
    past = deadline.isdecimal() and now > int(deadline)
    return past or holder_is_dead(labels.get("ma.holder", ""))


def reap_folders(temp: Path) -> list[str]:
    """Removes sandboxes' folders in `temp` whose opening process is dead. Returns their names."""
    from meta_agent.core.durable import remove_folder

    orphans = [folder for folder in temp.glob(f"{FOLDER_PREFIX}*") if _is_dead(folder)]
    for folder in orphans:
        remove_folder(folder)
    return [folder.name for folder in orphans]


def _is_dead(folder: Path) -> bool:
    if folder.is_symlink():
        return False
    return holder_is_dead(read_small(folder / HOLDER_FILE) or "")  # "": just being made, or odd
