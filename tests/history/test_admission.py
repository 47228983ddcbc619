"""Which edited files become a candidate's commit, and which are refused without a trace."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from meta_agent.core.errors import CandidateError
from meta_agent.core.history import AdmissionLimits, HarnessRepo

from ._kit import MORE_TURNS, REF, SEED, admit

SMALL = AdmissionLimits(file_bytes=64 << 10, total_bytes=1 << 20, files=200)
Edits = Mapping[str, bytes | None]


def named(name: str) -> Edits:
    return {f"swe/{name}": b"x = 1\n"}


UNSEEN = {
    "hangul filler": "\u3164",
    "half-width hangul filler": "\uffa0",
    "grapheme joiner": "\u034f",
    "variation selector": "\ufe0f",
    "supplementary variation selector": "\U000e0101",
    "mongolian vowel separator": "\u180e",
    "khitan filler": "\U00016fe4",
    "braille blank": "\u2800",
    "null notehead": "\U0001d159",
    "no-break space": "\u00a0",
    "ideographic space": "\u3000",
    "star": "*",
    "question mark": "?",
    "bracket": "[",
    "pipe": "|",
    "redirection": ">",
    "quote": '"',
    "division slash": "\u2215",
    "stroke that makes a slash": "\u0338",
    "zero byte": "\0",
    "newline": "\n",
    "tab": "\t",
    "lone surrogate": "\ud800",
}
ATTACKS: dict[str, tuple[Edits, str]] = {
    "no edit": ({}, "empty"),
    "an edit that changes nothing": ({"swe/agent.py": SEED["swe/agent.py"]}, "empty"),
    "removal of what is not there": ({"swe/none.py": None}, "empty"),
    "a folder of hooks": ({"hooks/post-merge": b"#!/bin/sh\n"}, "path_outside_allowlist"),
    ".gitattributes in the allowlist": (named(".gitattributes"), "git_path"),
    ".gitmodules in the allowlist": (named(".gitmodules"), "git_path"),
    ".gitconfig": (named(".gitconfig"), "git_path"),
    ".git": (named(".git/config"), "git_path"),
    ".GIT": (named(".GIT"), "git_path"),
    "git~1": (named("git~1"), "git_path"),
    ".git with a zero-width joiner": (named(".g\u200cit"), "path_name"),
    "full-width .git": (named("．git"), "path_name"),
    "dot dot": (named(".."), "path_name"),
    "out of the repository": (named("../../x"), "path_name"),
    "an absolute path": ({"/etc/passwd": b""}, "path_name"),
    "an empty path": ({"": b""}, "path_name"),
    "a folder's path": (named("x/"), "path_name"),
    "backslash in a name": (named("..\\x"), "path_name"),
    "option as a name": (named("-rf"), "path_name"),
    "a name that a shell runs": (named("$(touch x).py"), "path_name"),
    "a name that a shell runs, by ticks": (named("`id`.py"), "path_name"),
    "a name that ends a command": (named("a;id.py"), "path_name"),
    "somebody's home as a name": (named("~root"), "path_name"),
    "a blank before a name": (named(" agent.py"), "path_name"),
    "escape sequence in a name": (named("\x1b[2J"), "path_name"),
    "bidi override in a name": (named("a\u202eyp.exe"), "path_name"),
    **{f"{what} in a name": (named(f"a{char}b.py"), "path_name") for what, char in UNSEEN.items()},
    **{
        f"{name} as a name": (named(name), "path_name")
        for name in ("con", "NUL.txt", "Aux .py", "com1.py", "LPT9", "com\u00b9.py", "CONOUT$")
    },
    "accent on the slash": (named("\u0301agent.py"), "path_name"),
    "long name": (named("a" * 300), "path_name"),
    "names that differ in case": (named("Agent.py"), "path_collision"),
    "names that differ in Unicode form": (
        named("caf\u00e9.py") | named("cafe\u0301.py"),
        "path_collision",
    ),
    "a file below a file": (named("agent.py/x.py"), "path_collision"),
    "a file in place of a folder": ({"swe": b""}, "path_collision"),
    "outside the allowlist": ({"setup.py": b""}, "path_outside_allowlist"),
    "protected file": ({"harness.toml": b""}, "path_outside_allowlist"),
    "deletes the tests": (MORE_TURNS | {"tests/test_toy.py": None}, "path_outside_allowlist"),
    "a big file": ({"swe/big.py": bytes(65 << 10)}, "file_too_large"),
    "one text under many names": (
        {f"swe/{n}.py": bytes(60 << 10) for n in range(20)},
        "tree_too_large",
    ),
    "many files": ({f"swe/{n}.py": b"" for n in range(200)}, "too_many_files"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_refuses(name: str, seeded: HarnessRepo) -> None:
    edits, reason = ATTACKS[name]
    base = seeded.head()
    with pytest.raises(CandidateError) as refusal:
        admit(seeded, edits, limits=SMALL)
    assert refusal.value.reason == reason
    assert seeded.candidates() == {} and HarnessRepo.open(seeded.path).head() == base


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("x" * 20_000, "message_too_large"),
        ("feat: \ud800\n", "commit_text"),
        ("\x1b[31mfeat: x\n", "commit_text"),
        ("feat: \u202ex\n", "commit_text"),
    ],
)
def test_refuses_a_message(message: str, reason: str, seeded: HarnessRepo) -> None:
    with pytest.raises(CandidateError) as refusal:
        admit(seeded, message=message)
    assert refusal.value.reason == reason
    HarnessRepo.open(seeded.path)


CONTROLS: dict[str, Edits] = {
    "an edit": MORE_TURNS,
    "a new file": named("new.py"),
    "a new file in a new folder": named("a/b/c.py"),
    "a removal": {"swe/reward.py": None},
    "a folder in place of a file": {"swe/agent.py": None, **named("agent.py/x.py")},
    "a name in another script": named("測試.py"),
    "a name with accents": named("n\u00e4ive_e\u0301t\u00e9.py"),
    "a name like a device": named("console.py"),
    "marks that people use": named("a+b (1)=x,@~.py"),
    "bytes that are no text": {"swe/data.bin": b"\xff\0\r\n"},
}


@pytest.mark.parametrize("name", CONTROLS)
def test_admits(name: str, repo: HarnessRepo) -> None:
    edits, base = CONTROLS[name], repo.head()
    admitted = admit(repo, edits)
    assert admitted.paths == tuple(sorted(edits))
    assert repo.candidates() == {REF: admitted.commit}
    tree = repo.tree(admitted.commit)
    kept = {path: data for path, data in SEED.items() if path not in edits}
    assert tree.files == kept | {path: data for path, data in edits.items() if data is not None}
    assert (tree.tree_hash, repo.parent(admitted.commit)) == (admitted.tree_hash, base)


def test_a_program_stays_one_and_a_new_file_is_none(repo: HarnessRepo) -> None:
    (repo.path / "swe/agent.py").chmod(0o755)
    for argv in (("add", "-A"), ("commit", "-q", "-m", "feat: a program")):
        repo._git.run(*argv)
    commit = admit(repo, MORE_TURNS | named("new.py")).commit
    rows = repo._git.run("ls-tree", commit, "swe/").stdout.decode().splitlines()
    assert [row.split()[0] for row in rows] == ["100755", "100644", "100644"]


@pytest.mark.parametrize(
    "ref",
    [
        "refs/heads/main",
        "refs/heads/candidate/../main",
        "refs/heads/candidate/r1",
        "refs/heads/candidate/-x/0",
        "refs/heads/candidate/r1/0.lock",
        "refs/heads/candidate/r1/..",
        "refs/heads/candidate/r1/a b",
        "refs/notes/commits",
        "HEAD",
        "-d",
    ],
)
def test_refuses_a_ref_outside_the_candidates(ref: str, seeded: HarnessRepo) -> None:
    with pytest.raises(CandidateError) as refusal:
        admit(seeded, ref=ref)
    assert refusal.value.reason == "ref_name"


def test_a_taken_ref_moves_only_when_told_from_what(repo: HarnessRepo) -> None:
    """And admitting twice is admitting once."""
    one, other = admit(repo), {"swe/agent.py": b"MAX_TURNS = 9\n"}
    assert admit(repo) == one
    with pytest.raises(CandidateError) as refusal:
        admit(repo, other)
    assert refusal.value.reason == "ref_taken"
    two = admit(repo, other, replaces=one.commit)
    assert repo.candidates() == {REF: two.commit}
