"""Money through the client, over real HTTP: caps under threads, kept reservations, crashes."""

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.errors import BudgetError, PreflightError, ProviderError
from meta_agent.core.ledger import CRASH_VARIABLE, Ledger
from meta_agent.llm_clients.asking._digest import ModelQuestion
from meta_agent.llm_clients.asking._meter import bound_of
from meta_agent.llm_clients.asking._retry import RetryPolicy
from meta_agent.llm_clients.providers._connection import RequestTimeouts
from tests.loopback import Call, Fault, Say, openai_server, say_each
from tests.models._clients import RUN, SHELL, Opened, opened, request, user
from tests.models._crash_child import main as ask_once

CHILD = Path(__file__).with_name("_crash_child.py")
ROOT = CHILD.parents[2]
PRICE = '[prices."openai/any"]\ninput = 10.0\noutput = 100.0\n'  # USD per million tokens


def priced(workspace: Path) -> Path:
    (workspace / "meta-agent.toml").write_text(PRICE)
    return workspace


def small(_call: Call) -> Say:
    return Say("ok", input_tokens=20, output_tokens=10)


# What `request("?")` sets aside: see `test_worst_case_counts_a_byte_as_a_token`.
BOUND_TOKENS = (
    bound_of(ModelQuestion({"max_tokens": 100}, [user("?")], []), None).input_tokens + 100
)


