"""Makes the images of a task file available before anything is run on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from meta_agent.core.errors import SandboxError
from meta_agent.core.protocols import JSON
from meta_agent.domains.formats import read_swebench
from meta_agent.domains.swe._domain import image_folders


@dataclass(frozen=True, slots=True)
class Fetched:
    """The images of a file: name -> ID, and name -> why there is none."""

    image_ids: Mapping[str, str]
    missing: Mapping[str, str]

    def to_json(self) -> dict[str, JSON]:
        """Returns plain JSON."""
        return {"schema_version": 1, "found": dict(self.image_ids), "missing": dict(self.missing)}

    def lines(self) -> list[str]:
        """Returns lines for people."""
        rows = [f"{name}  {image[:19]}" for name, image in self.image_ids.items()]
        rows += [f"{name}  missing: {why}" for name, why in self.missing.items()]
        return [*rows, f"{len(self.image_ids)} here, {len(self.missing)} missing"]


def fetch_images(
    path: Path,
    *,
    images: Path | None = None,
    engine: str = "docker",
    pull: bool = False,
    progress: Callable[[str], None] = lambda line: None,
) -> Fetched:
    """Looks for every image that the file names; one that cannot be had stops no other."""
    from meta_agent.sandboxes import Images

    finder = Images(image_folders(path, images), engine=engine, pull=pull, progress=progress)
    image_ids: dict[str, str] = {}
    missing: dict[str, str] = {}
    for name in sorted({row.image for row in read_swebench(path) if row.image}):
        try:
            image_ids[name] = finder.find(name)
        except SandboxError as problem:
            if problem.kind == "engine" and "pull" not in str(problem):
                raise
            missing[name] = str(problem)[:300]
    return Fetched(image_ids, missing)
