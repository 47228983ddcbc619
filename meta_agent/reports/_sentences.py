"""The sentences that every screen begins with: what happened, why, and what to do next.

Each says only what the record holds. A gain that is not proven is called an estimate, and what was
not measured is not mentioned.
"""

from __future__ import annotations

import shlex
import time
from typing import Final, NamedTuple

from meta_agent.core.display import Standing
from meta_agent.core.ledger.kinds import TRAINED, TRAINED_IN_VAIN
from meta_agent.core.ledger.waiting import Wait
from meta_agent.core.protocols import Effect
from meta_agent.reports._facts import claim_words, proof_word
from meta_agent.reports._format import (
    dollars,
    duration,
    effect_text,
    one_line,
    percent,
    points,
    visible,
)
from meta_agent.reports._parts import CandidateView, parse_effect
from meta_agent.reports.state import RunState

_TYPED: Final = "command line"


class Sentence(NamedTuple):
    """A sentence of a run's report, with its topic and the command to type next."""

    about: str
    words: str
    command: str = ""


def sentences(state: RunState) -> list[Sentence]:
    """Returns sentences on a run: what happened, why, and what to do next."""
    where = f" --workspace {shlex.quote(visible(state.workspace))}" if state.workspace else ""
    if state.exit_reason not in ("done", "aborted"):
        parts = _unfinished(state, where)
    else:
        parts = [_outcome(state), *_reasons(state, where), _use(state, where)]
    return [part._replace(words=visible(part.words)) for part in parts]


def progress(state: RunState) -> str:
    """Returns a running run's progress, empty if no plan was recorded.

    Example: `generation 2 of 3, step 12 of v0, 43 % of 108,800 attempts, about 5 min left`.
    """
    if state.share is None:
        return ""
    parts = [f"{100 * state.share:.0f} % of {state.planned:,} attempts"]
    if state.exit_reason is None:
        parts = [*_at(state), *parts]
    if state.left_sec is not None:
        parts.append(f"about {duration(state.left_sec)} left")
    return ", ".join(parts)


def standing_of(state: RunState) -> Standing:
    """Returns where a running run stands, in words."""
    spent = f"{dollars(state.usd)} spent, {state.tokens:,} API tokens"
    return Standing(state.share, progress(state), _so_far(state), spent)


def _at(state: RunState) -> list[str]:
    """Returns the present generation and the newest training step, each in words."""
    parts = []
    if state.evidence:
        of, number = state.config.get("generations"), state.evidence[-1].generation + 1
        parts.append(f"generation {number}" + (f" of {of}" if of and number <= of else ""))
    if state.metrics:
        last = list(state.metrics.values())[-1][-1]
        parts.append(f"step {last.step} of {last.series}")
    return parts


# --- a run that has not ended -------------------------------------------------------------------


def _unfinished(state: RunState, where: str) -> list[Sentence]:
    so_far = Sentence("so far", _so_far(state))
    if state.waiting:
        subjects = " ".join(visible(decision.subject) for decision in state.waiting)
        questions = "; ".join(decision.asks for decision in state.waiting)
        happened = Sentence("what happened", f"The run waits for a person: {questions}")
        answer = "Answer; the same evolve command then continues."
        return [happened, so_far, Sentence("next", answer, f"meta-agent approve {subjects}{where}")]
    if state.is_at_work:
        if held_up := _held_up(state):
            happens, advice, command = held_up
            return [Sentence("what happens", happens), so_far, Sentence("next", advice, command)]
        now = f"The run is at work: {state.phase} {state.phase_detail}".rstrip()
        follow = Sentence("next", "Nothing to do; follow it.", f"meta-agent log --follow{where}")
        return [Sentence("what happens", now), so_far, follow]
    ended = {
        "budget": "The run stopped at a cap on money or tokens",
        "interrupted": "The run was interrupted",
        "infrastructure": "A machine or a server failed, and the run stopped",
        "parked": "Every question is answered, and the run has not gone on yet",
        None: "The run stopped without a word: it was killed, or the machine went down",
    }
    words = ended.get(state.exit_reason, f"The run ended: {state.exit_reason}")
    words += f", {duration(state.wall_sec)} after it began; what is recorded is not lost."
    if state.waits.waits:
        words += f" When it last wrote, it waited for {state.waits.waits[0].subject}."
    goes_on = f"The same {state.command} command continues from the last recorded step"
    goes_on += " (with a higher cap)." if state.exit_reason == "budget" else "."
    command = f"meta-agent {state.command}{_flags(state)}{where}"
    return [Sentence("what happened", words), so_far, Sentence("next", goes_on, command)]


