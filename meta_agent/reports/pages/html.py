"""The HTML report: one self-contained page that reads without JavaScript and without a network.

Everything a harness, a model or a repository wrote is escaped twice over: control characters are
spelled out (`visible`), and the template engine escapes markup. The page forbids scripts and remote
content by its own Content-Security-Policy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from jinja2 import Environment, Template, Undefined
from markupsafe import Markup

from meta_agent.core.durable import write_whole
from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import VerdictKind
from meta_agent.readers.evidence import meaning_of
from meta_agent.reports._attribution import attribution_facts
from meta_agent.reports._cells import CELL_COLUMNS, measured_cells
from meta_agent.reports._claims import claim_facts
from meta_agent.reports._format import (
    bounded,
    dollars,
    duration,
    effect_text,
    finding_text,
    live_text,
    number,
    one_line,
    percent,
    plain_leaves,
    points,
    prediction_text,
    test_text,
    unit_text,
    value_text,
    vault_text,
    visible,
    within_run,
)
from meta_agent.reports._money import HEADINGS
from meta_agent.reports._money import rows as spend_rows
from meta_agent.reports._parts import CandidateView, Measured, SkillView
from meta_agent.reports._predictions import prediction_facts
from meta_agent.reports._replay import replay_facts
from meta_agent.reports._search import handover_words, search_facts
from meta_agent.reports._sentences import sentences
from meta_agent.reports.pages._page import PARTS, STYLE, TEMPLATE
from meta_agent.reports.pages._svg import (
    Curve,
    Interval,
    Node,
    arm_of,
    group_by_arm,
    interval_chart,
    line_chart,
    lineage,
)
from meta_agent.reports.state import RunState
from meta_agent.skills import load_skill

_VERDICTS: Final = frozenset(kind.value for kind in VerdictKind)
# Shown first, in this order; other metrics follow by name.
_METRIC_ORDER: Final = ("success", "clean_success", "reward", "dead_group_ratio", "entropy", "kl")
_MAX_CHARTS: Final = 12


class Live(NamedTuple):
    """What the page has more while it is served: it follows the run and takes answers."""

    token: str
    style: Markup
    sections: Markup
    word: str  # how the run stands
    dead: bool  # it should be at work, and nobody is


class Card(NamedTuple):
    """A number that is read first."""

    name: str
    value: str
    detail: str


def render_html(
    state: RunState, predictions: Mapping[str, Any] | None = None, live: Live | None = None
) -> str:
    """The whole report as one page. `predictions` is about the whole workspace."""
    arms = group_by_arm(state.metrics)
    return rendered(
        TEMPLATE,
        state=state,
        live=live,
        headline=_headline(state),
        sentences=sentences(state),
        skills=[_as_it_stands(skill) for skill in state.skills],
        ended=state.exit_reason or "not finished",
        sections=_sections(state),
        cards=list(_cards(state)),
        before_after=_before_after(state),
        trainings=_trainings(state),
        within_run=within_run,
        by_generation=_by_generation(state),
        lineage=_lineage(state),
        effects=_effects(state),
        arms=arms,
        charts=list(_charts(state, arms)),
        css=_css,
        verdict_numbers=_verdict_numbers,
        test_text=lambda one: test_text(_evidence(one)),
        diff_lines=_diff_lines,
        live_text=live_text,
        prediction=prediction_text,
        predictions=list(prediction_facts(predictions)) if predictions else [],
        parts_of=lambda one: list(attribution_facts(one.attribution)),
        spend_headings=HEADINGS,
        spend_rows=list(spend_rows(state.spend)),
        replay=list(replay_facts(state)),
        claims=_claims(state),
        cells=measured_cells(state.cells, state.first),
        cell_columns=CELL_COLUMNS,
        people=[one for one in state.decisions if not one.waits],
        settings=[(name, value) for name, value in state.config.items() if name != "origin"],
        origin=state.config.get("origin") or {},
    )


def rendered(template: str, **values: Any) -> str:
    """A page of the common parts, in the common style."""
    return _compiled(PARTS + template).render(style=Markup(STYLE), **values)


def _as_it_stands(skill: SkillView) -> SkillView:
    """With what trials found since: a skill outlives the run that wrote it."""
    now = load_skill(Path(skill.path)) if skill.path else None
    return replace(skill, status=now.status, worth=now.get("worth")) if now else skill


@cache
def _compiled(template: str) -> Template:
    """Compiling takes longer than filling in, and a page that is live is filled in often."""
    environment = Environment(autoescape=True)
    environment.filters.update(
        visible=_text,
        one_line=_line,
        number=_number,
        percent=percent,
        flat=_flat,
        effect=effect_text,
        unit=unit_text,
        meaning=lambda name: meaning_of(name).what,
    )
    return environment.from_string(template)


def write_html(
    state: RunState, path: Path, *, predictions: Mapping[str, Any] | None = None
) -> None:
    """Writes the page, whole or not at all."""
    write_page(render_html(state, predictions), path)


def write_page(page: str, path: Path) -> None:
    """Writes a page, whole or not at all."""
    try:
        write_whole(path, page)
    except OSError as error:
        raise ConfigError(
            f"cannot write {path}: {error.strerror}", hint="choose another path for --html"
        ) from error


def _claims(state: RunState) -> list[tuple[str, str]]:
    told = handover_words(state)
    first = [("handed over", told)] if told else []
    return [*first, *search_facts(state), *claim_facts(state)]


def _headline(state: RunState) -> str:
    before, after = _clean(state.baseline), _clean(state.final)
    if before is None or after is None:
        return f"meta-agent run {visible(state.run)}"
    unproven = (state.handover or {}).get("standing") == "unproven"
    more = ", the harness unproven" if unproven else ""
    return f"Clean success {percent(before)} → {percent(after)}{more}"


def _sections(state: RunState) -> list[tuple[str, str]]:
    present = [
        ("cells", "Bundles", bool(state.cells)),
        ("candidates", "What was tried", bool(state.candidates)),
        ("refused", "Refused drafts", bool(state.refused)),
        ("people", "Decisions", any(not one.waits for one in state.decisions)),
        ("training", "Training", bool(state.metrics)),
        ("evidence", "Evidence", bool(state.evidence)),
        ("skills", "Skills", bool(state.skills)),
        ("spend", "Spend and settings", True),
    ]
    return [(anchor, name) for anchor, name, there in present if there]


def _cards(state: RunState) -> Iterator[Card]:
    before, after = _clean(state.baseline), _clean(state.final)
    if before is not None and after is not None:
        yield Card("change on the vault", f"{points(after - before)} pts", _sizes(state))
    kinds = [one.kind for one in state.candidates.values()]
    if kinds:
        detail = ", ".join(f"{kinds.count(kind)} {kind.lower()}" for kind in dict.fromkeys(kinds))
        detail += f"; {state.confirm_queries} looks at the confirm split"
        yield Card("candidates", str(len(kinds)), visible(detail))
    if state.share is not None and state.exit_reason is None:
        left = "" if state.left_sec is None else f"about {duration(state.left_sec)} left"
        yield Card("done", f"{100 * state.share:.0f} %", f"of {state.planned:,} attempts; {left}")
    yield Card("skills written", str(len(state.skills)), "in view of the next proposals")
    yield Card(
        "time",
        duration(state.wall_sec),
        f"{state.rollouts} rollouts, {state.train_steps} training steps",
    )
    yield Card("API spend", _spent(state), f"{state.tokens:,} tokens")


def _spent(state: RunState) -> str:
    """One word where a price is unknown: the table by role says the rest."""
    return "unknown" if state.usd is None else dollars(state.usd)


def _sizes(state: RunState) -> str:
    before, after = state.baseline, state.final
    return f"n {before.n if before else 0} before, {after.n if after else 0} after"


def _before_after(state: RunState) -> Markup | None:
    rows = [
        row
        for label, measured in (("vault, before", state.baseline), ("vault, after", state.final))
        if (row := _measured_row(label, measured))
    ]
    title = f"C{vault_text(state.final)[1:]}"
    return interval_chart(title, rows, unit=" %", zero=False) if rows else None


def _measured_row(label: str, measured: Measured | None) -> Interval | None:
    if measured is None or measured.clean_success is None:
        return None
    middle = 100 * measured.clean_success
    low, high = (100 * end for end in measured.ci or (measured.clean_success,) * 2)
    text = f"{middle:.1f} % [{low:.1f}, {high:.1f}]"
    return Interval(label, middle, low, high, "version", text)


def _trainings(state: RunState) -> list[str]:
    """Which weights the figures of the vault are of."""
    sides = (("before", state.baseline), ("after", state.final))
    return [f"{which}: {one.training}" for which, one in sides if one and one.training]


def _by_generation(state: RunState) -> Markup | None:
    """Clean success on the search split: the start, and every cell of every bundle."""
    rows = [row for row in [_measured_row("start", state.first)] if row]
    for cell in state.cells:
        name = f"g{cell.generation} {one_line(cell.name, 14)}"
        css = "PROMOTE" if cell.chosen else "version" if cell.valid else "INVALID"
        if row := _measured_row(name, cell.measured):
            rows.append(row._replace(css=css))
    title = "Clean success on the search split by generation"
    return interval_chart(title, rows, unit=" %", zero=False) if len(rows) > 1 else None


def _effects(state: RunState) -> Markup | None:
    rows = []
    for one in state.candidates.values():
        if effect := one.effect or one.share:
            ends = (effect.ci_low, effect.ci_high) if bounded(effect) else (effect.delta,) * 2
            middle, low, high = (100 * share for share in (effect.delta, *ends))
            text = effect_text(effect)
            rows.append(Interval(visible(one.short_id), middle, low, high, _css(one.kind), text))
    title = "Effect on clean success in points"
    return interval_chart(title, rows, unit="", zero=True) if rows else None


def _lineage(state: RunState) -> Markup:
    """Versions stand on the main line, candidates below, between the versions of their time."""
    nodes: list[Node] = []
    column_of = {version: float(version.column) for version in state.versions}
    last: float | None = None
    for version, column in column_of.items():
        label = one_line(version.version or version.commit[:8], 18)
        label += " (undone)" if version.undone else ""
        parent = None if last is None else (last, 0)
        css = "pending" if version.undone else "version"
        read = any(one.version == version.version for one in state.evidence)
        opens = f"in-{visible(version.version)}" if read else ""
        nodes.append(Node(label, column, 0, css, parent, opens=opens))
        last = last if version.undone else column
    lanes: dict[int, int] = {}
    for one in state.candidates.values():
        lanes[one.generation] = lane = lanes.get(one.generation, 0) + 1
        nodes.append(_branch_node(state, one, lane))
    generations = [one.generation for one in state.candidates.values()]
    return lineage(
        "Versions and the branches tried from them", nodes, 1 + max(generations, default=0)
    )


def _branch_node(state: RunState, one: CandidateView, lane: int) -> Node:
    standing = [v.column for v in state.versions if not v.undone and v.column <= one.generation]
    came_by = str((one.merge or {}).get("commit"))
    merged = [v.column for v in state.versions if came_by == v.commit and not v.undone]
    return Node(
        label=f"{visible(one.short_id)} {visible(one.factor)}",
        column=one.generation + 0.5,
        lane=lane,
        css=_css(one.kind),
        parent=(float(max(standing, default=0)), 0),
        merged_into=float(merged[0]) if merged else None,
        opens=f"in-{visible(one.short_id)}",
    )


def _charts(state: RunState, arms: Mapping[str, int]) -> Iterator[tuple[str, Markup]]:
    names = {name for points in state.metrics.values() for point in points for name in point.values}
    order = {name: at for at, name in enumerate(_METRIC_ORDER)}
    for name in sorted(names, key=lambda one: (order.get(one, len(order)), one))[:_MAX_CHARTS]:
        curves = [_curve(state, name, arm, colour) for arm, colour in arms.items()]
        yield name, line_chart(f"{name} by step", [curve for curve in curves if curve.points])


def _curve(state: RunState, metric: str, arm: str, colour: int) -> Curve:
    """One version's mean over its training seeds, and from their least to their greatest."""
    by_step: dict[int, list[float]] = defaultdict(list)
    seeds = [points for series, points in state.metrics.items() if arm_of(series) == arm]
    for point in chain.from_iterable(seeds):
        if metric in point.values:
            by_step[point.step].append(point.values[metric])
    steps = sorted(by_step.items())
    band = [(step, min(seen), max(seen)) for step, seen in steps]
    apart = any(low < high for _, low, high in band)
    line = [(step, sum(seen) / len(seen)) for step, seen in steps]
    return Curve(arm, colour, line, band if apart else ())


