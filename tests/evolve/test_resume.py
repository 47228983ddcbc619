"""kill -9 at durable steps, then the same command: nothing is lost, nothing is merged twice."""

import signal
from typing import Any

import pytest

from meta_agent.sandbox import engine_status
from tests.evolve.conftest import TINY, Cli

pytestmark = [pytest.mark.train, pytest.mark.slow]
# Three here; `benchmarks/kill_resume.py` sweeps ten over a full run.
POINTS = ("after_work:train", "before_work:verdict", "after_work:proposal")


def comparable(result: Any) -> Any:
    """What has to be the same in a disturbed run: verdicts and numbers, not ids and clocks."""
    return {
        "final": result["final"],
        "baseline": result["baseline"],
        "candidates": [
            (c["factor"], c["verdict"], c["effect"], c["hypothesis"]["statement"])
            for c in result["candidates"]
        ],
    }


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_run_ends_like_an_undisturbed_one(
    point: str, make_cli: Any, finished: tuple[Cli, Any]
) -> None:
    cli = make_cli("killed")
    argv = ("evolve", "--domain", "swe", *TINY, "--sandbox", "process")
    killed = cli(*argv, env={"META_AGENT_CRASH_AT": point}, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert comparable(cli.evolve()) == comparable(finished[1])


@pytest.mark.docker
def test_docker_and_process_give_the_same_verdicts(
    make_cli: Any, finished: tuple[Cli, Any]
) -> None:
    status = engine_status()
    if not status.ready:
        pytest.skip(f"docker: {status.problem} ({status.hint})")
    assert comparable(make_cli("docker").evolve(sandbox="docker")) == comparable(finished[1])
