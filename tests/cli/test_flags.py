"""Settings as flags: what was typed, by role, and what is refused in words."""

import json
from pathlib import Path

import pytest

from meta_agent.cli._flags import DOMAINS, FLAGS, WAYS
from meta_agent.core.config import FIELDS
from meta_agent.domains import DOMAIN_KINDS
from meta_agent.strategies.strategies import STRATEGIES

from .conftest import Runner

BY_ROLE = {
    "role_max_usd",
    "role_max_tokens",
}  # filled by `--max-usd ROLE=` and `--max-tokens ROLE=`


def test_every_setting_is_a_flag() -> None:
    assert set(FLAGS) == set(FIELDS) - BY_ROLE


def test_help_names_every_row_of_the_tables() -> None:
    assert set(WAYS.split(", ")) == set(STRATEGIES)
    doors = {name.partition(":")[0] for name in DOMAINS.split(", ")} - {"package.module"}
    assert doors == set(DOMAIN_KINDS) - {"plugged"}


def test_help_lists_every_flag_in_groups(meta_agent: Runner, tmp_path: Path) -> None:
    shown = meta_agent("evolve", "--help", cwd=tmp_path).stdout
    for field, flag in FLAGS.items():
        assert (flag.names[0] if flag.names else "--" + field.replace("_", "-")) in shown
    groups = ["The run:", "Models:", "Money and people:", "This machine:", "Options:"]
    places = [shown.index(group) for group in groups]
    assert places == sorted(places)
    assert max(map(len, shown.splitlines())) <= 80


def test_flags_by_role_repeat_and_an_amount_alone_is_for_the_run(
    meta_agent: Runner, tmp_path: Path
) -> None:
    words = ["--model", "proposer=openai/big", "--model", "reviewer=openai/small"]
    words += ["--base-url", "http://127.0.0.1:1/v1", "--key-env", "policy=MY_KEY"]
    words += ["--max-usd", "5", "--max-usd", "proposer=2.5", "--max-tokens", "judge=1000"]
    words += ["--samples", "4", "--concurrency", "3", "--approve", "merge"]
    words += ["--policy", "openai/x", "--tasks", str(task_file(tmp_path / "t.jsonl", 16))]
    done = meta_agent("evolve", "--dry-run", "--json", *words, cwd=tmp_path)
    config = done.document["config"]
    assert config["models"] == {"proposer": "openai/big", "reviewer": "openai/small"}
    assert set(config["base_urls"].values()) == {"http://127.0.0.1:1/v1"}
    assert config["key_env"] == {"policy": "MY_KEY"}
    assert (config["max_usd"], config["role_max_usd"]) == (5.0, {"proposer": 2.5})
    assert (config["max_tokens"], config["role_max_tokens"]) == (None, {"judge": 1000})
    assert (config["samples"], config["concurrency"]) == (4, 3)
    assert config["approve"] == "merge"
    assert config["origin"]["role_max_usd"] == "command line"


