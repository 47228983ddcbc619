"""Where vLLM is on this machine, for tests that need the real server."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest

from meta_agent.policies.served.vllm_server import PYTHON_VARIABLE

COMPILE_NOTHING = {"TORCH_COMPILE_DISABLE": "1"}
"""For the server: half of its start is spent on compiling a model that answers a few requests."""


def require_vllm() -> str:
    """The interpreter with vLLM; skips, visibly, where there is none."""
    named = os.environ.get(PYTHON_VARIABLE)
    if named:
        return named
    if find_spec("vllm") is None:
        pytest.skip(f"needs vLLM: set {PYTHON_VARIABLE} to the Python of an environment with it")
    return ""
