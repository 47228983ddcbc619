"""A workspace is whole or is not one; other people's directories are left alone."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.core.history import HarnessRepo
from meta_agent.core.workspace import (
    Workspace,
    find_workspace,
    init_workspace,
    is_workspace,
    made_here,
    open_workspace,
    read_small,
)


def make_repo(path: Path) -> None:
    path.mkdir()
    (path / "harness.toml").write_text("")


def make(root: Path, domain: str = "swe") -> None:
    init_workspace(root, domain=domain, harness="seed", seed=3, create_repo=make_repo)


def test_init_makes_every_part_and_remembers_what_it_is(tmp_path: Path) -> None:
    make(tmp_path / "w")
    workspace = open_workspace(tmp_path / "w")
    assert (workspace.domain, workspace.harness, workspace.seed) == ("swe", "seed", 3)
    for part in ("harness_repo", "skills_library", "rollouts", "reports", "checkpoints"):
        assert (tmp_path / "w" / part).is_dir()


def test_init_again_changes_nothing(tmp_path: Path) -> None:
    make(tmp_path / "w")
    before = (tmp_path / "w" / "meta-agent.toml").read_bytes()
    make(tmp_path / "w")
    assert (tmp_path / "w" / "meta-agent.toml").read_bytes() == before


def test_a_workspace_with_another_harness_is_not_taken_for_the_one_asked_for(
    tmp_path: Path,
) -> None:
    make(tmp_path / "w")
    for other in ("competent", "/somebody/s/agent"):
        with pytest.raises(ConfigError, match=f"holds the harness seed, not {other}"):
            init_workspace(tmp_path / "w", domain="swe", harness=other, create_repo=make_repo)


def test_an_agent_that_was_brought_may_have_moved(tmp_path: Path) -> None:
    for place in ("/old/agent", "/new/agent"):
        found = init_workspace(tmp_path / "w", domain="swe", harness=place, create_repo=make_repo)
        assert found.harness == "/old/agent"


def test_interrupted_init_leaves_no_workspace_and_can_be_finished(tmp_path: Path) -> None:
    def interrupted(path: Path) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        init_workspace(tmp_path / "w", domain="swe", create_repo=interrupted)
    assert not is_workspace(tmp_path / "w")
    make(tmp_path / "w")
    assert is_workspace(tmp_path / "w")


def test_two_that_make_one_workspace_at_once_both_get_it_whole(tmp_path: Path) -> None:
    made: list[Path] = []

    def create(path: Path) -> HarnessRepo:
        made.append(path)
        return HarnessRepo.create(path, {"harness.toml": b"[harness]\n"}, "feat: the start")

    together = Barrier(4)

    def init() -> Workspace:
        together.wait()
        return init_workspace(tmp_path / "w", domain="swe", create_repo=create)

    with ThreadPoolExecutor(4) as pool:
        workspaces = [future.result() for future in [pool.submit(init) for _ in range(4)]]
    assert len(made) == 1
    assert {workspace.root for workspace in workspaces} == {tmp_path / "w"}
    HarnessRepo.open(tmp_path / "w/harness_repo")


def test_a_directory_with_other_files_is_never_taken_over(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(ConfigError, match=r"other files \(thesis.tex\)"):
        make(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["thesis.tex"]


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "w").write_text("x")
    with pytest.raises(ConfigError, match="is a file"):
        make(tmp_path / "w")


def test_a_workspace_keeps_its_domain(tmp_path: Path) -> None:
    make(tmp_path / "w")
    with pytest.raises(ConfigError, match="for the domain swe, not math") as refused:
        make(tmp_path / "w", domain="math")
    assert "--workspace" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("[workspace]\nschema_version = 99\n", "schema_version is 99"),
        ("[workspace]\nschema_version = 2\ndomain = 3\n", "damaged: "),
        ("[workspace\n", "not valid TOML"),
        ("", "schema_version is None"),
    ],
)
def test_a_damaged_identity_is_one_clear_sentence(
    tmp_path: Path, damage: str, message: str
) -> None:
    make(tmp_path / "w")
    (tmp_path / "w" / "meta-agent.toml").write_text(damage)
    with pytest.raises(ConfigError, match=message):
        open_workspace(tmp_path / "w")


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    make(tmp_path / "w")
    (tmp_path / "w" / "rollouts").rmdir()
    with pytest.raises(ConfigError, match="rollouts/ is missing"):
        open_workspace(tmp_path / "w")


def test_no_workspace_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a workspace") as refused:
        open_workspace(tmp_path)
    assert "meta-agent init" in str(refused.value.hint)


def test_finding_prefers_the_named_then_here_then_the_default(tmp_path: Path) -> None:
    assert find_workspace(None, tmp_path) == tmp_path / "meta-agent-workspace"
    (tmp_path / "meta-agent.toml").write_text("")
    assert find_workspace(None, tmp_path) == tmp_path
    assert find_workspace(Path("x"), tmp_path) == tmp_path / "x"


def test_a_workspace_of_somebody_else_is_named_when_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make(tmp_path / "w")
    open_workspace(tmp_path / "w")
    assert made_here(tmp_path / "w") and not caplog.records
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another machine"))
    open_workspace(tmp_path / "w")
    assert "was not made by this installation" in caplog.text


@pytest.mark.parametrize("odd", ["a link", "a FIFO"])
def test_in_a_strangers_workspace_no_part_leads_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: str
) -> None:
    make(tmp_path / "w")
    if odd == "a link":
        (tmp_path / "w/reports").rename(tmp_path / "elsewhere")
        (tmp_path / "w/reports").symlink_to(tmp_path / "elsewhere")
    else:
        os.mkfifo(tmp_path / "w/ledger.sqlite")
    open_workspace(tmp_path / "w")  # ours: people keep what is large on another disk
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another machine"))
    with pytest.raises(ConfigError, match="in a workspace from another machine"):
        open_workspace(tmp_path / "w")


@pytest.mark.parametrize("mark", ["", "0" * 32, "../../x", "x" * 10_000])
def test_a_mark_that_was_made_up_is_none_of_ours(tmp_path: Path, mark: str) -> None:
    make(tmp_path / "w")
    (tmp_path / "w" / ".maker").write_text(mark)
    assert not made_here(tmp_path / "w")


def test_a_fifo_in_the_place_of_a_small_file_does_not_hold_us(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("plain")
    (tmp_path / "plain").write_text(" text\n")
    assert [read_small(tmp_path / name) for name in ("fifo", "link", "missing", ".")] == [None] * 4
    assert read_small(tmp_path / "plain") == "text"
