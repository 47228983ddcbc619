"""The repository as its owner uses it: read, merge, revert, annotate, reopen after accidents."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from meta_agent.core.errors import CandidateError, ConfigError, InfrastructureError, IntegrityError
from meta_agent.core.history import EPOCH, HarnessRepo, parse_trailers

from ._kit import REF, SEED, admit

TRAILERS = {"Meta-Agent-Run": "r1", "Meta-Agent-Candidate": "r1/g0/c0"}


def user_git(repo: HarnessRepo, *argv: str) -> str:
    """git as a person in a terminal runs it."""
    ran = subprocess.run(["git", *argv], cwd=repo.path, capture_output=True, check=True, text=True)
    return ran.stdout


def merge(repo: HarnessRepo, onto: str, ref: str = REF) -> str:
    return repo.merge(ref, onto=onto, message="feat(scaffold): more turns", trailers=TRAILERS)


def test_a_new_repository_holds_the_files_on_main(repo: HarnessRepo, tmp_path: Path) -> None:
    """Its ids are the same everywhere, and creating it twice opens it."""
    assert repo.tree(repo.head()).files == SEED
    assert user_git(repo, "status", "--porcelain") == ""
    assert user_git(repo, "symbolic-ref", "HEAD").strip() == "refs/heads/main"
    assert "worktree" not in (repo.path / ".git" / "config").read_text()
    other = HarnessRepo.create(tmp_path / "b" / "elsewhere", SEED, "feat: seed harness\n")
    assert other.head() == repo.head()
    assert HarnessRepo.create(repo.path, SEED, "feat: seed harness\n").head() == repo.head()
    with pytest.raises(ConfigError):
        HarnessRepo.create(repo.path, {"a.py": b""}, "feat: x")


def test_a_killed_creation_is_started_over(tmp_path: Path) -> None:
    leftover = tmp_path / ".harness_repo.building"
    (leftover / ".git").mkdir(parents=True)
    (leftover / "junk.py").write_text("half")
    repo = HarnessRepo.create(tmp_path / "harness_repo", SEED, "feat: seed\n")
    assert repo.tree(repo.head()).files == SEED
    assert not leftover.exists()


def test_a_seed_that_no_candidate_could_extend_is_refused(tmp_path: Path) -> None:
    for path in (".gitattributes", "a/../b", "/etc/x", "a\nb"):
        with pytest.raises(ConfigError):
            HarnessRepo.create(tmp_path / "h", {path: b""}, "feat: seed\n")


def test_a_merge_joins_both_histories_and_updates_the_files(repo: HarnessRepo, base: str) -> None:
    tip = admit(repo, base=base).commit
    merged = merge(repo, base)
    top = repo.log(1)[0]
    assert (top.commit, top.parents) == (merged, (base, tip))
    assert top.trailers == TRAILERS
    assert (repo.path / "swe/agent.py").read_bytes() == b"MAX_TURNS = 8\n"
    assert user_git(repo, "status", "--porcelain") == ""
    assert top.when == EPOCH + 2 and repo.log(3)[-1].when == EPOCH
    assert merge(repo, base) == merged == repo.head(), "twice is once"


def test_a_second_winner_merges_beside_the_first(repo: HarnessRepo, base: str) -> None:
    admit(repo, base=base)
    second = "refs/heads/candidate/r1/1"
    admit(repo, {"swe/reward.py": b"WEIGHTS = {'solved': 1.0}\n"}, base=base, ref=second)
    merged = merge(repo, merge(repo, base), second)
    files = repo.tree(merged).files
    assert files["swe/agent.py"] == b"MAX_TURNS = 8\n"
    assert files["swe/reward.py"] == b"WEIGHTS = {'solved': 1.0}\n"


def test_a_merge_brings_no_other_change_that_the_candidate_builds_on(
    repo: HarnessRepo, base: str
) -> None:
    """What was unproven, taken away or left out since stays out of a merge that is made anew."""
    below = admit(repo, base=base).commit
    second = "refs/heads/candidate/r1/1"
    above = {"swe/reward.py": b"WEIGHTS = {'solved': 1.0}\n"}
    admit(repo, above, base=below, ref=second)
    merged = repo.merge_ahead(second, onto=base, message="feat: x", trailers=TRAILERS)
    assert repo.tree(merged).files == SEED | above
    whole = repo.merge_ahead(second, onto=below, message="feat: x", trailers=TRAILERS)
    assert repo.tree(whole).files == SEED | above | {"swe/agent.py": b"MAX_TURNS = 8\n"}
    third = "refs/heads/candidate/r1/2"
    admit(repo, {"swe/agent.py": b"MAX_TURNS = 9\n"}, base=below, ref=third)
    with pytest.raises(CandidateError, match=f"conflicts with {base[:12]} in swe/agent"):
        repo.merge_ahead(third, onto=base, message="feat: x", trailers=TRAILERS)


def test_a_conflict_is_the_candidates_fault(repo: HarnessRepo, base: str) -> None:
    admit(repo, base=base)
    second = "refs/heads/candidate/r1/1"
    admit(repo, {"swe/agent.py": b"MAX_TURNS = 9\n"}, base=base, ref=second)
    merged = merge(repo, base)
    with pytest.raises(CandidateError, match=r"swe/agent\.py") as refusal:
        merge(repo, merged, second)
    assert refusal.value.reason == "merge_conflict"
    assert repo.head() == merged


def test_main_that_moved_is_never_overwritten(repo: HarnessRepo, base: str) -> None:
    admit(repo, base=base)
    user_git(
        repo, "-c", "user.name=u", "-c", "user.email=u@e", "commit", "--allow-empty", "-qm", "x"
    )
    moved = repo.head()
    with pytest.raises(IntegrityError, match=moved[:12]):
        merge(repo, base)
    assert repo.head() == moved


def test_no_driver_or_hook_of_the_repository_runs(
    repo: HarnessRepo, base: str, tmp_path: Path
) -> None:
    canary = tmp_path / "fired"
    user_git(repo, "config", "merge.default", "evil")
    user_git(repo, "config", "merge.evil.driver", f"touch {canary}")
    user_git(repo, "config", "core.fsmonitor", f"touch {canary}; false")
    user_git(repo, "config", "diff.evil.textconv", f"touch {canary}")
    user_git(repo, "config", "diff.evil.command", f"touch {canary}")
    (repo.path / ".git/info").mkdir()
    (repo.path / ".git/info/attributes").write_text("* merge=evil diff=evil\n")
    for name in ("reference-transaction", "post-index-change", "post-checkout", "post-merge"):
        hook = repo.path / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {canary}\n")
        hook.chmod(0o755)
    admit(repo, base=base)
    merged = merge(repo, base)
    repo.note(merged, "fine")
    with pytest.raises(ConfigError):
        HarnessRepo.open(repo.path)
    assert "MAX_TURNS" in repo.diff(base, merged)
    assert not canary.exists()
    subprocess.run(["git", "checkout", "-q", "-B", "x"], cwd=repo.path, check=True)
    assert canary.exists()  # the control: the same traps do fire for plain git


def test_the_callers_git_variables_are_not_seen(
    repo: HarnessRepo, base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_COMMON_DIR",
    ):
        monkeypatch.setenv(name, str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "somebody")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "broken")
    fresh = HarnessRepo.open(repo.path)
    admit(fresh, base=base)
    merged = merge(fresh, base)
    assert fresh.tree(merged).files["swe/agent.py"] == b"MAX_TURNS = 8\n"
    assert len(fresh.log()) == 3


def test_an_edit_of_the_hosts_own_is_one_commit_however_often_it_is_made(repo: HarnessRepo) -> None:
    base, path = repo.head(), "swe/agent.py"
    edits = {path: None, "swe/new.py": b"NEW = 1\n"}
    terms = {"onto": base, "message": "revert(diagnostics): retire one", "when": EPOCH + 5}
    edited = repo.edit_main(edits, **terms)  # type: ignore[arg-type]
    assert repo.edit_main(edits, **terms) == edited == repo.head()  # type: ignore[arg-type]
    kept = {name: text for name, text in SEED.items() if name != path}
    assert repo.tree(edited).files == {**kept, "swe/new.py": b"NEW = 1\n"}
    assert not (repo.path / path).exists()
    assert (repo.path / "swe/new.py").read_bytes() == b"NEW = 1\n"
    user_git(repo, "-c", "user.name=a", "-c", "user.email=a@b", "revert", "--no-edit", "HEAD")
    assert repo.tree(repo.head()).files == SEED
    with pytest.raises(IntegrityError):
        repo.edit_main({path: b""}, onto=base, message="feat: late", when=EPOCH + 6)


def test_notes_show_in_plain_git_log(repo: HarnessRepo) -> None:
    repo.note(repo.head(), "REJECT\ndelta -1.0 points\x1b[31m")
    before = repo.tip("refs/notes/commits")
    repo.note(repo.head(), "REJECT\ndelta -1.0 points\x1b[31m")
    assert repo.tip("refs/notes/commits") == before
    assert repo.notes(repo.head()) == "REJECT\ndelta -1.0 points[31m\n"
    assert "delta -1.0 points" in user_git(repo, "log", "--notes")
    assert repo.log(1)[0].note == repo.notes(repo.head())


# --- accidents ---------------------------------------------------------------------------------


def test_an_empty_object_and_a_missing_main_are_found_when_opening(repo: HarnessRepo) -> None:
    head, main = repo.head(), repo.path / ".git/refs/heads/main"
    victim = repo.path / ".git/objects" / head[:2] / head[2:]
    whole = victim.read_bytes()
    victim.chmod(0o644)
    victim.write_bytes(b"")
    with pytest.raises(IntegrityError):
        HarnessRepo.open(repo.path)
    victim.write_bytes(whole)
    HarnessRepo.open(repo.path)
    for left in ("", "not an id"):  # as a power cut leaves it
        main.write_text(left)
        with pytest.raises(IntegrityError, match="refs/heads/main"):
            repo.head()
    main.unlink()
    for read in (repo.head, lambda: HarnessRepo.open(repo.path)):
        with pytest.raises(IntegrityError):
            read()


def test_names_are_found_where_git_has_packed_them(repo: HarnessRepo) -> None:
    head = repo.head()
    user_git(repo, "pack-refs", "--all")
    assert not (repo.path / ".git" / "refs" / "heads" / "main").exists()
    assert repo.head() == repo.tip("main") == head


def test_a_folder_without_git_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        HarnessRepo.open(tmp_path)


def test_somebody_elses_lock_is_named(repo: HarnessRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meta_agent.core.history._locks._PATIENCE_SEC", 0.1)
    (repo.path / ".git/index.lock").touch()
    with pytest.raises(ConfigError, match=r"index\.lock"):
        HarnessRepo.open(repo.path)


def test_our_own_dead_commands_lock_is_cleared(
    repo: HarnessRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meta_agent.core.history._locks._PATIENCE_SEC", 0.1)
    dead = subprocess.Popen(["true"])
    dead.wait()
    (repo.path / ".git/meta-agent.busy").write_text(str(dead.pid))
    lock = repo.path / ".git/refs/heads/main.lock"
    lock.touch()
    assert HarnessRepo.open(repo.path).head() == repo.head()
    assert not lock.exists()


def test_a_live_orchestrators_lock_is_left_alone(
    repo: HarnessRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meta_agent.core.history._locks._PATIENCE_SEC", 0.1)
    (repo.path / ".git/meta-agent.busy").write_text(str(os.getppid()))
    (repo.path / ".git/index.lock").touch()
    with pytest.raises(ConfigError):
        HarnessRepo.open(repo.path)


def test_a_users_edit_is_reported_and_kept(repo: HarnessRepo, base: str) -> None:
    admit(repo, base=base)
    (repo.path / "swe/agent.py").write_bytes(b"mine\n")
    with pytest.raises(ConfigError, match=r"swe/agent\.py"):
        HarnessRepo.open(repo.path)
    with pytest.raises(ConfigError, match=r"swe/agent\.py"):
        merge(repo, base)
    assert repo.head() == base
    assert (repo.path / "swe/agent.py").read_bytes() == b"mine\n"


def test_an_untracked_file_is_kept_and_refused_where_it_is_in_the_way(
    repo: HarnessRepo, base: str
) -> None:
    admit(repo, {"swe/new.py": b"theirs\n"}, base=base)
    for name in ("notes.txt", "swe/new.py"):
        (repo.path / name).write_bytes(b"mine\n")
    with pytest.raises(ConfigError, match=r"swe/new\.py"):
        merge(repo, base)
    assert (repo.path / "swe/new.py").read_bytes() == b"mine\n"
    (repo.path / "swe/new.py").unlink()
    merge(repo, base)
    assert (repo.path / "notes.txt").read_bytes() == b"mine\n"


def test_another_branch_checked_out_is_left_alone(repo: HarnessRepo, base: str) -> None:
    admit(repo, base=base)
    user_git(repo, "checkout", "-q", "candidate/r1/0")
    merged = merge(repo, base)
    assert repo.head() == merged
    assert user_git(repo, "status", "--porcelain") == ""


@pytest.mark.parametrize("moment", ["before the files", "between two files", "before the index"])
def test_a_checkout_killed_halfway_is_finished(moment: str, repo: HarnessRepo, base: str) -> None:
    admit(repo, {"swe/agent.py": b"MAX_TURNS = 8\n", "swe/zz.py": b"new\n"}, base=base)
    index = (repo.path / ".git/index").read_bytes()
    old = (repo.path / "swe/agent.py").read_bytes()
    merged = merge(repo, base)
    (repo.path / ".git/index").write_bytes(index)
    if moment != "before the index":
        (repo.path / "swe/agent.py").write_bytes(old)
    if moment == "before the files":
        (repo.path / "swe/zz.py").unlink()
    reopened = HarnessRepo.open(repo.path)
    assert reopened.head() == merged
    assert (repo.path / "swe/agent.py").read_bytes() == b"MAX_TURNS = 8\n"
    assert (repo.path / "swe/zz.py").read_bytes() == b"new\n"
    assert user_git(repo, "status", "--porcelain") == ""


def test_a_message_survives_its_trailers() -> None:
    text = "feat: x\n\nbody: not a trailer\n\nA: 1\nB: two words\n"
    assert parse_trailers(text) == {"A": "1", "B": "two words"}
    assert parse_trailers("feat: x\n\nonly prose here: yes\n") == {}


def test_lost_objects_are_an_error_with_a_way_out(repo: HarnessRepo) -> None:
    objects = repo.path / ".git/objects"
    for folder in objects.iterdir():
        shutil.rmtree(folder)
    with pytest.raises(InfrastructureError) as lost:
        repo.diff(repo.head(), repo.head())
    assert lost.value.hint
