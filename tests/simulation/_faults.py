"""Faults in ledger, money, client and merge, planted to see whether the simulation finds them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

from meta_agent.core.errors import ProviderError
from meta_agent.core.ledger import Ledger, _money
from meta_agent.core.ledger._journal import Journal
from meta_agent.core.ledger._rows import encode, link
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs import promote
from meta_agent.llm_clients.asking import transcripts
from meta_agent.llm_clients.asking._asking import LiveModels
from meta_agent.llm_clients.asking._meter import Meter


def _unsynced(real: Any) -> Any:
    def prepare(journal: Journal) -> None:
        real(journal)
        journal._db.execute("PRAGMA synchronous=OFF")

    return prepare


def _unfinished_is_done(real: Any) -> Any:
    def once(ledger: Ledger, key: str, kind: Any, intent: Any, work: Callable[[], Any]) -> Any:
        begun = ledger.step(key)
        if begun is not None and not begun.is_done and begun.attempts > 1:
            return begun.outcome
        return real(ledger, key, kind, intent, work)

    return once


def _forgets_what_is_done(real: Any) -> Any:
    def begin(ledger: Ledger, key: str, kind: str, intent: str) -> Any:
        step = real(ledger, key, kind, intent)
        return None if kind == "verdict" else step

    return begin


def _chained_apart(real: Any) -> Any:
    """The link is written in a transaction of its own."""

    def finish(ledger: Ledger, key: str, outcome: str, seconds: float) -> None:
        with ledger._journal.transaction() as db:
            db.execute(
                "UPDATE steps SET outcome = ?, finished_at = ?, duration_sec = ? WHERE key = ?",
                (outcome, time.time(), seconds, key),
            )
        with ledger._journal.transaction() as db:
            step = ledger.step(key)
            assert step is not None
            digest = link(ledger._last_link(but=key), step)
            db.execute("INSERT INTO chain (key, digest) VALUES (?, ?)", (key, digest))

    return finish


def _no_caps(real: Any) -> Any:
    return lambda *_: None


def _frees_what_may_be_billed(real: Any) -> Any:
    def end(live: LiveModels, reservation: int, error: BaseException) -> None:
        if isinstance(error, ProviderError):
            live.meter.release(reservation)
        else:
            real(live, reservation, error)

    return end


def _frees_what_a_crash_left(real: Any) -> Any:
    def init(meter: Meter, ledger: Ledger, run_id: str) -> None:
        real(meter, ledger, run_id)
        for number in ledger.open_reservations(run_id):
            ledger.release(number)
        meter._cut_short = set()

    return init


def _asks_again(real: Any) -> Any:
    return lambda transcript, conversation, turn: None


def _merges_before_main_moves(real: Any) -> Any:
    moved: list[Any] = []

    def once(run: Run, name: str, kind: Any, intent: Any, work: Callable[[], Any]) -> Any:
        if kind == "ref":
            moved.clear()
            moved.append(work)
            return {"commit": "c" * 40}
        outcome = real(run, name, kind, intent, work)
        if kind == "merge" and moved:
            moved.pop()()
        return outcome

    return once


def _merges_anew(real: Any) -> Any:
    def advance(run: Run, first: Any, commit: str) -> Any:
        anew = run.repo.advance(commit, onto=first.commit)
        run.repo.advance("e" * 40, onto=anew)
        return {"commit": anew}

    return advance


def _half_of_a_price(real: Any) -> Any:
    def nano(usd: float | None, *, round_up: bool) -> int | None:
        return real(None if usd is None else usd / 2 if round_up else usd, round_up=round_up)  # type: ignore[no-any-return]

    return nano


def _note_undoes_outcome(real: Any) -> Any:
    """A failed attempt is noted as if it were an outcome."""

    def note(ledger: Ledger, key: str, error: str) -> None:
        ledger._finish(key, encode({"failed": error}), 0.0)

    return note


FAULTS: Final[dict[str, tuple[Any, str, Callable[[Any], Any]]]] = {
    "commits-not-synced": (Journal, "_prepare", _unsynced),
    "step-begun-twice-is-done": (Ledger, "once", _unfinished_is_done),
    "verdict-worked-out-again": (Ledger, "_begin", _forgets_what_is_done),
    "chain-in-another-commit": (Ledger, "_finish", _chained_apart),
    "failure-kept-as-outcome": (Ledger, "_note_failure", _note_undoes_outcome),
    "caps-not-asked": (_money, "_require_room", _no_caps),
    "half-is-reserved": (_money, "_nano", _half_of_a_price),
    "lost-reply-frees-money": (LiveModels, "_end_unanswered", _frees_what_may_be_billed),
    "crash-frees-money": (Meter, "__init__", _frees_what_a_crash_left),
    "recorded-reply-asked-again": (transcripts.Transcripts, "recorded", _asks_again),
    "merge-before-main-moves": (Run, "once", _merges_before_main_moves),
    "main-moves-twice": (promote, "_advance_main", _merges_anew),
}
"""By name: where the fault is planted, and what it makes of the function there."""


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Plants a fault for a `with` block."""
    owner, attribute, changed = FAULTS[name]
    with patch.object(owner, attribute, changed(getattr(owner, attribute))):
        yield
