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
from dataclasses import dataclass, field
from pathlib import Path

from meta_agent.core.protocols import JSON
from meta_agent.domains.tasks._bench import Bench
from meta_agent.domains.tasks._journal import Journal, ahead
from meta_agent.domains.tasks._made import Made, Progress
from meta_agent.domains.tasks._package import Package
from meta_agent.domains.tasks._rows import make_room
from meta_agent.domains.tasks.planting._author import Author
from meta_agent.domains.tasks.planting._authored import AuthoredSearch
from meta_agent.domains.tasks.planting._chosen import Chosen, SynthPlan
from meta_agent.domains.tasks.planting._likely import could_be_written
from meta_agent.domains.tasks.planting._mutations import Mutation, mutations
from meta_agent.domains.tasks.planting._quota import Quota
from meta_agent.domains.tasks.planting._sound import Sound, read_sound
from meta_agent.domains.tasks.planting._trial import Trial


def synthesize(
    bench: Bench, out: Path, plan: SynthPlan, progress: Progress, author: Author | None = None
) -> Made:
    """Writes a task file, its archive and its manifest. Without an `author` faults are planted by
    rule."""
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
    chosen = Chosen(bench, sound, plan, journal, progress)
    if author is not None:
        AuthoredSearch(bench, sound, plan, journal, chosen, author).run()
    else:
        search = _Search(bench, sound, plan, journal, chosen)
        search.run(candidates(bench.package, sound, plan.seed))
    made = chosen.written(out, {"author": author.model} if author else {})
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
    return sorted(found, key=lambda one: hashlib.sha256(f"{seed}\0{one.key}".encode()).digest())


@dataclass(frozen=True, slots=True)
class _Search:
    """Measures candidates in order until there are enough tasks."""

    bench: Bench
    sound: Sound
    plan: SynthPlan
    journal: Journal
    chosen: Chosen
    wide: list[tuple[Mutation, dict[str, JSON]]] = field(default_factory=list)
    """Taken where nothing nearer is."""
    likely: dict[Mutation, bool] = field(default_factory=dict)
    decided_on: set[Mutation] = field(default_factory=set)

    def run(self, wanted: Sequence[Mutation]) -> None:
        """Measures ahead of the decision; the decision goes in order, whatever is done first."""
        quota = Quota(self.bench.package.name, self.plan.count, len({one.path for one in wanted}))
        self._pass(wanted, quota)
        if not self.chosen.enough:
            quota.forget_splits()
            self._pass([one for one in wanted if one not in self.decided_on], quota)
        for mutation, found in sorted(self.wide, key=lambda pair: len(pair[1]["fail"])):
            room = not self.chosen.full and quota.allows(mutation)
            if room and self.chosen.take(mutation, found):
                quota.take(mutation)

    def _pass(self, wanted: Sequence[Mutation], quota: Quota) -> None:
        with ThreadPoolExecutor(self.plan.jobs) as pool:
            useful = (one for one in wanted if quota.allows(one) and self._is_likely(one))
            for mutation, result in ahead(pool, self.plan.jobs, useful, self._measured):
                if not quota.allows(mutation):
                    continue
                self.chosen.tried += 1
                self.decided_on.add(mutation)
                found = result.result()
                if found.get("wide"):
                    self.wide.append((mutation, found))
                elif self.chosen.take(mutation, found):
                    quota.take(mutation)
                if self.chosen.enough:
                    break

    def _is_likely(self, mutation: Mutation) -> bool:
        """By its text alone."""
        if mutation not in self.likely:
            before = self.bench.package.tree[mutation.path]
            self.likely[mutation] = could_be_written(before, mutation.applied(before))
        return self.likely[mutation]

    def _measured(self, mutation: Mutation) -> dict[str, JSON]:
        believed = self.chosen.believed(mutation.path)
        if believed != "complete":
            return {"refused": f"the grader does not believe its fix: {believed}"}
        trial = Trial(self.bench, self.sound, mutation, self.plan.repeats)
        measured: dict[str, JSON] = self.journal.once(mutation.key, trial.measured)
        return measured
