"""Makes tasks with reasoning-gym, and grades answers by the library's own `score_answer`.

Runs in the grader's process, by the interpreter that has the library. Some of its verifiers call
`eval` on the answer, which a model wrote. While an answer is scored, only plain data and formulas
may be evaluated: numbers, texts, lists, arithmetic, and the types and functions of sympy. A child
process with limits of time and memory scores the answer. An answer that breaks a limit scores 0 if
the verifier scores its own answer within the same limits.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import json
import os
import re
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

ABOUT: dict[str, Any] = {}
THRESHOLD = 1.0
SPLITS = ("train", "train", "search", "confirm", "vault")
"""The split of each task by its number: a task keeps its split if more tasks are made."""
ROUNDS = 4
"""A generator that repeats its questions is asked for at most so many times the tasks."""
ANSWER_SEC = 12
ANSWER_BYTES = 2 << 30  # beyond what the library itself takes
_request: list[dict[str, Any]] = []
Refusal = getattr(sys.modules["__main__"], "Refusal", ValueError)


def setup(
    generators: list[dict[str, Any]] | None = None, listed: bool = False, memory_mb: int = 0
) -> None:
    """Imports reasoning-gym and sets the generators of `tasks`. Raises Refusal if it is missing.

    `memory_mb` limits what this process takes beyond the library (0: no limit).
    """
    try:
        import reasoning_gym
    except ImportError as error:
        raise Refusal(f"the package {error.name} is not installed for this Python") from error
    ABOUT["reasoning_gym"] = reasoning_gym.__version__
    _request[:] = generators or []
    if memory_mb:
        limit_memory(memory_mb << 20)
    if listed:
        from reasoning_gym.factory import DATASETS

        names = {name: defaults_of(name) for name in sorted(DATASETS)}
        ABOUT["generators"] = json.loads(json.dumps(names, default=str))


# --- tasks -----------------------------------------------------------------------------------


def tasks() -> list[dict[str, Any]]:
    """Returns the tasks of all generators, each a row with its split."""
    return [row for generator in _request for row in tasks_of(**generator)]


def tasks_of(name: str, options: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yields a generator's tasks as rows, without repeated questions. Raises Refusal if none."""
    parameters = typed(name, options)
    easier = f"{name}:level=0:size=256" if has_easier(name, parameters) else None
    size, seed = int(parameters.pop("size", 500)), int(parameters.pop("seed", 0) or 0)
    questions: set[str] = set()
    unsolved = 0
    for start in range(seed, seed + ROUNDS * size, size):
        dataset = dataset_of(name, {**parameters, "seed": start, "size": size})
        for index in range(size):
            entry = entry_of(dataset, name, start, index)
            if len(questions) == size:
                return
            if entry["question"] in questions:
                continue
            if entry["answer"] is not None and scored(dataset, entry["answer"], entry) < THRESHOLD:
                unsolved += 1
                continue
            row = row_of(name, parameters, entry, start + index, SPLITS[len(questions) % 5])
            yield {**row, "easier": easier} if easier else row
            questions.add(entry["question"])
    if not questions:
        raise Refusal(f"{name}: its verifier refuses all {unsolved} of its own answers")


def row_of(
    name: str, parameters: dict[str, Any], entry: dict[str, Any], seed: int, split: str
) -> dict[str, Any]:
    """Returns an entry of the library as a task row, of which an agent sees only the prompt."""
    level = ",".join(f"{option}={value}" for option, value in sorted(parameters.items()))
    return {
        "key": f"{name}-{seed}",
        "prompt": entry["question"],
        "gold": entry["answer"],
        "split": split,
        "labels": {"kind": name, "level": level},
        "generator": name,
        "parameters": parameters,
        "entry": entry,
    }


def entry_of(dataset: Any, name: str, seed: int, index: int) -> dict[str, Any]:
    """Returns an entry (question, answer, metadata) as JSON. Raises Refusal if making it fails."""
    try:
        entry: dict[str, Any] = json.loads(json.dumps(dataset[index], default=str))
    except Exception as error:
        raise Refusal(
            f"{name}: the generator raised {type(error).__name__}: {error} (seed {seed}, its task "
            f"{index})"
        ) from error
    return entry


