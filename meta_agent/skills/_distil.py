"""Turns a verdict into a lesson: what was observed and changed, and what came of it, with the code.

Promises: only settled verdicts teach. A promotion writes a positive skill. An INVALID
verdict, and a rejection whose interval excludes any gain, write a negative one. INCONCLUSIVE
verdicts write none, nor do candidates that were merely ranked out. Every number is from the
verdict or the evidence it rested on.
Not covered: whether a lesson carries over to another domain; its status says
that it has not been tried there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Final

from meta_agent.core.protocols import JSON, Candidate, Effect, Hypothesis, Verdict, VerdictKind
from meta_agent.core.skills import SkillDraft, SkillKind
from meta_agent.llm_clients.scrubber import without_keys
from meta_agent.readers.evidence import metric_of
from meta_agent.skills._validate import MAX_DESCRIPTION
from meta_agent.skills.looking import Watch

PATCH: Final = "edit.patch"
CHECK: Final = "scripts/check.py"
MEASURED: Final = "references/measured.md"
_MAX_ROWS = 60
_NAMED: Final = re.compile(r"\b(?P<name>[a-z_]+(?:\.\w+)+) is (?P<value>-?\d+(?:\.\d+)?)")
_HYPOTHESIS = re.compile(r"if (?P<does>.+?) then .+", re.IGNORECASE)
_CHECK = (
    "`python3 scripts/check.py ROLLOUTS` looks for the sign of it in rollouts of any form that "
    "`meta-agent report` reads ([scripts/check.py](scripts/check.py)): exit 0 where all was looked "
    "at and nothing shows, 1 where it shows, 3 where it could not look."
)


def distil(
    candidate: Candidate,
    verdict: Verdict,
    diff: str,
    evidence: Mapping[str, JSON],
    *,
    domain: str,
    trusted_text: bool = True,
) -> SkillDraft | None:
    """Returns the lesson of a verdict as a skill, or None if the verdict settles nothing.

    Args:
        diff: the candidate's change as a patch.
        evidence: the evidence that the proposer read, as JSON; its numbers go into a table.
        trusted_text: False if a language model wrote the hypothesis; the skill is then quarantined.
    """
    kind = lesson_kind(verdict)
    if kind is None:
        return None
    signs = watches_for(candidate.hypothesis, evidence)
    metric = signs[0].metric
    return SkillDraft(
        title=_title(candidate, kind, domain),
        description=_description(candidate, verdict, kind, domain, metric),
        body=without_keys(_body(candidate, verdict, kind, domain, metric)),
        metadata={
            **_metadata(candidate, verdict, kind, domain, trusted_text),
            "watches": "; ".join(watch.text for watch in signs),
        },
        files={
            PATCH: without_keys(diff),
            CHECK: files("meta_agent.skills").joinpath("check.py").read_text("utf-8"),
            MEASURED: without_keys(_measured(candidate, verdict, evidence)),
        },
    )


def lesson_kind(verdict: Verdict) -> SkillKind | None:
    """Returns "positive" if a verdict teaches an edit to repeat, "negative" to avoid, else None."""
    if verdict.screened_out or verdict.kind is VerdictKind.INCONCLUSIVE:
        return None
    if verdict.kind is VerdictKind.PROMOTE:
        return "positive"
    if verdict.kind is VerdictKind.INVALID:
        return "negative"
    return "negative" if verdict.effect is not None and verdict.effect.ci_high <= 0 else None


def _title(candidate: Candidate, kind: SkillKind, domain: str) -> str:
    words = ["avoid"] if kind == "negative" else []
    words += [candidate.hypothesis.rule or candidate.factor]
    slug = re.sub(r"[^a-z0-9]+", "-", "-".join([domain, *words]).lower())
    return slug.strip("-")


def _description(
    candidate: Candidate, verdict: Verdict, kind: SkillKind, domain: str, metric: str
) -> str:
    hypothesis = candidate.hypothesis
    symptom = hypothesis.evidence[0] if hypothesis.evidence else f"{hypothesis.metric} is poor"
    lead = "Do not repeat" if kind == "negative" else "Proven change"
    text = (
        f"{lead} ({candidate.factor} of a {domain} harness). {_general(metric, kind)}Example: "
        f"{tried(hypothesis.statement)}. Measured: {verdict.kind}{_delta_words(verdict.effect)}. "
        f"Use when diagnosing {domain} and you see: {symptom}"
    )
    plain = without_keys(" ".join(text.split())).replace("<", "under ").replace(">", "over ")
    return plain[:MAX_DESCRIPTION].strip()


def _delta_words(effect: Effect | None) -> str:
    if effect is None:
        return ""
    low, high = 100 * effect.ci_low, 100 * effect.ci_high
    points = f"{100 * effect.delta:+.1f} points [{low:+.1f}, {high:+.1f}]"
    return f", clean success {points}{effect.selected}"


def _metadata(
    candidate: Candidate, verdict: Verdict, kind: SkillKind, domain: str, trusted_text: bool
) -> dict[str, str]:
    return {
        "kind": kind,
        "status": "domain" if trusted_text else "quarantine",
        "domain": domain,
        "factor": candidate.factor,
        "rule": candidate.hypothesis.rule,
        "metric": candidate.hypothesis.metric,
        "run": candidate.run,
        "candidate": candidate.id,
        "commit": candidate.commit,
        "base": candidate.base,
        "verdict": str(verdict.kind),
        "delta": f"{verdict.effect.delta:+.4f}" if verdict.effect else "",
    }


def _body(candidate: Candidate, verdict: Verdict, kind: SkillKind, domain: str, sign: str) -> str:
    hypothesis = candidate.hypothesis
    sections = {
        "Lesson": _lesson(candidate, verdict, kind, domain, sign),
        "Trigger": _bullets(tuple(map(_explained, hypothesis.evidence)))
        or f"`{hypothesis.metric}` is the bottleneck.",
        "Intervention": _intervention(candidate, kind),
        "Expected outcome": (
            f"Foretold, and not measured here: `{hypothesis.metric}` goes {hypothesis.direction} "
            f"by about {abs(hypothesis.expected_delta):.3g}. At risk: "
            f"{'; '.join(hypothesis.risks) or 'nothing was named'}."
        ),
        "Evidence": (
            f"{verdict.kind}{_delta_words(verdict.effect)}.\n\n{_bullets(verdict.reasons)}\n\n"
            "All numbers: [references/measured.md](references/measured.md)."
        ),
        "Check": _CHECK,
        "Validation": _validation(candidate, kind),
        "Applicability": (
            f"Measured on `{domain}`, factor `{candidate.factor}`, from commit "
            f"`{candidate.base[:12]}`. Not tried elsewhere."
        ),
    }
    head = _title(candidate, kind, domain).replace("-", " ")
    return "\n\n".join([f"# {head}", *(f"## {k}\n\n{v}" for k, v in sections.items())])


def _intervention(candidate: Candidate, kind: SkillKind) -> str:
    paths = ", ".join(f"`{path}`" for path in candidate.paths)
    negative = kind == "negative"
    verb = "This was tried and must not be repeated" if negative else "Do this"
    apply = "Do not apply it again." if negative else f"`git apply {PATCH}` applies it."
    return (
        f"{verb}: {tried(candidate.hypothesis.statement)}.\n\nIt touches {paths}. "
        f"[{PATCH}]({PATCH}) holds the edit; run git in the harness's folder. {apply} "
        f"`git apply --check -R {PATCH}` succeeds where a harness has it, and `git apply -R` takes "
        "it out."
    )


def tried(statement: str) -> str:
    """Returns what stands between `if` and `then` in a statement, or else the whole statement."""
    match = _HYPOTHESIS.fullmatch(_sentence(statement))
    return match["does"].rstrip(",") if match else _sentence(statement)


def _lesson(
    candidate: Candidate, verdict: Verdict, kind: SkillKind, domain: str, metric: str
) -> str:
    """Returns the lesson in general: the metric that the edit aimed at, and what was measured."""
    came = f"On {domain} this was measured: {tried(candidate.hypothesis.statement)}"
    judged = f"{verdict.kind}{_delta_words(verdict.effect)}"
    rest = "It is no answer to that sign." if kind == "negative" else "Look for that sign first."
    return f"{_general(metric, kind)}{came}: {judged}. Why it was so is not measured. {rest}"


def _general(metric: str, kind: SkillKind) -> str:
    """Returns what the metric hints at and what to do about it; empty for an unknown metric."""
    meant = metric_of(metric)
    sign = f"The sign: {meant.says} " if meant.says else ""
    return sign + (f"{meant.then} " if meant.then and kind == "positive" else "")


def _explained(line: str) -> str:
    """Returns a line of evidence. If it names a metric, the metric's meaning follows."""
    match = re.fullmatch(r"([a-z_]+(?:\.\w+)+) is \S+", line.strip())
    what = metric_of(match[1]).says if match else ""
    return f"{line}: {what[0].lower()}{what[1:]}" if what else line