def test_sixteen_callers_cannot_cross_a_cap_and_use_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Worst cases of 4 fit at once; what 16 really take fits too, if they wait for each other."""
    cap = 4 * BOUND_TOKENS + 30
    asked_for_room = threading.Semaphore(0)

    def brain(call: Call) -> Say:
        if call.number == 0:  # until a fifth caller has found no room, nobody is answered
            for _ in range(5):
                assert asked_for_room.acquire(timeout=60)
        return small(call)

    with (
        openai_server(brain) as url,
        opened(tmp_path, meta_model="openai/any", base_urls={"all": url}, max_tokens=cap) as run,
    ):
        reserve = run.ledger.reserve

        def counted(*arguments: Any) -> int:
            asked_for_room.release()
            return reserve(*arguments)

        monkeypatch.setattr(run.ledger, "reserve", counted)
        seen: list[int] = []

        def call(number: int) -> None:
            run.client.chat(request("?"), conversation=f"c{number}", turn=0)
            spent = run.ledger.spend()["analyst"]
            seen.append(spent.tokens + spent.open_tokens)

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(call, range(16)))
        assert max(seen) <= cap
        assert run.ledger.spend()["analyst"].tokens == 16 * 30
        assert len(url.calls) == 16


def test_crossing_calls_are_refused_before_they_are_sent(tmp_path: Path) -> None:
    with (
        openai_server(small, serial=False) as url,
        opened(
            tmp_path, meta_model="openai/any", base_urls={"all": url}, max_tokens=BOUND_TOKENS + 60
        ) as run,
    ):

        def call(number: int) -> str:
            try:
                run.client.chat(request("?"), conversation=f"c{number}", turn=0)
            except BudgetError as error:
                return str(error)
            return "answered"

        with ThreadPoolExecutor(16) as pool:
            ends = list(pool.map(call, range(16)))
        spent = run.ledger.spend()["analyst"]
        # Three cost 90 tokens together: beside them there is no room for one more worst case.
        assert (ends.count("answered"), len(url.calls)) == (3, 3)
        assert spent.tokens + spent.open_tokens <= BOUND_TOKENS + 60
        refused = next(end for end in ends if end != "answered")
        assert f"this call may take {BOUND_TOKENS} tokens; 90 of the cap" in refused


REASONS_BESIDE = {
    "prompt_tokens": 32,
    "completion_tokens": 9,
    "total_tokens": 135,
    "completion_tokens_details": {"reasoning_tokens": 94},
}


def replying(usage: Any) -> Fault:
    """A whole reply with this usage, which may be missing."""
    choice = {"index": 0, "message": {"content": "ok"}, "finish_reason": "stop"}
    return Fault.raw(json.dumps({"choices": [choice], "usage": usage}))


def asked_until_refused(run: Opened, times: int) -> int:
    """How many of the calls were let through."""
    for number in range(times):
        try:
            run.client.chat(request("?"), conversation=f"c{number}", turn=0)
        except BudgetError:
            return number
    return times


def test_reasoning_that_is_counted_beside_the_reply_counts_against_the_cap(tmp_path: Path) -> None:
    each = 32 * 10e-6 + 103 * 100e-6  # it bills 135 - 32 = 103 tokens of output: $0.01062
    with (
        openai_server(lambda _: replying(REASONS_BESIDE)) as url,
        opened(
            priced(tmp_path), meta_model="openai/any", base_urls={"all": url}, max_usd=0.1
        ) as run,
    ):
        calls = asked_until_refused(run, 50)
        spent = run.ledger.spend()["analyst"]
    assert spent.usd == pytest.approx(calls * each)
    # After the first call, 3 tokens more than its limit of 100 are set aside.
    worst = (BOUND_TOKENS - 100) * 10e-6 + 103 * 100e-6
    assert calls == 1 + int((0.1 - worst) / each) and spent.usd <= 0.1


@pytest.mark.parametrize(
    "usage",
    [
        *(None, {}, [1], "x", {"prompt_tokens": 9}),
        {"prompt_tokens": 0, "completion_tokens": 0},
        {"prompt_tokens": -1, "completion_tokens": 5},
        {"prompt_tokens": 9, "completion_tokens": 0},
    ],
)
def test_a_reply_without_counts_is_kept_and_costs_its_worst_case(
    usage: Any, tmp_path: Path
) -> None:
    with (
        openai_server(lambda _: replying(usage)) as url,
        opened(
            tmp_path,
            meta_model="openai/any",
            base_urls={"all": url},
            max_tokens=2 * BOUND_TOKENS + 5,
        ) as run,
    ):
        reply = run.client.chat(request("?"), conversation="c", turn=0)
        assert (reply.content, reply.counted, reply.usd) == ("ok", False, None)
        assert run.client.chat(request("?"), conversation="c", turn=0).replayed
        assert asked_until_refused(run, 5) == 1
        spent = run.ledger.spend()["analyst"]
        assert (spent.tokens, spent.open_tokens, len(url.calls)) == (0, 2 * BOUND_TOKENS, 2)


@pytest.mark.parametrize("role_cap", [False, True], ids=["run", "role"])
def test_cap_on_usd_holds_and_a_higher_one_resumes(tmp_path: Path, role_cap: bool) -> None:
    def capped(usd: float) -> dict[str, Any]:
        return {"role_max_usd": {"analyst": usd}} if role_cap else {"max_usd": usd}

    worst = (BOUND_TOKENS - 100) * 10e-6 + 100 * 100e-6
    real = 20 * 10e-6 + 10 * 100e-6
    with openai_server(small) as url:
        settings: dict[str, Any] = {"meta_model": "openai/any", "base_urls": {"all": url}}
        with opened(priced(tmp_path), **settings, **capped(worst + real / 2)) as run:
            run.client.chat(request("?"), conversation="c0", turn=0)
            with pytest.raises(BudgetError, match="cap of role analyst" if role_cap else "run"):
                run.client.chat(request("?"), conversation="c1", turn=0)
        with opened(tmp_path, **settings, **capped(worst + real)) as run:
            assert run.client.chat(request("?"), conversation="c0", turn=0).replayed
            run.client.chat(request("?"), conversation="c1", turn=0)
            assert run.ledger.spend()["analyst"].usd == pytest.approx(2 * real)
        assert len(url.calls) == 2


def test_usd_cap_with_an_unpriced_model_is_refused_at_opening(tmp_path: Path) -> None:
    with openai_server(small) as url:
        settings: dict[str, Any] = {
            "meta_model": "openai/any",
            "base_urls": {"all": url},
            "max_usd": 1.0,
        }
        with (
            pytest.raises(
                PreflightError, match=r"price of openai/any \(role analyst\) is unknown"
            ) as no,
            opened(tmp_path, **settings),
        ):
            pass
        assert '[prices."openai/any"]' in str(no.value.hint)
        (tmp_path / "meta-agent.toml").write_text(
            '[prices."openai/any"]\ninput = 0\noutput = 0\n'  # my own server costs me nothing
        )
        with opened(tmp_path, **settings) as run:
            assert run.client.chat(request("?"), conversation="c", turn=0).usd == 0.0


def test_prices_of_a_run_stay_those_it_began_with(tmp_path: Path) -> None:
    with openai_server(small) as url:
        settings: dict[str, Any] = {"meta_model": "openai/any", "base_urls": {"all": url}}
        with opened(tmp_path, **settings) as run:
            assert run.client.chat(request("?"), conversation="c0", turn=0).usd is None
        for stated, turn in ((PRICE, 1), (PRICE.replace("10.0", "77.0"), 2)):
            (tmp_path / "meta-agent.toml").write_text(stated)
            with opened(tmp_path, **settings) as run:
                reply = run.client.chat(request("?"), conversation="c0", turn=turn)
                assert reply.usd == pytest.approx(20 * 10e-6 + 10 * 100e-6)
        manifest = run.transcripts.manifest() or {}
        assert manifest["prices"]["analyst"]["rates"][0]["input"] == 10.0


def test_attempt_that_may_have_been_billed_keeps_its_reservation(tmp_path: Path) -> None:
    brain = say_each([Fault.abort(), Say("whole", input_tokens=20, output_tokens=10)])
    with (
        openai_server(brain) as url,
        opened(tmp_path, meta_model="openai/any", base_urls={"all": url}) as run,
    ):
        run.client.chat(request("?"), conversation="c", turn=0)
        spent = run.ledger.spend()["analyst"]
        assert (spent.tokens, spent.open_tokens, spent.calls) == (30, BOUND_TOKENS, 2)


def test_stalled_stream_keeps_its_reservation_and_counts_after_a_restart(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "meta_model": "openai/any",
        "max_tokens": BOUND_TOKENS + 10,
        "retry": RetryPolicy(attempts=1),
        "timeouts": RequestTimeouts(connect_sec=5, silent_sec=0.2, total_sec=5),
    }
    with openai_server(lambda _: Fault.stall()) as url:
        settings["base_urls"] = {"all": url}
        with opened(tmp_path, **settings) as run, pytest.raises(ProviderError):
            run.client.chat(request("?"), conversation="c", turn=0)
        with opened(tmp_path, **settings) as run:
            assert run.ledger.spend()["analyst"].open_tokens == BOUND_TOKENS
            with pytest.raises(BudgetError, match="spent or set aside"):
                run.client.chat(request("?"), conversation="c", turn=0)


def test_waiting_callers_are_refused_when_nobody_is_under_way(tmp_path: Path) -> None:
    """A kept reservation never comes free: waiting for it would be waiting for ever."""
    faults = RetryPolicy(attempts=1)
    with (
        openai_server(lambda _: Fault.abort(), serial=False) as url,
        opened(
            tmp_path,
            meta_model="openai/any",
            base_urls={"all": url},
            max_tokens=BOUND_TOKENS + 1,
            retry=faults,
        ) as run,
    ):

        def call(number: int) -> type[Exception]:
            try:
                run.client.chat(request("?"), conversation=f"c{number}", turn=0)
            except (BudgetError, ProviderError) as error:
                return type(error)
            raise AssertionError("nothing was answered")

        with ThreadPoolExecutor(8) as pool:
            ends = list(pool.map(call, range(8)))
        assert (ends.count(ProviderError), ends.count(BudgetError)) == (1, 7)


# --- crashes -----------------------------------------------------------------------------------


def run_child(workspace: Path, url: str, crash_at: str) -> int:
    environment = {**os.environ, CRASH_VARIABLE: crash_at, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, str(CHILD), str(workspace), url],
        env=environment,
        cwd=ROOT,
        timeout=120,
        check=False,
    ).returncode


def spend_of(workspace: Path) -> tuple[int, int, int]:
    with Ledger.open(workspace / "ledger.sqlite", owner_lock=False) as ledger:
        spent = ledger.spend(RUN)["analyst"]
    return spent.tokens, spent.open_tokens, spent.calls


def test_death_between_reply_and_record_asks_once_more_and_counts_both(tmp_path: Path) -> None:
    bound = bound_of(ModelQuestion({"max_tokens": 100}, [user("one")], []), None).input_tokens + 100
    with openai_server(small) as url:
        assert run_child(tmp_path, url, "model:replied") == -signal.SIGKILL
        assert spend_of(tmp_path) == (0, bound, 1)
        for _ in range(2):
            ask_once(str(tmp_path), url)
        assert len(url.calls) == 2
    assert spend_of(tmp_path) == (30, bound, 2)


def test_death_between_record_and_settling_is_mended_without_asking(tmp_path: Path) -> None:
    with openai_server(small) as url:
        assert run_child(tmp_path, url, "model:recorded") == -signal.SIGKILL
        for _ in range(2):
            ask_once(str(tmp_path), url)
        assert len(url.calls) == 1
    assert spend_of(tmp_path) == (30, 0, 1)


# --- the worst case ----------------------------------------------------------------------------


def test_worst_case_counts_a_byte_as_a_token() -> None:
    text = "é" * 1000  # two bytes each
    bound = bound_of(ModelQuestion({"max_tokens": 50}, [user(text)], []), None)
    assert 2000 < bound.input_tokens < 2100
    assert bound.output_tokens == 50


def test_worst_case_of_a_long_dialogue_trusts_what_was_counted(tmp_path: Path) -> None:
    long = [user("x" * 100_000)]
    brain = say_each([Say("y" * 50, input_tokens=25_000, output_tokens=12)])
    with (
        openai_server(brain) as url,
        opened(tmp_path, meta_model="openai/any", base_urls={"all": url}) as run,
    ):
        asked = request(long, tools=(SHELL,))
        reply = run.client.chat(asked, conversation="c", turn=0)
        before = run.transcripts.before("c", 1)
    assert before is not None
    messages = [*long, reply.message, user("go on")]
    asked_with, tools = before.question.parameters, before.question.tools
    going_on = bound_of(ModelQuestion(asked_with, messages, tools), before)
    assert 25_012 < going_on.input_tokens < 25_200
    other_tools = bound_of(ModelQuestion(asked_with, messages, []), before)
    assert other_tools.input_tokens > 100_000
