"""All formats, and which one a value is written in."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Protocol

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON, Rollout
from meta_agent.readers.formats import (
    _atif,
    _harbor,
    _inspect,
    _mini_swe_agent,
    _native,
    _nemo_gym,
    _openai,
    _openai_evals,
    _openhands,
    _predictions,
    _swe_agent,
    _tau_bench,
    _terminal_bench,
    _trl,
    _verdicts,
    _verifiers,
    _verl,
)
from meta_agent.readers.formats._draft import Draft
from meta_agent.readers.formats._format import Count, Format, has
from meta_agent.readers.formats._row import Row, RowError

_SHOWN_FIELDS: Final = 12


def _by_record(row: Row, count: Count) -> Draft:
    raise RowError("a record of ours is read whole")


class Reads(Protocol):
    """A module of one format."""

    NAME: str

    def claims(self, value: JSON, /) -> int: ...

    def read(self, row: Row, count: Count, /) -> Draft: ...


class Writes(Reads, Protocol):
    """The same of a format that rollouts can be exported to."""

    CANNOT_CARRY: frozenset[str]

    def write(self, rollouts: Iterable[Rollout], path: Path, /) -> int: ...


def _reads(module: Reads, what: str, marks: str, **more: Any) -> Format:
    return Format(module.NAME, what, marks, module.claims, module.read, **more)


def _writes(module: Writes, what: str, marks: str, **more: Any) -> Format:
    return _reads(module, what, marks, write=module.write, cannot_carry=module.CANNOT_CARRY, **more)


FORMATS: Final = {
    one.name: one
    for one in (
        Format(
            _native.NAME,
            "rollouts as this project stores them",
            "schema_version, task_key, harness_commit, messages",
            _native.claims,
            _by_record,
            _native.write,
        ),
        _writes(
            _predictions,
            "SWE-bench predictions, as rows or as a map by instance",
            "instance_id, model_patch",
            expand=_predictions.expand,
        ),
        _reads(
            _verdicts,
            "SWE-bench harness reports; beside predictions or trajectories, their outcomes",
            "resolved_ids, unresolved_ids, error_ids; or by instance resolved, patch_exists",
            expand=_verdicts.expand,
        ),
        _writes(
            _trl,
            "completions that a TRL trainer logged (Parquet)",
            "step, prompt, completion, advantage, one column per reward",
            layout="parquet",
            dialogues=True,
        ),
        _writes(
            _openai,
            "dialogues of OpenAI's, Anthropic's or ShareGPT's form, and batch outputs",
            "messages, conversations, prompt and completion, or custom_id and response",
            dialogues=True,
        ),
        _reads(
            _mini_swe_agent,
            "mini-swe-agent trajectories (.traj.json)",
            "trajectory_format mini-swe-agent-..., or a bare list of messages",
            expand=_mini_swe_agent.expand,
            layout="document",
        ),
        _writes(_nemo_gym, "NeMo Gym rollouts, JSON lines", "responses_create_params, response"),
        _writes(
            _verifiers,
            "prime-rl and verifiers results, JSON lines",
            "prompt, completion, and example_id (before: id, task, reward)",
            dialogues=True,
        ),
        _writes(
            _atif, "ATIF trajectories (Harbor)", "schema_version ATIF-..., steps", dialogues=True
        ),
        _reads(
            _harbor,
            "Harbor's trials, with the trajectories in their folders",
            "task_name, verifier_result, exception_info",
        ),
        _reads(_verl, "verl's generation dumps, JSON lines", "input, output, score, step"),
        _reads(
            _openhands,
            "OpenHands' output.jsonl, evaluated or not",
            "instance_id, test_result, history",
        ),
        _reads(
            _inspect,
            "Inspect logs (.eval, or .json)",
            "eval: {task, model}, samples",
            expand=_inspect.expand,
        ),
        _reads(
            _tau_bench,
            "tau-bench and tau2-bench results",
            "task_id, reward, traj; or simulations",
            expand=_tau_bench.expand,
        ),
        _reads(
            _terminal_bench,
            "Terminal-Bench trials and runs (results.json)",
            "task_id, is_resolved, failure_mode; or results of these",
            expand=_terminal_bench.expand,
        ),
        _reads(
            _openai_evals,
            "OpenAI evals logs, JSON lines",
            "spec with eval_name; events with event_id, sample_id, type, data",
            gather=_openai_evals.gather,
        ),
        _reads(
            _swe_agent,
            "SWE-agent trajectories (.traj)",
            "trajectory: steps with an action; info",
            layout="document",
        ),
    )
}


def format_named(name: str) -> Format:
    """The format of that name, or the names there are."""
    if name not in FORMATS:
        raise ConfigError(
            f"no rollout format {name!r}", hint=f"choose one of: {', '.join(sorted(FORMATS))}"
        )
    return FORMATS[name]


class UnknownFormatError(ConfigError):
    """A value that bears no format's marks."""


FORMS: Final = (
    "formats, and the fields they are known by: meta-agent rollouts formats; other rows, CSV too: "
    "meta-agent report --map FIELD=prompt,FIELD=completion,FIELD=reward --rollouts FILE"
)


def sniff(value: JSON, place: str) -> Format:
    """The one format whose marks this value bears most; a tie or none is refused."""
    ranked = sorted(FORMATS.values(), key=lambda one: one.claims(value), reverse=True)
    best = ranked[0].claims(value)
    if best == 0:
        raise UnknownFormatError(
            f"{place}: no known rollout format; {_seen(value)}", hint=_hint(value)
        )
    rivals = [one.name for one in ranked if one.claims(value) == best]
    if len(rivals) > 1:
        raise ConfigError(
            f"{place}: could be {' or '.join(rivals)}",
            hint=f"say which: meta-agent rollouts import --format {rivals[0]} FILE",
        )
    return ranked[0]


def _seen(value: JSON) -> str:
    if isinstance(value, dict):
        names = sorted(map(str, value))
        more = ", ..." if len(names) > _SHOWN_FIELDS else ""
        return f"it has the fields {', '.join(names[:_SHOWN_FIELDS])}{more}"
    return f"it is a {type(value).__name__}, not an object"


def _hint(value: JSON) -> str:
    if has(value, "problem_statement") and not has(value, "model_patch"):
        return "this looks like a task file; tasks are checked with: meta-agent tasks check FILE"
    return FORMS
