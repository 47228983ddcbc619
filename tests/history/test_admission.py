"""What a sandbox may hand back. Each row is an attack; each has a control that must pass."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

import pytest

from meta_agent.core.errors import CandidateError
from meta_agent.core.history import AdmissionLimits, AdmittedCommit, HarnessRepo

from .attacker import EDITABLE, PROTECTED, REF, Attacker

Attack = Callable[[Attacker], tuple[bytes, str]]
BLOB = b"print('payload')\n"


def admit(
    repo: HarnessRepo, base: str, handed: tuple[bytes, str], ref: str = REF
) -> AdmittedCommit:
    pack, tip = handed
    return repo.admit(
        pack,
        expected_tip=tip,
        base=base,
        ref=ref,
        editable=EDITABLE,
        protected=PROTECTED,
        limits=AdmissionLimits(object_bytes=64 << 10, total_bytes=1 << 20, files=200, objects=500),
    )


def in_swe(mode: str, name: bytes, data: bytes = BLOB) -> Attack:
    def attack(a: Attacker) -> tuple[bytes, str]:
        tip = a.commit(a.swe([(mode, name, a.blob(data))]))
        return a.pack(tip), tip

    return attack


def in_root(mode: str, name: bytes, data: bytes = BLOB) -> Attack:
    def attack(a: Attacker) -> tuple[bytes, str]:
        tip = a.commit(a.root([(mode, name, a.blob(data))]))
        return a.pack(tip), tip

    return attack


def two_in_swe(one: bytes, two: bytes) -> Attack:
    def attack(a: Attacker) -> tuple[bytes, str]:
        blob = a.blob(BLOB)
        tip = a.commit(a.swe([("100644", one, blob), ("100644", two, blob)]))
        return a.pack(tip), tip

    return attack


def message(text: bytes) -> Attack:
    def attack(a: Attacker) -> tuple[bytes, str]:
        tip = a.raw_commit(a.git("rev-parse", f"{a.good()}^{{tree}}"), message=text)
        return a.pack(tip), tip

    return attack


def header(extra: bytes) -> Attack:
    def attack(a: Attacker) -> tuple[bytes, str]:
        tip = a.raw_commit(a.git("rev-parse", f"{a.good()}^{{tree}}"), extra=extra)
        return a.pack(tip), tip

    return attack


def submodule(a: Attacker) -> tuple[bytes, str]:
    tip = a.commit(a.swe([("160000", b"nested", a.base)]))
    return a.pack(tip), tip


def duplicate_entries(a: Attacker) -> tuple[bytes, str]:
    blob = a.blob(BLOB)
    tip = a.commit(a.swe([("100644", b"x.py", blob), ("100755", b"x.py", blob)]))
    return a.pack(tip), tip


def deletes_the_tests(a: Attacker) -> tuple[bytes, str]:
    rows = [row for row in a._rows(a.base) if row[1] != b"tests"]
    tip = a.commit(a.tree(rows))
    return a.pack(tip), tip


def other_author(a: Attacker) -> tuple[bytes, str]:
    tip = a.commit(a.swe([("100644", b"x.py", a.blob(BLOB))]), name="Ada", email="ada@example.org")
    return a.pack(tip), tip


def merge_commit(a: Attacker) -> tuple[bytes, str]:
    other = a.good(b"MAX_TURNS = 9\n")
    tip = a.commit(a.git("rev-parse", f"{a.good()}^{{tree}}"), parents=[a.base, other])
    return a.pack(tip), tip


def rewritten_history(a: Attacker) -> tuple[bytes, str]:
    tip = a.commit(a.git("rev-parse", f"{a.good()}^{{tree}}"), parents=[])
    return a.pack(tip), tip


def too_long_a_chain(a: Attacker) -> tuple[bytes, str]:
    tip = a.base
    for n in range(20):
        tree = a.swe([("100644", b"agent.py", a.blob(b"MAX_TURNS = %d\n" % n))])
        tip = a.commit(tree, parents=[tip])
    return a.pack(tip), tip


def hides_a_detour(a: Attacker) -> tuple[bytes, str]:
    """The first commit edits a protected file and the second puts it back."""
    bad = a.commit(a.root([("100644", b"harness.toml", a.blob(b"evil"))]))
    tip = a.commit(a.git("rev-parse", f"{a.good()}^{{tree}}"), parents=[bad])
    return a.pack(tip), tip


def changes_nothing(a: Attacker) -> tuple[bytes, str]:
    tip = a.commit(a.git("rev-parse", f"{a.base}^{{tree}}"))
    return a.pack(tip), tip


def hands_back_the_base(a: Attacker) -> tuple[bytes, str]:
    return a.pack(a.good()), a.base


def leaves_out_a_blob(a: Attacker) -> tuple[bytes, str]:
    tip = a.good()
    tree = a.git("rev-parse", f"{tip}^{{tree}}")
    return a.pack_of(tip, tree, a.git("rev-parse", f"{tip}:swe")), tip


def leaves_out_the_tip(a: Attacker) -> tuple[bytes, str]:
    return a.pack(a.good()), "12" * 20


def a_tip_that_is_an_option(a: Attacker) -> tuple[bytes, str]:
    return a.pack(a.good()), "--output=/tmp/x"


def big_file(a: Attacker) -> tuple[bytes, str]:
    tip = a.commit(a.swe([("100644", b"x.bin", a.blob(bytes(100 << 10)))]))
    return a.pack(tip), tip


def many_files(a: Attacker) -> tuple[bytes, str]:
    blob = a.blob(BLOB)
    tip = a.commit(a.swe([("100644", b"f%03d.py" % n, blob) for n in range(300)]))
    return a.pack(tip), tip


def one_blob_many_names(a: Attacker) -> tuple[bytes, str]:
    blob = a.blob(bytes(60 << 10))
    tip = a.commit(a.swe([("100644", b"f%03d.py" % n, blob) for n in range(30)]))
    return a.pack(tip), tip


def one_folder_many_names(a: Attacker) -> tuple[bytes, str]:
    blob = a.blob(bytes(60 << 10))
    tree = a.tree([("100644", b"%d" % n, blob) for n in range(5)])
    tip = a.commit(a.swe([("40000", b"d%d" % n, tree) for n in range(6)]))
    return a.pack(tip), tip


def tree_bomb(a: Attacker) -> tuple[bytes, str]:
    """10^10 files in eleven trees."""
    tree = a.tree([("100644", b"%d" % n, a.blob(BLOB)) for n in range(10)])
    for _ in range(9):
        tree = a.tree([("40000", b"%d" % n, tree) for n in range(10)])
    tip = a.commit(a.swe([("40000", b"d", tree)]))
    return a.pack(tip), tip


def deep_folders(a: Attacker) -> tuple[bytes, str]:
    tree = a.tree([("100644", b"f", a.blob(BLOB))])
    for _ in range(40):
        tree = a.tree([("40000", b"d", tree)])
    tip = a.commit(a.swe([("40000", b"d", tree)]))
    return a.pack(tip), tip


def many_objects(a: Attacker) -> tuple[bytes, str]:
    tip = a.good()
    rows = b"".join(
        b"blob\nmark :%d\ndata %d\n%s\n" % (n + 1, len(str(n)), str(n).encode()) for n in range(600)
    )
    a.git("fast-import", "--quiet", stdin=rows)
    listing = a.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)")
    blobs = tuple(line.split()[0] for line in listing.splitlines() if line.endswith("blob"))
    return a.pack(tip, extra=blobs), tip


def a_tag_object(a: Attacker) -> tuple[bytes, str]:
    tip = a.good()
    tag = a.raw("tag", f"object {tip}\ntype commit\ntag x\ntagger a <a> 1 +0000\n\nx\n".encode())
    return a.pack(tip, extra=(tag,)), tip


def zlib_bomb(a: Attacker) -> tuple[bytes, str]:
    """An object that announces ten bytes and inflates to a hundred megabytes."""
    body = b"PACK" + struct.pack(">II", 2, 1) + bytes([0x3A]) + zlib.compress(bytes(100 << 20))
    return body + bytes(20), a.good()


def announced_giant(a: Attacker) -> tuple[bytes, str]:
    size = bytes([0xB0, 0xFF, 0xFF, 0xFF, 0x7F])
    return b"PACK" + struct.pack(">II", 2, 1) + size + zlib.compress(b"") + bytes(20), a.good()


def delta_bomb(a: Attacker) -> tuple[bytes, str]:
    """A delta of a few bytes whose result is announced as a gigabyte."""
    delta = b"\x01" + b"\x80\x80\x80\x80\x04" + b"\x90\x01"
    entry = bytes([0x70 | len(delta)]) + bytes.fromhex(a.base) + zlib.compress(delta)
    return b"PACK" + struct.pack(">II", 2, 1) + entry + bytes(20), a.good()


def cut(a: Attacker) -> tuple[bytes, str]:
    tip = a.good()
    return a.pack(tip)[:-30], tip


def trailing_bytes(a: Attacker) -> tuple[bytes, str]:
    tip = a.good()
    return a.pack(tip) + b"#!/bin/sh\n", tip


def flipped_bit(a: Attacker) -> tuple[bytes, str]:
    tip = a.good()
    pack = bytearray(a.pack(tip))
    pack[-1] ^= 1
    return bytes(pack), tip


def not_a_pack(a: Attacker) -> tuple[bytes, str]:
    return b"# v2 git bundle\n" + a.pack(a.good()), a.good()


def thin_pack(a: Attacker) -> tuple[bytes, str]:
    delta = b"\x0e\x0e\x90\x0e"
    entry = bytes([0x70 | len(delta)]) + bytes.fromhex(a.git("rev-parse", f"{a.base}:swe/agent.py"))
    body = b"PACK" + struct.pack(">II", 2, 1) + entry + zlib.compress(delta)
    import hashlib

    return body + hashlib.sha1(body).digest(), a.good()


ATTACKS: dict[str, tuple[Attack, set[str]]] = {
    "symlink": (in_swe("120000", b"link", b"/etc/passwd"), {"not_a_regular_file"}),
    "symlink named .git": (in_swe("120000", b".git", b"/tmp"), {"pack_rejected"}),
    "symlink named .gitmodules": (in_root("120000", b".gitmodules", b"/tmp"), {"pack_rejected"}),
    "submodule": (submodule, {"not_a_regular_file"}),
    "odd mode": (in_swe("100666", b"x.py"), {"not_a_regular_file", "pack_rejected"}),
    "setuid mode": (in_swe("104755", b"x.py"), {"not_a_regular_file", "pack_rejected"}),
    "in-tree hooks folder": (in_root("100755", b"hooks"), {"path_outside_allowlist"}),
    ".gitattributes in the allowlist": (
        in_swe("100644", b".gitattributes", b"* filter=x\n"),
        {"git_path"},
    ),
    ".gitmodules in the allowlist": (in_swe("100644", b".gitmodules", b""), {"git_path"}),
    ".gitmodules with an option as URL": (
        in_root("100644", b".gitmodules", b'[submodule "x"]\n\tpath = x\n\turl = -u./p\n'),
        {"pack_rejected"},
    ),
    ".gitconfig": (in_swe("100644", b".gitconfig"), {"git_path"}),
    ".GIT": (in_swe("100644", b".GIT"), {"pack_rejected", "git_path"}),
    "git~1": (in_swe("100644", b"git~1"), {"pack_rejected", "git_path"}),
    ".git with a zero-width joiner": (
        in_swe("100644", ".g\u200cit".encode()),
        {"pack_rejected", "path_name"},
    ),
    "full-width .git": (in_swe("100644", "．git".encode()), {"path_name"}),
    "dot dot": (in_swe("100644", b".."), {"pack_rejected"}),
    "slash in a name": (in_swe("100644", b"../../x"), {"pack_rejected"}),
    "backslash in a name": (in_swe("100644", b"..\\x"), {"path_name", "pack_rejected"}),
    "option as a name": (in_swe("100644", b"-rf"), {"path_name"}),
    "a name that a shell runs": (in_swe("100644", b"$(touch x).py"), {"path_name"}),
    "a name that a shell runs, by ticks": (in_swe("100644", b"`id`.py"), {"path_name"}),
    "a name that ends a command": (in_swe("100644", b"a;id.py"), {"path_name"}),
    "somebody's home as a name": (in_swe("100644", b"~root"), {"path_name"}),
    "a blank before a name": (in_swe("100644", b" agent.py"), {"path_name"}),
    "newline in a name": (in_swe("100644", b"a\nb"), {"path_name"}),
    "escape sequence in a name": (in_swe("100644", b"\x1b[2J"), {"path_name"}),
    "bidi override in a name": (in_swe("100644", "a\u202eyp.exe".encode()), {"path_name"}),
    "name that is not UTF-8": (in_swe("100644", b"\xff.py"), {"path_name"}),
    **{
        f"{what} in a name": (in_swe("100644", f"a{char}b.py".encode()), {"path_name"})
        for what, char in {
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
        }.items()
    },
    **{
        f"{name} as a name": (in_swe("100644", name.encode()), {"path_name"})
        for name in ("con", "NUL.txt", "Aux .py", "com1.py", "LPT9", "com\u00b9.py", "CONOUT$")
    },
    "one blob under many names": (one_blob_many_names, {"tree_too_large"}),
    "one folder under many names": (one_folder_many_names, {"tree_too_large"}),
    "accent on the slash": (in_swe("100644", "\u0301agent.py".encode()), {"path_name"}),
    "long name": (in_swe("100644", b"a" * 300), {"path_name"}),
    "names that differ in case": (two_in_swe(b"Agent.py", b"x.py"), {"path_collision"}),
    "names that differ in Unicode form": (
        two_in_swe("caf\u00e9.py".encode(), "cafe\u0301.py".encode()),
        {"path_collision"},
    ),
    "duplicate tree entries": (duplicate_entries, {"pack_rejected"}),
    "outside the allowlist": (in_root("100644", b"setup.py"), {"path_outside_allowlist"}),
    "protected file": (in_root("100644", b"harness.toml"), {"path_outside_allowlist"}),
    "deletes the tests": (deletes_the_tests, {"path_outside_allowlist"}),
    "protected file in an earlier commit": (hides_a_detour, {"path_outside_allowlist"}),
    "another author": (other_author, {"commit_identity"}),
    "a merge": (merge_commit, {"merge_commit"}),
    "rewritten history": (rewritten_history, {"wrong_base"}),
    "a long chain": (too_long_a_chain, {"wrong_base"}),
    "no change": (changes_nothing, {"empty"}),
    "the base itself": (hands_back_the_base, {"empty"}),
    "a missing blob": (leaves_out_a_blob, {"pack_rejected"}),
    "a missing tip": (leaves_out_the_tip, {"missing_object"}),
    "an option as the tip": (a_tip_that_is_an_option, {"bad_tip"}),
    "a huge message": (message(b"x" * 20_000), {"message_too_large"}),
    "an escape sequence in a message": (message(b"\x1b[31mfeat: x\n"), {"commit_text"}),
    "bidi in a message": (message("feat: \u202ex\n".encode()), {"commit_text"}),
    "a message that is not UTF-8": (message(b"\xff\n"), {"commit_text"}),
    "a signature header": (header(b"gpgsig -----BEGIN\n"), {"commit_headers"}),
    "an encoding header": (header(b"encoding UTF-7\n"), {"commit_headers"}),
    "a big file": (big_file, {"object_too_large"}),
    "many files": (many_files, {"too_many_files"}),
    "a tree bomb": (tree_bomb, {"too_many_files"}),
    "deep folders": (deep_folders, {"path_name"}),
    "many objects": (many_objects, {"too_many_objects"}),
    "a tag": (a_tag_object, {"pack_malformed"}),
    "a zlib bomb": (zlib_bomb, {"pack_malformed"}),
    "an announced giant": (announced_giant, {"object_too_large"}),
    "a delta bomb": (delta_bomb, {"object_too_large"}),
    "a cut pack": (cut, {"pack_malformed"}),
    "trailing bytes": (trailing_bytes, {"pack_malformed"}),
    "a wrong checksum": (flipped_bit, {"pack_rejected"}),
    "a bundle": (not_a_pack, {"pack_malformed"}),
    "a thin pack": (thin_pack, {"pack_rejected"}),
}


@pytest.fixture(scope="module")
def attacked(seeded: HarnessRepo, tmp_path_factory: pytest.TempPathFactory) -> Attacker:
    """Who hands all of these to one repository: what is refused leaves no trace there."""
    return Attacker(tmp_path_factory.mktemp("attacked") / "attacker", seeded)


@pytest.mark.parametrize("name", ATTACKS)
def test_refuses(name: str, seeded: HarnessRepo, attacked: Attacker) -> None:
    attack, reasons = ATTACKS[name]
    handed = attack(attacked)
    with pytest.raises(CandidateError) as refusal:
        admit(seeded, attacked.base, handed)
    assert refusal.value.reason in reasons
    assert seeded.candidates() == {}
    assert HarnessRepo.open(seeded.path).head() == attacked.base


CONTROLS: dict[str, tuple[Attack, tuple[str, ...]]] = {
    "an edit": (lambda a: (a.pack(t := a.good()), t), ("swe/agent.py",)),
    "a new file": (in_swe("100644", b"new.py"), ("swe/new.py",)),
    "an executable": (in_swe("100755", b"run.sh"), ("swe/run.sh",)),
    "a name in another script": (in_swe("100644", "測試.py".encode()), ("swe/測試.py",)),
    "a name with accents": (
        in_swe("100644", "n\u00e4ive_e\u0301t\u00e9.py".encode()),
        ("swe/n\u00e4ive_e\u0301t\u00e9.py",),
    ),
    "a name like a device": (in_swe("100644", b"console.py"), ("swe/console.py",)),
    "marks that people use": (in_swe("100644", b"a+b (1)=x,@~.py"), ("swe/a+b (1)=x,@~.py",)),
    "one blob under a few names": (two_in_swe(b"a.py", b"b.py"), ("swe/a.py", "swe/b.py")),
    "a message of several lines": (message("feat: é\n\n\tbody\n".encode()), ("swe/agent.py",)),
    "sixteen commits": (lambda a: _chain_of(a, 16), ("swe/agent.py",)),
    "a delta inside the pack": (lambda a: _with_delta(a), ("swe/agent.py", "swe/big.py")),
}


def _chain_of(a: Attacker, n: int) -> tuple[bytes, str]:
    tip = a.base
    for k in range(n):
        tree = a.swe([("100644", b"agent.py", a.blob(b"MAX_TURNS = %d\n" % (k + 9)))])
        tip = a.commit(tree, parents=[tip])
    return a.pack(tip), tip


def _with_delta(a: Attacker) -> tuple[bytes, str]:
    import random

    text = random.Random(0).randbytes(30_000)
    blobs = [a.blob(text), a.blob(text + b"tail")]
    tip = a.commit(a.swe([("100644", b"agent.py", blobs[0]), ("100644", b"big.py", blobs[1])]))
    pack = a.pack(tip)
    assert len(pack) < 50_000
    return pack, tip


@pytest.mark.parametrize("name", CONTROLS)
def test_admits(name: str, repo: HarnessRepo, attacker: Attacker) -> None:
    build, paths = CONTROLS[name]
    pack, tip = build(attacker)
    admitted = admit(repo, attacker.base, (pack, tip))
    assert (admitted.commit, admitted.paths) == (tip, paths)
    assert repo.candidates() == {REF: tip}
    assert repo.tree(tip).tree_hash == admitted.tree_hash


BAD_REFS = [
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
]


def test_refuses_a_ref_outside_the_candidates(repo: HarnessRepo, attacker: Attacker) -> None:
    tip = attacker.good()
    for ref in BAD_REFS:
        with pytest.raises(CandidateError) as refusal:
            admit(repo, attacker.base, (attacker.pack(tip), tip), ref=ref)
        assert refusal.value.reason == "ref_name", ref


def test_a_taken_ref_moves_only_when_told_from_what(repo: HarnessRepo, attacker: Attacker) -> None:
    """And admitting twice is admitting once."""
    one, two = attacker.good(), attacker.good(b"MAX_TURNS = 9\n")
    first = admit(repo, attacker.base, (attacker.pack(one), one))
    assert admit(repo, attacker.base, (attacker.pack(one), one)) == first
    with pytest.raises(CandidateError) as refusal:
        admit(repo, attacker.base, (attacker.pack(two), two))
    assert refusal.value.reason == "ref_taken"
    repo.admit(
        attacker.pack(two),
        expected_tip=two,
        base=attacker.base,
        ref=REF,
        editable=EDITABLE,
        protected=PROTECTED,
        replaces=one,
    )
    assert repo.candidates() == {REF: two}


def test_objects_that_the_tip_does_not_reach_stay_outside(
    repo: HarnessRepo, attacker: Attacker
) -> None:
    tip, stray = attacker.good(), attacker.blob(b"a blob that no tree names\n")
    admit(repo, attacker.base, (attacker.pack(tip, extra=(stray,)), tip))
    assert repo._git.run("cat-file", "-e", tip, accept=(0, 1)).exit_code == 0
    assert repo._git.run("cat-file", "-e", stray, accept=(0, 1)).exit_code == 1
