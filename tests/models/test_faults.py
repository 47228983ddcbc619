"""The fault table: each row through the real SDKs against a real server.

A row says what the server does, which kind of error that is, what the failed attempt may have cost,
and how often one call asks. None gives a partial reply.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from functools import cache
from typing import Any

import pytest

from meta_agent.core.chat import ChatRequest, Provider, ToolSpec
from meta_agent.core.errors import ProviderError
from meta_agent.llm_clients.asking._retry import Breaker, Retrying, RetryPolicy
from meta_agent.llm_clients.providers._connection import RequestTimeouts
from tests.loopback import (
    Call,
    Fault,
    Say,
    Url,
    anthropic_server,
    openai_server,
    refused_url,
    unreachable_url,
)
from tests.models._providers import open_provider

# litellm's own warnings, which would break its streams as errors.
pytestmark = [
    pytest.mark.filterwarnings("ignore:::litellm[.].*"),
    pytest.mark.filterwarnings("ignore:.*ReadOnly. qualifier"),
]

VIEW = ToolSpec(
    "view",
    "Shows a file.",
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
# Only for servers that stay silent: a busy machine may be slow to say what it has to say.
SHORT = RequestTimeouts(connect_sec=0.4, silent_sec=0.4, total_sec=20.0)
CANARY = "sk-canary-0123456789abcdef"


@dataclass(frozen=True)
class Sdk:
    name: str
    model: str
    serve: Callable[..., AbstractContextManager[Url]]


SDKS = [
    Sdk("openai", "openai/m", openai_server),
    Sdk("anthropic", "anthropic/claude-opus-4-5", anthropic_server),
]
LITELLM = Sdk("litellm", "litellm/deepseek/m", openai_server)
EVERY = [*SDKS, LITELLM]


@dataclass(frozen=True)
class Row:
    """`asked`: requests of one call under the policy below. `waits`: the least of each wait."""

    name: str
    does: Fault | Say | Callable[[], Fault]
    kind: str
    billed: str
    asked: int
    waits: float = 0.0

    def answer(self, call: Call) -> Fault | Say:
        return self.does() if callable(self.does) else self.does


POLICY = RetryPolicy(3, 2, rate_limited_attempts=3, retry_after_cap_sec=120, deadline_sec=600)


def for_a_date() -> Fault:
    return Fault.status(429, retry_after=formatdate(time.time() + 40, usegmt=True))


def call(name: str, arguments: Any) -> Say:
    return Say(tool_calls=[(name, arguments)])


BILLING = "Limit: 3 / min. Visit https://platform.openai.com/account/billing to add a payment"
ENDS_IN_A_CALL = Fault.early_end(call("view", {"path": "a"}), pieces=4)
EVENT_IS_CUT = Fault.raw("event: x\ndata: {\n\n", content_type="text/event-stream")
EVERYWHERE = [
    Row("429 without Retry-After", Fault.status(429), "rate_limited", "no", 3),
    Row("429 for seconds", Fault.status(429, retry_after="7"), "rate_limited", "no", 3, 7),
    Row("429 for a date", for_a_date, "rate_limited", "no", 3, 20),
    Row("429 for an hour", Fault.status(429, retry_after="3600"), "rate_limited", "no", 1),
    Row("429 for nonsense", Fault.status(429, retry_after="soon"), "rate_limited", "no", 3),
    Row("529 storm", Fault.status(529, error_type="overloaded_error"), "overloaded", "no", 3),
    Row("503", Fault.status(503), "overloaded", "no", 3),
    Row("500", Fault.status(500), "server", "unknown", 3),
    Row("key revoked", Fault.status(401, "invalid key"), "auth", "no", 1),
    Row("context too long", Fault.context_too_long(), "context", "no", 1),
    Row("no such model", Fault.status(404, "no such model"), "not_found", "no", 1),
    Row("reset before the reply", Fault.reset(), "connection", "unknown", 3),
    Row("stream reset", Fault.abort(), "stream", "unknown", 3),
    Row("stream cut", Fault.cut(), "stream", "unknown", 3),
    Row("clean early end", Fault.early_end(), "stream", "unknown", 3),
    Row("early end in a call", ENDS_IN_A_CALL, "stream", "unknown", 3),
    Row("error event", Fault.error_event(), "stream", "unknown", 3),
    Row("arguments are not JSON", call("view", '{"path": '), "malformed", "unknown", 2),
    Row("arguments are no object", call("view", "[1]"), "malformed", "unknown", 2),
    Row("arguments break the schema", call("view", {"path": 3}), "malformed", "unknown", 2),
    Row("an argument is missing", call("view", {}), "malformed", "unknown", 2),
    Row("unknown tool", call("rm", {"path": "a"}), "malformed", "unknown", 2),
]  # fmt: skip
# litellm turns these into something else that is refused, or has no such thing.
DIRECT = [
    Row("429 that names the billing page", Fault.status(429, BILLING), "rate_limited", "no", 3),
    Row("no credit", Fault.status(429, "insufficient_quota"), "auth", "no", 1),
    Row("refused parameter", Fault.status(400, "unknown field"), "refused", "no", 1),
    Row("HTML with status 200", Fault.html(), "malformed", "unknown", 2),
    Row("JSON that is cut", Fault.raw('{"id": '), "malformed", "unknown", 2),
    Row("an event that is cut", EVENT_IS_CUT, "malformed", "unknown", 2),
    Row("a redirect", Fault.status(307, "elsewhere"), "malformed", "unknown", 2),
]  # fmt: skip
SLOW = [  # each attempt waits for its deadline, so one attempt is made
    Row("nothing is said", Fault.silent(), "timeout", "unknown", 1),
    Row("stall", Fault.stall(), "timeout", "unknown", 1),
]
CASES = [
    *(pytest.param(sdk, row, id=f"{sdk.name}: {row.name}") for sdk in SDKS for row in DIRECT),
    *(pytest.param(sdk, row, id=f"{sdk.name}: {row.name}") for sdk in EVERY for row in EVERYWHERE),
]


@cache
def warm(sdk: Sdk) -> None:
    """SDKs import much at their first call, and litellm warns while it does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with sdk.serve(lambda call: Say("hi")) as url:
            provider = open_provider(sdk.model, base_url=url, api_key=CANARY)
            provider.chat(asking(sdk))
            provider.close()


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@contextmanager
def opened(sdk: Sdk, url: str, timeouts: RequestTimeouts | None = None) -> Iterator[Provider]:
    warm(sdk)
    provider = open_provider(sdk.model, base_url=url, api_key=CANARY, timeouts=timeouts)
    try:
        yield provider
    finally:
        provider.close()


