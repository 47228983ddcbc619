"""A cap holds: under threads, across crashes, and where the price is not known."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_agent.core.errors import BudgetError, IntegrityError
from meta_agent.core.ledger import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "ledger.sqlite") as opened:
        opened.start_run("r", {}, config_hash="h")
        yield opened


def test_settling_replaces_the_reservation(ledger: Ledger) -> None:
    reservation = ledger.reserve("proposer", 0.5, 1000)
    held = ledger.spend()["proposer"]
    assert (held.usd, held.open_usd, held.open_tokens) == (0, 0.5, 1000)
    ledger.settle(reservation, 0.125, 300)
    paid = ledger.spend()["proposer"]
    assert (paid.usd, paid.tokens, paid.open_usd, paid.calls) == (0.125, 300, 0, 1)


def test_cap_counts_open_reservations(ledger: Ledger) -> None:
    ledger.set_cap("r", max_usd=1.0)
    ledger.reserve("a", 0.7, 1)
    with pytest.raises(BudgetError, match=r"\$0\.4000.*\$0\.7000"):
        ledger.reserve("b", 0.4, 1)
    ledger.reserve("b", 0.3, 1)  # exactly full is allowed


def test_many_small_calls_fill_a_cap_exactly(ledger: Ledger) -> None:
    ledger.set_cap("r", max_usd=1.0)
    for _ in range(10):
        ledger.reserve("a", 0.1, 1)
    with pytest.raises(BudgetError):
        ledger.reserve("a", 1e-9, 1)


def test_a_role_may_have_its_own_cap(ledger: Ledger) -> None:
    ledger.set_cap("r", role="judge", max_tokens=100)
    ledger.reserve("policy", 0.0, 5000)
    with pytest.raises(BudgetError, match="judge"):
        ledger.reserve("judge", 0.0, 101)


def test_concurrent_calls_cannot_cross_a_cap(ledger: Ledger) -> None:
    ledger.set_cap("r", max_tokens=100)
    together = threading.Barrier(12)
    refused: list[BudgetError] = []

    def call() -> None:
        together.wait()
        try:
            ledger.reserve("policy", 0.0, 15)
        except BudgetError as error:
            refused.append(error)

    threads = [threading.Thread(target=call) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(refused), ledger.spend()["policy"].open_tokens) == (6, 90)


def test_unknown_price_is_refused_under_a_usd_cap_and_counted_without(ledger: Ledger) -> None:
    ledger.settle(ledger.reserve("policy", None, 10), None, 8)
    spent = ledger.spend()["policy"]
    assert (spent.usd, spent.tokens, spent.unpriced_calls) == (0, 8, 1)
    ledger.set_cap("r", max_usd=5.0)
    with pytest.raises(BudgetError):
        ledger.reserve("policy", None, 10)


def test_reservation_of_a_call_with_unknown_outcome_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with Ledger.open(path) as first:
        first.set_cap("r", max_usd=1.0)
        first.reserve("a", 0.9, 5, "r")
    with Ledger.open(path) as second, pytest.raises(BudgetError):
        second.reserve("a", 0.2, 5, "r")


def test_released_reservation_leaves_no_trace(ledger: Ledger) -> None:
    ledger.set_cap("r", max_usd=1.0)
    ledger.release(ledger.reserve("a", 1.0, 5))
    assert ledger.spend() == {}
    ledger.reserve("a", 1.0, 5)


def test_what_was_settled_is_neither_released_nor_settled_again(ledger: Ledger) -> None:
    reservation = ledger.reserve("a", 0.1, 1)
    ledger.settle(reservation, 0.1, 1)
    with pytest.raises(IntegrityError):
        ledger.release(reservation)
    with pytest.raises(IntegrityError):
        ledger.settle(reservation, 0.1, 1)
    assert ledger.spend()["a"].usd == 0.1


def test_open_reservations_are_those_without_an_outcome(ledger: Ledger) -> None:
    one, two, three = (ledger.reserve("a", 0.1, 1) for _ in range(3))
    ledger.settle(one, 0.1, 1)
    ledger.release(two)
    assert ledger.open_reservations("r") == {three}
    assert ledger.open_reservations("another run") == frozenset()


def test_total_is_unknown_where_one_price_is(ledger: Ledger) -> None:
    ledger.settle(ledger.reserve("a", 0.5, 1), 0.5, 1)
    assert ledger.spend()["a"].unpriced_calls == 0
    ledger.settle(ledger.reserve("a", None, 1), None, 1)
    assert ledger.spend()["a"].unpriced_calls == 1


@pytest.mark.parametrize(("usd", "tokens"), [(-1.0, 1), (0.0, -1), (float("nan"), 1)])
def test_impossible_amounts_are_refused(ledger: Ledger, usd: float, tokens: int) -> None:
    with pytest.raises(IntegrityError):
        ledger.reserve("a", usd, tokens)
