"""Compares outputs and return values with the expected ones, on the host, as plain data.

Texts are equal if each line is equal without the spaces around it, or has the same decimal numbers.
This is the rule of LiveCodeBench and NeMo Gym with one exception: text with underscores or digits
of other scripts is not read as a number. Values are equal as Python data, and a tuple equals a
list. Some data sets wrap what a function returns in a list of one; there both forms are right.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any, Final

_WRAPPING: Final = frozenset({"apps"})
_MAX_TOKEN_CHARS: Final = 1000


def same_output(expected: str, got: str) -> bool:
    """Returns whether two texts agree line by line, as stripped text or as decimal numbers."""
    expected_lines, output_lines = _lines(expected), _lines(got)
    if len(expected_lines) != len(output_lines):
        return False
    return all(
        expected_line == two or _same_numbers(expected_line, two)
        for expected_line, two in zip(expected_lines, output_lines, strict=True)
    )


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _same_numbers(expected: str, output: str) -> bool:
    expected_numbers = _decimals(expected.split())
    if expected_numbers is None or not (expected.isascii() and output.isascii()):
        return False
    # A line of output may hold millions of tokens; one more than wanted is enough to know.
    return expected_numbers == _decimals(output.split(maxsplit=len(expected_numbers)))


def _decimals(tokens: list[str]) -> list[Decimal] | None:
    if any(len(token) > _MAX_TOKEN_CHARS for token in tokens):
        return None
    if any("_" in token for token in tokens):
        return None
    try:
        numbers = [Decimal(token) for token in tokens]
    except (InvalidOperation, ValueError):
        return None
    return numbers if all(number.is_finite() for number in numbers) else None


def same_value(expected: Any, got: Any, source: str) -> bool:
    """Returns whether a function's result is as expected, by the rules of the data set `source`."""
    value = _listed(got)
    if value == expected:
        return True
    wrapped = source in _WRAPPING and isinstance(expected, list) and len(expected) == 1
    return wrapped and bool(value == expected[0])


def _listed(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_listed(item) for item in value]
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    return value
