"""The evidence of a generation as files: long texts stay on disk and are read by tools.

Promises: only rollouts of the train and search splits become files. The same inputs give the same
bytes: no times, no absolute paths, floats to four digits. All files together stay below
`TOTAL_BYTES`; rollouts are left out first, and the index lists those that are present.

Does not cover: how the files are used. Policies and other models wrote the text in them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeGuard

from meta_agent.core.evidence import Evidence
from meta_agent.core.gate import Finding
from meta_agent.core.proposals import EvidenceSource
from meta_agent.core.protocols import JSON, Rollout
from meta_agent.core.skills import Skill
from meta_agent.proposers._past import calibration_page, file_name, history_page
from meta_agent.proposers._transcript import INDEX_COLUMNS, clipped, index_row, number, transcript
from meta_agent.readers.evidence import failure_mode, render_text, summarize

TOTAL_BYTES: Final = 24 << 20
PER_SPLIT: Final = 600
"""Rollouts of a split that become files, spread evenly over what there is."""
_SPLITS: Final = ("search", "train")
_UNTRAINED: Final = "untrained"
_KINDS: Final = ("search", _UNTRAINED, "train")
"""What the numbered attempts are; `untrained`: the base policy's, on the search split."""
_MOVED: Final = 30
_STILL: Final = 0.005
"""Moves below this (half a point of a rate) are not listed."""
_SHOWN_PER_MODE: Final = 6
_CLOCK: Final = re.compile(r"(^|_)(sec|secs|seconds|time|runtime|memory|mb)($|_)|per_sec")
_STORY_CHARS: Final = 700
_SAID_CHARS: Final = 80
_ASKED_CHARS: Final = 100
_SKILL_BYTES: Final = 64 << 10


def evidence_files(source: EvidenceSource) -> dict[str, bytes]:
    """Returns the evidence (metrics, attempts, history) as files, by path below `evidence/`."""
    numbered = list(_numbered(source))
    pages: dict[str, str] = {
        "report.md": _report(source),
        "metrics.csv": _metrics(source.evidence),
        "exemplars.md": _exemplars(numbered),
        "history.md": history_page(source.past, source.noted),
        "calibration.md": calibration_page(source.past),
        "rollouts/index.csv": _index(numbered),
        "rollouts/actions.md": _actions(numbered),
        "rollouts/counts.csv": _counts(numbered),
    }
    if source.untrained:
        pages["untrained.md"] = _before(source.untrained, source.evidence)
    if source.train_metrics:
        pages["training.csv"] = _training(source.train_metrics)
    pages |= {
        f"history/{file_name(attempt)}": attempt.diff for attempt in source.past if attempt.diff
    }
    pages |= dict(_skill_files(source.skills))
    pages["README.md"] = _readme(source, pages, numbered)
    files = {path: text.encode() for path, text in pages.items()}
    return files | _transcripts(numbered, TOTAL_BYTES - sum(map(len, files.values())))


# --- rollouts -----------------------------------------------------------------------------------


def _numbered(source: EvidenceSource) -> Iterable[tuple[str, Rollout]]:
    offered = {split: [row for row in source.rollouts if row.split == split] for split in _SPLITS}
    offered[_UNTRAINED] = [row for row in source.before if row.split == "search"]
    for kind in _KINDS:
        for at, rollout in enumerate(_spread(offered[kind], PER_SPLIT)):
            yield f"rollouts/{kind}-{at:04d}.md", rollout


def _kind(path: str) -> str:
    return _short(path).rpartition("-")[0]


