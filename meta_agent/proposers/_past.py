"""What was tried before: every hypothesis and what came of it, and how predictions did.

Failures stand beside successes: an idea that was refused or rejected is the cheapest thing to learn
from. Names of the running run are short (`g0/c1`); those of earlier runs carry the run's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from meta_agent.core.proposals import PastAttempt
from meta_agent.core.protocols import Hypothesis
from meta_agent.proposers._transcript import clipped, number

_REASON_CHARS = 400


def history_page(past: Sequence[PastAttempt], noted: Sequence[tuple[str, str]] = ()) -> str:
    """`history.md`, newest last. `noted`: by generation, what its analyst wrote down."""
    if not past and not noted:
        return "# History\n\nNothing has been tried in this workspace yet.\n"
    parts = ["# History: every hypothesis of this workspace, oldest first", ""]
    for generation, text in noted:
        parts += [f"## Noted by the analyst of {generation}", text, ""]
    for one in past:
        parts += [*_entry(one), ""]
    return "\n".join(parts).rstrip() + "\n"


def _entry(one: PastAttempt) -> Iterable[str]:
    base = "from the version under study" if one.same_base else "from another version"
    ranked = " (ranked out, never tested on the confirm split)" if one.screened_out else ""
    yield f"## {one.name}: {one.verdict}{ranked}"
    yield f"- hypothesis: {clipped(one.statement, 600)}"
    if one.hypothesis is not None:
        told = one.hypothesis
        yield f"- factor {told.factor}, {base}; files: {', '.join(one.paths)}"
        yield f"- predicted: {told.metric} {told.direction} by {number(told.expected_delta)}"
        realised = "not measured" if one.realised is None else number(one.realised)
        yield f"- realised: {realised}"
    if one.delta is not None:
        low, high = number(one.delta[1]), number(one.delta[2])
        yield f"- clean success: {number(one.delta[0])} [{low}, {high}]"
    for reason in one.reasons:
        yield f"- because: {clipped(' '.join(reason.split()), _REASON_CHARS)}"
    if one.caveat:
        yield f"- note: {one.caveat}"
    if one.diff:
        yield f"- its diff: evidence/history/{file_name(one)}"


def file_name(one: PastAttempt) -> str:
    """The name of the file that holds its diff."""
    return one.name.replace("/", "-") + ".diff"


def calibration_page(past: Sequence[PastAttempt]) -> str:
    """`calibration.md`: the summary first, then a row per prediction that could be scored."""
    scored = [one for one in past if one.hypothesis is not None and one.realised is not None]
    if not scored:
        return "# Calibration\n\nNo prediction has been scored yet.\n"
    rows = [_row(one) for one in scored]
    head = ["| candidate | metric | predicted | realised | verdict |", "|---|---|---|---|---|"]
    return "\n".join(["# Calibration", "", calibration_line(past), "", *head, *rows, ""])


def calibration_line(past: Sequence[PastAttempt]) -> str:
    """How good predictions have been, in one or two sentences."""
    pairs = [
        (one.hypothesis, one.realised)
        for one in past
        if one.hypothesis is not None and one.realised is not None
    ]
    if not pairs:
        return "No prediction has been scored yet."
    right = sum(_right(told, realised) for told, realised in pairs)
    head = f"{len(pairs)} predictions scored: {right} moved in the predicted direction."
    scores = [(told, moved) for told, moved in pairs if told.metric == "clean_success"]
    return f"{head} {_means('of clean success', scores)}".strip()


def _means(what: str, pairs: Sequence[tuple[Hypothesis, float]]) -> str:
    """Predicted against realised moves, both counted in the predicted direction."""
    if not pairs:
        return ""
    predicted = sum(abs(told.expected_delta) for told, _ in pairs) / len(pairs)
    came = sum(moved if told.direction == "up" else -moved for told, moved in pairs) / len(pairs)
    return (
        f"The {len(pairs)} {what} predicted {number(predicted)} on average; {number(came)} came "
        "in that direction."
    )


def _right(told: Hypothesis, realised: float) -> bool:
    return realised > 0 if told.direction == "up" else realised < 0


def _row(one: PastAttempt) -> str:
    assert one.hypothesis is not None and one.realised is not None
    told = one.hypothesis
    cells = [one.name, told.metric, number(told.expected_delta), number(one.realised), one.verdict]
    return f"| {' | '.join(cells)} |"
