from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from meta_agent.backtest import regrade, verify_commit, verify_verdict
from meta_agent.backtest.verify import Difference
from meta_agent.errors import ConfigError
from meta_agent.gate import (
    Arm,
    ErrorBudget,
    Finding,
    ValidityLimits,
    arm_of,
    find_all,
    judge_diagnostics,
    judge_live,
    row_of,
    verdict_to_json,
)
from meta_agent.protocols import JSON, Outcome, Rollout

from ._harness import broken, rollout

TASKS = 60


def made(share: float, *, seeds: int = 2, leaks: int = 0) -> list[Rollout]:
    """`share` of the tasks solved, one less or more in odd seeds."""
    return [
        rollout(
            task, 0, seed=seed, split="confirm", group_id=f"confirm/t{task}",
            outcome=task < share * TASKS + seed % 2,
            verifier_inputs={"solved": task < share * TASKS + seed % 2},
            flags=["leak:log"] if task < leaks else [],
        )
        for seed in range(seeds) for task in range(TASKS)
    ]  # fmt: skip


def arm(name: str, seen: Iterable[Rollout]) -> Arm:
    return arm_of(name, (row_of(r, training_seed=r.seed) for r in seen), planned=TASKS)


STATIC = Finding("static.suspect_code", "warn", "imports os")


def recorded(before: Arm, after: Arm, **options: Any) -> dict[str, JSON]:
    settings: dict[str, Any] = {
        "factor": "scaffold",
        "budget": ErrorBudget(0.05, 2, 2),
        "look": 1,
        "final_look": True,
        "findings": (*find_all(before, after), STATIC),
    }
    verdict = judge_live(before, after, **{**settings, **options})
    data: dict[str, JSON] = json.loads(json.dumps(verdict_to_json(verdict)))
    return data


BEFORE, AFTER, WORSE, LEAKY = made(0.3), made(0.8), made(0.2), made(1.0, leaks=50)


@pytest.mark.parametrize(
    ("after", "options", "kind"),
    [
        (AFTER, {}, "PROMOTE"),
        (LEAKY, {}, "INVALID"),
        (WORSE, {}, "REJECT"),
    ],
)
def test_every_kind_of_verdict_is_reproduced(
    after: list[Rollout], options: dict[str, Any], kind: str
) -> None:
    arms = (arm("a", BEFORE), arm("b", after))
    report = verify_verdict(recorded(*arms, **options), arms, commit="abc")
    assert report.ok, report.differences
    assert (report.recorded, report.recomputed) == (kind, kind)
    assert report.rows == 4 * TASKS
    assert report.taken_as_recorded == ("static.suspect_code",)


def _forge(data: dict[str, JSON], **changes: JSON) -> dict[str, JSON]:
    return {**data, **changes}


def test_a_forged_verdict_is_found_with_both_values() -> None:
    arms = (arm("a", BEFORE), arm("b", LEAKY))
    report = verify_verdict(_forge(recorded(*arms), kind="PROMOTE"), arms, commit="abc")
    assert not report.ok
    assert report.differences[0] == ("kind", "PROMOTE", "INVALID")


def test_a_nudged_effect_is_found() -> None:
    arms = (arm("a", BEFORE), arm("b", AFTER))
    data = recorded(*arms)
    effect = {**data["effect"], "ci_low": data["effect"]["ci_low"] + 1e-6}
    report = verify_verdict(_forge(data, effect=effect), arms)
    assert [difference.what for difference in report.differences] == ["effect.ci_low"]


def test_one_changed_row_changes_the_digest() -> None:
    data = recorded(arm("a", BEFORE), arm("b", AFTER))
    touched = [*AFTER[:-1], replace(AFTER[-1], turns=99)]
    report = verify_verdict(data, (arm("a", BEFORE), arm("b", touched)))
    assert [d.what for d in report.differences] == ["arms.candidate.digest"]


def test_a_finding_that_was_dropped_from_the_record_is_found() -> None:
    arms = (arm("a", BEFORE), arm("b", LEAKY))
    report = verify_verdict(recorded(*arms, findings=()), arms)
    assert {"kind", "findings"} <= {difference.what for difference in report.differences}


def test_a_verdict_on_diagnostics_needs_no_rows() -> None:
    given = {"heldout_good": [0.1], "heldout_bad": [0.9], "threshold": 0.5, "higher_is_bad": True}
    verdict = judge_diagnostics([0.1, 0.2, 0.0], [0.8, 0.9, 0.7], **given)  # type: ignore[arg-type]
    data = json.loads(json.dumps(verdict_to_json(verdict)))
    assert verify_verdict(data, None).ok
    assert not verify_verdict(_forge(data, kind="REJECT"), None).ok


def test_a_verdict_without_rows_says_so_instead_of_agreeing() -> None:
    data = {"kind": "INVALID", "reasons": [], "evidence": {"findings": [STATIC.to_json()]}}
    report = verify_verdict(data, None)
    assert report.taken_as_recorded == (STATIC.code, "the verdict: no rows behind it")


# --- with a source and a grader -------------------------------------------------------------------


