"""Watches what the code under test does while pytest runs (in the sandbox, before `pytest_guest`).

Says which files of the tests a changed file opened, which changed files a test opened, and by which
ways a changed file asked for frames. Stdlib only; it takes what it needs from the interpreter
before the code under test is imported.
"""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from _thread import get_ident
from types import CodeType
from typing import Any

_FRAME, REALPATH = sys._getframe, os.path.realpath
_LOOKED_BACK = 500  # frames
_MAIN_THREAD = get_ident()
_TRACEBACKS = traceback.__file__
_FRAME_EVENTS = frozenset(
    {"sys._getframe", "sys._current_frames", "sys.settrace", "sys.setprofile", "code.__new__"}
    | {"gc.get_objects", "gc.get_referrers", "gc.get_referents"}
)
_HAND_OUT = frozenset({inspect.__file__, traceback.__file__})
COMPARING = (
    *("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__", "__class__"),
    *("__getattribute__", "__instancecheck__", "__subclasscheck__", "__subclasshook__"),
)


def watch(
    tests: frozenset[str], sources: frozenset[str], test_sources: frozenset[str]
) -> tuple[set[str], set[str], set[str]]:
    """Installs an audit hook, if there are `sources`, and returns three sets that it fills.

    `sources` are the files that a patch changed. The first set holds files of `tests` that a
    changed file opened, moved or linked. The second holds changed files that a test opened. The
    third holds the events by which a changed file asked for frames or for all objects in memory.
    """
    read_paths: set[str] = set()
    expectations: set[str] = set()
    peeks: set[str] = set()
    root = REALPATH(".") + "/"
    asking: set[int] = set()
    names = frozenset(path.rpartition("/")[2] for path in tests) - {"__init__.py"}
    events = {"open", "os.rename", "os.link", "os.symlink"}

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in _FRAME_EVENTS:
            if get_ident() not in asking and _hands_out_frame(sources, asking):
                peeks.add(event)
        elif event in events and args and isinstance(args[0], (str, bytes)):
            name = _path(args[0])
            path = REALPATH(name)
            asking.add(get_ident())
            if (name.rpartition("/")[2] in names or path in tests) and _called_from(sources):
                read_paths.add(name)
            if path in sources and _is_asked_by_test(test_sources, root):
                expectations.add(path)
            asking.discard(get_ident())

    if sources:
        sys.addaudithook(hook)
    return read_paths, expectations, peeks


def _path(value: Any) -> str:
    """Returns a path as a plain str: a subclass of str may give another text for itself."""
    if isinstance(value, bytes):
        return bytes.decode(value, "utf-8", "replace")
    return "".join(str.__iter__(value))


def _hands_out_frame(sources: frozenset[str], asking: set[int]) -> bool:
    """Returns whether a changed file asked, by itself or by a module that hands out frames.

    Looking at frames is such an event too: `asking` holds the threads in which we look.
    """
    asking.add(get_ident())
    frame: Any = _FRAME(2)
    asking.discard(get_ident())
    while frame is not None and frame.f_code.co_filename in _HAND_OUT:
        frame = frame.f_back
    return frame is not None and REALPATH(frame.f_code.co_filename) in sources


def _is_asked_by_test(test_sources: frozenset[str], root: str) -> bool:
    """Returns whether the nearest frame of the task's own code is in a test file."""
    frame: Any = _FRAME(2)
    for _ in range(_LOOKED_BACK):
        if frame is None or _imports(frame.f_code) or _prints_exception(frame.f_code):
            return False
        path = REALPATH(frame.f_code.co_filename)
        if path.startswith(root):
            return path in test_sources
        frame = frame.f_back
    return False


def code_of(method: Any) -> Any:
    """Returns the code object of a function, a property or a method, or None for other values."""
    method = getattr(method, "fget", None) or getattr(method, "__func__", method)
    code = getattr(method, "__code__", None)
    return code if type(code) is CodeType else None


def _called_from(sources: frozenset[str]) -> bool:
    """Returns whether code of a changed file caused this event.

    A thread without visible callers counts as such code. An import by a test does not count, and
    neither does printing an exception that passed through a changed file.
    """
    frame: Any = _FRAME(2)
    for _ in range(_LOOKED_BACK):
        if frame is None:
            return get_ident() != _MAIN_THREAD
        if _imports(frame.f_code) or _prints_exception(frame.f_code):
            return False
        if REALPATH(frame.f_code.co_filename) in sources:
            return True
        frame = frame.f_back
    return False


def _imports(code: Any) -> bool:
    """Returns whether this is the code of an import statement. A loader that reads text is not."""
    frozen = code.co_filename.startswith("<frozen importlib")
    return bool(frozen) and code.co_name.startswith("_find_and_load")


def _prints_exception(code: Any) -> bool:
    """Returns whether this is `TracebackException.__init__`, which reads the source lines."""
    return bool(code.co_filename == _TRACEBACKS) and code.co_name == "__init__"
