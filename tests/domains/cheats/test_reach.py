"""Code under test reaches none of the runner's own objects, wherever it goes by attributes.

Whoever has one edits what a test came to. The walk starts at every module that is loaded, the
runner's too, and does not use what `_words` names: frames, globals of functions, the collector.
"""

from __future__ import annotations

# ruff: noqa: E501 - a program as it is handed in
import ast
import re
from contextlib import closing

import pytest
from _cheat_graders import FIXED, task_files

from meta_agent.core.protocols import ExecResult
from meta_agent.domains.swe._patch import overlay
from meta_agent.domains.swe.grading import _runs
from meta_agent.domains.swe.grading._command import Report
from meta_agent.sandboxes import open_sandbox

pytestmark = pytest.mark.slow

WALK = """

def walk():
    import asyncio, atexit, collections, functools, logging, pdb, pkgutil, signal, sys, threading
    import types, warnings
    def parts(one):
        if isinstance(one, functools.partial):
            yield from ((one.func, "func"), (one.args, "args"), (one.keywords, "keywords"))
        if isinstance(one, dict):
            yield from ((part, str(key)[:20]) for pair in list(one.items()) for part, key in (pair, pair[::-1]))
        elif isinstance(one, (list, tuple, set, frozenset, collections.deque)):
            yield from ((part, "[]") for part in list(one))
        for name in ("__self__", "__func__", "__wrapped__", "__defaults__", "__kwdefaults__", "__dict__"):
            try: yield object.__getattribute__(one, name), name
            except Exception: pass
        for kind in type(one).__mro__:
            for name in vars(kind).get("__slots__", ()) if not isinstance(one, type) else ():
                try: yield getattr(one, name), name
                except Exception: pass
    starts = [(list(pkgutil.iter_importers()), "importers")]
    starts += [(one, name) for name, one in sorted(sys.modules.items()) if name != "__main__"]
    queue, seen, found = collections.deque(starts), {}, set()
    while queue:
        one, path = queue.popleft()
        if id(one) in seen or isinstance(one, (str, bytes, int, float, types.CodeType)): continue
        seen[id(one)] = one
        if type(one).__name__ in ("Config", "Session", "PytestPluginManager", "Recorder", "Plugins"):
            found.add(path + ": " + type(one).__name__)
        elif path.count(" ") < 14:
            queue.extend((part, path + " " + name) for part, name in parts(one))
    return len(seen), sorted(found)
"""
AT_CALL = FIXED + WALK + "def total(prices):\n    raise ValueError('reached %r' % (walk(),))\n"
AT_IMPORT = (
    FIXED
    + WALK
    + "REACHED = walk()\ndef total(prices): raise ValueError('reached %r' % (REACHED,))\n"
)
OPEN = {"_hide(config, self._set_trace)": "pass", '"--assert=plain",': ""}


def reached(source: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[str]]:
    """How many objects the walk saw in a run of the tests, and what of the runner among them."""
    said: list[str] = []
    believed = _runs._believed

    def listening(result: ExecResult, nonce: str) -> Report:
        said.append(result.stderr.decode())
        return believed(result, nonce)

    monkeypatch.setattr(_runs, "_believed", listening)
    files = task_files("swe")
    tree = overlay(files.graded, {"shelf/core.py": source.encode()})
    factory = lambda _: open_sandbox("process", run="reach")  # noqa: E731
    with closing(_runs.Bench(files.row, factory, ())) as bench:
        bench.run(tree, _runs.LOOSE)
    count, found = ast.literal_eval(re.findall(r"reached (\(.*?\]\))", said[0])[0])
    return count, found


@pytest.mark.parametrize("source", [AT_CALL, AT_IMPORT], ids=["when called", "when imported"])
def test_nothing_of_the_runner_is_reached(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    count, found = reached(source, monkeypatch)
    assert (count > 10_000, found) == (True, [])


def test_it_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The positive control: the runner as it would be without hiding."""
    text = _runs.guest_source()
    for one, other in OPEN.items():
        assert text.count(one) == 1
        text = text.replace(one, other)
    monkeypatch.setattr(_runs, "guest_source", lambda: text)
    found = " ".join(reached(AT_CALL, monkeypatch)[1])
    assert all(name in found for name in ("importers", "Config", "Session")), found
