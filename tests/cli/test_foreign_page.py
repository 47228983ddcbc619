"""`report --rollouts F --html OUT`, and rows of any form by `--map`."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from meta_agent.cli._output import Pulse
from meta_agent.readers.evidence import metric_of
from meta_agent.readers.evidence._metrics import ROWS as TABLE

HOSTILE = "<script>alert(1)</script>\x1b[2J\u202e<b>five</b>"
ROWS = [
    {"input": f"What is {n % 8} + 1? {HOSTILE}", "output": HOSTILE * 9, "score": float(n % 8 == 7)}
    for n in range(40)
]
MAP = "input=prompt,output=completion,score=reward"
ASKED = ("report", "--rollouts", "rows.jsonl", "--map", MAP, "--solved-at", "1")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Five attempts at each of eight tasks: one is always solved, the others never are."""
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def words_of(page: str) -> str:
    """What a reader sees."""
    body = re.sub(r"<style>.*?</style>", " ", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())


def test_a_page_explains_its_numbers_and_shows_the_attempts_behind_a_warning(
    rows: Path, meta_agent: Any
) -> None:
    done = meta_agent(*ASKED, "--html", "page.html", cwd=rows.parent)
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == ("", "wrote page.html\n")
    page = (rows.parent / "page.html").read_text()
    told, text = words_of(page), meta_agent(*ASKED, cwd=rows.parent).stdout
    assert page.startswith("<!doctype html>") and "40 rollouts of 8 tasks" in told
    assert "Content-Security-Policy" in page and 'class="bars"' in page
    assert "alert(1)" in page, "hostile text is shown, and inert"
    assert "<script" not in page and "<b>five" not in page
    assert "\x1b" not in page and "\u202e" not in page and "\x1b" not in text
    document = meta_agent(*ASKED, "--json", cwd=rows.parent).document
    layers = {**document["evidence"]["layers"], "shape": document["shape"]}
    shown = {"signal", "behaviour", "shape"}
    for name in (f"{at}.{name}" for at in shown for name in layers[at]):
        assert metric_of(name).says and metric_of(name).says in told, name
    assert layers["score"]["success"] == 0.125
    behind = document["behind"]["signal.dead_group_ratio"]
    assert [one["place"] for one in behind] == [f"rows.jsonl:{n}" for n in (1, 2, 3)]
    for one in behind:
        assert one["name"] in told and one["place"] in told
        assert one["name"] in text and "user: What is" in one["lines"][0]
    dead = metric_of("signal.dead_group_ratio")
    for screen in (told, " ".join(text.split())):
        assert dead.says in screen and dead.then in screen and dead.command in screen
    assert meta_agent(*ASKED, "--html", "nowhere/page.html", cwd=rows.parent).returncode == 2


RULES = ("rule.low_signal", "rule.edit_failure", "rule.leak")


@pytest.mark.parametrize(
    "pattern", [*RULES, *(name for name, row in TABLE.items() if "alert" in row)]
)
def test_what_can_warn_about_rollouts_has_a_meaning(pattern: str) -> None:
    assert metric_of(pattern.replace(r"\.", ".").replace(".*", ".x")).says


def test_commands_of_next_steps_are_commands(meta_agent: Any, tmp_path: Path) -> None:
    commands = {metric_of(name).command for name in TABLE} - {""}
    assert len(commands) > 3
    for command in commands:
        words = shlex.split(command.replace("{asked}", "--rollouts F"))
        name = words[1:3] if words[1] == "tasks" else words[1:2]
        done = meta_agent(*name, "--help", cwd=tmp_path)
        flags = [word for word in words if word.startswith("--")]
        assert done.returncode == 0 and all(flag in done.stdout for flag in flags), command


def test_progress_is_a_line_a_second_on_a_terminal_and_none_when_piped(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    times = iter(n / 4 for n in range(100))
    said = b""
    with os.fdopen(theirs, "w") as terminal:
        assert sum(Pulse("rows read", terminal, lambda: next(times)).over(range(12))) == 66
        terminal.write("END")
        terminal.flush()
        while not said.endswith(b"END"):  # a read may bring less than was written
            said += os.read(ours, 4096)
    os.close(ours)
    assert said.decode().removesuffix("END").splitlines() == [
        "4 rows read, 1 s",
        "8 rows read, 2 s",
        "12 rows read, 3 s",
    ]
    with (tmp_path / "piped").open("w") as piped:
        assert sum(Pulse("rows read", piped, lambda: next(times)).over(range(12))) == 66
    assert (tmp_path / "piped").read_text() == ""
