"""`why` and `verify` on the screen: sentences and a picture first, never a record's own form."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from meta_agent.core.ledger import Event, Ledger
from meta_agent.reports import MetricPoint, RunState, open_display, recorded, reduce, run_sections
from meta_agent.reports._format import plain_leaves, value_text
from meta_agent.reports._parts import CandidateView, EvidenceView, SkillView
from meta_agent.reports._sentences import progress
from meta_agent.reports.pages.html import render_html
from meta_agent.reports.terminal.paint import painted
from meta_agent.reports.terminal.text import log, verified

from .sample import write_sample


def shown(drawn: RenderableType) -> str:
    with (console := Console(width=120)).capture() as seen:
        console.print(drawn)
    return seen.get()


def judged() -> CandidateView:
    evidence = {
        "judge": "live",
        "inputs": {"budget": {"alpha": 0.05, "looks": [1, 2]}, "factor": "reward"},
        "numbers": {"wealth": 21.5, "cells": [{"a": 1}, {"a": 2}]},
    }
    effect = {"delta": 0.1, "ci_low": 0.05, "ci_high": 0.15, "pairs": 9, "training_seeds": 3}
    verdict = {"kind": "PROMOTE", "reasons": ["it gained"], "effect": effect, "evidence": evidence}
    return CandidateView.parse({"id": "r/g0/c1", "factor": "reward", "verdict": verdict})


def test_why_begins_with_a_sentence() -> None:
    told = shown(painted(run_sections.why(judged()))).splitlines()
    assert told[0].rstrip() == "g0/c1 is PROMOTE, because it gained."


def test_no_record_shows_its_own_form() -> None:
    told = shown(painted(run_sections.why(judged())))
    assert "{" not in told and '"' not in told
    assert "inputs.budget.alpha" in told and "0.05" in told
    assert "2 entries (--json shows them)" in told


def test_leaves_are_plain() -> None:
    value: Any = {"a": [1, 2.5], "b": {"c": None, "d": True}, "e": []}
    assert list(plain_leaves("x", value)) == [("x.a", "1, 2.5"), ("x.b.d", "yes"), ("x.e", "none")]


@pytest.mark.parametrize("ok", [True, False])
def test_verify_says_what_it_did(ok: bool) -> None:
    found = (
        [] if ok else [{"what": "vault/final.clean_success", "recorded": 0.9, "recomputed": 0.4}]
    )
    told = {
        **{"commit": "a" * 40, "recorded": "PROMOTE", "ok": ok, "differences": found},
        **{"taken_as_recorded": ["clock"], "steps": 72, "rows": 576, "regraded": 9},
        **{"journal": "f" * 64, "decided": []},
    }
    drawn = shown(verified(told))
    assert ("computed again it is the same" in drawn) is ok
    assert "72 steps" in drawn and "{" not in drawn
    assert ok or "0.9 -> 0.4" in drawn


def test_a_run_is_named_only_where_two_meet() -> None:
    assert "r/g0" not in shown(painted(run_sections.why(judged())))
    (line,) = log([], [Event(1, "r", "note", 0.0, {"text": "r/g0/c1 waits, q/g0/c1 did not"})])
    assert line.plain.endswith("  g0/c1 waits, q/g0/c1 did not")


def test_a_log_cuts_no_phase_and_shows_no_field_names_of_one() -> None:
    detail = "generation 0: " + ", ".join(f"g0/c{n}" for n in range(30))
    event = Event(1, "r", "phase", 0.0, {"name": "bundle", "detail": detail})
    (line,) = log([], [event])
    assert line.plain.endswith(f"bundle: {detail}")


def test_a_long_reason_in_a_record_is_whole() -> None:
    words = "because " * 30
    assert list(plain_leaves("why", {"told": [words]})) == [("why.told", words.strip())]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([1, 0.25], "1, 0.25"),
        ({"a": {"b": 2}, "c": True}, "a.b 2, c yes"),
        ([{"a": 1}], "1 entries (--json shows them)"),
        ([], "none"),
        (None, "–"),
    ],
)
def test_a_setting_is_no_json(value: object, told: str) -> None:
    assert value_text(value) == told


def test_a_status_begins_with_sentences() -> None:
    told = shown(painted(run_sections.status(RunState("r", exit_reason="done"))))
    assert told.startswith("what happened") and "\nrun " in told


def test_progress_is_generation_step_share_and_time_left() -> None:
    point = MetricPoint("g0 all seed 0, 30 steps", 12, {})
    state = RunState(
        "r", config={"generations": 3}, rollouts=430, planned=1000, owner=7,
        metrics={point.series: [point]},
        started_at=0.0, last_at=43.0,
    )  # fmt: skip
    state.evidence.append(EvidenceView.parse({"generation": 1, "version": "v0"}))
    assert progress(state) == (
        "generation 2 of 3, step 12 of g0 all seed 0, 30 steps, 43 % of 1,000 attempts, "
        "about 57 s left"
    )


def test_a_run_at_work_says_its_progress_and_records_its_words_alone(tmp_path: Path) -> None:
    stream = io.StringIO()
    with Ledger.open(tmp_path / "l.sqlite") as ledger:
        ledger.start_run("r", {}, config_hash="h")
        ledger.event("plan", {"attempts": 10})
        display = recorded(open_display(stream), ledger, "r")
        display.phase("collect", "v0")
        display.note("r/g0/c0: an idea")
        kept = [event.payload for event in ledger.events("r")][1:]
    assert "collect   v0 (0 % of 10 attempts)" in stream.getvalue()
    assert "note      g0/c0: an idea" in stream.getvalue()
    assert kept == [{"name": "collect", "detail": "v0"}, {"text": "r/g0/c0: an idea"}]


def test_on_a_page_the_picture_comes_before_the_figures(tmp_path: Path) -> None:
    write_sample(tmp_path / "l.sqlite")
    with Ledger.open(tmp_path / "l.sqlite", owner_lock=False) as ledger:
        page = render_html(reduce(ledger))
    assert page.index("what happened") < page.index("vault, before") < page.index("<td>before</td>")
    assert "r1/g0" not in page and "&#34;" not in page.partition("<pre>")[0]


def test_the_page_says_what_trials_found_after_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "tried"
    folder.mkdir()
    state = RunState("r")
    state.skills = [SkillView.parse({"name": "tried", "path": str(folder), "status": "domain"})]
    assert "<td>domain</td>" in render_html(state)
    told = "metadata:\n  meta-agent.status: quarantine\n  meta-agent.worth: did harm\n"
    (folder / "SKILL.md").write_text(f"---\nname: tried\ndescription: a demo\n{told}---\nwords\n")
    page = render_html(state)
    assert "<td>quarantine</td>" in page and "<td>did harm</td>" in page


def test_the_page_says_what_a_skill_is_worth() -> None:
    worth = "+10.0 points [+4.0, +16.0] over 5 pairs of 6000 attempts on swe"
    told = {"name": "tried", "candidate": "r/g0/c1", "status": "domain", "worth": worth}
    state = RunState("r")
    state.skills = [SkillView.parse(told), SkillView.parse({"name": "new", "worth": ""})]
    page = render_html(state)
    assert worth in page and "<td>domain</td>" in page and "<td>not tried</td>" in page
    assert state.to_json()["skills"][0]["worth"] == worth
