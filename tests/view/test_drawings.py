"""Screens and pages: everything shown, nothing hostile let through."""

import io
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from meta_agent.core.display import DecisionView
from meta_agent.core.errors import ConfigError
from meta_agent.core.ledger import Ledger, Spend
from meta_agent.core.protocols import Candidate, Effect, Hypothesis, Verdict, VerdictKind
from meta_agent.reports import (
    MetricPoint,
    RunState,
    open_display,
    recorded,
    reduce,
    run_sections,
    verdict_note,
    visible,
)
from meta_agent.reports._format import effect_text
from meta_agent.reports._money import rows as spend_rows
from meta_agent.reports._parts import EvidenceView, SkillView
from meta_agent.reports.evidence_sections import compared
from meta_agent.reports.pages.html import render_html, write_page
from meta_agent.reports.terminal.paint import lines, painted, painted_page, patch_text
from meta_agent.reports.terminal.text import facts, verified

from ._sample import HOSTILE, PATCH
from ._screen import missing, printed, state_of

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b-\u200f]")


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> RunState:
    return state_of(tmp_path_factory.mktemp("drawings") / "ledger.sqlite")


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines\tand tab", "two\nlines\tand tab"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("over\rwritten", "over\\x0dwritten"),
        ("\u202edne eht", "\\u202edne eht"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("\x9b2J", "\\x9b2J"),
        ("\ud800", "\\ud800"),
        ("naïve — ünïcode ✓", "naïve — ünïcode ✓"),
    ],
)
def test_characters_that_act_on_a_terminal_are_spelled_out(raw: str, shown: str) -> None:
    assert visible(raw) == shown


def test_every_screen_escapes_what_others_wrote(state: RunState) -> None:
    for drawing in (
        painted(run_sections.summary(state)),
        painted_page(run_sections.page(state)),
        painted(run_sections.status(state)),
        painted(run_sections.why(state.candidate("g1/c1"))),
        painted(run_sections.questions(state)),
        patch_text(HOSTILE),
        lines([HOSTILE]),
        facts({"name": HOSTILE}),
    ):
        shown = printed(drawing)
        assert shown.strip()
        assert not CONTROL.search(shown)


def test_screens_hold_the_numbers_and_names_that_decided(state: RunState) -> None:
    summary = printed(painted(run_sections.summary(state)))
    numbers = ("47.6 % [43.3, 51.9]", "61.3 % [57.1, 65.5]", "512 vault", "answer leakage")
    names = ("PROMOTE", "INVALID", "REJECT", "revive-dead-groups", "path_outside_allowlist")
    assert missing(summary, *numbers, *names, "g0/c0 a person: APPROVE", "the filter drops") == []
    why = printed(painted(run_sections.why(state.candidate("g0/c0"))))
    assert missing(why, "+10.3", "[+4.1, +16.5]", "512 pairs", "4 training seeds", "0.1") == []
    assert "{" not in why and '"' not in why, "no record shows its own form"
    narrow = printed(painted(run_sections.summary(state)), width=80).splitlines()
    assert max(len(line.rstrip()) for line in narrow) <= 80


def test_spend_by_role_is_in_every_summary_and_an_unknown_price_is_no_zero(state: RunState) -> None:
    analyst = "analyst 2 84,440 $0.0512 3,000 tokens, $0.0200"
    every = "all 3 88,540 $0.2387 3,000 tokens, $0.0200"
    for sections in (run_sections.summary(state), run_sections.status(state)):
        assert missing(printed(painted(sections)), analyst, every, "proposer 1 4,100 $0.1875") == []
    spend = {"analyst": Spend(0.5, 10, 0.0, 0, 2, 1), "judge": Spend(0.0, 5, 0.0, 0, 1, 1)}
    known = [[word for word in ("$0.5000", "unknown", "1 call", "2 calls") if word in row[3]]
             for row in spend_rows(spend)]  # fmt: skip
    assert known == [
        ["$0.5000", "unknown", "1 call"],
        ["unknown"],
        ["$0.5000", "unknown", "2 calls"],
    ]


def test_a_replay_names_its_recording_and_counts_what_differs() -> None:
    labels = {"model": "a capable model", "cost": HOSTILE}
    state = RunState("r", replay={"recording": "swe-1", "labels": labels, "drift": 3})
    for shown in (printed(painted(run_sections.summary(state))), render_html(state)):
        assert missing(shown, "swe-1", "a capable model", "3 requests") == []
        assert not CONTROL.search(shown)


