"""What happened, why, and what to do next: a sentence each, and the command. Read before anything.

Every screen begins with these, so each says only what the record holds: a gain that is not proven
is called an estimate, and what nobody measured is not mentioned.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from meta_agent.core.protocols import Effect
from meta_agent.core.workspace import BUILT_IN_HARNESSES
from meta_agent.reports._format import duration, effect_text, one_line, percent, points, visible
from meta_agent.reports._parts import CandidateView, parse_effect
from meta_agent.reports.state import RunState

_TYPED: Final = "command line"
_CLAIMED: Final = {"harness": "this harness, trained anew,", "version": "with these weights"}


class Sentence(NamedTuple):
    """One of the three, with the command that it leads to."""

    about: str
    words: str
    command: str = ""


def sentences(state: RunState) -> list[Sentence]:
    """What happened, why, and what next."""
    where = f" --workspace {shlex.quote(visible(state.workspace))}" if state.workspace else ""
    if state.exit_reason not in ("done", "aborted"):
        found = _unfinished(state, where)
    else:
        found = [_outcome(state), *_reasons(state, where), _use(state, where)]
    return [one._replace(words=visible(one.words)) for one in found]


def progress(state: RunState) -> str:
    """`generation 2 of 3, step 12 of v0 seed 1, 30 steps, 43 % of 108,800 attempts, about 5 min`.

    Nothing where no plan was recorded.
    """
    if state.share is None:
        return ""
    told = [f"{100 * state.share:.0f} % of {state.planned:,} attempts"]
    if state.exit_reason is None:
        told = [*_at(state), *told]
    if state.left_sec is not None:
        told.append(f"about {duration(state.left_sec)} left")
    return ", ".join(told)


def _at(state: RunState) -> list[str]:
    """The generation, and the newest training step."""
    found = []
    if state.evidence:
        of = state.config.get("generations")
        number = f"generation {state.evidence[-1].generation + 1}"
        found.append(f"{number} of {of}" if of else number)
    if state.metrics:
        last = list(state.metrics.values())[-1][-1]
        found.append(f"step {last.step} of {last.series}")
    return found


# --- a run that has not ended -------------------------------------------------------------------


def _unfinished(state: RunState, where: str) -> list[Sentence]:
    so_far = Sentence("so far", _so_far(state))
    if state.waiting:
        subjects = " ".join(visible(one.subject) for one in state.waiting)
        asked = "; ".join(one.asks for one in state.waiting)
        happened = Sentence("what happened", f"The run waits for a person: {asked}")
        answer = "Answer; the same evolve command then goes on."
        return [happened, so_far, Sentence("next", answer, f"meta-agent approve {subjects}{where}")]
    if state.owner and state.exit_reason is None:
        now = f"The run is at work: {state.phase} {state.phase_detail}".rstrip()
        watch = Sentence(
            "next", "Nothing to do; watch it, if you like.", f"meta-agent watch{where}"
        )
        return [Sentence("what happens", now), so_far, watch]
    ended = {
        "budget": "The run stopped at a cap on money or tokens",
        "interrupted": "The run was interrupted",
        "infrastructure": "A machine or a server failed, and the run stopped",
        "parked": "Every question is answered, and the run has not gone on yet",
        None: "The run stopped without a word: it was killed, or the machine went down",
    }
    words = ended.get(state.exit_reason, f"The run ended: {state.exit_reason}")
    words += f", {duration(state.wall_sec)} after it began; what is recorded is not lost."
    goes_on = "The same evolve command goes on from the last recorded step"
    goes_on += " (with a higher cap)." if state.exit_reason == "budget" else "."
    command = f"meta-agent evolve{_flags(state)}{where}"
    return [Sentence("what happened", words), so_far, Sentence("next", goes_on, command)]


def _flags(state: RunState) -> str:
    """What the run was begun with: other flags would begin another run."""
    origin = state.config.get("origin")
    typed = (
        [name for name, at in origin.items() if at == _TYPED] if isinstance(origin, dict) else []
    )
    told = ""
    for name in (one for one in typed if one != "workspace"):
        value, flag = state.config.get(name), f" --{name.replace('_', '-')}"
        if isinstance(value, str | int | float):
            told += flag if value is True else f"{flag} {shlex.quote(str(value))}"
        else:
            told += f"{flag} ..."
    return visible(told)


def _so_far(state: RunState) -> str:
    tried = list(state.candidates.values())
    judged = [one for one in tried if one.verdict]
    told = f"{len(tried)} ideas, {len(judged)} of them judged"
    if state.first and state.first.clean_success is not None:
        told += (
            f"; the start solves {percent(state.first.clean_success)} cleanly on the search split"
        )
    chosen = [one for one in state.cells if one.chosen and one.clean_success is not None]
    if chosen:
        told += f", the best bundle so far {percent(chosen[-1].clean_success)}"
    return told + "."


# --- a run that has ended -----------------------------------------------------------------------


def _outcome(state: RunState) -> Sentence:
    standing = str((state.handover or {}).get("standing") or "")
    before, after = state.baseline, state.final
    moved = ""
    if before and after and None not in (before.clean_success, after.clean_success):
        longer = before.steps and after.steps and before.steps != after.steps
        start, end = (
            f"{percent(one.clean_success)}{f' ({one.steps} steps)' if longer else ''}"
            for one in (before, after)
        )
        moved = f"clean success from {start} to {end} on {after.n} tasks that nobody had seen"
        moved += ", with this run's own trainings" if after.steps else ""
    what = "A better harness was found and proven"
    if standing == "unproven":
        what = "No better harness was proven; what is estimated best is kept on the branch lead"
    elif standing == "start" or not _carriers(state):
        what = "Nothing that was tried was proven to be better than the start"
    return Sentence("what happened", f"{what}{': ' if moved else ''}{moved}.")


def _reasons(state: RunState, where: str) -> list[Sentence]:
    told = []
    if carriers := _carriers(state) or _waiting(state):
        parts = [f"{one.short_id}, {_then(one)} ({_share(one)})" for one in carriers]
        words = f"{'; '.join(parts)}."
        if len([one for one in carriers if one.share]) > 1:
            words += " Each figure is what the bundle loses without that edit; they do not add up."
        told.append(Sentence("why", words))
    claims = [
        f"{_CLAIMED.get(kind, kind)} {effect_text(effect)} points, {_known(verdict)}"
        for kind, verdict in state.claims.items()
        if (effect := parse_effect(verdict.get("effect")))
    ]
    if claims:
        told.append(Sentence("how sure", f"Against the start: {'; '.join(claims)}."))
    if best := _best_refused(state):
        reason = best.reasons[0] if best.reasons else "no reason is recorded"
        words = (
            f"{best.short_id}{_measured_as(state, best)} is {best.kind}: {one_line(reason, 240)}."
        )
        told.append(Sentence("why not", words, f"meta-agent why {visible(best.short_id)}{where}"))
    return told


def _measured_as(state: RunState, candidate: CandidateView) -> str:
    """Returns the best figure on record for a refused candidate, or that it was never trained."""
    if gain := candidate.effect or candidate.share:
        return f" at {effect_text(gain)} points"
    cell = state.cell_of(candidate)
    if cell is None:
        return ", never trained,"
    if cell.clean_success is None:
        return f", whose training ({cell.name}) failed,"
    return f", trained ({cell.name}) to {percent(cell.clean_success)} clean on the search split,"


def _use(state: RunState, where: str) -> Sentence:
    if state.exit_reason == "aborted":
        return Sentence(
            "next", "A person ended it; see what was decided.", f"meta-agent log{where}"
        )
    if _carriers(state):
        if state.config.get("harness", "seed") in BUILT_IN_HARNESSES:
            words = "Write the promoted edits as patches (git am takes them) to a new folder."
            return Sentence("next", words, f"meta-agent adopt --patches FOLDER{where}")
        words = "Take the harness into a clone of your own repository."
        return Sentence("next", words, f"meta-agent adopt --into CLONE{where}")
    standing = str((state.handover or {}).get("standing") or "")
    if standing == "unproven":
        lacks = one_line(str((state.handover or {}).get("words")).partition("; ")[2], 160)
        words = f"{lacks}." if lacks else "See what a proof would take, then run with that budget."
        return Sentence("next", words, f"meta-agent evolve --dry-run{where}")
    words = "See which attempts fail, and how."
    return Sentence("next", words, f"meta-agent view{where}")


def _carriers(state: RunState) -> list[CandidateView]:
    """What has come to `main` and stayed."""
    merged = (one for one in state.candidates.values() if one.merge and not one.reverted)
    stayed = [one for one in merged if one.merge and not one.merge.get("undone")]
    return sorted(stayed, key=lambda one: -(gain.delta if (gain := _gain(one)) else 0.0))


def _known(verdict: Mapping[str, Any]) -> str:
    kind = str(verdict.get("kind"))
    return {"PROMOTE": "proven", "INCONCLUSIVE": "not proven"}.get(kind, kind)


def _waiting(state: RunState) -> list[CandidateView]:
    """What is handed over unproven: on the lead, and not on `main`."""
    members = (state.lead or {}).get("members") or ()
    return [state.candidates[name] for name in members if name in state.candidates]


def _gain(one: CandidateView) -> Effect | None:
    """What it adds: its share where it came in a bundle."""
    return one.share or one.effect


def _best_refused(state: RunState) -> CandidateView | None:
    """The highest estimate that was not taken, as far as it looked like a gain; INVALID ones first.

    What was found invalid before any training has no estimate, and comes last of its kind.
    """
    refused = [one for one in state.candidates.values() if one.kind in ("INVALID", "REJECT")]
    gain_of = {one.id: gain.delta for one in refused if (gain := one.effect or one.share)}
    up = [one for one in refused if gain_of.get(one.id, 0.0) > 0]
    unseen = [one for one in refused if one.kind == "INVALID" and one.id not in gain_of]
    best = [one for one in up if one.kind == "INVALID"] or unseen or up
    return max(best, key=lambda one: gain_of.get(one.id, 0.0)) if best else None


def _share(one: CandidateView) -> str:
    gain = _gain(one)
    return f"{one.label}, {points(gain.delta)} points" if gain else one.label


def _then(one: CandidateView) -> str:
    """What its hypothesis changes, without what it foretells."""
    return one_line(one.statement.removeprefix("if ").partition(" then ")[0], 120)
