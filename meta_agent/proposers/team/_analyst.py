"""The analyst: reads the evidence, finds the bottleneck, and writes down what would move it.

Promises: what it hands over has a factor of this harness, a metric that exists, a finite predicted
move in the stated direction, and quotations that stand in the files they are said to be from.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from meta_agent.core.proposals import Grant
from meta_agent.core.protocols import JSON, Hypothesis
from meta_agent.proposers.team._case import AuthorCase, skills_in
from meta_agent.proposers.team._dialogue import Dialogue, Line
from meta_agent.proposers.team._experiments import INLINE, Experiments, inline
from meta_agent.proposers.team._fence import Fence, visible
from meta_agent.proposers.team._file_tools import reading_tools
from meta_agent.proposers.team._tools import (
    NUMBER,
    TEXT,
    TEXTS,
    WHOLE,
    Arguments,
    Done,
    Tool,
    ToolError,
    line_of,
    lines_of,
    number_of,
    text_of,
    tool,
    whole_of,
)

_STATEMENT, _PLAN, _QUOTE, _RISK, _NOTE = 500, 4000, 300, 300, 1500
_QUOTES, _RISKS = 12, 6
_DELTAS = 1.0
_QUOTED: JSON = {
    "type": "object",
    "properties": {"path": TEXT, "line": WHOLE, "quote": TEXT},
    "required": ["path", "line", "quote"],
}


@dataclass(frozen=True, slots=True)
class Idea:
    """A hypothesis, and a plan for the language model that shall turn it into a candidate."""

    hypothesis: Hypothesis
    plan: str


@dataclass(frozen=True, slots=True)
class Analysis:
    """An analyst's result: ideas, best first, or in `nothing` the reason why there are none."""

    ideas: tuple[Idea, ...] = ()
    nothing: str = ""
    noted: str = ""
    """For the analysts of later generations."""


def analyst_dialogue(case: AuthorCase, line: Line, grant: Grant | None = None) -> Dialogue:
    """Returns the dialogue in which a model reads the evidence; its `run()` returns an `Analysis`.

    `case.brief.k` limits the number of ideas, `grant` the attempts that experiments may use.
    """
    brief, fence = case.brief, line.fence
    edit = inline(brief.tree)
    lent = grant or Grant()
    experiments = Experiments(brief.host, lent, fence, edit, INLINE, case.keep)
    values = {**case.values(), **_opening(case, fence), **experiments.values()}
    opened = set[str]()
    submission = _Submission(case, fence, opened)
    tools = [*reading_tools(case.files, fence, opened), *experiments.tools()]
    tools += [submission.submit_tool(), submission.correct_tool()]
    if not brief.invalid:
        tools.append(_NOTHING)
    return line.dialogue(values, tools)


def _opening(case: AuthorCase, fence: Fence) -> Mapping[str, JSON]:
    brief = case.brief
    headline = case.evidence.get("report.md", b"").decode("utf-8", "replace")
    findings = [f"{f.severity}: {f.code}: {f.message}" for f in brief.findings]
    return {
        "headline": fence.wrap("headline and alerts of evidence/report.md", _head(headline)),
        "findings": fence.wrap("validity findings", "\n".join(findings)) if findings else "",
        "readme": fence.wrap("evidence/README.md", case.evidence.get("README.md", b"").decode()),
        "calibration": _calibration(case),
    }


def _head(report: str) -> str:
    """Returns the report up to its first layer: validity, the score and the alerts."""
    return report.split("\n\nscore\n")[0][:4000]


def _calibration(case: AuthorCase) -> str:
    text = case.evidence.get("calibration.md", b"").decode("utf-8", "replace")
    lines = [line for line in text.splitlines() if line and line[0] not in "#|"]
    return visible(" ".join(lines))


def _hypothesis_schema(case: AuthorCase) -> JSON:
    return {
        "type": "object",
        "properties": {
            "factor": {"type": "string", "enum": list(case.factors)},
            "statement": {
                **TEXT,
                "description": f"if ... then ... because ..., up to {_STATEMENT} letters",
            },
            "metric": {**TEXT, "description": "clean_success, or a full name of metrics.csv"},
            "direction": {"type": "string", "enum": ["up", "down"]},
            "expected_delta": {**NUMBER, "description": "change of the metric; a share for rates"},
            "at_risk": {
                **TEXTS,
                "description": f"what it may break: up to {_RISKS}, each up to {_RISK} letters",
            },
            "evidence": {"type": "array", "items": _QUOTED, "minItems": 1, "maxItems": _QUOTES},
            "plan": {**TEXT, "description": "for the engineer: where, what, and what to leave"},
            "masked_by": {
                **WHOLE,
                "description": "the number of the hypothesis without which this one shows nothing",
            },
        },
        "required": [
            "factor",
            "statement",
            "metric",
            "direction",
            "expected_delta",
            "evidence",
            "plan",
        ],
    }