def _held_up(state: RunState) -> tuple[str, str, str] | None:
    """Returns what a run without progress waits for, advice and a command; None if it moves."""
    if state.frozen_sec:
        happens = (
            f"Process {state.owner} has not run since {_clock(time.time() - state.frozen_sec)} "
            f"({duration(state.frozen_sec)}), so the run makes no progress."
        )
        advice = "It is stopped, or the machine has no room for it; kill -CONT continues it."
        return happens, advice, f"ps -o pid,stat,time,pcpu,command -p {state.owner}"
    if (wait := state.stall) is None:
        return None
    return f"No progress: {wait_words(wait)}.", wait.advice, wait.command


def wait_note(wait: Wait) -> str:
    """Returns a line on a wait: its subject and progress, or after long silence what to do."""
    if wait.progress and time.time() - wait.moved_at < wait.patience_sec:
        return f"{wait.subject}: {wait.progress}"
    return f"{wait_words(wait)}. {wait.advice}"


def wait_words(wait: Wait) -> str:
    """Returns a wait in words: its subject, its silence so far, and its limit."""
    silent_sec = max(0.0, time.time() - wait.moved_at)
    words = f"the run waits for {wait.subject}, silent since {_clock(wait.moved_at)} "
    words += f"({duration(silent_sec)}); its limit is {duration(wait.limit_sec)}"
    return f"{words} ({wait.progress})" if wait.progress else words


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


def _flags(state: RunState) -> str:
    """Returns the flags that were typed: with others, evolve would begin another run."""
    origin = state.config.get("origin")
    typed = (
        [name for name, at in origin.items() if at == _TYPED] if isinstance(origin, dict) else []
    )
    flags = ""
    left_out = ["workspace"] + ["seed"] * bool(state.taken_back)
    left_out += ["meta_model"] * bool(state.nothing_tried)
    for name in (setting for setting in typed if setting not in left_out):
        value, flag = state.config.get(name), f" --{name.replace('_', '-')}"
        if isinstance(value, str | int | float):
            flags += flag if value is True else f"{flag} {shlex.quote(str(value))}"
        else:
            flags += f"{flag} ..."
    return visible(flags)


def _so_far(state: RunState) -> str:
    candidates = list(state.candidates.values())
    judged = [candidate for candidate in candidates if candidate.verdict]
    words = f"{len(candidates)} ideas, {len(judged)} of them judged"
    if state.first and state.first.clean_success is not None:
        words += (
            f"; the start solves {percent(state.first.clean_success)} cleanly on the search split"
        )
    chosen = [cell for cell in state.cells if cell.chosen and cell.clean_success is not None]
    if chosen:
        words += f", the best bundle so far {percent(chosen[-1].clean_success)}"
    return words + "."


# --- a run that has ended -----------------------------------------------------------------------


def _trained_alone(state: RunState) -> str:
    """Returns what a run of `train` came to; empty for a run that searched."""
    handover = state.handover or {}
    trained = handover.get("standing") in (TRAINED, TRAINED_IN_VAIN)
    return one_line(str(handover.get("words")), 240) if trained else ""


def _outcome(state: RunState) -> Sentence:
    if words := _trained_alone(state):
        return Sentence("what happened", f"{words[0].upper()}{words[1:]}.")
    if reason := state.nothing_tried:
        return Sentence("what happened", f"No idea was tried: {one_line(reason, 240)}.")
    standing = str((state.handover or {}).get("standing") or "")
    before, after = state.baseline, state.final
    moved = ""
    if before and after and None not in (before.clean_success, after.clean_success):
        longer = before.steps and after.steps and before.steps != after.steps
        start, end = (
            f"{percent(side.clean_success)}{f' ({side.steps} steps)' if longer else ''}"
            for side in (before, after)
        )
        moved = f"clean success from {start} to {end} on {after.n} tasks that nobody had seen"
        moved += ", with this run's own trainings" if after.steps else ""
    what = "A better harness was found and proven"
    if standing == "unproven":
        what = "No better harness was proven; what is estimated best is kept on the branch lead"
    elif standing == "start" or not (_carriers(state) or state.taken_back):
        what = "Nothing that was tried was proven to be better than the start"
    what = f"{what}{': ' if moved else ''}{moved}."
    if state.taken_back:
        what += f" Since then {state.taken_back} was taken back: what is on main now is unmeasured."
    return Sentence("what happened", what)


