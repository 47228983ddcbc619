"""Slices come from what a task says of itself."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from meta_agent.core.capabilities import Capabilities
from meta_agent.core.protocols import Task
from meta_agent.core.slices import listed, slices, slices_of
from meta_agent.domains import load_domain
from meta_agent.domains.formats.graded_sets import read_graded


def task(view: dict[str, Any], key: str = "set/1") -> Task:
    return Task("swe", key, "confirm", "hash", view)


@pytest.mark.parametrize(
    ("issue", "label"),
    [("3?", "position"), ("n?", "kind"), ("h?", "symptom"), ("35", "exact"), ("3-", "exact")],
)
def test_nano_swe_is_sliced_by_what_its_issue_gives_away(issue: str, label: str) -> None:
    assert slices(task({"issue": issue}, "nano-swe/confirm/0000")) == {"issue": label}


@pytest.mark.parametrize(("domain", "name"), [("swe", "issue"), ("math", "steps")])
def test_every_task_of_a_built_in_suite_has_its_label(domain: str, name: str) -> None:
    labels = slices_of(load_domain(domain), "confirm")
    assert all(set(found) == {name} for found in labels.values())
    assert min(Counter(found[name] for found in labels.values()).values()) >= 20


def test_the_columns_of_known_sets_are_read() -> None:
    seen = slices(task({"repo": "a/b", "issue": "long text"}), {"level": 5, "subject": " Algebra "})
    assert seen == {"repo": "a/b", "level": "5", "subject": "Algebra"}


@pytest.mark.parametrize("value", [None, True, 0.5, ["x"], "x" * 61, "  "])
def test_what_sorts_nothing_is_no_label(value: object) -> None:
    assert slices(task({"level": value})) == {}


def test_a_files_rows_add_their_own_columns() -> None:
    rows = {"set/1": SimpleNamespace(extra={"difficulty": "easy"}, kind="stdio")}
    domain: Any = SimpleNamespace(
        capabilities=Capabilities(rows=rows), tasks=lambda _: [task({"kind": "program"})]
    )
    assert slices_of(domain, "confirm") == {"set/1": {"difficulty": "easy", "kind": "program"}}


def test_a_curriculum_receives_the_labels_of_a_row_and_an_agent_does_not(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"prompt": "1+1", "labels": {"level": "2"}}\n')
    (row,) = read_graded(file, {}).rows
    domain: Any = SimpleNamespace(capabilities=Capabilities(rows={row.key: row}))
    sums = Task("graded", row.key, "train", "hash", row.view)
    assert listed(domain, [sums]) == [
        {"key": row.key, "view": {"prompt": "1+1"}, "labels": {"level": "2"}}
    ]