def asking(sdk: Sdk, **fields: Any) -> ChatRequest:
    messages = [{"role": "user", "content": "look at a"}]
    given = {"messages": messages, "tools": [VIEW], "max_tokens": 64, **fields}
    return ChatRequest("proposer", sdk.model, **given)


def fails(provider: Provider, sdk: Sdk, policy: RetryPolicy, clock: Time) -> ProviderError:
    retrying = Retrying(policy, Breaker(clock=clock), clock=clock, sleep=clock.sleep)
    with pytest.raises(ProviderError) as caught:
        retrying.call(lambda attempt: provider.chat(asking(sdk)))
    return caught.value


@pytest.mark.parametrize(("sdk", "row"), CASES)
def test_a_fault_is_typed_priced_and_retried_as_it_should(sdk: Sdk, row: Row) -> None:
    clock = Time()
    with sdk.serve(row.answer) as url, opened(sdk, url) as provider:
        error = fails(provider, sdk, POLICY, clock)
        assert (error.kind, error.billed, len(url.calls)) == (row.kind, row.billed, row.asked)
    assert len(clock.slept) == row.asked - 1
    assert all(wait >= row.waits for wait in clock.slept)
    assert CANARY not in f"{error!r} {error} {error.hint} {error.__cause__!r}"


@pytest.mark.parametrize("sdk", EVERY, ids=lambda sdk: sdk.name)
@pytest.mark.parametrize("row", SLOW, ids=lambda row: row.name)
def test_silence_is_a_timeout(sdk: Sdk, row: Row) -> None:
    with sdk.serve(row.answer) as url, opened(sdk, url, SHORT) as provider:
        error = fails(provider, sdk, RetryPolicy(attempts=1), Time())
    assert (error.kind, error.billed) == ("timeout", "unknown")


@pytest.mark.parametrize("sdk", EVERY, ids=lambda sdk: sdk.name)
def test_a_server_that_is_not_there_costs_nothing(sdk: Sdk) -> None:
    with refused_url() as url, opened(sdk, url) as provider:
        error = fails(provider, sdk, POLICY, Time())
    assert (error.kind, error.billed) == ("connection", "no")


@pytest.mark.parametrize("sdk", SDKS, ids=lambda sdk: sdk.name)
def test_a_server_that_does_not_accept_costs_nothing(sdk: Sdk) -> None:
    patience = RequestTimeouts(connect_sec=0.3, silent_sec=30)
    with unreachable_url() as url, opened(sdk, url, patience) as provider:
        error = fails(provider, sdk, RetryPolicy(attempts=1), Time())
    assert (error.kind, error.billed) == ("connection", "no")


