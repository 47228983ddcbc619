"""Where `verify` finds what it checks: the ledger, the git notes and the rollout store."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from meta_agent.backtest.arms import (
    ArmRef,
    behaviour_hash,
    iter_shard,
    load_arm,
    load_shard,
    parts_of,
)
from meta_agent.backtest.inspector import Inspector
from meta_agent.backtest.verify import Difference
from meta_agent.errors import ConfigError, MetaAgentError
from meta_agent.gate import Arm, Finding, ValidityLimits
from meta_agent.history import HarnessRepo
from meta_agent.ledger import Ledger
from meta_agent.protocols import JSON, Domain, Rollout
from meta_agent.rollouts import RolloutStore

Declared = Callable[[JSON], Mapping[str, JSON]]
"""Of a recorded verdict: the judge's inputs as its run declared them."""


def _nothing(recorded: JSON) -> Mapping[str, JSON]:
    return {}


NOTE_RECORD = "Record: "
"""Begins the line of a git note that holds the verdict as JSON."""


@dataclass(frozen=True, slots=True)
class RecordedVerdicts:
    """A `VerdictSource` over a workspace."""

    ledger: Ledger
    repo: HarnessRepo
    store: RolloutStore
    domain: Domain
    declared: Declared = _nothing

    def verdict(self, commit: str) -> JSON | None:
        """The last verdict on the candidate whose commit, or whose merge, begins with `commit`."""
        if len(commit) < 6:
            raise ConfigError(f"{commit!r} is too short: give at least 6 characters of the commit")
        merged = {
            step.outcome["candidate"]
            for step in self.ledger.steps(kind="merge")
            if step.done and step.outcome["commit"].startswith(commit)
        }
        for step in reversed(self.ledger.steps(kind="verdict")):
            told = step.outcome if step.done else {"commit": "", "candidate": ""}
            if told["commit"].startswith(commit) or told["candidate"] in merged:
                return told
        return None

    def note(self, commit: str) -> JSON | None:
        """The verdict as the note of the candidate's commit says it."""
        recorded = self.verdict(commit)
        text = self.repo.notes(recorded["commit"]) if recorded else None
        lines = (text or "").splitlines()
        found = next((line for line in lines if line.startswith(NOTE_RECORD)), None)
        return json.loads(found.removeprefix(NOTE_RECORD)) if found else None

    def arms(self, recorded: JSON) -> tuple[Arm, Arm] | None:
        """The rows of both arms, from stored rollouts."""
        if not recorded.get("arms"):
            return None
        baseline, candidate = (
            load_arm(self.store, ArmRef.from_json(ref)) for ref in recorded["arms"]
        )
        return baseline, candidate

    def terms(self, recorded: JSON) -> Mapping[str, JSON]:
        """The judge's inputs as the run declared them."""
        return self.declared(recorded)

    def tampered(self, recorded: JSON) -> list[Difference]:
        """The journal against its own chain, and the chain against the note."""
        found = []
        if (step := self.ledger.broken()) is not None:
            found.append(Difference("the journal's chain", "unbroken", f"broken at step {step}"))
        note = self.note(recorded["commit"]) or {}
        head = self.ledger.head(f"{recorded['candidate']}/verdict")
        if "journal" in note and note["journal"] != head:
            found.append(Difference("git note journal", note["journal"], head))
        return found

    def strangers(self, recorded: JSON) -> list[Difference]:
        """The candidate's arm must have been measured with the candidate's files."""
        judge = recorded["evidence"].get("judge")
        if not recorded.get("arms") or judge != "live":
            return []
        claimed = (recorded["evidence"].get("claim") or {}).get("commit")
        wanted = self._behaviour(claimed or recorded["commit"])
        shards = recorded["arms"][1]["shards"]
        parts = [part for shard in shards.values() for part in parts_of(shard)]
        made = {row.harness_commit for part in parts for row in iter_shard(self.store, part)}
        others = sorted(commit for commit in made if self._behaviour(commit) != wanted)
        return [Difference("files of the candidate's arm", recorded["commit"], c) for c in others]

    def _behaviour(self, commit: str) -> str:
        if self.repo.tip(commit) is None:
            return f"{commit}: the repository does not have it"
        try:
            return behaviour_hash(self.repo.tree(commit))
        except MetaAgentError as error:
            return f"{commit}: {error}"

    def rollouts(self, recorded: JSON) -> Iterator[Rollout]:
        """The stored rollouts behind both arms."""
        for ref in recorded.get("arms") or ():
            for shard in ref["shards"].values():
                yield from load_shard(self.store, shard)

    def findings(
        self, recorded: JSON, arms: tuple[Arm, Arm], limits: ValidityLimits
    ) -> tuple[Finding, ...]:
        """What the loop's detectors say of the stored arms."""
        before, after = map(ArmRef.from_json, recorded["arms"])
        inspector = Inspector(self.store, self.domain, limits)
        claimed = "kind" in (recorded["evidence"].get("claim") or {})
        ask = inspector.handed_over if claimed else inspector.between
        return ask((before, after), arms)
