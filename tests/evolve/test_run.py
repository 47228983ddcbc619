"""One whole run, and what a user does with it afterwards. `test_verify.py` verifies this run."""

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.skills import SkillDraft
from meta_agent.skills import SkillLibrary
from tests.evolve._cli import TINY, Cli

# Who comes first waits for a whole run, on a machine that may be busy.
pytestmark = [pytest.mark.train, pytest.mark.slow, pytest.mark.timeout(900)]
VERDICTS = {"PROMOTE", "REJECT", "INVALID", "INCONCLUSIVE"}


def test_the_result_is_one_document_with_the_promised_keys(finished: tuple[Cli, Any]) -> None:
    _, result = finished
    promised = {"schema_version", "run", "domain", "workspace", "exit_reason", "baseline", "final"}
    assert promised | {"versions", "candidates", "skills", "spend"} <= set(result)
    assert result["exit_reason"] == "done"
    for side in ("baseline", "final"):
        assert result[side]["split"] == "vault"
        low, high = result[side]["ci"]
        assert 0 <= low <= result[side]["clean_success"] <= high <= 1
    used = {"usd", "tokens", "rollouts", "train_steps", "confirm_queries"}
    assert set(result["spend"]) == used | {"wall_sec", "by_role"}
    assert result["spend"]["rollouts"] > 0 and result["spend"]["train_steps"] > 0


def test_every_candidate_has_a_verdict_with_reasons(finished: tuple[Cli, Any]) -> None:
    _, result = finished
    assert result["candidates"]
    for candidate in result["candidates"]:
        assert candidate["verdict"] in VERDICTS
        assert candidate["reasons"]
        assert candidate["ref"].startswith("refs/heads/candidate/")


def test_what_a_leaking_harness_hands_over_no_longer_leaks(finished: tuple[Cli, Any]) -> None:
    """The default seed offers the leak: what is gone on from and handed over has closed it."""
    _, result = finished
    before, after = result["baseline"], result["final"]
    assert before["success"] - before["clean_success"] > 0.2
    assert result["handed_over"]["standing"] != "start"
    assert after["success"] - after["clean_success"] < 0.05


def test_the_same_command_again_only_reads(finished: tuple[Cli, Any]) -> None:
    cli, result = finished
    assert cli.evolve() == result


def test_git_alone_tells_the_story(finished: tuple[Cli, Any]) -> None:
    cli, result = finished
    repo = cli.folder / "meta-agent-workspace" / "harness_repo"
    argv = ["git", "-C", str(repo), "log", "--graph", "--notes", "--all"]
    told = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    for candidate in result["candidates"]:
        assert f"Meta-Agent-Candidate: {candidate['id']}" in told
        assert f"Verdict: {candidate['verdict']}" in told


def test_the_views_agree_with_the_result(finished: tuple[Cli, Any]) -> None:
    cli, result = finished
    first = result["candidates"][0]
    assert cli.json("status")["exit_reason"] == "done"
    assert first["verdict"] in cli("why", first["id"]).stdout
    assert "+++" in cli("diff", first["id"]).stdout
    page = cli.folder / "report.html"
    cli("report", "--html", str(page))
    html = page.read_text()
    assert first["commit"][:10] in html
    assert "<script src" not in html and "http://" not in html.replace("http://www.w3.org", "")


def _lesson(library: Path) -> str:
    """A skill as a run writes it that proves this rule; a tiny run proves nothing."""
    told = {"kind": "positive", "status": "domain", "domain": "swe", "factor": "scaffold"}
    draft = SkillDraft(
        title="swe-drop-leaking-tool",
        description="Use when attempts read the answer through a tool.",
        body="# Drop a tool that shows the answer\n\nHistory must not be in reach.",
        metadata={**told, "rule": "drop-leaking-tool", "metric": "behaviour.leak_use"},
        files={},
    )
    return SkillLibrary(library).write(draft).name


def test_a_second_workspace_sees_the_skills_of_the_first(make_cli: Any) -> None:
    cli = make_cli("skills")
    shared = ("--skills", str(cli.folder / "library"))
    written = {_lesson(cli.folder / "library")}
    argv = ("evolve", "--domain", "swe", *TINY, "--sandbox", "process", "--workspace", "two")
    # What comes after its proposals shows nothing of this: there it is cut off.
    ended = cli(*argv, *shared, env={"META_AGENT_CRASH_AT": "after_outcome:proposal"}, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    steps = cli.json("log", "--workspace", "two")["steps"]
    (proposed,) = [step["outcome"]["admitted"] for step in steps if step["kind"] == "proposal"]
    assert {name for one in proposed for name in one["hypothesis"]["skills"]} & written


def test_a_dry_run_starts_nothing(make_cli: Any) -> None:
    cli = make_cli("dry")
    cli("evolve", *TINY, "--dry-run")
    assert not (cli.folder / "meta-agent-workspace").exists()
