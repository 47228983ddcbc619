"""Loads, samples and trains a policy in this process, which is the policy child.

Promises: `train` starts from the policy as it is on disk with every random generator seeded from
the job, and leaves a sealed checkpoint behind. A model trained by LoRA leaves the adapter alone, if
the adapter holds all that was trained.
Not covered: the frames (`child`), the loss (`_trainer`), the settings (`_recipe`).
"""

from __future__ import annotations

import copy
import ctypes
import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PrinterCallback,
    set_seed,
)
from transformers.utils import logging as transformers_logging

from meta_agent.core.errors import ConfigError, InfrastructureError, MetaAgentError
from meta_agent.core.protocols import JSON, Checkpoint
from meta_agent.policies.engines.hf_engine import HfEngine, talks_of
from meta_agent.policies.engines.nano_engine import NanoEngine
from meta_agent.policies.engines.nano_files import write_policy
from meta_agent.policies.engines.talks import HfTalks
from meta_agent.policies.training import adapter
from meta_agent.policies.training._recipe import TrainingPlan, plan_training
from meta_agent.policies.training._trainer import HostedTrainer
from meta_agent.policies.training._wire import (
    RolloutEvent,
    Row,
    TrainJob,
    TrainSettings,
    seals_folder,
)
from meta_agent.policies.training.checkpoint import (
    OpenedPolicy,
    naming_full_disk,
    open_checkpoint,
    write_checkpoint,
)
from meta_agent.policies.training.hub import base_place
from meta_agent.policies.training.memory import kept_tokens, shape_of
from meta_agent.policies.training.passes.chunks import can_pack
from meta_agent.policies.training.passes.ranks import Ranks
from meta_agent.policies.training.passes.shards import Shards


class Resting(NamedTuple):
    """Two functions that save the state and the weights of a trainer that waits for rollouts."""

    seal: Callable[[], None]
    write: Callable[[Path], object]  # writes a checkpoint


Ask = Callable[[RolloutEvent, Resting], list[Row]]
_M_MMAP_THRESHOLD: Final = -3  # of glibc's malloc.h
_LARGE_BLOCK_BYTES: Final = 256 << 10
_NO_MEMORY: Final = (MemoryError, torch.OutOfMemoryError)


class LocalPolicy(NamedTuple):
    """A loaded policy, and the engine that samples from its weights."""

    opened: OpenedPolicy
    settings: TrainSettings
    model: Any
    tokenizer: Any
    engine: Any  # NanoEngine | HfEngine


def load(path: Path, settings: TrainSettings, *, foreign: bool) -> LocalPolicy:
    """Loads a policy's weights and tokenizer, and checks its files against its manifest.

    `foreign` allows a folder without a manifest. Raises IntegrityError if files differ from it,
    ConfigError if they cannot be loaded, and InfrastructureError if memory runs out.
    """
    _quiet()
    opened = open_checkpoint(path, foreign=foreign)
    device = "cuda" if opened.kind == "hf" and torch.cuda.is_available() else "cpu"
    if opened.kind == "hf" and device == "cpu":
        _free_large_blocks_at_once()
    with _naming_bad_models(path):
        dtype = _dtype(opened, settings)
        with naming_memory_errors(lambda: f"while {path} was loaded in {dtype}"):
            model = _model(path, dtype).to(device).eval()
        tokenizer = _tokenizer(path)
    engine = _engine(opened, settings, model, tokenizer)
    return LocalPolicy(opened, settings, model, tokenizer, engine)


class Speaking(NamedTuple):
    """A policy's tokenizer and chat template, without its weights, which another engine holds."""

    opened: OpenedPolicy
    settings: TrainSettings
    engine: HfTalks


def speaking(path: Path, settings: TrainSettings, *, foreign: bool) -> Speaking:
    """Loads a policy's tokenizer and chat template alone, and checks its files.

    Raises ConfigError if they cannot be loaded, and IntegrityError if files differ from a manifest.
    """
    _quiet()
    opened = open_checkpoint(path, foreign=foreign)
    with _naming_bad_models(path):
        tokenizer = _tokenizer(path)
        _require_template(opened, tokenizer)
        place = base_place(path) if adapter.is_adapter(path) else path
        config = AutoConfig.from_pretrained(place, local_files_only=True, trust_remote_code=False)
        try:
            generation = GenerationConfig.from_pretrained(place, local_files_only=True)
        except OSError:  # it has no file of its own
            generation = GenerationConfig.from_model_config(config)
    return Speaking(opened, settings, talks_of(tokenizer, generation, config))


