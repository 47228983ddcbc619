"""The base image: built once per recipe, refused early where it cannot be built."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from meta_agent.core.errors import PreflightError
from meta_agent.core.resources import resource_dir
from meta_agent.sandboxes import BASE_IMAGE, WorkerSandbox, _build, engine_status, recipe_hash
from tests.sandbox._engines import Open, need_backend


def test_the_recipe_hash_follows_the_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = recipe_hash()
    copy = tmp_path / "sandboxes"
    shutil.copytree(resource_dir("sandboxes"), copy)
    monkeypatch.setattr(_build, "resource_dir", lambda name: copy)
    assert recipe_hash() == before
    (copy / "packages.txt").write_text("git\n")
    assert recipe_hash() != before


@pytest.mark.parametrize(
    ("program", "user", "keys", "named"),
    [
        (None, 0, True, "debootstrap"),
        ("/usr/sbin/debootstrap", 1000, True, "root"),
        ("/usr/sbin/debootstrap", 0, False, "keys.gpg"),
    ],
    ids=["no program", "no root", "no keys"],
)
def test_what_a_build_lacks_is_named_before_the_slow_part(
    program: str | None,
    user: int,
    keys: bool,
    named: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: program)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    (tmp_path / "keys.gpg").write_text("") if keys else None
    monkeypatch.setenv("MA_DEBIAN_KEYRING", str(tmp_path / "keys.gpg"))
    with pytest.raises(PreflightError) as caught:
        _build.check_needs()
    assert named in f"{caught.value} {caught.value.hint}"


def test_the_recipe_is_a_valid_shell_script() -> None:
    subprocess.run(["sh", "-n", str(resource_dir("sandboxes") / "build-rootfs.sh")], check=True)


@pytest.mark.docker
def test_an_image_of_the_same_recipe_is_not_built_again() -> None:
    need_backend("docker")
    if engine_status().recipe != recipe_hash():
        pytest.skip("the image here is of another recipe: meta-agent sandbox build")
    lines: list[str] = []
    assert _build.build_base_image(lines.append) == engine_status(image=BASE_IMAGE).image_id
    assert len(lines) == 1 and recipe_hash() in lines[0]


@pytest.mark.docker
def test_the_image_has_what_task_suites_need(open_box: Open) -> None:
    need_backend("docker")
    box: WorkerSandbox = open_box("docker")
    for argv in (["git", "--version"], ["python3", "-m", "pytest", "--version"]):
        assert box.exec(argv).exit_code == 0
    assert int(box.exec(["id", "-u"]).stdout) > 1 << 16
    setuid = box.exec(["find", "/", "-xdev", "-perm", "/6000", "-type", "f"])
    assert setuid.stdout == b""
