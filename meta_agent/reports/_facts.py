"""What is known about a run, as names and sentences: claims, gains, and what it is fed.

Every function reads records tolerantly: older runs lack fields, and what is missing is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from meta_agent.core.ledger.kinds import TRAINED, TRAINED_IN_VAIN
from meta_agent.core.protocols import Effect
from meta_agent.reports._format import (
    effect_text,
    measured_text,
    one_line,
    percent,
    points,
    share_text,
    unit_text,
    visible,
)
from meta_agent.reports._parts import Measured, parse_effect
from meta_agent.reports.state import RunState

Rows = Iterator[tuple[str, str]]
Figures = Iterator[tuple[str, str, str]]

_STANDINGS: Final[Mapping[str, str]] = {
    "start": "the start",
    TRAINED: "one training",
    TRAINED_IN_VAIN: "one training",
}
_EFFECTS: Final = {
    "harness": ("due to the harness", "new harness against old, mean over both policies"),
    "policy": ("due to training", "new policy against old, mean over both harnesses"),
    "interaction": ("overlap", "the harness's gain under the new policy less that under the old"),
}


# --- what a run claims and hands over -----------------------------------------------------------


def handover_words(state: RunState) -> str:
    """Returns a sentence on the version that a run hands over at its end, or "" before that."""
    if not state.handover:
        return ""
    standing = str(state.handover.get("standing"))
    words = f"{_STANDINGS.get(standing, standing)}: {state.handover.get('words', '')}"
    if state.nothing_tried:
        words = f"no idea was tried: {state.nothing_tried}"
    back = f"; {state.taken_back} was taken back since: what is on main now is unmeasured"
    return visible(words + back * bool(state.taken_back))


def outcome_facts(state: RunState) -> Rows:
    """Yields (name, text) rows: why the claims hold, the harness and weights, how to get them."""
    for verdict in state.claims.values():
        yield "because", visible("; ".join(map(str, verdict.get("reasons") or ())))
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
    for name, value, compared in figures(state):
        yield name, visible(f"{value}: {compared}")
    if words := (state.visible or {}).get("words"):
        yield "detectable", visible(words)
    product, config = state.product, state.config
    yield "run", visible(f"{state.run}: domain {state.domain}, seed {config.get('seed')}")
    yield "base", visible(config.get("policy", "?"))
    commit = product["harness_commit"]
    yield "harness", visible(f"commit {commit}: the weights were trained inside it")


def claim_facts(state: RunState) -> Rows:
    """Yields (name, text) rows: unproven ideas, the gain that can be seen, an ended search."""
    if words := _lead(state.lead or {}):
        yield "lead", words
    if detectable := (state.visible or {}).get("words"):
        yield "detectable", visible(detectable.partition(" (")[0])
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


def figures(state: RunState) -> Figures:
    """Yields every figure of a run: its name, its value, and what it compares on which tasks."""
    for kind, verdict in state.claims.items():
        effect = parse_effect(verdict.get("effect"))
        value = f"{effect_text(effect)}, {proof_word(verdict)}" if effect else proof_word(verdict)
        about = f"{claim_words(kind, state.trains)} against the start"
        yield "claim", value, f"{about}; confirm tasks{_units(effect)}"
    if state.baseline or state.final:
        yield _vault_figure(state.baseline, state.final)
    if after := _side_text((state.results or {}).get("after")):
        yield _over_runs(state.results or {}, after)
    merges = {str(each.merge.get("commit")): each for each in state.carriers if each.merge}
    for candidate in merges.values():
        yield from attribution_figures(candidate.attribution)


def claim_words(kind: str, trains: bool) -> str:
    """Returns what a claim is about; of a model that is not trained, without its weights."""
    if kind == "harness":
        return "this harness, trained anew," if trains else "this harness"
    return "this harness with its own weights" if trains else "this version"


def proof_word(verdict: Mapping[str, Any]) -> str:
    """Returns a claim's verdict as `proven`, `not proven` or its name."""
    kind = str(verdict.get("kind"))
    return {"PROMOTE": "proven", "INCONCLUSIVE": "not proven"}.get(kind, kind)


def _units(effect: Effect | None) -> str:
    seeds = effect.training_seeds if effect else 0
    return f", {unit_text(seeds)} a side" if seeds > 1 else ""


def _vault_figure(before: Measured | None, after: Measured | None) -> tuple[str, str, str]:
    start, end = (
        f" ({side.training})" if side and side.training else "" for side in (before, after)
    )
    tasks = f"{after.n if after else 0} vault tasks"
    if after and after.reads > 1:
        tasks += f", which {after.reads} runs of this workspace have read"
    words = f"the start{start} against what is handed over{end}; {tasks}"
    return "vault", f"{measured_text(before)} → {measured_text(after)}", words


def _over_runs(results: Mapping[str, Any], after: str) -> tuple[str, str, str]:
    value = f"{_side_text(results.get('before'))} → {after}"
    compared = "the same, trained alike"
    if gain := _figure(results.get("difference")):
        middle, low, high = map(points, gain)
        compared += f": {middle} points [{low}, {high}]"
    seeds = results.get("seeds") or ()
    if len(seeds) > 1 and (chance := _figure(results.get("improvement"))):
        compared += f", a training after beats one before with probability {chance[0]:.2f}"
        compared += f" [{chance[1]:.2f}, {chance[2]:.2f}]"
    return "vault, seeds", value, f"{compared}; {_seeds_text(seeds)}"


def _seeds_text(seeds: Sequence[int]) -> str:
    if len(seeds) < 2:
        return "one policy, over tasks alone" + (f" (training seed {seeds[0]})" if seeds else "")
    fresh = 0 in seeds  # the claim never trains seed 0
    reused = "" if fresh else ", those of the claim, so only the tasks are new"
    return f"{len(seeds)} training seeds{reused}"


def _side_text(side: Any) -> str:
    """Returns the mean over one side's trainings as `61.3 % [57.0, 65.5]`; "" if not measured."""
    mean = _figure(side.get("mean")) if isinstance(side, dict) else None
    return share_text(*mean) if mean else ""


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


def attribution_figures(attribution: Mapping[str, Any] | None) -> Figures:
    """Yields figures on what harness and policy each added to a merged gain. None yields none."""
    if not attribution:
        return
    if failure := attribution.get("failed"):
        yield "shares", "not measured", one_line(failure, 300)
        return
    cells, effects = attribution.get("cells") or {}, attribution.get("effects") or {}
    where = f"{attribution.get('n')} tasks, {visible(attribution.get('limit', ''))}"
    for policy in ("old", "new"):
        sides = [cells.get(f"{policy}_{harness}") for harness in ("old", "new")]
        if all(isinstance(side, int | float) for side in sides):
            value = " → ".join(map(percent, sides))
            yield f"{policy} policy", value, f"old against new harness; {where}"
    for name, (title, compared) in _EFFECTS.items():
        if isinstance(effect := effects.get(name), Mapping):
            yield title, _effect_points(effect), compared


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
