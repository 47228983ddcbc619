"""The baselines that the search of `full` has to beat.

`no-diagnostics` is the same loop, but its proposer sees scores and nothing else. The difference to
`full` shows what the evidence below the score is worth.

`static` searches nothing and spends the whole budget on one training of the first harness. It hands
over the checkpoint with the highest clean success on the search split. That favours the baseline,
because the vault counts clean success, too. A frozen policy is measured without training.

`imitate` lets the policy imitate the references of training tasks under the first harness, and does
nothing else. `imitate-then-train` spends the rest of the budget on one training of those weights.
The difference to `staged` shows what its edits and its legs add to imitation.

`score-only` keeps a change if the score on the search split went up, and drops it otherwise. This
is how autoresearch works, so the gate is compared with it. It uses one training seed, the tasks
that the proposer saw, and raw success; it has no validity detectors and no statistics. A
candidate that does not run is rejected. The search ends without budget or without an idea.

Not covered: proof. The verdicts of `score-only` prove nothing, so no skill is learnt from them.
"""

from __future__ import annotations

from typing import Final

from meta_agent.core.errors import BudgetError, CandidateError, ConfigError
from meta_agent.core.evidence import Evidence
from meta_agent.core.gate import Arm
from meta_agent.core.gate.judge import arm_summary
from meta_agent.core.lab.live import ArmRef, Job, Trained
from meta_agent.core.loop.budget import one_cell, pays_for
from meta_agent.core.loop.records import (
    BY_SCORE,
    Collected,
    HandedOver,
    Judged,
    Reading,
    Tested,
    Version,
    failure,
    must_work,
    stopped,
)
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.cells import merge_terms
from meta_agent.core.loop.verbs.collect import collect, read
from meta_agent.core.loop.verbs.learn import conclude
from meta_agent.core.loop.verbs.propose import propose
from meta_agent.core.loop.verbs.test import test
from meta_agent.core.loop.verbs.train_on import Checkpoint, on_search, one_long
from meta_agent.core.protocols import JSON, Candidate, Verdict, VerdictKind
from meta_agent.strategies.full import Full
from meta_agent.strategies.warm_up import warm_up

_SHOWN: Final = ("score.", "tasks_")


class ScoresShown(Full):
    """The default search, but its proposer sees only how many tasks were solved, and not why."""

    def shows(self, reading: Reading) -> Reading:
        return Reading(_scores(reading.evidence), findings=(), behind=False)


def _scores(evidence: Evidence) -> Evidence:
    changes = {
        name: value
        for name, value in evidence.version.items()
        if name.removeprefix("change.").startswith(_SHOWN)
    }
    return Evidence(
        score=evidence.score,
        signal={},
        behaviour={},
        version=changes,
        alerts=tuple(alert for alert in evidence.alerts if alert.layer == "score"),
        per_task=evidence.per_task,
        evaluator_hashes=evidence.evaluator_hashes,
        tasks_hash=evidence.tasks_hash,
        comparability=evidence.comparability,
    )


class Static:
    """The baseline without a search: trains the first harness for as long as the budget lasts."""

    def carry_out(self, run: Run, first: Version) -> HandedOver:
        trained = one_long(run, first) if run.plan.trains else None
        return HandedOver(first, trained, "start", "nothing was searched for")


class Imitate:
    """The baseline that imitates references of training tasks under the first harness."""

    def carry_out(self, run: Run, first: Version) -> HandedOver:
        if not run.plan.trains:
            raise ConfigError(
                f"the policy {run.config.policy} stays frozen, so that it can imitate nothing",
                hint="give --policy hf:PATH and --train-steps 1 or more",
            )
        trained = self._more(run, first, warm_up(run, first, self._start(run, first)))
        return HandedOver(first, trained, "start", "nothing was searched for")

    def _start(self, run: Run, first: Version) -> Checkpoint:
        tree = run.repo.tree(first.commit)
        run.lab.label(tree, first.id)
        with must_work(first):
            return on_search(run, tree, run.lab.untrained())

    def _more(self, run: Run, first: Version, warmed: Checkpoint) -> Trained:
        return warmed.trained