def test_alerts_bring_their_metric_into_the_short_report() -> None:
    layers = {"score": {"n": 8}, "signal": {"odd": 0.5, "dull": 0.1}}
    alerts = ({"metric": "signal.odd", "message": "odd: 0.5 is above 0.3"},)
    shown = printed(painted(compared([EvidenceView(0, "v0", layers, alerts, ())])))
    assert missing(shown, "score.n 8", "signal.odd 0.5", "odd: 0.5 is above 0.3", "--all") == []
    assert "signal.dull" not in shown


def test_questions_show_the_idea_the_change_the_numbers_and_the_next_command(
    tmp_path: Path, state: RunState
) -> None:
    waiting = state_of(tmp_path / "waits.sqlite", waits_for="g1/c2")
    shown = printed(painted(run_sections.questions(waiting)))
    parts = ("if the recipe counts tests", "signal.dead_group_ratio", "swe/recipe.py", "$0.2387")
    assert missing(shown, *parts, "meta-agent approve g1/c2") == []
    verdict = {
        "kind": "PROMOTE",
        "reasons": ["better", HOSTILE],
        "effect": {"delta": 0.1, "ci_low": 0.04, "ci_high": 0.16, "pairs": 512},
        "evidence": {"findings": [{"code": "infra.lost", "severity": "note", "message": "two"}]},
    }
    decision = DecisionView("k", "merge", "g0/c0", "r1/g0/c0", None, verdict=verdict)
    shown = printed(painted(run_sections.questions(replace(state, decisions=[decision]))))
    assert missing(shown, "PROMOTE", "[+4.0, +16.0]", "512 pairs", "infra.lost", "two") == []
    assert not CONTROL.search(shown)


@pytest.mark.parametrize("ok", [True, False])
def test_a_verification_shows_its_differences(ok: bool) -> None:
    found = [{"what": "vault/final.clean_success", "recorded": 0.9, "recomputed": 0.4}]
    told = {
        **{"commit": "a" * 40, "recorded": "PROMOTE", "ok": ok, "differences": found[ok:]},
        **{"taken_as_recorded": ["clock"], "steps": 72, "rows": 576, "regraded": 9},
        **{"journal": "f" * 64, "decided": []},
    }
    drawn = printed(verified(told))
    assert "72 steps" in drawn and ("0.9 -> 0.4" in drawn) is not ok


def test_the_page_says_what_trials_found_after_the_run(tmp_path: Path) -> None:
    worth = "+10.0 points [+4.0, +16.0] over 5 pairs of 6000 attempts on swe"
    recorded_of = {"name": "tried", "path": str(tmp_path), "status": "domain", "worth": worth}
    state = RunState("r", skills=[SkillView.parse(recorded_of)])
    assert missing(render_html(state), "<td>domain</td>", worth) == []
    assert state.to_json()["skills"][0]["worth"] == worth
    later = "metadata:\n  meta-agent.status: quarantine\n  meta-agent.worth: did harm\n"
    text = f"---\nname: tried\ndescription: a demo\n{later}---\nwords\n"
    (tmp_path / "SKILL.md").write_text(text)
    assert missing(render_html(state), "<td>quarantine</td>", "<td>did harm</td>") == []


