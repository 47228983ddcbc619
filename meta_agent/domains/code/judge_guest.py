"""Runs a data set's own test code, in a sandbox where no candidate ever runs.

The names that the tests call are stand-ins: each call goes to the host, which passes it to the
candidate's sandbox and brings back plain data. So the tests' assertions decide on values of this
process, and a candidate can neither see the tests nor override how its answers are compared.

The test code comes with the data set and is not trusted either, so it runs in a sandbox as well.
"""

from __future__ import annotations

import builtins
import contextlib
from typing import Any

from values_guest import Codec, NotDataError  # type: ignore[import-not-found]  # installed beside

_SILENT = (AssertionError, StopIteration, StopAsyncIteration)


class AttemptOverError(BaseException):
    """Raised if the candidate cannot be asked again. Tests that catch `Exception` let it pass."""


def judge(args: dict[str, Any], channel: Any) -> dict[str, Any]:
    """Runs the test program and returns how that ended, such as `passed` or `never_called`."""
    bridge = Bridge(channel)
    namespace: dict[str, Any] = {"__name__": "tests"}
    try:
        exec(compile(args["prelude"], "prelude.py", "exec", dont_inherit=True), namespace)  # noqa: S102
        namespace.update({name: bridge.stand_in(name) for name in args["names"]})
        exec(compile(args["program"], "tests.py", "exec", dont_inherit=True), namespace)  # noqa: S102
    except AttemptOverError as over:
        return {"end": str(over), "calls": bridge.calls}
    except AssertionError as error:
        return {"end": "failed", "calls": bridge.calls, "detail": text_of(error)}
    except BaseException as error:
        detail = f"{type(error).__name__}: {text_of(error)}"[:300]
        return {"end": "raised", "calls": bridge.calls, "detail": detail}
    return {"end": "passed" if bridge.calls else "never_called", "calls": bridge.calls}


class Bridge:
    """Sends the tests' calls of the candidate to the host, and returns the candidate's results."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self._codec = Codec()
        self.calls = 0

    def stand_in(self, name: str) -> Any:
        """Returns a function that passes its calls to the candidate, in another sandbox."""

        def candidate(*arguments: Any) -> Any:
            return self.call(name, arguments)

        candidate.__name__ = candidate.__qualname__ = name
        return candidate

    def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        self.calls += 1
        try:
            encoded = self._codec.encode(list(arguments))
        except NotDataError:
            if self.calls == 1:  # nothing of the candidate's is in it: the tests ask too much of us
                raise AttemptOverError("ungradable") from None
            raise
        self._channel.calls([{"kind": "call", "name": name, "given": encoded}])
        (answer,) = self._channel.wait()
        reply = answer.get("ok")
        if not isinstance(reply, dict):
            raise AttemptOverError("died")
        if reply.get("end") == "raised":
            raise exception_named(str(reply.get("kind")), str(reply.get("detail", "")))
        if reply.get("end") != "ok":
            raise AttemptOverError(str(reply.get("end")))
        if "after" in reply:
            self._changed(arguments, reply["after"])
        return self._codec.decode(reply.get("value"))

    def _changed(self, arguments: tuple[Any, ...], after: Any) -> None:
        """Changes the test's arguments as the candidate changed its own in place."""
        for mine, new in zip(arguments, self._codec.decode(after), strict=False):
            if isinstance(mine, list) and isinstance(new, list):
                mine[:] = new
            elif isinstance(mine, dict | set) and type(mine) is type(new):
                mine.clear()
                mine.update(new)


def exception_named(kind: str, detail: str) -> Exception:
    """Returns the built-in exception `kind` with the text `detail`, or else a RuntimeError.

    AssertionError and StopIteration become a RuntimeError as well: they would hide a failing test.
    """
    exception_type: Any = getattr(builtins, kind, None)
    ordinary = isinstance(exception_type, type) and issubclass(exception_type, Exception)
    if ordinary and not issubclass(exception_type, _SILENT):
        with contextlib.suppress(TypeError):
            error: Exception = exception_type(detail)
            return error
    return RuntimeError(f"{kind}: {detail}")


def text_of(error: BaseException) -> str:
    """Returns an exception's text, at most 300 characters; empty if its own code raises."""
    try:
        return str(error)[:300]
    except BaseException:
        return ""


OPERATIONS = {"judge": judge}
