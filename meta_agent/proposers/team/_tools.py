"""A tool that a model may call, and how its arguments are parsed.

A handler returns text for the model, or raises: `ToolError` is told to the model and it goes on,
`CandidateError` ends the dialogue with a typed refusal, `Done` ends it with a result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

from meta_agent.core.chat import ToolSpec
from meta_agent.core.protocols import JSON

Arguments = Mapping[str, JSON]


class ToolError(Exception):
    """Raised if a tool call is wrong or fails; the model reads the message and goes on."""


class Done(Exception):  # noqa: N818 - an ending, not a mistake
    """Raised by a tool to end the conversation with the model; `result` is its result."""

    def __init__(self, result: Any) -> None:
        super().__init__("done")
        self.result = result


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a model may call: its specification, and the function that runs it."""

    spec: ToolSpec
    run: Callable[[Arguments], str]


def tool(
    name: str,
    description: str,
    properties: Mapping[str, JSON],
    run: Callable[[Arguments], str],
    *,
    optional: tuple[str, ...] = (),
) -> Tool:
    """Returns a tool; `properties` are JSON schemas by argument, required unless in `optional`."""
    schema = {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }
    return Tool(ToolSpec(name, description, schema), run)


def text_of(arguments: Arguments, name: str, *, default: str | None = None) -> str:
    """Returns a string argument, or `default`. Raises ToolError if it is missing or no string."""
    value = arguments.get(name, default)
    if value is None and name not in arguments:
        raise ToolError(f"the argument {name!r} is missing; give it")
    if not isinstance(value, str):
        raise ToolError(f"{name!r} must be a string, not {type(value).__name__}")
    return value


def line_of(arguments: Arguments, name: str, limit: int) -> str:
    """Returns a string argument as one line. Raises ToolError if empty or longer than `limit`."""
    value = " ".join(text_of(arguments, name).split())
    if not value:
        raise ToolError(f"{name!r} is empty; give a text")
    if len(value) > limit:
        raise ToolError(f"{name!r} has {len(value)} characters; the limit is {limit}")
    return value


def whole_of(arguments: Arguments, name: str, *, default: int) -> int:
    """Returns an integer argument; `default` if absent or <1. Raises ToolError if no number."""
    value = arguments.get(name)
    if value is None:
        return default
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ToolError(f"{name!r} must be a whole number, not {value!r}") from error
    if isinstance(value, bool) or not abs(number) < 1e9:
        raise ToolError(f"{name!r} must be a whole number from 1 to 1e9, not {value!r}")
    return int(number) if number >= 1 else default


def number_of(arguments: Arguments, name: str) -> float:
    """Returns a number argument. Raises ToolError if missing, infinite or an integer over 1e9."""
    value = arguments.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ToolError(f"{name!r} must be a number, not {value!r}")
    if (isinstance(value, int) and abs(value) > 10**9) or not math.isfinite(value):
        raise ToolError(f"{name!r} must be at most 1e9, not {value!r}")
    return float(value)


def lines_of(arguments: Arguments, name: str, *, most: int, limit: int) -> tuple[str, ...]:
    """Returns up to `most` strings of a list argument, each cut to `limit` characters.

    Returns () if the argument is missing. Raises ToolError if it is no list of strings.
    """
    value = arguments.get(name) or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ToolError(f"{name!r} must be a list of strings")
    return tuple(shorten(item, limit, placeholder=" ...") for item in value[:most] if item.strip())


TEXT: JSON = {"type": "string"}
WHOLE: JSON = {"type": "integer", "minimum": 1}
NUMBER: JSON = {"type": "number"}
TEXTS: JSON = {"type": "array", "items": {"type": "string"}}
