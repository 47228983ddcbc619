"""A candidate's way: cloned into a sandbox, edited there, handed back, merged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_agent.core.errors import CandidateError
from meta_agent.core.history import HarnessRepo
from meta_agent.core.protocols import Sandbox, SandboxLimits
from meta_agent.proposers import Workbench
from meta_agent.sandboxes import engine_status, open_sandbox

SEED = {
    "harness.toml": b"[harness]\n",
    "swe/agent.py": b"MAX_TURNS = 4\n",
    "swe/old.py": b"x = 1\n",
}
REF = "refs/heads/candidate/r1/0"


@pytest.fixture
def repo(tmp_path: Path) -> HarnessRepo:
    return HarnessRepo.create(tmp_path / "harness_repo", SEED, "feat: seed harness\n")


IN_BOTH = pytest.mark.parametrize(
    "sandbox", ["process", pytest.param("docker", marks=pytest.mark.docker)], indirect=True
)


@pytest.fixture
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    backend = getattr(request, "param", "process")
    if backend == "docker" and (problem := engine_status().problem):
        pytest.skip(f"no Docker engine: {problem}")
    opened = open_sandbox(backend, run="test-workbench", limits=SandboxLimits(deadline_sec=120))
    yield opened
    opened.close()


def admit(repo: HarnessRepo, bench: Workbench, ref: str = REF) -> str:
    admitted = repo.admit(
        bench.edits(),
        base=bench.base,
        ref=ref,
        message="feat: x\n",
        when=repo.when(bench.base) + 1,
        editable=["swe/**"],
        protected=["harness.toml"],
    )
    return admitted.commit


@IN_BOTH
def test_an_edit_goes_all_the_way_to_main(repo: HarnessRepo, sandbox: Sandbox) -> None:
    bench = Workbench(sandbox, repo, repo.head(), evidence={"evidence.json": b"{}"})
    assert bench.paths() == sorted(SEED)
    assert bench.read("swe/agent.py") == "MAX_TURNS = 4\n"
    assert bench.read("swe/none.py") is None
    bench.write("swe/agent.py", "MAX_TURNS = 8\n")
    bench.write("swe/new/part.py", "y = 2\n")
    bench.remove("swe/old.py")
    assert "+MAX_TURNS = 8" in bench.diff()
    admit(repo, bench)
    merged = repo.merge(REF, onto=repo.head(), message="feat: merge", trailers={"A": "1"})
    assert sorted(repo.tree(merged).files) == ["harness.toml", "swe/agent.py", "swe/new/part.py"]


def test_ids_do_not_depend_on_where_or_when(repo: HarnessRepo, sandbox: Sandbox) -> None:
    bench = Workbench(sandbox, repo, repo.head())
    bench.write("swe/agent.py", "MAX_TURNS = 8\n")
    bench.shell("git add -A; git commit -q -m 'feat: x'", timeout_sec=9, output_limit_bytes=999)
    alone = bench.shell("git rev-parse HEAD", timeout_sec=9, output_limit_bytes=99).stdout.decode()
    assert admit(repo, bench) == alone.strip(), "as if the host had taken that commit"


def test_a_merge_is_the_next_base(repo: HarnessRepo, sandbox: Sandbox) -> None:
    tree = {"swe/agent.py": "MAX_TURNS = 8\n", "swe/old.py": "x = 2\n"}
    for number, (path, text) in enumerate(tree.items()):
        bench = Workbench(sandbox, repo, repo.head())
        bench.write(path, text)
        ref = f"refs/heads/candidate/r1/{number}"
        admit(repo, bench, ref)
        repo.merge(ref, onto=repo.head(), message="feat: merge", trailers={})
    files = repo.tree(repo.head()).files
    assert {path: files[path].decode() for path in tree} == tree


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("ln -s /etc/passwd swe/link", "not_a_regular_file"),
        ("git commit -q --allow-empty -m x", "empty"),
        ("touch swe/agent.py", "empty"),
        ("printf x > swe/$(printf '\\377').py", "path_name"),
        ("rm -rf .git", "git_failed"),
    ],
)
def test_what_is_no_set_of_edited_files_is_refused(
    repo: HarnessRepo, sandbox: Sandbox, command: str, reason: str
) -> None:
    bench = Workbench(sandbox, repo, repo.head())
    bench.shell(f"{command}; git add -A; git commit -q -m x", timeout_sec=9, output_limit_bytes=999)
    with pytest.raises(CandidateError) as refusal:
        bench.edits()
    assert refusal.value.reason == reason


def test_what_lies_beside_the_clone_is_not_handed_back_and_the_contract_stays(
    repo: HarnessRepo, sandbox: Sandbox
) -> None:
    bench = Workbench(sandbox, repo, repo.head(), evidence={"secret.json": b"{}"})
    bench.write("swe/agent.py", "MAX_TURNS = 8\n")
    assert "secret.json" not in "".join(repo.tree(admit(repo, bench)).files)
    bench.write("harness.toml", "[harness]\nentry = 1\n")
    with pytest.raises(CandidateError) as refusal:
        admit(repo, bench, "refs/heads/candidate/r1/1")
    assert refusal.value.reason == "path_outside_allowlist"
    assert "refs/heads/candidate/r1/1" not in repo.candidates()