def test_no_choices_is_malformed() -> None:
    with openai_server(lambda call: Fault.empty_choices()) as url, opened(SDKS[0], url) as provider:
        error = fails(provider, SDKS[0], POLICY, Time())
        assert (error.kind, len(url.calls)) == ("malformed", 2)


@pytest.mark.parametrize("sdk", EVERY, ids=lambda sdk: sdk.name)
def test_a_call_survives_faults_that_pass(sdk: Sdk) -> None:
    script = [Fault.status(429, retry_after="2"), Fault.abort(), Say("at last")]
    clock = Time()
    with sdk.serve(lambda call: script[call.number]) as url, opened(sdk, url) as provider:
        retrying = Retrying(POLICY, Breaker(clock=clock), clock=clock, sleep=clock.sleep)
        reply = retrying.call(lambda attempt: provider.chat(asking(sdk)))
    assert reply.content == "at last"
    assert 2.0 <= clock.slept[0] <= 3.0


@pytest.mark.parametrize("sdk", SDKS, ids=lambda sdk: sdk.name)
def test_many_threads_share_one_provider(sdk: Sdk) -> None:
    """Also while other streams of the same account are given up."""

    def brain(call: Call) -> Fault | Say:
        return Fault.stall() if call.last == "stall" else Say("word " * 200)

    def one(provider: Provider, number: int) -> str:
        text = "stall" if number % 20 == 0 else "speak"
        request = asking(sdk, messages=[{"role": "user", "content": text}])
        try:
            return provider.chat(request).content
        except ProviderError as error:
            return error.kind

    patience = RequestTimeouts(silent_sec=2.0)
    with (
        sdk.serve(brain, serial=False) as url,
        opened(sdk, url, patience) as provider,
        ThreadPoolExecutor(8) as pool,
    ):
        heard = list(pool.map(lambda number: one(provider, number), range(80)))
    assert heard.count("timeout") == 4 and heard.count("word " * 200) == 76


@pytest.mark.parametrize("sdk", EVERY, ids=lambda sdk: sdk.name)
def test_a_key_that_is_revoked_on_the_way_stops_at_once(sdk: Sdk) -> None:
    replies = {0: Say("fine")}
    with (
        sdk.serve(lambda call: replies.get(call.number, Fault.status(401, f"bad {CANARY}"))) as url,
        opened(sdk, url) as provider,
    ):
        assert provider.chat(asking(sdk)).content == "fine"
        error = fails(provider, sdk, POLICY, Time())
        assert error.kind == "auth" and len(url.calls) == 2
    assert CANARY not in f"{error} {error.hint}"


@pytest.mark.parametrize("sdk", EVERY, ids=lambda sdk: sdk.name)
def test_a_reply_cut_by_its_limit_is_whole_but_calls_no_tools(sdk: Sdk) -> None:
    words = {"anthropic": "max_tokens"}
    cut = Say("so far", tool_calls=[("view", '{"pa')], stop=words.get(sdk.name, "length"))
    with sdk.serve(lambda call: cut) as url, opened(sdk, url) as provider:
        reply = provider.chat(asking(sdk))
    assert (reply.stop, reply.content, reply.tool_calls) == ("length", "so far", ())


@pytest.mark.parametrize("sdk", EVERY, ids=lambda sdk: sdk.name)
def test_a_refusal_is_a_reply(sdk: Sdk) -> None:
    stop = None if sdk.name == "anthropic" else "content_filter"
    no = Say("I can't", refusal="I can't" if stop is None else "", stop=stop)
    with sdk.serve(lambda call: no) as url, opened(sdk, url) as provider:
        reply = provider.chat(asking(sdk))
    assert (reply.stop, reply.content) == ("refusal", "I can't")


def test_openais_refusal_field_is_a_refusal() -> None:
    no = Say(refusal="I won't help with that")
    with openai_server(lambda call: no) as url, opened(SDKS[0], url) as provider:
        reply = provider.chat(asking(SDKS[0]))
    assert (reply.stop, reply.content) == ("refusal", "I won't help with that")


@pytest.mark.parametrize("sdk", EVERY, ids=lambda sdk: sdk.name)
def test_a_lenient_request_returns_the_models_own_mistakes(sdk: Sdk) -> None:
    with sdk.serve(lambda _: call("rm", {"path": 3})) as url, opened(sdk, url) as provider:
        reply = provider.chat(asking(sdk, lenient_tools=True))
    assert [(one.name, one.arguments) for one in reply.tool_calls] == [("rm", {"path": 3})]
