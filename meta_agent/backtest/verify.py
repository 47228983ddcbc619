"""`meta-agent verify`: a recorded verdict, computed again from what is stored.

Promises: `verify_verdict` is a pure function of the recorded verdict and the rows of both arms;
`verify_commit` finds them through a `VerdictSource` and, given a domain, grades stored attempts
again from their verifier inputs. Every difference is reported with both values; nothing is
repaired.

Terms come from the run's settings, arms must have been made with the files of the commit, and the
journal must be what its chain and the git note say it was.

Not covered: findings that rest on more than rows (static and contract checks). They are taken as
recorded, and the report names them. Flags that an environment raised on the way cannot be raised
again: they stand in shards whose hashes the chain holds.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final, NamedTuple, Protocol

from meta_agent.errors import ConfigError
from meta_agent.gate import (
    DEFAULT_LIMITS,
    Arm,
    Course,
    ErrorBudget,
    Finding,
    ValidityLimits,
    effect,
    find_all,
    judge_diagnostics,
    judge_live,
    pair,
    verdict_to_json,
)
from meta_agent.protocols import JSON, Domain, Rollout

TOLERANCE: Final = 1e-9
_FROM_ROWS: Final = ("conduct", "infra", "denominator", "incomparable", "artefact", "divergence")
_RECOMPUTED: Final = frozenset({*_FROM_ROWS, "reward", "overlap", "grader", "slice"})


class Difference(NamedTuple):
    """Where the record and the recomputation part."""

    what: str
    recorded: JSON
    recomputed: JSON


class Regrade(NamedTuple):
    """What grading again said."""

    checked: int
    skipped: int  # without an outcome, or without verifier inputs
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result. `ok` means that every number that was computed again is the recorded one."""

    commit: str
    recorded: str
    recomputed: str
    differences: tuple[Difference, ...]
    taken_as_recorded: tuple[str, ...]
    rows: int = 0
    regraded: int = 0

    @property
    def ok(self) -> bool:
        return not self.differences

    def to_json(self) -> dict[str, JSON]:
        differences = [difference._asdict() for difference in self.differences]
        taken = list(self.taken_as_recorded)
        return {
            **asdict(self),
            "ok": self.ok,
            "differences": differences,
            "taken_as_recorded": taken,
        }


class VerdictSource(Protocol):
    """Where recorded verdicts and their rows are kept (ledger, git notes, rollout store)."""

    def verdict(self, commit: str) -> JSON | None:
        """The recorded verdict of the candidate with this commit, None if there is none."""
        ...

    def note(self, commit: str) -> JSON | None:
        """The same as the git note says it, None where no note holds it."""
        ...

    def arms(self, recorded: JSON) -> tuple[Arm, Arm] | None:
        """Baseline and candidate rows from stored rollouts, None where none were measured."""
        ...

    def strangers(self, recorded: JSON) -> Sequence[Difference]:
        """Arms that were not measured with the files of the commit they speak of."""
        ...

    def tampered(self, recorded: JSON) -> Sequence[Difference]:
        """Where the journal is not what was written, or not what the note says it was."""
        ...

    def terms(self, recorded: JSON) -> Mapping[str, JSON]:
        """The inputs of the judge as the run declared them, by name; empty where unknown."""
        ...

    def rollouts(self, recorded: JSON) -> Iterable[Rollout]:
        """The stored rollouts behind the rows."""
        ...

    def findings(
        self, recorded: JSON, arms: tuple[Arm, Arm], limits: ValidityLimits
    ) -> Sequence[Finding]:
        """What the loop's detectors say of these arms."""
        ...


def verify_commit(
    source: VerdictSource,
    commit: str,
    *,
    domain: Domain | None = None,
    sample: int | None = None,
    limits: ValidityLimits = DEFAULT_LIMITS,
) -> VerifyReport:
    """Finds the verdict on a commit and computes it again.

    Args:
        source: where things are kept.
        commit: the candidate's commit.
        domain: given, stored attempts are graded again, too.
        sample: how many of them (a fixed draw); all where None.
        limits: the validity limits of the run.

    Raises:
        ConfigError: nothing is recorded for the commit.
    """
    recorded = source.verdict(commit)
    if recorded is None:
        raise ConfigError(f"no verdict is recorded for {commit}", hint="meta-agent log")
    arms = source.arms(recorded)
    found = source.findings(recorded, arms, limits) if arms else None
    terms = source.terms(recorded)
    report = verify_verdict(recorded, arms, commit=commit, limits=limits, found=found, terms=terms)
    differences = [
        *report.differences,
        *_note_differences(recorded, source.note(commit)),
        *_claim_differences(source, recorded, limits),
        *source.tampered(recorded),
        *source.strangers(recorded),
    ]
    regraded = 0
    if domain is not None:
        again = regrade(source.rollouts(recorded), domain, sample=sample)
        differences += again.differences
        regraded = again.checked
    return VerifyReport(
        commit,
        report.recorded,
        report.recomputed,
        tuple(differences),
        report.taken_as_recorded,
        report.rows,
        regraded,
    )


