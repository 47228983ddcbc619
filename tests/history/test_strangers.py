"""A repository that somebody else prepared: what its settings say is never done."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.core.history import HarnessRepo

SEED = {"harness.toml": b"[harness]\n", "swe/agent.py": b"x = 1\n"}


def git(repo: HarnessRepo, *argv: str, stdin: bytes = b"", index: str = "index") -> str:
    env = {**os.environ, "GIT_INDEX_FILE": str(repo.path / ".git" / index)}
    for who in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{who}_NAME": "a", f"GIT_{who}_EMAIL": "a@localhost"}
    ran = subprocess.run(
        ["git", *argv], cwd=repo.path, env=env, input=stdin, check=True, capture_output=True
    )
    return ran.stdout.decode().strip()


def set_to(*lines: str) -> Callable[[HarnessRepo, Path], None]:
    """Settings as `git config` writes them; `{0}` is a command that leaves a mark."""

    def prepare(repo: HarnessRepo, mark: Path) -> None:
        for line in lines:
            key, _, value = line.partition("=")
            git(repo, "config", key, value.format(f"touch {mark}; cat"))

    return prepare


def included(repo: HarnessRepo, mark: Path) -> None:
    beside = repo.path / ".git" / "more"
    beside.write_text(f'[filter "x"]\n\tsmudge = touch {mark}; cat\n')
    git(repo, "config", "include.path", "more")


def per_work_tree(repo: HarnessRepo, mark: Path) -> None:
    git(repo, "config", "extensions.worktreeConfig", "true")
    git(repo, "config", "--worktree", "filter.x.smudge", f"touch {mark}; cat")


def a_link_for_settings(repo: HarnessRepo, mark: Path) -> None:
    config = repo.path / ".git" / "config"
    beside = config.with_name("elsewhere")
    config.rename(beside)
    config.symlink_to(beside)


def git_is_a_file(repo: HarnessRepo, mark: Path) -> None:
    folder = repo.path / ".git"
    folder.rename(repo.path.parent / "theirs")
    folder.write_text(f"gitdir: {repo.path.parent / 'theirs'}\n")


def other_objects(repo: HarnessRepo, mark: Path) -> None:
    (repo.path / ".git/objects/info/alternates").write_text("/somewhere\n")


def other_ancestors(repo: HarnessRepo, mark: Path) -> None:
    """A graft: git would tell another past of `main`."""
    (repo.path / ".git/info").mkdir(exist_ok=True)
    (repo.path / ".git/info/grafts").write_text(f"{repo.head()}\n")


def moved_behind_a_link(name: str) -> Callable[[HarnessRepo, Path], None]:
    """Where git would write from now on is somebody's place."""

    def prepare(repo: HarnessRepo, mark: Path) -> None:
        held, elsewhere = repo.path / ".git" / name, repo.path.parent / "elsewhere"
        held.rename(elsewhere)
        held.symlink_to(elsewhere)

    return prepare


def that_waits(name: str) -> Callable[[HarnessRepo, Path], None]:
    """A FIFO, at which git would wait for ever."""

    def prepare(repo: HarnessRepo, mark: Path) -> None:
        (repo.path / ".git" / name).unlink(missing_ok=True)
        os.mkfifo(repo.path / ".git" / name)

    return prepare


def nothing_else(repo: HarnessRepo, mark: Path) -> None:
    """Attributes alone."""


