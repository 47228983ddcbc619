"""Settings as flags: what was typed, by role, and what is refused in words."""

from pathlib import Path

import pytest

from meta_agent.cli._flags import FLAGS
from meta_agent.config import FIELDS

from .conftest import Runner

BY_ROLE = {
    "role_max_usd",
    "role_max_tokens",
}  # filled by `--max-usd ROLE=` and `--max-tokens ROLE=`


def test_every_setting_is_a_flag() -> None:
    assert set(FLAGS) == set(FIELDS) - BY_ROLE


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
    words += ["--replay-match", "position"]
    done = meta_agent("evolve", "--dry-run", "--json", *words, cwd=tmp_path)
    config = done.document["config"]
    assert config["models"] == {"proposer": "openai/big", "reviewer": "openai/small"}
    assert set(config["base_urls"].values()) == {"http://127.0.0.1:1/v1"}
    assert config["key_env"] == {"policy": "MY_KEY"}
    assert (config["max_usd"], config["role_max_usd"]) == (5.0, {"proposer": 2.5})
    assert (config["max_tokens"], config["role_max_tokens"]) == (None, {"judge": 1000})
    assert (config["samples"], config["concurrency"]) == (4, 3)
    assert (config["approve"], config["replay_match"]) == ("merge", "position")
    assert config["origin"]["role_max_usd"] == "command line"


REFUSED = {
    "unknown role": (["--model", "propser=a/b"], ["no role 'propser'", "did you mean proposer"]),
    "no role": (["--model", "openai/x"], ["--model openai/x: expected ROLE=MODEL", "--meta-model"]),
    "twice": (["--max-usd", "1", "--max-usd", "2"], ["--max-usd is given twice for all"]),
    "role twice": (["--max-usd", "judge=1", "--max-usd", "judge=2"], ["twice for judge"]),
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
    assert "META_AGENT_MODELS is not a JSON object by role" in bad.stderr