@dataclass
class Source:
    """Verdicts and rollouts in memory."""

    data: JSON
    before: list[Rollout]
    after: list[Rollout]
    notes: JSON = "the same"
    trained: set[str] = field(default_factory=set)
    declared: JSON = field(default_factory=dict)
    others: Sequence[Difference] = ()

    def terms(self, recorded: JSON) -> JSON:
        return self.declared

    def tampered(self, recorded: JSON) -> Sequence[Difference]:
        return ()

    def strangers(self, recorded: JSON) -> Sequence[Difference]:
        return self.others

    def verdict(self, commit: str) -> JSON | None:
        return self.data if commit == "abc" else None

    def note(self, commit: str) -> JSON | None:
        return self.data if self.notes == "the same" else self.notes

    def arms(self, recorded: JSON) -> tuple[Arm, Arm]:
        return arm("a", self.before), arm("b", self.after)

    def rollouts(self, recorded: JSON) -> Iterable[Rollout]:
        return [*self.before, *self.after]

    def findings(
        self, recorded: JSON, arms: tuple[Arm, Arm], limits: ValidityLimits
    ) -> tuple[Finding, ...]:
        return find_all(*arms, limits=limits, train_hashes=self.trained)


class Grader:
    """The part of a domain that grades again."""

    evaluator_hash = "ev"

    def regrade(self, task_key: str, verifier_inputs: Mapping[str, JSON]) -> Outcome:
        return Outcome(bool(verifier_inputs["solved"]))


GRADER: Any = Grader()


def source(**changes: Any) -> Source:
    data = recorded(arm("a", BEFORE), arm("b", AFTER))
    return Source(**{"data": data, "before": BEFORE, "after": AFTER, **changes})


def test_a_commit_is_verified_from_its_source_and_graded_again() -> None:
    report = verify_commit(source(), "abc", domain=GRADER)
    assert report.ok
    assert report.regraded == 4 * TASKS
    json.dumps(report.to_json())


def test_a_sample_is_drawn_the_same_way_every_time() -> None:
    assert verify_commit(source(), "abc", domain=GRADER, sample=10).regraded == 10
    wrong = [replace(r, outcome=not r.outcome) for r in AFTER]
    first = regrade(wrong, GRADER, sample=7)
    assert first == regrade(wrong, GRADER, sample=7)
    assert len(first.differences) == 7


def test_an_outcome_that_the_grader_does_not_give_is_found() -> None:
    """Rewritten outcomes, and a verdict computed from them: the rows agree, the grader does not."""
    flattered = [replace(r, outcome=True) for r in BEFORE]
    data = recorded(arm("a", BEFORE), arm("b", flattered))
    report = verify_commit(source(data=data, after=flattered), "abc", domain=GRADER)
    assert report.recomputed == report.recorded == "PROMOTE"
    assert not report.ok
    assert report.differences[0].what.startswith("outcome of t")


def test_another_grader_is_named_as_such() -> None:
    other = Grader()
    other.evaluator_hash = "ev2"
    again = regrade(BEFORE[:1], other)  # type: ignore[arg-type]
    assert again.differences[0][1:] == ("ev", "ev2")


def test_attempts_without_an_outcome_are_not_graded() -> None:
    assert regrade([broken()], GRADER) == (0, 1, ())


def test_a_note_that_tells_another_story_is_found() -> None:
    told = source()
    assert verify_commit(source(notes=told.data), "abc").ok
    report = verify_commit(source(notes=_forge(told.data, kind="REJECT")), "abc")
    assert report.differences == (("git note kind", "PROMOTE", "REJECT"),)


def test_a_note_that_is_missing_is_a_difference() -> None:
    report = verify_commit(source(notes=None), "abc")
    assert report.differences == (("git note", "PROMOTE", None),)


def test_terms_count_as_declared_and_not_as_the_row_says() -> None:
    """A verdict at an alpha, a smallest effect and a final look that nobody declared."""
    honest = {"budget": ErrorBudget(0.05, 2, 2).to_json(), "min_effect": 0.0}
    assert verify_commit(source(declared=honest), "abc").ok
    bent = recorded(arm("a", BEFORE), arm("b", made(0.33)), budget=ErrorBudget(0.45, 1, 2))
    assert bent["kind"] == "PROMOTE"
    told = source(data=bent, after=made(0.33), notes=bent)
    assert verify_commit(told, "abc").ok  # by its own word
    report = verify_commit(replace(told, declared=honest), "abc")
    assert report.recomputed != "PROMOTE"
    assert {"terms.budget.alpha", "kind"} <= {one.what for one in report.differences}


def test_flags_that_the_grader_raises_again_cannot_be_stripped() -> None:
    class Strict(Grader):
        def regrade(self, task_key: str, verifier_inputs: Mapping[str, JSON]) -> Outcome:
            return Outcome(bool(verifier_inputs["solved"]), flags=("suspect:knows-tests",))

    strict: Any = Strict()
    again = regrade(BEFORE[:1], strict)
    assert again.differences[0][1:] == ([], ["suspect:knows-tests"])


def test_arms_of_other_files_are_told() -> None:
    odd = Difference("files of the candidate's arm", "abc", "def")
    assert verify_commit(source(others=(odd,)), "abc").differences == (odd,)


def test_overlap_with_training_tasks_is_recomputed() -> None:
    report = verify_commit(source(trained={"h1"}), "abc")
    assert report.recomputed == "INVALID"


def test_a_commit_without_a_verdict_is_an_error_with_a_hint() -> None:
    with pytest.raises(ConfigError, match="no verdict") as caught:
        verify_commit(source(), "unknown")
    assert caught.value.hint
