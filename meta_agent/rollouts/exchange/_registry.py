"""All formats, and which one a value is written in."""

from __future__ import annotations

from typing import Final

from meta_agent.errors import ConfigError
from meta_agent.protocols import JSON
from meta_agent.rollouts.exchange import (
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
from meta_agent.rollouts.exchange._draft import Draft
from meta_agent.rollouts.exchange._format import Count, Format, has
from meta_agent.rollouts.exchange._row import Row, RowError

_SHOWN_FIELDS: Final = 12


def _by_record(row: Row, count: Count) -> Draft:
    raise RowError("a record of ours is read whole")


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
        Format(
            _predictions.NAME,
            "SWE-bench predictions, as rows or as a map by instance",
            "instance_id, model_patch",
            _predictions.claims,
            _predictions.read,
            _predictions.write,
            _predictions.expand,
            cannot_carry=_predictions.CANNOT_CARRY,
        ),
        Format(
            _verdicts.NAME,
            "SWE-bench harness reports; beside predictions or trajectories, their outcomes",
            "resolved_ids, unresolved_ids, error_ids; or by instance resolved, patch_exists",
            _verdicts.claims,
            _verdicts.read,
            expand=_verdicts.expand,
        ),
        Format(
            _trl.NAME,
            "completions that a TRL trainer logged (Parquet)",
            "step, prompt, completion, advantage, one column per reward",
            _trl.claims,
            _trl.read,
            _trl.write,
            layout="parquet",
            cannot_carry=_trl.CANNOT_CARRY,
            dialogues=True,
        ),
        Format(
            _openai.NAME,
            "dialogues of OpenAI's, Anthropic's or ShareGPT's form, and batch outputs",
            "messages, conversations, prompt and completion, or custom_id and response",
            _openai.claims,
            _openai.read,
            _openai.write,
            cannot_carry=_openai.CANNOT_CARRY,
            dialogues=True,
        ),
        Format(
            _mini_swe_agent.NAME,
            "mini-swe-agent trajectories (.traj.json)",
            "trajectory_format mini-swe-agent-..., or a bare list of messages",
            _mini_swe_agent.claims,
            _mini_swe_agent.read,
            expand=_mini_swe_agent.expand,
            layout="document",
        ),
        Format(
            _nemo_gym.NAME,
            "NeMo Gym rollouts, JSON lines",
            "responses_create_params, response",
            _nemo_gym.claims,
            _nemo_gym.read,
            _nemo_gym.write,
            cannot_carry=_nemo_gym.CANNOT_CARRY,
        ),
        Format(
            _verifiers.NAME,
            "prime-rl and verifiers results, JSON lines",
            "prompt, completion, and example_id (before: id, task, reward)",
            _verifiers.claims,
            _verifiers.read,
            _verifiers.write,
            cannot_carry=_verifiers.CANNOT_CARRY,
            dialogues=True,
        ),
        Format(
            _atif.NAME,
            "ATIF trajectories (Harbor)",
            "schema_version ATIF-..., steps",
            _atif.claims,
            _atif.read,
            _atif.write,
            cannot_carry=_atif.CANNOT_CARRY,
            dialogues=True,
        ),
        Format(
            _harbor.NAME,
            "Harbor's trials, with the trajectories in their folders",
            "task_name, verifier_result, exception_info",
            _harbor.claims,
            _harbor.read,
        ),
        Format(
            _verl.NAME,
            "verl's generation dumps, JSON lines",
            "input, output, score, step",
            _verl.claims,
            _verl.read,
        ),
        Format(
            _openhands.NAME,
            "OpenHands' output.jsonl, evaluated or not",
            "instance_id, test_result, history",
            _openhands.claims,
            _openhands.read,
        ),
        Format(
            _inspect.NAME,
            "Inspect logs (.eval, or .json)",
            "eval: {task, model}, samples",
            _inspect.claims,
            _inspect.read,
            expand=_inspect.expand,
        ),
        Format(
            _tau_bench.NAME,
            "tau-bench and tau2-bench results",
            "task_id, reward, traj; or simulations",
            _tau_bench.claims,
            _tau_bench.read,
            expand=_tau_bench.expand,
        ),
        Format(
            _terminal_bench.NAME,
            "Terminal-Bench trials and runs (results.json)",
            "task_id, is_resolved, failure_mode; or results of these",
            _terminal_bench.claims,
            _terminal_bench.read,
            expand=_terminal_bench.expand,
        ),
        Format(
            _openai_evals.NAME,
            "OpenAI evals logs, JSON lines",
            "spec with eval_name; events with event_id, sample_id, type, data",
            _openai_evals.claims,
            _openai_evals.read,
            gather=_openai_evals.gather,
        ),
        Format(
            _swe_agent.NAME,
            "SWE-agent trajectories (.traj)",
            "trajectory: steps with an action; info",
            _swe_agent.claims,
            _swe_agent.read,
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