class ImitateThenTrain(Imitate):
    """The baseline that spends what imitation leaves of the budget on one training."""

    def _more(self, run: Run, first: Version, warmed: Checkpoint) -> Trained:
        return one_long(run, first, onto=warmed)


class ScoreOnly:
    """A search that tries one edit at a time and keeps it if the score on search tasks rises."""

    one_at_a_time = True

    def carry_out(self, run: Run, first: Version) -> HandedOver:
        version, evidence = first, None
        try:
            for generation in range(run.config.generations):
                after = _generation(run, version, generation, evidence)
                if after is None:
                    break
                version, evidence = after
        except BudgetError as reached:
            if run.config.budget is None:
                raise
            run.note(f"no further candidate: {reached}")
        trained = run.lab.train(run.repo.tree(version.commit), seed=0, steps=run.plan.steps)
        has_changed = version.commit != first.commit
        words = "kept by its score alone"
        return HandedOver(version, trained, "unproven" if has_changed else "start", words)


def _generation(
    run: Run, version: Version, generation: int, earlier: Evidence | None
) -> tuple[Version, Evidence] | None:
    """Tries one change. Returns the next version and its evidence.

    Returns None if there is no idea, or if the budget does not pay for a candidate.
    """
    if not pays_for(run, f"g{generation}", _price(run, version)):
        return None
    collected = collect(run, version)
    reading = read(run, collected, generation, earlier)
    proposed = propose(run, collected, reading._replace(findings=()), generation)[:1]
    if not proposed:
        return None
    (candidate,) = proposed
    judged = _judge(run, collected, test(run, collected, candidate))
    conclude(run, collected, candidate, judged, reading)
    if judged.verdict.kind is VerdictKind.PROMOTE:
        version = _merge(run, version, candidate)
    return version, reading.evidence


def _price(run: Run, version: Version) -> int:
    """Returns the attempts that one candidate costs, with those that its version still needs."""
    tree, plan = run.repo.tree(version.commit), run.plan
    cell_price = one_cell(plan, tree)
    is_trained = run.lab.trained(Job(tree, 0, plan.steps, "search", plan.search))
    return cell_price + plan.search + (0 if is_trained else cell_price)


def _judge(run: Run, collected: Collected, tested: Tested) -> Judged:
    if tested.vetoed:
        return stopped(tested.findings)
    plan, lab, cid = run.plan, run.lab, tested.candidate.id
    tree = run.repo.tree(tested.candidate.commit)
    try:
        evaluation = lab.measure(Job(tree, 0, plan.steps, "search", plan.search))
    except CandidateError as error:
        return stopped((failure(error), *tested.findings))
    before = lab.arm_of("baseline", collected.tree, {0: collected.evaluated})
    return _compare_scores(run, (before, lab.arm_of(cid, tree, {0: evaluation})))


def _compare_scores(run: Run, refs: tuple[ArmRef, ArmRef]) -> Judged:
    before, after = (run.lab.rows(ref) for ref in refs)
    old, new = _score(before), _score(after)
    word, kind = ("kept", VerdictKind.PROMOTE) if new > old else ("reset", VerdictKind.REJECT)
    reason = f"{word}: solved {new:.1%} of {after.planned} search tasks, {old:.1%} before"
    evidence = {
        "judge": BY_SCORE,
        "inputs": {"split": "search"},
        "arms": {"baseline": arm_summary(before), "candidate": arm_summary(after)},
        "numbers": {"before": old, "after": new},
    }
    return Judged(Verdict(kind, (reason,), evidence=evidence), refs)


def _score(arm: Arm) -> float:
    return sum(bool(row.success) for row in arm.rows()) / arm.planned


def _merge(run: Run, version: Version, candidate: Candidate) -> Version:
    """Returns the search's next version, a merge of a candidate. Only `promote` moves `main`."""

    def merge() -> JSON:
        commit = run.repo.merge(onto=version.commit, **merge_terms(run, candidate))
        return {
            "candidate": candidate.id,
            "commit": commit,
            "version": f"v{int(version.id[1:]) + 1}",
            "generation": candidate.generation,
            "undone": False,
        }

    record = run.once(f"{candidate.id}/merge", "merge", {"onto": version.commit}, merge)
    return Version(record["version"], record["commit"])
