"""The composition root: it looks extensions up and gives the core what it needs of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from meta_agent.core.protocols import Sandbox, SandboxLimits, SandboxOpener
from meta_agent.sandboxes import BASE_IMAGE, open_sandbox


def sandboxes_of(
    backend: str, run: str, images: Mapping[str, str] = MappingProxyType({})
) -> SandboxOpener:
    """Returns what opens the sandboxes of a run.

    `images` maps names of images to the IDs that they had when the run was opened: sandboxes are
    made of those.
    """

    def opened(*, limits: SandboxLimits, image: str | None = None) -> Sandbox:
        pinned = images.get(image or BASE_IMAGE, image)
        return open_sandbox(backend, run=run, limits=limits, image=pinned)

    return opened
