"""JSON schema, as far as tools use it: says in words what is wrong with a call's arguments.

Known are `type`, `enum`, `const`, `properties`, `required`, `additionalProperties`, `items`,
`anyOf`, `oneOf`, `allOf` and bounds. Others are ignored, `$ref` and `pattern` among them: schemas
come from other people's agents too, so nothing is fetched and no foreign pattern is run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from meta_agent.core.protocols import JSON

_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: _is_whole(value),
}


def problems(value: JSON, schema: Any, where: str = "") -> Iterator[str]:
    """What is wrong with a value, in words, each with its place. Nothing: it fits."""
    if schema is False:
        yield f"{where or 'it'} is not allowed"
    if not isinstance(schema, Mapping):
        return
    place = where or "it"
    types = schema.get("type")
    if types is not None and not any(_is_a(value, one) for one in _as_list(types)):
        yield f"{place} is {_type_of(value)}, not {' or '.join(map(str, _as_list(types)))}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place} is {value!r}, not one of {schema['enum']}"
    if "const" in schema and value != schema["const"]:
        yield f"{place} is {value!r}, not {schema['const']!r}"
    yield from _bounds(value, schema, place)
    yield from _combined(value, schema, where)
    if isinstance(value, dict):
        yield from _object_problems(value, schema, where)
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from problems(item, schema.get("items"), f"{where}[{index}]")


def _object_problems(
    value: Mapping[str, JSON], schema: Mapping[str, Any], where: str
) -> Iterator[str]:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{_join(where, name)} is missing"
    for name, item in value.items():
        rule = known[name] if name in known else schema.get("additionalProperties")
        yield from problems(item, rule, _join(where, name))


def _bounds(value: JSON, schema: Mapping[str, Any], place: str) -> Iterator[str]:
    if _TYPES["number"](value):
        yield from _limits(value, schema, ("minimum", "maximum"), place)
    elif isinstance(value, str):
        yield from _limits(len(value), schema, ("minLength", "maxLength"), f"{place}'s length")
    elif isinstance(value, list):
        yield from _limits(len(value), schema, ("minItems", "maxItems"), f"{place}'s length")


def _limits(
    value: float, schema: Mapping[str, Any], names: tuple[str, str], place: str
) -> Iterator[str]:
    low, high = schema.get(names[0]), schema.get(names[1])
    if low is not None and value < low:
        yield f"{place} is {value}, below {low}"
    if high is not None and value > high:
        yield f"{place} is {value}, above {high}"


def _combined(value: JSON, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    for part in schema.get("allOf", ()):
        yield from problems(value, part, where)
    for keyword in ("anyOf", "oneOf"):
        parts = schema.get(keyword)
        fits = [part for part in parts or () if not any(problems(value, part, where))]
        if parts and (not fits or (keyword == "oneOf" and len(fits) > 1)):
            yield f"{where or 'it'} fits {len(fits)} of the {len(parts)} forms of {keyword}"


def _is_a(value: JSON, name: Any) -> bool:
    check = _TYPES.get(name) if isinstance(name, str) else None
    return check is None or check(value)


def _is_whole(value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, float) and value.is_integer()
    )


def _type_of(value: JSON) -> str:
    return next(
        (name for name in ("boolean", "integer", *_TYPES) if _TYPES[name](value)), "unknown"
    )


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
