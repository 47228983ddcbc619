"""The harness's history by names: diff, revert, completion; a real repository."""

from pathlib import Path

import pytest

from meta_agent.core.ledger import Ledger

from ._command import Runner
from ._evolved import FILES, LONG, Evolved


@pytest.fixture
def evolved(tmp_path: Path) -> Evolved:
    return Evolved(tmp_path / "w")


@pytest.mark.parametrize(
    ("names", "gone", "come"),
    [
        (["g0/c0"], ["A = 1"], ["A = 2"]),
        (["v1"], ["A = 1", "B = 1"], ["A = 2", "B = 2"]),
        (["v1", "v0"], ["A = 2", "B = 2"], ["A = 1", "B = 1"]),
        (["main"], ["B = 1"], ["B = 2"]),
        (["main", "g0/c2"], ["A = 2", "B = 2", "C = 1"], ["A = 1", "B = 1", "C = 9"]),
    ],
)
def test_diff_of_one_name_and_of_two(
    evolved: Evolved, meta_agent: Runner, names: list[str], gone: list[str], come: list[str]
) -> None:
    patch = meta_agent("diff", *names, "--json", cwd=evolved.root).document["diff"]
    lines = patch.splitlines()
    assert [one[1:].partition(";")[0] for one in lines if one[:2] in ("-A", "-B", "-C")] == gone
    assert [one[1:].partition(";")[0] for one in lines if one[:2] in ("+A", "+B", "+C")] == come


def test_lines_are_whole_and_a_name_that_is_nothing_is_refused(
    evolved: Evolved, meta_agent: Runner
) -> None:
    piped = meta_agent("diff", "g0/c0", cwd=evolved.root).stdout
    assert f"\n+A = 2{LONG}\n" in piped, "git apply reads it"
    for name in ("v9", "g7/c7", "--help-me", "HEAD^", "a b", "lead"):
        done = meta_agent("diff", "--", name, cwd=evolved.root)
        assert done.returncode == 2 and repr(name) in done.stderr


def test_why_explains_a_version_by_its_members(evolved: Evolved, meta_agent: Runner) -> None:
    members = meta_agent("why", "v1", "--json", cwd=evolved.root).document["candidates"]
    alone = meta_agent("why", "g0/c0", "--json", cwd=evolved.root).document
    assert alone in members and len({member["merge"] for member in members}) == 1
    start = meta_agent("why", "v0", cwd=evolved.root)
    assert start.returncode == 2 and "v0" in start.stderr


def test_revert_takes_back_one_member_and_leaves_the_others(
    evolved: Evolved, meta_agent: Runner
) -> None:
    done = meta_agent("revert", "g0/c0", "--json", cwd=evolved.root).document["reverted"]
    assert [one["candidate"] for one in done] == ["r1/g0/c0"]
    now = (evolved.root / "harness_repo" / "swe" / "agent.py").read_text()
    assert "A = 1" in now and "B = 2" in now
    assert "PROMOTE: so" in (evolved.repo.notes(evolved.repo.head()) or "")
    assert meta_agent("revert", "g0/c0", "--json", cwd=evolved.root).document["reverted"] == done


def test_revert_of_a_version_takes_all_of_it_back_and_can_be_reverted(
    evolved: Evolved, meta_agent: Runner
) -> None:
    before = evolved.repo.tree(evolved.repo.head()).files
    done = meta_agent("revert", "v1", "--json", cwd=evolved.root).document["reverted"]
    assert [one["candidate"] for one in done] == ["r1/g0/c1", "r1/g0/c0"]
    assert evolved.repo.tree(evolved.repo.head()).files == FILES
    for one in reversed(done):
        meta_agent("revert", one["commit"], cwd=evolved.root)
    assert evolved.repo.tree(evolved.repo.head()).files == before


def test_what_cannot_be_taken_back_is_refused(evolved: Evolved, meta_agent: Runner) -> None:
    for name in ("g0/c2", "v0"):
        done = meta_agent("revert", name, cwd=evolved.root)
        assert done.returncode == 2 and name in done.stderr
    later = {"swe/agent.py": b"A = 3\n\n\nB = 2\n"}
    evolved.repo.edit_main(
        later, onto=evolved.repo.head(), message="fix: by hand", when=1_800_000_000
    )
    done = meta_agent("revert", "g0/c0", cwd=evolved.root)
    assert done.returncode == 2
    with Ledger.open(evolved.root / "ledger.sqlite"):
        assert meta_agent("revert", "g0/c1", cwd=evolved.root).returncode != 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("meta-agent why g0/", ["g0/c2", "g0/c1", "g0/c0"]),
        ("meta-agent diff v", ["v1", "v0"]),
        ("meta-agent report --run ", ["r1"]),
    ],
)
def test_a_shell_is_told_names_that_exist_now(
    evolved: Evolved, meta_agent: Runner, words: str, expected: list[str]
) -> None:
    told = {"_META_AGENT_COMPLETE": "complete_bash", "COMP_WORDS": words}
    told["COMP_CWORD"] = str(len(words.split(" ")) - 1)
    done = meta_agent(cwd=evolved.root, **told)
    assert done.stdout.split() == expected
    elsewhere = meta_agent(cwd=evolved.root.parent, **told)
    assert (elsewhere.stdout.split(), "Traceback" in elsewhere.stderr) == ([], False)