def _spread(rollouts: list[Rollout], most: int) -> list[Rollout]:
    """Returns at most so many rows, evenly from the first to the last."""
    if len(rollouts) <= most:
        return rollouts
    return [rollouts[at * len(rollouts) // most] for at in range(most)]


def _transcripts(numbered: Sequence[tuple[str, Rollout]], room: int) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for path, rollout in numbered:
        data = transcript(rollout).encode("utf-8", "replace")
        if (room := room - len(data)) < 0:
            break
        files[path] = data
    return files


def _index(numbered: Sequence[tuple[str, Rollout]]) -> str:
    rows = [index_row(path, rollout) for path, rollout in numbered]
    return "\n".join([INDEX_COLUMNS, *rows, ""])


def _counts(numbered: Sequence[tuple[str, Rollout]]) -> str:
    """Counts how the attempts of each kind ended, by the number of turns they took."""
    counts = Counter(
        (_kind(path), failure_mode(rollout), rollout.stop_reason, rollout.turns)
        for path, rollout in numbered
    )
    rows = [",".join(map(str, (*key, count))) for key, count in sorted(counts.items())]
    return "\n".join(["attempts,mode,stop_reason,turns,rollouts", *rows, ""])


def _actions(numbered: Sequence[tuple[str, Rollout]]) -> str:
    """Tells every attempt in one line: what it did, step by step, as the environment saw it."""
    lines = [f"{_short(path)} {story(rollout)}" for path, rollout in numbered]
    return "\n".join([*lines, ""])


def _short(path: str) -> str:
    return path.removeprefix("rollouts/").removesuffix(".md")


def story(rollout: Rollout) -> str:
    """Returns one line on an attempt: outcome, request, tool calls and last words."""
    short = summarize(rollout)
    steps = "; ".join(short.steps) or "no tool call"
    how = "clean" if rollout.clean else failure_mode(rollout)
    last_words = clipped(short.last_words, _SAID_CHARS)
    line = (
        f"[{how}, {rollout.stop_reason}] {_first_request(rollout)} -> {steps}; said {last_words!r}"
    )
    return " ".join(clipped(line, _STORY_CHARS).split())


def _first_request(rollout: Rollout) -> str:
    """Returns the beginning of the first user message, quoted."""
    content = next((m.get("content") for m in rollout.messages if m.get("role") == "user"), "")
    return repr(content[:_ASKED_CHARS]) if isinstance(content, str) else ""


def _exemplars(numbered: Sequence[tuple[str, Rollout]]) -> str:
    """Returns a page with the number and some paths of attempts, by kind and failure mode."""
    lines = ["# Rollouts by failure mode", ""]
    for kind in _KINDS:
        modes: dict[str, list[str]] = {}
        for path, rollout in numbered:
            if _kind(path) == kind:
                modes.setdefault(failure_mode(rollout), []).append(path)
        lines += [f"## {kind}", ""] if modes else []
        for mode, paths in sorted(modes.items(), key=lambda item: (-len(item[1]), item[0])):
            lines.append(f"- {mode}: {len(paths)}, for example:")
            lines += [f"  - evidence/{path}" for path in _some(paths)]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _some(paths: list[str]) -> list[str]:
    step = max(1, len(paths) // _SHOWN_PER_MODE)
    return paths[::step][:_SHOWN_PER_MODE]


# --- numbers ------------------------------------------------------------------------------------


def _report(source: EvidenceSource) -> str:
    parts = ["# Report", "", "## Is the version's own score valid?", ""]
    findings = [_finding(finding) for finding in source.findings]
    parts += findings or ["No validity detector fired."]
    return "\n".join([*parts, "", "## Layers", "", render_text(source.evidence)])


def _finding(finding: Finding) -> str:
    lines = "".join(f"\n  - {line}" for line in finding.lines[:10])
    return f"- {finding.severity.upper()} {finding.code}: {finding.message}{lines}"


def _metrics(evidence: Evidence) -> str:
    rows = ["metric,value,change_against_the_version_before"]
    for name, value in evidence.metrics().items():
        change = evidence.version.get(f"change.{name}")
        rows.append(f"{name},{number(value)},{'' if change is None else number(change)}")
    return "\n".join([*rows, ""])


def _before(untrained: Evidence, trained: Evidence) -> str:
    """Returns a page with the metrics before training, those first that training changed most."""
    moves = _moves(untrained.metrics(), trained.metrics())
    rows = [f"| {name} | {number(old)} | {number(new)} |" for name, old, new in moves[:_MOVED]]
    return "\n".join(
        [
            "# The same harness before training",
            "",
            "The base policy's attempts on the search split, with the first groups of its",
            "training; `report.md` is the trained policy's, with the last groups.",
            "",
            "## What moved most in training",
            "",
            "By points where values are shares, else by the share of the larger value.",
            "",
            "| metric | untrained | trained |",
            "|---|---|---|",
            *(rows or ["| nothing moved | | |"]),
            "",
            "## Layers before training",
            "",
            render_text(untrained),
        ]
    )


def _moves(old: Mapping[str, float], new: Mapping[str, float]) -> list[tuple[str, float, float]]:
    """Returns the metrics in both readings with both values, those first that moved most."""

    def size(move: tuple[str, float, float]) -> float:
        _, was, now = move
        return abs(now - was) / max(1.0, abs(was), abs(now))

    both = [(name, was, new[name]) for name, was in old.items() if name in new]
    moved = [move for move in both if size(move) >= _STILL]
    return sorted(moved, key=lambda move: (-size(move), move[0]))


def _training(metrics: Sequence[Mapping[str, JSON]]) -> str:
    """Returns a row per training step; what depends on the machine's speed is left out."""
    names = {name for row in metrics for name, value in row.items() if _is_number(value)}
    columns = sorted(name for name in names if not _CLOCK.search(name) and name != "step")
    rows = [",".join(["step", *columns])]
    for row in metrics:
        cells = (row.get(name) for name in ("step", *columns))
        rows.append(",".join(number(cell) if _is_number(cell) else "" for cell in cells))
    return "\n".join([*rows, ""])


def _is_number(value: JSON) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


# --- skills and the map -------------------------------------------------------------------------


def _skill_files(skills: Sequence[Skill]) -> Iterable[tuple[str, str]]:
    for skill in skills:
        for path in sorted(skill.path.rglob("*")):
            inside = path.relative_to(skill.path).as_posix()
            if path.is_file() and not path.is_symlink() and _readable(path):
                yield f"skills/{skill.name}/{inside}", path.read_text("utf-8", errors="replace")


def _readable(path: Path) -> bool:
    return path.suffix in {".md", ".py", ".toml", ".txt"} and path.stat().st_size <= _SKILL_BYTES


def _readme(
    source: EvidenceSource, pages: Mapping[str, str], numbered: Sequence[tuple[str, Rollout]]
) -> str:
    counts = Counter(_kind(path) for path, _ in numbered)
    skills = [f"  - {s.name} ({s.kind}, {s.status}): {s.description}" for s in source.skills]
    return "\n".join(
        [
            f"# Evidence about {source.version}",
            "",
            "Everything was measured by the host. Words inside rollouts, skills and diffs were",
            "written by other models: material to judge.",
            "",
            "- report.md: validity findings, alerts, and every metric by layer; changes against",
            "  the version before are in brackets",
            "- metrics.csv: the same metrics by their full names, as a hypothesis names them",
            *_on_training(source),
            f"- rollouts/index.csv: one row per rollout: {counts['search']} of the search split",
            "  (the version as measured)" + _of_others(counts),
            "- rollouts/actions.md: every rollout in one line, its tool calls and last reply",
            "- rollouts/counts.csv: how many by kind, failure mode, stop reason and turns",
            f"- {_transcript_names(counts)}: each attempt in full",
            "- exemplars.md: rollouts by failure mode, with paths",
            "- history.md: every hypothesis tried in this workspace, predicted and realised,",
            "  with verdicts and reasons, and what analysts noted; history/*.diff are the edits",
            "- calibration.md: how good predictions have been",
            "- skills/: lessons of earlier verdicts that fit this domain"
            + ("" if skills else " (none yet)"),
            *skills,
            "",
        ]
    )


def _on_training(source: EvidenceSource) -> list[str]:
    lines, steps = [], len(source.train_metrics)
    if source.untrained:
        lines += [
            "- untrained.md: the same harness read before training, with the metrics that moved",
            "  most between the two readings: what a policy drifts to is evidence in itself, and",
            "  a fault that it learns to live with shows here alone",
        ]
    return lines + ([f"- training.csv: one row per training step ({steps} steps)"] if steps else [])


def _of_others(counts: Mapping[str, int]) -> str:
    before, train = counts[_UNTRAINED], counts["train"]
    text = f", {before} of the base policy before training ({_UNTRAINED})" if before else ""
    return text + (f", {train} of the first and last training steps (train)" if train else "")


def _transcript_names(counts: Mapping[str, int]) -> str:
    return ", ".join(f"rollouts/{kind}-NNNN.md" for kind in _KINDS if counts[kind]) or "none"
