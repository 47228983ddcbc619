"""Runs math-verify inside a sandbox: one forked child per comparison, with the kernel's time limit.

A child inherits the imported libraries, which take a second to load. The pipe of its verdict is its
only descriptor. So a hang or a damaged interpreter affects one comparison. math-verify parses, and
compares sets, pairs and equations part by part; numbers are compared exactly.

Does not cover: a text that makes the library execute code could forge its own verdict. Only the
LaTeX parser reads answers; the library's expression parser, which calls `eval`, is never used.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any

MIN_DIGITS = 6  # of a decimal that stands for an irrational number
# Comparing fills the parser's tables and sympy's caches: every child finds them ready.
WARMING = (
    (r"\frac{\sqrt{2}}{3}\pi", r"\frac{\sqrt{2} \pi}{3}"),
    (r"x^2-3x+1", r"(x-1)^{2}-x"),
    (r"[1,2)\cup(3,\infty)", r"(3,\infty)\cup[1,2)"),
    (r"x \in [1,2]", r"1\le x\le 2"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1\\3\end{pmatrix}"),
    (r"\log_2 3 + e^{i\pi}", r"\sin(30)+\{1,2\}"),
)


def warm(args: dict[str, Any], channel: Any) -> dict[str, str]:
    """Imports the libraries, makes their comparisons exact, and returns the version of sympy."""
    sys.path.extend(path for path in args["paths"] if path not in sys.path)
    import logging

    import sympy
    from math_verify import grader

    logging.disable(logging.CRITICAL)
    grader.sympy_numeric_eq, grader.sympy_solve_and_compare = same_number, same_relation
    for gold, answer in WARMING:
        judge({"gold": gold, "answer": answer})
    return {"sympy": str(sympy.__version__)}


def check(args: dict[str, Any], channel: Any) -> list[dict[str, Any]]:
    """Compares the answer of every question with its gold answer; returns verdicts, in order."""
    del channel
    return [in_a_child(lambda q=q: judge(q), args["wall_sec"]) for q in args["questions"]]  # type: ignore[misc]


def judge(question: dict[str, Any]) -> dict[str, Any]:
    """Returns whether answer and gold are `equal`, or as `reason` which of them does not parse."""
    from math_verify import verify

    texts = [question["gold"], question["answer"]]
    trees: list[Any] = []
    for name, text in zip(("gold", "answer"), texts, strict=True):
        try:
            trees.append(parse(text, not is_complex(" ".join(texts))))
        except Exception as error:
            return {"end": "ok", "reason": f"the {name} does not parse: {error}"[:200]}
    equal = bool(verify(*trees, strict=True, timeout_seconds=None))
    if not equal and "places" in question:
        equal = is_rounded(trees, question["places"], question["digits"])
    wrong_form = equal and not has_form(trees, question.get("form", ""))
    return {"end": "ok", "equal": equal and not wrong_form, "wrong_form": wrong_form}


def is_complex(text: str) -> bool:
    """Returns whether a LaTeX text contains `i` as the imaginary unit."""
    from math_verify.grader import should_treat_as_complex

    return bool(should_treat_as_complex(re.sub(r"(?<=\d)i(?![A-Za-z])", " i", text)))


def parse(text: str, is_real: bool) -> Any:
    """Returns LaTeX as an unevaluated sympy tree. Raises an exception if that cannot be parsed."""
    from latex2sympy2_extended import NormalizationConfig, latex2sympy
    from latex2sympy2_extended.latex2sympy2 import ConversionConfig

    tree = latex2sympy(
        re.sub(r"\\varnothing(?![A-Za-z])", r"\\emptyset", text),
        is_real=is_real,
        normalization_config=NormalizationConfig(malformed_operators=True, boxed="none"),
        conversion_config=ConversionConfig(lowercase_symbols=False),
    )
    if tree is None or isinstance(tree, list | str):
        raise ValueError("the text must be a single expression")
    return tree


def same_number(gold: Any, answer: Any, *_: Any) -> bool:
    """Returns whether both values are numbers and equal. False for any other expression."""
    if not (getattr(gold, "is_number", False) and getattr(answer, "is_number", False)):
        return False
    gold, answer = gold.doit(), answer.doit()
    return bool(gold == answer or (gold - answer).equals(0))


def same_relation(gold: Any, answer: Any, *_: Any) -> bool:
    """Returns whether one equation or inequality is a multiple of the other by a fixed number."""
    import sympy

    ratio = sympy.simplify((gold.lhs - gold.rhs) / (answer.lhs - answer.rhs))
    if not ratio.is_number or not ratio.is_finite or ratio == 0:
        return False
    if isinstance(gold, sympy.Eq):
        return isinstance(answer, sympy.Eq)
    same_side = gold.rel_op == answer.rel_op
    return bool(ratio > 0 if same_side else ratio < 0 and gold.rel_op == answer.reversed.rel_op)


def is_rounded(trees: list[Any], places: int, digits: int) -> bool:
    """Returns whether an answer of 6 digits or more is the irrational gold, rounded to `places`."""
    import sympy

    gold, answer = (tree.rhs if isinstance(tree, sympy.Eq) else tree for tree in trees)
    if not getattr(gold, "is_number", False) or gold.is_rational or digits < MIN_DIGITS:
        return False
    unit = sympy.Rational(1, 10**places)
    return bool(abs(sympy.N(gold - answer, digits + 10)) * 2 <= unit)


def has_form(trees: list[Any], form: str) -> bool:
    """Returns whether the answer is as far factored or expanded (`form`; "": any) as the gold."""
    gold, answer = trees
    if form == "factored":
        return factors(answer) >= factors(gold)
    return form != "expanded" or products(answer) <= products(gold)


def factors(tree: Any) -> int:
    """Counts the factors of a product, each as often as its power says."""
    if tree.is_Mul:
        return sum(factors(factor) for factor in tree.args)
    if tree.is_Pow and tree.exp.is_Integer and tree.exp > 0:
        return int(tree.exp) * factors(tree.base)
    return 0 if tree in (1, -1) else 1


def products(tree: Any) -> int:
    """Counts the products and powers in an expression that hold a sum, such as 2(x+1)."""
    import sympy

    nodes = sympy.preorder_traversal(tree)
    return sum(n.is_Mul or n.is_Pow for n in nodes if any(part.is_Add for part in n.args))


def in_a_child(work: Callable[[], Any], wall_sec: float) -> dict[str, Any]:
    """Returns what `work` returns in a child process, or {"end": "timeout"} or {"end": "died"}."""
    source, sink = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.setitimer(signal.ITIMER_REAL, wall_sec)  # its default action ends the process
            resource.setrlimit(resource.RLIMIT_CPU, (int(wall_sec) + 1, int(wall_sec) + 1))
            os.dup2(sink, 3)
            os.closerange(4, 4096)
            os.write(3, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(sink)
    with os.fdopen(source, "rb") as pipe:
        text = pipe.read()
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGALRM, signal.SIGXCPU):
        return {"end": "timeout"}
    try:
        return dict(json.loads(text))
    except ValueError:
        return {"end": "died"}


OPERATIONS = {"warm": warm, "check": check}