@dataclass(slots=True)
class _Submission:
    """The hypotheses handed over so far. A wrong quotation is corrected by a call of its own."""

    case: AuthorCase
    fence: Fence
    opened: set[str]
    _rows: list[dict[str, JSON]] = field(default_factory=list)
    _noted: str = ""

    def submit_tool(self) -> Tool:
        items = _hypothesis_schema(self.case)
        return tool(
            "submit_hypotheses",
            f"Hands over 1 to {self.case.brief.k} hypotheses, strongest first, and ends the "
            "analysis.",
            {
                "hypotheses": {"type": "array", "items": items, "minItems": 1},
                "noted": {**TEXT, "description": f"for later analysts, up to {_NOTE} letters"},
            },
            self._submit,
            optional=("noted",),
        )

    def correct_tool(self) -> Tool:
        return tool(
            "correct_quotation",
            "Replaces one line of evidence that was refused in what was handed over; everything "
            "else stays as it is.",
            {"hypothesis": WHOLE, "number": WHOLE, **_QUOTED["properties"]},
            self._correct,
        )

    def _submit(self, arguments: Arguments) -> str:
        self._rows = []
        rows = _rows(self.case, arguments)
        self._noted = visible(text_of(arguments, "noted", default="").strip()[:_NOTE])
        self._rows = rows
        return self._finish()

    def _correct(self, arguments: Arguments) -> str:
        if not self._rows:
            raise ToolError("there is no quotation to correct: call submit_hypotheses")
        at = whole_of(arguments, "hypothesis", default=1)
        number = whole_of(arguments, "number", default=1)
        lines = self._rows[at - 1]["evidence"] if at <= len(self._rows) else []
        if number > len(lines):
            raise ToolError(f"hypothesis {at} has {len(lines)} lines of evidence, not {number}")
        lines[number - 1] = {name: arguments.get(name) for name in _QUOTED["properties"]}
        return self._finish()

    def _finish(self) -> str:
        """Ends the analysis, or raises ToolError that lists the wrong quotations."""
        wrong = [
            f"hypothesis {at}: line {number} of its evidence: {why}"
            for at, row in enumerate(self._rows, start=1)
            for number, why in self._misquoted(row)
        ]
        if wrong:
            instruction = "All else is kept: fix each such line with correct_quotation"
            raise ToolError("\n".join([*wrong, instruction]))
        raise Done(Analysis(tuple(_ideas(self.case, self._rows, self.opened)), noted=self._noted))

    def _misquoted(self, row: Mapping[str, JSON]) -> Iterator[tuple[int, str]]:
        for number, quotation in enumerate(row["evidence"], start=1):
            try:
                _quotation(self.case, quotation)
            except ToolError as error:
                yield number, f"{error}{self._as_it_stands(quotation)}"

    def _as_it_stands(self, quotation: JSON) -> str:
        """Returns the line of the file that a quotation names, marked as data, or ""."""
        if not isinstance(quotation, dict) or not isinstance(path := quotation.get("path"), str):
            return ""
        try:
            line = self.case.files.read(path, whole_of(quotation, "line", default=1), 1)
        except ToolError:
            return ""
        return f"\n{self.fence.wrap(path, line.split(chr(10))[0][:_QUOTE])}"


def _give_up(arguments: Arguments) -> str:
    raise Done(Analysis(nothing=visible(line_of(arguments, "reason", _STATEMENT))))


_NOTHING = tool(
    "nothing_to_try",
    "Hands over no hypothesis and ends the search: no change of this harness could bring a gain "
    "that this run can see.",
    {"reason": {**TEXT, "description": f"what rules it out, up to {_STATEMENT} letters"}},
    _give_up,
)


def _rows(case: AuthorCase, arguments: Arguments) -> list[dict[str, JSON]]:
    """Returns copies of the hypotheses in a call, checked in all but their quotations."""
    hypotheses = arguments.get("hypotheses")
    if not isinstance(hypotheses, list) or not hypotheses:
        raise ToolError("'hypotheses' must be a list with at least one object")
    rows = []
    for number, row in enumerate(hypotheses[: case.brief.k], start=1):
        try:
            _idea(case, row)
            rows.append({**row, "evidence": _lines(row)})
            _mask(hypotheses[: case.brief.k], row, number)
        except ToolError as error:
            raise ToolError(
                f"hypothesis {number}: {error}. Nothing was taken; hand over all of them again"
            ) from error
    return rows