@contextmanager
def _naming_bad_models(path: Path) -> Iterator[None]:
    """Turns what transformers raises in the `with` block into ConfigError, which names `path`."""
    try:
        yield
    except MetaAgentError:
        raise
    except Exception as error:  # the loaders' errors share no base
        reason = str(error).strip().partition("\n")[0][:300]
        raise ConfigError(
            f"{path} cannot be loaded as a model with its tokenizer: "
            f"{type(error).__name__}: {reason}",
            hint="give the folder that save_pretrained wrote, of the model and of its tokenizer",
        ) from error


def _quiet() -> None:
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()


def _free_large_blocks_at_once() -> None:
    """Makes glibc return freed tensors to the system. Other C libraries are left as they are.

    By default it keeps blocks of up to 32 MiB for later ones. Batches differ in length, so these
    rarely fit: a training of SmolLM2 took 6.8 GiB, and 3.1 with this.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option:
        set_option(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)


def _dtype(opened: OpenedPolicy, settings: TrainSettings) -> torch.dtype:
    """Returns float32 for weights that are or were trained, since bfloat16 loses small steps."""
    stays = settings.lora_rank or not settings.trains
    frozen = stays and opened.kind == "hf" and not opened.steps
    return torch.bfloat16 if frozen and settings.precision == "bfloat16" else torch.float32


def _model(path: Path, dtype: torch.dtype) -> Any:
    place = base_place(path) if adapter.is_adapter(path) else path
    model = AutoModelForCausalLM.from_pretrained(
        place, dtype=dtype, local_files_only=True, trust_remote_code=False
    )
    return model if place is path else adapter.whole(model, path)


def _tokenizer(path: Path) -> Any:
    """Returns the tokenizer of a policy, or of its base if an adapter has none."""
    has_tokenizer = any(path.glob("tokenizer*")) or not adapter.is_adapter(path)
    return AutoTokenizer.from_pretrained(
        path if has_tokenizer else base_place(path), local_files_only=True, trust_remote_code=False
    )


def _engine(opened: OpenedPolicy, settings: TrainSettings, model: Any, tokenizer: Any) -> Any:
    if opened.kind == "nano":
        return NanoEngine(model)
    _require_template(opened, tokenizer)
    return HfEngine(model, tokenizer, bfloat16=settings.precision == "bfloat16")


def _require_template(opened: OpenedPolicy, tokenizer: Any) -> None:
    if not tokenizer.chat_template:
        raise ConfigError(
            f"{opened.path} has no chat template, so it cannot hold a conversation",
            hint="use an instruction-tuned model, or add a chat_template.jinja to the folder",
        )


def train(
    policy: LocalPolicy,
    job: TrainJob,
    ask: Ask,
    emit: Callable[[JSON], None],
    ranks: Ranks | None = None,
) -> tuple[str, Path]:
    """Trains the loaded policy and writes a checkpoint; returns the checkpoint's name and folder.

    `ask` gets rollouts from the host, `emit` sends metrics to it. All ranks (processes that train
    together) call this; the name is empty on all but rank 0. Load the policy anew afterwards.
    """
    ranks = ranks or Ranks()
    with tempfile.TemporaryDirectory(prefix="meta-agent-train-") as scratch:
        plan = plan_training(
            job.recipe,
            steps=job.steps,
            seed=job.seed,
            output_dir=str(seals_folder(job.output)) if job.seal_every else scratch,
            on_cpu=policy.model.device.type == "cpu",
            bfloat16=policy.settings.precision == "bfloat16",
            checkpointing=policy.opened.kind == "hf",
        )
        shards = _shards(policy, plan, ranks) if policy.settings.sharded else None
        saves = _Saves(policy, job, plan, ranks, shards)
        trainer = _trainer(policy, plan, ask, emit, job, saves, ranks, shards)
        with (
            naming_full_disk(job.output),
            naming_memory_errors(lambda: f"in training {trainer.memory_words}"),
        ):
            trainer.train(str(job.sealed_at(job.after)) if job.after else None)
    checkpoint = saves.save(trainer.model, job.output, job.steps)
    return (checkpoint.policy, checkpoint.path) if checkpoint else ("", job.output)


@contextmanager
def naming_memory_errors(doing: Callable[[], str]) -> Iterator[None]:
    """Turns a `with` block's memory errors into InfrastructureError; `doing()` names the work."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:  # torch's are RuntimeErrors
        reason = str(error).partition("\n")[0][:200]
        if not isinstance(error, _NO_MEMORY) and "allocate memory" not in reason:
            raise
        raise InfrastructureError(
            f"memory ran out {doing()}: {reason}",
            hint="lower --tokens-per-pass, or train adapters: --lora-rank 16 --precision bfloat16",
        ) from error


