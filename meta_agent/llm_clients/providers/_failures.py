"""From what went wrong on the wire to a `ProviderError`: kind, cost, and wait.

Promises: the error is returned, not raised, so that the SDK's exception, whose request carries the
key, is not chained to it. `billed` is `no` only if the server said that it generated nothing, or
was not reached. An error keeps the server's own words. `read_reply` scrubs the text of every error.

Does not cover: what to do about it (`asking/_retry.py`).
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final, Literal

from meta_agent.core.errors import ProviderError

# Servers word it freely, so what counts is that a prompt or its tokens are too many. The names
# `max_tokens` and `completion tokens` are no prompt.
_CONTEXT_WORDS: Final = re.compile(
    r"(?i)context[ _](?:length|window|size|limit)|maximum context|max(?:imum)?[ _]model[ _]len"
    r"|\b(?:prompt|input|messages|conversation|(?<!completion )tokens)\b[^.\n]{0,80}?"
    r"\b(?:too (?:long|large)|exceeds?|longer than)\b"
    r"|reduce the length of the (?:messages|prompt|input)|too many (?:input )?tokens"
)
# Not "billing" alone: plain rate limits of OpenAI and Gemini name the billing page, too.
_CREDIT_WORDS: Final = re.compile(
    r"(?i)insufficient_quota|credit balance|billing_(?:hard_limit|not_active)"
    r"|insufficient (?:balance|credits?|funds)|more credits"
)
# Exceptions of httpx and its forks which say that the server was never reached.
_UNREACHED: Final = frozenset(
    {"ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol"}
)
_TIMED_OUT: Final = frozenset({"ReadTimeout", "WriteTimeout", "APITimeoutError", "Timeout"})
_WRONG_SHAPE: Final = (AttributeError, KeyError, IndexError, TypeError)
"""What Python raises for plain values that do not have the form of the protocol."""

_READ_CHARS: Final = 64 << 10

FailureKind = tuple[str, Literal["no", "unknown"]]


def of_status(status: int, text: str, headers: Mapping[str, str]) -> ProviderError:
    """Returns the ProviderError of a failed HTTP request; `text` is its body or error message."""
    kind, billed = _kind_of(status, text)
    try:
        words = words_in(json.loads(text))
    except (ValueError, RecursionError):
        words = text
    return ProviderError(
        f"HTTP {status}: {words}",
        kind=kind,
        billed=billed,
        retry_after_sec=wait_in(headers, text),
        hint=_hint(kind, status, text),
    )


def of_event(error: Any, *, began: bool) -> ProviderError:
    """Returns the ProviderError for an error that came in a reply with status 200.

    `error` is what the server sent. `began` says whether parts of the reply had arrived.
    """
    status, text, word = _status_in(error), words_in(error), _word_in(error)
    kind, billed = _kind_of(status, f"{text} {word}") if status else ("stream", "unknown")
    if began:
        billed = "unknown"
        kind = kind if kind in ("auth", "context", "not_found", "refused") else "stream"
    place = "the stream carried an error event" if began else "the server sent an error as reply"
    return ProviderError(
        f"{place} ({word or status or 'error'}): {text}",
        kind=kind,
        billed=billed,
        retry_after_sec=wait_in({}, str(error)),
        hint=_hint(kind, status, text),
    )


def of_exception(error: Exception, *, began: bool) -> ProviderError:
    """Returns the ProviderError for an exception without HTTP status or error event.

    `began` says whether parts of the reply had arrived.
    """
    if is_transport(error):
        return of_transport(error, began=began)
    # A line of the stream is not JSON, not UTF-8 or nested too deeply, or a value is odd.
    if isinstance(error, ValueError | RecursionError) or (
        began and isinstance(error, _WRONG_SHAPE)
    ):
        return malformed(f"the stream can't be read: {type(error).__name__} {error}")
    return ProviderError(f"the SDK failed: {type(error).__name__}: {error}")


def of_transport(error: BaseException, *, began: bool) -> ProviderError:
    """Returns the ProviderError of a failed connection. If `began`, parts of the reply had come."""
    chain = list(causes(error))
    names = {type(cause).__name__ for cause in chain}
    text = f"{type(chain[-1]).__name__}: {chain[-1]}"
    if names & _UNREACHED:
        hint = "check the base URL, and that the server is up"
        return ProviderError(
            f"cannot reach the server: {text}", kind="connection", billed="no", hint=hint
        )
    if names & _TIMED_OUT:
        return ProviderError(f"the server went silent: {text}", kind="timeout")
    kind = "stream" if began else "connection"
    return ProviderError(f"the connection broke: {text}", kind=kind)


def malformed(text: str) -> ProviderError:
    """Returns the ProviderError of a reply that breaks the protocol or does not fit the request."""
    return ProviderError(text, kind="malformed")


def reworded(error: ProviderError, text: str, *, hint: str | None = None) -> ProviderError:
    """Returns a copy of an error with the message `text`, and `hint` if it has no hint yet."""
    return ProviderError(
        text,
        kind=error.kind,
        billed=error.billed,
        retry_after_sec=error.retry_after_sec,
        hint=error.hint or hint,
    )


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yields an exception and then the chain of its causes, outermost first."""
    visited: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in visited:
        visited.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def our_error(error: BaseException) -> ProviderError | None:
    """Returns the first ProviderError among an exception and its causes, or None."""
    return next((cause for cause in causes(error) if isinstance(cause, ProviderError)), None)


