"""A smallest run: sums to be found, a grader, a model that adds, and the settings of both."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.loopback import Call, Say

BONUS = 1
ROWS = [{"prompt": f"What is {n} + 1?", "sum": n + BONUS, "n": n} for n in range(16)]


def total(text: str) -> int:
    return int(re.sub(r"\D", "", text) or -1)


def grade(task: dict[str, Any], answer: str) -> bool:
    return total(answer) == task["n"] + BONUS


def adds(call: Call) -> Say:
    """Adds, and every fifth sum is wrong."""
    asked = str(call.messages[-1]["content"])
    number = int(asked.split("What is ")[1].split(" ")[0])
    return Say(str(number + 1 + (number % 5 == 0)))


def settings(tmp_path: Path, url: str) -> dict[str, Any]:
    return {
        "workspace": tmp_path / "ws",
        "policy": "openai/adds",
        "base_urls": {"policy": url},
        "sandbox": "process",
        "allow_unsafe_process": True,
        "generations": 1,
        "candidates": 1,
        "samples": 1,
    }
