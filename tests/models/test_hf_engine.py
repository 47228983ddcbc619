"""The transformers engine: BPE, chat templates, and the same exact token rows."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the train extra")
pytest.importorskip("transformers", reason="needs the train extra")

from meta_agent.core.errors import ConfigError  # noqa: E402
from meta_agent.core.protocols import TokenRecord  # noqa: E402
from meta_agent.policies.engines.hf_engine import HfEngine  # noqa: E402
from tests.models import _bpe, _nano  # noqa: E402

pytestmark = pytest.mark.train


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    torch.set_num_threads(1)
    return _bpe.tokenizer()


@pytest.fixture(scope="module")
def model(tokenizer: Any) -> Any:
    return _bpe.model(len(tokenizer))


def two_turns(engine: HfEngine, **changes: Any) -> TokenRecord:
    (reply,) = engine.generate([_nano.request("k", "the quick fox", **changes)])
    engine.generate([_nano.request("k", "the quick fox", reply.content, "ok no", **changes)])
    (record,) = engine.finish(["k"])
    assert record is not None
    return record


def test_a_second_turn_extends_the_sampled_tokens_exactly(model: Any, tokenizer: Any) -> None:
    record = two_turns(HfEngine(model, tokenizer), max_tokens=5)
    assert record.exact
    first = record.mask.index(0)
    assert 1 in record.mask[first:]
    delta = [t for t, mine in zip(record.completion_ids, record.mask, strict=True) if not mine]
    said = tokenizer.decode(delta)
    assert said.endswith("<|im_start|>user\nok no<|im_end|>\n<|im_start|>assistant\n")


def test_logprobs_are_what_the_model_says_of_the_whole_row(model: Any, tokenizer: Any) -> None:
    record = two_turns(HfEngine(model, tokenizer), max_tokens=7, temperature=0.8)
    ids = torch.tensor([record.prompt_ids + record.completion_ids])
    with torch.no_grad():
        expected = torch.log_softmax(model(ids).logits[0] / 0.8, -1)
    start = len(record.prompt_ids) - 1
    for i, (token, mine) in enumerate(zip(record.completion_ids, record.mask, strict=True)):
        theirs = expected[start + i, token].item() if mine else 0.0
        assert record.logprobs[i] == pytest.approx(theirs, abs=1e-4)


def _logprobs(model: Any, record: TokenRecord) -> list[float]:
    """Returns what a plain forward pass says about a finished row."""
    ids = torch.tensor([record.prompt_ids + record.completion_ids])
    with torch.no_grad():
        logprobs = torch.log_softmax(model(ids).logits[0].float(), -1)
    start = len(record.prompt_ids) - 1
    return [logprobs[start + i, token].item() for i, token in enumerate(record.completion_ids)]


def test_rows_that_share_a_context_or_leave_early_have_the_log_probabilities_of_a_plain_pass(
    model: Any, tokenizer: Any
) -> None:
    engine = HfEngine(model, tokenizer)
    requests = [
        _nano.request(
            f"{text}{sample}", text, task_key=text, sample_idx=sample, max_tokens=1 + 23 * sample
        )
        for text in ("fox", "the quick brown fox jumps", "dog")
        for sample in range(5)
    ]
    replies = engine.generate(requests)
    records = engine.finish([request.key for request in requests])
    assert len({reply.completion_tokens for reply in replies}) > 4, "rows leave at other times"
    for record in records:
        assert record is not None
        assert record.logprobs == pytest.approx(_logprobs(model, record), abs=1e-4)


def _with_window(vocabulary: int) -> Any:
    """Returns a small model whose layers see the last 24 tokens only."""
    from transformers import MistralConfig, MistralForCausalLM

    torch.manual_seed(0)
    return MistralForCausalLM(
        MistralConfig(
            vocab_size=vocabulary, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=1, sliding_window=24,
            max_position_embeddings=256,
        )
    )  # fmt: skip


@pytest.mark.parametrize("windowed", [False, True])
def test_rows_that_begin_alike_have_the_log_probabilities_of_a_plain_pass(
    model: Any, tokenizer: Any, windowed: bool
) -> None:
    engine = HfEngine(_with_window(len(tokenizer)) if windowed else model, tokenizer)
    lengths: list[int] = []
    forward = engine._decoder._copy.forward

    def counted(input_ids: Any, **others: Any) -> Any:
        lengths.append(input_ids.numel())
        return forward(input_ids=input_ids, **others)

    engine._decoder._copy.forward = counted
    texts = ["the quick brown fox jumps over " * 12 + tail for tail in ("a", "a dog", "fox " * 9)]
    requests = [_nano.request(text, text, task_key=text, max_tokens=12) for text in texts]
    engine.generate(requests)
    records = engine.finish([request.key for request in requests])
    prompts = [len(record.prompt_ids) for record in records if record is not None]
    assert len(prompts) == 3 and max(prompts) > 60
    read = sum(lengths[:2])
    assert (read < 1.5 * max(prompts)) != windowed, "the common part is read once"
    for record in records:
        assert record is not None
        expected = _logprobs(engine._decoder._model, record)
        assert record.logprobs == pytest.approx(expected, abs=1e-4)


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")  # in peft
@pytest.mark.parametrize("bfloat16", [False, True])
def test_an_adapter_and_trained_weights_are_sampled_with_once_they_are_read_again(
    tokenizer: Any, bfloat16: bool
) -> None:
    from peft import LoraConfig, get_peft_model

    model = _bpe.model(len(tokenizer))
    engine = HfEngine(model, tokenizer, bfloat16=bfloat16)
    engine.generate([_nano.request("before", "fox")])
    adapted = get_peft_model(model, LoraConfig(r=4, lora_alpha=8, target_modules="all-linear"))
    torch.manual_seed(1)
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora" in name or "norm" in name:
                weight.add_(torch.randn_like(weight) * 0.3)
    engine.refresh()
    engine.generate([_nano.request("k", "the quick fox", max_tokens=20)])
    (record,) = engine.finish(["k"])
    assert record is not None
    with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        expected = _logprobs(adapted.eval(), record)
    assert record.logprobs == pytest.approx(expected, abs=0.3 if bfloat16 else 1e-4)
    assert record.logprobs != pytest.approx(_logprobs(_bpe.model(len(tokenizer)), record), abs=0.3)


def test_a_template_that_forgets_what_was_said_is_refused(model: Any) -> None:
    with pytest.raises(ConfigError, match="no turn can be appended to a conversation: the chat"):
        HfEngine(model, _bpe.tokenizer(_bpe.FORGETFUL))


def test_a_scaffold_that_changes_the_past_opens_a_new_segment(model: Any, tokenizer: Any) -> None:
    engine = HfEngine(model, tokenizer)
    engine.generate([_nano.request("k", "the quick fox", max_tokens=5)])
    engine.generate([_nano.request("k", "the quick fox", "what it never said", "ok", max_tokens=3)])
    (record,) = engine.finish(["k"])
    assert record is not None and not record.exact
    assert record.lost in range(1, 6) and record.mask == [1] * len(record.completion_ids)
    assert "what it never said<|im_end|>" in tokenizer.decode(record.prompt_ids)


def test_a_conversation_that_the_template_refuses_fails_its_attempt_alone(model: Any) -> None:
    strict = _bpe.CHATML.replace(
        "{{ m['role'] }}", "{{ m['role'] / 1 if m['role'] == 'tool' else m['role'] }}"
    )
    engine = HfEngine(model, _bpe.tokenizer(strict))
    said = [{"role": "tool", "content": "x"}]
    torn = [{"role": "assistant", "content": "", "tool_calls": [{"id": 1}]}]
    bad, worse, good = engine.generate(
        [
            _nano.request("a", messages=said),
            _nano.request("b", messages=torn),
            _nano.request("c", "fox"),
        ]
    )
    assert worse.failure is not None and worse.failure.kind == "policy"
    assert bad.failure is not None and bad.failure.kind == "policy"
    assert "refuses this conversation" in bad.failure.detail
    assert good.failure is None and good.completion_tokens > 0


def test_a_ragged_batch_gives_what_each_gives_alone(model: Any, tokenizer: Any) -> None:
    asked = [
        _nano.request(str(i), "dog " * (1 + 3 * i), task_key=str(i), max_tokens=3 + i)
        for i in range(4)
    ]
    together = [reply.content for reply in HfEngine(model, tokenizer).generate(asked)]
    alone = [HfEngine(model, tokenizer).generate([one])[0].content for one in asked]
    assert together == alone


def test_no_room_is_a_context_finish(model: Any, tokenizer: Any) -> None:
    engine = HfEngine(model, tokenizer)
    (reply,) = engine.generate([_nano.request("k", "fox", max_context_tokens=4)])
    assert (reply.finish_reason, reply.completion_tokens) == ("context", 0)
    assert engine.finish(["k"]) == [None]
