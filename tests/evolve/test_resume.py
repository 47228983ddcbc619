"""kill -9 at durable steps, then the same command: nothing is lost, nothing is merged twice."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.resources import shipped_harness
from meta_agent.sandboxes import engine_status
from tests.evolve._cli import TINY, Cli
from tests.models import _bpe

pytestmark = [pytest.mark.train, pytest.mark.slow]
SMALL = b"groups_per_step = 2\nnum_generations = 4\n"
# After a training the second test kills.
POINTS = ("after_work:proposal", "before_work:verdict")


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


@pytest.mark.docker
@pytest.mark.timeout(900)  # two runs, on a machine that may be busy
def test_a_killed_run_ends_like_an_undisturbed_one_whatever_its_sandbox(
    make_cli: Any, finished: tuple[Cli, Any]
) -> None:
    """The undisturbed run had process sandboxes. This one has them only without an engine."""
    sandbox = "docker" if engine_status().ready else "process"
    argv = ("evolve", "--domain", "swe", *TINY, "--sandbox", sandbox)
    cli: Cli = make_cli("killed")
    for point in POINTS:
        killed = cli(*argv, env={"META_AGENT_CRASH_AT": point}, check=False)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert comparable(cli.json(*argv)) == comparable(finished[1])


@pytest.mark.timeout(900)
def test_a_killed_training_of_a_real_model_goes_on_from_its_last_seal(
    make_cli: Any, tmp_path: Path
) -> None:
    (tmp_path / "grade.py").write_text(
        "def grade(task, answer):\n    return task['gold'] in answer\n"
    )
    rows = [{"prompt": f"{n} + 1?", "gold": str(n % 10)} for n in range(60)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    policy = _bpe.write(tmp_path / "tiny", window=640)
    for name, data in shipped_harness("chat/open").items():
        path = tmp_path / "harness" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(SMALL if path.name == "recipe.toml" else data)
    argv = ("train", "--tasks", f"{tmp_path}/rows.jsonl", "--grade", f"{tmp_path}/grade.py")
    argv += (
        "--harness",
        f"{tmp_path}/harness",
        "--policy",
        f"hf:{policy}",
        "--sandbox",
        "process",
        "--allow-unsafe",
        "--json",
    )
    argv += ("--train-steps", "2", "--checkpoint-every", "1")
    cli: Cli = make_cli("killed")
    kept = cli.folder / "meta-agent-workspace" / "checkpoints"
    with subprocess.Popen([sys.executable, "-m", "meta_agent", *argv], cwd=cli.folder) as begun:
        while not (seals := list(kept.glob("*/*.seals/host-*.json"))):
            assert begun.poll() is None, "it ended before it was killed"
            time.sleep(0.05)
        begun.kill()
    went_on = cli(*argv)
    assert "training continues after step" in went_on.stderr
    assert not seals[0].parent.exists()
    assert json.loads(went_on.stdout)["steps"] == 2