def dataset_of(name: str, parameters: dict[str, Any]) -> Any:
    """Returns a generator's dataset. Raises Refusal if the library refuses the parameters."""
    from reasoning_gym.factory import create_dataset

    try:
        return create_dataset(name, **parameters)
    except Exception as error:
        raise Refusal(f"{name}: {type(error).__name__}: {error}") from error


def typed(name: str, options: dict[str, str]) -> dict[str, Any]:
    """Returns options in the types of the generator's defaults. Raises Refusal for a bad option.

    `level` is a difficulty of the library's own curriculum, from 0 on. Other options override it.
    """
    defaults, options = defaults_of(name), dict(options)
    level = options.pop("level", None) if "level" not in defaults else None
    for option in options:
        if option not in defaults:
            raise Refusal(f"{name} has no parameter {option!r}{nearest(option, defaults)}")
    values = {option: value_of(name, option, text, defaults) for option, text in options.items()}
    return values if level is None else {**of_level(name, level), **values}


def of_level(name: str, level: str) -> dict[str, Any]:
    """Returns the parameters that a curriculum level changes. Raises Refusal without that level."""
    from reasoning_gym.factory import CURRICULA, create_curriculum

    if name not in CURRICULA:
        raise Refusal(f"{name} has no levels in this version of the library")
    if not level.isdecimal():
        raise Refusal(f"{name}: level={level} is no whole number from 0 on")
    curriculum = create_curriculum(name)
    curriculum.set_global_level(int(level))
    configuration, defaults = curriculum.generate_configuration(), defaults_of(name)
    values = {option: getattr(configuration, option) for option in defaults}
    return {option: value for option, value in values.items() if value != defaults[option]}


def has_easier(name: str, parameters: dict[str, Any]) -> bool:
    """Returns True if the library has an easiest level, and `parameters` differ from that level."""
    from reasoning_gym.factory import CURRICULA

    if name not in CURRICULA:
        return False
    easiest, defaults = of_level(name, "0"), defaults_of(name)
    try:
        dataset_of(name, {**easiest, "seed": 0, "size": 1})
    except Refusal:
        return False  # the library refuses its own level
    return any(
        parameters.get(option, defaults[option]) != easiest.get(option, defaults[option])
        for option in {*parameters, *easiest} - {"size", "seed"}
    )


def value_of(name: str, option: str, text: str, defaults: dict[str, Any]) -> Any:
    """Returns an option in its default's type (lists split at `@`). Raises Refusal for bad text."""
    default = defaults[option]
    try:
        if isinstance(default, list | tuple):
            member = default[0] if default else ""
            return type(default)(simple(part, member) for part in text.split("@"))
        return simple(text, default)
    except ValueError:
        kind = type(default).__name__
        raise Refusal(f"{name}: {option}={text} is no {kind}, as {default!r} is") from None


def simple(text: str, like: Any) -> Any:
    """Returns a text as a value of the type of `like`. Raises ValueError if it is none."""
    if isinstance(like, bool):
        return ("false", "true").index(text.lower()) == 1
    if isinstance(like, int | float) or like is None:
        return float(text) if "." in text or isinstance(like, float) else int(text)
    return text


@cache
def defaults_of(name: str) -> dict[str, Any]:
    """Returns a generator's parameters with their defaults. Raises Refusal for another name."""
    from reasoning_gym.factory import DATASETS

    if name not in DATASETS:
        raise Refusal(f"reasoning-gym has no generator {name!r}{nearest(name, DATASETS)}")
    config = DATASETS[name][1]()
    return {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}


def nearest(word: str, words: Any) -> str:
    """Returns "; the nearest is WORD" for the member of `words` that is most like `word`, or ""."""
    close = difflib.get_close_matches(word, list(words), n=1, cutoff=0.0)
    return f"; the nearest is {close[0]}" if close else ""


# --- grades ----------------------------------------------------------------------------------


def grade(task: dict[str, Any], answer: Any) -> dict[str, Any]:
    """Returns the library's `score` of an answer, and a `lenient` score, on which nothing depends.

    `lenient` is the best score of the answer's tag, box or last line. A higher one shows that only
    the form of the answer was wrong. Raises RuntimeError if the library cannot score its own.
    """
    dataset, entry = verifier(task["generator"], json.dumps(task["parameters"])), task["entry"]

    def scores(text: str) -> list[float]:
        return [scored(dataset, part, entry) for part in (text.strip(), *read_out(text))]

    values = within_limits(lambda: scores(str(answer)))
    if values is None:
        gold = entry["answer"]
        if gold is not None and within_limits(lambda: scores(str(gold))) is None:
            raise RuntimeError("the verifier cannot score its own answer within its limits")
        values = [0.0]
    return {"score": values[0], "lenient": max(values)}


