"""`tasks synth --author`: what a model writes is measured, and only what holds becomes a task."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tasks_purse import written

from meta_agent.composition.authoring import asked_folder, open_author
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import ROLES
from meta_agent.domains.tasks import Bench, Plan, synthesize
from meta_agent.domains.tasks._author import FunctionUnderTest, read_reply
from meta_agent.domains.tasks._issue import problem_of
from tests.loopback import Brain, Call, Say, openai_server

Benches = Callable[[Path], Bench]
PLACE = FunctionUnderTest("purse/coins.py", "largest", 13, 18)
OLD = "        if best is None or coin > best:\n            best = coin\n    return best\n"
NEW = "        if not best or coin > best:\n            best = coin\n    return best\n"
SCRIPT = "from purse.coins import largest\nprint(largest([-5], default=0))"
REPORT = f"""Largest ignores my debts

I keep what I owe as negative coins.

```python
{SCRIPT}
```

It prints

```
-5
```

but zero was to stay the least.
"""
SOURCE = """def largest(coins, default=None):
    best = default
    for coin in coins:
        if best is None or coin > best:
            best = coin
    return best


def total(coins):
    return sum(coins)
"""
TESTS = """from purse.coins import largest, total


def test_some():
    assert largest([1, 5, 2]) == 5


def test_nothing():
    assert largest([], default=7) == 7


def test_floor():
    assert largest([-3], default=0) == 0


def test_total():
    assert total([2, 3]) == 5
