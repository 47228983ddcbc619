"""Reading commands that need more than the ledger: `verify`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import cast

from meta_agent.backtest.records import RecordedVerdicts
from meta_agent.backtest.verify import VerifyReport, verify_commit
from meta_agent.config import RunConfig
from meta_agent.domains.dealt import Halves
from meta_agent.errors import ConfigError
from meta_agent.gate import Course
from meta_agent.gate.judge import WORTHWHILE_EFFECT
from meta_agent.history import HarnessRepo
from meta_agent.ledger import Ledger
from meta_agent.offers import Offered
from meta_agent.protocols import JSON, Domain
from meta_agent.rollouts import RolloutStore
from meta_agent.steps.opening import load_run_domain
from meta_agent.steps.plan import Plan, plan_for
from meta_agent.steps.spending import declared_alpha
from meta_agent.workspace import Workspace


def verify(place: Workspace, ledger: Ledger, commit: str) -> VerifyReport:
    """Recomputes the verdict on a commit by its own run's settings, grading every attempt again."""
    runs = ledger.runs()
    if not runs:
        raise ConfigError("nothing has run in this workspace yet", hint="meta-agent evolve")
    repo, store = HarnessRepo.open(place.harness_repo), RolloutStore(place.rollouts)
    known = RecordedVerdicts(ledger, repo, store, _no_domain).verdict(commit)
    own = str(known["candidate"]).partition("/")[0] if known else runs[-1].run
    config = RunConfig.from_json((ledger.run(own) or runs[-1]).config)
    domain = load_run_domain(config)
    plan = replace(plan_for(config, domain), alpha=declared_alpha(ledger, own))
    domain = Halves(domain) if plan.halved else domain
    source = RecordedVerdicts(ledger, repo, store, domain, lambda told: _declared(plan, told))
    # What a judge said is recorded; nobody is asked again here.
    asked_again = None if Offered.by(domain).judge else domain
    return verify_commit(source, commit, domain=asked_again)


_no_domain = cast("Domain", None)  # finding a verdict asks no domain


def _declared(plan: Plan, recorded: JSON) -> Mapping[str, JSON]:
    """What the judge was to be told, from the run's settings and the claim's kind."""
    evidence = recorded["evidence"]
    if evidence.get("judge") != "live":
        return {}
    claim = (evidence.get("claim") or {}).get("kind")
    inputs, course = evidence["inputs"], evidence["inputs"].get("course")
    terms = {
        "budget": plan.budget.to_json(),
        "min_effect": plan.min_effect,
        "worthwhile_effect": WORTHWHILE_EFFECT,
        **({"ties": plan.ties} if plan.ties else {}),
    }
    if course is None or claim != "harness":
        return terms
    most = min(int(inputs["course"]["maximum"]), plan.looks[-1])
    declared = Course("training_pairs", max(2, most), plan.target)
    return {**terms, "course": asdict(declared)}
