"""`Ledger.once`: recorded done means done, and nothing else does."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.errors import ConfigError, IntegrityError, PreflightError
from meta_agent.core.ledger import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "ledger.sqlite") as opened:
        yield opened


def test_work_runs_once_and_its_outcome_is_returned_ever_after(ledger: Ledger) -> None:
    calls: list[int] = []

    def work() -> dict[str, Any]:
        calls.append(1)
        return {"value": (1, 2), "score": float("nan")}

    first = ledger.once("k", "measure", {"n": 1}, work)
    second = ledger.once("k", "measure", {"n": 1}, work)
    assert calls == [1]
    assert first == second == {"value": [1, 2], "score": None}


def test_outcome_none_is_recorded_as_done(ledger: Ledger) -> None:
    calls: list[int] = []
    for _ in range(2):
        assert ledger.once("k", "noop", None, lambda: calls.append(1)) is None
    assert calls == [1]


def test_failed_work_stays_open_and_says_why(ledger: Ledger) -> None:
    with pytest.raises(ValueError, match="no luck"):
        ledger.once("k", "measure", {}, lambda: _raise(ValueError("no luck")))
    step = ledger.step("k")
    assert step is not None
    assert not step.is_done
    assert step.error == "ValueError: no luck"
    assert ledger.once("k", "measure", {}, lambda: 7) == 7
    step = ledger.step("k")
    assert step is not None
    assert (step.attempts, step.error, step.outcome) == (2, None, 7)


def _raise(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(("kind", "intent"), [("other", {"n": 1}), ("measure", {"n": 2})])
def test_a_key_that_comes_back_as_other_work_is_refused(
    ledger: Ledger, kind: str, intent: dict[str, int]
) -> None:
    ledger.once("k", "measure", {"n": 1}, lambda: 1)
    with pytest.raises(IntegrityError, match=r"\bk\b.*measure"):
        ledger.once(
            "k", kind, intent, lambda: pytest.fail("work of a contradicting step must not run")
        )


def test_steps_nest_under_different_keys(ledger: Ledger) -> None:
    outcome = ledger.once("outer", "o", {}, lambda: ledger.once("inner", "i", {}, lambda: 3) * 2)
    assert outcome == 6
    assert [step.key for step in ledger.steps()] == ["outer", "inner"]


def test_a_step_that_asks_for_itself_is_refused_instead_of_hanging(ledger: Ledger) -> None:
    with pytest.raises(IntegrityError, match=r"\bk\b"):
        ledger.once("k", "o", {}, lambda: ledger.once("k", "o", {}, lambda: 1))


def test_threads_that_ask_for_one_step_get_one_piece_of_work(ledger: Ledger) -> None:
    calls: list[int] = []
    together = threading.Barrier(8)
    outcomes: list[Any] = []

    def ask() -> None:
        together.wait()
        outcomes.append(ledger.once("k", "train", {}, lambda: calls.append(1) or len(calls)))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (calls, outcomes) == ([1], [1] * 8)


def test_different_steps_really_run_at_the_same_time(ledger: Ledger) -> None:
    meet = threading.Barrier(
        2, timeout=20
    )  # breaks, and fails the test, if one waits for the other
    threads = [
        threading.Thread(
            target=ledger.once, args=(f"k{n}", "train", {}, lambda: meet.wait() and None)
        )
        for n in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(step.is_done for step in ledger.steps())


def test_second_owner_is_refused_and_told_who_owns(tmp_path: Path, ledger: Ledger) -> None:
    with pytest.raises(PreflightError, match=str(os.getpid())) as refused:
        Ledger.open(tmp_path / "ledger.sqlite")
    assert "meta-agent status" in str(refused.value.hint)


def test_owner_can_change_after_close(tmp_path: Path) -> None:
    for _ in range(2):
        Ledger.open(tmp_path / "ledger.sqlite").close()


def test_reader_sees_a_live_run_and_cannot_write(tmp_path: Path, ledger: Ledger) -> None:
    ledger.start_run("r", {}, config_hash="h")
    with Ledger.open(tmp_path / "ledger.sqlite", owner_lock=False) as reader:
        assert reader.events() == []
        ledger.event("metrics", {"loss": 1.0})
        assert [event.payload for event in reader.events("r", "metrics")] == [{"loss": 1.0}]
        with pytest.raises(IntegrityError, match="read"):
            reader.event("metrics", {})


def test_reader_of_nothing_is_told_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ledger\.sqlite"):
        Ledger.open(tmp_path / "ledger.sqlite", owner_lock=False)


def test_events_come_in_order_and_by_run(ledger: Ledger) -> None:
    ledger.start_run("r", {}, config_hash="h")
    ledger.event("metrics", {"step": 1})
    ledger.event("metrics", {"step": 2})
    ledger.event("note", "x", run="other")
    assert [event.payload for event in ledger.events("r")] == [{"step": 1}, {"step": 2}]


def test_runs_resume_until_done(ledger: Ledger) -> None:
    ledger.start_run("r1", {"seed": 1}, config_hash="h")
    ledger.finish_run("r1", "interrupted")
    found = ledger.run("r1")
    assert found is not None and (found.exit_reason, found.config) == ("interrupted", {"seed": 1})
    assert ledger.start_run("r1", {"seed": 1}, config_hash="h").starts == 2
    ledger.finish_run("r1", "done")


def test_a_run_taken_up_with_other_settings_is_refused(ledger: Ledger) -> None:
    ledger.start_run("r1", {}, config_hash="aaaa")
    with pytest.raises(IntegrityError, match="aaaa"):
        ledger.start_run("r1", {}, config_hash="bbbb")


def test_finishing_an_unknown_run_is_refused(ledger: Ledger) -> None:
    with pytest.raises(IntegrityError, match="ghost"):
        ledger.finish_run("ghost", "done")
