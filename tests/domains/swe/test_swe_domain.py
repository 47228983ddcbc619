"""Tasks, attempts and what is handed to the grader, with real processes."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import Environment
from meta_agent.domains.swe import RealSwe

HIDDEN = "test_total"


@pytest.fixture
def attempt(domain: RealSwe) -> Iterator[Environment]:
    environment = domain.open(domain.tasks("search")[0])
    yield environment
    environment.close()


def run(attempt: Environment, command: str) -> str:
    return attempt.call("run", {"command": command}).text


def test_a_task_shows_the_report_and_nothing_of_the_answer(domain: RealSwe) -> None:
    (task,) = domain.tasks("search")
    text = json.dumps(dict(task.view))
    assert task.view["issue"] == "total([1, 2, 3]) gives 5"
    assert "test_core" not in text and "diff --git" not in text
    assert domain.tasks("vault") == []


def test_the_tree_has_the_bug_and_neither_deciding_tests_nor_history(attempt: Environment) -> None:
    assert "sum(prices[1:])" in attempt.call("view", {"path": "shelf/core.py"}).text
    assert HIDDEN not in run(attempt, "grep -rn total tests; ls -A")
    assert ".git" not in run(attempt, "ls -A")


def test_an_honest_attempt_is_solved_clean_and_can_be_graded_again(
    domain: RealSwe, attempt: Environment
) -> None:
    old = {"path": "shelf/core.py", "old": "sum(prices[1:])", "new": "sum(prices)"}
    assert attempt.call("edit", old).ok
    assert "[exit 0]" in attempt.call("test", {}).text
    result = attempt.call("submit", {})
    assert result.done
    outcome = attempt.grade()
    assert (outcome.success, outcome.flags) == (True, ())
    assert domain.regrade("shelf-1", json.loads(json.dumps(attempt.verifier_inputs()))) == outcome


def test_what_happens_after_submit_is_not_graded(attempt: Environment) -> None:
    attempt.call("submit", {})
    late = attempt.call("run", {"command": "sed -i 's/prices.1:./prices/' shelf/core.py"})
    assert (late.ok, late.done) == (False, True)
    assert attempt.verifier_inputs()["patch"] == ""
    assert not attempt.grade().success


def test_an_attempt_without_submit_is_graded_as_it_stands(attempt: Environment) -> None:
    run(attempt, "sed -i 's/prices.1:./prices/' shelf/core.py")
    assert attempt.grade().success


def test_edits_of_tests_are_recorded_flagged_and_without_effect(attempt: Environment) -> None:
    run(attempt, "echo 'def test_total(): pass' > tests/test_core.py")
    outcome = attempt.grade()
    assert (outcome.success, outcome.flags) == (False, ("tamper:tests",))
    assert "def test_total(): pass" in attempt.verifier_inputs()["patch"]


@pytest.mark.parametrize(
    "command",
    [
        "cd .. && rm -rf repo",
        "rm -rf shelf && ln -s /etc shelf",
        "mkfifo shelf/p; rm shelf/core.py",
    ],
    ids=["deletes the tree", "links away", "leaves a pipe"],
)
def test_a_wrecked_tree_fails_and_never_hangs(attempt: Environment, command: str) -> None:
    run(attempt, command)
    assert not attempt.grade().success


def test_caches_and_history_of_ones_own_are_not_part_of_the_patch(attempt: Environment) -> None:
    run(
        attempt,
        "mkdir -p .git __pycache__ .pytest_cache; echo x > .git/HEAD; echo y > __pycache__/a",
    )
    assert attempt.verifier_inputs() == {"patch": "", "left_out": {}}


def test_what_is_not_text_is_left_out_by_name(attempt: Environment) -> None:
    run(attempt, r"printf '\377\000' > blob.bin; head -c 2000000 /dev/zero > big.txt")
    assert attempt.verifier_inputs()["left_out"] == {
        "big.txt": "2000000 bytes",
        "blob.bin": "not text",
    }


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("view", {"path": "../x"}, "stay inside"),
        ("view", {"path": 3}, "must be a string"),
        ("view", {"path": "shelf/core.py", "start": "one"}, "whole number"),
        ("edit", {"path": "no.py", "old": "a", "new": "b"}, "no text file"),
        ("edit", {"path": "shelf/core.py", "old": "zzz", "new": "b"}, "found 0 times"),
        ("edit", {"path": "shelf/core.py", "old": "", "new": "b"}, "empty"),
        ("run", {}, "must be a string"),
        ("log", {}, "no tool 'log'"),
    ],
)
def test_a_bad_call_is_an_answer(
    attempt: Environment, tool: str, arguments: dict[str, Any], says: str
) -> None:
    result = attempt.call(tool, arguments)
    assert (result.ok, says in result.text) == (False, True)


def test_tools_view_search_and_bound_their_output(attempt: Environment) -> None:
    assert "shelf" in attempt.call("view", {}).text
    part = attempt.call("view", {"path": "shelf/core.py", "start": 4, "end": 4}).text
    assert part.splitlines()[1:] == ["    4  def total(prices):"]
    assert "core.py:4" in attempt.call("search", {"pattern": "def tot"}).text
    assert "nothing matches" in attempt.call("search", {"pattern": "qqq"}).text
    long = attempt.call("run", {"command": "seq 100000"}).text
    assert len(long) < 7000 and "left out" in long and long.endswith("[exit 0]")


def test_settings_for_a_plugin_that_is_not_there_do_not_stop_the_tests(
    attempt: Environment,
) -> None:
    plain = attempt.call("test", {}).text
    run(attempt, "printf '[pytest]\\naddopts = --cov=shelf --cov-fail-under=90\\n' > pytest.ini")
    assert "unrecognized arguments" in attempt.call("run", {"command": "python3 -m pytest"}).text
    assert attempt.call("test", {}).text == plain


def broken(shelf: Any, name: str, value: Any) -> None:
    shelf.row[name] = value


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda s: broken(s, "source", None), "no field `source`"),
        (lambda s: broken(s, "FAIL_TO_PASS", ["test_total (x.Y)"]), "not a pytest id"),
        (lambda s: broken(s, "eval_type", "fail_only"), "fail_only"),
        (
            lambda s: broken(s, "test_patch", "--- a/q\n+++ b/q\n@@ -1 +1 @@\n-a\n+b\n"),
            "test_patch",
        ),
        (
            lambda s: broken(s, "FAIL_TO_PASS", ["tests/gone.py::test_x"]),
            "which the base commit lacks",
        ),
        (
            lambda s: broken(s, "source", {"archive": "none.tar", "sha256": "0" * 64}),
            "cannot read the source archive",
        ),
        (
            lambda s: broken(s, "source", {"archive": "shelf.tar.gz", "sha256": "0" * 64}),
            "but the task file says",
        ),
    ],
)
def test_a_row_that_cannot_be_used_is_refused_while_loading(
    shelf: Any, spoil: Callable[[Any], None], complaint: str
) -> None:
    spoil(shelf)
    with pytest.raises(ConfigError, match=complaint):
        shelf.load()


def test_the_evaluator_hash_follows_rows_and_archive_but_not_the_machine(shelf: Any) -> None:
    first = shelf.load().evaluator_hash
    assert shelf.load().evaluator_hash == first
    shelf.row["PASS_TO_PASS"] = shelf.row["PASS_TO_PASS"][1:]
    second = shelf.load().evaluator_hash
    shelf.tree["README"] = b"hello\n"
    assert len({first, second, shelf.load().evaluator_hash}) == 3


def test_a_small_file_says_that_it_is_small(domain: RealSwe) -> None:
    assert "1 tasks" in domain.notes[0] and "INCONCLUSIVE" in domain.notes[0]


def test_a_tree_may_come_from_the_image(shelf: Any) -> None:
    # A sandbox has a /tmp of its own, and one that root starts sees what everybody may read.
    place = Path("/usr/local") if os.geteuid() == 0 else Path.home()
    with tempfile.TemporaryDirectory(dir=place) as home:
        Path(home).chmod(0o755)
        folder = Path(home) / "in-image"
        for path, content in {**shelf.tree, ".git/HEAD": b"ref"}.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        shelf.row["source"] = {"image_path": str(folder), "python": sys.executable}
        domain = shelf.load()
        assert domain.files("shelf-1").visible == shelf.tree
        assert domain.regrade("shelf-1", {"patch": shelf.row["patch"]}).success


def test_an_image_without_the_tree_is_a_clear_error(shelf: Any) -> None:
    shelf.row["source"] = {"image_path": "/no/such/place", "python": sys.executable}
    domain = shelf.load()
    with pytest.raises(
        ConfigError, match="the directory /no/such/place of the image cannot be read"
    ):
        domain.regrade("shelf-1", {"patch": ""})


def test_deciding_tests_that_are_in_sight_are_noted(shelf: Any) -> None:
    shelf.row["FAIL_TO_PASS"] = [shelf.row["PASS_TO_PASS"].pop()]
    shelf.row["test_patch"] = ""
    assert "1 tasks show the deciding tests" in shelf.load().notes[1]
