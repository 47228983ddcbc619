"""`full` from the first version to what is handed over, undisturbed and killed at every step."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from rich.console import Console

from meta_agent.core.ledger import Ledger
from meta_agent.core.loop.budget import allowed, spent
from meta_agent.core.loop.finish import finish
from meta_agent.core.loop.loop import first_version
from meta_agent.core.loop.records import HandedOver, Judged
from meta_agent.core.protocols import JSON, Verdict, VerdictKind
from meta_agent.reports import reduce, run_sections
from meta_agent.reports.pages.html import render_html
from meta_agent.reports.terminal.paint import painted, painted_page
from tests.steps._again import gone_through_again
from tests.steps._bench import Bench
from tests.steps._ideas import Idea, Marks, carried_out, having, in_it, outcomes, prepare, solving

pytestmark = pytest.mark.slow

REWARD, DATA, FILTER = Idea("reward", "reward"), Idea("data", "data"), Idea("filter", "filter")
NEXT = Idea("next", "scaffold", after="reward")


def masked(found: Marks) -> float:
    """Two repairs that mask each other, one harmful idea, and one more once they are in."""
    gain = 0.3 if {"reward", "data"} <= found else -0.1 * ("data" in found)
    return 0.3 + gain - 0.1 * ("filter" in found) + 0.1 * ("next" in found)


def whole(bench: Bench) -> HandedOver:
    """A run to its end."""
    handed = carried_out(bench)
    finish(bench.run, first_version(bench.run), handed)
    return handed


def begun(bench: Bench) -> Bench:
    prepare(bench, trainings=40)
    having(bench, REWARD, DATA, FILTER, NEXT)
    solving(bench, masked)
    return bench


_HEAD = re.compile(r'"journal": "[0-9a-f]+", ')


def told_of(bench: Bench) -> dict[str, Any]:
    """All of a run that has to be the same however often it was killed.

    A note also holds the head of the journal's chain, over every step as it was attempted.
    """
    steps = bench.run.ledger.steps("r")
    return {
        "main": bench.repo.head(),
        "lead": bench.repo.tip("refs/heads/lead"),
        "notes": {one.commit: _HEAD.sub("", one.note or "") for one in bench.repo.log(50)},
        "handed": outcomes(bench, "handover"),
        "spent": spent(bench.run.ledger, "r"),
        "steps": sorted((step.key, step.kind) for step in steps if step.is_done),
    }


class Undisturbed(NamedTuple):
    bench: Bench
    handed: HandedOver
    facts: dict[str, Any]


def run_alone(folder: Path, prepared: Callable[[Bench], Bench]) -> Iterator[Undisturbed]:
    with Ledger.open(folder / "ledger.sqlite") as ledger, pytest.MonkeyPatch.context() as patch:
        bench = prepared(Bench(folder, ledger, patch))
        yield Undisturbed(bench, whole(bench), told_of(bench))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    yield from run_alone(tmp_path_factory.mktemp("undisturbed"), begun)


def test_masked_repairs_are_found_proven_trained_on_and_handed_over(
    undisturbed: Undisturbed,
) -> None:
    bench, handed, _ = undisturbed
    assert handed.standing == "proven" and in_it(bench, handed) == {"reward", "data", "next"}
    assert bench.repo.head() == handed.version.commit
    assert spent(bench.run.ledger, "r") <= allowed(bench.run)
    assert len(bench.lab.made) == len(set(bench.lab.made)), "nothing is trained twice"
    (told,) = outcomes(bench, "handover")
    assert told["standing"] == "proven" and told["commit"] == handed.version.commit
    kinds = {one["candidate"]: one["kind"] for one in outcomes(bench, "verdict")}
    members = {"r/g0/c0", "r/g0/c2", "r/g1/c0", "r/claim"}
    assert {name for name, kind in kinds.items() if kind == "PROMOTE"} == members
    assert kinds["r/g0/c1"] == "REJECT"
    assert {vault["which"]: vault["success"] for vault in outcomes(bench, "vault")} == {
        "baseline": pytest.approx(0.3), "final": pytest.approx(0.7)}  # fmt: skip
    require_readers_show_it(bench)
    require_a_lesson_of_one_change(bench)
    again = gone_through_again(bench, whole)
    assert again.differences == [] and set(again.verdicts) == {*kinds}
    assert bench.repo.head() == handed.version.commit


def require_readers_show_it(bench: Bench) -> None:
    state = reduce(bench.run.ledger, "r")
    with (console := Console(width=200)).capture() as seen:
        console.print(painted(run_sections.summary(state)))
        console.print(painted_page(run_sections.page(state)))
        for one in state.candidates.values():
            console.print(painted(run_sections.why(one)))
    page = render_html(state)
    for name in ("g0/c0", "g0/c1", "g1/c0", "proven"):
        assert name in seen.get() and name in page


def require_a_lesson_of_one_change(bench: Bench) -> None:
    skills = {skill.get("candidate"): skill for skill in bench.run.skills.all()}
    (one,) = [skill for name, skill in skills.items() if str(name).endswith("g1/c0")]
    assert "data, reward" in one.body, "with which it was proven"
    text = "".join(path.read_text() for path in one.path.rglob("*") if path.is_file())
    assert "MARK_next" in text and "MARK_data" not in text


def test_a_member_that_adds_nothing_teaches_nothing(bench: Bench) -> None:
    """Proven with the others it is, but nobody should learn to do it."""
    prepare(bench, trainings=40)
    having(bench, REWARD, DATA, FILTER)

    def score(found: Marks) -> float:
        return 0.3 + 0.4 * ({"reward", "data"} <= found) + 0.005 * ("filter" in found)

    solving(bench, score)
    handed = whole(bench)
    assert in_it(bench, handed) == {"reward", "data", "filter"}
    kinds = {one["candidate"]: one["kind"] for one in outcomes(bench, "verdict")}
    taught = {str(skill.get("candidate")) for skill in bench.run.skills.all()}
    assert {kinds[f"r/g0/c{n}"] for n in range(3)} == {"PROMOTE"}
    assert len(taught) == 2 and taught < set(kinds)


def test_of_what_changes_nothing_the_start_is_handed_over(bench: Bench) -> None:
    prepare(bench)
    having(bench, REWARD, DATA, FILTER)
    bench.lab.acts = lambda _, trained: min(0.6, 0.4 + 0.05 * trained.steps)
    start = bench.repo.head()
    handed = whole(bench)
    assert (handed.standing, handed.version.commit) == ("start", start)
    assert handed.trained is not None and handed.trained.steps > 2, "the rest trains it"
    assert not outcomes(bench, "live") and bench.repo.head() == start


# --- diagnostics ---------------------------------------------------------------------------------


def admits(bench: Bench) -> Idea:
    """A diagnostic that past versions would admit: their judge says so here."""
    verdict = Verdict(VerdictKind.PROMOTE, ("it tells them apart",),
                      evidence={"judge": "diagnostics", "inputs": {}})  # fmt: skip
    bench._patch.setattr(
        "meta_agent.core.loop.verbs.check.discriminate", lambda *_: Judged(verdict)
    )

    class Watches(Idea):
        def edits(self, _: Any) -> dict[str, str]:
            return {
                "swe/diagnostics/turns.py": bench.text("swe/diagnostics/turns.py") + "\nX = 1\n"
            }

    return Watches("watches", "diagnostics")


def test_a_diagnostic_that_is_admitted_comes_to_main_by_its_own_verdict(bench: Bench) -> None:
    prepare(bench)
    having(bench, admits(bench))
    handed = whole(bench)
    assert handed.standing == "start" and handed.version.commit == bench.repo.head()
    files = bench.repo.tree(bench.repo.head()).files
    assert files["swe/diagnostics/turns.py"].endswith(b"X = 1\n")
    assert not outcomes(bench, "live"), "what changes no attempt is not claimed"


@pytest.mark.parametrize("gain", [0.3, 0.04])
def test_beside_what_is_claimed_it_keeps_its_verdict(bench: Bench, gain: float) -> None:
    prepare(bench)
    having(bench, admits(bench), REWARD)

    def acts(tree: Any, trained: Any) -> float:
        marked = b"MARK_reward" in tree.files["swe/reward.py"]
        return 0.4 + gain * marked - (0.04 * (trained.seed % 2) if marked else 0.0)

    bench.lab.acts = acts
    handed = whole(bench)
    assert (handed.standing == "proven") is (gain == 0.3)
    assert b"X = 1" in bench.repo.tree(bench.repo.head()).files["swe/diagnostics/turns.py"]
    told = {one["candidate"]: one for one in outcomes(bench, "verdict")}
    watching = next(one for one in told.values() if one["reasons"] == ["it tells them apart"])
    note = bench.repo.notes(watching["commit"]) or ""
    assert "it tells them apart" in note and "share" not in watching["evidence"]


# --- killed --------------------------------------------------------------------------------------


class Killed(BaseException):
    """As good as a kill: nothing after it runs, nothing catches it."""


def killing(ledger: Ledger, when: str) -> None:
    """Dies at the first step of every kind, before its outcome is recorded or after it."""
    once, died = ledger.once, list[str]()

    def dies(kind: str) -> None:
        if kind not in died:
            died.append(kind)
            raise Killed(kind)

    def journalled(key: str, kind: str, intent: JSON, work: Callable[[], JSON]) -> JSON:
        step = ledger.step(key)
        known = step is not None and step.is_done

        def worked() -> JSON:
            outcome = work()
            if when == "before it is recorded":
                dies(kind)
            return outcome

        outcome = once(key, kind, intent, worked)
        if when == "after it is recorded" and not known:
            dies(kind)
        return outcome

    ledger.once = journalled  # type: ignore[method-assign]


@pytest.mark.parametrize("when", ["before it is recorded", "after it is recorded"])
def test_a_run_that_is_killed_at_each_kind_of_step_ends_the_same(
    bench: Bench, undisturbed: Undisturbed, when: str
) -> None:
    begun(bench)
    killing(bench.run.ledger, when)
    kills = killed_until_done(bench)
    assert kills >= 15, "collect, read, propose, test, cells, claims, merge, training, vault"
    assert told_of(bench) == undisturbed.facts


def killed_until_done(bench: Bench) -> int:
    kills = 0
    while kills < 100:
        try:
            whole(bench)
        except Killed:
            kills += 1
            bench.forget()
            continue
        break
    return kills


def with_one_that_waits(bench: Bench) -> Bench:
    """Two that write the same line: the second is tried at the end, in the place of the first."""
    prepare(bench, trainings=40, generations=1)
    having(bench, Idea("down", "reward", strength=0.9), Idea("up", "reward", strength=0.8), DATA)
    shares = {"down": 0.1, "up": 0.3, "data": 0.2}
    solving(bench, lambda found: 0.2 + sum(shares[name] for name in found))
    return bench


@pytest.fixture
def undisturbed_one_that_waits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    yield from run_alone(tmp_path_factory.mktemp("waits"), with_one_that_waits)


def test_a_run_that_is_killed_while_it_tries_what_waited_ends_the_same(
    bench: Bench, undisturbed_one_that_waits: Undisturbed
) -> None:
    other, handed, facts = undisturbed_one_that_waits
    assert handed.standing == "proven" and in_it(other, handed) == {"up", "data"}
    assert other.repo.head() == handed.version.commit
    assert [told["chosen"] for told in outcomes(other, "bundle")] == ["all", "g0/c1 for g0/c0"]
    verdicts = {told["candidate"]: told["kind"] for told in outcomes(other, "verdict")}
    assert verdicts["r/g0/c0"] == "INCONCLUSIVE"
    with_one_that_waits(bench)
    once, left = bench.run.ledger.once, {"bundle": 2, "lead": 2, "cell": 4}

    def dies(key: str, kind: str, intent: JSON, work: Callable[[], JSON]) -> JSON:
        left[kind] = left.get(kind, 0) - 1
        if left[kind] == 0:
            raise Killed(key)
        return once(key, kind, intent, work)  # type: ignore[arg-type]

    bench.run.ledger.once = dies  # type: ignore[method-assign]
    assert killed_until_done(bench) == 3 and told_of(bench) == facts
    assert gone_through_again(bench, whole).differences == []
