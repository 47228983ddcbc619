"""The tasks that a search took: no two alike, and how they are written.

Promises: the same search writes the same bytes. Does not cover: what is worth measuring.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON
from meta_agent.domains.formats import semantic_key
from meta_agent.domains.swe import make_patch
from meta_agent.domains.tasks._bench import Bench
from meta_agent.domains.tasks._journal import Journal
from meta_agent.domains.tasks._made import Made, Progress
from meta_agent.domains.tasks._rows import Row, archive_folder, task_row, write_set
from meta_agent.domains.tasks._suite_source import without_tests
from meta_agent.domains.tasks.planting._mutations import Mutation
from meta_agent.domains.tasks.planting._sound import Sound


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


class Chosen:
    """What was taken so far, what was refused, and why."""

    def __init__(
        self, bench: Bench, sound: Sound, plan: SynthPlan, journal: Journal, progress: Progress
    ) -> None:
        self._bench, self._sound, self._plan = bench, sound, plan
        self._journal, self._progress = journal, progress
        self._refused: Counter[str] = Counter()
        self._taken: list[tuple[Mutation, dict[str, JSON]]] = []
        self._marks: dict[str, str] = {}
        self.tried = 0

    @property
    def full(self) -> bool:
        """As many as were wanted."""
        return len(self._taken) >= self._plan.count

    @property
    def enough(self) -> bool:
        """The search ends: there are as many as were wanted, or it tried too often."""
        return self.full or self.tried >= self._plan.count * self._plan.tries_per_task

    def refuse(self, reason: str) -> None:
        """Counts one that makes no task."""
        self._refused[reason] += 1

    def take(self, mutation: Mutation, found: dict[str, JSON]) -> bool:
        """Whether a measured fault makes one more task."""
        reason = str(found.get("refused", "")) or self._repetition(mutation, found)
        if reason:
            self.refuse(reason)
            return False
        self._taken.append((mutation, found))
        self._progress(
            f"[{len(self._taken)}/{self._plan.count}] {mutation.path} {mutation.function} "
            f"{mutation.operator}: {len(found['fail'])} tests catch it "
            f"({self.tried} tried)"
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

    def believed(self, path: str) -> str:
        """What the grader says of the sound file as a patch: one that reads tests looks forged."""

        def graded() -> JSON:
            tree = self._bench.package.tree
            return self._bench.suite(tree, self._sound.tests, (path,)).verdict

        return str(self._journal.once(f"sound as a patch: {path}", graded))

    def written(self, out: Path, by: Mapping[str, JSON]) -> Made:
        """Writes the set. `by`: what else its manifest says of how it was made."""
        package, plan = self._bench.package, self._plan
        rows = [self._row(out, mutation, found) for mutation, found in self._taken]
        if not rows:
            raise ConfigError(
                f"no task came of {self.tried} planted faults: {dict(self._refused)}",
                hint="does the suite test behaviour? --tests and --sources choose other files",
            )
        made = {
            **by,
            "by": "synth",
            "package": f"{package.name} {package.version}".strip(),
            "seed": plan.seed,
            "repeats": plan.repeats,
            "wanted": plan.count,
            "tried": self.tried,
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
        return Made(out, len(rows), self.tried, dict(self._refused), flaky, manifest)

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
