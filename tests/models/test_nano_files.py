"""Nano policies as files: what transformers loads is what our tokenizer and weights say."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs the train extra")
pytest.importorskip("transformers", reason="needs the train extra")
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

from meta_agent.policies.engines import nano_tokenizer as nano  # noqa: E402
from meta_agent.policies.engines.nano_engine import NanoEngine  # noqa: E402
from meta_agent.policies.engines.nano_files import new_nano_model, write_nano  # noqa: E402

pytestmark = pytest.mark.train


def test_the_written_tokenizer_has_our_ids(tmp_path: Path) -> None:
    write_nano(new_nano_model(0), tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    text = "vets 3?\n" + "".join(chr(code) for code in range(32, 127)) + "\n"
    assert tokenizer.encode(text) == nano.encode(text)
    assert tokenizer.encode("caf\u00e9") == nano.encode("caf\u00e9")
    assert tokenizer.decode(nano.encode(text)) == text
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (nano.EOS_ID, nano.PAD_ID)
    assert len(tokenizer) == nano.VOCAB_SIZE


def test_the_written_chat_template_renders_as_we_do(tmp_path: Path) -> None:
    write_nano(new_nano_model(0), tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    messages = [{"role": "user", "content": "a\nb"}, {"role": "assistant", "content": " c "}]
    rendered = tokenizer.apply_chat_template(messages, tokenize=False)
    assert rendered == nano.render(messages)


def test_weights_survive_the_engines_joint_storage(tmp_path: Path) -> None:
    model = new_nano_model(3)
    expected = {name: value.clone() for name, value in model.state_dict().items()}
    NanoEngine(model)
    write_nano(model, tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path).state_dict()
    assert loaded.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(loaded[name], value), name
    assert (tmp_path / "model.safetensors").stat().st_size < 5_000_000
