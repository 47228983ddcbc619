"""Plants faults in a package and keeps those that its own tests catch.

Promises: what is written was measured in fresh sandboxes: the deciding tests passed every time on
the sound source and failed every time on the faulty one, the others passed every time on both;
tests that disagreed with themselves decide nothing, nor do those that race threads of their own by
a sleep or a connection, which on a busy machine fail once in some hundred runs. Which tasks come
out depends on the package, the seed and the settings, not on speed or on how many sandboxes run
side by side. A search that was interrupted goes on where it was.

A likely fault is one that could have stayed: most of what its function does still holds, and a
report of it can set what works beside what does not. Such faults are taken first, others only where
none are left (`_trial`, `_likely`).

Does not cover: faults that the package's tests do not notice.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from meta_agent.domains.formats import semantic_key
from meta_agent.domains.swe import make_patch
from meta_agent.domains.tasks._bench import Bench
from meta_agent.domains.tasks._journal import Journal, ahead
from meta_agent.domains.tasks._made import Made, Progress
from meta_agent.domains.tasks._package import Package
from meta_agent.domains.tasks._rows import Row, archive_folder, make_room, task_row, write_set
from meta_agent.domains.tasks._suite_source import without_tests
from meta_agent.domains.tasks.planting._likely import could_be_written
from meta_agent.domains.tasks.planting._mutations import Mutation, mutations
from meta_agent.domains.tasks.planting._quota import Quota
from meta_agent.domains.tasks.planting._sound import Sound, read_sound
from meta_agent.domains.tasks.planting._trial import Trial
from meta_agent.errors import ConfigError
from meta_agent.protocols import JSON


@dataclass(frozen=True, slots=True)
class SynthPlan:
    """What to make. `tries_per_task` bounds the search where a package gives little."""

    count: int = 40
    seed: int = 0
    repeats: int = 2
    jobs: int = 1
    tries_per_task: int = 12

    def __post_init__(self) -> None:
        if min(self.count, self.jobs, self.tries_per_task) < 1 or self.repeats < 2:
            raise ConfigError("count and jobs: 1 or more; repeats: 2 or more, or nothing is stable")


def synthesize(bench: Bench, out: Path, plan: SynthPlan, progress: Progress) -> Made:
    """Writes a task file, its archive and its manifest."""
    make_room(out)
    bench = bench.checked()
    if bench.held:
        progress(bench.held)
    settings: dict[str, JSON] = {
        "package": bench.package.sha256,
        "tests": list(bench.package.tests),
        "sources": list(bench.package.sources),
        "repeats": plan.repeats,
        "image": bench.image,
        "plugins": list(bench.plugins),
    }
    journal = Journal(out, settings)
    if journal.taken_up:
        progress(f"taking up {journal.taken_up} measurements of an interrupted search")
    sound = read_sound(bench, plan.repeats, journal)
    progress(sound.about())
    search = _Search(bench, sound, plan, journal, progress)
    search.run(candidates(bench.package, sound, plan.seed))
    made = search.written(out)
    journal.close()
    return made


def candidates(package: Package, sound: Sound, seed: int) -> list[Mutation]:
    """Every edit of a function that a stable test calls, in an order that the seed decides."""
    twins = Counter(package.tree.values())
    found = [
        mutation
        for path in package.sources
        if twins[package.tree[path]] == 1
        for mutation in mutations(path, package.tree[path])
        if (path, mutation.def_line) in sound.covering
    ]
    return sorted(found, key=lambda one: hashlib.sha256(f"{seed}\0{_key(one)}".encode()).digest())


class _Search:
    """Measures candidates in order until there are enough tasks."""

    def __init__(
        self, bench: Bench, sound: Sound, plan: SynthPlan, journal: Journal, progress: Progress
    ) -> None:
        self._bench, self._sound, self._plan = bench, sound, plan
        self._journal, self._progress = journal, progress
        self._refused: Counter[str] = Counter()
        self._taken: list[tuple[Mutation, dict[str, JSON]]] = []
        self._wide: list[tuple[Mutation, dict[str, JSON]]] = []  # taken where nothing nearer is
        self._marks: dict[str, str] = {}
        self._likely: dict[Mutation, bool] = {}
        self._decided_on: set[Mutation] = set()
        self._tried = 0

    def run(self, wanted: Sequence[Mutation]) -> None:
        """Measures ahead of the decision; the decision goes in order, whatever is done first."""
        quota = Quota(self._bench.package.name, self._plan.count, len({one.path for one in wanted}))
        self._pass(wanted, quota)
        if not self._enough():
            quota.forget_splits()
            self._pass([one for one in wanted if one not in self._decided_on], quota)
        for mutation, found in sorted(self._wide, key=lambda pair: len(pair[1]["fail"])):
            room = len(self._taken) < self._plan.count and quota.allows(mutation)
            if room and self._decided(mutation, found):
                quota.take(mutation)

    def _pass(self, wanted: Sequence[Mutation], quota: Quota) -> None:
        with ThreadPoolExecutor(self._plan.jobs) as pool:
            useful = (one for one in wanted if quota.allows(one) and self._is_likely(one))
            for mutation, result in ahead(pool, self._plan.jobs, useful, self._measured):
                if not quota.allows(mutation):
                    continue
                self._tried += 1
                self._decided_on.add(mutation)
                found = result.result()
                if found.get("wide"):
                    self._wide.append((mutation, found))
                elif self._decided(mutation, found):
                    quota.take(mutation)
                if self._enough():
                    break

    def _is_likely(self, mutation: Mutation) -> bool:
        """By its text alone."""
        if mutation not in self._likely:
            before = self._bench.package.tree[mutation.path]
            self._likely[mutation] = could_be_written(before, mutation.applied(before))
        return self._likely[mutation]

    def _enough(self) -> bool:
        limit = self._plan.count * self._plan.tries_per_task
        return len(self._taken) >= self._plan.count or self._tried >= limit

    def _decided(self, mutation: Mutation, found: dict[str, JSON]) -> bool:
        reason = str(found.get("refused", "")) or self._repetition(mutation, found)
        if reason:
            self._refused[reason] += 1
            return False
        self._taken.append((mutation, found))
        self._progress(
            f"[{len(self._taken)}/{self._plan.count}] {mutation.path} {mutation.function} "
            f"{mutation.operator}: {len(found['fail'])} tests catch it "
            f"({self._tried} tried)"
        )
        return True

    def _repetition(self, mutation: Mutation, found: dict[str, JSON]) -> str:
        """The same text or the same changed lines, or the same deciding tests for another function
        (it may be in another split), make no second task.
        """
        topic = mutation.topic
        lines = semantic_key(self._bench.package.name, self._patch(mutation), "")
        issue, tests = f"issue {found['issue']}", f"tests {found['fail']}"
        if issue in self._marks or lines in self._marks:
            return "the same text or lines as another task"
        if self._marks.get(tests, topic) != topic:
            return "decided by the same tests as another task"
        self._marks |= {issue: topic, lines: topic, tests: topic}
        return ""

    def _patch(self, mutation: Mutation) -> str:
        """The fix."""
        sound = self._bench.package.tree[mutation.path]
        return make_patch({mutation.path: mutation.applied(sound)}, {mutation.path: sound})

    def _measured(self, mutation: Mutation) -> dict[str, JSON]:
        believed = self._believed(mutation.path)
        if believed != "complete":
            return {"refused": f"the grader does not believe its fix: {believed}"}
        trial = Trial(self._bench, self._sound, mutation, self._plan.repeats)
        measured: dict[str, JSON] = self._journal.once(_key(mutation), trial.measured)
        return measured

    def _believed(self, path: str) -> str:
        """What the grader says of the sound file as a patch: one that reads tests looks forged."""

        def graded() -> JSON:
            tree = self._bench.package.tree
            return self._bench.suite(tree, self._sound.tests, (path,)).verdict

        return str(self._journal.once(f"sound as a patch: {path}", graded))

    def written(self, out: Path) -> Made:
        package, plan = self._bench.package, self._plan
        rows = [self._row(out, mutation, found) for mutation, found in self._taken]
        if not rows:
            raise ConfigError(
                f"no task came of {self._tried} planted faults: {dict(self._refused)}",
                hint="does the suite test behaviour? --tests and --sources choose other files",
            )
        made = {
            "by": "synth",
            "package": f"{package.name} {package.version}".strip(),
            "seed": plan.seed,
            "repeats": plan.repeats,
            "wanted": plan.count,
            "tried": self._tried,
            "refused": dict(sorted(self._refused.items())),
            "operators": dict(sorted(Counter(one.operator for one, _ in self._taken).items())),
            "files": dict(sorted(Counter(one.path for one, _ in self._taken).items())),
            "flaky": sorted(self._sound.stable.flaky),
            "waiting": sorted(self._sound.waiting),
            "held": list(self._bench.own),
        }
        archives = {package.archive_name: package.archive}
        manifest = write_set(out, rows, archives, made)
        flaky = tuple(sorted(self._sound.stable.flaky))
        return Made(out, len(rows), self._tried, dict(self._refused), flaky, manifest)

    def _row(self, out: Path, mutation: Mutation, found: dict[str, JSON]) -> Row:
        package = self._bench.package
        sound = package.tree
        faulty = {**sound, mutation.path: mutation.applied(sound[mutation.path])}
        hidden = without_tests(sound, found["fail"])
        return task_row(
            package,
            topic=mutation.topic,
            issue=found["issue"],
            patch=self._patch(mutation),
            test_patch=make_patch(hidden, {path: sound[path] for path in hidden}),
            setup_patch=make_patch(sound, {**hidden, mutation.path: faulty[mutation.path]}),
            fail_to_pass=found["fail"],
            pass_to_pass=found["pass"],
            folder=archive_folder(out),
            image=self._bench.image,
            python=self._bench.python,
            plugins=self._bench.plugins,
            own=self._bench.own,
            origin={
                "by": "synth",
                "operator": mutation.operator,
                "path": mutation.path,
                "function": mutation.function,
                "seed": self._plan.seed,
            },
        )


def _key(mutation: Mutation) -> str:
    """Names an edit by what it does to which bytes."""
    return (
        f"{mutation.path}:{mutation.start}-{mutation.end}:{mutation.operator}:"
        f"{mutation.replacement.decode('utf-8', 'replace')}"
    )
