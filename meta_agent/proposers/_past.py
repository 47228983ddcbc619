"""Evidence pages about the past: every hypothesis with its verdict, and how good predictions were.

Failures stand beside successes: an idea that was refused or rejected is the cheapest thing to learn
from. Names of the current run are short (`g0/c1`); those of earlier runs carry the run's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from meta_agent.core.proposals import PastAttempt
from meta_agent.core.protocols import Hypothesis
from meta_agent.proposers._transcript import clipped, number

_REASON_CHARS = 400


def history_page(past: Sequence[PastAttempt], noted: Sequence[tuple[str, str]] = ()) -> str:
    """Returns the page `history.md`: every earlier hypothesis with its verdict, the newest last.

    `noted` holds pairs: a generation's name, and what its analyst (a language model) wrote down.
    """
    if not past and not noted:
        return "# History\n\nNothing has been tried in this workspace yet.\n"
    parts = ["# History: every hypothesis of this workspace, oldest first", ""]
    for generation, text in noted:
        parts += [f"## Noted by the analyst of {generation}", text, ""]
    for attempt in past:
        parts += [*_entry(attempt), ""]
    return "\n".join(parts).rstrip() + "\n"


def _entry(attempt: PastAttempt) -> Iterable[str]:
    base = "from the version under study" if attempt.same_base else "from another version"
    ranked = " (ranked out, never tested on the confirm split)" if attempt.screened_out else ""
    yield f"## {attempt.name}: {attempt.verdict}{ranked}"
    yield f"- hypothesis: {clipped(attempt.statement, 600)}"
    if attempt.hypothesis is not None:
        hypothesis = attempt.hypothesis
        yield f"- factor {hypothesis.factor}, {base}; files: {', '.join(attempt.paths)}"
        predicted = number(hypothesis.expected_delta)
        yield f"- predicted: {hypothesis.metric} {hypothesis.direction} by {predicted}"
        realised = "not measured" if attempt.realised is None else number(attempt.realised)
        yield f"- realised: {realised}"
    if attempt.delta is not None:
        low, high = number(attempt.delta[1]), number(attempt.delta[2])
        yield f"- clean success: {number(attempt.delta[0])} [{low}, {high}]"
    for reason in attempt.reasons:
        yield f"- because: {clipped(' '.join(reason.split()), _REASON_CHARS)}"
    if attempt.caveat:
        yield f"- note: {attempt.caveat}"
    if attempt.diff:
        yield f"- its diff: evidence/history/{file_name(attempt)}"


def file_name(attempt: PastAttempt) -> str:
    """Returns the name of the file for an earlier candidate's diff, such as `g0-c2.diff`."""
    return attempt.name.replace("/", "-") + ".diff"


def calibration_page(past: Sequence[PastAttempt]) -> str:
    """Returns the page `calibration.md`: a table of hypotheses' predicted and measured changes."""
    rows = [_row(*prediction) for prediction in _scored(past)]
    if not rows:
        return "# Calibration\n\nNo prediction has been scored yet.\n"
    head = ["| candidate | metric | predicted | realised | verdict |", "|---|---|---|---|---|"]
    return "\n".join(["# Calibration", "", calibration_line(past), "", *head, *rows, ""])


def calibration_line(past: Sequence[PastAttempt]) -> str:
    """Returns sentences that compare predicted with measured changes, or say there are none."""
    pairs = [(hypothesis, realised) for _, hypothesis, realised in _scored(past)]
    if not pairs:
        return "No prediction has been scored yet."
    right = sum(_right(hypothesis, realised) for hypothesis, realised in pairs)
    head = f"{len(pairs)} predictions scored: {right} moved in the predicted direction."
    scores = [
        (hypothesis, moved) for hypothesis, moved in pairs if hypothesis.metric == "clean_success"
    ]
    return f"{head} {_means(scores)}" if scores else head


def _scored(past: Sequence[PastAttempt]) -> list[tuple[PastAttempt, Hypothesis, float]]:
    """Returns the attempts whose prediction was measured, each with hypothesis and change."""
    return [
        (attempt, attempt.hypothesis, attempt.realised)
        for attempt in past
        if attempt.hypothesis is not None and attempt.realised is not None
    ]


def _means(pairs: Sequence[tuple[Hypothesis, float]]) -> str:
    """Compares predicted with realised moves of clean success, in the predicted direction."""
    predicted = sum(abs(hypothesis.expected_delta) for hypothesis, _ in pairs) / len(pairs)
    came = sum(
        moved if hypothesis.direction == "up" else -moved for hypothesis, moved in pairs
    ) / len(pairs)
    return (
        f"The {len(pairs)} of clean success predicted {number(predicted)} on average; "
        f"{number(came)} came in that direction."
    )


def _right(hypothesis: Hypothesis, realised: float) -> bool:
    return realised > 0 if hypothesis.direction == "up" else realised < 0


def _row(attempt: PastAttempt, hypothesis: Hypothesis, realised: float) -> str:
    predicted = number(hypothesis.expected_delta)
    cells = [attempt.name, hypothesis.metric, predicted, number(realised), attempt.verdict]
    return f"| {' | '.join(cells)} |"