def limit_memory(more: int) -> None:
    """Limits this process to `more` bytes of memory beyond what it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + more
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def within_limits(work: Callable[[], list[float]]) -> list[float] | None:
    """Returns what `work` returns in a child process, or None if the child breaks a limit."""
    source, sink = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            limit_memory(ANSWER_BYTES)
            signal.setitimer(signal.ITIMER_REAL, ANSWER_SEC)  # its default action ends the process
            os.write(sink, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(sink)
    with os.fdopen(source, "rb") as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return [float(value) for value in json.loads(text)] if text else None


@cache
def verifier(name: str, parameters: str) -> Any:
    """Returns a generator's dataset for grading by `score_answer`; it makes no tasks."""
    return dataset_of(name, {**json.loads(parameters), "seed": 0, "size": 1})


def scored(dataset: Any, answer: str, entry: dict[str, Any]) -> float:
    """Returns the score of an answer. An answer that the verifier cannot read scores 0.

    Import, memory and system errors are raised: they may say nothing about the answer.
    """
    try:
        with only_formulas():
            return float(dataset.score_answer(answer, entry))
    except PermissionError:  # `watch` refused to evaluate the answer
        return 0.0
    except (ImportError, MemoryError, OSError):
        raise
    except Exception:
        return 0.0


def read_out(text: str) -> list[str]:
    r"""Returns the texts of the last `<answer>` tag or `\boxed{}`, and of the last line."""
    tagged = re.findall(r"<answer>\s*(.*?)\s*</answer>|\\boxed\{([^{}]*)\}", text, re.DOTALL)
    lines = [line for line in text.splitlines() if line.strip()]
    last = re.sub(r"(?i)^.*?answer(?: is)?\s*:?\s+", "", lines[-1]) if lines else ""
    return [part for pair in tagged[-1:] for part in pair if part] + [last.strip(" \t*`.$")]


# --- what may be evaluated ---------------------------------------------------------------------

_EVALUATES = ("reasoning_gym.", "sympy.parsing.")
_DATA = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Constant),
    *(ast.Name, ast.Load, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Call, ast.keyword),
)
_armed = False


@contextmanager
def only_formulas() -> Iterator[None]:
    """A context in which evaluating anything but a formula raises PermissionError."""
    global _armed
    _armed = True
    try:
        yield
    finally:
        _armed = False


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook that raises PermissionError if the library evaluates more than a formula."""
    if not _armed or event != "compile":
        return
    module = str(sys._getframe(1).f_globals.get("__name__"))
    if module.startswith(_EVALUATES) and not is_formula(arguments[0]):
        raise PermissionError("the answer may hold data and formulas, but not code")


def is_formula(source: Any) -> bool:
    """Returns True if evaluating the source can call nothing but types and functions of sympy."""
    if isinstance(source, ast.AST):
        tree = source
    elif source in (b"from sympy import *", "from sympy import *"):
        return True  # how the parser itself begins
    else:
        tree = compile(source.strip(), "<answer>", "eval", ast.PyCF_ONLY_AST)
    nodes = list(ast.walk(tree))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    texts = [node.value for node in nodes if isinstance(node, ast.Constant)]
    plain_texts = all(re.fullmatch(r"[\w.+-]*", text) for text in texts if isinstance(text, str))
    return (
        all(isinstance(node, _DATA) for node in nodes)
        and all(is_of_sympy(call.func) for call in calls)
        and (plain_texts or not calls)
    )


def is_of_sympy(function: ast.expr) -> bool:
    """Returns True if a call's function is `sqrt` or a class of sympy, such as `sin`."""
    import sympy

    if isinstance(function, ast.Call):  # Function("f")(x)
        return is_of_sympy(function.func)
    value = getattr(sympy, function.id, None) if isinstance(function, ast.Name) else None
    return value is sympy.sqrt or (isinstance(value, type) and issubclass(value, sympy.Basic))


sys.addaudithook(watch)
