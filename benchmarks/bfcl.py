"""Our grades of function calls beside those of the leaderboard's own checker (`bfcl-eval`).

Both grade every reference answer and a number of altered ones: values, names, types, brackets and
quotes are changed, arguments and calls added, dropped and reordered. The package is unpacked into a
temporary folder and imported from there; what it imports and this machine lacks (clients of model
servers, parsers of other languages) is an empty module, since Python's checker uses none of it.

    python benchmarks/bfcl.py WHEEL [--altered 5000] [--seed 0] [--golden TASKS]

`--golden TASKS` answers the tasks of a file instead, and writes the altered answers with the
checker's verdicts to `verdicts.jsonl` beside it.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.abc
import importlib.machinery
import json
import random
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from meta_agent.domains.bfcl import CATEGORIES, rows_of
from meta_agent.domains.bfcl.bfcl_guest import calls_of, grade

Verdict = bool | None  # None: the checker itself broke


class _Missing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds any module that nothing else finds, with any name in it."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name.split(".")[0] in _STUBBED or name == _MODELS:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> ModuleType:
        module = _Anything(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass


class _Anything(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name)

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self


_MODELS: Final = "bfcl_eval.constants.model_config"
_STUBBED: Final = (
    "tree_sitter",
    "tree_sitter_java",
    "tree_sitter_javascript",
    "tenacity",
    "filelock",
)


class Checker:
    """The package's own decoder and checker."""

    def __init__(self, folder: Path) -> None:
        sys.path.insert(0, str(folder))
        sys.meta_path.insert(0, _Missing())
        models = importlib.import_module(_MODELS)
        models.MODEL_CONFIG_MAPPING = {"none": type("Model", (), {"underscore_to_dot": False})}  # type: ignore[attr-defined]
        self._checker: Any = importlib.import_module("bfcl_eval.eval_checker.ast_eval.ast_checker")
        self._utils: Any = importlib.import_module("bfcl_eval.model_handler.utils")
        self._format: Any = importlib.import_module("bfcl_eval.utils")
        self._python = importlib.import_module("bfcl_eval.constants.enums").Language.PYTHON

    def verdict(self, row: Mapping[str, Any], reply: str) -> Verdict:
        """Returns what the leaderboard says about a reply, as its runner asks for it."""
        try:
            calls = self._utils.default_decode_ast_prompting(reply)
        except Exception:
            calls = None
        if not row["expected"]:
            return calls is None or bool(self._format.is_empty_output(calls))
        if calls is None or not self._format.is_function_calling_format_output(calls):
            return False
        functions, category = row["view"]["functions"], row["labels"]["kind"]
        try:
            answer = self._checker.ast_checker(
                functions, calls, row["expected"], self._python, category, "none"
            )
        except Exception:
            return None
        return bool(answer["valid"])


# --- altered answers ------------------------------------------------------------------------------


class _Raw(str):
    """Source text that stands for itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _swapped_case(value: Any) -> Any:
    return value.swapcase().replace(" ", "") if isinstance(value, str) else value


def _punctuated(value: Any) -> Any:
    return value.replace(" ", "-") + "." if isinstance(value, str) else value


VALUES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "other case": _swapped_case,
    "other punctuation": _punctuated,
    "a word more": lambda v: v + " more" if isinstance(v, str) else v,
    "as text": lambda v: str(v),
    "as name": lambda v: _Raw("some_name"),
    "as list": lambda v: [v],
    "as tuple": lambda v: tuple(v) if isinstance(v, list) else (v,),
    "as float": lambda v: float(v) if type(v) is int and abs(v) < 1e15 else v,
    "as int": lambda v: int(v) if isinstance(v, float) else v,
    "one more": lambda v: v + 1 if isinstance(v, int | float) else v,
    "negative": lambda v: -v if isinstance(v, int | float) and type(v) is not bool else v,
    "none": lambda v: None,
    "true": lambda v: True,
    "empty text": lambda v: "",
    "empty list": lambda v: [],
    "empty dict": lambda v: {},
    "reversed": lambda v: v[::-1] if isinstance(v, list | str) else v,
    "shorter": lambda v: v[:-1] if isinstance(v, list | str) else v,
    "longer": lambda v: [*v, *v[:1]] if isinstance(v, list) else v,
    "items as text": lambda v: [str(item) for item in v] if isinstance(v, list) else v,
    "items as float": lambda v: (
        [float(i) if type(i) is int else i for i in v] if isinstance(v, list) else v
    ),
    "a key less": lambda v: dict(list(v.items())[1:]) if isinstance(v, dict) else v,
    "a key more": lambda v: {**v, "extra": 1} if isinstance(v, dict) else v,
    "formula": lambda v: _Raw(f"{v - 1} + 1") if type(v) is int else v,
    "plus sign": lambda v: _Raw(f"+{v}") if type(v) is int else v,
    "not": lambda v: _Raw("not False") if isinstance(v, bool) else v,
    "a call": lambda v: _Raw("lookup(x=1)"),
    "a call of nothing": lambda v: _Raw("lookup()"),
    "an index": lambda v: _Raw("table[0]"),
    "an attribute": lambda v: _Raw("Unit.METRE"),
}
TEXTS: Final[Mapping[str, Callable[[str], str]]] = {
    "no brackets": lambda t: t[1:-1],
    "a fence": lambda t: f"```\n{t}\n```",
    "a fence with a language": lambda t: f"```python\n{t}\n```",
    "words before": lambda t: f"The call is {t}",
    "in quotes": lambda t: f"'{t}'",
    "cut": lambda t: t[:-2],
    "comma": lambda t: f"{t[:-1]},]",
    "semicolon": lambda t: t + ";",
    "lower case": lambda t: t.lower(),
    "twice": lambda t: f"{t}, {t}",
    "indexed": lambda t: f"{t}[0]",
    "spaces": lambda t: f"  \n{t.replace('=', ' = ')}\n",
}

Calls = list[tuple[str, dict[str, Any]]]


def altered(row: Mapping[str, Any], rng: random.Random) -> tuple[str, str]:
    """Returns an alteration of a row's reference answer, by name, and the altered reply."""
    calls: Calls = [(name, dict(values)) for name, values in calls_of(row["gold"]) or []]
    kind = rng.choice(("value", "value", "value", "arguments", "allowed", "calls", "text", "json"))
    if kind == "json":
        written = [{"name": name, "arguments": values} for name, values in calls]
        return "JSON", json.dumps(written)
    if kind == "text" or not calls:
        name = rng.choice(list(TEXTS))
        return name, TEXTS[name](_written(calls))
    at = rng.randrange(len(calls))
    function, values = calls[at]
    if kind == "value" and values:
        name, parameter = rng.choice(list(VALUES)), rng.choice(list(values))
        values[parameter] = VALUES[name](values[parameter])
    elif kind == "allowed":
        name = "another allowed value"
        for parameter, allowed in row["expected"][at][function].items():
            values[parameter] = rng.choice(allowed)
    elif kind == "calls":
        name = _other_calls(calls, at, row, rng)
    else:
        name = _other_arguments(values, rng)
    return name, _written(calls)


