"""Reading Harbor task folders: every field is read or refused by its name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.domains import DomainOptions, open_domain
from meta_agent.domains.harbor import VerifierError, read_task, task_folders
from meta_agent.domains.harbor._grade import rewards_of
from tests.domains.harbor._harbor_tasks import write_task, write_ten


def test_ten_tasks_are_read_with_their_limits(tmp_path: Path) -> None:
    tasks = {task.key: task for task in map(read_task, task_folders(write_ten(tmp_path)))}
    assert len(tasks) == 10
    python = tasks["python-add"]
    assert python.instruction == "Make /app/add.py define add(a, b)."
    assert (python.agent.timeout_sec, python.verifier.timeout_sec) == (120.0, 60.0)
    assert (python.place.limits.memory_mb, python.split) == (512, "search")
    assert tasks["separate-verifier"].own_place and not python.own_place
    assert tasks["separate-verifier"].artifacts == ("/app/out.txt",)
    assert tasks["with-variable"].place.env == {"WORD": "ok"}
    healthy = tasks["healthy"]
    assert healthy.place.env == {"WORD": "ok"} and not healthy.wants_network
    assert healthy.place.healthcheck and healthy.verifier.env == {"WANTED": "ok"}
    assert tasks["named-image"].place.upload and python.wants_network


REFUSED = {
    "steps": ({"version": 'schema_version = "1.4"\nsteps = [{ name = "a" }]'}, "steps"),
    "mcp": ({"environment": 'mcp_servers = [{ name = "x", url = "http://x" }]'}, "mcp_servers"),
    "gpus": ({"environment": "gpus = 1"}, "[environment] gpus = 1"),
    "windows": ({"environment": 'os = "windows"'}, "windows"),
    "hosts": ({"environment": 'allowed_hosts = ["pypi.org"]'}, "allowed_hosts"),
    "mode": ({"agent": 'network_mode = "some"'}, "network_mode = 'some'"),
    "host variable": ({"verifier": 'env = { K = "${SECRET_KEY}" }'}, "variable SECRET_KEY"),
    "new field": ({"environment": "quantum = true"}, "[environment] quantum = True"),
    "new table": ({"rest": "[budget]\nusd = 1"}, "budget"),
    "version": ({"version": 'schema_version = "3.0"'}, "expected one of 1.0"),
    "timeout": ({"rest": "[solution]\nspeed = 1"}, "[solution] speed"),
    "compose": (
        {"files": {"environment/docker-compose.yaml": "services: {main: {build: .}}\n"}},
        "compose",
    ),
    "no image": ({"dockerfile": None}, "docker_image"),
    "no instruction": ({"instruction": "<!-- canary -->"}, "instruction.md"),
    "not toml": ({"version": "schema_version = "}, "task.toml"),
    "services of artifacts": (
        {"version": 'artifacts = [{ source = "/a", service = "db" }]'},
        "service",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_kept_is_refused_by_name(tmp_path: Path, case: str) -> None:
    given, said = REFUSED[case]
    folder = write_task(tmp_path, "one", **given)  # type: ignore[arg-type]
    with pytest.raises(ConfigError) as caught:
        read_task(folder)
    assert said in str(caught.value)


def test_a_folder_without_tests_or_tasks_is_one_sentence(tmp_path: Path) -> None:
    folder = write_task(tmp_path, "one")
    (folder / "tests" / "test.sh").unlink()
    with pytest.raises(ConfigError, match=r"tests/test\.sh"):
        read_task(folder)
    with pytest.raises(ConfigError, match=r"task\.toml"):
        task_folders(tmp_path / "one" / "tests")
    with pytest.raises(ConfigError, match="nowhere"):
        task_folders(tmp_path / "nowhere")
    write_task(tmp_path / "again", "one")
    with pytest.raises(ConfigError, match="one"):
        task_folders(tmp_path)


def test_without_containers_it_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="containers"):
        open_domain(DomainOptions("harbor", write_ten(tmp_path)))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("reward.txt", b"nan"),
        ("reward.txt", b"solved"),
        ("reward.txt", b"inf"),
        ("reward.json", b'{"reward": "1"}'),
        ("reward.json", b"[1]"),
        ("reward.json", b"{}"),
    ],
)
def test_what_is_no_finite_number_is_no_grade(name: str, content: bytes) -> None:
    class Left:
        def get(self, path: str, most: int) -> bytes | None:
            return content if path.endswith(name) and len(content) <= most else None

    with pytest.raises(VerifierError, match=re.escape(name)):
        rewards_of(Left())  # type: ignore[arg-type]
