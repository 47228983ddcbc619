"""The warm-up of a policy: TRL's SFTTrainer on clean successes, before GRPO explores.

Promises: only tokens that the policy itself has to write carry loss. Rows are read by the same code
that samples, so that the policy is taught what it will see. The loaded policy, the rows and the
seed determine the result. A warm-up runs on the first device alone, in one process. What the
prompts of a step's rows begin with, such as worked examples, is computed once for all of them
(`passes.chunks`); the loss is the mean over the tokens that carry one, as TRL's is.

Not covered: whether the rows are successes; the lab has checked that (`core.lab.warmup`).
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor
from transformers import PrinterCallback, TrainerCallback, set_seed
from trl import SFTConfig, SFTTrainer

from meta_agent.core.errors import CandidateError
from meta_agent.core.harness.recipe import SFT_ROWS
from meta_agent.core.protocols import JSON
from meta_agent.policies.engines.talks import imitated
from meta_agent.policies.training import _wire
from meta_agent.policies.training._local import LocalPolicy, naming_memory_errors, save_trained
from meta_agent.policies.training._recipe import TrainingPlan, plan_training
from meta_agent.policies.training._wire import TrainJob
from meta_agent.policies.training.checkpoint import naming_full_disk
from meta_agent.policies.training.memory import kept_tokens, shape_of
from meta_agent.policies.training.passes.chunks import Chunk, can_pack, chunks_of, packed_chunks_of
from meta_agent.policies.training.passes.recomputing import Recomputing
from meta_agent.policies.training.passes.scoring import Beginning, score_chunk

_log = logging.getLogger(__name__)
_NO_LOSS: Final = -100
_SHARED: Final = (
    *("seed", "use_cpu", "bf16", "gradient_checkpointing", "optim", "weight_decay"),
    *("adam_beta1", "adam_beta2", "max_grad_norm", "dataloader_pin_memory", "disable_tqdm"),
)
"""Settings of GRPO's config that a warm-up shares."""


def warm_up(
    policy: LocalPolicy, job: TrainJob, rows: Sequence[JSON], emit: Callable[[JSON], None]
) -> tuple[str, Path]:
    """Trains the loaded policy for `job.steps` steps to imitate `rows`, which are rollouts as JSON.

    Returns the new checkpoint's identity and folder. `emit` sends each step's loss. The policy must
    be loaded anew afterwards. Raises CandidateError if no row fits its context or template.
    """
    from datasets import Dataset

    examples = list(_examples(policy, rows))
    if not examples:
        raise CandidateError(
            f"none of the {len(rows)} rows for the warm-up fits the policy's context or chat "
            "template",
            reason="no_warmup_rows",
            hint="set sft_steps to 0 in the recipe, or use a policy with a longer context",
        )
    with tempfile.TemporaryDirectory(prefix="meta-agent-warmup-") as scratch:
        plan = plan_training(
            job.recipe,
            steps=job.steps,
            seed=job.seed,
            output_dir=scratch,
            on_cpu=policy.model.device.type == "cpu",
            bfloat16=policy.settings.precision == "bfloat16",
            checkpointing=policy.opened.kind == "hf",
        )
        set_seed(job.seed)
        trainer = _trainer(policy, plan, job, Dataset.from_list(examples))
        trainer.add_callback(_Steps(emit))
        with naming_full_disk(job.output), naming_memory_errors(lambda: "in a warm-up"):
            trainer.train()
        checkpoint = save_trained(policy, trainer.model, job, plan, job.output, job.steps)
    return checkpoint.policy, checkpoint.path


