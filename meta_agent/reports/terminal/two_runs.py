"""`compare RUN RUN` and `compare A B --by task`, for a terminal: two runs, or two result files.

Does not cover: whether two runs differ by more than luck. One run a side cannot say; paired seeds
can (`compare --conditions ... --seeds N`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from meta_agent.core.protocols import JSON
from meta_agent.reports._format import (
    dollars,
    duration,
    effect_text,
    measured_text,
    percent,
    points,
    value_text,
)
from meta_agent.reports._parts import parse_effect
from meta_agent.reports._sentences import sentences
from meta_agent.reports.run_sections import counts, state_word
from meta_agent.reports.sections import Section, Table, Words, present
from meta_agent.reports.state import RunState
from meta_agent.reports.terminal.paint import painted

_LEFT_OUT = frozenset({"origin", "workspace"})


def document(first: RunState, second: RunState) -> dict[str, JSON]:
    """Returns both runs' whole states as JSON, and the settings in which they differ."""
    both = [first.to_json(), second.to_json()]
    return {"schema_version": 1, "runs": both, "settings": dict(_differing(first, second))}


def table(first: RunState, second: RunState) -> RenderableType:
    """Returns two runs side by side, a row for each fact; settings that differ come last."""
    kinds = list(dict.fromkeys((*first.claims, *second.claims)))
    pairs = zip(_facts(first, kinds), _facts(second, kinds), strict=True)
    rows: list[tuple[str, ...]] = [(name, left, right) for (name, left), (_, right) in pairs]
    rows += [(name, *map(value_text, pair)) for name, pair in _differing(first, second)]
    side_by_side = Section([Table(("", first.run, second.run), rows)])
    gains = first.vault_gain, second.vault_gain
    if gains[0] is None or gains[1] is None:
        return painted([side_by_side])
    difference = f"gain on the vault: {points(gains[1] - gains[0])} points in the second"
    luck = (
        "one run a side: luck is not ruled out; "
        "meta-agent compare --conditions ... --seeds N does that"
    )
    return painted(present(side_by_side, Section([Words(difference), Words(luck, "dim")])))


def _facts(state: RunState, claims: list[str]) -> Iterator[tuple[str, str]]:
    yield "state", state_word(state)
    yield "what happened", sentences(state)[0].words
    yield "vault, before", measured_text(state.baseline)
    yield "vault, after", measured_text(state.final)
    for kind in claims:
        verdict = state.claims.get(kind) or {}
        effect = effect_text(parse_effect(verdict.get("effect")))
        yield f"this {kind}", f"{verdict.get('kind', '–')} {effect}"
    yield "ideas", counts(candidate.kind for candidate in state.candidates.values()) or "none"
    yield "attempts", f"{state.rollouts:,}"
    yield "training steps", f"{state.train_steps:,}"
    yield "time", duration(state.wall_sec)
    yield "API spend", dollars(state.usd)


def _differing(first: RunState, second: RunState) -> list[tuple[str, list[JSON]]]:
    names = dict.fromkeys((*first.config, *second.config))
    pairs = ((name, [first.config.get(name), second.config.get(name)]) for name in names)
    return [(name, pair) for name, pair in pairs if name not in _LEFT_OUT and pair[0] != pair[1]]


def files_table(document: Mapping[str, Any]) -> RenderableType:
    """Returns the document of `compare A B --by task` as a table and sentences for a terminal."""
    rows = [
        (
            Path(file["path"]).name,
            str(file["tasks"]),
            str(file["attempts"]),
            str(file["lost"]),
            "–" if file["score"] is None else percent(file["score"]),
        )
        for file in document["files"]
    ]
    gain = document["difference"]
    interval = f"{points(gain['value'])} [{points(gain['low'])}, {points(gain['high'])}]"
    lines = [
        f"the second against the first: {interval} points on {document['tasks']} common tasks, "
        f"better at {document['better_tasks']}, worse at {document['worse_tasks']}",
        f"the smallest difference that these pairs show with 80 % power: "
        f"{100 * document['smallest_shown']:.1f} points",
        f"{document['only_in_one']} tasks are in one file only; attempts without a score are left "
        "out",
    ]
    heading = ("file", "tasks", "attempts", "lost", "mean score")
    files = Section([Table(heading, rows, numbers=range(1, 5), whole=(0,))])
    return painted(present(files, Section([Words(line) for line in lines])))
