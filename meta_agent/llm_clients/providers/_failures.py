"""From what went wrong on the wire to a `ProviderError`: kind, cost, wait, and no key in it.

Promises: the error is returned, not raised, so that the SDK's exception, whose request carries the
key, is not chained to it. `billed` is `no` only if the server said that it generated nothing, or
was not reached. `read_reply` scrubs the text of every error.

Does not cover: what to do about it (`asking/_retry.py`).
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, Final, Literal

from meta_agent.core.errors import ProviderError
from meta_agent.llm_clients.keys import spellings

_TEXT_CHARS: Final = 400
_READ_CHARS: Final = 64 << 10
_KEY_SHAPES: Final = re.compile(
    r"(?i)\b(?:sk|pk|key|gsk|xai|hf|AIza|org|proj)[-_][A-Za-z0-9_*.-]{8,}|bearer\s+[^\s\"',]+"
)
_CONTEXT_WORDS: Final = re.compile(
    r"(?i)context[ _]length|context[ _]window|maximum context|prompt is too long"
    r"|exceeds? the (?:available )?context|input length and `?max_tokens|too many (?:input )?tokens"
)
# Not "billing" alone: plain rate limits of OpenAI and Gemini name the billing page, too.
_CREDIT_WORDS: Final = re.compile(
    r"(?i)insufficient_quota|credit balance|billing_(?:hard_limit|not_active)"
)
# Exceptions of httpx and its forks which say that the server was never reached.
_UNREACHED: Final = frozenset(
    {"ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol"}
)
_TIMED_OUT: Final = frozenset({"ReadTimeout", "WriteTimeout", "APITimeoutError", "Timeout"})
_WRONG_SHAPE: Final = (AttributeError, KeyError, IndexError, TypeError)
"""What Python raises for plain values that do not have the form of the protocol."""

Kind = tuple[str, Literal["no", "unknown"]]


def scrub(text: str, secrets: Sequence[str]) -> str:
    """Returns a text cut to 400 characters, with `[key]` for `secrets` and for likely keys."""
    text = text[:_READ_CHARS]
    for secret in secrets:
        if len(secret) >= 4:  # a dummy such as "none" is no secret, but costs nothing to hide
            for spelling in spellings(secret):
                text = text.replace(spelling, "[key]")
    text = " ".join(_KEY_SHAPES.sub("[key]", text).split())
    return text if len(text) <= _TEXT_CHARS else text[:_TEXT_CHARS] + " ..."


def of_status(status: int, text: str, headers: Mapping[str, str]) -> ProviderError:
    """Returns the ProviderError of a failed HTTP request; `text` is its body or error message."""
    kind, billed = _kind_of(status, text)
    return ProviderError(
        f"HTTP {status}: {_message_in(text)}",
        kind=kind,
        billed=billed,
        retry_after_sec=retry_after_sec(headers),
        hint=_hint(kind, text),
    )


def of_event(error: Mapping[str, Any]) -> ProviderError:
    """Returns the ProviderError for a stream's error event, whose `code` may be an HTTP status."""
    text = str(error.get("message") or error)
    code = error.get("code")
    status = code if isinstance(code, int) else 0
    kind = _kind_of(status, f"{text} {code}")[0] if 400 <= status < 500 else "stream"
    if kind in ("rate_limited", "timeout"):
        kind = "stream"
    word = error.get("type") or code or "error"
    return ProviderError(
        f"the stream carried an error event ({word}): {text}", kind=kind, hint=_hint(kind, text)
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


def retry_after_sec(headers: Mapping[str, str]) -> float | None:
    """Returns how many seconds a response's headers ask to wait; None if they ask for none."""
    lower = {str(name).lower(): value for name, value in headers.items()}
    millis = _number(lower.get("retry-after-ms"))
    if millis is not None:
        return millis / 1000
    value = lower.get("retry-after")
    seconds = _number(value)
    return seconds if seconds is not None or value is None else _until(value)


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


def _message_in(body: str) -> str:
    """Returns the server's own words if the body is an error in the usual form, else the body."""
    try:
        error = json.loads(body)["error"]
        return str(error if isinstance(error, str) else error["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return body


_KIND_OF_STATUS: Final[Mapping[int, Kind]] = {
    404: ("not_found", "no"),
    408: ("timeout", "unknown"),
    409: ("server", "no"),
    429: ("rate_limited", "no"),
    503: ("overloaded", "no"),
    529: ("overloaded", "no"),
}


def _kind_of(status: int, text: str) -> Kind:
    if status < 400:
        return "malformed", "unknown"  # a redirect: not followed, since it would carry the key
    if status in (401, 402, 403) or (status in (400, 429) and _CREDIT_WORDS.search(text)):
        return "auth", "no"
    if status == 413 or (status in (400, 422) and _CONTEXT_WORDS.search(text)):
        return "context", "no"
    if status in _KIND_OF_STATUS:
        return _KIND_OF_STATUS[status]
    if "overloaded_error" in text:
        return "overloaded", "no"
    return ("server", "unknown") if status >= 500 else ("refused", "no")


def _hint(kind: str, text: str) -> str | None:
    if kind == "auth":
        credit = "add credit to the account" if _CREDIT_WORDS.search(text) else "check the key"
        return f"{credit}, then run the same command again: meta-agent doctor shows what is set"
    return {
        "not_found": "check the model's name and the base URL",
        "context": "the conversation does not fit the model: choose one with a longer context",
        "overloaded": "wait a little and run the same command again",
    }.get(kind)
