"""Settings: precedence, origins, unknown keys, and what names a run."""

from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.config import FIELDS, RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import ROLES
from meta_agent.core.settings import INTERNAL_VARIABLES, PROFILES, resolve
from meta_agent.core.task_splits import Limits


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


def test_a_typed_grader_wins_over_the_domain_of_the_workspace(tmp_path: Path) -> None:
    write_settings(tmp_path, '[evolve]\ndomain = "swe"\n')
    assert resolve({"grade": tmp_path / "grade.py"}).domain == "graded"
    assert resolve({"grade": tmp_path / "grade.py", "domain": "mine:thing"}).domain == "mine:thing"


def test_a_typed_domain_hides_the_grader_of_the_workspace(tmp_path: Path) -> None:
    write_settings(tmp_path, '[evolve]\ngrade = "grade.py"\nthreshold = 0.5\n')
    assert resolve({}).domain == "graded"
    config = resolve({"domain": "math"})
    assert (config.domain, config.grade, config.threshold) == ("math", None, None)


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
        ("domain", "no such one", "expected a name, NAME:PACKAGE or package.module:Factory"),
        ("sandbox", "none", "choose auto, docker, podman, process or harbor:SERVICE"),
        ("max_usd", -1, "greater than or equal to 0"),
        ("train_steps", "many", "valid integer"),
        ("policy", "gpt", "expected nano, hf:PATH"),
        ("policy", "hf:", "expected nano, hf:PATH"),
        ("meta_model", "a b/c", "expected rules, agent:claude"),
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


def test_limits_are_read_from_every_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(max_turns=100, reasoning="high")
    write_settings(tmp_path, '[evolve.limits]\nmax_turns = 100\nreasoning = "high"\n')
    assert resolve({}).limits == limits
    monkeypatch.setenv("META_AGENT_LIMITS", "max_turns=7")
    assert resolve({}).limits == Limits(max_turns=7)
    assert resolve({"limits": "max_turns=100, reasoning=high"}).limits == limits
    assert resolve({}).hashed["limits"] == {"max_turns": 7}


def test_a_run_without_limits_keeps_the_name_that_it_had() -> None:
    assert "limits" not in resolve({}).hashed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("max_turn=3", "no limit 'max_turn'; use max_turns"),
        ("max_turns=0", "greater than or equal to 1"),
        ("max_turns", "expected NAME=LIMIT pairs"),
        ("seconds=soon", "a valid number"),
        ("reasoning=most", "'low', 'medium' or 'high'"),
    ],
)
def test_a_wrong_limit_is_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        resolve({"limits": text})


def test_snapshot_survives_json() -> None:
    config = resolve({"seed": 4, "max_usd": 1.5, "limits": "max_turns=9"})
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
        {"lora_rank": 4},
        {"precision": "bfloat16"},
        {"tokens_per_pass": 4096},
        {"limits": "max_turns=3"},
        {"max_staleness": 1},
        {"engines": 1},
        {"context_tokens": 4096},
        {"train_gpus": 2},
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
        {"checkpoint_every": 1},
        {"gpus_per_engine": 2},
        {"allow_unsafe_process": True},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_does_not_change_results_resumes_the_same_run(change: dict[str, Any]) -> None:
    assert resolve(change).config_hash == resolve({}).config_hash


def test_whether_engines_sample_changes_results_and_how_many_does_not() -> None:
    assert resolve({"engines": 1}).config_hash == resolve({"engines": 4}).config_hash


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


def test_how_a_policy_is_trained_has_a_table_of_its_own(tmp_path: Path) -> None:
    write_settings(tmp_path, "[training]\nlora_rank = 8\nprecision = 'bfloat16'\n")
    config = resolve({"workspace": tmp_path, "lora_rank": 4})
    assert (config.lora_rank, config.precision) == (4, "bfloat16")
    assert config.origin["precision"].endswith("meta-agent.toml")


@pytest.mark.parametrize(
    ("text", "key", "table"),
    [
        ("[evolve]\nlora_rank = 8", "lora_rank", "training"),
        ("[training]\nengines = 1", "engines", "engine"),
        ("[training]\nseed = 8", "seed", "evolve"),
    ],
)
def test_a_key_in_the_other_table_is_refused(
    tmp_path: Path, text: str, key: str, table: str
) -> None:
    write_settings(tmp_path, text)
    with pytest.raises(ConfigError, match=f"unknown key '{key}'") as refused:
        resolve({"workspace": tmp_path})
    assert refused.value.hint == f"it belongs in [{table}]"


