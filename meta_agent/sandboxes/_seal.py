"""Turns a task's image into one in which the task's solution cannot be looked up.

Public images hold the repository with its history, and in it the fix: in later commits, tags,
remote branches, the stash, reflogs, `ORIG_HEAD`, linked worktrees, or in objects that nothing
refers to. Deleting references one by one forgets some (SWE-bench's images leaked this way until
4.1). So the history is not cleaned but replaced. The repository's files are read out once, and the
sealed image has links to the agent's working copy in their place. Every store of history in the
image that the sandbox's user could read, and every linked worktree, becomes an empty file.

Promises: nothing is started but one read-only sandbox, whose answer is only a list of paths; the
same image is sealed once. The repository's path keeps working for programs that know it (editable
installs, scripts).

Does not cover: a fixed version of the package that is *installed* in the image, and files of a
history that only root can read (an agent is not root).
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from meta_agent.core.errors import SandboxError
from meta_agent.sandboxes._bootstrap import source_of
from meta_agent.sandboxes._names import SEALED_LABEL
from meta_agent.sandboxes._open import open_sandbox

SEALED: Final = "meta-agent-sealed"
WORKING_COPY: Final = "/scratch/repo"
_LAYOUT: Final = 1  # changes when the same image would be sealed differently
_SCAN_SEC: Final = 600.0


@dataclass(frozen=True, slots=True)
class Sealing:
    """Where an image holds its git repository, and the git history that an agent could read."""

    place: str  # the repository's folder, links followed
    names: tuple[str, ...]  # of the files and folders in it
    history: tuple[str, ...]  # stores of history anywhere, and linked worktrees

    @property
    def below(self) -> tuple[str, ...]:
        """Returns the paths of git history in the repository's folder, relative to the folder."""
        inside = f"{self.place.rstrip('/')}/"
        return tuple(path[len(inside) :] for path in self.history if path.startswith(inside))


def scan_image(image_id: str, place: str, *, engine: str = "docker") -> Sealing:
    """Finds the git history that an agent could read in an image, whose repository is at `place`.

    Raises SandboxError if the image cannot be scanned.
    """
    sandbox = open_sandbox(engine, run="seal", image=image_id)
    try:
        answer = sandbox.exec(
            ["python3", "-I", "-c", source_of("history_guest"), place],
            timeout_sec=_SCAN_SEC,
            output_limit_bytes=32 << 20,
        )
    finally:
        sandbox.close()
    try:
        facts = json.loads(answer.stdout)
        return Sealing(str(facts["place"]), tuple(facts["names"]), tuple(facts["history"]))
    except (ValueError, KeyError, TypeError) as problem:
        tail = answer.stderr[-200:].decode("utf-8", "replace")
        raise SandboxError(
            f"python3 failed in the image {image_id}, so its git history cannot be found; install "
            f"python3 there: {tail}",
            kind="image",
        ) from problem


def seal_image(image_id: str, sealing: Sealing, *, engine: str = "docker") -> str:
    """Returns the id of an image without the git history in `sealing`, built unless it exists.

    Other files of the repository become links to a working copy. Raises SandboxError if the engine
    fails.
    """
    from meta_agent.sandboxes import _engine

    parts = [_LAYOUT, image_id, sealing.place, sealing.names, sealing.history]
    mark = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]
    on = _engine.engine(engine)
    if sealed := on.find_image(f"{SEALED}:{mark}"):
        return sealed.id
    with tempfile.TemporaryDirectory(prefix="meta-agent-seal-") as folder:
        archive = Path(folder) / "layer.tar"
        with tarfile.open(archive, "w") as tar:
            for member in _members(sealing):
                tar.addfile(member, io.BytesIO())
        return on.derive_image(image_id, archive, f"{SEALED}:{mark}", {SEALED_LABEL: mark})


def _members(sealing: Sealing) -> Iterator[tarfile.TarInfo]:
    """Yields the tar entries that hide a repository: links for files, empty files for history.

    Links come first. Whatever is below a replaced path is gone with it.
    """
    replaced: set[str] = set()
    history = set(sealing.history)
    for name in sealing.names:
        path = f"{sealing.place.rstrip('/')}/{name}"
        if path not in history:
            replaced.add(path)
            link = tarfile.TarInfo(path.lstrip("/"))
            link.type, link.linkname = tarfile.SYMTYPE, f"{WORKING_COPY}/{name}"
            yield link
    for path in sorted(sealing.history):
        if not any(path.startswith(f"{other}/") for other in replaced):
            replaced.add(path)
            yield tarfile.TarInfo(path.lstrip("/"))
