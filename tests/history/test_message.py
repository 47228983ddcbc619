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


def test_the_first_line_is_a_short_conventional_commit() -> None:
    first = message("allow more turns " * 10).splitlines()[0]
    assert first.startswith("feat(scaffold): allow more turns")
    assert len(first) <= 72


def test_hypothesis_evidence_and_effect_are_told() -> None:
    text = message()
    assert "Hypothesis: if the agent may take more turns" in text
    assert "- 42 % of attempts stop at the turn limit" in text
    assert "Expected effect: clean_success goes up by +0.05" in text
    assert "- raise-the-turn-limit" in text
    assert max(len(line) for line in text.splitlines()) <= 88


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