def test_snapshot_is_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        resolve({}).seed = 1  # type: ignore[misc]


# --- settings by role ----------------------------------------------------------------------------


def test_tables_by_role_add_up_over_the_layers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_settings(
        tmp_path, "[evolve.models]\nproposer = 'openai/file'\nreviewer = 'openai/file'\n"
    )
    monkeypatch.setenv("META_AGENT_MODELS", '{"proposer": "openai/env", "analyst": "openai/env"}')
    config = resolve({"models": {"analyst": "openai/flag"}})
    assert config.models == {
        "analyst": "openai/flag",
        "proposer": "openai/env",
        "reviewer": "openai/file",
    }
    toml = tmp_path / "meta-agent.toml"
    assert config.origin["models"] == f"command line + META_AGENT_MODELS + {toml}"


def test_a_url_for_all_leaves_a_roles_own(tmp_path: Path) -> None:
    write_settings(tmp_path, "[evolve.base_urls]\nproposer = 'http://own/v1'\n")
    config = resolve({"base_urls": {"all": "http://all/v1"}})
    assert config.base_urls["proposer"] == "http://own/v1"
    assert {config.base_urls[role] for role in ROLES if role != "proposer"} == {"http://all/v1"}


BAD_BY_ROLE = {
    "unknown role": ({"models": {"propser": "a/b"}}, "no role 'propser'", "did you mean proposer"),
    "policy": ({"models": {"policy": "a/b"}}, "--policy sets the policy's model", "--model"),
    "model": ({"models": {"judge": "gpt"}}, "expected ", "--model"),
    "amount": ({"role_max_usd": {"judge": "x"}}, "role_max_usd[judge] = 'x'", "--max-usd"),
    "scheme": ({"base_urls": {"judge": "ftp://x"}}, "expected http://HOST", "--base-url"),
    "url with key": ({"base_urls": {"all": "http://me:sk-canary@x"}}, "not carry a key", "--base"),
    "query": ({"base_urls": {"all": "http://x/?key=sk-canary"}}, "not carry a key", "--base-url"),
    "key as name": ({"key_env": {"all": "sk-canary"}}, "never the key itself", "--key-env"),
}


@pytest.mark.parametrize("case", BAD_BY_ROLE)
def test_a_bad_setting_by_role_is_a_sentence_without_secrets(case: str) -> None:
    given, says, hint = BAD_BY_ROLE[case]
    with pytest.raises(ConfigError) as refused:
        resolve(given)
    assert says in str(refused.value)
    assert hint in str(refused.value.hint)
    assert "sk-canary" not in f"{refused.value} {refused.value.hint}"


def test_a_variable_that_is_no_json_is_a_sentence_without_its_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("META_AGENT_KEY_ENV", "sk-canary")
    with pytest.raises(ConfigError, match="META_AGENT_KEY_ENV is not a JSON object") as refused:
        resolve({})
    assert "sk-canary" not in f"{refused.value} {refused.value.hint}"
    assert refused.value.__cause__ is None


def test_money_and_people_do_not_change_the_run() -> None:
    changes = {
        "role_max_usd": {"proposer": 1.0},
        "base_urls": {"policy": "http://x"},
        "key_env": {"policy": "MY_KEY"},
        "approve": "each",
        "concurrency": 2,
    }
    for name, value in changes.items():
        assert resolve({name: value}).config_hash == resolve({}).config_hash
    assert resolve({"models": {"judge": "a/b"}}).config_hash != resolve({}).config_hash


@pytest.mark.parametrize(
    ("policy", "flags", "precision"),
    [
        ("hf:model", "flags : sse2 avx512_bf16", "bfloat16"),
        ("hf:model", "flags : sse2", "float32"),
        ("nano", "flags : amx_bf16", "float32"),
    ],
)
def test_a_pretrained_policy_computes_in_what_the_processor_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, flags: str, precision: str
) -> None:
    (tmp_path / "cpuinfo").write_text(flags)
    monkeypatch.setattr("meta_agent.core.config._PROCESSOR", tmp_path / "cpuinfo")
    made = RunConfig(policy=policy)
    assert made.precision == precision
