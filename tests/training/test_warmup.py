"""A warm-up imitates verified clean successes, and then GRPO goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from meta_agent.core.errors import CandidateError, Interrupted, TrainingError
from meta_agent.core.harness import HarnessSession
from meta_agent.core.lab.warmup import clean_successes
from meta_agent.core.protocols import JSON, Task
from meta_agent.domains.nano import NanoSwe
from meta_agent.domains.nano.math import NanoMath
from meta_agent.policies.training import PolicyChild, open_checkpoint
from meta_agent.policies.training._wire import warm_folder
from tests.models import _bpe
from tests.training import _loop
from tests.training._rows import ANSWERS, attempt

RECIPE = {**_loop.TINY, "sft_steps": 2, "sft_learning_rate": 3e-3}


def test_a_row_is_a_clean_success_on_a_training_task_whatever_its_file_says() -> None:
    domain = NanoMath()
    solved, missed, leaked, silent, named_otherwise = domain.tasks("train")[:5]
    confirm = domain.tasks("confirm")[0]

    def answer(task: Task) -> tuple[str, Mapping[str, JSON]]:
        return "submit", {"answer": ANSWERS.get(task.key, "1")}

    rows, left_out = clean_successes(
        domain,
        [
            attempt(solved, answer(solved)),
            attempt(missed, ("submit", {"answer": "x"})),
            attempt(leaked, ("key", {}), answer(leaked)),
            attempt(silent, answer(silent), messages=[]),
            attempt(confirm, answer(confirm)),
            attempt(named_otherwise, answer(named_otherwise), task_key="17"),
        ],
        replay=True,
    )
    assert [row.task_key for row in rows] == [solved.key, named_otherwise.key]
    assert {row.split for row in rows} == {"train"}
    assert left_out == {
        "not solved": 1,
        "flagged": 1,
        "without a reply": 1,
        "not of a training task": 1,
    }


def test_an_attempt_of_the_run_is_graded_again() -> None:
    domain = NanoMath()
    first, second = domain.tasks("train")[:2]
    right = {"answer": ANSWERS[first.key], "submitted": True}
    rollouts = [attempt(first, verifier_inputs=right), attempt(second, verifier_inputs=right)]
    rows, left_out = clean_successes(domain, rollouts, replay=False)
    assert rows == rollouts[:1] and left_out == {"not solved": 1}


@pytest.mark.train
def test_the_first_steps_imitate_and_the_others_explore(
    child: PolicyChild, session: HarnessSession, nano_policy: Path, tmp_path: Path
) -> None:
    rows = [attempt(NanoSwe().tasks("train")[0])]
    out = tmp_path / "out"
    result = _loop.run(
        child, session, nano_policy, out, seed=1, recipe=RECIPE, warmup=rows, keep_every=1, steps=4
    )
    assert len(result.metrics) == 2 and open_checkpoint(out).steps == 4
    assert [checkpoint.steps for checkpoint in result.checkpoints] == [3]
    assert not warm_folder(out).exists()


@pytest.mark.train
def test_only_what_the_assistant_writes_carries_loss(child: PolicyChild, nano_policy: Path) -> None:
    from meta_agent.policies.engines import nano_tokenizer as nano
    from meta_agent.policies.engines.talks import NanoTalks
    from meta_agent.policies.training import _imitation, _local
    from meta_agent.policies.training._wire import TrainSettings

    policy = _local.load(nano_policy, TrainSettings(), foreign=False)
    assert isinstance(policy.engine.talks, NanoTalks)
    texts = (("assistant", "1"), ("user", "sum"), ("assistant", "3"), ("user", "ok"))
    messages = [{"role": role, "content": text} for role, text in (*texts, ("assistant", "5"))]
    row = {"messages": messages, "prompt_messages": 2, "tools": None, "tokens": None}
    (example,) = _imitation._examples(policy, [row])
    labels = [label for label in example["labels"] if label != -100]
    assert nano.decode(example["input_ids"]) == "1\nsum\n3\nok\n5\n"
    assert nano.decode(labels) == "3\n5\n"


@pytest.mark.train
def test_a_warm_up_that_is_killed_ends_on_the_same_weights(
    child: PolicyChild,
    session: HarnessSession,
    nano_policy: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    how = {"seed": 1, "recipe": RECIPE, "warmup": [attempt(NanoSwe().tasks("train")[0])]}
    whole = _loop.run(child, session, nano_policy, tmp_path / "whole", **how)
    with PolicyChild(threads=1) as victim, monkeypatch.context() as patch:
        receive = victim._receive

        def kill(timeout_sec: float) -> dict[str, JSON]:
            frame = receive(timeout_sec)
            if frame.get("event") == "metrics":
                os.kill(victim.pid, signal.SIGKILL)
            return frame

        patch.setattr(victim, "_receive", kill)
        with pytest.raises(TrainingError, match="SIGKILL"):
            _loop.run(victim, session, nano_policy, tmp_path / "killed", **how)
    child.load(nano_policy)
    again = _loop.run(child, session, nano_policy, tmp_path / "killed", **how)
    assert again.checkpoint.policy == whole.checkpoint.policy
    assert again.metrics[-1]["loss"] == whole.metrics[-1]["loss"]


@pytest.mark.train
def test_a_warm_up_leaves_a_step_for_exploration(
    child: PolicyChild, session: HarnessSession, nano_policy: Path, tmp_path: Path
) -> None:
    with pytest.raises(CandidateError, match="leaves none for GRPO"):
        _loop.run(
            child, session, nano_policy, tmp_path / "out",
            seed=1, recipe=RECIPE, warmup=[attempt(NanoSwe().tasks("train")[0])], steps=2,
        )  # fmt: skip


@pytest.mark.train
def test_a_stop_ends_a_warm_up_between_two_steps(
    session: HarnessSession, nano_policy: Path, tmp_path: Path
) -> None:
    with (
        PolicyChild(threads=1) as stopped,
        pytest.raises(Interrupted, match="begins the warm-up again"),
    ):
        _loop.run(
            stopped, session, nano_policy, tmp_path / "out", seed=1, recipe=RECIPE,
            warmup=[attempt(NanoSwe().tasks("train")[0])], seal_every=1, stopping=lambda: True,
        )  # fmt: skip
    assert not (tmp_path / "out").exists()


@pytest.mark.train
@pytest.mark.filterwarnings("ignore::FutureWarning")  # of transformers, about TRL's settings
@pytest.mark.parametrize(
    ("rows_in_step", "tokens_in_pass", "computed"),
    [
        (4, 1536, 5 + 8 + 6 + 5 + 4),  # one pass of five shared tokens and four branches
        (4, 20, 5 + 8 + 6 + 5 + 4),  # two passes, and what they share is computed for both
        (4, 14, 13 + 11 + 5 + 5 + 4),  # two rows alone, and one pass that shares with no other
        (1, 1536, 13),
    ],
)
def test_rows_that_begin_alike_teach_what_they_teach_apart(
    rows_in_step: int, tokens_in_pass: int, computed: int, tmp_path: Path
) -> None:
    import torch
    from datasets import Dataset

    from meta_agent.policies.training import _imitation, _local
    from meta_agent.policies.training._recipe import plan_training
    from meta_agent.policies.training._wire import TrainJob, TrainSettings

    place = _bpe.write(tmp_path / "tiny")
    settings = TrainSettings(tokens_per_pass=tokens_in_pass)
    policy = _local.load(place, settings, foreign=True)
    begin = [5, 9, 14, 3, 8, 21]
    ends = [
        ([7, 13, 19], [16, 10, 18, 2]),
        ([7, 11], [4, 6, 2]),
        ([12, 4], [15, 2]),
        ([12], [15, 2]),
    ][:rows_in_step]
    rows = [
        {"input_ids": [*begin, *asked, *reply],
         "labels": [-100] * (len(begin) + len(asked)) + reply}
        for asked, reply in ends
    ]  # fmt: skip
    job = TrainJob(RECIPE, 1, 1, tmp_path / "out")
    plan = plan_training(RECIPE, steps=1, seed=1, output_dir=str(tmp_path), checkpointing=True)
    trainer = _imitation._trainer(policy, plan, job, Dataset.from_list(rows))
    batch = next(iter(trainer.get_train_dataloader()))
    if rows_in_step > 1:
        assert _imitation.shared_tokens(batch["input_ids"], batch["labels"] != -100) == len(begin)
    seen: list[int] = []
    embeds = trainer.model.get_input_embeddings()
    embeds.register_forward_hook(lambda _, ids, __: seen.append(ids[0].numel()))
    loss = trainer.training_step(trainer.model, batch)
    weights = [p for p in trainer.model.parameters() if p.grad is not None]
    packed = [weight.grad.clone() for weight in weights]
    assert sum(seen) == computed
    trainer.model.zero_grad()
    apart = torch.zeros(())
    count = sum(len(reply) for _, reply in ends)
    for row in rows:
        ids = torch.tensor([row["input_ids"]])
        logits = trainer.model(input_ids=ids).logits[0, :-1]
        labels = torch.tensor(row["labels"])[1:]
        part = torch.nn.functional.cross_entropy(logits, labels, reduction="sum") / count
        part.backward()
        apart += part.detach()
    assert loss.item() == pytest.approx(apart.item(), rel=1e-5)
    assert len(packed) > 3
    for weight, gradient in zip(weights, packed, strict=True):
        assert torch.allclose(weight.grad, gradient, atol=1e-6)
