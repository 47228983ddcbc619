"""What `verify` must not believe: a finished workspace, written over in one place after another.

Who writes knows the program: the journal's chain is made anew over what is changed (`rechained`),
and the heads in the notes with it.
"""

import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.lab.verify import VerifyReport
from meta_agent.core.ledger import Ledger
from meta_agent.core.ledger._rows import link
from meta_agent.core.rollouts import RolloutStore
from meta_agent.core.workspace import Workspace, open_workspace
from meta_agent.studies.review import verify
from tests.evolve._cli import KEPT, Cli

# Who comes first waits for a whole run, on a machine that may be busy.
pytestmark = [pytest.mark.train, pytest.mark.slow, pytest.mark.timeout(900)]


class Forger:
    """A finished workspace, and hands that change it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.repo = root / "harness_repo"
        self.store = RolloutStore(root / "rollouts")
        self.run: str = self.sql("SELECT run FROM runs")[0][0]

    def sql(self, query: str, *values: Any) -> list[Any]:
        with closing(sqlite3.connect(self.root / "ledger.sqlite")) as db, db:
            return db.execute(query, values).fetchall()

    def git(self, *argv: str, stdin: str | None = None) -> str:
        who = ["-c", "user.name=x", "-c", "user.email=x@y"]
        command = ["git", *who, "-C", str(self.repo), *argv]
        ran = subprocess.run(command, capture_output=True, text=True, check=True, input=stdin)
        return ran.stdout.strip()

    def keys(self, kind: str, like: str = "%") -> list[str]:
        found = self.sql("SELECT key FROM steps WHERE kind = ? AND key LIKE ?", kind, like)
        return [str(key) for (key,) in found]

    @contextmanager
    def step(self, key: str, column: str = "outcome") -> Iterator[Any]:
        """What a step recorded, to be changed in place; chain and notes follow."""
        name = key if key.startswith(self.run) else f"{self.run}/{key}"
        told = json.loads(self.sql(f"SELECT {column} FROM steps WHERE key = ?", name)[0][0])
        yield told
        self.sql(f"UPDATE steps SET {column} = ? WHERE key = ?", json.dumps(told), name)

    def rechained(self) -> None:
        """Makes the chain anew over the journal as it is, and puts its heads into the notes."""
        with Ledger.open(self.root / "ledger.sqlite", owner_lock=False) as ledger:
            steps = {step.key: step for step in ledger.steps()}
        before, heads = "", {}
        for key, digest in self.sql("SELECT key, digest FROM chain ORDER BY seq"):
            if key not in steps:
                self.sql("DELETE FROM chain WHERE key = ?", key)
                continue
            before = heads[digest] = link(before, steps.pop(key))
            self.sql("UPDATE chain SET digest = ? WHERE key = ?", before, key)
        for key, step in steps.items():
            before = link(before, step)
            self.sql("INSERT INTO chain (key, digest) VALUES (?, ?)", key, before)
        for commit in self.noted():
            self.note(commit, lambda text: _replaced(text, heads))

    def noted(self) -> list[str]:
        return [row.split()[1] for row in self.git("notes", "list").splitlines()]

    def note(self, commit: str, change: Callable[[str], str]) -> None:
        text = change(self.git("notes", "show", commit))
        self.git("notes", "add", "-f", "-F", "-", commit, stdin=text)

    def rewrite(self, shard: str, change: Callable[[Any], Any]) -> None:
        """Stores a shard's rows changed, and has the whole journal speak of the new file."""
        old = self.store.find(shard)
        assert old is not None
        rows = [change(row) for row in self.store.read(shard, tokens=True)]
        new = self.store.write(shard, rows)
        self.sql("UPDATE steps SET outcome = replace(outcome, ?, ?)", old.sha256, new.sha256)
        self.recount(shard, rows)

    def recount(self, shard: str, rows: list[Any]) -> None:
        key = shard.replace("/eval-", "/eval/")
        if self.sql("SELECT 1 FROM steps WHERE key = ?", key):
            with self.step(key) as told:
                told["solved"] = sum(bool(row.outcome) for row in rows)
                told["clean"] = sum(row.clean for row in rows)

    def arm(self, side: int, split: str = "confirm") -> str:
        """A shard of the claim's start (0) or of what was found (1)."""
        (told,) = self.sql(
            "SELECT outcome FROM steps WHERE key = ?", f"{self.run}/claim/harness/look3"
        )
        return str(json.loads(told[0])["arms"][side]["shards"]["1"]["name"])


