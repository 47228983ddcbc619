"""`meta-agent demo` from an empty folder, and the other screens on what it leaves."""

from __future__ import annotations

from pathlib import Path

from meta_agent.core.history import HarnessRepo
from meta_agent.core.rollouts import RolloutStore
from tests.cli._command import Runner
from tests.cli._command import meta_agent as meta_agent


def test_the_demo_ends_in_a_summary_and_a_workspace_for_every_reader(
    tmp_path: Path, meta_agent: Runner
) -> None:
    ran = meta_agent("demo", "--seconds", "0", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "handed over" in ran.stdout and "recorded" in ran.stderr
    assert "verdict" in ran.stderr and "propose" in ran.stderr
    told = meta_agent("demo", "--seconds", "0", "--json", cwd=tmp_path).document
    assert told["exit_reason"] == "done" and told["workspace"] == "meta-agent-demo"
    root = tmp_path / "meta-agent-demo"
    name = next(iter(told["candidates"]))["id"]
    for reader in (["status"], ["log"], ["why", name], ["diff", name], ["report"]):
        read = meta_agent(*reader, cwd=root)
        assert read.returncode == 0 and read.stdout.strip(), read.stderr
    repo = HarnessRepo(root / "harness_repo")
    earlier_merge = str(repo.parent(repo.head()))  # the claim's last merge is the recorded one
    for again in (["verify", "main"], ["verify", earlier_merge]):
        refused = meta_agent(*again, cwd=root)
        assert refused.returncode == 2 and len(refused.stderr.splitlines()) <= 2
    assert meta_agent("report", "--html", "page.html", cwd=root).returncode == 0
    assert "<svg" in (root / "page.html").read_text()


def test_the_run_of_a_real_model_keeps_its_attempts(tmp_path: Path, meta_agent: Runner) -> None:
    ran = meta_agent("demo", "--recording", "smollm2", "--seconds", "0", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "100.0 %" in ran.stdout
    root = tmp_path / "meta-agent-demo-smollm2"
    assert "PROMOTE" in meta_agent("why", "g0/c1", cwd=root).stdout
    store = RolloutStore(root / "rollouts")
    shards = [shard for name in store.names() if (shard := store.find(name))]
    assert sum(len(store.read(shard)) for shard in shards) == 624