def _other_arguments(values: dict[str, Any], rng: random.Random) -> str:
    name = rng.choice(("an argument less", "an argument more", "an argument renamed"))
    parameter = rng.choice(list(values) or ["x"])
    if name != "an argument more":
        values.pop(parameter, None)
    if name != "an argument less":
        values[f"{parameter}_2"] = 1
    return name


def _other_calls(calls: Calls, at: int, row: Mapping[str, Any], rng: random.Random) -> str:
    function, values = calls[at]
    name = rng.choice(("a call less", "a call more", "reversed calls", "another function", "case"))
    if name == "a call less":
        del calls[at]
    elif name == "a call more":
        calls.append((function, dict(values)))
    elif name == "reversed calls":
        calls.reverse()
    elif name == "case":
        calls[at] = function.upper(), values
    else:
        offered = [f["name"] for f in row["view"]["functions"]]
        calls[at] = rng.choice([*offered, function.split(".")[-1], f"{function}_2"]), values
    return name


def _written(calls: Calls) -> str:
    texts = (
        f"{name}({', '.join(f'{n}={v!r}' for n, v in values.items())})" for name, values in calls
    )
    return f"[{', '.join(texts)}]"


# --- the comparison -------------------------------------------------------------------------------


def compare(checker: Checker, rows: Sequence[Mapping[str, Any]], number: int, seed: int) -> None:
    """Prints how often the two agree, and every kind of difference with an example."""
    rng = random.Random(seed)
    answers = [("reference", row, row["gold"]) for row in rows]
    for _ in range(number):
        row = rng.choice(rows)
        name, reply = altered(row, rng)
        answers.append((name, row, reply))
    agreed, right = Counter[str](), 0
    differences: dict[tuple[str, bool, Verdict], list[str]] = {}
    for name, row, reply in answers:
        ours, theirs = grade(dict(row), reply).success, checker.verdict(row, reply)
        if ours == theirs:
            agreed["reference" if name == "reference" else "altered"] += 1
            right += ours and name != "reference"
        else:
            differences.setdefault((name, ours, theirs), []).append(f"{row['key']}: {reply[:100]}")
    print(f"references: {agreed['reference']} of {len(rows)} graded alike")
    print(f"altered: {agreed['altered']} of {number} graded alike, {right} of them right")
    for (name, ours, theirs), examples in sorted(differences.items(), key=lambda item: item[0][0]):
        print(f"  {name}: ours {ours}, theirs {theirs}: {len(examples)}, such as {examples[0]}")


def golden(
    checker: Checker, rows: Sequence[Mapping[str, Any]], number: int, seed: int
) -> list[list[Any]]:
    """Returns `number` altered replies, without repetitions: task, alteration, text, verdict."""
    rng = random.Random(seed)
    replies = {("reference", row["key"], row["gold"]): row for row in rows}
    for _ in range(number):
        row = rng.choice(rows)
        name, reply = altered(row, rng)
        replies[name, row["key"], reply] = row
    return [
        [key, name, reply, checker.verdict(row, reply)]
        for (name, key, reply), row in replies.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--altered", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--golden", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(args.wheel) as archive:
            archive.extractall(folder)
        checker = Checker(Path(folder))
        if args.golden is None:
            rows = list(rows_of(args.wheel, list(CATEGORIES)))
            compare(checker, rows, args.altered, args.seed)
            return
        rows = [json.loads(line) for line in args.golden.read_text("utf-8").splitlines()]
        verdicts = golden(checker, rows, args.altered, args.seed)
        lines = (json.dumps(verdict, ensure_ascii=False) + "\n" for verdict in verdicts)
        args.golden.with_name("verdicts.jsonl").write_text("".join(lines), "utf-8")


if __name__ == "__main__":
    main()