def _claim_differences(
    source: VerdictSource, recorded: Mapping[str, JSON], limits: ValidityLimits
) -> Iterator[Difference]:
    """Of a bundle's member: its verdict is what the claim computed again says."""
    evidence = recorded.get("evidence") or {}
    if evidence.get("judge") != "bundle" or "claim" not in evidence:
        return
    claim = source.verdict(evidence["claim"]["commit"])
    if claim is None:
        yield Difference("claim", evidence["claim"]["commit"], None)
        return
    arms = source.arms(claim)
    found = source.findings(claim, arms, limits) if arms else None
    report = verify_verdict(claim, arms, limits=limits, found=found, terms=source.terms(claim))
    yield from (one._replace(what=f"claim {one.what}") for one in report.differences)
    if "PROMOTE" in (recorded["kind"], report.recomputed):
        yield from _compare("kind by the claim", recorded["kind"], report.recomputed)


def _note_differences(recorded: JSON, note: JSON | None) -> Iterator[Difference]:
    if note is None:
        yield Difference("git note", recorded.get("kind"), None)
        return
    for key in ("kind", "effect", "reasons"):
        yield from _compare(f"git note {key}", recorded.get(key), note.get(key))


# --- the core -----------------------------------------------------------------------------------


def verify_verdict(
    recorded: Mapping[str, JSON],
    arms: tuple[Arm, Arm] | None,
    *,
    commit: str = "",
    limits: ValidityLimits = DEFAULT_LIMITS,
    found: Sequence[Finding] | None = None,
    terms: Mapping[str, JSON] | None = None,
) -> VerifyReport:
    """Computes a recorded verdict again from the rows of (baseline, candidate) alone.

    `found` is what all detectors say; None asks those that read rows only. `terms` are the judge's
    inputs as the run declared them: they count, and not what stands in the row that is checked.
    """
    evidence = recorded.get("evidence") or {}
    judge = evidence.get("judge")
    kept = [Finding.from_json(found) for found in evidence.get("findings", ())]
    outside = [finding for finding in kept if not _recomputable(finding)]
    again, rows = None, 0
    if judge == "diagnostics":
        again = _diagnostics(evidence["inputs"])
    elif arms is not None and judge == "bundle":
        rows = sum(1 for arm in arms for _ in arm.rows())
        again = _member(recorded, arms)
    elif arms is not None and judge == "live":
        rows = sum(1 for arm in arms for _ in arm.rows())
        seen = find_all(*arms, limits=limits) if found is None else found
        both = (*seen, *outside)
        again = _live({**_inputs(evidence), **(terms or {})}, arms, both)
    taken = tuple(finding.code for finding in outside)
    kind = str(recorded.get("kind"))
    if again is None:
        return VerifyReport(commit, kind, kind, (), (*taken, "the verdict: no rows behind it"))
    return VerifyReport(
        commit, kind, str(again["kind"]), tuple(_differences(recorded, again)), taken, rows
    )


def _recomputable(finding: Finding) -> bool:
    return finding.code.partition(".")[0] in _RECOMPUTED


def _inputs(evidence: Mapping[str, JSON]) -> dict[str, JSON]:
    """The judge's inputs, without what older versions declared and no rule reads any more."""
    inputs = {name: one for name, one in evidence["inputs"].items() if name != "pilot"}
    if course := inputs.get("course"):
        inputs["course"] = {name: one for name, one in course.items() if name != "order"}
    return inputs


def _live(
    declared: Mapping[str, JSON], arms: tuple[Arm, Arm], findings: tuple[Finding, ...]
) -> dict[str, JSON]:
    inputs = dict(declared)
    course = inputs.pop("course", None)
    budget = ErrorBudget.from_json(inputs.pop("budget"))
    verdict = judge_live(
        *arms,
        **inputs,
        budget=budget,
        course=Course(**course) if course else None,
        findings=findings,
    )
    return verdict_to_json(verdict)