def _diff_lines(patch: str) -> Iterator[tuple[str, str]]:
    classes = {"+": "add", "-": "del", "@": "hunk"}
    for line in patch.splitlines():
        yield classes.get(line[:1], ""), visible(line)


def _verdict_numbers(one: CandidateView) -> list[tuple[str, str]]:
    evidence = dict(_evidence(one))
    found = evidence.pop("findings", None) or ()
    told = (leaf for name, value in evidence.items() for leaf in plain_leaves(name, value))
    numbers = [(name, within_run(value, one.run)) for name, value in told]
    return numbers + [(str(each.get("severity")), finding_text(each)) for each in found]


def _evidence(one: CandidateView) -> dict[str, Any]:
    evidence = (one.verdict or {}).get("evidence")
    return evidence if isinstance(evidence, dict) else {}


def _css(kind: str) -> str:
    """A class name only from our own list: a recorded word never becomes one."""
    return kind if kind in _VERDICTS else "pending"


def _clean(measured: Measured | None) -> float | None:
    return measured.clean_success if measured else None


def _present(value: Any) -> bool:
    """Jinja hands a missing field over as an undefined object."""
    return value is not None and not isinstance(value, Undefined)


def _text(value: Any) -> str:
    return visible(value) if _present(value) else ""


def _line(value: Any) -> str:
    return one_line(value) if _present(value) else ""


def _number(value: Any) -> str:
    return number(value) if _present(value) else "–"


def _flat(value: Any) -> str:
    if not _present(value):
        return ""
    if isinstance(value, dict):
        return "  ".join(f"{visible(name)} {_flat(item)}" for name, item in value.items())
    return visible(value_text(value))
