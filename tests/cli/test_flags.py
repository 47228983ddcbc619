"""Settings as flags: what was typed, by role, and what is refused in words."""

import json
from pathlib import Path

import pytest

from meta_agent.core.config import FIELDS
from meta_agent.core.setting_table import DOMAINS, SETTINGS, WAYS
from meta_agent.domains import DOMAIN_KINDS
from meta_agent.strategies.strategies import STRATEGIES

from ._command import Runner

BY_ROLE = {
    "role_max_usd",
    "role_max_tokens",
}  # filled by `--max-usd ROLE=` and `--max-tokens ROLE=`


def test_every_setting_is_a_flag() -> None:
    assert set(SETTINGS) == set(FIELDS) - BY_ROLE


def test_help_names_every_row_of_the_tables() -> None:
    assert set(WAYS.split(", ")) == set(STRATEGIES)
    doors = {name.partition(":")[0] for name in DOMAINS.split(", ")} - {"package.module"}
    assert doors == set(DOMAIN_KINDS) - {"plugged"}


def test_help_lists_every_flag(meta_agent: Runner, tmp_path: Path) -> None:
    shown = meta_agent("evolve", "--help", cwd=tmp_path).stdout
    for field, flag in SETTINGS.items():
        assert (flag.names[0] if flag.names else "--" + field.replace("_", "-")) in shown
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


def test_a_table_in_a_variable_is_json(meta_agent: Runner, tmp_path: Path) -> None:
    words = ("evolve", "--dry-run", "--json")
    table = '{"proposer": "openai/env"}'
    done = meta_agent(*words, cwd=tmp_path, META_AGENT_MODELS=table)
    assert done.document["config"]["models"] == {"proposer": "openai/env"}
    # What a variable says for every run is not refused where it has no effect.
    done = meta_agent(*words, cwd=tmp_path, META_AGENT_CONCURRENCY="4")
    assert done.document["config"]["concurrency"] == 4


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
    assert any("10 confirm tasks" in one for one in told["warnings"])
    assert [one.name for one in tmp_path.iterdir()] == ["tasks.jsonl"]
