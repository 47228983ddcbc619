"""`why` and `verify` on the screen: sentences and a picture first, never a record's own form."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console, RenderableType

from meta_agent.protocols import Effect
from meta_agent.view._format import interval_bar, plain_leaves
from meta_agent.view._parts import CandidateView
from meta_agent.view.terminal import text


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


def test_why_begins_with_a_sentence_and_a_picture() -> None:
    told = shown(text.why(judged())).splitlines()
    assert told[0].rstrip() == "g0/c1 is PROMOTE, because it gained."
    assert "●" in told[1] and "points of clean success" in told[1]


def test_no_record_shows_its_own_form() -> None:
    told = shown(text.why(judged()))
    assert "{" not in told and '"' not in told
    assert "inputs.budget.alpha" in told and "0.05" in told
    assert "2 entries (--json shows them)" in told


@pytest.mark.parametrize(
    ("effect", "order"),
    [
        (Effect(0.1, 0.05, 0.15, 9, 3), "|─●"),
        (Effect(-0.1, -0.15, -0.05, 9, 3), "─●|"),
        (Effect(0.0, -0.1, 0.1, 9, 3), "─●"),
    ],
)
def test_a_bar_has_nothing_in_its_middle(effect: Effect, order: str) -> None:
    drawn = interval_bar(effect)
    inside = drawn[drawn.index("[") + 1 : drawn.index("]")]
    assert len(inside) == 41
    assert [c for c in dict.fromkeys(inside) if c != " "] and inside[20] in "|●"
    places = [inside.find(mark) for mark in order]
    assert -1 not in places


def test_leaves_are_plain() -> None:
    value: Any = {"a": [1, 2.5], "b": {"c": None, "d": True}, "e": []}
    assert list(plain_leaves("x", value)) == [("x.a", "1, 2.5"), ("x.b.d", "True"), ("x.e", "none")]


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
    drawn = shown(text.verified(told))
    assert ("computed again it is the same" in drawn) is ok
    assert "72 steps" in drawn and "{" not in drawn
    assert ok or "0.9 -> 0.4" in drawn
