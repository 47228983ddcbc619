"""One small problem in each of the three kinds, and right programs for it."""

from __future__ import annotations

from typing import Any

from meta_agent.domains.formats.code_sets import CodeRow, ProgramTest

ADD = "def add(a, b):\n    return a + b\n"
SUM = "print(sum(map(int, input().split())))"
CHECK = "def check(f):\n    assert f(1, 2) == 3\n    assert f([1], [2]) == [1, 2]\n\ncheck(add)\n"


def row(kind: Any = "stdio", **more: Any) -> CodeRow:
    fields: dict[str, Any] = {"key": "k", "prompt": "p", "split": "train", "line": 1}
    fields |= {"source": "t", "time_sec": 1.0}
    if kind == "stdio":
        fields["cases"] = (ProgramTest("1 2\n", "3\n"), ProgramTest("10 20\n", "30\n"))
    elif kind == "function":
        fields |= {
            "entry_point": "add",
            "cases": (ProgramTest([1, 2], 3), ProgramTest([[1], [2]], [1, 2])),
        }
    else:
        prelude = "def add(a, b):\n    '''Adds.'''\n"
        fields |= {"entry_point": "add", "prelude": prelude, "program": CHECK, "names": ("add",)}
    return CodeRow(kind=kind, **{**fields, **more})
