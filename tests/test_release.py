"""A release: a source archive and a wheel, their version, and what works where only they are.

The wheel is built from the archive, in a clone that has a tag. It is installed without a network;
what it needs is taken from this environment. Not covered: the package index.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path
from typing import get_args

import pytest

from meta_agent.core.distribution import NAME
from meta_agent.core.resources import Folder
from tests.docs._blocks import ROOT, blocks

PAGE = ROOT / "docs/how-to/install.md"
TAG = "1.2.3"
pytestmark = pytest.mark.timeout(1200)  # a build, an installation or a whole run


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a clone with a tag. The source archive lies beside it."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no clone")
    clone = tmp_path_factory.mktemp("release") / "clone"
    run("git", "clone", "-q", "--depth=1", ROOT.as_uri(), str(clone), cwd=clone.parent)
    run("git", "tag", f"v{TAG}", cwd=clone)
    run(sys.executable, "-m", "build", "--no-isolation", cwd=clone)
    (path,) = (clone / "dist").glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """The `bin` folder of a new environment that has the wheel."""
    place = wheel.parents[2] / "environment"
    venv.create(place, with_pip=False)
    (site,) = place.glob("lib/python*/site-packages")
    beside = [folder for folder in sys.path if Path(folder).name == "site-packages"]
    (site / "beside.pth").write_text("\n".join(beside) + "\n")
    pip = (sys.executable, "-m", "pip", f"--python={place}/bin/python", "install", "-q")
    run(*pip, "--no-deps", "--no-index", "--ignore-installed", str(wheel), cwd=place)
    return place / "bin"


@pytest.mark.slow
def test_the_tag_is_the_version(wheel: Path, installed: Path, tmp_path: Path) -> None:
    stem = NAME.replace("-", "_")
    assert wheel.name == f"{stem}-{TAG}-py3-none-any.whl"
    assert (wheel.parent / f"{stem}-{TAG}.tar.gz").is_file()
    assert meta_agent(installed, tmp_path, "--version") == f"meta-agent {TAG}\n"


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_package_and_of_its_data_folders(wheel: Path) -> None:
    files = run("git", "ls-files", "meta_agent", *get_args(Folder), cwd=ROOT).splitlines()
    moved = (
        path if path.startswith("meta_agent/") else f"meta_agent/_data/{path}" for path in files
    )
    with zipfile.ZipFile(wheel) as archive:
        missing = set(moved) - set(archive.namelist())
    assert not missing


@pytest.mark.slow
def test_the_demo_and_its_report_work_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    code = "import meta_agent; print(meta_agent.__file__)"
    imported = run(str(installed / "python"), "-c", code, cwd=tmp_path)
    assert Path(imported.strip()).is_relative_to(installed.parent)
    assert "79.5 %" in meta_agent(installed, tmp_path, "demo", "--seconds", "0")
    recorded = tmp_path / "meta-agent-demo"
    assert "PROMOTE" in meta_agent(installed, recorded, "report")
    meta_agent(installed, recorded, "report", "--html", "report.html")
    assert "79.5 %" in (recorded / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.train
def test_five_commands_lead_from_an_empty_folder_to_a_verdict(
    installed: Path, tmp_path: Path
) -> None:
    (block,) = (
        block for block in blocks(PAGE) if "pip install" in block.text and "train" in block.needs
    )
    (tutorial,) = (block for block in blocks(ROOT / "docs/tutorial.md") if "train" in block.needs)
    first, *others = block.text.splitlines()
    assert others[0] in tutorial.text, "one test for both pages"
    assert first.startswith("pip install ") and len(others) == 4
    for command in others:
        words = command.partition("  #")[0].split()
        assert words[0] == "meta-agent"
        output = meta_agent(installed, tmp_path, *words[1:])
    assert re.search(r"PROMOTE|REJECT|INVALID|INCONCLUSIVE", output)


def test_the_page_names_every_extra_and_no_other() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = PAGE.read_text(encoding="utf-8")
    assert set(re.findall(r"(?m)^\| `([\w-]+)` \|", page)) == set(project["optional-dependencies"])
    assert project["name"] == NAME and f"`{NAME}`" in page


def meta_agent(folder: Path, cwd: Path, *arguments: str) -> str:
    return run(str(folder / "meta-agent"), *arguments, cwd=cwd)


def run(*argv: str, cwd: Path) -> str:
    """What the command printed on stdout. Raises AssertionError where it fails."""
    names = ("PATH", "HOME", "LANG", "PYTHONPYCACHEPREFIX")
    variables = {name: os.environ[name] for name in names if name in os.environ}
    done = subprocess.run(argv, cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
    return done.stdout