def _replaced(text: str, heads: dict[str, str]) -> str:
    for old, new in heads.items():
        text = text.replace(old, new)
    return text


# --- the attacks ---------------------------------------------------------------------------------


def terms_in_the_row(f: Forger) -> None:
    """An alpha that nobody declared, at which the claim would have been proven."""
    for key in ("claim/harness/look3", "claim/verdict"):
        with f.step(key) as told:
            verdict = told.get("verdict", told)
            verdict["kind"], verdict["reasons"] = "PROMOTE", ["lower bound is above +0.0 points"]
            verdict["evidence"]["inputs"]["alpha"] = 0.9


def another_candidates_arms(f: Forger) -> None:
    """The claim's side of what was found is a bundle's without one of its members."""
    others = [key for key in f.keys("eval", "%-s0-%-search-64") if "933f" not in key]
    with f.step(others[-1]) as other:
        shard = other["shard"]
    for key in ("claim/harness/look3", "claim/verdict"):
        with f.step(key) as told:
            told["arms"][1]["shards"]["1"] = shard


def rows_of_another_renamed(f: Forger) -> None:
    """Attempts that the start made, stored as those of what was found, under their names."""
    mine, other = f.arm(1), f.arm(0)
    theirs = {row.task_key: row for row in f.store.read(other)}

    def disguised(row: Any) -> Any:
        named = {n: getattr(row, n) for n in ("version", "harness_commit", "policy", "seed")}
        return replace(theirs[row.task_key], **named)

    f.rewrite(mine, disguised)


def outcomes_turned(f: Forger) -> None:
    f.rewrite(f.arm(1), lambda row: replace(row, outcome=True))


def flags_stripped(f: Forger) -> None:
    """The start's leaks are none any more: in rows, manifest, counts and chain."""
    f.rewrite(f.arm(0), lambda row: replace(row, flags=[]))


def vault_figures(f: Forger) -> None:
    with f.step("vault/final") as told:
        told["clean_success"], told["ci"] = 0.9, [0.83, 0.94]


def vault_over_seeds(f: Forger) -> None:
    with f.step("vault/results") as told:
        told["difference"]["value"] += 0.1


def _weights(f: Forger) -> tuple[Path, Path]:
    with f.step("handover") as told:
        handed = Path(told["checkpoint"])
    folder = f.root / "checkpoints" / f.run
    other = next(one for one in sorted(folder.glob("*-s0-n2")) if one.name != handed.name)
    return folder / handed.name, other


def weights_overwritten(f: Forger) -> None:
    """Another training's checkpoint, whole, under the name of what is handed over."""
    mine, other = _weights(f)
    shutil.rmtree(mine)
    shutil.copytree(other, mine)


def a_bit_of_the_weights(f: Forger) -> None:
    mine, _ = _weights(f)
    path = mine / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


def other_weights_handed_over(f: Forger) -> None:
    mine, other = _weights(f)
    with f.step("handover") as told:
        told["checkpoint"] = told["checkpoint"].replace(mine.name, other.name)


def another_standing(f: Forger) -> None:
    with f.step("handover") as told:
        told["standing"] = "proven"


def a_judge_that_asks_for_no_rows(f: Forger) -> None:
    """The verdict says that it rests on checks alone, so that there is nothing to compute."""
    with f.step("claim/verdict") as told:
        told["kind"], told["arms"] = "PROMOTE", None
        told["evidence"] = {"judge": "checks", "findings": []}


