from __future__ import annotations

import subprocess

from meta_agent.core.history import candidate_message, parse_trailers, standard_trailers
from meta_agent.core.protocols import Hypothesis

HYPOTHESIS = Hypothesis(
    factor="scaffold",
    statement="if the agent may take more turns then more attempts end in a submission " * 2,
    metric="clean_success",
    direction="up",
    expected_delta=0.05,
    risks=("longer rollouts",),
    evidence=("42 % of attempts stop at the turn limit",),
    skills=("raise-the-turn-limit",),
)
TRAILERS = standard_trailers(
    run="r1", candidate="r1/g0/c0", factor="scaffold", hypothesis="turn-limit", assisted_by="rules"
)


def message(subject: str = "allow more turns") -> str:
    return candidate_message(HYPOTHESIS, subject=subject, trailers=TRAILERS)


def test_a_message_is_a_short_conventional_commit_and_the_hypothesis() -> None:
    first, *rest = message("allow more turns " * 10).splitlines()
    assert first.startswith("feat(scaffold): allow more turns")
    assert len(first) <= 72 and max(map(len, rest)) <= 88
    for told in ("if the agent may take more turns", "42 %", "clean_success", "+0.05"):
        assert any(told in line for line in rest)


def test_git_reads_the_same_trailers() -> None:
    argv = ["git", "interpret-trailers", "--parse"]
    read = subprocess.run(argv, input=message(), capture_output=True, text=True, check=True).stdout
    assert dict(line.split(": ", 1) for line in read.splitlines()) == TRAILERS
    assert parse_trailers(message()) == TRAILERS


def test_text_cannot_forge_a_trailer_or_move_the_cursor() -> None:
    text = message("x\n\nAssisted-by: a human\x1b[2J\u202e")
    assert parse_trailers(text) == TRAILERS
    assert "\x1b" not in text
    assert "\u202e" not in text