class _Saves(NamedTuple):
    """Writes checkpoints of a training."""

    policy: LocalPolicy
    job: TrainJob
    plan: TrainingPlan
    ranks: Ranks
    shards: Shards | None

    def keep(self, step: int, model: Any) -> None:
        """Writes a checkpoint every `keep_every` steps, but not the last, which `train` writes."""
        if self.job.keep_every and step % self.job.keep_every == 0 and step < self.job.steps:
            self.save(model, self.job.kept_at(step), step)

    def save(self, model: Any, path: Path, step: int) -> Checkpoint | None:
        """Writes and returns a checkpoint on rank 0, else None. All ranks call this together."""
        if self.shards is not None:
            self.shards.gather(model)
        return self.write(model, path, step) if self.ranks.first else None

    def write(self, model: Any, path: Path, step: int) -> Checkpoint:
        """Writes and returns a checkpoint; sharded weights are those last copied to rank 0."""
        whole = model if self.shards is None else self.shards.whole
        return save_trained(self.policy, whole, self.job, self.plan, path, step)


def _shards(policy: LocalPolicy, plan: TrainingPlan, ranks: Ranks) -> Shards:
    """Returns the shards of a copy to train; rank 0 keeps the whole model to sample with."""
    if not ranks.first:
        return Shards(None)
    if plan.lora is None:
        return Shards(policy.model)
    from peft import get_peft_model

    return Shards(get_peft_model(policy.model, plan.lora))


def _trainer(
    policy: LocalPolicy,
    plan: TrainingPlan,
    ask: Ask,
    emit: Callable[[JSON], None],
    job: TrainJob,
    saves: _Saves,
    ranks: Ranks,
    shards: Shards | None,
) -> Any:
    from datasets import Dataset

    if plan.lora is not None and policy.opened.kind == "nano":
        raise ConfigError(
            "the recipe sets lora_*, but a nano policy is trained whole; leave lora_* out of it"
        )
    model = policy.model
    if shards is not None and ranks.first:
        model = load(policy.opened.path, policy.settings, foreign=True).model
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
    # TRL warns with a whole conversation for each row without a reward; the host counts them.
    logging.getLogger("trl").setLevel(logging.ERROR)
    set_seed(job.seed)

    def rollouts(step: int) -> list[Row]:
        policy.engine.refresh()
        return ask(RolloutEvent(step, plan.groups, plan.group_size), Resting(seal, write))

    def write(path: Path) -> None:
        saves.write(trainer.model, path, trainer.state.global_step)

    def seal() -> None:
        with naming_full_disk(job.output):
            trainer.seal()

    is_hf = policy.opened.kind == "hf"
    trainer = HostedTrainer(
        ask=rollouts,
        emit=emit,
        group_size=plan.group_size,
        on_step=saves.keep,
        publish=(lambda: None) if policy.settings.corrected else None,
        seals_at=job.seals_at,
        tokens_per_pass=policy.settings.tokens_per_pass,
        packs=is_hf and can_pack(model),
        kept_tokens=kept_tokens(shape_of(policy.opened.path), policy.settings) if is_hf else 0,
        ranks=ranks,
        shards=shards,
        model=model,
        args=plan.config,
        processing_class=policy.tokenizer,
        train_dataset=Dataset.from_dict({"prompt": ["placeholder"] * plan.groups}),
        peft_config=plan.lora,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def save_trained(
    policy: LocalPolicy, model: Any, job: TrainJob, plan: TrainingPlan, path: Path, steps: int
) -> Checkpoint:
    """Writes and returns the checkpoint of a model trained for `steps` steps from `policy`."""

    def write(directory: Path) -> None:
        whole = model
        if plan.lora is not None:
            if _keep_adapter(policy, model, directory):
                return
            # Training may go on with the adapters apart.
            whole = copy.deepcopy(model).float().merge_and_unload()
        write_policy(whole, policy.tokenizer, directory)

    return write_checkpoint(
        path,
        write,
        kind=policy.opened.kind,
        steps=policy.opened.steps + steps,
        seed=job.seed,
        notes={"base": policy.opened.policy, "recipe": dict(job.recipe)},
        trained=policy.opened,
    )


def _keep_adapter(policy: LocalPolicy, model: Any, target: Path) -> bool:
    """Writes the adapter onto the run's first model. Returns False if that was trained whole."""
    path = policy.opened.path
    if adapter.is_adapter(path):
        return adapter.keep(model, target, base=str(base_place(path)), earlier=path)
    return not policy.opened.steps and adapter.keep(model, target, base=str(path), earlier=None)


def write_whole(checkpoint: Path, target: Path) -> None:
    """Merges a checkpoint's adapter into its base model, and writes the result in float32."""
    _quiet()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft reads what transformers renamed
        model = _model(checkpoint, torch.float32)
    write_policy(model, _tokenizer(checkpoint), target)