def is_transport(error: BaseException) -> bool:
    """Returns True if an error or one of its causes is an SDK's error of a failed connection."""
    classes = (kind for cause in causes(error) for kind in type(cause).__mro__)
    return any(kind.__name__ in ("RequestError", "APIConnectionError") for kind in classes)


# --- how long a server asks to wait ---------------------------------------------------------------

_TIME: Final = (
    r"(\d+(?:\.\d+)?)\s*(ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hours?)(?![a-z])"
)
_IN_WORDS: Final = re.compile(
    rf"(?i)(?:retry|try again|wait|reset|available)[^0-9]{{0,40}}?((?:{_TIME}\s*)+)"
)
_AS_FIELD: Final = re.compile(
    r"(?i)retry[-_]?after(_?ms)?\w*[\"']?\s*[:=]\s*[\"']?(\d+(?:\.\d+)?)\b(?![-:])"
)
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}


def wait_in(headers: Mapping[str, str], text: str = "") -> float | None:
    """Returns how many seconds a response asks to wait, by its headers or else by its body."""
    lower = {str(name).lower(): value for name, value in headers.items()}
    value = lower.get("retry-after")
    for number, unit in ((_number(lower.get("retry-after-ms")), 0.001), (_number(value), 1.0)):
        if number is not None:
            return number * unit
    if value is not None and (seconds := _until(value)) is not None:
        return seconds
    text = text[:_READ_CHARS]
    fields = [float(count) * (0.001 if ms else 1) for ms, count in _AS_FIELD.findall(text)]
    return max([*fields, *(_seconds(match[1]) for match in _IN_WORDS.finditer(text))], default=None)


def _seconds(text: str) -> float:
    """Returns a time such as `1m26.4s` in seconds."""
    parts = re.findall(_TIME, text.lower())
    return sum(
        float(count) * (0.001 if unit.startswith(("ms", "mil")) else _UNITS[unit[0]])
        for count, unit in parts
    )


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None


def _until(value: str) -> float | None:
    try:
        date = parsedate_to_datetime(value).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, date - time.time())


# --- what a server says about its error -----------------------------------------------------------


def words_in(error: Any) -> str:
    """Returns the words of an error, in whichever of the usual forms a server wraps them."""
    if isinstance(error, list) and error:
        return words_in(error[0])
    if isinstance(error, Mapping):
        raw = error["metadata"].get("raw") if isinstance(error.get("metadata"), Mapping) else None
        for name in ("error", "message", "detail", "errors", "msg", "error_msg"):
            if error.get(name):
                return words_in(error[name]) + (f" ({raw})" if raw else "")
    return str(error)


def _fields(error: Any) -> Iterator[Any]:
    """Yields an error's codes and type, from the inside out."""
    if isinstance(error, list) and error:
        error = error[0]
    if isinstance(error, Mapping):
        yield from _fields(error.get("error"))
        for name in ("code", "status", "status_code", "error_code", "type"):
            yield error.get(name)


def _word_in(error: Any) -> str:
    """Returns the code or type by which a server names its error, or an empty text."""
    words = [str(word) for word in _fields(error) if word and word != "error"]
    return next((word for word in words if not word.isdecimal()), words[0] if words else "")


_STATUS_OF_WORD: Final[Mapping[str, int]] = {
    r"rate.?limit|exhausted|too.?many|throttl": 429,
    r"overload": 529,
    r"unavailable": 503,
    r"quota|billing|credit|balance|payment": 402,
    r"authenti|api.?key|permission|forbidden|unauthorized": 401,
    r"not.?found": 404,
    r"invalid|bad.?request": 400,
    r"timeout|deadline": 408,
}


def _status_in(error: Any) -> int:
    """Returns the HTTP status that an error names by number or in words; 0 if it names none."""
    for field in _fields(error):
        if str(field).isdecimal() and 400 <= int(field) < 600:
            return int(field)
    word = _word_in(error).lower()
    return next((status for part, status in _STATUS_OF_WORD.items() if re.search(part, word)), 0)


_KIND_OF_STATUS: Final[Mapping[int, FailureKind]] = {
    404: ("not_found", "no"),
    408: ("timeout", "unknown"),
    409: ("server", "no"),
    429: ("rate_limited", "no"),
    503: ("overloaded", "no"),
    529: ("overloaded", "no"),
}


def _kind_of(status: int, text: str) -> FailureKind:
    if status < 400:
        return "malformed", "unknown"  # a redirect: not followed, since it would carry the key
    if status in (401, 402, 403) or (status in (400, 429) and _CREDIT_WORDS.search(text)):
        return "auth", "no"
    if status == 413 or (status in (400, 422, 500) and _CONTEXT_WORDS.search(text)):
        return "context", "no"
    if status in _KIND_OF_STATUS:
        return _KIND_OF_STATUS[status]
    if "overloaded_error" in text:
        return "overloaded", "no"
    return ("server", "unknown") if status >= 500 else ("refused", "no")


def _hint(kind: str, status: int, text: str) -> str | None:
    if kind == "auth" and (status == 402 or _CREDIT_WORDS.search(text)):
        return (
            "add credit to the account, or allow shorter replies (--limits "
            "max_tokens_per_turn=N), then run the same command again"
        )
    return {
        "auth": "check the key, then run the same command again: meta-agent doctor shows which "
        "variable holds it",
        "not_found": "check the model's name and the base URL",
        "context": "the conversation does not fit the model: choose one with a longer context",
        "overloaded": "wait a little and run the same command again",
    }.get(kind)
