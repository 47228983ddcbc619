"""TRL's GRPOTrainer, fed by the host's rollouts, with its wasted work left out.

Promises: the loss is TRL's, line for line: `_compute_loss` is inherited. Three private methods are
overridden, and tests hold them to TRL's results:

* `_generate_and_score_completions` scales advantages by the group weights of the harness's filter;
  dropped groups stay in the loss's denominator, exactly as groups without spread do.
* `_compute_loss` notes which rows can move the weights, and goes back through the model in passes
  of `tokens_per_pass` tokens, each freed before the next.
* `_get_per_token_logps_and_entropies` computes those rows only, sorted by length and padded on the
  right (causal attention then needs no mask), or packed by their prompt (`passes.chunks`).

Why passes are exact: a loss is a function of log-probabilities. TRL computes it, and its gradient
by each of them; each pass then goes forward once more with a graph and takes its part of that
gradient back. What is held in memory is one pass, whatever the loss divides by. Where the weights
are those that sampled, every ratio is 1 whatever the log-probabilities are, so that the pass is
the only forward; other losses (`_reads_values`) have one without a graph before it. Where something
else sampled (`publish`), TRL scores every row before the loss to correct for the difference, and
the loss starts from those numbers.

Why skipping is exact: a row of advantage 0 contributes `-min(r * 0, clip(r) * 0) = 0` to every loss
type, with gradient 0, while every normaliser counts rows or mask tokens, which we do not touch.
That ends where a row matters without an advantage: a KL term (beta), an entropy bonus, an entropy
quantile over the batch, a router loss. Then all rows are computed. Likewise tokens that the
environment wrote are never scored: every use of them is multiplied by the mask.

The `entropy` metric would lose the skipped rows, so they enter it by -log p of the tokens that were
sampled, an unbiased estimate of the same number.

Several ranks (`passes.ranks`) hold all rows and compute the same loss; each makes its share of the
passes, and log-probabilities and gradients are added up over ranks.

Not covered: images, TRL's own generation.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import numpy
import torch
from torch import Tensor
from transformers import TrainerCallback
from trl import GRPOTrainer

from meta_agent.core.errors import CandidateError
from meta_agent.core.protocols import TokenRecord
from meta_agent.policies.training import _metrics
from meta_agent.policies.training._wire import Row
from meta_agent.policies.training.passes.chunks import Chunk, chunks_of, packed_chunks_of
from meta_agent.policies.training.passes.ranks import Ranks
from meta_agent.policies.training.passes.recomputing import Recomputing
from meta_agent.policies.training.passes.scoring import score_chunk
from meta_agent.policies.training.passes.shards import Shards

TOKENS_PER_PASS: Final = 1536
"""The size of a pass that stays in a CPU's cache."""
AskForRows = Callable[[int], list[Row]]  # optimiser steps done -> rows, group by group
Emit = Callable[[dict[str, Any]], None]
_SEAL: Final = "seal"
OnStep = Callable[[int, Any], None]  # optimiser steps done, the model as it is now


class _Focus(NamedTuple):
    """The part of a microbatch that has to be computed, and values that stand in for the rest."""

    mask: Tensor  # bool [rows, completion]: what the policy sampled
    score: Tensor  # bool [rows, completion]: positions whose log-probability matters
    fill: Tensor  # float [rows, completion]: log-probabilities elsewhere (no gradient)
    entropy_fill: Tensor
    current_logps: Tensor | None = None
    """Log-probabilities that are still right; None: a forward pass has to compute them."""


class _Passes(NamedTuple):
    """The inputs of a loss whose gradient has not gone back through the model yet."""

    chunks: list[Chunk]
    logps: Tensor
    entropies: Tensor


