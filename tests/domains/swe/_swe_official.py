"""SWE-bench's own log parsers, from its wheel, without what that package needs to be imported."""

from __future__ import annotations

import importlib
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

WHEEL = "swebench==5.0.2"
_PACKAGES = ("swebench", "swebench.harness", "swebench.harness.log_parsers")


def official_parsers(folder: Path) -> dict[str, Callable[[str], dict[str, str]]]:
    """Parsers by name; skips where the package index does not give the wheel."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", str(folder)]
    try:
        subprocess.run([*command, WHEEL], check=True, capture_output=True, timeout=120)
    except (subprocess.SubprocessError, OSError) as problem:
        pytest.skip(f"the package index does not give {WHEEL}: {problem}")
    with zipfile.ZipFile(next(folder.glob("swebench-*.whl"))) as wheel:
        wheel.extractall(folder)
    return {name: _called(parser) for name, parser in _registry(folder).items()}


def _registry(folder: Path) -> dict[str, Any]:
    """Imports the parsers alone: the packages' own `__init__` want a dataset library and Docker."""
    for name in _PACKAGES:
        package = ModuleType(name)
        package.__path__ = [str(folder / name.replace(".", "/"))]
        sys.modules[name] = package
    try:
        modules = [importlib.import_module(f"{_PACKAGES[-1]}.{one}") for one in ("python", "go")]
        return {
            name: value
            for module in modules
            for name, value in vars(module).items()
            if name.startswith("parse_log_")
        }
    finally:
        for name in [one for one in sys.modules if one.split(".")[0] == "swebench"]:
            del sys.modules[name]


def _called(parser: Any) -> Callable[[str], dict[str, str]]:
    return lambda log: dict(parser(log, None))