def _member(recorded: Mapping[str, JSON], arms: tuple[Arm, Arm]) -> dict[str, JSON]:
    """Of a bundle's member its share, from the rows of the bundle without it and with it.

    Its verdict is the claim's, unless it was dropped from the bundle.
    """
    evidence = recorded["evidence"]
    share = dict(evidence["share"])
    seen = effect(pair(*arms), alpha=share["alpha"])
    share |= {"delta": seen.delta, "ci_low": seen.ci_low, "ci_high": seen.ci_high}
    kind = recorded["kind"]
    if "claim" not in evidence:
        kind = "REJECT" if seen.ci_high < 0 else "INCONCLUSIVE"
    return {**recorded, "kind": kind, "evidence": {**evidence, "share": share}}


def _diagnostics(inputs: Mapping[str, JSON]) -> dict[str, JSON]:
    given = dict(inputs)
    good, bad = given.pop("values_good"), given.pop("values_bad")
    return verdict_to_json(judge_diagnostics(good, bad, **given))


def _differences(recorded: Mapping[str, JSON], again: Mapping[str, JSON]) -> Iterator[Difference]:
    for key in ("kind", "effect", "reasons"):
        yield from _compare(key, recorded.get(key), _known(recorded.get(key), again.get(key)))
    old, new = recorded["evidence"], again["evidence"]
    if old.get("judge") == "live":
        yield from _compare("terms", _inputs(old), _inputs(new))
    for key in ("numbers", "arms", "share"):
        yield from _compare(key, old.get(key), new.get(key))
    codes = [
        sorted(f"{f['code']}:{f['severity']}" for f in e.get("findings", ())) for e in (old, new)
    ]
    yield from _compare("findings", *codes)


def _known(recorded: JSON, again: JSON) -> JSON:
    """Without what is said of an effect since, and was not when it was recorded."""
    both = isinstance(recorded, Mapping) and isinstance(again, Mapping)
    return {key: again[key] for key in again if key in recorded} if both else again


def _compare(what: str, recorded: JSON, again: JSON) -> Iterator[Difference]:
    """Differences, leaf by leaf; numbers may differ by rounding."""
    if isinstance(recorded, Mapping) and isinstance(again, Mapping):
        for key in sorted({*recorded, *again}):
            yield from _compare(f"{what}.{key}", recorded.get(key), again.get(key))
    elif not _same(recorded, again):
        yield Difference(what, recorded, again)


def _same(recorded: JSON, again: JSON) -> bool:
    if isinstance(recorded, float) or isinstance(again, float):
        numbers = all(type(value) in (int, float) for value in (recorded, again))
        return numbers and math.isclose(recorded, again, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(recorded, list) and isinstance(again, list):
        pairs = zip(recorded, again, strict=False)
        return len(recorded) == len(again) and all(_same(a, b) for a, b in pairs)
    return bool(recorded == again)


# --- grading again ------------------------------------------------------------------------------


def regrade(
    rollouts: Iterable[Rollout], domain: Domain, *, sample: int | None = None, seed: int = 0
) -> Regrade:
    """Grades stored attempts again: all of them, or a fixed draw of `sample`."""
    chosen = rollouts if sample is None else _drawn(rollouts, sample, seed)
    checked = skipped = 0
    differences: list[Difference] = []
    for rollout in chosen:
        if rollout.outcome is None or not rollout.verifier_inputs:
            skipped += 1
            continue
        checked += 1
        differences += _regraded(rollout, domain)
    return Regrade(checked, skipped, tuple(differences))


def _drawn(rollouts: Iterable[Rollout], sample: int, seed: int) -> list[Rollout]:
    """Reservoir sampling: one pass, the same draw every time."""
    rng, kept = random.Random(seed), []
    for index, rollout in enumerate(rollouts):
        if index < sample:
            kept.append(rollout)
        elif (place := rng.randrange(index + 1)) < sample:
            kept[place] = rollout
    return kept


def _regraded(rollout: Rollout, domain: Domain) -> Iterator[Difference]:
    name = f"{rollout.task_key}#{rollout.sample_idx} (seed {rollout.seed})"
    if rollout.evaluator_hash != domain.evaluator_hash:
        yield Difference(f"evaluator of {name}", rollout.evaluator_hash, domain.evaluator_hash)
        return
    again = domain.regrade(rollout.task_key, rollout.verifier_inputs)
    if again.success is not rollout.outcome:
        yield Difference(f"outcome of {name}", rollout.outcome, again.success)
    if stripped := sorted(set(again.flags) - set(rollout.flags)):
        yield Difference(f"flags of {name}", sorted(rollout.flags), stripped)
