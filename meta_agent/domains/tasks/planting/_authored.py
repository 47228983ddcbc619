"""Faults and reports that a model wrote, measured like planted ones.

Promises: nothing that the model says is taken on trust: the edit is applied and run, the report's
script too, in sandboxes. What fails goes back to the model once, with the reason, and is then
dropped and counted. A search that was interrupted asks nothing twice: replies are recorded by the
client, measurements in the journal. Where the cap on money is met, what was made is kept.

Does not cover: how the model is reached (`models.asking`) and what it is told (`author.md`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from meta_agent.core.errors import BudgetError
from meta_agent.core.protocols import JSON, Message
from meta_agent.domains.swe import Tree
from meta_agent.domains.tasks._bench import Bench, Probed
from meta_agent.domains.tasks._journal import Journal, ahead
from meta_agent.domains.tasks.planting._author import (
    TURNS,
    Author,
    Place,
    Written,
    places,
    read_reply,
)
from meta_agent.domains.tasks.planting._chosen import Chosen, SynthPlan
from meta_agent.domains.tasks.planting._likely import changes_tree, leaves_loose_ends
from meta_agent.domains.tasks.planting._mutations import Mutation
from meta_agent.domains.tasks.planting._report import problem_of
from meta_agent.domains.tasks.planting._sound import Sound
from meta_agent.domains.tasks.planting._trial import Trial, fixed_lines

_NO_MONEY = "the cap on what is spent was met"
_BACK = "That makes no exercise: {why}\nAnswer anew, whole, in the same form; or decline."


@dataclass(frozen=True, slots=True)
class _Told(Trial):
    """A fault that comes with its report."""

    report: str

    def _told(
        self,
        faulty: dict[str, bytes],
        failing: list[str],
        passing: list[str],
        probed: tuple[Probed, Probed],
    ) -> dict[str, JSON]:
        del probed
        sound: Tree = self.bench.package.tree
        path = self.mutation.path
        fixed = fixed_lines(sound[path], self.mutation)
        kept = set(self.mutation.applied(sound[path]).decode("utf-8", "replace").split("\n"))
        problem = problem_of(
            self.bench,
            self.report,
            sound,
            faulty,
            tests=failing,
            fixed=[line for line in fixed if line not in kept],
            path=path,
        )
        if problem:
            return {"refused": "its report does not hold", "why": problem}
        return {"fail": failing, "pass": passing, "issue": self.report}


@dataclass(frozen=True, slots=True)
class AuthoredSearch:
    """Asks about one place after the other until there are enough tasks."""

    bench: Bench
    sound: Sound
    plan: SynthPlan
    journal: Journal
    chosen: Chosen
    author: Author

    def run(self) -> None:
        """Decides in the order of the places, however many are under way."""
        wanted = iter(places(self.bench.package, self.sound, self.plan.seed))
        with ThreadPoolExecutor(self.plan.jobs) as pool:
            for _, result in ahead(pool, self.plan.jobs, wanted, self._measured):
                self.chosen.tried += 1
                mutation, found = result.result()
                if mutation is None:
                    self.chosen.refuse(str(found["refused"]))
                else:
                    self.chosen.take(mutation, found)
                if self.chosen.enough or found.get("refused") == _NO_MONEY:
                    break

    def _measured(self, place: Place) -> tuple[Mutation | None, dict[str, JSON]]:
        believed = self.chosen.believed(place.path)
        if believed != "complete":
            return None, {"refused": f"the grader does not believe its fix: {believed}"}
        source = self.bench.package.tree[place.path]
        messages = self.author.opening(self.bench.package, self.sound, place, self.plan.seed)
        written, found = Written(), dict[str, JSON]()
        for turn in range(TURNS):
            try:
                reply = self.author.ask(messages, place, turn)
            except BudgetError:
                return None, {"refused": _NO_MONEY}
            written = read_reply(str(reply["content"]), source, place)
            if written.declined:
                return None, {"refused": "the author declined"}
            found = self._judged(written, place)
            if "refused" not in found:
                break
            messages += _answered(reply, found)
        return written.edit, found

    def _judged(self, written: Written, place: Place) -> dict[str, JSON]:
        if written.edit is None:
            return {"refused": "an answer that cannot be read", "why": written.problem}
        before = self.bench.package.tree[place.path]
        after = written.edit.applied(before)
        if not changes_tree(before, after):
            return {"refused": "an edit that does not parse, or changes nothing"}
        if leaves_loose_ends(before, after):
            why = "a name, an import or an argument is used no more"
            return {"refused": "leaves something unused", "why": why}
        trial = _Told(self.bench, self.sound, written.edit, self.plan.repeats, written.report)
        key = f"{written.edit.key}\0{written.report}"
        found: dict[str, JSON] = self.journal.once(key, trial.measured)
        return found


def _answered(reply: Message, found: Mapping[str, JSON]) -> Sequence[Message]:
    why = " ".join([f"{found['refused']}.", str(found.get("why", ""))]).strip()
    return [reply, {"role": "user", "content": _BACK.format(why=why)}]
