"""Flawed scaffolds for math and code, solvers that know the answers, and who mends the flaws.

The flaws are ones that such scaffolds have had: replies cut before the answer, and the first block
of a reply taken where models end with what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meta_agent.core.resources import shipped_harness
from tests.acceptance.brains._mender import Change, Mender
from tests.acceptance.brains._solvers import Mathematician, Programmer
from tests.loopback._speech import Brain


@dataclass(frozen=True)
class Case:
    """One domain: its rows, its flawed scaffold, and who works on both."""

    domain: str
    file: str
    flaw: tuple[str, str, str]  # file, sound text, flawed text
    policy: Callable[[Mapping[str, str]], Brain]
    team: Mender
    gold: Callable[[Mapping[str, Any]], tuple[str, str]]  # problem, answer
    models: Mapping[str, str]


def _worded(file: str, before: str, after: str) -> Change:
    statement = (
        "If the prompt is worded otherwise, then more attempts solve their task, "
        "because the model reads it with more care."
    )
    return Change(file, before, after, statement, 0.02)


CUT = Change(
    "math/agent.py",
    "MAX_TOKENS = 200",
    "MAX_TOKENS = 4096",
    "If a reply may be twenty times as long, then more attempts solve their task, because they end "
    "in a reply that was cut before its box.",
    0.3,
)
FIRST = Change(
    "code/actions.py",
    "fenced(blocks[0])",
    "fenced(blocks[-1])",
    "If the last block of a reply is taken and not the first, then more attempts solve their task, "
    "because replies end with the code that they mean.",
    0.3,
)
MATH, CODE = CASES = (
    Case(
        "math",
        "gsm8k_test.jsonl",
        ("math/agent.py", "MAX_TOKENS = 4096", "MAX_TOKENS = 200"),
        Mathematician,
        Mender(
            "measured.endings.cut_reply_share",
            0.2,
            CUT,
            _worded("math/prompts.py", "You solve one mathematics problem", "You solve a problem"),
        ),
        lambda row: (row["question"], row["answer"].rpartition("####")[2].strip()),
        {"policy": "anthropic/solver", "team": "litellm/deepseek/team", "reviewer": "openai/team"},
    ),
    Case(
        "code",
        "HumanEval.jsonl.gz",
        ("code/actions.py", "fenced(blocks[-1])", "fenced(blocks[0])"),
        Programmer,
        Mender(
            "measured.verdicts.wrong_answer_share",
            0.3,
            FIRST,
            _worded("code/prompts.py", "Work in small steps", "Take small steps"),
        ),
        lambda row: (row["prompt"], row["prompt"] + row["canonical_solution"]),
        {"policy": "openai/solver", "team": "anthropic/team", "reviewer": "anthropic/team"},
    ),
)


def flawed(case: Case, folder: Path) -> Path:
    """Writes the scaffold that ships with its flaw planted, and returns its folder."""
    harness = folder / "harness"
    for path, content in shipped_harness(f"chat/{case.domain}").items():
        (harness / path).parent.mkdir(parents=True, exist_ok=True)
        (harness / path).write_bytes(content)
    name, sound, flawed = case.flaw
    text = (harness / name).read_text(encoding="utf-8")
    assert text.count(sound) == 1
    (harness / name).write_text(text.replace(sound, flawed), encoding="utf-8")
    return harness
