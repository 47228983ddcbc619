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
from tests.sandbox.conftest import Open, need_backend


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


def test_missing_needs_are_said_before_the_slow_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(PreflightError) as caught:
        _build.check_needs()
    assert "debootstrap" in str(caught.value.hint)


def test_building_needs_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/sbin/debootstrap")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(PreflightError, match="root"):
        _build.check_needs()


def test_nothing_is_built_without_the_keys_of_what_is_downloaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/sbin/debootstrap")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("MA_DEBIAN_KEYRING", str(tmp_path / "keys.gpg"))
    with pytest.raises(PreflightError, match=r"keys\.gpg.* is missing") as caught:
        _build.check_needs()
    assert "debian-archive-keyring" in str(caught.value.hint)


def test_the_recipe_is_a_valid_shell_script() -> None:
    subprocess.run(["sh", "-n", str(resource_dir("sandboxes") / "build-rootfs.sh")], check=True)


@pytest.mark.docker
def test_an_image_of_the_same_recipe_is_not_built_again() -> None:
    need_backend("docker")
    if engine_status().recipe != recipe_hash():
        pytest.skip("the image here is of another recipe: meta-agent sandbox build")
    lines: list[str] = []
    assert _build.build_base_image(lines.append) == engine_status(image=BASE_IMAGE).image_id
    assert lines == [f"{BASE_IMAGE} is up to date ({recipe_hash()})"]


@pytest.mark.docker
def test_the_image_has_what_task_suites_need(open_box: Open) -> None:
    need_backend("docker")
    box: WorkerSandbox = open_box("docker")
    for argv in (["git", "--version"], ["python3", "-m", "pytest", "--version"]):
        assert box.exec(argv).exit_code == 0
    assert int(box.exec(["id", "-u"]).stdout) > 1 << 16
    setuid = box.exec(["find", "/", "-xdev", "-perm", "/6000", "-type", "f"])
    assert setuid.stdout == b""