class Page(HTMLParser):
    """Notes the elements and checks that each is closed in order."""

    VOID = frozenset({"meta", "br", "hr", "img"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_page_is_whole_self_contained_and_escaped(state: RunState) -> None:
    page = render_html(state)
    parser = Page()
    parser.feed(page)
    assert parser.open == []
    assert "script" not in parser.seen
    assert not [name for name, _ in parser.attributes if name.startswith("on")]
    links = [value for name, value in parser.attributes if name in ("src", "href")]
    assert links and all(str(link).startswith("#") for link in links)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "{{ 7*7 }}" in page, "recorded text is data, never a template"
    assert not CONTROL.search(page)


def test_charts_are_well_formed_svg(state: RunState) -> None:
    charts = re.findall(r"<svg .*?</svg>", render_html(state), re.DOTALL)
    assert len(charts) >= 3
    for chart in charts:
        ElementTree.fromstring(chart)


def test_page_of_an_unfinished_run_renders(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "l.sqlite") as ledger:
        ledger.start_run("r", {}, config_hash="h")
        state = reduce(ledger)
    assert "running" in render_html(state)
    assert 'http-equiv="refresh"' in render_html(state, follow=True)
    assert 'http-equiv="refresh"' not in render_html(state)


def test_a_recorded_word_never_becomes_a_class_name(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "l.sqlite") as ledger:
        ledger.start_run("r", {}, config_hash="h")
        ledger.once("r/c", "candidate", {}, lambda: {"id": "r/g0/c0"})
        verdict = {"candidate": "r/g0/c0", "kind": 'x" onload="alert(1)', "reasons": []}
        ledger.once("r/v", "verdict", {}, lambda: verdict)
        page = render_html(reduce(ledger))
    parser = Page()
    parser.feed(page)
    assert "onload" not in [name for name, _ in parser.attributes]


def test_writing_to_an_impossible_path_is_a_clear_error(state: RunState, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        write_page(render_html(state), tmp_path / "missing" / "report.html")


def test_lines_are_stamped_and_flat(state: RunState) -> None:
    stream = io.StringIO()
    display = open_display(stream)
    display.begin(["evolving swe", HOSTILE])
    display.phase("train", "g0/c0", done=3, total=30)
    for step in range(5):
        display.metric("g0/c0/s0", step, {"reward": 0.51234, "loss": 0.1})
    display.verdict("g0/c0", "reward", Verdict(VerdictKind.REJECT, ("too small",)), "if x then y")
    display.note("two\nlines")
    display.close()
    written = stream.getvalue().splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\d \S", line) for line in written)
    assert not CONTROL.search(stream.getvalue())
    assert sum(": step " in line for line in written) == 1, "a log needs a sign of life, no curve"
    assert any("REJECT: too small" in line for line in written)
    assert any("train     g0/c0 3/30" in line for line in written)


def test_recorded_display_journals_what_people_saw(tmp_path: Path) -> None:
    stream = io.StringIO()
    with Ledger.open(tmp_path / "l.sqlite") as ledger:
        ledger.start_run("r", {}, config_hash="h")
        ledger.event("plan", {"attempts": 10})
        display = recorded(open_display(stream), ledger, "r")
        display.phase("train", "g0/c0", done=0, total=2)
        display.phase("train", "g0/c0", done=1, total=2)
        display.metric("g0/c0/s0", 1, {"reward": 0.5})
        display.note("r/g0/c0: an idea")
        state = reduce(ledger)
        events = list(ledger.events())[1:]
    assert [event.kind for event in events] == ["phase", "metrics", "note"]
    assert events[2].fields["text"] == "r/g0/c0: an idea"
    assert state.phase == "train"
    assert state.metrics["g0/c0/s0"][0].values == {"reward": 0.5}
    assert missing(stream.getvalue(), "of 10 attempts", " g0/c0: an idea") == []


def test_note_tells_verdict_prediction_and_measurement() -> None:
    told = Hypothesis("reward", "if a then b", "clean_success", "up", 0.05)
    candidate = Candidate(
        "r/g0/c0", "r", 0, 0, "refs/x", "b" * 40, "c" * 40, "t" * 40, "reward", told, ("a",)
    )
    effect = Effect(0.1, 0.04, 0.16, pairs=512, training_seeds=4)
    note = verdict_note(candidate, Verdict(VerdictKind.PROMOTE, ("clear gain",), effect))
    assert missing(note, "PROMOTE", "clear gain", "0.05", "[+4.0, +16.0]") == []
    assert f"meta-agent verify {'c' * 12}" in note
    assert "selected" not in note
    told_of = replace(effect, shrunk=0.07)
    note = verdict_note(candidate, Verdict(VerdictKind.PROMOTE, ("clear gain",), told_of))
    assert "+7.0" in note and "selected" in note
    assert "-100" not in effect_text(Effect(0.043, -1.0, 1.0, pairs=1024, training_seeds=2))


def test_an_alert_on_the_conversation_names_attempts_that_show_it() -> None:
    outcome = {
        "version": "v0",
        "layers": {"conversation": {"forgotten": 0.5}},
        "alerts": [{"metric": "conversation.forgotten", "message": "not shown", "value": 0.5}],
        "quoted": {"forgotten": ["search/t1#0 turn 2: gone"], "reply_changed": ["search/t2#0"]},
    }
    shown = printed(painted(compared([EvidenceView.parse(outcome)])))
    assert "search/t1#0 turn 2: gone" in shown
    assert "search/t2#0" not in shown


def test_diff_keeps_every_line() -> None:
    assert printed(patch_text(PATCH)).split() == PATCH.split()


def test_a_version_is_one_curve_with_a_band_over_its_seeds() -> None:
    points = {f"g0/c1/s{seed}": [MetricPoint("", 1, {"reward": seed / 10})] for seed in (1, 3)}
    points |= {"alone/s0": [MetricPoint("", step, {"reward": 0.2}) for step in (1, 2)]}
    page = render_html(RunState("r", metrics=points))
    assert page.count('class="band ') == 1 and page.count("<title>alone</title>") == 1
    (dot,) = re.findall(r'<circle class="dot c0"[^>]* cy="([\d.]+)"', page)
    ends = re.findall(r'class="band c0" points="[\d.]+,([\d.]+) [\d.]+,([\d.]+)"', page)[0]
    high, low = map(float, ends)
    assert high < float(dot) < low and abs((high + low) / 2 - float(dot)) < 0.2
