"""What the live page shows, without HTTP: the run's page, its attempts, the map, one answer.

The page is that of `report --html`, made anew whenever the ledger or its owner has changed.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from meta_agent.core.display import Reply
from meta_agent.core.errors import ConfigError
from meta_agent.core.ledger import Ledger, live_owner
from meta_agent.core.rollouts import RolloutStore
from meta_agent.core.workspace import Workspace
from meta_agent.reports._format import duration
from meta_agent.reports.live import drawn
from meta_agent.reports.live.attempts import Attempts, Measurement, Wanted, names_of_commits
from meta_agent.reports.live.heat import heat
from meta_agent.reports.pages.html import Live, document, element, render_html
from meta_agent.reports.run_sections import state_word
from meta_agent.reports.state import RunState, reduce

Query = Mapping[str, str]
Predictions = Callable[[Ledger], Mapping[str, Any] | None]
Decide = Callable[[str, str, Reply], str]
"""Records a person's answer (run, subject, reply) and returns a sentence for the page."""


class _Snapshot(NamedTuple):
    """A state, and the stamp of the ledger that it was read from."""

    stamp: str
    state: RunState | None
    predictions: Mapping[str, Any] | None


class Site:
    """The page of one workspace. Several threads may call it."""

    def __init__(
        self,
        place: Workspace,
        run: str | None,
        *,
        token: str,
        predictions: Predictions,
        decide: Decide,
    ) -> None:
        self._place, self._run, self._token = place, run, token
        self._predictions, self._decide = predictions, decide
        self._store = RolloutStore(place.rollouts)
        # Invariant: guards the three fields below; the first caller reads the ledger for all.
        self._lock = threading.Lock()
        self._snapshot = _Snapshot("", None, None)
        self._attempts: tuple[str, Attempts] | None = None
        self._words: dict[int, str] | None = None

    def stamp(self) -> str:
        """Returns a text that changes with the journal's files and with its owner."""
        ledger = self._place.ledger_file
        files = (ledger, ledger.with_name(ledger.name + "-wal"))
        sizes = []
        for file in files:
            with suppress(OSError):
                status = file.stat()
                sizes.append(f"{status.st_mtime_ns}.{status.st_size}")
        return ":".join((*sizes, live_owner(ledger) or "nobody"))

    def page(self, query: Query) -> str:
        del query
        state, predictions = self._now()[1:]
        live = Live(self._token, drawn.STYLE, drawn.SECTIONS, drawn.INDEX)
        if state is None:
            return self._empty_page(live)
        dead = state.exit_reason is None and state.owner is None
        return render_html(state, predictions, live._replace(word=_word(state), dead=dead))

    def _empty_page(self, live: Live) -> str:
        heading = element("h1", "Nothing has run here yet", id="alive")
        command = element("code", f"meta-agent evolve --workspace {self._place.root}")
        words = element("p", "The page follows as soon as a run begins: ", command)
        main = element("main", element("header", heading, words))
        return document("nothing yet", main, live=live)

    def attempts(self, query: Query) -> str:
        state, index = self._index()
        filters = Wanted(**{name: query.get(name, "") for name in Wanted._fields})
        start = query.get("start", "")
        label = names_of_commits(_commit_names(state))
        chosen = index.find(filters, label, int(start) if start.isdecimal() else 0)
        return drawn.attempts(
            chosen, filters, label, lambda measurement: _policy(state, measurement)
        )

    def attempt(self, query: Query) -> str:
        """Returns one whole attempt; `at` is its measurement and line."""
        state, index = self._index()
        measurement, _, line = query.get("at", "").rpartition(":")
        rollout = index.open(measurement, int(line)) if line.isdecimal() else None
        if rollout is None:
            raise ConfigError(f"there is no attempt {query.get('at', '')!r} in run {state.run}")
        label = names_of_commits(_commit_names(state))(rollout.harness_commit)
        return drawn.attempt(rollout, label, _trained(state, rollout.policy), self._vocabulary())

    def heat(self, query: Query) -> str:
        """Returns the map of tasks by versions on one split."""
        state, index = self._index()
        read = index.measurements()
        by_name = {measurement.ref.name: measurement for measurement in read}
        evaluated = [by_name[name] for name in state.evaluated if name in by_name]
        splits = sorted({measurement.split for measurement in evaluated} - {""})
        split = query.get("split") or ("search" if "search" in splits else "".join(splits[:1]))
        label = names_of_commits(_commit_names(state))
        heat_shown = heat(
            evaluated,
            split,
            lambda measurement: f"{label(measurement.commit)} {_policy(state, measurement)}",
        )
        return drawn.heat_map(heat_shown, split, splits, index.reading)

    def answer(self, body: Mapping[str, Any]) -> str:
        """Records what a person decided. Raises ConfigError if the answer is incomplete."""
        state, _ = self._index()
        verdict, feedback = body.get("answer"), str(body.get("feedback") or "").strip()
        if verdict not in ("APPROVE", "REVISE", "ABORT"):
            raise ConfigError(f"{verdict!r} is no answer", hint="APPROVE, REVISE or ABORT")
        if verdict == "REVISE" and not feedback:
            raise ConfigError("to send it back, say what should change")
        return self._decide(state.run, str(body.get("subject", "")), Reply(verdict, feedback))

    # --- inside ------------------------------------------------------------------------------

    def _now(self) -> _Snapshot:
        with self._lock:
            stamp = self.stamp()
            if stamp != self._snapshot.stamp:
                self._snapshot = _Snapshot(stamp, *self._read())
            return self._snapshot

    def _read(self) -> tuple[RunState | None, Mapping[str, Any] | None]:
        if not self._place.ledger_file.is_file():
            return None, None
        with Ledger.open(self._place.ledger_file, owner_lock=False) as ledger:
            if not ledger.runs():
                return None, None
            return reduce(ledger, self._run), self._predictions(ledger)

    def _index(self) -> tuple[RunState, Attempts]:
        state = self._now().state or RunState(self._run or "-")
        with self._lock:
            if self._attempts is None or self._attempts[0] != state.run:
                self._attempts = state.run, Attempts(self._store, state.run)
            index = self._attempts[1]
        index.look()
        return state, index

    def _vocabulary(self) -> dict[int, str]:
        """Returns the texts of the tokens of a policy that was trained here, if they are known."""
        if self._words is None:
            file = next(self._place.checkpoints.glob("*/*/tokenizer.json"), None)
            self._words = drawn.vocabulary_of(_json(file)) if file else {}
        return self._words


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _word(state: RunState) -> str:
    """Returns how the run stands and, for an unfinished run, how old its last record is."""
    word = state_word(state)
    if state.exit_reason is None:
        word += f"; last sign of life {duration(max(0.0, time.time() - state.last_at))} ago"
    return word


def _commit_names(state: RunState) -> Iterator[tuple[str, str]]:
    """Yields commits with the names that people have for them, the best name first."""
    yield from ((part.commit, part.version) for part in state.versions)
    yield from ((part.commit, f"g{part.generation} {part.name}") for part in state.cells)
    yield from ((part.commit, part.short_id) for part in state.candidates.values())


def _policy(state: RunState, measurement: Measurement) -> str:
    seed = (
        f" s{measurement.seed}" if measurement.seed and measurement.policy in state.trained else ""
    )
    return _trained(state, measurement.policy) + seed


def _trained(state: RunState, policy: str) -> str:
    """Returns `30 steps` for a policy that was trained here, `untrained` for the first one."""
    if policy in state.trained:
        return f"{state.trained[policy]} steps"
    if "+" in policy:
        return "in training"
    return "untrained" if state.trained else policy
