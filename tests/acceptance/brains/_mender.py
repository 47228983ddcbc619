"""A meta-agent that finds one flaw of a scaffold where its evidence points, and words one more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.acceptance.brains._team import Said, Step, Team, lines
from tests.loopback import Call
from tests.loopback._speech import text_of


@dataclass(frozen=True)
class Change:
    """One edit of a harness, and what it is said to be good for."""

    file: str
    before: str
    after: str
    statement: str
    expected: float


@dataclass(frozen=True)
class Mender(Team):
    """Proposes `repair` where `metric` is above `alarm`, and `rewording` in any case."""

    metric: str
    alarm: float
    repair: Change
    rewording: Change

    def analyst(self, call: Call, done: list[Step]) -> Said:
        reads = ["evidence/report.md", "evidence/metrics.csv", "evidence/rollouts/index.csv"]
        if len(done) < len(reads):
            return "read_file", {"path": reads[len(done)], "lines": 400}
        return "submit_hypotheses", {"hypotheses": self.hypotheses(done)}

    def hypotheses(self, done: list[Step]) -> list[dict[str, Any]]:
        found = []
        for number, text in lines(done[1].result):
            name, value, *_ = [*text.split(","), ""]
            if name == self.metric and float(value) > self.alarm:
                cited = {"path": "evidence/metrics.csv", "line": number, "quote": text}
                found.append(_hypothesis(self.repair, cited))
        number, text = next(row for row in lines(done[2].result) if row[0] == 1)
        cited = {"path": "evidence/rollouts/index.csv", "line": number, "quote": text}
        return [*found, _hypothesis(self.rewording, cited)]

    def proposer(self, call: Call, done: list[Step]) -> Said:
        told = text_of(call.messages[1]["content"])
        change = self.repair if self.repair.statement in told else self.rewording
        work: list[Said] = [
            ("view", {"path": change.file}),
            ("edit", {"path": change.file, "old": change.before, "new": change.after}),
            ("run_contract_tests", {}),
            ("finish", {"subject": "change one line of the scaffold"}),
        ]
        assert len(done) < len(work), f"not taken: {done[-1].result}"
        return work[len(done)]


def _hypothesis(change: Change, cited: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "factor": "scaffold",
        "statement": change.statement,
        "metric": "clean_success",
        "direction": "up",
        "expected_delta": change.expected,
        "evidence": [dict(cited)],
        "plan": f"One line of {change.file}.",
    }
