"""What is known about a run, as names and sentences: claims, gains, and what it is fed.

Every function reads records tolerantly: older runs lack fields, and what is missing is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from meta_agent.reports._format import (
    measured_text,
    one_line,
    percent,
    points,
    points_text,
    share_text,
    visible,
)
from meta_agent.reports._parts import parse_effect
from meta_agent.reports.state import RunState

Rows = Iterator[tuple[str, str]]

_CLAIMS: Final = {"harness": "this harness, over training seeds", "version": "this version"}
_STANDINGS: Final = {"start": "the start", "trained": "one training"}
_CELLS: Final = (
    ("old_old", "old policy, old harness"),
    ("old_new", "old policy, new harness"),
    ("new_old", "new policy, old harness"),
    ("new_new", "new policy, new harness"),
)
_EFFECTS: Final = ("harness", "policy", "interaction")


# --- what a run claims and hands over -----------------------------------------------------------


def handover_words(state: RunState) -> str:
    """Returns a sentence on the version that a run hands over at its end, or "" before that."""
    if not state.handover:
        return ""
    standing = str(state.handover.get("standing"))
    return visible(f"{_STANDINGS.get(standing, standing)}: {state.handover.get('words', '')}")


def outcome_facts(state: RunState) -> Rows:
    """Yields (name, text) rows: the run's claims, its harness and weights, how to get them."""
    yield from _claims(state)
    product = state.product
    if product["harness_commit"]:
        adopt = f"meta-agent adopt --into FOLDER{state.workspace_flag}"
        yield "harness", f"{product['harness']} at {str(product['harness_commit'])[:12]} ({adopt})"
    if product["weights"]:
        yield (
            "weights",
            f"{product['weights']} (meta-agent adopt --model DIR{state.workspace_flag})",
        )


def card_facts(state: RunState) -> Rows:
    """Yields (name, text) rows for the model card of the run's weights: verdict, measurements."""
    yield "verdict", handover_words(state) or "the run has not ended: nothing is claimed"
    yield "before", f"{measured_text(state.baseline)} (clean success on the vault split)"
    yield "after", measured_text(state.final)
    yield from _claims(state)
    if words := (state.visible or {}).get("words"):
        yield "detectable", visible(words)
    product, config = state.product, state.config
    yield "run", visible(f"{state.run}: domain {state.domain}, seed {config.get('seed')}")
    yield "base", visible(config.get("policy", "?"))
    commit = product["harness_commit"]
    yield "harness", visible(f"commit {commit}: the weights were trained inside it")


def _claims(state: RunState) -> Rows:
    for kind, verdict in state.claims.items():
        effect = parse_effect(verdict.get("effect"))
        gain = f" {points_text(effect)}{effect.selected}" if effect else ""
        reasons = "; ".join(map(str, verdict.get("reasons") or ()))
        about = _CLAIMS.get(kind, kind)
        yield "claim", visible(f"{about}: {verdict.get('kind')}{gain}: {reasons}")


def claim_facts(state: RunState) -> Rows:
    """Yields (name, text) rows: success over training seeds, unproven ideas, detectable gain."""
    if words := _over_runs(state.results or {}):
        yield "over runs", words
    if words := _lead(state.lead or {}):
        yield "lead", words
    if detectable := (state.visible or {}).get("words"):
        yield "detectable", visible(detectable)
    if words := _no_claim(state):
        yield "no claim", words
    if state.analyses and (nothing := state.analyses[-1].nothing):
        generation = state.analyses[-1].generation
        yield "search", f"generation {generation} found nothing to try: {visible(nothing)}"


def _lead(lead: Mapping[str, Any]) -> str:
    """Returns words on the ideas of the branch `lead`, none of them proven; empty without any."""
    members = lead.get("members")
    if not isinstance(members, list) or not members:
        return ""
    names = ", ".join(visible(str(name).split("/", 1)[-1]) for name in members)
    effect, gain = lead.get("effect"), ""
    if isinstance(effect, list) and len(effect) == 3:
        middle, low, high = map(points, effect)
        gain = f", together {middle} points [{low}, {high}] against main"
        if isinstance(likelier := lead.get("likelier"), int | float):
            gain += f" on the tasks they were chosen on (likelier {points(likelier)})"
    return f"unproven, not in main: {names}{gain}"


