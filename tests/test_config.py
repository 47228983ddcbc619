"""Settings: precedence, origins, unknown keys, and what names a run."""

from pathlib import Path
from typing import Any

import pytest

from meta_agent.config import FIELDS, INTERNAL_VARIABLES, PROFILES, RunConfig, resolve
from meta_agent.errors import ConfigError


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import os

    for name in list(os.environ):
        if name.startswith("META_AGENT_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def write_settings(path: Path, text: str) -> None:
    path.mkdir(parents=True, exist_ok=True)
    (path / "meta-agent.toml").write_text(text, encoding="utf-8")


def test_each_layer_wins_over_those_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_settings(tmp_path, '[evolve]\nseed = 1\ngenerations = 4\nprofile = "tiny"\n')
    monkeypatch.setenv("META_AGENT_SEED", "2")
    monkeypatch.setenv("META_AGENT_CANDIDATES", "5")
    config = resolve({"candidates": 6, "domain": None})
    assert (config.candidates, config.seed, config.generations) == (6, 2, 4)
    assert config.train_steps == PROFILES["tiny"]["train_steps"]
    assert config.policy == "nano"
    assert {name: config.origin[name] for name in ("candidates", "seed", "generations")} == {
        "candidates": "command line",
        "seed": "META_AGENT_SEED",
        "generations": str(tmp_path / "meta-agent.toml"),
    }
    assert config.origin["train_steps"] == "profile tiny"
    assert config.origin["policy"] == "default"


def test_every_value_has_an_origin() -> None:
    assert set(resolve({}).origin) == set(FIELDS)


def test_only_the_file_of_the_workspace_in_use_is_read(tmp_path: Path) -> None:
    write_settings(tmp_path, "[evolve]\nseed = 1\n")
    write_settings(tmp_path / "other", "[evolve]\nseed = 9\n")
    assert resolve({}).seed == 1
    assert resolve({"workspace": Path("other")}).seed == 9
    assert resolve({"workspace": Path("new")}).seed == 0


def test_workspace_is_absolute_and_found(tmp_path: Path) -> None:
    assert resolve({}).workspace == tmp_path / "meta-agent-workspace"
    write_settings(tmp_path, "")
    assert resolve({}).workspace == tmp_path


def test_workspace_can_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_settings(tmp_path / "w", "[evolve]\nseed = 7\n")
    monkeypatch.setenv("META_AGENT_WORKSPACE", "w")
    config = resolve({})
    assert (config.workspace, config.seed) == (tmp_path / "w", 7)
    assert config.origin["workspace"] == "META_AGENT_WORKSPACE"


@pytest.mark.parametrize(
    ("text", "named", "hint"),
    [
        ("[evolve]\ngeneration = 3\n", "unknown key 'generation' in [evolve]", "generations"),
        ("[evolve]\nworkspace = 'x'\n", "unknown key 'workspace' in [evolve]", "known keys"),
        ("[evolv]\nseed = 3\n", "unknown key 'evolv'", "[evolve]"),
        ("seed = 3\n", "unknown key 'seed'", "[evolve]"),
        ("[evolve]\nseed = = 3\n", "not valid TOML", "line"),
    ],
)
def test_a_bad_file_is_named_with_its_key(tmp_path: Path, text: str, named: str, hint: str) -> None:
    write_settings(tmp_path, text)
    with pytest.raises(ConfigError) as refused:
        resolve({})
    assert named in str(refused.value)
    assert str(tmp_path / "meta-agent.toml") in str(refused.value)
    assert hint in str(refused.value.hint)


def test_an_unknown_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("META_AGENT_GENERATION", "3")
    with pytest.raises(ConfigError, match="META_AGENT_GENERATION") as refused:
        resolve({})
    assert "META_AGENT_GENERATIONS" in str(refused.value.hint)


@pytest.mark.parametrize("name", sorted(INTERNAL_VARIABLES))
def test_our_own_variables_are_not_mistaken_for_settings(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "x")
    assert resolve({}).origin["seed"] == "default"


def test_an_empty_variable_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("META_AGENT_MAX_USD", "")
    assert resolve({}).max_usd is None


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("generations", 0, "greater than or equal to 1"),
        ("domain", "chess", "'swe', 'math' or 'code'"),
        ("sandbox", "none", "'auto', 'docker' or 'process'"),
        ("max_usd", -1, "greater than or equal to 0"),
        ("train_steps", "many", "valid integer"),
        ("policy", "gpt", "expected nano, hf:PATH"),
        ("policy", "hf:", "expected nano, hf:PATH"),
        ("meta_model", "a b/c", "expected rules, replay:RUN"),
    ],
)
def test_a_bad_value_is_named_with_value_and_origin(name: str, value: Any, reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        resolve({name: value})
    message = str(refused.value)
    assert message.startswith(f"{name} = {value!r} (from command line): ")
    assert reason in message
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    "policy", ["nano", "hf:./model", "vllm:/m", "openai/gpt-x", "together_ai/org/model"]
)
def test_model_strings_of_all_forms_are_accepted(policy: str) -> None:
    assert resolve({"policy": policy}).policy == policy


def test_snapshot_survives_json() -> None:
    config = resolve({"seed": 4, "max_usd": 1.5})
    again = RunConfig.from_json(config.to_json())
    assert again == config
    assert again.config_hash == config.config_hash


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"domain": "math"},
        {"train_steps": 31},
        {"profile": "tiny"},
        {"harness": "competent"},
        {"threads": 2},
        {"skills": Path("elsewhere")},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_changes_results_changes_the_hash(change: dict[str, Any]) -> None:
    assert resolve(change).config_hash != resolve({}).config_hash


@pytest.mark.parametrize(
    "change",
    [
        {"workspace": Path("elsewhere")},
        {"sandbox": "process"},
        {"max_usd": 3.0},
        {"max_tokens": 10},
        {"jobs": 1},
        {"allow_unsafe_process": True},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_does_not_change_results_resumes_the_same_run(change: dict[str, Any]) -> None:
    assert resolve(change).config_hash == resolve({}).config_hash


def test_a_task_file_counts_by_content_not_by_path(tmp_path: Path) -> None:
    first, copy, other = (tmp_path / name for name in ("a.jsonl", "b.jsonl", "c.jsonl"))
    first.write_text("{}\n")
    copy.write_text("{}\n")
    other.write_text('{"x": 1}\n')
    hashes = [resolve({"tasks": path}).config_hash for path in (first, copy, other)]
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_missing_task_file_is_named(tmp_path: Path) -> None:
    config = resolve({"tasks": tmp_path / "none.jsonl"})
    with pytest.raises(ConfigError, match=r"cannot read the task file .*none\.jsonl"):
        _ = config.config_hash


def test_a_path_in_the_file_is_relative_to_the_file(tmp_path: Path) -> None:
    write_settings(tmp_path / "w", "[evolve]\nskills = 'shared'\n")
    assert resolve({"workspace": Path("w")}).skills_library == tmp_path / "w" / "shared"


def test_snapshot_is_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        resolve({}).seed = 1  # type: ignore[misc]
