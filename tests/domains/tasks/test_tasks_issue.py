"""Issue texts and the surgery on test files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tasks_purse import SOURCE, bench_of

from meta_agent.domains.tasks import read_package
from meta_agent.domains.tasks._bench import Failure, Said
from meta_agent.domains.tasks._issue import (
    Material,
    Shown,
    _written,
    gives_away,
    issue_text,
    scrubbed,
)
from meta_agent.domains.tasks._script import Script, scripts, uses
from meta_agent.domains.tasks._suite_source import UnreachableError, without_tests

SUITE = b'''import pytest


@pytest.mark.slow
def test_one():
    """Speaks."""
    # of nothing
    cart = Cart()
    assert cart.empty()
    cart.add(3)
    assert cart.total() == 3


class TestMore:
    def test_two(self):
        with pytest.raises(ValueError):
            check(1)


def test_three():
    helper()
'''


def test_a_hidden_test_leaves_no_trace_and_a_file_that_parses() -> None:
    hidden = without_tests({"t.py": SUITE}, ["t.py::test_one[a-b]", "t.py::TestMore::test_two"])
    assert hidden == {
        "t.py": b"import pytest\n\n\n\n\nclass TestMore:\n    pass\n"
        b"\n\ndef test_three():\n    helper()\n"
    }


def test_an_inherited_test_is_hidden_where_it_is_defined() -> None:
    suite = b"class Base:\n    def test_a(self):\n        f()\n\n\nclass TestB(Base):\n    x = 1\n"
    hidden = without_tests({"t.py": suite}, ["t.py::TestB::test_a", "t.py::Base::test_a"])
    assert hidden["t.py"] == b"class Base:\n    pass\n\n\nclass TestB(Base):\n    x = 1\n"


@pytest.mark.parametrize("test", ["t.py::test_generated", "t.py::TestNone::test_two"])
def test_a_test_without_a_definition_cannot_be_hidden(test: str) -> None:
    with pytest.raises(UnreachableError):
        without_tests({"t.py": SUITE}, [test])


SHOP = b'''from decimal import Decimal

import pytest

from shop import Cart, check as checked
from . import data

PRICE = Decimal("3")


def full(n):
    return Cart([PRICE] * n)


def test_total(n, wanted):
    """Speaks."""
    # of nothing
    other = full(2)
    cart = full(n)
    assert cart.total() == 0
    cart.add(3)
    assert cart.total() == wanted


def test_refused():
    with pytest.raises(ValueError):
        checked(data.BAD)


def test_text():
    text = """
# no comment
  [a]
"""
    # a comment
    assert "[a]" in checked(text)


def test_fixture(tmp_path):
    assert checked(tmp_path)


class TestUnit:
    def test_a(self):
        self.assertEqual(3, full(1).total())

    def test_b(self):
        self.helper()
'''


def shown(test: str, line: int, **given: str) -> list[Script]:
    path = "shop/tests/test_shop.py"
    return scripts(SHOP, path, test, lines=[line], parameters=given, root=".")


def test_a_script_defines_its_names_and_leaves_out_what_it_does_not_need() -> None:
    first = shown("test_total", 22, n="1", wanted="9")[0]
    assert first.code == (
        "from decimal import Decimal\nfrom shop import Cart\n\n"
        'PRICE = Decimal("3")\ndef full(n):\n    return Cart([PRICE] * n)\n\n'
        "n = 1\ncart = full(n)\ncart.add(3)\nprint(cart.total())"
    )


def test_parameters_that_are_said_once_stand_in_their_places() -> None:
    suite = b"""from shop import add


def test_add(values, wanted):
    assert add(*values) == wanted
"""
    given = {"values": "[1, 'a']", "wanted": "3"}
    (first, *_) = scripts(suite, "t.py", "test_add", lines=[5], parameters=given, root=".")
    assert first.code == "from shop import add\n\nprint(add(1, 'a'))"


def test_a_text_that_a_test_makes_is_written_out() -> None:
    suite = b"from shop import ask\n\n\ndef test_ask(word):\n    assert ask(word.upper()) == 3\n"
    given = {"word": "'fish'"}
    (first, *_) = scripts(suite, "t.py", "test_ask", lines=[5], parameters=given, root=".")
    assert first.code.endswith("print(ask('FISH'))") and first.expression == "ask('FISH')"


@pytest.mark.parametrize("line", ["from shop import _hidden as f", "from shop._parts import f"])
def test_what_no_user_imports_makes_no_report(line: str) -> None:
    suite = f"{line}\n\n\ndef test_f():\n    assert f(1) == 2\n".encode()
    assert scripts(suite, "t.py", "test_f", lines=[5], parameters={}, root=".") == []


@pytest.mark.parametrize(
    "body",
    ["assert f([n for n in g]) == 2", "for n in g:\n        assert f(n)", "assert f('a' * 99)"],
)
def test_what_is_made_in_bulk_looks_odd(body: str) -> None:
    suite = f"from shop import f, g\n\n\ndef test_f():\n    {body}\n".encode()
    found = scripts(suite, "t.py", "test_f", lines=[5], parameters={}, root=".")
    assert found and all(one.odd for one in found)


def test_a_like_use_is_one_expression() -> None:
    suite = b"""from shop import add


