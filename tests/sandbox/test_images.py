"""Images by name, from tars, and not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_agent.core.errors import SandboxError
from meta_agent.sandboxes import BASE_IMAGE, Images, _engine, open_sandbox
from meta_agent.sandboxes._engine import Engine
from meta_agent.sandboxes._images import saved_images

pytestmark = pytest.mark.slow
# Workers beside each other make one each.
NAME = f"meta-agent-test-saved:{os.environ.get('PYTEST_XDIST_WORKER', '1')}"


@pytest.fixture(scope="module")
def on(engine: str) -> Engine:
    return _engine.engine(engine)


@pytest.fixture(scope="module")
def tars(on: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two tars of the base image: one as `docker save` writes, one as `docker export` does."""
    folder, api = tmp_path_factory.mktemp("tars"), on.api
    base = on.find_image(BASE_IMAGE)
    assert base
    layer = folder / "layer"
    layer.write_bytes(b"\0" * 10240)  # a tar of nothing
    on.derive_image(base.id, layer, NAME, {"ma.test": "saved"})
    with (folder / "saved.tar").open("wb") as file:
        file.writelines(api.get_image(NAME))
    made = api.create_container(base.id, command=["true"], entrypoint=[])
    with (folder / "rootfs.tar").open("wb") as file:
        file.writelines(api.export(made["Id"]))
    api.remove_container(made["Id"], v=True, force=True)
    forget(on, NAME)
    layer.unlink()
    yield folder


def forget(on: Engine, name: str) -> None:
    if on.find_image(name):
        on.api.remove_image(name, force=True)


@pytest.fixture(autouse=True)
def tidy(on: Engine) -> Iterator[None]:
    yield
    forget(on, NAME)


def runs(on: Engine, image: str) -> bool:
    box = open_sandbox(on.name, run="test", image=image)
    try:
        return box.exec(["python3", "-c", "print(6 * 7)"]).stdout == b"42\n"
    finally:
        box.close()


def test_an_image_that_is_here_is_found_by_its_name(on: Engine) -> None:
    base = on.find_image(BASE_IMAGE)
    assert base and Images(engine=on.name).find(BASE_IMAGE) == base.id


@pytest.mark.parametrize("name", [NAME, "saved.tar"], ids=["tag", "file"])
def test_a_saved_tar_is_loaded_by_its_tag_and_by_its_file(
    on: Engine, tars: Path, name: str
) -> None:
    said: list[str] = []
    found = Images([tars], engine=on.name, progress=said.append).find(name)
    assert len(said) == 1 and runs(on, found)
    (saved,) = saved_images(tars / "saved.tar")
    assert (saved.id, saved.tags) == (found, (NAME,))
    assert Images([tars], engine=on.name, progress=said.append).find("saved.tar") == found
    assert len(said) == 1, "what is here already is not loaded again"


def test_a_root_file_system_is_imported_once(on: Engine, tars: Path) -> None:
    said: list[str] = []
    found = Images([tars], engine=on.name, progress=said.append).find("rootfs.tar")
    try:
        assert Images([tars], engine=on.name, progress=said.append).find("rootfs.tar") == found
        assert len(said) == 1 and runs(on, found)
    finally:
        forget(on, found)


def test_a_tar_may_be_named_after_the_image(on: Engine, tars: Path) -> None:
    named = tars / "own__name__2.tar"
    named.hardlink_to(tars / "saved.tar")
    try:
        assert runs(on, Images([tars], engine=on.name).find("own/name:2"))
    finally:
        named.unlink()


def test_an_image_that_cannot_be_had_says_what_to_do(on: Engine, tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="own/none:1") as e:
        Images([tmp_path], engine=on.name).find("own/none:1")
    assert e.value.kind == "image" and e.value.hint and "--images DIR" in e.value.hint


def test_a_registry_that_is_out_of_reach_is_named_as_such(on: Engine) -> None:
    said: list[str] = []
    with pytest.raises(SandboxError, match=r"127\.0\.0\.1:9/own/none:1"):
        Images(engine=on.name, pull=True, progress=said.append).find("127.0.0.1:9/own/none:1")
    assert len(said) == 1


def test_a_file_that_is_no_tar_and_one_that_is_missing_are_refused(
    on: Engine, tmp_path: Path
) -> None:
    (tmp_path / "broken.tar").write_bytes(b"no tar")
    with pytest.raises(SandboxError, match=r"broken\.tar"):
        Images([tmp_path], engine=on.name).find("broken.tar")
    with pytest.raises(SandboxError, match=r"gone\.tar"):
        Images([tmp_path], engine=on.name).find("gone.tar")