def _examples(policy: LocalPolicy, rows: Sequence[JSON]) -> Iterator[dict[str, list[int]]]:
    """Yields the token ids of each row, with labels where the policy writes."""
    for row in rows:
        try:
            record = _wire.record_from_json(row["tokens"]) or imitated(
                policy.engine.talks, row["messages"], row["tools"], row["prompt_messages"]
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:  # strangers' messages
            _log.warning("a row of the warm-up is left out: %s", error)
            continue
        if record is None:
            continue
        pairs = zip(record.completion_ids, record.mask, strict=True)
        labels = [token if mine else _NO_LOSS for token, mine in pairs]
        yield {
            "input_ids": record.prompt_ids + record.completion_ids,
            "labels": [_NO_LOSS] * len(record.prompt_ids) + labels,
        }


class _Imitating(SFTTrainer):  # type: ignore[misc]
    """TRL's trainer with the tokens that begin all rows of a step computed once."""

    def __init__(self, *, packs: bool, tokens: int, kept_tokens: int, **settings: Any) -> None:
        super().__init__(**settings)
        self._chunks_of = packed_chunks_of if packs else chunks_of
        self._pass_tokens, self._recomputing = tokens, Recomputing(kept_tokens)

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        model.train()
        batch = self._prepare_inputs(inputs)
        ids, carries = batch["input_ids"], batch["labels"] != _NO_LOSS
        shared = shared_tokens(ids, carries)
        marks, keep = carries[:, shared:], ids.shape[1] - shared
        chunks = self._chunks_of(ids, batch["attention_mask"], marks, keep, self._pass_tokens, 1)
        beginning = self._beginning(model, ids[0, : shared - 1], chunks)
        loss = torch.zeros((), device=ids.device)
        for chunk in chunks:
            self._recomputing.prepare(model, chunk.ids.numel())
            with self.accelerator.autocast():
                if beginning and self._shares(chunk):
                    out = score_chunk(model, beginning.cut(chunk), **beginning.keys(chunk))
                else:
                    out = score_chunk(model, chunk)
            part = -out.log_probs.sum() / marks.sum()
            self.accelerator.backward(part)
            loss += part.detach()
        if beginning:
            beginning.go_back()
        return loss

    def _beginning(self, model: Any, ids: Tensor, chunks: Sequence[Chunk]) -> Beginning | None:
        """Computes the tokens that begin all rows, if at least two chunks share them."""
        if not len(ids) or sum(map(self._shares, chunks)) < 2:
            return None
        self._recomputing.prepare(model, len(ids))
        with self.accelerator.autocast():
            return Beginning(model, ids)

    def _shares(self, chunk: Chunk) -> bool:
        """Returns True for packed rows whose layers keep keys: those computed twice keep none."""
        return bool(chunk.inputs) and self._recomputing.keeps(chunk.ids.numel())


def shared_tokens(ids: Tensor, carries: Tensor) -> int:
    """Returns how many first tokens all rows share, at least 1, before any that carries loss."""
    differs = (ids != ids[:1]).any(0) | carries.any(0)
    return max(1, int(differs.int().argmax())) if differs.any() else 1


def _trainer(policy: LocalPolicy, plan: TrainingPlan, job: TrainJob, examples: Any) -> Any:
    config = SFTConfig(
        output_dir=plan.config.output_dir,
        max_steps=job.steps,
        learning_rate=job.recipe["sft_learning_rate"],
        lr_scheduler_type="constant",
        per_device_train_batch_size=SFT_ROWS,
        max_length=None,
        report_to=[],
        save_strategy="no",
        logging_steps=1,
        **{name: getattr(plan.config, name) for name in _SHARED},
    )
    is_hf, settings = policy.opened.kind == "hf", policy.settings
    trainer = _Imitating(
        packs=is_hf and can_pack(policy.model),
        tokens=settings.tokens_per_pass,
        kept_tokens=kept_tokens(shape_of(policy.opened.path), settings) if is_hf else 0,
        model=policy.model,
        args=config,
        train_dataset=examples,
        processing_class=policy.tokenizer,
        peft_config=plan.lora,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


class _Steps(TrainerCallback):  # type: ignore[misc]
    """Tells the host the loss of each step, so that it sees that the child works."""

    def __init__(self, emit: Callable[[JSON], None]) -> None:
        self._emit = emit

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if isinstance(logs, Mapping) and "loss" in logs:
            values = {"loss": float(logs["loss"])}
            self._emit({"event": "metrics", "step": state.global_step, "values": values})