def _validation(candidate: Candidate, kind: SkillKind) -> str:
    if kind == "negative":
        return (
            "Before proposing something alike, say what is different now; then measure paired, and "
            "check validity (leak use, tampering, shaped against true reward) before the score."
        )
    return (
        "Measure paired by task, sample and seed against the base. "
        f"`{candidate.hypothesis.metric}` must move as predicted and clean success must "
        "not fall. Undo it otherwise."
    )


def watches_for(hypothesis: Hypothesis, evidence: Mapping[str, JSON]) -> list[Watch]:
    """Returns watches of the metrics that a hypothesis cites and that are beyond their limits.

    If none is, returns one for the hypothesis's metric, with its alert limit or present value.
    """
    metric, value = hypothesis.metric, _value_of(hypothesis.metric, evidence)
    values = {metric: value} if value is not None else {}
    for match in _NAMED.finditer("\n".join(hypothesis.evidence)):
        values[match["name"]] = float(match["value"])
    cited = ((name, metric_of(name)) for name in values)
    watches = [Watch(name, m.side, m.limit) for name, m in cited if m.limit is not None]
    aimed_at, side = metric_of(metric), "above" if hypothesis.direction == "down" else "below"
    limit = aimed_at.limit if aimed_at.limit is not None and aimed_at.side == side else value
    return [watch for watch in watches if watch.is_beyond(values[watch.metric])] or [
        Watch(metric, side, limit)
    ]


