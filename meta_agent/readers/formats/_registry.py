"""The list of all formats, and the recognition of the format of a value."""

from __future__ import annotations

from typing import Final

from meta_agent.core import registry
from meta_agent.core.errors import ConfigError, IntegrityError
from meta_agent.core.protocols import JSON, Rollout
from meta_agent.core.registry import Registry
from meta_agent.core.rollouts.record import from_json, tokens_from_json
from meta_agent.readers.formats._agents import MINI_SWE_AGENT, SWE_AGENT
from meta_agent.readers.formats._benchmarks import PREDICTIONS, REPORTS, TAU_BENCH
from meta_agent.readers.formats._format import Format, having
from meta_agent.readers.formats._harbor import ATIF, HARBOR
from meta_agent.readers.formats._inspect import INSPECT
from meta_agent.readers.formats._messages import LeaveOut
from meta_agent.readers.formats._openai import DIALOGUES, NEMO_GYM
from meta_agent.readers.formats._openhands import OPENHANDS
from meta_agent.readers.formats._row import RowError, SourceRow, has
from meta_agent.readers.formats._traces import TRACES
from meta_agent.readers.formats._training import TRL, VERIFIERS, VERL

_SHOWN_FIELDS: Final = 12


def _read_own(row: SourceRow, count: LeaveOut) -> Rollout:
    """Returns the rollout of a record of our own, which needs no draft. Raises `RowError`."""
    value = dict(row.values)
    try:
        rollout = from_json(value)
        if value.get("tokens") is not None:
            rollout.tokens = tokens_from_json(value["tokens"])
    except IntegrityError as error:
        raise RowError(str(error)) from error
    return rollout


OWN: Final = Format(
    "meta-agent",
    "rollouts as this project stores them",
    "schema_version, task_key, harness_commit, messages",
    having("schema_version", "task_key", "harness_commit", "messages"),
    _read_own,
    identity=lambda row, path: dict(row.values),
)

_BUILT_IN: Final = {
    format_.name: format_
    for format_ in (
        *(OWN, PREDICTIONS, REPORTS, TRL, DIALOGUES, MINI_SWE_AGENT, NEMO_GYM, VERIFIERS, ATIF),
        *(HARBOR, VERL, TRACES, OPENHANDS, INSPECT, TAU_BENCH, SWE_AGENT),
    )
}
FORMATS: Final = Registry[Format]("rollout format", registry.READERS, _BUILT_IN)


def format_named(name: str) -> Format:
    """Returns the rollout format called `name`. Raises `ConfigError` if there is none."""
    if name not in FORMATS:
        raise ConfigError(
            f"no rollout format {name!r} exists",
            hint=f"choose one of: {', '.join(sorted(FORMATS))}",
        )
    return FORMATS[name]


class UnknownFormatError(ConfigError):
    """Raised if a value in a file fits no known rollout format."""


HOW_TO_READ: Final = (
    "name the fields of other rows, CSV too: "
    "meta-agent report --map FIELD=prompt,FIELD=completion,FIELD=reward --rollouts FILE"
)


def sniff(value: JSON, place: str) -> Format:
    """Returns the format that fits a value best. Raises `ConfigError` if none fits, or two tie."""
    scores = {format_.name: format_.claims(value) for format_ in FORMATS.values()}
    best = max(scores.values())
    if best == 0:
        raise _unknown(value, place)
    rivals = [name for name, score in scores.items() if score == best]
    if len(rivals) > 1:
        raise ConfigError(
            f"{place}: the rollouts may be {' or '.join(rivals)}",
            hint=f"say which format it is: meta-agent report --format {rivals[0]} --rollouts FILE",
        )
    return FORMATS[rivals[0]]


def _unknown(value: JSON, place: str) -> UnknownFormatError:
    content = f"it is a {type(value).__name__}, not an object"
    if isinstance(value, dict):
        names = sorted(map(str, value))
        more = ", ..." if len(names) > _SHOWN_FIELDS else ""
        content = f"it has the fields {', '.join(names[:_SHOWN_FIELDS])}{more}"
    is_task = has(value, "problem_statement") and not has(value, "model_patch")
    task_hint = "this looks like a task file; tasks are checked with: meta-agent tasks check FILE"
    return UnknownFormatError(
        f"{place}: the format is unknown; {content}", hint=task_hint if is_task else HOW_TO_READ
    )
