"""What an agent does to the verifier in an environment that it owned."""

from __future__ import annotations

from pathlib import Path

import pytest

from meta_agent.domains import DomainOptions, open_domain
from meta_agent.domains.harbor import HarborDomain
from meta_agent.domains.harbor._trial import UNCHECKED
from meta_agent.sandboxes import engine_status
from tests.domains.harbor._harbor_tasks import TXT, attempt, did, write_task

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]
if not engine_status().ready:
    pytest.skip("Docker is not here", allow_module_level=True)

_SHELL = "#!/bin/sh\nmkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; exit 0\n"
TEST = TXT.format(
    test="python3 -c \"import json; assert open('/app/out.txt').read().split() == ['ok']\" "
    "&& grep -qx ok /app/out.txt",
    good=1,
    bad=0,
)


def _replaced(*places: str) -> str:
    lines = (
        f"p=$(readlink -f $(command -v {place})); printf '%s' '{_SHELL}' > $p; chmod +x $p"
        for place in places
    )
    return "; ".join(lines)


_STDLIB = "$(dirname $(python3 -c 'import json; print(json.__file__)'))"
OWNED = {
    "python and grep": _replaced("python3", "grep"),
    "mkdir": f"printf '%s' '{_SHELL}' > /tmp/m; rm $(command -v mkdir); "
    "echo ok > /app/out.txt; cp /tmp/m /usr/bin/mkdir; chmod +x /usr/bin/mkdir; rm /app/out.txt",
    "a tool before the others": "for n in python3 grep; do printf '#!/bin/sh\\nexit 0\\n' "
    "> /usr/local/bin/$n; chmod +x /usr/local/bin/$n; done",
    "bash": f"cp /bin/bash /bin/real; rm /bin/bash; printf '%s' '{_SHELL}' > /bin/bash; "
    "chmod +x /bin/bash",
    "a module of the standard library": f"echo 'import os; os._exit(0)' > {_STDLIB}/__init__.py; "
    "printf '#!/bin/sh\\nexit 0\\n' > /usr/local/bin/grep; chmod +x /usr/local/bin/grep",
    "sitecustomize": "d=$(python3 -c 'import sysconfig; print(sysconfig.get_path(\"stdlib\"))'); "
    "echo 'import os; os._exit(0)' > $d/sitecustomize.py; "
    "printf '#!/bin/sh\\nexit 0\\n' > /usr/local/bin/grep; chmod +x /usr/local/bin/grep",
}  # fmt: skip


def domain_of(folder: Path, *, artifacts: bool) -> HarborDomain:
    task = write_task(folder, "owned", test=TEST)
    if artifacts:
        toml = task / "task.toml"
        toml.write_text('artifacts = ["/app/out.txt"]\n' + toml.read_text())
    domain = open_domain(DomainOptions("harbor", task, sandbox="docker", run="harbor-owned"))
    assert isinstance(domain, HarborDomain)
    return domain


@pytest.mark.parametrize(
    ("cheat", "artifacts"), [*((cheat, True) for cheat in OWNED), ("python and grep", False)]
)
def test_no_replaced_tool_makes_a_clean_grade(cheat: str, artifacts: bool, tmp_path: Path) -> None:
    domain = domain_of(tmp_path, artifacts=artifacts)
    with attempt(domain, "owned") as environment:
        did(environment, f"rm -f /app/out.txt; {OWNED[cheat]}")
        outcome = environment.grade()
        assert domain.regrade("owned", environment.verifier_inputs()) == outcome
    assert not outcome.success if artifacts else UNCHECKED in outcome.flags


@pytest.mark.parametrize("artifacts", [True, False], ids=["artifacts", "none"])
def test_work_in_the_working_directory_is_clean(artifacts: bool, tmp_path: Path) -> None:
    domain = domain_of(tmp_path, artifacts=artifacts)
    assert any("declare no artifacts" in note for note in domain.notes) is not artifacts
    with attempt(domain, "owned") as environment:
        did(environment, "echo ok > /app/out.txt; mkdir -p /app/more /tmp/x; touch /tmp/x/y")
        outcome = environment.grade()
    assert (outcome.success, outcome.flags) == (True, ())


ODD = {
    "a pipe": "mkfifo /app/out.txt",
    "a link to zeros": "ln -s /dev/zero /app/out.txt",
    "a link out": "ln -s ../etc/hostname /app/out.txt",
    "a folder with a pipe": "mkdir /app/out.txt; mkfifo /app/out.txt/x",
    "a folder with a link to zeros": "mkdir /app/out.txt; ln -s /dev/zero /app/out.txt/x",
    "more than fits": "head -c 300000000 /dev/zero > /app/out.txt",
}


@pytest.mark.parametrize("kind", ODD)
def test_an_odd_artifact_is_the_agents_failure(kind: str, tmp_path: Path) -> None:
    with attempt(domain_of(tmp_path, artifacts=True), "owned") as environment:
        did(environment, ODD[kind])
        outcome = environment.grade()
    assert (outcome.success, outcome.detail["score"]) == (False, 0.0)


STUCK = {
    "a pipe": "rm -f /app/out.txt; mkfifo /app/out.txt",
    "a link to zeros": "ln -sf /dev/zero /app/out.txt",
    "a link to a terminal's pipe": "rm -f /app/out.txt; mkfifo /app/p; ln -s p /app/out.txt",
}


@pytest.mark.parametrize("kind", STUCK)
def test_a_verifier_that_the_agents_files_stop_is_the_agents_failure(
    kind: str, tmp_path: Path
) -> None:
    task = write_task(tmp_path, "owned", test=TEST)
    toml = task / "task.toml"
    toml.write_text(toml.read_text().replace("timeout_sec = 60.0", "timeout_sec = 6.0"))
    domain = open_domain(DomainOptions("harbor", task, sandbox="docker", run="harbor-owned"))
    assert isinstance(domain, HarborDomain)
    with attempt(domain, "owned") as environment:
        did(environment, STUCK[kind])
        outcome = environment.grade()
    assert (outcome.success, outcome.detail["score"]) == (False, 0.0)
