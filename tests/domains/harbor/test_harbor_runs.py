"""Harbor tasks in real containers: solutions pass, nothing does not, nothing is forged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.domains import DomainOptions, open_domain
from meta_agent.domains.check import check_tasks
from meta_agent.domains.harbor import HarborDomain, VerifierError
from meta_agent.sandboxes import engine_status
from tests.cli._command import meta_agent as meta_agent
from tests.domains.harbor._harbor_tasks import attempt, did, write_task, write_ten

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]
if not engine_status().ready:
    pytest.skip("Docker is not here", allow_module_level=True)


def opened(path: Path) -> HarborDomain:
    domain = open_domain(DomainOptions("harbor", path, sandbox="docker", run="harbor-test"))
    assert isinstance(domain, HarborDomain)
    return domain


@pytest.mark.slow
def test_solutions_pass_and_empty_attempts_fail(tmp_path: Path) -> None:
    """The flaky one passes or not, by its nature; what it says twice is compared."""
    write_ten(tmp_path)
    found = check_tasks(
        DomainOptions("harbor", tmp_path, sandbox="docker", run="harbor-test"), jobs=2
    )
    fit = {task.key: task.ok for task in found.tasks}
    for task in found.tasks:
        trials = {trial.name: trial.resolved for trial in task.trials}
        if task.key == "flaky":
            assert task.ok == (trials["gold"] is True and trials["again"] is True)
        else:
            assert trials == {"gold": True, "again": True, "empty": False}, (task.key, task.reasons)
    assert len(fit) == 10 and all(fit[key] for key in fit if key != "flaky")


def test_the_agents_work_is_graded_where_its_processes_are_not(tmp_path: Path) -> None:
    write_ten(tmp_path)
    domain = opened(tmp_path)
    with attempt(domain, "python-add") as environment:
        assert "[exit 1]" in did(environment, "ls /tests /solution 2>/dev/null; false")
        for folder in ("/tests", "/solution"):
            assert "No such file" in did(environment, f"ls {folder}")
        forever = "(while :; do echo 1 > /logs/verifier/reward.txt; sleep 0.1; done) &"
        did(environment, f"{forever} mkdir -p /tests; echo 'exit 0' > /tests/test.sh")
        outcome = environment.grade()
        assert not outcome.success and outcome.detail["score"] == 0
    with attempt(domain, "python-add") as environment:
        did(environment, "printf 'def add(a, b): return a + b' > /app/add.py")
        assert environment.call("submit", {}).done
        assert environment.grade().success
        again = domain.regrade("python-add", environment.verifier_inputs())
        assert again == environment.grade()


def test_a_part_of_the_reward_is_kept_and_counts_by_the_threshold(tmp_path: Path) -> None:
    write_ten(tmp_path)
    domain = opened(tmp_path)
    with attempt(domain, "float-reward") as environment:
        did(environment, "seq 3 > /app/n.txt")
        outcome = environment.grade()
    assert outcome.detail["score"] == 0.75 and outcome.detail["rewards"]["lines"] == 3
    assert not outcome.success
    domain.threshold = 0.5
    assert domain.regrade("float-reward", {"rewards": {"reward": 0.75}}).success


HOSTILE = {
    "a link": "ln -s /etc/passwd /logs/verifier/reward.txt",
    "not a number": "echo nan > /logs/verifier/reward.txt",
    "huge": "head -c 300000 /dev/zero > /logs/verifier/reward.txt",
    "a folder": "mkdir /logs/verifier/reward.txt",
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_reward_that_an_attempt_spoils_is_zero(tmp_path: Path, case: str) -> None:
    write_ten(tmp_path)
    domain = opened(tmp_path / "hostile-output")
    with attempt(domain, "hostile-output") as environment:
        hook = f"#!/bin/sh\nrm -rf /logs/verifier/*\n{HOSTILE[case]}\n"
        did(environment, f"cat > /app/hook <<'E'\n{hook}E\nchmod +x /app/hook")
        outcome = environment.grade()
    assert outcome.success is False and not outcome.detail.get("score")


def test_an_attempt_that_removes_its_working_directory_earns_nothing(tmp_path: Path) -> None:
    with attempt(opened(write_task(tmp_path, "one")), "one") as environment:
        did(environment, "cd / && rm -rf /app")
        outcome = environment.grade()
    assert outcome.success is False and outcome.flags


def test_a_shell_that_the_agent_replaced_does_not_name_the_working_directory(
    tmp_path: Path,
) -> None:
    with attempt(opened(write_task(tmp_path, "one")), "one") as environment:
        did(environment, "echo ok > /app/out.txt; touch /usr/bin/extra; mv /bin/sh /bin/real")
        did(environment, "true")  # there is no shell to run it
        trial = environment._trial  # type: ignore[attr-defined]
        assert trial._work == "/app" and trial._is_changed_outside(trial._box)


def test_a_verifier_that_hangs_is_no_grade(tmp_path: Path) -> None:
    folder = write_task(tmp_path, "slow", test="sleep 60\n")
    toml = folder / "task.toml"
    toml.write_text(toml.read_text().replace("timeout_sec = 60.0", "timeout_sec = 2.0"))
    with attempt(opened(folder), "slow") as environment, pytest.raises(VerifierError, match="2 s"):
        environment.grade()


def test_a_missing_image_names_the_command_that_gets_it(tmp_path: Path) -> None:
    write_task(tmp_path, "far", dockerfile="ARG BASE=nobody/has:this\nFROM ${BASE}\n")
    with pytest.raises(ConfigError, match="nobody/has:this") as caught:
        opened(tmp_path)
    assert "--pull" in str(caught.value.hint)


def test_that_command_makes_the_images_that_can_be_made_here(
    tmp_path: Path, meta_agent: Any
) -> None:
    write_task(tmp_path, "one")
    asked = ("tasks", "check", str(tmp_path), "--images-only", "--domain", "harbor", "--json")
    assert set(meta_agent(*asked, cwd=tmp_path).document["images"]) == {"one"}


def test_no_container_and_no_snapshot_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other tests use the same engine, so an installation of its own owns what this one starts."""
    from meta_agent.core.workspace import state_dir
    from meta_agent.sandboxes._engine import engine
    from meta_agent.sandboxes._names import SNAPSHOT_LABEL
    from meta_agent.sandboxes._owner import install_id

    owner = install_id()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert state_dir().is_relative_to(tmp_path) and install_id() != owner
    ours, domain = f"{SNAPSHOT_LABEL}={install_id()}", opened(write_task(tmp_path / "tasks", "one"))
    with attempt(domain, "one") as environment:
        did(environment, "true")
        assert len(engine("docker").owned_containers(install_id())) == 1
        environment.grade()
    assert engine("docker").owned_containers(install_id()) == []
    assert engine("docker").labelled_images(ours) == []
