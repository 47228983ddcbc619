"""The ledger against a dictionary, with crashes between any two rules.

A crash is a copy of the files as they lie on disk at that moment (what a killed process leaves),
opened by a new owner.
"""

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from meta_agent.core.errors import BudgetError
from meta_agent.core.ledger import Ledger

KEYS = st.sampled_from([f"k{n}" for n in range(5)])
CAP_TOKENS = 50


class LedgerMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="ledger-model-"))
        self.lives = 0
        self.done: dict[str, int] = {}
        self.started: set[str] = set()
        self.events: list[int] = []
        self.open: dict[int, int] = {}
        self.settled = 0
        self.ledger = Ledger.open(self._path())
        self.ledger.start_run("r", {}, config_hash="h")
        self.ledger.set_cap("r", max_tokens=CAP_TOKENS)

    def _path(self) -> Path:
        life = self.root / str(self.lives)
        life.mkdir(exist_ok=True)
        return life / "ledger.sqlite"

    @rule(key=KEYS, value=st.integers())
    def finish_a_step(self, key: str, value: int) -> None:
        self.started.add(key)
        expected = self.done.setdefault(key, value)
        assert self.ledger.once(key, "k", key, lambda: value) == expected

    @rule(key=KEYS)
    def fail_a_step(self, key: str) -> None:
        self.started.add(key)
        try:
            outcome = self.ledger.once(key, "k", key, lambda: 1 // 0)
        except ZeroDivisionError:
            assert key not in self.done
        else:
            assert outcome == self.done[key]

    @rule(number=st.integers(min_value=0, max_value=9))
    def log(self, number: int) -> None:
        self.ledger.event("n", number)
        self.events.append(number)

    @rule(tokens=st.integers(min_value=0, max_value=30))
    def reserve(self, tokens: int) -> None:
        fits = self.settled + sum(self.open.values()) + tokens <= CAP_TOKENS
        try:
            self.open[self.ledger.reserve("a", 0.0, tokens, "r")] = tokens
            assert fits
        except BudgetError:
            assert not fits

    @rule(share=st.floats(min_value=0, max_value=1))
    def settle(self, share: float) -> None:
        if self.open:
            reservation, tokens = self.open.popitem()
            self.ledger.settle(reservation, 0.0, int(tokens * share))
            self.settled += int(tokens * share)

    @rule()
    def crash_and_recover(self) -> None:
        before = self._path().parent
        self.lives += 1
        shutil.copytree(before, self.root / str(self.lives))
        self.ledger.close()
        self.ledger = Ledger.open(self._path())

    @invariant()
    def agrees_with_the_model(self) -> None:
        if not hasattr(self, "ledger"):
            return
        steps = {step.key: step for step in self.ledger.steps()}
        assert set(steps) == self.started
        assert {key: step.outcome for key, step in steps.items() if step.is_done} == self.done
        told = [event.payload for event in self.ledger.events()]
        failed = [one for one in told if isinstance(one, dict) and set(one) == {"step", "error"}]
        assert [one for one in told if one not in failed] == self.events
        spent = self.ledger.spend("r").get("a")
        assert (spent.tokens if spent else 0) == self.settled
        assert (spent.open_tokens if spent else 0) == sum(self.open.values())

    def teardown(self) -> None:
        if hasattr(self, "ledger"):
            self.ledger.close()
            shutil.rmtree(self.root)


LedgerMachine.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestLedgerAgainstModel = LedgerMachine.TestCase