def _ideas(case: AuthorCase, rows: Sequence[Mapping[str, JSON]], opened: set[str]) -> list[Idea]:
    ideas: dict[str, Idea] = {}
    for number, row in enumerate(rows, start=1):
        idea = _idea(case, row)
        hypothesis = replace(
            idea.hypothesis,
            evidence=tuple(_quotation(case, quotation) for quotation in row["evidence"]),
            skills=skills_in(opened),
            risks=(*_masked(case, rows, row, number), *idea.hypothesis.risks),
        )
        ideas.setdefault(hypothesis.statement, Idea(hypothesis, idea.plan))
    return list(ideas.values())


def idea_of(case: AuthorCase, row: JSON) -> Idea:
    """Returns the idea in a JSON object that a model wrote. Raises ToolError if it is not valid."""
    idea = _idea(case, row)
    evidence = tuple(_quotation(case, quotation) for quotation in _lines(row))
    return replace(idea, hypothesis=replace(idea.hypothesis, evidence=evidence))


def _mask(rows: Sequence[JSON], row: Mapping[str, JSON], number: int) -> int | None:
    """Validates `masked_by` of a row: the number of the hypothesis to apply first, or None."""
    if row.get("masked_by") is None:
        return None
    other = whole_of(row, "masked_by", default=number)
    if other == number or other > len(rows):
        raise ToolError(
            f"masked_by is {other}, but must number another of the {len(rows)} hypotheses"
        )
    return other


def _masked(
    case: AuthorCase, rows: Sequence[Mapping[str, JSON]], row: Mapping[str, JSON], number: int
) -> tuple[str, ...]:
    """Returns the risk that names the hypothesis which masks this one, or nothing."""
    other = _mask(rows, row, number)
    if other is None:
        return ()
    return (f"shows nothing without: {_idea(case, rows[other - 1]).hypothesis.statement}",)


def _idea(case: AuthorCase, row: JSON) -> Idea:
    if not isinstance(row, dict):
        raise ToolError("a hypothesis must be an object")
    factor = text_of(row, "factor")
    if factor not in case.factors:
        raise ToolError(f"factor must be one of {', '.join(case.factors)}, not {factor!r}")
    direction, delta = move(row)
    plan = text_of(row, "plan", default="")[:_PLAN]
    hypothesis = Hypothesis(
        factor=next(name for name in case.factors if name == factor),
        statement=visible(line_of(row, "statement", _STATEMENT)),
        metric=_metric(case, factor, row),
        direction=direction,
        expected_delta=delta,
        risks=tuple(visible(risk) for risk in lines_of(row, "at_risk", most=_RISKS, limit=_RISK)),
    )
    return Idea(hypothesis, plan)


def move(row: Arguments) -> tuple[Literal["up", "down"], float]:
    """Returns a metric's predicted direction and change; the change is negative for "down".

    Raises ToolError if the direction is unknown or the change is 0.
    """
    direction = text_of(row, "direction")
    size = abs(number_of(row, "expected_delta"))
    if direction not in ("up", "down"):
        raise ToolError(f"direction must be up or down, not {direction!r}")
    if size == 0 or not math.isfinite(size):
        raise ToolError("expected_delta is 0, which cannot be wrong; give another number")
    return ("up", size) if direction == "up" else ("down", -size)


def _metric(case: AuthorCase, factor: str, row: Arguments) -> str:
    name = line_of(row, "metric", 160).removeprefix("score.")
    evidence = case.brief.evidence
    new = factor == "diagnostics" and name.startswith("measured.") and name.count(".") >= 2
    if name != "clean_success" and evidence.metric(name) is None and not new:
        hint = " (a new one is measured.NAME.VALUE)" if factor == "diagnostics" else ""
        raise ToolError(f"no metric is named {name!r}; evidence/metrics.csv has all names{hint}")
    if name == "clean_success" and abs(number_of(row, "expected_delta")) > _DELTAS:
        raise ToolError("expected_delta of clean_success is at most 1: 0.05 means 5 points")
    return visible(name)


def _lines(row: Arguments) -> list[JSON]:
    rows = row.get("evidence")
    if not isinstance(rows, list) or not rows:
        raise ToolError("'evidence' must be a list of {path, line, quote}")
    return rows[:_QUOTES]


def _quotation(case: AuthorCase, row: JSON) -> str:
    if not isinstance(row, dict):
        raise ToolError("a line of evidence must be {path, line, quote}")
    path, quote = text_of(row, "path").removeprefix("./"), line_of(row, "quote", _QUOTE)
    at = case.files.where(path, quote, whole_of(row, "line", default=1))
    if at is None:
        raise ToolError(f"{path} has no line with {quote[:80]!r}: quote it exactly")
    return visible(f"{path}:{at}: {quote}")
