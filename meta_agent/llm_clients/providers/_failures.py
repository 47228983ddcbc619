"""From what went wrong on the wire to a `ProviderError`: kind, cost, wait, and no key in it.

Promises: the text of a `ProviderError` made here holds none of the account's secrets and is short;
it is made, not raised, so that the SDK's exception (whose request carries the key) is not chained
to it. `billed` is `no` only where the server said that nothing was generated, or was not reached.

Does not cover: what to do about it (`_retry.py`).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, Final, Literal

from meta_agent.core.errors import ProviderError

_TEXT_LIMIT: Final = 400
_READ_LIMIT: Final = 64 << 10
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
# Classes that say the server was never reached, in httpx and its forks.
_UNREACHED: Final = frozenset(
    {"ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol"}
)
_TIMED_OUT: Final = frozenset({"ReadTimeout", "WriteTimeout", "APITimeoutError", "Timeout"})

Secrets = Sequence[str]


def scrub(text: str, secrets: Secrets = ()) -> str:
    """The text without the account's secrets or anything that looks like a key, cut to size."""
    text = text[:_READ_LIMIT]
    for secret in secrets:
        if len(secret) >= 4:  # a dummy such as "none" is no secret, but costs nothing to hide
            text = text.replace(secret, "[key]")
    text = " ".join(_KEY_SHAPES.sub("[key]", text).split())
    return text if len(text) <= _TEXT_LIMIT else text[:_TEXT_LIMIT] + " ..."


def of_status(
    status: int, text: str, headers: Mapping[str, str], *, secrets: Secrets = ()
) -> ProviderError:
    """An HTTP status that is not success. `text` is the body or the SDK's words for it."""
    kind, billed = _kind_of(status, text)
    return ProviderError(
        f"HTTP {status}: {scrub(_message_in(text), secrets)}",
        kind=kind,
        billed=billed,
        retry_after_sec=retry_after_sec(headers),
        hint=_hint(kind, text),
    )


def of_event(error: Mapping[str, Any], *, secrets: Secrets = ()) -> ProviderError:
    """An error event inside a stream. Some servers put a status there that says more."""
    text = scrub(str(error.get("message") or error), secrets)
    code = error.get("code")
    status = code if isinstance(code, int) else 0
    kind = _kind_of(status, f"{text} {code}")[0] if 400 <= status < 500 else "stream"
    if kind in ("rate_limited", "timeout"):
        kind = "stream"
    word = error.get("type") or code or "error"
    return ProviderError(
        f"the stream carried an error event ({word}): {text}", kind=kind, hint=_hint(kind, text)
    )


def of_transport(error: BaseException, *, began: bool, secrets: Secrets = ()) -> ProviderError:
    """The connection failed, before the reply began or in the middle of it."""
    names = {type(one).__name__ for one in causes(error)}
    root = list(causes(error))[-1]
    text = scrub(f"{type(root).__name__}: {root}", secrets)
    if names & _UNREACHED:
        hint = "check the base URL, and that the server is up"
        return ProviderError(
            f"cannot reach the server: {text}", kind="connection", billed="no", hint=hint
        )
    if names & _TIMED_OUT:
        return ProviderError(f"the server went silent: {text}", kind="timeout")
    kind = "stream" if began else "connection"
    return ProviderError(f"the connection broke: {text}", kind=kind)


def of_ours(error: BaseException) -> ProviderError | None:
    """What this room raised while an SDK was at work, which may have wrapped it."""
    return next((one for one in causes(error) if isinstance(one, ProviderError)), None)


def malformed(text: str, *, secrets: Secrets = ()) -> ProviderError:
    """A reply that came, and is not what the protocol or the request asks for."""
    return ProviderError(scrub(text, secrets), kind="malformed")


def scrubbed(error: ProviderError, secrets: Secrets) -> ProviderError:
    """The same error in words that hold no secret."""
    return ProviderError(
        scrub(str(error), secrets),
        kind=error.kind,
        billed=error.billed,
        retry_after_sec=error.retry_after_sec,
        hint=error.hint,
    )


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came from, outermost first."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or one.__context__


def is_transport(error: BaseException) -> bool:
    """Whether it comes from the connection. The SDKs use httpx or a fork: same names."""
    classes = (kind for one in causes(error) for kind in type(one).__mro__)
    return any(kind.__name__ in ("RequestError", "APIConnectionError") for kind in classes)


def unknown(error: BaseException, *, secrets: Secrets = ()) -> ProviderError:
    """Anything else that an SDK raised: our request was wrong, or the SDK is."""
    return ProviderError(scrub(f"the SDK failed: {type(error).__name__}: {error}", secrets))


def retry_after_sec(headers: Mapping[str, str]) -> float | None:
    """What the server asks for, in seconds; None where it asks nothing that can be understood."""
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
    return max(0.0, number) if number < float("inf") else None  # NaN fails the comparison too


def _until(value: str) -> float | None:
    try:
        at = parsedate_to_datetime(value).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    # A date is on the wall clock; so is this comparison, and no other one in this room.
    return max(0.0, at - time.time())


def _message_in(body: str) -> str:
    """The server's own words, where the body is an error in the usual form."""
    try:
        error = json.loads(body)["error"]
        return str(error if isinstance(error, str) else error["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return body


def _kind_of(status: int, text: str) -> tuple[str, Literal["no", "unknown"]]:
    if status < 400:
        return "malformed", "unknown"  # a redirect: not followed, since it would carry the key
    if status in (401, 402, 403) or (status in (400, 429) and _CREDIT_WORDS.search(text)):
        return "auth", "no"
    if status == 413 or (status in (400, 422) and _CONTEXT_WORDS.search(text)):
        return "context", "no"
    named: Mapping[int, tuple[str, Literal["no", "unknown"]]] = {
        404: ("not_found", "no"),
        408: ("timeout", "unknown"),
        409: ("server", "no"),
        429: ("rate_limited", "no"),
        503: ("overloaded", "no"),
        529: ("overloaded", "no"),
    }
    if status in named:
        return named[status]
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
