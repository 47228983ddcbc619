"""`verify`: computes a recorded run again, by the code that made it, and compares the results.

The loop runs once more from the settings. Every step that rests on other steps (verdicts, cells,
vault figures, merges, notes) is computed again and compared with the ledger. Where the
loop would measure, the lab reads stored rollouts instead (`lab.recorded`). So a verdict must follow
from the plan, its attempts from the plan and the journal, its commits from git, and its weights
from the files on disk. Git works in a copy; nothing is written.

Some steps cannot be computed again: proposals, people's answers and trainings. They are taken as
recorded, and named in the report. The journal's hash chain covers them; git notes hold its heads.

Not covered: a workspace that was rewritten as a whole (chain, notes and refs). A copy of the head
that the report names, kept elsewhere, shows that.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, cast

from meta_agent.composition.inputs import load_run_domain
from meta_agent.composition.opening import lab_settings, settled
from meta_agent.composition.preflight import backend_of
from meta_agent.composition.root import extensions_of, sandboxes_of
from meta_agent.composition.visible import declare
from meta_agent.core.capabilities import Capabilities
from meta_agent.core.chat import ModelClient
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError, IntegrityError, MetaAgentError
from meta_agent.core.history import LEAD, HarnessRepo
from meta_agent.core.lab.arms import parts_of
from meta_agent.core.lab.recorded import RecordedLab
from meta_agent.core.lab.verify import Difference, VerifyReport, compared, regrade
from meta_agent.core.ledger import DONE, Ledger, RetracedLedger, RunRow, Step, UnrecordedError
from meta_agent.core.ledger.kinds import Candidate, Clock, Commit, Merge, Verdict
from meta_agent.core.loop import loop
from meta_agent.core.loop.plan import plan_for
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.spending import alpha_of
from meta_agent.core.loop.verbs.learn import note_parts
from meta_agent.core.protocols import JSON
from meta_agent.core.rollouts import RolloutStore
from meta_agent.core.task_splits import Halves
from meta_agent.core.workspace import Workspace
from meta_agent.policies.opening import ChildPolicies
from meta_agent.policies.training.checkpoint import open_checkpoint
from meta_agent.reports import open_display
from meta_agent.skills import SkillLibrary
from meta_agent.strategies.strategies import STRATEGIES

TAKEN: Final = frozenset(
    {"clock", "start", "proposal", "revision", "decision", "experiment", "skill", "warmup"}
)
"""Kinds of steps that cannot be computed again, or not without the people or models behind them."""
_WITHIN: Final = frozenset({"train", "eval", "experiment", "warmup"})
"""Kinds of steps that a step of `TAKEN`, or the opening of a run, may have written."""
_UNREADABLE: Final = (LookupError, TypeError, ValueError, AttributeError)
"""Errors that come of records in another form than the one in which we write them."""
_SHORTEST: Final = 6


def verify(
    place: Workspace,
    ledger: Ledger,
    commit: str,
    allow: Callable[[RunConfig], None] = lambda _: None,
) -> VerifyReport:
    """Returns how the run behind a commit's verdict differs if computed and graded again.

    `allow` gets the recorded settings before their grader runs, and raises if it may not run.
    Raises ConfigError if the commit has no verdict, or if the rollouts are not stored.
    """
    verdict = _verdict_on(ledger, HarnessRepo(place.harness_repo), commit)
    row = ledger.run(str(verdict["candidate"]).partition("/")[0])
    if row is None:
        raise ConfigError(
            f"the ledger holds a verdict on {verdict['candidate']}, but not the run behind it",
            hint="restore ledger.sqlite from a copy",
        )
    require_rollouts(ledger, RolloutStore(place.rollouts), row.run)
    with tempfile.TemporaryDirectory(prefix="meta-agent-verify-") as folder:
        walk = _walked(place, ledger, row, Path(folder), allow)
    return walk.report(verdict)


def _verdict_on(ledger: Ledger, repo: HarnessRepo, commit: str) -> JSON:
    """Returns the last verdict on the candidate or claim that this commit belongs to.

    `commit` begins the commit of a candidate, of a merge that is recorded, or of a merge on the way
    to one: a claim that proves three edits records the last of its three merges. Raises ConfigError
    if there is no such verdict.
    """
    if not ledger.runs():
        raise ConfigError("nothing has run in this workspace yet", hint="start: meta-agent evolve")
    if len(commit) < _SHORTEST:
        raise ConfigError(
            f"the commit {commit!r} is too short: give at least {_SHORTEST} characters",
            hint="see the commits: meta-agent log --graph",
        )
    merges = ledger.outcomes("merge", Merge)
    merged = {merge["candidate"] for merge in merges if merge["commit"].startswith(commit)}
    merged = merged or _claim_that_brought(ledger, repo, commit)
    for verdict in reversed(ledger.outcomes("verdict", Verdict)):
        if verdict["commit"].startswith(commit) or verdict["candidate"] in merged:
            return verdict
    raise ConfigError(
        f"the commit {commit} has no verdict", hint="see which have one: meta-agent log --graph"
    )


def _claim_that_brought(ledger: Ledger, repo: HarnessRepo, commit: str) -> set[str]:
    """Returns the claim whose recorded merge is the first on `main` to contain this commit."""
    steps = (*ledger.steps(kind="baseline"), *ledger.steps(kind="merge"))
    before = ""
    for step in sorted((step for step in steps if step.is_done), key=lambda step: step.seq):
        after = str(step.fields.get("harness_commit") or step.fields.get("commit"))
        line = repo.line_of_main(before, after)
        if step.kind == "merge" and any(merge.startswith(commit) for merge in line):
            return {str(step.fields["candidate"])}
        before = after
    return set()


def _walked(
    place: Workspace, ledger: Ledger, row: RunRow, folder: Path, allow: Callable[[RunConfig], None]
) -> Walk:
    """Computes the run of this row again in `folder`, and returns what differs from the record."""
    config = RunConfig.from_json(row.config)
    walk = Walk(ledger, HarnessRepo(place.harness_repo), row.run, row.exit_reason == DONE)
    walk.compare("settings", row.config_hash, config.config_hash)
    config, name = settled(config.model_copy(update={"workspace": place.root}))
    walk.compare("the run's name, by its settings", row.run, name)
    allow(config)
    backend = backend_of(config)
    domain = load_run_domain(config, sandbox=backend, run=f"verify-{row.run}"[:40])
    start = ledger.step(f"{row.run}/start")
    if start is None or not start.is_done:
        raise ConfigError(
            f"the run {row.run} has no finished step, so nothing can be computed again",
            hint="continue the run: meta-agent evolve",
        )
    copy = walk.repo.rewound(folder / "harness_repo", start.outcome_as(Commit)["commit"])
    retraced = RetracedLedger(ledger, row.run, TAKEN, walk.compare_step)
    clock = retraced.once(f"{row.run}/clock", "clock", {}, lambda: Clock(at=0))["at"]
    plan = replace(plan_for(config, domain), alpha=alpha_of(retraced, row.run))
    domain = Halves(domain) if plan.halved else domain
    lab = RecordedLab(
        copy,
        lambda folder: open_checkpoint(folder, alone=True).policy,
        lab_settings(config, row.run, place, workers=1),
        ledger=retraced,
        store=RolloutStore(place.rollouts),
        domain=domain,
        on_step=lambda *_: None,
        stopping=lambda: False,
        policies=ChildPolicies(config.threads),
        open_sandbox=sandboxes_of(backend, row.run),
    )
    display = open_display(io.StringIO())
    skills = SkillLibrary(folder / "skills")
    models = None if config.meta_model == "rules" else cast("ModelClient", object())
    run = Run(
        row.run,
        config,
        plan,
        retraced,
        copy,
        lab,
        skills,
        display,
        clock,
        lambda: False,
        extensions_of(config, row.run, models),
        models,
    )
    try:
        walk.through(run, _whole)
    finally:
        lab.close()
        Capabilities.of(domain).close()
    return walk


def _whole(run: Run) -> None:
    """Carries out a run as `evolve` does, from its first version to its end."""
    declare(run)
    loop.evolve(run, STRATEGIES[run.config.strategy]())


@dataclass(slots=True)
class Walk:
    """A second computation of a recorded run, which collects the values that differ."""

    ledger: Ledger
    repo: HarnessRepo
    run: str
    finished: bool
    differences: list[Difference] = field(default_factory=list)
    verdicts: dict[str, JSON] = field(default_factory=dict)
    """The verdicts as computed again, by candidate."""
    taken: set[str] = field(default_factory=set)
    lab: RecordedLab | None = None
    steps: int = 0

    def compare(self, what: str, recorded: JSON, again: JSON) -> None:
        self.differences += compared(what, recorded, again)

    def compare_step(self, step: Step, start: JSON, outcome: JSON) -> None:
        """Compares a recorded step with the same step computed again, and keeps what differs.

        `start` holds the kind and intent as computed again, and `outcome` the outcome.
        """
        name = step.key.removeprefix(f"{self.run}/")
        self.compare(name, {"kind": step.kind, "intent": step.intent}, start)
        if isinstance(outcome, Mapping) and "error" in outcome and "error" not in step.fields:
            self.differences.append(Difference(name, "done", outcome["error"]))
        else:
            self.compare(name, step.outcome, outcome)
        if step.kind in TAKEN:
            self.taken.add(step.kind)
        elif isinstance(outcome, Mapping) and "refused" in outcome:
            self.taken.add(f"{name}, which its harness broke off")
        elif step.kind == "verdict":
            self.verdicts[step.outcome_as(Verdict)["candidate"]] = outcome

    def through(self, run: Run, carried_out: Callable[[Run], None]) -> None:
        """Calls `carried_out(run)`, and compares ledger, git refs and git notes with the record."""
        retraced = cast("RetracedLedger", run.ledger)
        self.lab = cast("RecordedLab", run.lab)
        try:
            carried_out(run)
        except UnrecordedError as missing:
            if self.finished:
                self.compare("steps of the run", "finished", f"{missing} is not recorded")
        except (MetaAgentError, *_UNREADABLE) as error:
            reason = f"{type(error).__name__}: {error}"
            self.differences.append(Difference("steps of the run", "can be read", reason))
        else:
            self._strays(retraced)
        self.steps = len(retraced.walked)
        if (step := self.ledger.broken()) is not None:
            self.compare("the journal's chain", "unbroken", f"broken at step {step}")
        self._refs(run.repo)
        self._notes(run.repo)

    def _strays(self, retraced: RetracedLedger) -> None:
        """Keeps as differences the recorded steps that the second computation never reached."""
        for step in self.ledger.steps(self.run):
            if step.is_done and step.key not in retraced.walked and step.kind not in _WITHIN:
                self.compare(step.key, "recorded", "no step of this run")

    def _refs(self, copy: HarnessRepo) -> None:
        mine, last = f"/{self.run}/", self.ledger.runs()[-1].run == self.run
        then, now = copy.candidates(), self.repo.candidates()
        for ref in sorted(ref for ref in {*then, *now} if mine in ref):
            if (at := now.get(ref)) is not None:
                self.compare(f"{ref} on main", self.repo.on_main(at), copy.on_main(at))
        for candidate in self.ledger.outcomes("candidate", Candidate, self.run):
            self.compare(candidate["ref"], candidate["commit"], now.get(candidate["ref"]))
        if last and self.finished:
            self.compare("the branch lead", self.repo.tip(LEAD), copy.tip(LEAD))

    def _notes(self, copy: HarnessRepo) -> None:
        """Compares this run's git notes, and finds notes with an unknown head of the journal."""
        notes, heads = self.repo.all_notes(), self.ledger.heads()
        others = {row.run for row in self.ledger.runs()} - {self.run}
        for commit, again in copy.all_notes().items():
            parts = note_parts(notes.get(commit, ""))
            mine = [text for text, record in parts if record.get("run") not in others]
            if mine != [text for text, _ in note_parts(again)]:
                self.compare(f"git note on {commit[:12]}", notes.get(commit), again)
        for commit, note in notes.items():
            journal_heads = {
                record["journal"] for _, record in note_parts(note) if record.get("journal")
            }
            for head in sorted(journal_heads - heads):
                self.compare(f"git note on {commit[:12]}", head, "no head of this journal")

    def report(self, verdict: JSON) -> VerifyReport:
        """Grades the attempts behind one verdict again, and returns the report on its run."""
        again = self.verdicts.get(verdict["candidate"])
        kind = again.get("kind") if isinstance(again, Mapping) else None
        rows, regraded = self._graded(verdict) if self.lab else (0, 0)
        return VerifyReport(
            verdict["commit"],
            str(verdict["kind"]),
            str(kind or "nothing"),
            tuple(self.differences),
            tuple(sorted(self.taken)),
            steps=self.steps,
            rows=rows,
            regraded=regraded,
            journal=self.ledger.head(self.ledger.order()[-1]),
        )

    def _graded(self, verdict: JSON) -> tuple[int, int]:
        """Grades stored attempts again. Returns counts: attempts of both arms, and grades made."""
        assert self.lab is not None
        arms = [part for ref in verdict.get("arms") or () for part in ref["shards"].values()]
        vault = [
            step.fields["shard"]
            for step in self.ledger.steps(self.run, kind="eval")
            if step.is_done and step.intent["split"] == "vault" and "shard" in step.fields
        ]
        rows, checked = 0, 0
        for shard in arms + vault:
            try:
                rollouts = self.lab.rollouts(shard)
            except IntegrityError as error:
                self.compare("rollouts", shard, str(error))
                continue
            # What a model said as the grader is recorded; nobody is asked again here.
            to_regrade = [] if Capabilities.of(self.lab.domain).judge else rollouts
            again = regrade(to_regrade, self.lab.domain)
            self.differences += again.differences
            rows += len(rollouts) if shard in arms else 0
            checked += again.checked
        return rows, checked


def require_rollouts(ledger: Ledger, store: RolloutStore, run: str | None = None) -> None:
    """Raises ConfigError if all rollout files that the ledger names are missing (not just some)."""
    shards = {
        str(part["name"])
        for kind in ("train", "eval")
        for step in ledger.steps(run, kind)
        if step.is_done and step.fields.get("shard")
        for part in parts_of(step.fields["shard"])
    }
    if shards and not any(store.find(name) for name in shards):
        raise ConfigError(
            f"this workspace comes without its attempts: none of the {len(shards)} files that "
            f"its ledger names is in {store.directory}, so nothing can be computed again",
            hint="read what its ledger says: meta-agent status, or meta-agent why NAME",
        )
