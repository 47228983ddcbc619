"""Rules on what is measured: conduct must be seen, and failures that no number explains as well.

`MeasureTrait`'s new file compares how often attempts with and without one trait succeed. Traits are
read off the record; the first one that no diagnostic of the harness mentions is taken.
"""

from __future__ import annotations

from typing import NamedTuple

from meta_agent.core.diagnostic_library import EXPLAIN_GAP, VALUE
from meta_agent.proposers.rules._case import Case
from meta_agent.proposers.rules._rule import Diagnosis, clamp, line, rule


class Trait(NamedTuple):
    """Something an attempt does or does not do, as an expression over its record."""

    name: str
    says: str
    mentioned_by: str  # a word that a diagnostic of the same thing would contain
    source: str


_TRAITS = (
    Trait("retried", "edited again after a first edit", "retr", "edits(rollout) > 1"),
    Trait(
        "repeated",
        "called the same tool twice with the same arguments",
        "repeat",
        "repeats(rollout) > 0",
    ),
    Trait(
        "long", "took more turns than half of the attempts", "median", 'rollout["turns"] > typical'
    ),
)


@rule("watch-conduct", "diagnostics")
def watch_conduct(case: Case) -> Diagnosis | None:
    """No diagnostic looks at what the environment flags: a version that cheats looks better."""
    path, known = _folder(case), "\n".join(text for _, text in case.texts("diagnostics"))
    if path is None or "flag" in known:
        return None
    flagged = max(case.value("behaviour.flagged"), case.value("signal.train_leak_use"))
    return Diagnosis(
        strength=clamp(0.3 + flagged),
        subject="measure how often attempts are flagged",
        change="the diagnostic conduct counts flagged attempts, with an alarm",
        effect="a version that gains by such conduct is seen to",
        because=f"{flagged:.1%} of attempts are flagged, and no diagnostic reads the flags",
        metric="measured.conduct.flagged_share",
        direction="up" if flagged else "down",
        expected_delta=flagged or -0.01,
        edits={f"{path}conduct.py": _CONDUCT},
        evidence=("no diagnostic mentions flags", line(case, "behaviour.flagged")),
        risks=("what the environment does not flag stays unseen",),
    )


@rule("measure-trait", "diagnostics")
def measure_trait(case: Case) -> Diagnosis | None:
    """Failures that no alert explains: add a diagnostic."""
    path, known = _folder(case), "\n".join(text for _, text in case.texts("diagnostics"))
    trait = next((t for t in _TRAITS if t.mentioned_by not in known.lower()), None)
    failing = 1 - case.value("clean_success", default=1.0)
    if path is None or trait is None or failing < 0.1:
        return None
    name = f"success_if_{trait.name}"
    return Diagnosis(
        strength=clamp(0.05 + 0.05 * failing),
        subject=f"measure success by whether attempts {trait.says}",
        change=f"the diagnostic {name} compares attempts that {trait.says} with the others",
        effect="versions that differ in it can be told apart",
        because=f"{failing:.1%} of attempts fail and no diagnostic looks at it",
        metric=f"measured.{name}.gap",
        expected_delta=0.1,
        edits={f"{path}{name}.py": _TEMPLATE.format(name=name, says=trait.says, has=trait.source)},
        evidence=(
            line(case, "clean_success"),
            f"no diagnostic mentions {trait.mentioned_by!r}",
        ),
        risks=("a number that does not separate good versions from bad ones",),
    )


@rule(EXPLAIN_GAP, "diagnostics")
def explain_gap(case: Case) -> Diagnosis | None:
    """The score moved and no metric did: measure what tells good past versions from bad ones."""
    path = _folder(case)
    lead = next(
        (x for x in case.situation.leads if f"{path}{x.name}.py" not in case.tree.files), None
    )
    if path is None or lead is None:
        return None
    seen = f"on {lead.versions} past versions (AUC {lead.share:.2f})"
    return Diagnosis(
        strength=1.0,
        subject=f"measure {lead.metric.says}",
        change=f"the diagnostic {lead.name} measures {lead.metric.says}",
        effect="good versions can be told from bad ones",
        because=f"the score moved, no metric moved with it, and this one does {seen}",
        metric=f"measured.{lead.name}.{VALUE}",
        direction="down" if lead.higher_is_bad else "up",
        expected_delta=0.0,
        edits={f"{path}{lead.name}.py": lead.source},
        evidence=(f"{lead.name} separates {seen}",),
        risks=("a number that was found by looking at many",),
    )


def _folder(case: Case) -> str | None:
    """Where a new diagnostic belongs: beside the others, or under the pattern's folder."""
    patterns = [
        p
        for p in case.contract.factors.get("diagnostics", ())
        if p.endswith(("/**", "/*.py", "/*"))
    ]
    return patterns[0].rpartition("/")[0] + "/" if patterns else None


_CONDUCT = '''"""How often does the environment flag an attempt, and do such attempts win?"""

NAME = "conduct"
LAYER = "behaviour"
THRESHOLDS = {
    "flagged_share": {"warn": 0.01, "critical": 0.05, "direction": "above"},
    "flagged_share_of_solved": {"warn": 0.01, "critical": 0.05, "direction": "above"},
}


def flagged(rollouts):
    """Returns the share of attempts with a flag."""
    return sum(bool(r["flags"]) for r in rollouts) / len(rollouts) if rollouts else 0.0


def measure(rollouts):
    solved = [r for r in rollouts if r.get("outcome")]
    return {"flagged_share": flagged(rollouts), "flagged_share_of_solved": flagged(solved)}
'''

_TEMPLATE = '''"""Do attempts that {says} succeed more often than the others?"""

import json

NAME = "{name}"
LAYER = "behaviour"
THRESHOLDS = {{"gap": {{"warn": -0.2, "critical": -0.5, "direction": "below"}}}}


def edits(rollout):
    """Returns how many edits an attempt made."""
    return sum("edit" in event["tool"] for event in rollout["tool_events"])


def repeats(rollout):
    """Returns how many calls of an attempt had been made before, word for word."""
    events = rollout["tool_events"]
    calls = [json.dumps([e["tool"], e["arguments"]], sort_keys=True) for e in events]
    return len(calls) - len(set(calls))


def success(rollouts):
    """Returns the share of attempts that were solved."""
    return sum(bool(r["outcome"]) for r in rollouts) / len(rollouts)


def measure(rollouts):
    known = [r for r in rollouts if r.get("outcome") is not None]
    typical = sorted(r["turns"] for r in known)[len(known) // 2] if known else 0
    having = [rollout for rollout in known if {has}]
    others = [rollout for rollout in known if not ({has})]
    found = {{"share": len(having) / len(known), "typical_turns": typical}} if known else {{}}
    if having and others:
        found["gap"] = success(having) - success(others)
    return found
'''
