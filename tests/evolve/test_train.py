"""`meta-agent train` says what a training gained, and its weights can be adopted."""

import json
from pathlib import Path

import pytest

from .conftest import Cli

pytestmark = [pytest.mark.train, pytest.mark.slow]


def test_a_training_is_measured_before_and_after_and_its_weights_are_adopted(
    tmp_path: Path,
) -> None:
    cli = Cli(tmp_path)
    argv = ("train", "--domain", "swe", "--profile", "tiny", "--train-steps", "2")
    done = cli(*argv, "--sandbox", "process", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    difference = document["clean_success"] - document["clean_success_before"]
    assert document["gain"]["delta"] == pytest.approx(difference)
    assert document["gain"]["low"] <= document["gain"]["delta"] <= document["gain"]["high"]
    status = cli("status")
    words = " ".join(status.stdout.split())
    assert "Trained for 2 steps: clean success from" in words, status.stdout
    assert "No better harness" not in words
    adopted = cli("adopt", "--model", str(cli.folder / "model"))
    assert adopted.returncode == 0, adopted.stderr
    assert (cli.folder / "model" / "model.safetensors").is_file()
