"""Unified diffs: round trips, real forms, and refusals."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meta_agent.domains.swe._patch import PatchError, apply, is_inside, make, overlay, parse

TEXTS = st.text(alphabet="ab\n\r\x0c-+@ \\", max_size=60).map(str.encode)


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_applying_a_made_patch_gives_the_new_text(before: bytes, after: bytes) -> None:
    tree = {"a.py": before, "b.py": b"same\n"}
    assert overlay(tree, apply(tree, parse(make(tree, {"a.py": after})))) == {**tree, "a.py": after}


@settings(deadline=None)
@given(TEXTS)
def test_new_and_deleted_files_survive_the_round_trip(content: bytes) -> None:
    assert apply({}, parse(make({}, {"new.py": content}))) == {"new.py": content}
    gone = make({"a.py": content}, {"a.py": None})
    assert apply({"a.py": content}, parse(gone)) == {"a.py": None}


def test_a_hunk_is_found_where_its_lines_moved_to() -> None:
    patch = make({"a": b"1\n2\n3\n"}, {"a": b"1\ntwo\n3\n"})
    assert apply({"a": b"0\n0\n1\n2\n3\n"}, parse(patch)) == {"a": b"0\n0\n1\ntwo\n3\n"}


def test_removed_lines_that_look_like_headers_are_content() -> None:
    tree = {"a": b"-- a/x\n++ b/x\nkeep\n"}
    assert apply(tree, parse(make(tree, {"a": b"keep\n"}))) == {"a": b"keep\n"}


def test_renames_and_empty_files_are_read() -> None:
    text = (
        "diff --git a/old.py b/new.py\nsimilarity index 100%\n"
        "rename from old.py\nrename to new.py\n"
        "diff --git a/e.py b/e.py\nnew file mode 100644\nindex 0000000..e69de29\n"
    )
    assert apply({"old.py": b"x\n"}, parse(text)) == {"old.py": None, "new.py": b"x\n", "e.py": b""}


def test_a_plain_diff_without_git_headers_is_read() -> None:
    text = "--- a/x.py\t2024-01-01\n+++ b/x.py\t2024-01-02\n@@ -1 +1,2 @@\n a\n+b\n"
    assert apply({"x.py": b"a\n"}, parse(text)) == {"x.py": b"a\nb\n"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("--- a/x\n+++ b/../../etc/passwd\n@@ -1 +1 @@\n-a\n+b\n", "inside the tree"),
        ("--- a/x\n+++ /abs\n@@ -1 +1 @@\n-a\n+b\n", "inside the tree"),
        ("--- a/x\n+++ b/x\n@@ -1,3 +1 @@\n-a\n", "in the middle of a hunk"),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-z\n+b\n", "lacks the old lines"),
        ("--- a/y\n+++ b/y\n@@ -1 +1 @@\n-z\n+b\n", "not in the tree"),
        ("--- a/x\n+++ b/x\n", "no hunk"),
        ("--- a/x\n", "in the middle of a hunk"),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n*a\n", "must begin with a blank"),
        ("diff --git a/i.png b/i.png\nGIT binary patch\n", "binary"),
        ("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n", "both the old and the new"),
    ],
)
def test_what_does_not_fit_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(PatchError, match=complaint):
        apply({"x": b"a\n"}, parse(text))


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("a/b.py", True),
        ("a b.py", True),
        ("", False),
        ("/a", False),
        ("a/../b", False),
        ("./a", False),
        ("a//b", False),
        ("a\nb", False),
        ("a\\b", False),
        ("a" * 255, True),
        ("\u00e4" * 128, False),  # 256 bytes: no file system takes it
        ("/".join(["a" * 200] * 11), False),
    ],
)
def test_paths_stay_inside_the_tree(path: str, inside: bool) -> None:
    assert is_inside(path) is inside
