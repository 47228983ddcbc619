"""A small package whose functions have planted bugs, as a task file, and a policy with a habit.

The policy is a loopback server: it repairs the function if the scaffold's system prompt holds
`HABIT`, and else hands in something useless. So an edit of the prompt is a true gain, or none.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from meta_agent.domains.swe import make_patch
from tests.loopback import Call, Say

HABIT = "Repair the cause in kit/core.py"
SIZES = {"train": 1, "search": 3, "confirm": 7, "vault": 2}


def function(number: int, sign: str = "+") -> str:
    return f"def f{number:02d}(x):\n    return x {sign} {number + 3}\n\n\n"


def _tree(count: int) -> dict[str, bytes]:
    return {
        "kit/__init__.py": b'"""A kit."""\n',
        "kit/core.py": "".join(map(function, range(count))).encode(),
        "tests/test_ok.py": b"def test_ok():\n    assert True\n",
    }


def _row(tree: Mapping[str, bytes], number: int, split: str, source: Mapping[str, str]) -> Any:
    name = f"f{number:02d}"
    core = tree["kit/core.py"].decode()
    broken = {"kit/core.py": core.replace(function(number), function(number, "-")).encode()}
    test = (
        f"from kit.core import {name}\n\n\ndef test_it():\n    assert {name}(1) == {number + 4}\n"
    )
    return {
        "instance_id": f"kit-{name}",
        "repo": "o/kit",
        "base_commit": "0" * 40,
        "split": split,
        "problem_statement": f"{name}(1) should give {number + 4}",
        "patch": make_patch({**tree, **broken}, {"kit/core.py": tree["kit/core.py"]}),
        "test_patch": make_patch(tree, {f"tests/test_{name}.py": test.encode()}),
        "FAIL_TO_PASS": [f"tests/test_{name}.py::test_it"],
        "PASS_TO_PASS": ["tests/test_ok.py::test_ok"],
        "source": {**source, "setup_patch": make_patch(tree, broken)},
    }


def write_tasks(folder: Path, sizes: Mapping[str, int] | None = None) -> Path:
    """The task file, its archive beside it."""
    sizes = sizes or SIZES
    folder.mkdir(parents=True, exist_ok=True)
    tree = _tree(sum(sizes.values()))
    content = _archive(tree)
    (folder / "kit.tar.gz").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    source = {"archive": "kit.tar.gz", "sha256": digest, "python": sys.executable}
    splits = [split for split, count in sizes.items() for _ in range(count)]
    rows = [_row(tree, number, split, source) for number, split in enumerate(splits)]
    path = folder / "kit.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _archive(tree: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for path, content in tree.items():
            member = tarfile.TarInfo(f"kit-1.0/{path}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def policy(after: Callable[[Call], None] = lambda _call: None) -> Callable[[Call], Say]:
    """A brain that edits, tests and submits; `after` hears of every call."""

    def brain(call: Call) -> Say:
        after(call)
        turn = sum(message["role"] == "assistant" for message in call.messages)
        number = int(str(call.messages[1]["content"]).partition("f")[2][:2])
        works = HABIT in str(call.messages[0]["content"])
        return Say(tool_calls=[_STEPS[min(turn, 2)](number, works)], input_tokens=100 + turn)

    return brain


def _edit(number: int, works: bool) -> tuple[str, dict[str, str]]:
    if not works:
        return "run", {"command": "true"}
    old, new = function(number, "-").strip(), function(number).strip()
    return "edit", {"path": "kit/core.py", "old": old, "new": new}


_STEPS = (
    _edit,
    lambda _number, _works: ("test", {"paths": "tests"}),
    lambda _number, _works: ("submit", {}),
)
