from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_agent.core.errors import CandidateError, ConfigError
from meta_agent.core.harness import matches, safe_path
from meta_agent.core.harness._paths import collisions

MATCHES = [
    ("swe/agent.py", "swe/agent.py", True),
    ("swe/agent.py", "swe/agent.pyc", False),
    ("swe/agent.py", "swe/agentXpy", False),
    ("swe/*", "swe/agent.py", True),
    ("swe/*", "swe/sub/agent.py", False),
    ("swe/*", "swe", False),
    ("*.py", "a.py", True),
    ("*.py", "swe/a.py", False),
    ("swe/?.py", "swe/a.py", True),
    ("swe/?.py", "swe/ab.py", False),
    ("swe/**", "swe/a", True),
    ("swe/**", "swe/a/b/c", True),
    ("swe/**", "swe", False),
    ("swe/**", "swept/a", False),
    ("**", "a", True),
    ("**", "a/b", True),
    ("**/*.py", "a.py", True),
    ("**/*.py", "a/b/c.py", True),
    ("a/**/z", "a/z", True),
    ("a/**/z", "a/b/c/z", True),
    ("a/**/z", "az", False),
    ("swe/*", "swe/.hidden", True),
    ("SWE/*", "swe/a", False),
]


def test_a_pattern_means_what_the_module_says() -> None:
    assert [(*row[:2], matches(*row[:2])) for row in MATCHES] == MATCHES


MISREAD = ("", "/a", "a/", "a//b", "a/../b", "./a", "a**", "**a/b", "a[b]", "{a,b}", "!a", "a\\b")


def test_a_pattern_that_could_be_misread_is_refused() -> None:
    for pattern in MISREAD:
        with pytest.raises(ConfigError):
            matches(pattern, "a")


HOSTILE = [
    *("", "/etc/passwd", "../up", "a/../b", "a/./b", "./a", "a//b", "a/", "a\\b", "C:/x"),
    *("a\x00b", "a\nb", "a\u202eb", "e\u0301.py", "\ud800", ".git/config", "a/.GIT/hooks/x"),
    *(".gitmodules", "a/.gitattributes", "a/ b", "a/b ", "a/b.", "x" * 300),
]


def test_a_hostile_path_is_refused_and_an_ordinary_one_passes() -> None:
    for path in HOSTILE:
        with pytest.raises(CandidateError) as caught:
            safe_path(path)
        assert caught.value.reason == "hostile_path", path
    for path in ("a", "swe/agent.py", "a-b/c_d.e", ".github/x", "swe/é.md", ".gitignore"):
        assert safe_path(path) == path


@given(st.text())
def test_no_path_escapes_the_tree(path: str) -> None:
    try:
        safe_path(path)
    except CandidateError:
        return
    assert not path.startswith("/")
    assert not {"", ".", "..", ".git"} & set(path.split("/"))


def test_paths_that_differ_only_in_case_are_found() -> None:
    assert collisions(["a/B", "a/b", "c"]) == [("a/B", "a/b")]