def _over_runs(results: Mapping[str, Any]) -> str:
    before, after = (_side_text(results.get(side)) for side in ("before", "after"))
    if not before:
        return ""
    seeds = results.get("seeds") or ()
    runs = _seeds_text(seeds)
    if not after:
        return f"before {before}; {runs}"
    parts = [f"before {before}, after {after}"]
    if gain := _figure(results.get("difference")):
        middle, low, high = map(points, gain)
        parts.append(f"mean difference {middle} [{low}, {high}]")
    if len(seeds) > 1 and (chance := _figure(results.get("improvement"))):
        middle, low, high = (f"{share:.2f}" for share in chance)
        parts.append(f"a run after beats one before with probability {middle} [{low}, {high}]")
    return "; ".join((*parts, f"{runs}, 95 % intervals"))


def _seeds_text(seeds: Sequence[int]) -> str:
    if len(seeds) < 2:
        return "one policy, over tasks alone" + (f" (training seed {seeds[0]})" if seeds else "")
    fresh = 0 in seeds  # the claim never trains seed 0
    reused = "" if fresh else ", those of the claim, so only the tasks are new"
    return f"{len(seeds)} training seeds{reused}"


def _side_text(side: Any) -> str:
    """Returns `mean 61.3 % [57.0, 65.5], IQM 61.9 % [57.2, 66.0]`; of one run no IQM."""
    if not isinstance(side, dict):
        return ""
    names = {"mean": "mean", "IQM": "iqm"} if len(side.get("runs") or ()) > 1 else {"mean": "mean"}
    figures = {name: _figure(side.get(key)) for name, key in names.items()}
    return ", ".join(f"{name} {share_text(*figure)}" for name, figure in figures.items() if figure)


def _figure(value: Any) -> tuple[float, float, float] | None:
    if not isinstance(value, dict):
        return None
    ends = [value.get(name) for name in ("value", "low", "high")]
    numbers = [float(end) for end in ends if isinstance(end, int | float)]
    return (numbers[0], numbers[1], numbers[2]) if len(numbers) == 3 else None


def _no_claim(state: RunState) -> str:
    """Returns words if the vault changed by less than the budget can detect, else an empty text."""
    least = (state.visible or {}).get("effect")
    change = state.vault_gain
    if not change or not isinstance(least, int | float) or abs(change) >= least:
        return ""
    return (
        f"the change on the vault, {points(change)} points, is smaller than the "
        f"{100 * least:.1f} that this budget can see"
    )


# --- what did a gain ----------------------------------------------------------------------------


def attribution_facts(attribution: Mapping[str, Any] | None) -> Rows:
    """Yields (name, text) rows: what harness and policy each added to a gain. No rows for None."""
    if not attribution:
        return
    if failure := attribution.get("failed"):
        yield "attribution", f"could not be measured: {one_line(failure, 300)}"
        return
    cells, effects = attribution.get("cells") or {}, attribution.get("effects") or {}
    for name, title in _CELLS:
        if isinstance(share := cells.get(name), int | float):
            yield title, f"clean success {percent(share)}"
    for name in _EFFECTS:
        if isinstance(effect := effects.get(name), Mapping):
            yield f"of it the {name}", _effect_points(effect)
    if "policy" not in effects:
        yield "of it the policy", "none: the policy is frozen"
    yield "rests on", f"{attribution.get('n')} tasks; {visible(attribution.get('limit', ''))}"


def _effect_points(effect: Mapping[str, Any]) -> str:
    delta, low, high = (points(float(effect[name])) for name in ("delta", "ci_low", "ci_high"))
    return f"{delta} points [{low}, {high}]"


# --- where a run's model replies came from a recording ------------------------------------------


def replay_facts(state: RunState) -> Rows:
    """Yields rows on the recording that a run's model replies came from; nothing for other runs."""
    if not state.replay:
        return
    yield "replayed from", visible(state.replay.get("recording", "?"))
    labels = state.replay.get("labels")
    for name, value in (labels if isinstance(labels, dict) else {}).items():
        yield visible(name), visible(value)
    drift = state.replay.get("drift")
    if isinstance(drift, int):
        requests = "1 request differs" if drift == 1 else f"{drift} requests differ"
        different = f"{requests} from the recorded one at the same place"
        yield "drift", different if drift else "every request is the recorded one"