def _reasons(state: RunState, where: str) -> list[Sentence]:
    reasons = []
    if carriers := _carriers(state) or _waiting(state):
        parts = [
            f"{candidate.short_id}, {one_line(candidate.change, 120)} ({_share(candidate)})"
            for candidate in carriers
        ]
        words = f"{'; '.join(parts)}."
        if len([candidate for candidate in carriers if candidate.share]) > 1:
            words += " Each figure is the drop when that edit alone is removed. Edits overlap, so"
            words += " the figures do not sum to the total."
        reasons.append(Sentence("why", words))
    claims = [
        f"{claim_words(kind, state.trains)} {effect_text(effect)} points, {proof_word(verdict)}"
        for kind, verdict in state.claims.items()
        if (effect := parse_effect(verdict.get("effect")))
    ]
    if claims:
        measured = (
            f"Before {state.taken_back} was taken back, against" if state.taken_back else "Against"
        )
        reasons.append(Sentence("how sure", f"{measured} the start: {'; '.join(claims)}."))
    if best := _best_refused(state):
        reason = best.reasons[0] if best.reasons else "no reason is recorded"
        words = (
            f"{best.short_id}{_measured_as(state, best)} is {best.kind}: {one_line(reason, 240)}."
        )
        reasons.append(
            Sentence("why not", words, f"meta-agent why {visible(best.short_id)}{where}")
        )
    return reasons


def _measured_as(state: RunState, candidate: CandidateView) -> str:
    """Returns the best figure on record for a refused candidate, or that it was never trained."""
    if gain := candidate.estimate:
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
    if state.taken_back:
        words = "Measure what is on main now: a run with another seed does."
        seed = int(state.config.get("seed") or 0) + 1
        return Sentence("next", words, f"meta-agent evolve{_flags(state)} --seed {seed}{where}")
    if _carriers(state):
        words = "Take the harness: as files into a new folder, or as a branch into your clone."
        return Sentence("next", words, f"meta-agent adopt --into FOLDER{where}")
    if (state.handover or {}).get("standing") == TRAINED_IN_VAIN:
        words = "The training did not help; see which attempts fail, and how."
        return Sentence("next", words, f"meta-agent report{where}")
    if _trained_alone(state):
        words = "Take the trained weights, or search for a better harness around them."
        return Sentence("next", words, f"meta-agent adopt --model FOLDER{where}")
    if state.nothing_tried and state.refused:
        words = "Give another model: what it said is in meta-agent why --transcript."
        command = f"meta-agent evolve{_flags(state)} --meta-model PROVIDER/MODEL{where}"
        return Sentence("next", words, command)
    standing = str((state.handover or {}).get("standing") or "")
    if standing == "unproven":
        lacks = one_line(str((state.handover or {}).get("words")).partition("; ")[2], 160)
        words = f"{lacks}." if lacks else "See what a proof would take, then run with that budget."
        return Sentence("next", words, f"meta-agent evolve --dry-run{where}")
    words = "See which attempts fail, and how."
    return Sentence("next", words, f"meta-agent report{where}")


def _carriers(state: RunState) -> list[CandidateView]:
    """Returns the candidates that were merged into `main` and are still there, best first."""
    return sorted(
        state.carriers, key=lambda candidate: -(gain.delta if (gain := _gain(candidate)) else 0.0)
    )


def _waiting(state: RunState) -> list[CandidateView]:
    """Returns the candidates on the branch `lead` that are not proven."""
    members = (state.lead or {}).get("members") or ()
    return [state.candidates[name] for name in members if name in state.candidates]


def _gain(candidate: CandidateView) -> Effect | None:
    """Returns a candidate's gain: its share of a bundle's, or else the effect in its verdict."""
    return candidate.share or candidate.effect


def _best_refused(state: RunState) -> CandidateView | None:
    """Returns the refused candidate with the highest estimated gain, INVALID ones first.

    A candidate that was invalid before any training has no estimate and comes after those with one.
    """
    refused = [
        candidate
        for candidate in state.candidates.values()
        if candidate.kind in ("INVALID", "REJECT")
    ]
    gain_of = {candidate.id: gain.delta for candidate in refused if (gain := candidate.estimate)}
    up = [candidate for candidate in refused if gain_of.get(candidate.id, 0.0) > 0]
    unseen = [
        candidate
        for candidate in refused
        if candidate.kind == "INVALID" and candidate.id not in gain_of
    ]
    best = [candidate for candidate in up if candidate.kind == "INVALID"] or unseen or up
    return max(best, key=lambda candidate: gain_of.get(candidate.id, 0.0)) if best else None


def _share(candidate: CandidateView) -> str:
    gain = _gain(candidate)
    return f"{candidate.label}, {points(gain.delta)} points" if gain else candidate.label