def _value_of(metric: str, evidence: Mapping[str, JSON]) -> float | None:
    layer, _, name = metric.partition(".")
    value: float | None = (evidence.get("layers", evidence).get(layer) or {}).get(name)
    return value


def _measured(candidate: Candidate, verdict: Verdict, evidence: Mapping[str, JSON]) -> str:
    rows = [("verdict", str(verdict.kind)), ("base", candidate.base), ("commit", candidate.commit)]
    if verdict.effect is not None:
        effect = verdict.effect
        rows += [("delta (share)", f"{effect.delta:+.4f}"), ("pairs", str(effect.pairs))]
        rows += [("interval", f"[{effect.ci_low:+.4f}, {effect.ci_high:+.4f}]")]
        rows += [("training seeds", str(effect.training_seeds))]
        if effect.shrunk is not None:
            rows += [("likelier, allowing for selection", f"{effect.shrunk:+.4f}")]
    rows += list(_scalars("verdict", verdict.evidence)) + list(_scalars("before", evidence))
    lines = [f"| {_cell(name)} | {_cell(value)} |" for name, value in rows[:_MAX_ROWS]]
    return "\n".join(
        [
            f"# Measured: {candidate.id}",
            "",
            _sentence_of(candidate, verdict),
            "",
            "| what | value |",
            "|---|---|",
            *lines,
            "",
        ]
    )


def _sentence_of(candidate: Candidate, verdict: Verdict) -> str:
    judged = f"{verdict.kind}{_delta_words(verdict.effect)}"
    because = "; ".join(verdict.reasons[:2]) or "no reason was recorded"
    return f"{tried(candidate.hypothesis.statement)}: {judged}: {' '.join(because.split())}."


def _scalars(prefix: str, value: JSON) -> Iterator[tuple[str, str]]:
    """Yields all numbers and flags at any depth, in sorted order, under dotted names."""
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield from _scalars(f"{prefix}.{key}", value[key])
    elif isinstance(value, bool | int | float):
        yield prefix, f"{value:.6g}" if isinstance(value, float) else str(value)


def _bullets(items: tuple[str, ...]) -> str:
    return "\n".join(f"- {' '.join(item.split())}" for item in items)


def _sentence(text: str) -> str:
    return " ".join(text.split()).rstrip(".")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "/")
