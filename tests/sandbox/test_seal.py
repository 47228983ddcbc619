"""A task's image, sealed: the answer is in none of the places where it was."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from _history_cases import BUGGY, CASES, MARK, PROBE, SOUND, make, packed

from meta_agent.sandboxes import (
    BASE_IMAGE,
    _engine,
    open_sandbox,
    reap_images,
    scan_image,
    seal_image,
)
from meta_agent.sandboxes._engine import Engine
from tests.sandbox._engines import ENGINES

pytestmark = pytest.mark.slow
EVERYWHERE = ["/cases", "/srv", "/opt", "/wt"]


class Leaky:
    """An image that holds every case."""

    def __init__(self, on: Engine, folder: Path) -> None:
        self.on = on
        self.places = make(folder / "root")
        packed(folder / "root", folder / "layer.tar")
        base = on.find_image(BASE_IMAGE)
        assert base
        self.name = f"meta-agent-test-leaky:{uuid4().hex}"  # other workers make one as well
        self.id = on.derive_image(base.id, folder / "layer.tar", self.name, {})


@pytest.fixture(scope="module")
def leaky(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Leaky]:
    made = Leaky(_engine.engine(engine), tmp_path_factory.mktemp("leaky"))
    yield made
    made.on.api.remove_image(made.name, force=True)


def answers(on: Engine, image: str, *roots: str) -> list[str]:
    box = open_sandbox(on.name, run="test", image=image)
    try:
        said = box.exec(["python3", "-I", "-c", PROBE, MARK, *roots], timeout_sec=300)
        found = ast.literal_eval(said.stdout.decode())
        assert isinstance(found, list)
        return found
    finally:
        box.close()


def test_each_place_gives_the_answer_away_before(leaky: Leaky) -> None:
    """The positive control: a probe that finds nothing anywhere would prove nothing."""
    found = answers(leaky.on, leaky.id, *EVERYWHERE)
    elsewhere = {
        "linked worktree": "/wt/",
        "objects of another repository": "/opt/store/",
        "mirror elsewhere": "/srv/mirror",
        "bundle elsewhere": "/srv/all.bundle",
    }
    for name, place in leaky.places.items():
        wanted = elsewhere.get(name, f"{place}/")
        assert any(path.startswith(wanted) for path in found), name


@pytest.mark.parametrize("engine", ENGINES[:1], indirect=True)  # how it is made differs, not what
@pytest.mark.parametrize("name", CASES)
def test_nothing_gives_it_away_after(leaky: Leaky, name: str) -> None:
    found = scan_image(leaky.id, leaky.places[name], engine=leaky.on.name)
    sealed = seal_image(leaky.id, found, engine=leaky.on.name)
    try:
        assert answers(leaky.on, sealed, *EVERYWHERE) == []
        assert seal_image(leaky.id, found, engine=leaky.on.name) == sealed, (
            "the same image is sealed once"
        )
    finally:
        leaky.on.api.remove_image(sealed, force=True)


def test_the_place_of_the_repository_leads_to_the_working_copy(leaky: Leaky) -> None:
    place = leaky.places["tag"]
    found = scan_image(leaky.id, place, engine=leaky.on.name)
    sealed = seal_image(leaky.id, found, engine=leaky.on.name)
    box = open_sandbox(leaky.on.name, run="test", image=sealed)
    try:
        box.write({"repo/code.py": BUGGY.encode()})
        said = box.exec(["python3", "-c", "import code_place; print()"], env={"PYTHONPATH": place})
        assert said.exit_code != 0  # no such module: the path is searched, nothing else is there
        read = box.exec(["cat", f"{place}/code.py"])
        assert read.stdout.decode() == BUGGY
        git = box.exec(["git", "-C", place, "log", "--all"])
        assert git.exit_code != 0 and MARK not in git.stdout.decode()
    finally:
        box.close()
        leaky.on.api.remove_image(sealed, force=True)


def test_a_worktree_inside_is_told_relative_to_the_repository(leaky: Leaky) -> None:
    found = scan_image(
        leaky.id, leaky.places["worktree inside the repository"], engine=leaky.on.name
    )
    assert found.below == (".git", "other")
    assert SOUND not in BUGGY


def test_sealed_images_that_nothing_uses_are_removed_on_request(
    leaky: Leaky, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    label = "ma.sealed-test"  # other tests seal images and take snapshots at the same time
    monkeypatch.setattr("meta_agent.sandboxes._reap.SEALED_LABEL", label)
    monkeypatch.setattr("meta_agent.sandboxes._reap.SNAPSHOT_LABEL", "ma.snapshot-test")
    (tmp_path / "root").mkdir()
    packed(tmp_path / "root", archive := tmp_path / "layer.tar")
    names = [f"meta-agent-test-sealed:{mark}" for mark in ("used", "free")]
    used, free = (leaky.on.derive_image(leaky.id, archive, n, {label: n}) for n in names)
    box = open_sandbox(leaky.on.name, run="test", image=used)
    try:
        assert reap_images(leaky.on.name) == [names[1]]
        assert leaky.on.find_image(free) is None and leaky.on.find_image(used)
    finally:
        box.close()
    assert reap_images(leaky.on.name) == [names[0]]