REFUSED = {
    "unknown role": (["--model", "propser=a/b"], ["no role 'propser'", "did you mean proposer"]),
    "no role": (["--model", "openai/x"], ["--model openai/x: expected ROLE=MODEL", "--meta-model"]),
    "twice": (["--max-usd", "1", "--max-usd", "2"], ["--max-usd has two values for the role all"]),
    "role twice": (
        ["--max-usd", "judge=1", "--max-usd", "judge=2"],
        ["two values for the role judge"],
    ),
    "no amount": (["--max-usd", "lots"], ["max_usd = 'lots'", "valid number"]),
    "no role's amount": (["--max-tokens", "judge=1.5"], ["role_max_tokens[judge] = '1.5'"]),
    "a key": (["--key-env", "sk-canary"], ["never the key itself"]),
    "approve": (["--approve", "never"], ["approve = 'never'", "'auto', 'merge' or 'each'"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_flag_is_a_sentence(meta_agent: Runner, tmp_path: Path, case: str) -> None:
    words, parts = REFUSED[case]
    done = meta_agent("evolve", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr and "sk-canary" not in done.stderr
    for part in parts:
        assert part in done.stderr


def test_a_table_in_a_variable_is_json(meta_agent: Runner, tmp_path: Path) -> None:
    words = ("evolve", "--dry-run", "--json")
    table = '{"proposer": "openai/env"}'
    done = meta_agent(*words, cwd=tmp_path, META_AGENT_MODELS=table)
    assert done.document["config"]["models"] == {"proposer": "openai/env"}
    bad = meta_agent(*words, cwd=tmp_path, META_AGENT_MODELS="proposer=openai/env")
    assert bad.returncode == 2
    assert "META_AGENT_MODELS is not a JSON object with a value for each role" in bad.stderr


# --- the dry run ---------------------------------------------------------------------------------


PATCH = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"


def task_file(path: Path, confirm: int) -> Path:
    splits = {"train": 1, "search": 2, "confirm": confirm, "vault": 1}
    rows = [
        {
            "instance_id": f"one-{split}-{number}",
            "repo": "a/b",
            "problem_statement": f"call {number} of {split} is broken",
            "patch": PATCH.replace("a = 2", f"a = {2 + at}"),
            "test_patch": PATCH,
            "FAIL_TO_PASS": ["tests/test_x.py::test_x"],
            "PASS_TO_PASS": [],
            "base_commit": "c" * 40,
            "image": "some-image",
            "source": {"image_path": "/testbed"},
            "split": split,
        }
        for at, (split, number) in enumerate(
            (s, n) for s, count in splits.items() for n in range(count)
        )
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def frozen(tmp_path: Path) -> list[str]:
    tasks = str(task_file(tmp_path / "tasks.jsonl", 16))
    models = ["--policy", "openai/gpt-5-mini", "--meta-model", "anthropic/claude-sonnet-4-6"]
    return ["evolve", "--dry-run", "--tasks", tasks, *models]


def test_the_dry_run_forecasts_by_role_and_starts_nothing(
    meta_agent: Runner, tmp_path: Path, frozen: list[str]
) -> None:
    told = meta_agent(*frozen, "--max-usd", "1", "--json", cwd=tmp_path).document["estimate"]
    assert set(told["roles"]) == {"analyst", "proposer", "reviewer", "librarian", "policy"}
    assert 0 < told["usd"]["low"] < told["usd"]["high"]
    assert told["planned_candidates"] == 18
    assert told["bought_candidates"]["low"] < 18
    assert told["smallest_effect"] > 0.2
    assert any("10 confirm tasks can prove only gains of" in one for one in told["warnings"])
    assert [one.name for one in tmp_path.iterdir()] == ["tasks.jsonl"]


def test_the_dry_run_reads_well(meta_agent: Runner, tmp_path: Path, frozen: list[str]) -> None:
    url = "http://127.0.0.1:1/v1"
    words = ["--max-tokens", "5000000", "--base-url", url]
    shown = " ".join(meta_agent(*frozen, *words, cwd=tmp_path).stdout.split())
    for part in (
        f"base_urls all={url} command line",
        "model calls",
        "price unknown",  # nobody knows what one's own server costs
        "18 planned; the caps pay for",
        "points of clean success can be proven",
        "! 10 confirm tasks can prove only gains of",
    ):
        assert part in shown


def test_a_free_model_under_a_cap_is_still_a_document(
    meta_agent: Runner, tmp_path: Path, frozen: list[str]
) -> None:
    script = tmp_path / "script.json"
    script.write_text("[]")
    words = ["--meta-model", f"scripted:{script}", "--max-usd", "0", "--json"]
    assert meta_agent(*frozen, *words, cwd=tmp_path).document["estimate"]["roles"]


def test_what_evolve_would_refuse_the_dry_run_refuses(meta_agent: Runner, tmp_path: Path) -> None:
    done = meta_agent("evolve", "--dry-run", "--policy", "openai/gpt-5-mini", cwd=tmp_path)
    assert (done.returncode, "needs tasks" in done.stderr) == (2, True)


NANO: list[str] = []
FROZEN = ["--policy", "openai/x", "--base-url", "http://127.0.0.1:9/v1", "--tasks", "none.jsonl"]
HF = ["--policy", "hf:model", "--tasks", "none.jsonl"]
UNUSED = {
    "train steps": ([*FROZEN, "--train-steps", "9"], "--train-steps", "weights are here"),
    "threads": ([*FROZEN, "--threads", "2"], "--threads", "weights are here"),
    "lora rank": ([*NANO, "--lora-rank", "8"], "--lora-rank", "hf:"),
    "precision": ([*NANO, "--precision", "bfloat16"], "--precision", "hf:"),
    "passes": ([*NANO, "--tokens-per-pass", "8"], "--tokens-per-pass", "hf:"),
    "staleness": ([*NANO, "--max-staleness", "1"], "--max-staleness", "hf:"),
    "prove": ([*FROZEN, "--prove", "version"], "--prove", "trained here"),
    "prove, static": (["--strategy", "static", "--prove", "version"], "--prove", "other than"),
    "hand over": (["--strategy", "score-only", "--hand-over", "best"], "--hand-over", "other than"),
    "samples": ([*HF, "--samples", "4"], "--samples", "frozen"),
    "concurrency": ([*NANO, "--concurrency", "4"], "--concurrency", "frozen"),
    "replay match": ([*NANO, "--replay-match", "position"], "--replay-match", "replay:RUN"),
    "map": ([*NANO, "--map", "question=prompt"], "--map", "your own tasks"),
    "threshold": ([*NANO, "--threshold", "0.5"], "--threshold", "your own tasks"),
    "python": ([*NANO, "--python", "python3"], "--python", "your own tasks"),
    "a cap": ([*NANO, "--max-usd", "5"], "--max-usd", "calls a model"),
    "a role's cap": ([*NANO, "--max-tokens", "policy=5"], "--max-tokens", "calls a model"),
    "a server": ([*HF, "--base-url", "http://127.0.0.1:9/v1"], "--base-url", "calls a model"),
}


@pytest.mark.parametrize("case", UNUSED)
def test_a_flag_that_a_mode_does_not_use_is_refused(
    meta_agent: Runner, tmp_path: Path, case: str
) -> None:
    words, flag, used_by = UNUSED[case]
    done = meta_agent("evolve", "--dry-run", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    first = done.stderr.splitlines()[0]
    assert first.startswith(f"meta-agent: {flag} has no effect in this run") and used_by in first


def test_what_a_variable_says_for_every_run_is_not_refused(
    meta_agent: Runner, tmp_path: Path
) -> None:
    done = meta_agent("evolve", "--dry-run", "--json", cwd=tmp_path, META_AGENT_CONCURRENCY="4")
    assert done.document["config"]["concurrency"] == 4