class HostedTrainer(GRPOTrainer):  # type: ignore[misc]
    """TRL's GRPO trainer, whose rollouts, rewards and group weights another process makes."""

    def __init__(
        self,
        *,
        ask: AskForRows,
        emit: Emit,
        group_size: int,
        on_step: OnStep | None = None,
        publish: Callable[[], None] | None = None,
        seals_at: Callable[[int], bool] = lambda _: False,
        tokens_per_pass: int = TOKENS_PER_PASS,
        packs: bool = False,
        kept_tokens: int = 0,
        ranks: Ranks | None = None,
        shards: Shards | None = None,
        **settings: Any,
    ) -> None:
        """`publish` hands the current weights to a sampler other than this model, once per event.

        TRL's truncated importance sampling then corrects rows token by token. `packs` says that
        rows of one prompt are packed. A pass of at most `kept_tokens` tokens keeps its activations,
        while longer passes compute them again.
        """
        self._chunks_of = packed_chunks_of if packs else chunks_of
        self._recomputing = Recomputing(kept_tokens)
        self._ask, self._emit, self._group_size = ask, emit, group_size
        self._on_step, self._seals_at = on_step, seals_at
        self._tokens_per_pass = tokens_per_pass
        self._ranks, self._shards = ranks or Ranks(), shards
        self._rows: list[Row] = []
        self._focus: _Focus | None = None
        self._passes: _Passes | None = None
        self._event_metrics: dict[str, float] = {}
        self._put_back = _generators()
        super().__init__(
            rollout_func=self._rollout,
            reward_funcs=[harness_reward],
            callbacks=[_StepCallback(self)],
            **settings,
        )
        if publish is not None:  # what TRL looks at where vLLM samples
            self.use_vllm, self._last_loaded_step = True, -1
            self.vllm_generation = SimpleNamespace(sync_weights=publish)

    def _rollout(self, prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        """Returns an event's rows to TRL's rollout hook. Prompts are placeholders, one per row."""
        started = time.perf_counter()
        rows = self._rows_of_all()
        if len(rows) != len(prompts):
            raise ValueError(
                f"the host sent {len(rows)} rows and not the {len(prompts)} that the trainer asked "
                "for; this is a bug to report"
            )
        self._rows = rows
        self._event_metrics = _metrics.of_rows(rows, self._group_size)
        self._event_metrics["rollout_sec"] = time.perf_counter() - started
        tokens = [_trainable(row.tokens, self._tokenizer.pad_token_id) for row in rows]
        return {
            "prompt_ids": [row.prompt_ids for row in tokens],
            "completion_ids": [row.completion_ids for row in tokens],
            "env_mask": [row.mask for row in tokens],
            "logprobs": [row.logprobs for row in tokens],
            "harness_rewards": [row.reward for row in rows],
        }

    def _rows_of_all(self) -> list[Row]:
        """Returns the host's rows. Meanwhile the other ranks follow rank 0."""
        if self._shards is not None:
            self._shards.gather(self.model)
        if self._ranks.first:
            rows = self._ask(self.state.global_step)
            self._ranks.broadcast(rows)
            return rows
        while (message := self._ranks.receive()) == _SEAL:
            self._seal()
        return list(message)

    def _generate_and_score_completions(self, inputs: list[Any]) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        weights = torch.tensor([row.weight for row in self._rows])
        output["advantages"] = output["advantages"] * weights.to(output["advantages"])
        if self.use_vllm:
            self._measure_correction(output)
        step, values = self.state.global_step, output["advantages"].tolist()
        self._emit({"event": "advantages", "step": step, "values": values})
        return output

    def _measure_correction(self, output: dict[str, Any]) -> None:
        sampled = output["completion_mask"].bool() & output["tool_mask"].bool()
        unscored = output["sampling_per_token_logps"][sampled].isnan()
        ratios = output["importance_sampling_ratio"][sampled]
        cut = ratios >= self.vllm_importance_sampling_clip_max
        for name, flags in (("truncated", cut), ("unscored", unscored)):
            share = flags.sum().item() / max(1, flags.numel())
            self._metrics["train"][f"sampling/{name}_share"].append(share)

    def seal(self) -> None:
        """Saves the trainer's state as of its latest step; for use while it waits for rollouts."""
        self._ranks.broadcast(_SEAL)
        self._seal()

    def _seal(self) -> None:
        self._put_back()
        self._save_checkpoint(self.model, None)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Writes the trainer's state on rank 0. Other ranks take part if weights are sharded."""
        if self._shards is not None:
            self._shards.gather(self.model)
        if self._ranks.first:
            super()._save_checkpoint(model, trial)
        elif self._shards is not None:
            self.optimizer.state_dict()

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        if self._shards is not None and self._shards.whole is not None:
            state_dict = self._shards.whole.state_dict()
        super()._save(output_dir, state_dict)

    def create_optimizer(self, *args: Any, **kwargs: Any) -> Any:
        if self._shards is not None:  # after a seal was read, before what is made over the weights
            self._shards.split(self.model)
        optimizer = super().create_optimizer(*args, **kwargs)
        if self._shards is not None:
            self._shards.keep_whole(self.optimizer)
        return optimizer

    def _wrap_model(self, model: Any, training: bool = True, **more: Any) -> Any:
        if self._ranks.count > 1 and self._shards is None and training:
            ready = self.accelerator.prepare_model(model, evaluation_mode=True)
            return self._ranks.replicated(ready)
        return super()._wrap_model(model, training, **more)

    def create_model_card(self, *_: Any, **__: Any) -> None:
        """Does nothing, since a saved state is not published and needs no model card."""

    @property
    def memory_words(self) -> str:
        """Returns text for memory errors: rows and tokens of the step, and of a forward pass."""
        tokens = [
            len(r.tokens.prompt_ids) + len(r.tokens.completion_ids) for r in self._rows if r.tokens
        ]
        return (
            f"on {len(self._rows)} rows of {sum(tokens):,} tokens, the longest of "
            f"{max(tokens, default=0):,}, in passes of {self._tokens_per_pass:,} tokens"
        )

    def _emit_metrics(self, step: int, measured: dict[str, float]) -> None:
        waited = self._event_metrics.get("rollout_sec", 0.0)
        if "train_sec" in measured:  # TRL's step time has the rollouts in it
            measured["train_sec"] = max(0.0, measured["train_sec"] - waited)
        values = {**self._event_metrics, **measured}
        self._event_metrics = {}
        self._emit({"event": "metrics", "step": step, "values": values})

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        self._focus = focus = self._focus_of(inputs)
        try:
            loss: Tensor = super()._compute_loss(model, inputs)
        finally:
            self._focus = None
        if self._passes is None:
            return loss
        passes, self._passes = self._passes, None
        self._go_back(model, loss, passes, focus)
        return loss.detach().requires_grad_()  # the gradient has been taken back

    def _go_back(self, model: Any, loss: Tensor, passes: _Passes, focus: _Focus) -> None:
        """Adds the loss's gradient to the gradient of the weights, pass by pass."""
        # As `Accelerator.backward` does; and ranks take the mean of what has to be the sum.
        share = self._ranks.count / self.accelerator.gradient_accumulation_steps
        by_logp, by_entropy = torch.autograd.grad(
            loss * share, (passes.logps, passes.entropies), allow_unused=True
        )
        measured = torch.zeros_like(focus.entropy_fill)
        for at, chunk, counts in self._ranks.deal(passes.chunks):
            more = at + self._ranks.count - self._ranks.rank < len(passes.chunks)
            with self._ranks.accumulating(model, more=more):
                self._recomputing.prepare(model, chunk.ids.numel())
                out = self._forward(model, chunk, at)
                outputs, gradients = [out.log_probs], [by_logp[chunk.places] * counts]
                if counts:
                    measured[chunk.places] = out.entropy.detach().to(measured)
                if by_entropy is not None:
                    outputs.append(out.entropy)
                    gradients.append(by_entropy[chunk.places] * counts)
                back = [g.to(m) for m, g in zip(outputs, gradients, strict=True)]
                torch.autograd.backward(outputs, back)
        self._ranks.add_up(measured)
        entropies = torch.where(focus.score, measured, focus.entropy_fill)
        total, count = (entropies * focus.mask).sum(), focus.mask.sum()
        self._metrics["train"]["entropy"][-1] = (total / count.clamp(min=1)).item()

    def _forward(self, model: Any, chunk: Chunk, at: int) -> Any:
        with self.accelerator.autocast(), self._ranks.draws(self.state.global_step, at):
            return score_chunk(model, chunk)

    def _focus_of(self, inputs: dict[str, Any]) -> _Focus:
        mask = inputs["completion_mask"].bool()
        if "tool_mask" in inputs:
            mask = mask & inputs["tool_mask"].bool()
        live = self._live_rows(inputs["advantages"], mask)
        ratio = live.float().mean().item()
        self._metrics["train"]["trained_row_ratio"].append(ratio)
        score = mask & live[:, None]
        if not score.any():  # nothing but dummies: one masked token carries the zero gradient
            score[0, 0] = True
        # Ratios against old log-probabilities must be 1, not exp(0 - old), where nothing is scored.
        old = inputs.get("old_per_token_logps")
        fill = torch.zeros(mask.shape, device=mask.device) if old is None else old.detach()
        sampled = inputs["sampling_per_token_logps"]
        sampled = torch.where(sampled.isnan(), fill, sampled)
        current_logps = self._usable_logps(old, sampled)
        return _Focus(mask, score, fill, torch.where(mask & ~score, -sampled, 0.0), current_logps)

    def _usable_logps(self, old: Tensor | None, sampled: Tensor) -> Tensor | None:
        """Returns log-probabilities that no step has changed; None: a pass has to compute them."""
        if old is not None:
            return old.detach() if self.num_iterations == 1 and self._skips_dead_rows else None
        return None if self._reads_values else sampled

    @property
    def _reads_values(self) -> bool:
        """Returns True if the loss reads log-probabilities beside their ratio to old ones."""
        return (
            not self._skips_dead_rows
            or self.loss_type in ("cispo", "vespo")
            or self.off_policy_mask_threshold is not None
        )

    def _live_rows(self, advantages: Tensor, mask: Tensor) -> Tensor:
        if not self._skips_dead_rows:
            return torch.ones(len(mask), dtype=torch.bool, device=mask.device)
        live = (advantages != 0) & mask.any(1)
        if not live.any():
            # A step without signal still steps the optimiser (momentum, decay), as TRL's does; the
            # gradient it needs is the zero of the shortest row.
            live[mask.sum(1).clamp(min=1).argmin()] = True
        return live

    @property
    def _skips_dead_rows(self) -> bool:
        moved_without_advantage = (
            self.beta != 0.0
            or self._entropy_bonus_enabled
            or self.top_entropy_quantile < 1.0
            or self.aux_loss_enabled
        )
        return not moved_without_advantage

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: Tensor,
        attention_mask: Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        compute_aux_loss: bool = False,
        **images: Any,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        if compute_aux_loss or any(value is not None for value in images.values()):
            return super()._get_per_token_logps_and_entropies(  # type: ignore[no-any-return]
                model, input_ids, attention_mask, logits_to_keep, batch_size, compute_entropy,
                compute_aux_loss, **images,
            )  # fmt: skip
        focus = self._focus or _everything(attention_mask, logits_to_keep)
        chunks = self._chunks_of(
            input_ids, attention_mask, focus.score, logits_to_keep, self._tokens_per_pass,
            self._ranks.count,
        )  # fmt: skip
        if self._focus is None:
            return *self._scored(model, chunks, focus), None
        if focus.current_logps is None:
            with torch.no_grad():
                logps, entropies = self._scored(model, chunks, focus)
        else:
            logps = torch.where(focus.score, focus.current_logps.to(focus.fill), focus.fill)
            entropies = focus.entropy_fill.clone()
        self._passes = _Passes(chunks, logps.requires_grad_(), entropies.requires_grad_())
        return logps, entropies, None

    def _scored(self, model: Any, chunks: list[Chunk], focus: _Focus) -> tuple[Tensor, Tensor]:
        """Computes log-probabilities and entropies without a graph."""
        logps, entropies = torch.zeros_like(focus.fill), torch.zeros_like(focus.entropy_fill)
        for at, chunk, counts in self._ranks.deal(chunks):
            out = self._forward(model, chunk, at)
            if not counts:
                continue
            logps[chunk.places] = out.log_probs.to(logps)
            if out.entropy is not None:  # a reference model measures none
                entropies[chunk.places] = out.entropy.to(entropies)
        self._ranks.add_up(logps, entropies)
        return (
            torch.where(focus.score, logps, focus.fill),
            torch.where(focus.score, entropies, focus.entropy_fill),
        )


def _everything(attention: Tensor, keep: int) -> _Focus:
    """Scores every completion token: for reference and old log-probabilities."""
    score = attention[:, -keep:].bool()
    zeros = torch.zeros(score.shape, device=score.device)
    return _Focus(score, score, zeros, zeros)


def _trainable(tokens: TokenRecord | None, dummy: int) -> TokenRecord:
    """Gives an empty row one dummy token outside the mask, since TRL cannot take an empty row."""
    if tokens is not None and tokens.completion_ids and tokens.prompt_ids:
        return tokens
    return TokenRecord([dummy], [dummy], [0], [0.0])


def harness_reward(harness_rewards: list[float | None], **_: Any) -> list[float | None]:
    """Returns the rewards of the harness unchanged. TRL calls it as its only reward function."""
    return harness_rewards


def _generators() -> Callable[[], None]:
    """Returns a function that puts every random generator back into its state of now."""
    python, plain, cpu = random.getstate(), numpy.random.get_state(), torch.get_rng_state()
    cuda = torch.cuda.get_rng_state() if torch.cuda.is_available() else None

    def put_back() -> None:
        random.setstate(python)
        numpy.random.set_state(plain)
        torch.set_rng_state(cpu)
        if cuda is not None:
            torch.cuda.set_rng_state(cuda)

    return put_back


def _require_finite(
    logs: dict[str, Any], args: Any, state: Any, seals_at: Callable[[int], bool]
) -> None:
    """Raises CandidateError at a gradient that is not a number, which would ruin all weights."""
    for name in ("loss", "grad_norm"):
        if not math.isfinite(value := float(logs.get(name, 0.0))):
            sealed = next(filter(seals_at, range(state.global_step - 1, 0, -1)), 0)
            last = f"step {sealed} was saved last" if sealed else "no step was saved"
            raise CandidateError(
                f"at step {state.global_step} of {args.max_steps} {name} is {value}, and training "
                f"stops: {last} (learning_rate {args.learning_rate:g})",
                reason="not_finite",
                hint="lower learning_rate or max_grad_norm, or keep the reward within bounds",
            )


class _StepCallback(TrainerCallback):  # type: ignore[misc]
    """Streams each step's metrics to the host, and tells the trainer when to save."""

    def __init__(self, trainer: HostedTrainer) -> None:
        self._trainer = trainer

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if logs and "loss" in logs:
            _require_finite(logs, args, state, self._trainer._seals_at)
            self._trainer._emit_metrics(state.global_step, _metrics.from_trl(logs))

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        trainer = self._trainer
        trainer._put_back = _generators()
        if trainer._on_step is not None:
            trainer._on_step(state.global_step, trainer.accelerator.unwrap_model(trainer.model))
        control.should_save = trainer._seals_at(state.global_step)
