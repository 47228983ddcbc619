"""`meta-agent backtest`: a branch against another version, on rollouts that are stored already.

Works in a workspace after a run, on any branch or commit of its harness, also one that somebody
edits by hand. Nothing is trained, asked or recorded. The code of both versions runs in sandboxes of
the kind that the run used.

Not covered: what only training or acting can show (scaffold, curriculum and recipe changes have
nothing to score; the report says so).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, cast

from meta_agent.composition.preflight import backend_of
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.core.harness import HarnessSession, open_session, parse_contract
from meta_agent.core.history import HarnessRepo
from meta_agent.core.lab.arms import behaviour_hash, parts_of
from meta_agent.core.lab.static import changed_paths
from meta_agent.core.ledger import Ledger
from meta_agent.core.protocols import JSON, HarnessTree, Sandbox, SandboxLimits
from meta_agent.core.replay.ceilings import Ceiling
from meta_agent.core.replay.comparison import ReplayReport
from meta_agent.core.replay.replay import replay
from meta_agent.core.replay.watching import Reading, compare_diagnostics
from meta_agent.core.rollouts import RolloutStore
from meta_agent.core.workspace import Workspace
from meta_agent.sandboxes import open_sandbox
from meta_agent.studies._stored import require_rollouts
from meta_agent.studies.story import Named, newest, resolve

SANDBOX_SEC: Final = 600.0
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Backtested:
    """What came of it."""

    what: Named
    against: Named
    shards: tuple[str, ...]
    changed: tuple[str, ...]
    factors: tuple[str, ...]
    replay: ReplayReport
    diagnostics: tuple[Reading, ...] | None  # None: no diagnostic was changed
    sec: float

    @property
    def scored(self) -> bool:
        """Whether the change is of a kind that stored rollouts can tell about."""
        return bool({"reward", "filter", "diagnostics"} & set(self.factors))

    def to_json(self) -> dict[str, JSON]:
        pairs = self.diagnostics
        return {
            "schema_version": 1,
            "version": {"name": self.what.name, "commit": self.what.commit},
            "against": {"name": self.against.name, "commit": self.against.commit},
            "rollouts": list(self.shards),
            "changed": list(self.changed),
            "factors": list(self.factors),
            "replay": self.replay.to_json(),
            "diagnostics": None if pairs is None else [pair.to_json() for pair in pairs],
            "sec": round(self.sec, 3),
        }


def backtest(
    place: Workspace,
    ledger: Ledger,
    name: str | None,
    *,
    against: str | None = None,
    rollouts: str | None = None,
    ceiling: Ceiling | None = None,
) -> Backtested:
    """Compares a version with another one; by default the newest candidate with its base."""
    began = time.monotonic()
    # Not `HarnessRepo.open`: that mends what a killed run left, which is the owner's to do.
    repo, store = HarnessRepo(place.harness_repo), RolloutStore(place.rollouts)
    what = resolve(repo, ledger, name) if name else newest(ledger)
    other = resolve(repo, ledger, against) if against else _base_of(repo, what)
    require_rollouts(ledger, store)
    before, after = repo.tree(other.commit), repo.tree(what.commit)
    shards = _shards(ledger, store, before, rollouts)
    changed = changed_paths(before, after)
    factors = _factors(before, changed)

    def lines() -> Iterator[bytes]:
        return (line for shard in shards for line in store.iter_lines(shard))

    with _sessions(_config(ledger), before, after) as (base, edited):
        report = replay(base, edited, lines(), stored_commit=other.commit, ceiling=ceiling)
        watched = "diagnostics" in factors
        diagnostics = tuple(compare_diagnostics(base, edited, lines)) if watched else None
    spent = time.monotonic() - began
    return Backtested(what, other, shards, tuple(changed), factors, report, diagnostics, spent)


# --- what is meant ------------------------------------------------------------------------------


def _base_of(repo: HarnessRepo, what: Named) -> Named:
    """A candidate's own base, which its verdict is about too; of anything else `main`."""
    of_candidate = "/" in what.name and what.base
    return Named("its base", of_candidate) if of_candidate else Named("main", repo.head())


def _factors(before: HarnessTree, changed: Sequence[str]) -> tuple[str, ...]:
    contract = parse_contract(before)
    factors = (factor for path in changed for factor in contract.factors_matching(path))
    return tuple(dict.fromkeys(factors))


# --- on which rollouts --------------------------------------------------------------------------


def _shards(
    ledger: Ledger, store: RolloutStore, before: HarnessTree, choice: str | None
) -> tuple[str, ...]:
    """Training rollouts of the version compared with, as far as there are any."""
    runs = {row.run for row in ledger.runs()}
    if choice is not None and choice not in runs:
        return (_named_shard(store, choice),)
    trained = [
        (step.intent["behaviour"], cast("int", step.intent["seed"]), step.fields["shard"])
        for step in ledger.steps(choice, kind="train")
        if step.is_done and step.fields.get("shard")
    ]
    base_hash = behaviour_hash(before)
    if mine := sorted(
        (seed, at) for at, (hash_, seed, _) in enumerate(trained) if hash_ == base_hash
    ):
        return _names(trained[mine[0][1]][2])
    if trained:
        return _names(trained[-1][2])
    return _evaluated(ledger, choice)


def _evaluated(ledger: Ledger, run: str | None) -> tuple[str, ...]:
    """A frozen policy has no training rollouts: the newest ones on the search split instead."""
    for step in reversed(ledger.steps(run, kind="eval")):
        if step.is_done and step.intent.get("split") == "search" and step.fields.get("shard"):
            return _names(step.fields["shard"])
    raise ConfigError(
        "this workspace holds no rollouts to replay yet",
        hint="meta-agent evolve",
    )


def _names(shard: JSON) -> tuple[str, ...]:
    return tuple(str(part["name"]) for part in parts_of(shard))


def _named_shard(store: RolloutStore, choice: str) -> str:
    names = store.names()
    matches = [name for name in names if choice in (name, name.rsplit("/", 1)[-1])]
    if len(matches) == 1:
        return matches[0]
    problem = f"{len(matches)} shards are" if matches else "no run or shard is"
    listed = ", ".join((matches or names)[-_SHOWN:]) or "none"
    raise ConfigError(f"{problem} named {choice!r}", hint=f"--rollouts one of: {listed}")


# --- where the code runs ------------------------------------------------------------------------


def _config(ledger: Ledger) -> RunConfig:
    rows = ledger.runs()
    if not rows or not rows[-1].config:
        raise ConfigError("nothing has run in this workspace yet", hint="meta-agent evolve")
    return RunConfig.from_json(rows[-1].config)


@contextmanager
def _sessions(
    config: RunConfig, before: HarnessTree, after: HarnessTree
) -> Iterator[tuple[HarnessSession, HarnessSession]]:
    backend = backend_of(config)
    limits = SandboxLimits(deadline_sec=SANDBOX_SEC)

    def opened(image: str | None) -> Sandbox:
        return open_sandbox(backend, run="backtest", limits=limits, image=image)

    with open_session(before, opened) as base, open_session(after, opened) as edited:
        yield base, edited
