"""A comparison as people see it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.protocols import Verdict, VerdictKind
from meta_agent.reports.comparison_sections import comparison_page
from meta_agent.reports.pages.html import rendered
from meta_agent.reports.terminal._lines import LineDisplay
from meta_agent.reports.terminal.display import beside
from meta_agent.reports.terminal.paint import painted_page

from ._screen import missing, printed

ODD = "a\x1b[31m<script>"
STORED = Path(__file__).parents[2] / "benchmarks/data/compare_nano_swe.json"


def estimate(value: float, half: float = 0.05) -> dict[str, float]:
    return {"value": value, "low": value - half, "high": value + half, "runs": 5}


def arm(value: float, versus: float | None = None, **more: Any) -> dict[str, Any]:
    told: dict[str, Any] = {"runs": 5, "mean": estimate(value), "iqm": estimate(value)}
    told |= {"success": value + 0.1, "spent": 20480.0, "tokens": 0, "usd": 0.0}
    told |= {"promotions": 3, "invalid_promotions": 1, "invalid_finals": 0, "wall_sec": 60.0}
    if versus is not None:
        gap = {"seeds": [1, 2, 3, 4, 5], "difference": estimate(versus), "better_seeds": 4}
        told["versus"] = {"static": {**gap, "improvement": estimate(0.8, 0.2)}}
    return {**told, **more}


def run(name: str, seed: int, clean: float) -> dict[str, Any]:
    return {
        "arm": name,
        "seed": seed,
        "clean": "1",
        "clean_success": clean,
        "success": clean,
        "promoted": ["g0/c1"],
        "invalid": {"g0/c1": ["conduct.leak"]},
        "final_findings": [],
        "policy_steps": 8,
        "spent": 20480,
    }


def document(**changes: Any) -> dict[str, Any]:
    settings = {"domain": "swe", "tasks": None, "generations": 2, "policy": ODD}
    declared = {"budget": 20480, "budget_counts": "attempts in training", "seeds": [1, 2]}
    told = {
        "declared": {**declared, "arms": ["full", "static", "score-only"], "settings": settings},
        "reference": "static",
        "arms": {"full": arm(0.6, 0.1), "static": arm(0.5), "score-only": {"runs": 0}},
        "unfinished": ["score-only-s1", "score-only-s2"],
        "runs": [run("full", 1, 0.6), run("static", 1, 0.6), run("full", 2, 0.0)],
    }
    return {**told, **changes}


def test_what_the_searches_did_is_a_table_of_its_own() -> None:
    facts = dict.fromkeys(("refused", "never_ran", "failed", "untried", "predictions"), 1)
    facts |= {"invalid": 7, "predictions_right": 0, "at_risk": 3, "at_risk_lost": 2}
    facts |= {"kinds": {"reward": 4}, "raw_winner_leaks": 2, "points_per_thousand": 0.5}
    told = document()
    told["arms"]["full"]["search"] = facts
    text = text_of(told, width=200)
    for part in ("reward 4", "raw winner leaks", "points per thousand", "0.5"):
        assert part in text and part in page_of(told)


def page_of(told: dict[str, Any]) -> str:
    return rendered(comparison_page(told))


def text_of(told: dict[str, Any], width: int = 120) -> str:
    return printed(painted_page(comparison_page(told)), width)


def test_the_table_fits_a_pipe_and_holds_every_number() -> None:
    text = text_of(document())
    assert "…" not in text
    numbers = ("60.0 % [55.0, 65.0]", "+10.0 [+5.0, +15.0]", "4 of 5", "20,480")
    assert missing(text, *numbers, "score-only-s1, score-only-s2") == []
    assert ["score-only", "0", *["–"] * 6] in [line.split() for line in text.splitlines()]
    ways = {"full": "22 in turns", "no-diagnostics": "22 in turns", "score-only": "23, then 22"}
    assert missing(text_of(document(splits=ways)), *set(ways.values())) == []
    nothing = document(arms={"full": {"runs": 0}}, runs=[], reference="full")
    assert "–" in text_of(nothing) and 'class="bars"' not in page_of(nothing)


def test_what_machines_lost_is_told_with_what_it_may_have_changed() -> None:
    full = arm(0.6, 0.1, lost=3, planned=480, bounds=[0.594, 0.6])
    full["versus"]["static"] |= {"lost_pairs": 3, "bounds": [0.094, 0.1]}
    lossy = document(arms={"full": full, "static": arm(0.5)}, void=["static-s2"])
    numbers = ("3 of 480", "59.4 %", "60.0 %", "+9.4", "+10.0", "static-s2")
    assert missing(text_of(lossy, width=400), *numbers) == []
    assert "lost" not in text_of(document())
    page = page_of(document(runs=[{**run("full", 1, 0.6), "lost": 2}]))
    assert "(2 lost)" in page


@pytest.mark.parametrize(("usd", "told"), [(0.5, "$0.5"), (None, "unknown")])
def test_money_is_told_where_models_were_asked(usd: float | None, told: str) -> None:
    asked = document(arms={"static": arm(0.5, tokens=1200, usd=usd)})
    assert "1,200 tokens" in text_of(asked) and told in text_of(asked)
    assert "tokens" not in text_of(document())


def test_the_page_is_one_file_and_runs_nothing() -> None:
    page = page_of(document())
    assert "default-src 'none'" in page
    assert "<script" not in page and "http" not in page.split("<body>")[1]
    assert page.count('class="bars"') == 2
    assert ODD not in page and "\\x1b" in page


def test_lines_of_runs_side_by_side_say_whose_they_are() -> None:
    stream = io.StringIO()
    named = beside(LineDisplay(stream))("full-s1")
    named.begin(["evolving swe", "policy nano"])
    named.phase("train", "v0")
    named.phase("train", "v0", done=3, total=9)
    named.metric("v0/s0", 1, {"reward": 1.0})
    named.note("so")
    named.verdict("swe-1/g0/c1", "reward", Verdict(VerdictKind.REJECT, ("no",)))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 4
    assert all("full-s1" in line for line in lines)
    assert missing(lines[-1], "g0/c1", "reward", "REJECT", "no") == []


def test_the_stored_comparison_can_be_drawn_again() -> None:
    stored = json.loads(STORED.read_text())
    assert "+5.9 [-0.2, +15.0]" in text_of(stored)
    assert page_of(stored).count('class="bars"') == 2
    assert {len(run["clean"]) for run in stored["runs"]} == {512}
