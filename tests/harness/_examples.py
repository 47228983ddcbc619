"""The agents in `examples/bring-your-own`, and the images that they name."""

from __future__ import annotations

import fcntl
import tempfile
from pathlib import Path

import pytest

from meta_agent.core.errors import MetaAgentError
from meta_agent.sandboxes import build_agent_image, engine_status, read_requirements

EXAMPLES = Path(__file__).parents[2] / "examples" / "bring-your-own"


def need_example(name: str) -> Path:
    """Returns an example's folder; its image is made where it is missing, once for all workers.

    Skips where no image can be made.
    """
    if problem := engine_status().problem:
        pytest.skip(f"no Docker sandbox: {problem}")
    requirements = read_requirements(EXAMPLES / name / "requirements.txt")
    with (Path(tempfile.gettempdir()) / "meta-agent-test-images.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            build_agent_image(requirements, f"{name}:1")  # as its `harness.toml` names it
        except MetaAgentError as error:
            pytest.skip(f"no image for {name}: {error}")
    return EXAMPLES / name
