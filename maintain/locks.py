"""What an installation is made of: `locks/*.txt` with the hash of every file, `locks/bill.json`.

    python -m maintain.locks --uv UV [--torch-wheel FILE ...]

Takes the versions from `constraints.txt` and asks the index that uv is set up for. Each package
stands in the first of the sets that needs it, so that `pip install --require-hashes --no-deps -r`
takes them one after the other. torch has a file of its own, since its builds differ: `FILE` is a
build whose hash is added to those of the index. The bill is CycloneDX; licences are those that the
packages state themselves, and are read from what is installed here.

Not covered: the libraries that a CUDA build of torch brings, Debian's packages of the base image
(their lists are signed), and the environments that tests alone use (vLLM, verifiers, trackers).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess  # noqa: TID251
import tempfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final, NamedTuple

from packaging.markers import Marker

ROOT: Final = Path(__file__).resolve().parents[1]
LOCKS: Final = ROOT / "locks"
BASE: Final = ("pytest", "pytest-timeout", "pytest-xdist", "setuptools>=77", "setuptools-scm>=10")
"""What every environment of ours has: setuptools and setuptools-scm build the package itself."""
SETS: Final = {
    "base": (),
    "run": ("run",),
    "train": ("run", "train"),
    "dev": ("run", "train", "math", "dev"),
}
_OF_CUDA: Final = re.compile(r"(nvidia|cuda)-|triton$")
_ENTRY: Final = re.compile(r"(?m)^([\w.-]+)==(\S+)(?: ; (.+?))?((?: \\\n +--hash=\S+)+)$")


class Pin(NamedTuple):
    """One package: its version, where it is needed, and the hashes of its files."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]

    def __str__(self) -> str:
        where = f" ; {self.marker}" if self.marker else ""
        return " \\\n    --hash=".join([f"{self.name}=={self.version}{where}", *self.hashes]) + "\n"


def read_lock(text: str) -> list[Pin]:
    """The entries of a file that uv or this program wrote."""
    found = _ENTRY.findall(text)
    return [Pin(n, v, m, tuple(re.findall(r"--hash=(\S+)", h))) for n, v, m, h in found]


def needed_here(pin: Pin) -> bool:
    """Whether CPython on Linux or macOS would install it."""
    usual = {"implementation_name": "cpython", "platform_python_implementation": "CPython"}
    return not pin.marker or any(
        Marker(pin.marker).evaluate({**usual, "sys_platform": platform, "platform_system": system})
        for platform, system in (("linux", "Linux"), ("darwin", "Darwin"))
    )


def resolved(uv: str, extras: Sequence[str]) -> list[Pin]:
    """All that the package with these extras needs."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as more:
        more.write("\n".join(BASE))
        more.flush()
        argv = [uv, "pip", "compile", more.name, "--universal", "--python-version", "3.11"]
        argv += ["-c", "constraints.txt", "--generate-hashes", "--no-header", "--no-annotate"]
        argv += ["pyproject.toml"] if extras else []
        argv += [f"--extra={extra}" for extra in extras] + ["--quiet"]
        told = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [pin for pin in read_lock(told) if needed_here(pin) and not _OF_CUDA.match(pin.name)]


def component(pin: Pin) -> dict[str, object]:
    """A package as CycloneDX has it."""
    return {
        "type": "library",
        "name": pin.name,
        "version": pin.version,
        "purl": f"pkg:pypi/{pin.name}@{pin.version}",
        "licenses": [{"license": {"name": licence_of(pin.name)}}],
    }


def licence_of(name: str) -> str:
    """As the package states it: an expression, else its classifiers, else a line of text."""
    try:
        told = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return "not installed where this was written"
    classes = [one.split(" :: ")[-1] for one in told.get_all("Classifier") or ()
               if one.startswith("License :: ") and one.count(" :: ") > 1]  # fmt: skip
    expression, text = told.get_all("License-Expression"), told.get_all("License")
    line = text[0].strip().split("\n")[0][:80] if text else ""
    return expression[0] if expression else " AND ".join(classes) or line or "not stated"


def main(argv: Sequence[str] | None = None) -> None:
    """Writes every file anew."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--uv", default="uv")
    parser.add_argument("--torch-wheel", type=Path, action="append", default=[])
    given = parser.parse_args(argv)
    LOCKS.mkdir(exist_ok=True)
    known: dict[str, Pin] = {}
    for name, extras in SETS.items():
        pins = [pin for pin in resolved(given.uv, extras) if pin.name not in known]
        known |= {pin.name: pin for pin in pins}
        _write(name, (pin for pin in pins if pin.name != "torch"))
    torch = known["torch"]
    own = (f"sha256:{hashlib.sha256(one.read_bytes()).hexdigest()}" for one in given.torch_wheel)
    known["torch"] = torch._replace(hashes=(*torch.hashes, *own))
    _write("torch", [known["torch"]])
    components = [component(known[name]) for name in sorted(known)]
    rows = ",\n".join(json.dumps(one) for one in components)
    head = '{"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": ['
    (LOCKS / "bill.json").write_text(f"{head}\n{rows}\n]}}\n", encoding="utf-8")


def _write(name: str, pins: Iterator[Pin] | list[Pin]) -> None:
    head = "# Written by `python -m maintain.locks`.\n"
    text = head + "".join(map(str, pins))
    (LOCKS / f"{name}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
