"""Every setting of a run, declared once: its flag, its help, and whether it changes results.

`config.RunConfig` adds ranges, defaults and checks; a command builds its flags from here. This file
imports nothing heavy, since every `--help` reads it.

Does not cover: flags that are not settings, such as `--json`, and settings without a flag of their
own (`role_max_usd`, `role_max_tokens`, `origin`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple


class Setting(NamedTuple):
    """A setting: the type, help text, help group and names of its flag, and its place in files."""

    type: Any
    group: str
    help: str
    names: tuple[str, ...] = ()  # if it is not `--` and the field's name
    metavar: str | None = None
    changes_results: bool = True
    """False if it decides where a run happens, how safely, or at what cost, but not its results. So
    a run may be resumed with another value. The content of a file counts, not its path."""
    table: Literal["evolve", "training", "engine"] = "evolve"
    """The table of `meta-agent.toml` that holds it."""


_RUN, _MODELS, _LIMITS, _MACHINE = "The run", "Models", "Money and people", "This machine"
_PAIRS: Final[Any] = list[str]
# Names of tables whose files are too heavy to be imported for a help text; a test compares them.
WAYS: Final = (
    "full, staged, static, imitate, imitate-then-train, score-only, no-diagnostics, no-memory, "
    "no-bundles, no-leaving-out, frontier, archive, islands, pareto, tree, specialists, bilevel"
)
DOMAINS: Final = (
    "swe, math, code, graded, harbor, reasoning-gym, bfcl, verifiers:NAME, package.module:Factory"
)

SETTINGS: Final[Mapping[str, Setting]] = {
    "domain": Setting(str, _RUN, f"Task domain: {DOMAINS}. [default: swe; with --grade: graded]"),
    "tasks": Setting(
        str,
        _RUN,
        "Your task file, or a name (`tasks check --list`), as gsm8k. [default: the built-in suite]",
        changes_results=False,
    ),
    "grade": Setting(
        Path,
        _RUN,
        "Your grader: a Python file that defines grade(task, answer).",
        changes_results=False,
    ),
    "threshold": Setting(
        float, _RUN, "A task is solved if its grader returns at least this number."
    ),
    "map": Setting(str, _RUN, "Renames fields of the task file.", metavar="THEIRS=OURS,..."),
    "limits": Setting(
        str,
        _RUN,
        "Limits of an attempt: max_turns, max_tokens_per_turn, max_context_tokens, seconds, "
        "reasoning (low, medium, high). [default: the domain's]",
        metavar="NAME=LIMIT,...",
    ),
    "generations": Setting(int, _RUN, "Generations of the loop. [default: 3]"),
    "candidates": Setting(int, _RUN, "The most ideas in a generation. [default: 6]"),
    "strategy": Setting(
        str, _RUN, f"Search strategy: {WAYS}. [default: staged for hf:, else full]"
    ),
    "prove": Setting(
        str,
        _RUN,
        "Which proof advances main: harness (over seeds) or version. [default: harness for nano]",
    ),
    "hand_over": Setting(
        str,
        _RUN,
        "Version handed over: proven or best, maybe unproven. [default: proven if there is one]",
    ),
    "budget": Setting(int, _RUN, "Maximum number of attempts, without those at vault tasks."),
    "seed": Setting(int, _RUN, "Seed of all random numbers. [default: 0]"),
    "train_steps": Setting(
        int,
        _RUN,
        "Optimizer steps of one training, or of all legs; 0 keeps an hf: policy frozen. "
        "[default: 30]",
    ),
    "warmup": Setting(
        Path,
        _RUN,
        "Solved attempts to imitate in the first steps, if the recipe has sft_steps.",
        changes_results=False,
    ),
    "lora_rank": Setting(
        int,
        _RUN,
        "Rank of the adapters that an hf: policy trains; 0 trains all weights. [default: 0]",
        table="training",
    ),
    "precision": Setting(
        str,
        _RUN,
        "Number format of an hf: policy: float32 or bfloat16. [default: bfloat16 if the "
        "processor has it]",
        table="training",
    ),
    "tokens_per_pass": Setting(
        int,
        _RUN,
        "Tokens that hf: training holds in memory at once. [default: 8192; 2048 without a GPU]",
        table="training",
    ),
    "max_staleness": Setting(
        int,
        _RUN,
        "Updates by which sampling may lag behind hf: training: 0 or 1. [default: 0]",
        table="training",
    ),
    "train_gpus": Setting(
        int, _RUN, "GPUs that train an hf: policy together. [default: 1]", table="training"
    ),
    "checkpoint_every": Setting(
        int,
        _RUN,
        "Steps between the saved states from which hf: training resumes. [default: 5]",
        changes_results=False,
        table="training",
    ),
    "engines": Setting(
        int,
        _RUN,
        "vLLM servers that sample for a trained policy; 0 uses its trainer. [default: 0]",
        changes_results=False,
        table="engine",
    ),
    "gpus_per_engine": Setting(
        int,
        _RUN,
        "GPUs of each server of --engines. [default: 1]",
        changes_results=False,
        table="engine",
    ),
    "context_tokens": Setting(
        int,
        _RUN,
        "Longest conversation on --engines. [default: the model's, or the domain's ceiling]",
        table="engine",
    ),
    "samples": Setting(int, _RUN, "Attempts of a frozen policy at each confirm task. [default: 2]"),
    "profile": Setting(str, _RUN, "Preset sizes: default or tiny. [default: default]"),
    "harness": Setting(
        str,
        _RUN,
        "Harness of a new workspace: seed, competent, folder, https://... [default: seed]",
    ),
    "skills": Setting(Path, _RUN, "Folder of a skills library that workspaces share."),
    "policy": Setting(
        str,
        _MODELS,
        "Model that attempts tasks: nano, hf:PATH, vllm:PATH, provider/model. [default: nano]",
    ),
    "meta_model": Setting(
        str,
        _MODELS,
        "Who improves the agent: rules, provider/model, agent:claude (or codex, or a command), "
        "replay:RUN. [default: rules]",
    ),
    "models": Setting(
        _PAIRS, _MODELS, "The model of one role. May be repeated.", ("--model",), "ROLE=MODEL"
    ),
    "base_urls": Setting(
        _PAIRS,
        _MODELS,
        "OpenAI-compatible server of all roles or one. May be repeated.",
        ("--base-url",),
        "[ROLE=]URL",
        changes_results=False,
    ),
    "key_env": Setting(
        _PAIRS,
        _MODELS,
        "Environment variable with the key of --base-url. May be repeated.",
        ("--key-env",),
        "[ROLE=]NAME",
        changes_results=False,
    ),
    "replay_match": Setting(
        str,
        _MODELS,
        "How a replay finds a recorded answer: exact or position. [default: exact]",
        changes_results=False,
    ),
    "max_usd": Setting(
        _PAIRS,
        _LIMITS,
        "The most money for the run or a role. May be repeated.",
        ("--max-usd",),
        "[ROLE=]USD",
        changes_results=False,
    ),
    "max_tokens": Setting(
        _PAIRS,
        _LIMITS,
        "The most API tokens for the run or a role. May be repeated.",
        ("--max-tokens",),
        "[ROLE=]COUNT",
        changes_results=False,
    ),
    "approve": Setting(
        str,
        _LIMITS,
        "What a person approves: auto (nothing), merge, each (candidate), all. [default: auto]",
        changes_results=False,
    ),
    "log": Setting(
        str,
        _MACHINE,
        "Trackers, separated by commas: wandb, mlflow, trackio, tensorboard.",
        changes_results=False,
    ),
    "notify": Setting(
        str, _MACHINE, "URL to call if a person is needed, a cap is reached, or the run ends."
    ),
    "sandbox": Setting(
        str,
        _MACHINE,
        "Where harness code runs: auto, docker, podman or process. [default: auto]",
        changes_results=False,
    ),
    "allow_unsafe_process": Setting(
        bool,
        _MACHINE,
        "Allow code written by a model to run in the process sandbox.",
        ("--allow-unsafe-process", "--allow-unsafe"),
        changes_results=False,
    ),
    "concurrency": Setting(
        int,
        _MACHINE,
        "Attempts that call a server at the same time. [default: 8]",
        changes_results=False,
    ),
    "threads": Setting(
        int,
        _MACHINE,
        "CPU threads of a training; they affect its result. [default: 1; staged: all cores]",
    ),
    "jobs": Setting(
        int,
        _MACHINE,
        "Trainings at the same time. [default: CPU cores; for hf: as many as fit]",
        changes_results=False,
    ),
    "executor": Setting(
        str,
        _MACHINE,
        "Where trainings run: local, ray or ray:ADDRESS. [default: local]",
        changes_results=False,
    ),
    "python": Setting(
        str,
        _MACHINE,
        "Python with the packages that a grader imports. [default: this one]",
        changes_results=False,
    ),
    "workspace": Setting(
        Path,
        _MACHINE,
        "Workspace directory. [default: here if it holds a meta-agent.toml, else "
        "./meta-agent-workspace]",
        changes_results=False,
    ),
}
