"""`train` says what a training gained; `--train-steps 0` leaves a local model frozen."""

import json
from pathlib import Path

import pytest

from meta_agent.core.ledger import Ledger
from meta_agent.core.resources import shipped_harness
from meta_agent.reports import reduce
from tests.models import _bpe

from ._cli import Cli

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


def test_a_judge_grades_a_training_and_is_asked_each_question_once(tmp_path: Path) -> None:
    judge = """

def judge(rollouts):
    return [f"How good is this? {r['messages'][-1]['content']}" for r in rollouts]


def reward_group(rollouts):
    return [{"liked": float(r["judged"] or 0) / 10} for r in rollouts]
"""
    for path, data in shipped_harness("nano/swe/seed").items():
        file = tmp_path / "harness" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data + judge.encode() if path.endswith("/reward.py") else data)
    (tmp_path / "judge.jsonl").write_text(
        json.dumps({"conversation": "reward/*", "reply": {"content": "7"}}) + "\n"
    )
    cli = Cli(tmp_path)
    argv = ["train", "--domain", "swe", "--profile", "tiny", "--train-steps", "1"]
    argv += ["--harness", str(tmp_path / "harness"), "--sandbox", "process", "--allow-unsafe"]
    done = cli(*argv, "--model", f"reward=scripted:{tmp_path}/judge.jsonl")
    assert done.returncode == 0, done.stderr
    records = list((cli.folder / "meta-agent-workspace" / "transcripts").rglob("reward/*.jsonl"))
    assert records and all(path.read_text().count('"reply":') == 1 for path in records)


def test_a_local_model_stays_frozen_while_its_harness_evolves(tmp_path: Path) -> None:
    grade = tmp_path / "grade.py"
    grade.write_text(
        "LIMITS = {'max_tokens_per_turn': 8}\n\n"
        "def grade(task, answer):\n    return task['gold'] in answer\n"
    )
    rows = [{"prompt": f"{n} + 1?", "gold": str(n % 10)} for n in range(60)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    policy = _bpe.write(tmp_path / "tiny", window=2048)
    argv = ("evolve", "--tasks", f"{tmp_path}/rows.jsonl", "--grade", str(grade))
    argv += ("--policy", f"hf:{policy}", "--train-steps", "0", "--precision", "bfloat16")
    argv += ("--profile", "tiny", "--budget", "80", "--sandbox", "process", "--allow-unsafe")
    cli = Cli(tmp_path)
    document = cli.json(*argv)
    assert document["exit_reason"] == "done"
    with Ledger.open(
        cli.folder / "meta-agent-workspace" / "ledger.sqlite", owner_lock=False
    ) as ledger:
        state = reduce(ledger)
    assert state.train_steps == 0 and state.rollouts > 0
    assert state.product["weights"] is None


def test_the_nano_policy_is_refused_without_training(tmp_path: Path) -> None:
    refused = Cli(tmp_path)("evolve", "--train-steps", "0", check=False)
    assert refused.returncode == 2
    assert "--train-steps is 0, but the nano policy solves nothing" in refused.stderr
