"""What an installation is made of: every file by its hash, every package with its licence."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from maintain.locks import BASE, LOCKS, ROOT, Pin, read_lock

NAMES = ("base", "run", "train", "dev", "torch")
LOCKED = {name: read_lock((LOCKS / f"{name}.txt").read_text()) for name in NAMES}
PINS = {pin.name: pin for pins in LOCKED.values() for pin in pins}


def test_every_line_is_an_entry_and_every_entry_has_hashes() -> None:
    for name, pins in LOCKED.items():
        lines = (LOCKS / f"{name}.txt").read_text().splitlines()
        assert len(lines) == 1 + sum(1 + len(pin.hashes) for pin in pins)
        assert all(one.startswith("sha256:") for pin in pins for one in pin.hashes)
    assert len(PINS) == sum(map(len, LOCKED.values())), "a package stands in one file"


def test_the_versions_are_those_that_the_suite_was_run_with() -> None:
    rows = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = dict(row.split("==") for row in rows if "==" in row)
    assert {name: PINS[canonicalize_name(name)].version for name in pinned} == pinned


def test_what_the_package_asks_for_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = [*BASE, *project["dependencies"], *extras["run"], *extras["train"]]
    for one in map(Requirement, [*asked, *extras["math"], *extras["dev"]]):
        assert one.specifier.contains(PINS[canonicalize_name(one.name)].version), one


def test_the_bill_names_every_package_with_its_licence() -> None:
    listed = json.loads((LOCKS / "bill.json").read_text())["components"]
    assert {(one["name"], one["version"]) for one in listed} == {
        (pin.name, pin.version) for pin in PINS.values()
    }
    licences = {one["name"]: one["licenses"][0]["license"]["name"] for one in listed}
    assert [name for name, told in licences.items() if told.startswith("not ")] == ["appnope"]


def test_no_image_is_built_on_a_tag_alone() -> None:
    text = (ROOT / "sandboxes/Dockerfile").read_text()
    named = re.findall(r"(?m)^FROM +(\S+)", text) + re.findall(r"(?m)^ARG +\w+=(\S+)", text)
    assert named and all("@sha256:" in one or one.startswith("${") for one in named)


def wheel(folder: Path, pin: Pin, source: str) -> Path:
    """A file that calls itself by the name of a package that we lock."""
    stem = f"{pin.name}-{pin.version}"
    path = folder / f"{stem}-py3-none-any.whl"
    about = f"{stem}.dist-info"
    files = {
        f"{pin.name}.py": source,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {pin.name}\nVersion: {pin.version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode()
        record += f"{name},sha256={digest.rstrip('=')},{len(text)}\n"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, f"{about}/RECORD": record}.items():
            archive.writestr(name, text)
    return path


@pytest.mark.parametrize("ours", [True, False])
def test_a_file_that_was_changed_is_not_installed(tmp_path: Path, ours: bool) -> None:
    pin = PINS["six"]
    path = wheel(tmp_path, pin, "print('somebody was here')\n")
    known = f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    entry = pin._replace(hashes=(*pin.hashes, known)) if ours else pin
    (tmp_path / "lock.txt").write_text(str(entry))
    target = tmp_path / "target"
    argv = [sys.executable, "-m", "pip", "install", "-q", "--isolated", "--no-index"]
    argv += ["--find-links", str(tmp_path), "--target", str(target), "--require-hashes"]
    done = subprocess.run([*argv, "--no-deps", "-r", str(tmp_path / "lock.txt")],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert (target / "six.py").exists() == ours, done.stderr
    assert ("DO NOT MATCH THE HASHES" in done.stderr) == (not ours)