def a_members_share(f: Forger) -> None:
    (key,) = f.keys("verdict", "%g0/c0/verdict")
    with f.step(key) as told:
        told["evidence"]["share"]["delta"] += 0.2


def a_finding_dropped(f: Forger) -> None:
    with f.step("g0/evidence") as told:
        told["findings"] = []


def a_cell_made_valid(f: Forger) -> None:
    cell = next(key for key in f.keys("cell"))
    with f.step(cell) as told:
        told["clean_success"] += 0.3


def a_look_left_out(f: Forger) -> None:
    f.sql("DELETE FROM steps WHERE key = ?", f"{f.run}/claim/version/look0")


def a_step_that_nobody_took(f: Forger) -> None:
    """A merge of a claim that was never promoted."""
    with f.step("claim/verdict") as told:
        commit = told["commit"]
    merge = {"candidate": f"{f.run}/claim", "commit": commit, "undone": False, "version": "v1"}
    f.sql(
        "INSERT INTO steps (key, run, kind, intent, attempts, started_at, finished_at, outcome)"
        " VALUES (?, ?, 'merge', '{}', 1, 1.0, 2.0, ?)",
        *(f"{f.run}/claim/merge", f.run, json.dumps(merge)),
    )


def the_end_cut_off(f: Forger) -> None:
    """A vault that did not please: its steps are gone, the run is one that stopped before it."""
    f.sql("DELETE FROM steps WHERE key LIKE ?", f"{f.run}/vault/%")
    f.sql("DELETE FROM steps WHERE key LIKE ?", f"{f.run}/eval/%-vault-%")
    f.sql("UPDATE runs SET exit_reason = 'interrupted'")


def main_moved(f: Forger) -> None:
    f.git("update-ref", "refs/heads/main", "refs/heads/lead")
    f.git("read-tree", "--reset", "-u", "main")


def lead_moved(f: Forger) -> None:
    f.git("update-ref", "refs/heads/lead", "refs/heads/main")


def a_candidate_s_branch_moved(f: Forger) -> None:
    refs = f.git("for-each-ref", "--format=%(refname)", "refs/heads/candidate/").splitlines()
    f.git("update-ref", refs[0], refs[1])


def a_note_that_says_more(f: Forger) -> None:
    for commit in f.noted():
        f.note(commit, lambda text: text.replace("INCONCLUSIVE", "PROMOTE"))


def a_note_removed(f: Forger) -> None:
    f.git("notes", "remove", f.noted()[0])


def other_settings(f: Forger) -> None:
    """The run says of itself that what moves `main` was to be the other claim."""
    config = json.loads(f.sql("SELECT config FROM runs")[0][0]) | {"prove": "version"}
    f.sql("UPDATE runs SET config = ?", json.dumps(config))


def a_prediction_after_the_fact(f: Forger) -> None:
    with f.step("g0/propose") as told:
        told["admitted"][0]["hypothesis"]["expected_delta"] = 0.01


def a_budget_that_was_larger(f: Forger) -> None:
    """Fewer attempts than were made: what a budget pays for rests on their count."""
    with f.step(f.keys("eval", "%-search-%")[0]) as told:
        told["rollouts"] -= 32


def a_training_that_was_cheaper(f: Forger) -> None:
    with f.step(f.keys("train", "%-n2")[0]) as told:
        told["rollouts"] -= 32


def more_tasks_than_planned(f: Forger) -> None:
    with f.step(f.arm(1).replace("/eval-", "/eval/")) as told:
        told["planned"], told["clean"] = told["planned"] - 40, told["clean"] - 2


def a_training_embellished(f: Forger) -> None:
    """Of the way of a training only the journal speaks; here its chain is left as it was."""
    with f.step(f.keys("train")[0]) as told:
        told["metrics"][-1]["reward_mean"] = 9.0


