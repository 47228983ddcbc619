"""Commit messages that tell a stranger what was tried, why, and what effect was expected.

Promises: Conventional Commits with a first line of at most 72 characters, prose wrapped for a
terminal, and trailers (`Key: value` lines at the end) that `git interpret-trailers` reads. Text
from evidence cannot forge a trailer or smuggle in a control character.
Does not cover: verdicts; they come after the commit and become notes.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping

from meta_agent.core.parsing.unseen import unseen
from meta_agent.core.protocols import Hypothesis

_SUBJECT_CHARS, _WIDTH = 72, 88


def candidate_message(hypothesis: Hypothesis, *, subject: str, trailers: Mapping[str, str]) -> str:
    """Returns a candidate's commit message: `subject` in its first line, then the hypothesis."""
    title = _one_line(f"feat({hypothesis.label}): {subject}")
    parts = [
        textwrap.shorten(title, _SUBJECT_CHARS, placeholder=" ..."),
        _paragraph("Hypothesis", hypothesis.statement),
        _bullets("Evidence", hypothesis.evidence),
        _paragraph("Expected effect", _effect(hypothesis)),
        _bullets("Risks", hypothesis.risks),
        _bullets("Skills used", hypothesis.skills),
    ]
    return with_trailers("\n\n".join(part for part in parts if part), trailers)


def standard_trailers(
    *, run: str, candidate: str, factor: str, hypothesis: str, assisted_by: str
) -> dict[str, str]:
    """Returns the trailers (`Key: value` lines) of each candidate's and merge's commit message."""
    return {
        "Meta-Agent-Run": run,
        "Meta-Agent-Candidate": candidate,
        "Meta-Agent-Factor": factor,
        "Meta-Agent-Hypothesis": hypothesis,
        "Assisted-by": assisted_by,
    }


def with_trailers(message: str, trailers: Mapping[str, str]) -> str:
    """Returns the message, followed by a `Key: value` line for each trailer that is not empty."""
    lines = [f"{key}: {_one_line(value)}" for key, value in trailers.items() if value]
    body = plain(message).rstrip()
    return "\n".join([body, "", *lines, ""]) if lines else f"{body}\n"


def parse_trailers(message: str) -> dict[str, str]:
    """Returns the `Key: value` lines of a message's last paragraph; {} if it has other lines."""
    last = message.rstrip().rpartition("\n\n")[2].splitlines()
    pairs = [line.partition(": ") for line in last]
    if not all(separator and " " not in key for key, separator, _ in pairs):
        return {}
    return {key: value for key, _, value in pairs}


def plain(text: str) -> str:
    """Returns a text without invisible and control characters. Newlines and tabs stay."""
    return "".join(c for c in text.replace("\r\n", "\n") if c in "\n\t" or not unseen(c))


def _effect(hypothesis: Hypothesis) -> str:
    sign = "+" if hypothesis.direction == "up" else "-"
    return (
        f"{hypothesis.metric} goes {hypothesis.direction} by {sign}"
        f"{abs(hypothesis.expected_delta):.3g}"
    )


def _paragraph(title: str, text: str) -> str:
    return textwrap.fill(f"{title}: {_one_line(text)}", _WIDTH) if text else ""


def _bullets(title: str, items: Iterable[str]) -> str:
    lines = [
        textwrap.fill(_one_line(item), _WIDTH, initial_indent="- ", subsequent_indent="  ")
        for item in items
    ]
    return "\n".join([f"{title}:", *lines]) if lines else ""


def _one_line(text: str) -> str:
    return " ".join(plain(text).split())