def test_add(values):
    first = add(1)
    assert first == 1
    assert add(*values) == 3
    assert add(2) == 2
"""
    found = uses(suite, "t.py", "test_add", {"values": "[1, 2]"}, ".")
    assert [one.expression for one in found] == ["add(1, 2)", "add(2)"]


def test_what_waits_runs_in_a_loop_of_its_own() -> None:
    suite = b"""from shop import ask


async def test_ask():
    assert await ask() == 3
"""
    first = scripts(suite, "t.py", "test_ask", lines=[5], parameters={}, root=".")[0]
    assert first.code == (
        "import asyncio\nfrom shop import ask\n\n"
        "async def main():\n    print(await ask())\n\nasyncio.run(main())"
    )


def test_the_side_of_a_check_that_says_nothing_is_tried_last() -> None:
    suite = b"""from shop import ask


def test_ask(wanted):
    found = ask()
    assert wanted == ask(found)
"""
    given = {"wanted": "3"}
    found = scripts(suite, "t.py", "test_ask", lines=[6], parameters=given, root=".")
    endings = [one.code.splitlines()[-1] for one in found]
    assert endings[:2] == ["print(ask(found))", "print(repr(ask(found)))"]
    assert endings.index("print(3)") < endings.index("assert 3 == ask(found)")


def test_an_error_that_is_wanted_is_provoked_in_the_open() -> None:
    first = shown("test_refused", 27)[0]
    assert first.refuses and first.code == (
        "from shop import check as checked\nfrom shop.tests import data\n\nprint(checked(data.BAD))"
    )


def test_text_inside_a_string_is_kept_as_it_is() -> None:
    first = shown("test_text", 36)[0]
    assert 'text = """\n# no comment\n  [a]\n"""\nprint(checked(text))' in first.code
    assert "# a comment" not in first.code


def test_a_check_of_unittest_is_a_question_too() -> None:
    assert shown("TestUnit::test_a", 45)[0].code.endswith("print(full(1).total())")


@pytest.mark.parametrize(("test", "line"), [("test_fixture", 40), ("TestUnit::test_b", 48)])
def test_what_rests_on_the_frame_of_a_test_has_no_script(test: str, line: int) -> None:
    assert shown(test, line) == []


def test_a_failure_elsewhere_has_no_script() -> None:
    with pytest.raises(UnreachableError):
        shown("test_refused", 2)


def test_a_text_holds_a_script_that_ran_on_both_sources(purse: Path, factory: Any) -> None:
    bench = bench_of(read_package(purse), factory)
    sound = bench.package.tree
    faulty = {**sound, "purse/coins.py": SOURCE.replace("start = start + coin", "pass").encode()}
    failure = Failure("AssertionError", "assert 0 == 8", (8,), {})
    failures = {"tests/test_coins.py::test_total": failure}
    near = {"tests/test_coins.py::test_total_of_nothing": {}}
    told = issue_text(bench, Material(frozenset({"total"}), sound, faulty, failures, near))
    text = told.text
    assert text.startswith("`total` gives 0 instead of 8\n")
    assert "`total([])`" in text and "`0`" in text and "purse 1.2" in text and told.plain
    code = text.split("```python\n")[1].split("```")[0]
    for tree, out in ((sound, "8\n"), (faulty, "0\n")):
        assert bench.said(tree, [code]) == [(out, "", "")]
    assert bench.said(sound, ["total([])", "raise SystemExit", "while True: pass"]) == [
        ("", "NameError", "NameError: name 'total' is not defined\n"),
        ("", "SystemExit", "SystemExit\n"),
        ("", "timeout", ""),
    ]


@pytest.mark.parametrize(
    ("sound", "faulty", "title"),
    [
        (Said("8", "", ""), Said("", "KeyError", "KeyError: 1"), "`f` fails with KeyError: 1"),
        (Said("", "ValueError", "ValueError: no"), Said("3", "", ""), "does not raise ValueError"),
        (Said("", "A", "A: x"), Said("", "B", "B: y"), "`f` raises B instead of A"),
        (Said("a\nb", "", ""), Said("a", "", ""), "Wrong output from `f`"),
    ],
)
def test_the_title_says_how_it_fails(sound: Said, faulty: Said, title: str) -> None:
    texts = {
        _written(
            "shop", frozenset({"f"}), Shown(Script(f"f({n})", f"f({n})", False), sound, faulty)
        )
        for n in range(12)
    }
    layouts = {text.split("\n\n")[1] for text in texts}
    assert all(title in text.splitlines()[0] for text in texts) and len(layouts) == 3


def test_what_differs_from_run_to_run_is_taken_out() -> None:
    assert scrubbed("<f at 0x7f00aa11> in /tmp/x-1/repo/a.py") == "<f at 0x...> in .../a.py"
    assert scrubbed("to 127.0.0.1:40123, (host='localhost', port=40123), v1:40123") == (
        "to 127.0.0.1:PORT, (host='localhost', port=PORT), v1:40123"
    )


def test_a_text_with_a_telling_line_of_the_fix_is_seen() -> None:
    assert gives_away("    assert total( x ) == 3 or so", ["total( x ) ==   3"])
    assert not gives_away("return x", ["return x"])