"""


def answer(old: str = OLD, new: str = NEW, report: str = REPORT) -> str:
    edit = f"<edit>\n<old>\n{old}</old>\n<new>\n{new}</new>\n</edit>"
    return f"I chose this.\n{edit}\n<report>\n{report}</report>"


def test_an_edit_of_a_source_with_carriage_returns_applies() -> None:
    source = SOURCE.replace("\n", "\r\n").encode()
    edit = read_reply(answer(), source, PLACE).edit
    assert edit is not None
    assert edit.applied(source) == SOURCE.replace(OLD, NEW).replace("\n", "\r\n").encode()


def test_an_edit_is_the_lines_that_differ_and_applies() -> None:
    found = read_reply(answer(), SOURCE.encode(), PLACE)
    assert found.edit is not None and found.problem == ""
    assert found.edit.applied(SOURCE.encode()).decode() == SOURCE.replace(OLD, NEW)
    assert found.edit.replacement == b"        if not best or coin > best:\n"
    assert found.report == REPORT


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no such thing", "the answer has no <edit>"),
        (answer(old="            worst = coin\n"), "stands 0 times"),
        (answer(old="coin"), "not once"),
        ("<decline>too short</decline>", "too short"),
    ],
)
def test_a_reply_without_an_edit_says_why(text: str, says: str) -> None:
    found = read_reply(text, SOURCE.encode(), PLACE)
    assert found.edit is None and says in found.problem


@pytest.fixture
def purse(tmp_path: Path) -> Path:
    files = {"purse/__init__.py": "", "purse/coins.py": SOURCE, "tests/test_coins.py": TESTS}
    return written(tmp_path / "purse", files)


@pytest.mark.parametrize(
    ("report", "says"),
    [
        (REPORT, ""),
        (REPORT.replace("```\n-5", "```\n-7"), "does not state the output word for word"),
        (REPORT.replace("```\n-5", "```\n-5\n-6"), "does not state the output word for word"),
        (REPORT.replace("```\n-5\n```", "-5"), "and 0 others, not one script and one block"),
        (REPORT.replace("[-5]", "[5]"), "gives the same with the bug and without it"),
        (REPORT.replace("import largest", "import total"), "lacks something of its own"),
        (REPORT.replace("I keep", "As test_floor says, I keep"), "names the test test_floor"),
        (REPORT.replace("I keep", "In purse/coins.py I keep"), "names the source"),
        (REPORT.replace("I keep", "if best is None or coin > best: I keep"), "a line of the fix"),
        (REPORT.replace("```python", "```text"), "has 0 ```python blocks and 2 others"),
        (REPORT.replace("print(", "largest._x = 1\nprint("), "a private name"),
    ],
)
def test_a_report_is_held_against_what_its_script_gives(
    purse: Path, bench: Benches, report: str, says: str
) -> None:
    tested = bench(purse)
    sound = tested.package.tree
    faulty = {**sound, "purse/coins.py": SOURCE.replace(OLD, NEW).encode()}
    problem = problem_of(
        tested,
        (sound, faulty),
        report,
        tests=["tests/test_coins.py::test_floor"],
        fixed=["        if best is None or coin > best:"],
        path="purse/coins.py",
    )
    assert (says in problem) if says else problem == ""


def made_by(brain: Brain, bench: Bench, out: Path, **settings: Any) -> Iterator[Any]:
    with openai_server(brain) as url:
        urls = dict.fromkeys(ROLES, str(url))
        config = RunConfig(meta_model="openai/m", base_urls=urls, **settings)
        with open_author(config, out, lambda _: None) as author:
            yield synthesize(bench, out, Plan(count=2), lambda _: None, author), url


@pytest.mark.slow
def test_a_refused_answer_goes_back_once_with_the_reason(
    purse: Path, tmp_path: Path, bench: Benches
) -> None:
    """`largest` is the only function that decides something."""
    out = tmp_path / "out" / "tasks.jsonl"

    def brain(call: Call) -> Say:
        asked = str(call.messages[-1]["content"])
        if call.number == 0:
            assert "test_floor" in asked and "assert largest" not in asked
            return Say(answer(report=REPORT.replace("```\n-5", "```\n-9")))
        assert "its report does not hold. the report does not state" in asked
        return Say(answer())

    ((made, url),) = made_by(brain, bench(purse), out)
    (row,) = [json.loads(line) for line in out.read_text().splitlines()]
    assert (made.tasks, made.tried, len(url.calls)) == (1, 1, 2)
    assert row["problem_statement"] == REPORT
    assert json.loads(row["FAIL_TO_PASS"]) == ["tests/test_coins.py::test_floor"]
    assert "+        if best is None or coin > best:" in row["patch"]
    assert row["origin"]["operator"] == "author"
    assert made.manifest["made"]["author"] == "openai/m"
    assert (asked_folder(out) / "ledger.sqlite").is_file()
    again = list(made_by(lambda _: pytest.fail("asked again"), bench(purse), out))
    assert again[0][0].manifest == made.manifest


@pytest.mark.slow
def test_what_does_not_hold_is_dropped_and_counted(
    purse: Path, tmp_path: Path, bench: Benches
) -> None:
    broken = answer(new=OLD.replace("if best", "if (best"))
    tested, out = bench(purse), tmp_path / "tasks.jsonl"
    with pytest.raises(ConfigError, match=r"all 1 candidates .*does not parse"):
        list(made_by(lambda _: Say(broken), tested, out))
    # The journal holds what the tests of the sound source say, so the rest of this costs little.
    declined = tmp_path / "tasks.asked"
    declined.rename(tmp_path / "first.asked")
    with pytest.raises(ConfigError, match="the author declined"):
        list(made_by(lambda _: Say("<decline>nothing fits</decline>"), tested, out))
    declined.rename(tmp_path / "second.asked")
    with pytest.raises(ConfigError, match="the cap on what is spent was met"):
        list(made_by(lambda _: Say("x"), tested, out, max_tokens=10))


@pytest.mark.parametrize("model", ["rules", "replay:r"])
def test_an_author_is_a_model_that_is_asked(model: str, tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match="--author"),
        open_author(RunConfig(meta_model=model), tmp_path / "t.jsonl", lambda _: None),
    ):
        pass
