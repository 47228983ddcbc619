"""Spend: money and tokens are reserved before a call and settled after it, never above a cap.

A reservation that is never settled (the process died during the call) keeps counting, since the
provider may have billed it. Amounts are whole nano-dollars; reservations round up.

Does not cover: estimating what a call may cost. The caller reserves the worst case.
"""

from __future__ import annotations

import math
import time
from typing import Final, cast

from meta_agent.core.errors import BudgetError, IntegrityError
from meta_agent.core.ledger._journal import Journal
from meta_agent.core.ledger._rows import Spend

_NANO: Final = 1_000_000_000
_WHOLE_RUN: Final = ""

_INSERT = "INSERT INTO spend (run, role, at, nano_usd, tokens) VALUES (?, ?, ?, ?, ?)"
_TOTALS = """SELECT coalesce(sum(nano_usd), 0), coalesce(sum(tokens), 0),
    coalesce(sum(nano_usd IS NULL), 0) FROM spend WHERE run = ? AND (role = ? OR ? = '')"""
_BY_ROLE = """SELECT role,
    coalesce(sum(CASE WHEN settled THEN nano_usd END), 0),
    coalesce(sum(CASE WHEN settled THEN tokens END), 0),
    coalesce(sum(CASE WHEN NOT settled THEN nano_usd END), 0),
    coalesce(sum(CASE WHEN NOT settled THEN tokens END), 0),
    count(*), sum(nano_usd IS NULL)
    FROM spend WHERE run = ? GROUP BY role ORDER BY role"""
_Spent = tuple[str, int, int, int, int, int, int]


class Purse:
    """The part of a ledger that records what model calls cost, and keeps the cost below caps.

    The default of `run` is the current run. Methods raise IntegrityError if there is none.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._run: str | None = None

    def _named_run(self, run: str | None) -> str:
        name = run or self._run
        if name is None:
            raise IntegrityError("the ledger has no current run: call start_run, or pass `run`")
        return name

    def set_cap(
        self,
        run: str,
        *,
        role: str = "",
        max_usd: float | None = None,
        max_tokens: int | None = None,
    ) -> None:
        """Sets the caps on a run's spending, or on that for one role (use) of model calls.

        None means no cap. Caps that were set before are replaced.
        """
        cap = None if max_usd is None else math.floor(max_usd * _NANO)
        with self._journal.transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO caps VALUES (?, ?, ?, ?)", (run, role, cap, max_tokens)
            )

    def reserve(self, role: str, usd: float | None, tokens: int, run: str | None = None) -> int:
        """Reserves the most that a model call of a role may cost; returns the reservation's number.

        `usd` is None if the price is unknown. Raises BudgetError, and reserves nothing, if a cap
        would be crossed or a cap in dollars meets an unknown price.
        """
        run = self._named_run(run)
        nano = _nano(usd, round_up=True)
        _require_amount(nano, tokens)
        with self._journal.transaction() as db:
            for cap in db.execute(
                "SELECT role, nano_usd, tokens FROM caps WHERE run = ? AND role IN (?, ?)",
                (run, role, _WHOLE_RUN),
            ).fetchall():
                spent = db.execute(_TOTALS, (run, cap[0], cap[0])).fetchone()
                _require_room(cap, spent, nano, tokens)
            cursor = db.execute(_INSERT, (run, role, time.time(), nano, tokens))
            return int(cursor.lastrowid or 0)

    def settle(self, reservation: int, usd: float | None, tokens: int) -> None:
        """Replaces a reservation by what was billed. Raises IntegrityError if settled before."""
        nano = _nano(usd, round_up=False)
        _require_amount(nano, tokens)
        self._close(
            "UPDATE spend SET settled = 1, nano_usd = ?, tokens = ?", reservation, nano, tokens
        )

    def release(self, reservation: int) -> None:
        """Deletes the reservation of a call that cost nothing. Raises IntegrityError if settled."""
        self._close("DELETE FROM spend", reservation)

    def _close(self, statement: str, reservation: int, *values: int | None) -> None:
        """Changes an open reservation. Raises IntegrityError if it was settled or released."""
        with self._journal.transaction() as db:
            where = f"{statement} WHERE id = ? AND settled = 0"
            if db.execute(where, (*values, reservation)).rowcount != 1:
                raise IntegrityError(
                    f"reservation {reservation} of a model call was settled before; this is a bug, "
                    "please report it"
                )

    def open_reservations(self, run: str | None = None) -> frozenset[int]:
        """Returns the numbers of unbilled reservations: of calls under way, or cut by a crash."""
        query = "SELECT id FROM spend WHERE run = ? AND NOT settled"
        rows = self._journal.rows(query, (self._named_run(run),))
        return frozenset(cast("int", row[0]) for row in rows)

    def spend(self, run: str | None = None) -> dict[str, Spend]:
        """Returns what a run has spent and still has reserved, by role; empty without calls."""
        rows = cast("list[_Spent]", self._journal.rows(_BY_ROLE, (self._named_run(run),)))
        return {
            role: Spend(usd / _NANO, tokens, open_usd / _NANO, open_tokens, calls, unpriced)
            for role, usd, tokens, open_usd, open_tokens, calls, unpriced in rows
        }


def _nano(usd: float | None, *, round_up: bool) -> int | None:
    if usd is None:
        return None
    if not math.isfinite(usd):
        raise IntegrityError(
            f"the cost of a model call is {usd}, which is not finite: correct the model's price"
        )
    return math.ceil(usd * _NANO - 1e-3) if round_up else round(usd * _NANO)


def _require_amount(nano: int | None, tokens: int) -> None:
    if (nano or 0) < 0 or tokens < 0:
        raise IntegrityError(
            f"the cost of a model call is negative: {nano} nano-dollars, {tokens} tokens; correct "
            "the model's price or the token count"
        )


def _require_room(
    cap: tuple[str, int | None, int | None],
    spent: tuple[int, int, int],
    nano: int | None,
    tokens: int,
) -> None:
    role, cap_nano, cap_tokens = cap
    whose = f"the cap of role {role}" if role else "the cap of this run"
    if cap_nano is not None and (nano is None or spent[2]):
        raise BudgetError(
            f"{whose} is ${cap_nano / _NANO:.4f}, but this run calls a model of unknown price",
            hint="cap tokens instead (--max-tokens), or use a model with a known price",
        )
    if cap_nano is not None and spent[0] + (nano or 0) > cap_nano:
        raise BudgetError(
            f"this call may cost ${(nano or 0) / _NANO:.4f}; ${spent[0] / _NANO:.4f} of {whose} "
            f"(${cap_nano / _NANO:.4f}) is spent or set aside",
            hint="raise --max-usd and run the same command again: it resumes",
        )
    if cap_tokens is not None and spent[1] + tokens > cap_tokens:
        raise BudgetError(
            f"this call may take {tokens} tokens; {spent[1]} of {whose} ({cap_tokens}) are spent "
            "or set aside",
            hint="raise --max-tokens and run the same command again: it resumes",
        )
