"""The nano engine: exact logits, exact prefixes, results that do not depend on company."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the train extra")
pytest.importorskip("transformers", reason="needs the train extra")

from meta_agent.core.protocols import GenerateReply, TokenRecord  # noqa: E402
from meta_agent.policies.engines import nano_tokenizer as tokenizer  # noqa: E402
from meta_agent.policies.engines.nano_engine import NanoEngine  # noqa: E402
from tests.models import _nano  # noqa: E402

pytestmark = pytest.mark.train


@pytest.fixture(scope="module")
def model() -> Any:
    torch.set_num_threads(1)
    return _nano.model()


def converse(engine: NanoEngine, keys: Sequence[str], turns: int = 3) -> list[TokenRecord | None]:
    """Ragged multi-turn rollouts; what happens in each depends on its key alone."""
    talks = {key: [f"issue {key}" * (1 + len(key) % 3)] for key in keys}
    for turn in range(turns):
        asked = [
            _nano.request(key, *talks[key], task_key=key, turn=turn, max_tokens=2 + len(key))
            for key in keys
        ]
        for key, reply in zip(keys, engine.generate(asked), strict=True):
            talks[key] += [reply.content, "ok" * random.Random(key + str(turn)).randint(0, 4)]
    return engine.finish(keys)


def reference_logprobs(model: Any, record: TokenRecord, temperature: float = 1.0) -> list[float]:
    """What transformers says about the tokens of a row."""
    ids = torch.tensor([record.prompt_ids + record.completion_ids])
    with torch.no_grad():
        logprobs = torch.log_softmax(model(ids).logits[0] / temperature, -1)
    start = len(record.prompt_ids) - 1
    return [logprobs[start + i, token].item() for i, token in enumerate(record.completion_ids)]


def test_logits_agree_with_transformers_to_1e_5(model: Any) -> None:
    ids = torch.randint(2, 97, (3, 40), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = _nano.model(scale=1.0)(ids).logits[:, -1]
    engine = NanoEngine(_nano.model(scale=1.0))
    from meta_agent.policies.engines._nano_net import Batch

    cache = engine._net.new_cache()
    cache.reserve(3, 40)
    head, tail = ids[:, :25], ids[:, 25:]
    for part, start in ((head, 0), (tail, 25)):
        width = part.shape[1]
        batch = Batch(
            part.flatten(), torch.arange(3), torch.full((3,), start), torch.full((3,), width),
            dense=True, longest=start + width, widest=width,
        )  # fmt: skip
        logits = engine._net.forward(batch, cache)
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)


def test_logprobs_of_ragged_multi_turn_rollouts_agree_with_transformers(model: Any) -> None:
    records = converse(NanoEngine(model), ["a", "bb", "ccc", "dd", "e"])
    for record in records:
        assert record is not None and record.exact
        expected = reference_logprobs(model, record)
        for mine, theirs, sampled in zip(record.logprobs, expected, record.mask, strict=True):
            assert mine == pytest.approx(theirs, abs=2e-5) if sampled else mine == 0.0


def test_logprobs_are_those_at_the_sampling_temperature(model: Any) -> None:
    engine = NanoEngine(model)
    engine.generate([_nano.request("k", "issue", temperature=0.6)])
    (record,) = engine.finish(["k"])
    assert record is not None
    assert record.logprobs == pytest.approx(reference_logprobs(model, record, 0.6), abs=2e-5)


def test_a_rollout_does_not_depend_on_its_company_or_on_arrival_order(model: Any) -> None:
    keys = ["a", "bb", "ccc", "dd", "e"]
    together = dict(zip(keys, converse(NanoEngine(model), keys), strict=True))
    shuffled = keys[::-1]
    reversed_ = dict(zip(shuffled, converse(NanoEngine(model), shuffled), strict=True))
    alone = {key: converse(NanoEngine(model), [key])[0] for key in keys}
    for key in keys:
        first, second, third = together[key], reversed_[key], alone[key]
        assert first is not None and second is not None and third is not None
        assert first.completion_ids == second.completion_ids == third.completion_ids


def test_the_same_batch_twice_is_bit_identical(model: Any) -> None:
    keys = ["a", "bb", "ccc"]
    assert converse(NanoEngine(model), keys) == converse(NanoEngine(model), keys)


def test_equal_first_prompts_share_work_and_still_sample_apart(model: Any) -> None:
    engine = NanoEngine(model)
    asked = [_nano.request(str(i), "same issue", sample_idx=i, max_tokens=8) for i in range(8)]
    replies = engine.generate(asked)
    assert len({reply.content for reply in replies}) > 4
    second = [
        _nano.request(str(i), "same issue", replies[i].content, "more", sample_idx=i)
        for i in range(8)
    ]
    engine.generate(second)
    for record in engine.finish([str(i) for i in range(8)]):
        assert record is not None and record.exact
        expected = reference_logprobs(model, record)
        for mine, theirs, sampled in zip(record.logprobs, expected, record.mask, strict=True):
            assert not sampled or mine == pytest.approx(theirs, abs=2e-5)


def test_rollouts_that_end_leave_the_others_cache_intact(model: Any) -> None:
    engine = NanoEngine(model)
    keys = [f"k{i}" for i in range(6)]
    first = engine.generate([_nano.request(key, "issue " + key) for key in keys])
    engine.finish(keys[:2])  # the last slots move into the holes
    left = keys[2:]
    talks = {
        key: ("issue " + key, reply.content, "go on")
        for key, reply in zip(keys, first, strict=True)
    }
    engine.generate([_nano.request(key, *talks[key]) for key in left])
    for record in engine.finish(left):
        assert record is not None
        expected = reference_logprobs(model, record)
        for mine, theirs, sampled in zip(record.logprobs, expected, record.mask, strict=True):
            assert not sampled or mine == pytest.approx(theirs, abs=2e-5)


def test_a_stop_token_ends_the_reply_and_is_part_of_the_row() -> None:
    model = _nano.model()
    with torch.no_grad():
        model.model.embed_tokens.weight[tokenizer.EOS_ID] *= 0
    engine = NanoEngine(model)
    reply = _until(engine, "stop")
    assert "\n" not in reply.content
    (record,) = engine.finish(["k"])
    assert record is not None
    assert record.completion_ids[-1] == tokenizer.EOS_ID
    assert record.mask[-1] == 1


def _until(engine: NanoEngine, reason: str) -> GenerateReply:
    for seed in range(200):
        (reply,) = engine.generate([_nano.request("k", "issue", seed=seed, max_tokens=200)])
        if reply.finish_reason == reason:
            return reply
        engine.finish(["k"])
    raise AssertionError(f"no reply ended by {reason}")


def test_a_reply_that_was_cut_keeps_the_prefix_exact(model: Any) -> None:
    engine = NanoEngine(model)
    (reply,) = engine.generate([_nano.request("k", "issue", max_tokens=2)])
    assert reply.finish_reason == "length"
    engine.generate([_nano.request("k", "issue", reply.content, "next", max_tokens=2)])
    (record,) = engine.finish(["k"])
    assert record is not None and record.exact
    # two sampled, then the newline that the policy did not write and "next\n"
    assert record.mask == [1, 1, 0, 0, 0, 0, 0, 0, 1, 1]


def test_a_changed_past_opens_a_new_segment_and_says_so(model: Any) -> None:
    engine = NanoEngine(model)
    engine.generate([_nano.request("k", "issue")])
    engine.generate([_nano.request("k", "issue", "something it never said", "next", max_tokens=3)])
    (record,) = engine.finish(["k"])
    assert record is not None and not record.exact
    assert tokenizer.decode(record.prompt_ids) == "issue\nsomething it never said\nnext\n"
    assert record.mask == [1] * len(record.completion_ids)


@pytest.mark.parametrize(
    ("ceiling", "finish", "tokens"), [(6, "context", 0), (7, "length", 1), (9, "length", 3)]
)
def test_the_context_ceiling(model: Any, ceiling: int, finish: str, tokens: int) -> None:
    engine = NanoEngine(model)
    (reply,) = engine.generate(
        [_nano.request("k", "issue", max_tokens=8, max_context_tokens=ceiling, seed=1)]
    )
    assert (reply.finish_reason, reply.completion_tokens) == (finish, tokens)
    (record,) = engine.finish(["k"])
    assert (record is None) == (tokens == 0)


def test_a_call_without_room_leaves_the_session_as_it_was(model: Any) -> None:
    engine = NanoEngine(model)
    (reply,) = engine.generate([_nano.request("k", "issue", max_tokens=3)])
    (late,) = engine.generate(
        [_nano.request("k", "issue", reply.content, "long" * 9, max_context_tokens=30)]
    )
    assert late.finish_reason == "context"
    (record,) = engine.finish(["k"])
    assert record is not None and len(record.completion_ids) == 3


def test_greedy_takes_the_most_likely_token(model: Any) -> None:
    engine = NanoEngine(model)
    engine.generate([_nano.request("k", "issue", temperature=0.0)])
    (record,) = engine.finish(["k"])
    assert record is not None
    ids = torch.tensor([record.prompt_ids + record.completion_ids])
    with torch.no_grad():
        best = model(ids).logits[0].argmax(-1)[len(record.prompt_ids) - 1 : -1]
    assert best.tolist() == record.completion_ids


def test_the_trainer_and_the_engine_share_parameters() -> None:
    model = _nano.model()
    engine = NanoEngine(model)
    before = engine.generate([_nano.request("a", "issue", max_tokens=20)])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.5)
    model(torch.tensor([[3, 4, 5]])).logits.sum().backward()
    optimizer.step()
    engine.refresh()
    after = engine.generate([_nano.request("b", "issue", max_tokens=20)])
    assert before[0].content != after[0].content
    (record,) = engine.finish(["b"])
    assert record is not None
    assert record.logprobs == pytest.approx(reference_logprobs(model, record), abs=1e-4)


def test_replaced_parameters_are_adopted_again() -> None:
    model = _nano.model()
    engine = NanoEngine(model)
    for parameter in model.parameters():
        parameter.data = parameter.data.clone() * 0.5
    engine.refresh()
    engine.generate([_nano.request("b", "issue")])
    (record,) = engine.finish(["b"])
    assert record is not None
    assert record.logprobs == pytest.approx(reference_logprobs(model, record), abs=2e-5)


def test_an_unknown_rollout_has_no_row(model: Any) -> None:
    assert NanoEngine(model).finish(["never seen"]) == [None]


def test_other_architectures_are_refused() -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    tiny = LlamaConfig(
        vocab_size=10, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
        num_attention_heads=1,
    )  # fmt: skip
    with pytest.raises(ValueError, match="llama"):
        NanoEngine(LlamaForCausalLM(tiny))