ALONE: tuple[Callable[[Forger], None], ...] = (
    terms_in_the_row, weights_overwritten, rows_of_another_renamed, a_bit_of_the_weights,
    a_judge_that_asks_for_no_rows, a_look_left_out, the_end_cut_off, a_candidate_s_branch_moved,
    other_settings, more_tasks_than_planned,
)  # fmt: skip
"""Forgeries after which the walk through the run goes another way, or no further."""
TOGETHER: dict[str, dict[Callable[[Forger], None], str]] = {
    "search, handover and vault": {
        lead_moved: "the branch lead",
        vault_figures: "vault/final.clean_success",
        vault_over_seeds: "vault/results.difference.value",
        other_weights_handed_over: "handover.checkpoint",
        another_standing: "handover.standing",
        a_members_share: "g0/c0/verdict.evidence.share.delta",
        a_cell_made_valid: "g0/cell/",
        a_step_that_nobody_took: "/claim/merge",
        a_prediction_after_the_fact: "g0/c0.hypothesis.expected_delta",
        a_budget_that_was_larger: "-search-64.rollouts",
        a_training_that_was_cheaper: "-n2.rollouts",
    },
    "notes, main and arms": {
        main_moved: "on main",
        a_finding_dropped: "g0/evidence.findings",
        another_candidates_arms: "claim/harness/look3.arms",
        a_note_that_says_more: "git note on ",
    },
    "rows": {
        a_note_removed: "git note on ",
        flags_stripped: "claim/harness/look3.verdict.evidence.arms.baseline.clean",
        outcomes_turned: "claim/harness/look3.verdict.evidence.arms.candidate.clean",
    },
}
"""Forgeries of one workspace that each have a difference of their own, which must be named."""


@pytest.fixture
def copied(finished: tuple[Cli, Any], tmp_path: Path) -> Iterator[Forger]:
    root = tmp_path / "workspace"
    shutil.copytree(finished[0].folder / KEPT, root, symlinks=True)
    yield Forger(root)
    shutil.rmtree(root)


def _verified(f: Forger) -> VerifyReport:
    place: Workspace = open_workspace(f.root)
    with Ledger.open(place.ledger_file, owner_lock=False) as ledger:
        return verify(place, ledger, f.git("rev-parse", "refs/heads/candidate/" + f.run + "/g0c0"))


def test_an_untouched_run_is_verified_wherever_it_lies(copied: Forger) -> None:
    with Ledger.open(copied.root / "ledger.sqlite", owner_lock=False) as ledger:
        claim = ledger.step(f"{copied.run}/claim/verdict")
        assert claim is not None
        report = verify(open_workspace(copied.root), ledger, claim.outcome["commit"])
        assert report.ok, report.differences
        assert report.recorded == report.recomputed == claim.outcome["kind"]
        assert report.rows == 6 * 96 and report.regraded > report.rows
        assert report.steps > 60
        assert report.journal == ledger.head(ledger.order()[-1])
    assert set(report.taken_as_recorded) == {"clock", "proposal", "start"}


@pytest.mark.parametrize("attack", ALONE, ids=lambda attack: attack.__name__)
def test_no_forgery_is_believed(attack: Callable[[Forger], None], copied: Forger) -> None:
    attack(copied)
    copied.rechained()
    assert _verified(copied).differences


@pytest.mark.parametrize("area", TOGETHER)
def test_each_of_several_forgeries_is_named(area: str, copied: Forger) -> None:
    for attack in TOGETHER[area]:
        attack(copied)
    copied.rechained()
    named = [difference.what for difference in _verified(copied).differences]
    believed = [
        attack.__name__
        for attack, difference in TOGETHER[area].items()
        if not any(difference in what for what in named)
    ]
    assert not believed, named


def test_nor_is_one_under_the_old_chain(copied: Forger) -> None:
    a_training_embellished(copied)
    named = {difference.what for difference in _verified(copied).differences}
    assert "the journal's chain" in named
