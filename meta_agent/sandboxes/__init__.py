"""Sandboxes: one protocol, several backends, one worker inside.

The backends are Docker, podman, plain processes, and the services that Harbor has a client for.

`open_sandbox` returns a `Sandbox` (see `meta_agent.core.protocols`). `resolve_backend` decides
before a run starts which backend it uses. `reap` removes what a killed run left behind. A guest
module is source of the standard library alone, sent by `install`:

    def rollout(args, channel):                  # JSON in, JSON out
        channel.calls([{"kind": "model", ...}])  # one frame; does not wait; returns the cids
        for answer in channel.wait():            # [{"cid", "ok"} or {"cid", "err"}], any grouping
            ...

    OPERATIONS = {"rollout": rollout}
"""

from meta_agent.core.sandbox.worker_sandbox import WorkerSandbox
from meta_agent.sandboxes._boxes import Box, BoxLimits, folder_hash, task_image
from meta_agent.sandboxes._build import build_base_image, build_missing_image, recipe_hash
from meta_agent.sandboxes._derive import build_agent_image, read_requirements
from meta_agent.sandboxes._images import Images
from meta_agent.sandboxes._names import BACKENDS, BASE_IMAGE, CONTAINERS
from meta_agent.sandboxes._open import (
    BackendChoice,
    EngineStatus,
    backend_fences,
    choose_backend,
    engine_status,
    held_image,
    image_ids,
    is_service,
    open_sandbox,
    resolve_backend,
)
from meta_agent.sandboxes._reap import reap, reap_images
from meta_agent.sandboxes._seal import Sealing, scan_image, seal_image

__all__ = [
    "BACKENDS",
    "BASE_IMAGE",
    "CONTAINERS",
    "BackendChoice",
    "Box",
    "BoxLimits",
    "EngineStatus",
    "Images",
    "Sealing",
    "WorkerSandbox",
    "backend_fences",
    "build_agent_image",
    "build_base_image",
    "build_missing_image",
    "choose_backend",
    "engine_status",
    "folder_hash",
    "held_image",
    "image_ids",
    "is_service",
    "open_sandbox",
    "read_requirements",
    "reap",
    "reap_images",
    "recipe_hash",
    "resolve_backend",
    "scan_image",
    "seal_image",
    "task_image",
]