TRAPS = {
    "smudge": set_to("filter.x.smudge={0}"),
    "clean": set_to("filter.x.clean={0}"),
    "a filter process": set_to("filter.x.process={0}"),
    "a merge driver": set_to("merge.x.driver={0}"),
    "a text converter": set_to("diff.x.textconv={0}"),
    "an external diff": set_to("diff.external={0}"),
    "an editor": set_to("core.editor={0}"),
    "ssh": set_to("core.sshCommand={0}"),
    "a file monitor": set_to("core.fsmonitor={0}"),
    "hooks": set_to("core.hooksPath=/tmp"),
    "another work tree": set_to("core.worktree=/tmp"),
    "an alternate": set_to("core.alternateRefsCommand={0}"),
    "gpg": set_to("gpg.program={0}", "commit.gpgSign=true"),
    "a promisor": set_to("remote.x.promisor=true", "remote.x.uploadpack={0}"),
    "a setting nobody knows": set_to("brand.new={0}"),
    "an included file": included,
    "settings of the work tree": per_work_tree,
    "settings behind a link": a_link_for_settings,
    ".git is a file": git_is_a_file,
    "objects from elsewhere": other_objects,
    "another past": other_ancestors,
    "an included file, if": set_to("includeIf.gitdir:/.path=/tmp/more"),
    "an address for another": set_to("url.ext::{0}.insteadOf=https://"),
    "a setting in capitals": set_to("CORE.FSMonitor={0}"),
    "a setting of a part": set_to("core.x.bare=false"),
    "an alias": set_to("alias.log=!{0}"),
    "attributes": nothing_else,
}
PLACES = {
    "references elsewhere": moved_behind_a_link("refs"),
    "new objects elsewhere": moved_behind_a_link("objects"),
    "an index that waits": that_waits("index"),
    "a reference that waits": that_waits("refs/heads/main"),
    "packed references that wait": that_waits("packed-refs"),
}


def prepared(tmp_path: Path, trap: str) -> tuple[HarnessRepo, Path]:
    """A repository whose `main` is ahead of its files, so that opening it has a file to write."""
    repo = HarnessRepo.create(tmp_path / "harness_repo", SEED, "seed\n")
    mark = tmp_path / "mark"
    blob = git(repo, "hash-object", "-w", "--stdin", stdin=b"x = 2\n")
    git(repo, "read-tree", "HEAD", index="ahead")
    git(repo, "update-index", "--cacheinfo", f"100644,{blob},swe/agent.py", index="ahead")
    tree = git(repo, "write-tree", index="ahead")
    newer = git(repo, "commit-tree", tree, "-p", "HEAD", "-m", "ahead")
    git(repo, "update-ref", "refs/heads/main", newer)
    TRAPS[trap](repo, mark)
    attributes = "* filter=x merge=x diff=x\n"
    if (repo.path / ".git").is_dir():
        (repo.path / ".git/info").mkdir(exist_ok=True)
        (repo.path / ".git/info/attributes").write_text(attributes)
    return repo, mark


def test_a_repository_that_is_behind_is_brought_up_to_date(tmp_path: Path) -> None:
    repo, _ = prepared(tmp_path, "attributes")
    (repo.path / ".git/info/attributes").unlink()
    HarnessRepo.open(repo.path)
    assert (repo.path / "swe/agent.py").read_bytes() == b"x = 2\n"


def test_the_trap_springs_for_an_ordinary_git(tmp_path: Path) -> None:
    repo, mark = prepared(tmp_path, "smudge")
    git(repo, "read-tree", "--reset", "-u", "main")
    assert mark.exists()


@pytest.mark.parametrize("trap", TRAPS)
def test_a_strangers_settings_are_named_and_nothing_runs(tmp_path: Path, trap: str) -> None:
    repo, mark = prepared(tmp_path, trap)
    with pytest.raises(ConfigError):
        HarnessRepo.open(repo.path)
    with pytest.raises(ConfigError):
        HarnessRepo.create(repo.path, SEED, "seed\n")
    assert not mark.exists()


@pytest.mark.parametrize("place", PLACES)
def test_a_place_that_leads_elsewhere_or_waits_is_named(tmp_path: Path, place: str) -> None:
    repo = HarnessRepo.create(tmp_path / "harness_repo", SEED, "seed\n")
    HarnessRepo.open(repo.path)
    PLACES[place](repo, tmp_path / "mark")
    with pytest.raises(ConfigError):
        HarnessRepo.open(repo.path)


def test_what_people_set_in_their_own_workspace_is_taken(tmp_path: Path) -> None:
    repo = HarnessRepo.create(tmp_path / "harness_repo", SEED, "seed\n")
    for key, value in {
        "user.name": "Ada",
        "remote.origin.url": "https://example.org/x.git",
        "remote.origin.fetch": "+refs/heads/*:refs/remotes/origin/*",
        "branch.main.merge": "refs/heads/main",
    }.items():
        git(repo, "config", key, value)
    assert HarnessRepo.open(repo.path).head() == repo.head()
