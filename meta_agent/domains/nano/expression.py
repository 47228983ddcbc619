"""The whole language of nano-swe: `operand operator operand operator operand` over x and y.

Promises: evaluation is bounded. There is no Python `eval`, no power, no loop and no name but x and
y; five characters and checked integers cannot run long or grow large. `polynomial` is a normal
form, so two pieces of code with equal polynomials are the same function on all integers.

Not covered: parentheses, division, or anything else that would need error semantics.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

VARIABLES: Final = "xy"
DIGITS: Final = "123456789"
OPERATORS: Final = "+-*"
OPERANDS: Final = VARIABLES + DIGITS
LENGTH: Final = 5
MAX_INPUT: Final = 10_000  # a product of three stays far below 2**63
MAX_DEGREE: Final = 3  # of one variable: x*x*x

Polynomial = tuple[tuple[tuple[int, int], int], ...]  # ((power of x, power of y), coefficient)


def is_code(text: object) -> bool:
    """Says whether this is a program of the language."""
    return (
        isinstance(text, str)
        and len(text) == LENGTH
        and all(c in (OPERATORS if i % 2 else OPERANDS) for i, c in enumerate(text))
    )


def _tokens(code: str) -> list[str]:
    if not is_code(code):
        raise ValueError(f"not a nano-swe expression: {code!r}")
    return list(code)


def _apply(operator: str, left: int, right: int) -> int:
    if operator == "+":
        return left + right
    return left - right if operator == "-" else left * right


def evaluate(code: str, x: int, y: int) -> int:
    """Returns the value of the code; `*` binds tighter, the rest goes left to right."""
    if abs(x) > MAX_INPUT or abs(y) > MAX_INPUT:
        raise ValueError(f"input ({x}, {y}) is outside +-{MAX_INPUT}")
    a, first, b, second, c = _tokens(code)
    value = {"x": x, "y": y} | {digit: int(digit) for digit in DIGITS}
    if second == "*" and first != "*":
        return _apply(first, value[a], value[b] * value[c])
    return _apply(second, _apply(first, value[a], value[b]), value[c])


_Terms = Counter[tuple[int, int]]


def _atom(operand: str) -> _Terms:
    if operand in VARIABLES:
        return Counter({(int(operand == "x"), int(operand == "y")): 1})
    return Counter({(0, 0): int(operand)})


def _combine(operator: str, left: _Terms, right: _Terms) -> _Terms:
    result: _Terms = Counter(left if operator != "*" else {})
    for (i, j), n in right.items():
        if operator == "*":
            for (k, m), p in left.items():
                result[i + k, j + m] += n * p
        else:
            result[i, j] += n if operator == "+" else -n
    return result


def polynomial(code: str) -> Polynomial:
    """Returns the normal form that equal functions share."""
    a, first, b, second, c = _tokens(code)
    if second == "*" and first != "*":
        terms = _combine(first, _atom(a), _combine("*", _atom(b), _atom(c)))
    else:
        terms = _combine(second, _combine(first, _atom(a), _atom(b)), _atom(c))
    return tuple(sorted((powers, n) for powers, n in terms.items() if n))
