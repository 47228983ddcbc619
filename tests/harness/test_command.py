"""Command harnesses through the runner, on real sandboxes: good agents, bad ones, hostile ones."""

from __future__ import annotations

import pytest

from meta_agent.core.protocols import GenerateReply, GenerateRequest, RolloutFailure
from meta_agent.sandboxes import engine_status

from ._agents import AGENT, DeskDomain, Policy, calls, harness, roll, session

MEND = calls("echo mended > note.txt")


def test_an_agent_mends_its_copy_and_the_environment_grades_it() -> None:
    policy = Policy(MEND, "Done.")
    (row,) = roll(harness(), policy)
    assert (row.outcome, row.stop_reason, row.error) == (True, "submitted", None)
    assert row.verifier_inputs == {"found": "mended"}
    assert (row.turns, row.cost["tokens"]) == (2, 240.0)
    assert [m["role"] for m in row.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert row.messages[1]["content"] == "Mend 0."
    (event,) = row.tool_events
    assert (event.tool, event.ok) == ("agent", True)
    assert "exit 0" in event.result and "the end" in event.result


def test_every_attempt_has_a_sandbox_of_its_own() -> None:
    look = calls("cat note.txt; echo mine > note.txt; ls -A ..; pwd")
    policy = Policy(look, "Done.")
    rows = roll(harness(), policy, count=4)
    assert [row.task_key for row in rows] == ["t0", "t1", "t2", "t3"]
    seen = [row.messages[3]["content"] for row in rows]
    assert all(text.startswith("broken\n") for text in seen)
    assert len({text.splitlines()[-1] for text in seen}) == 4


def test_attempts_in_lock_step_are_asked_for_together() -> None:
    sizes: list[int] = []

    class Batches(Policy):
        def generate(self, requests: object) -> list[GenerateReply]:
            assert isinstance(requests, list)
            sizes.append(len(requests))
            return super().generate(requests)

    rows = roll(harness(), Batches(MEND, "Done.", lock_step=True), count=4)
    assert [row.outcome for row in rows] == [True] * 4
    assert sizes == [2, 2, 2, 2]


def test_the_environment_names_the_places_and_holds_no_key() -> None:
    show = calls("env; git log --oneline | wc -l; git status --short")
    (row,) = roll(harness(), Policy(show, "Done."))
    told = dict(
        line.split("=", 1) for line in row.messages[3]["content"].splitlines() if "=" in line
    )
    assert told["OPENAI_API_KEY"] == told["ANTHROPIC_API_KEY"] == "no-key-is-needed-here"
    assert told["OPENAI_BASE_URL"] == told["ANTHROPIC_BASE_URL"] + "/v1"
    assert told["GREETING"] == "at " + told["META_AGENT_REPO"]
    assert row.messages[3]["content"].splitlines()[-1] == "1"


def test_a_ceiling_ends_the_agent_and_its_work_is_graded() -> None:
    policy = Policy(MEND, calls("true"))
    (row,) = roll(harness(), policy, domain=DeskDomain(max_turns=3))
    assert (row.outcome, row.stop_reason, row.turns, row.error) == (True, "turn_limit", 3, None)
    assert "403" in row.tool_events[-1].result  # what the agent was told


def test_an_agent_that_does_not_end_is_killed_and_graded() -> None:
    agent = "import time\nopen('note.txt', 'w').write('mended')\ntime.sleep(600)\n"
    (row,) = roll(harness(agent), Policy("-"), domain=DeskDomain(wall_sec=2.0))
    assert (row.outcome, row.stop_reason) == (True, "wall_limit")


def test_an_agent_that_raises_without_work_is_at_fault() -> None:
    (row,) = roll(harness("raise SystemExit('no way')"), Policy("-"))
    assert row.error is not None and row.error.kind == "policy"
    assert "exit 1" in row.error.detail and "no way" in row.error.detail
    assert row.outcome is False


def test_an_agent_that_raises_after_its_work_is_graded() -> None:
    agent = "open('note.txt', 'w').write('mended')\nraise SystemExit(3)"
    (row,) = roll(harness(agent), Policy("-"))
    assert (row.outcome, row.stop_reason, row.error) == (True, "returned", None)
    assert row.tool_events[0].ok is False


def test_a_program_that_is_not_there_is_the_harness_at_fault() -> None:
    (row,) = roll(harness(command=["no-such-agent"]), Policy("-"))
    assert row.error is not None and row.error.kind == "policy"
    assert "no-such-agent" in row.error.detail


def test_what_an_agent_leaves_running_is_gone_before_its_work_is_read() -> None:
    agent = (
        "import subprocess\n"
        "subprocess.Popen(['sh', '-c', 'while :; do echo broken > note.txt; done'],"
        " start_new_session=True)\n"
        "open('note.txt', 'w').write('mended')\n"
    )
    (row,) = roll(harness(agent), Policy("-"))
    assert row.error is None and row.stop_reason in ("submitted", "returned")


@pytest.fixture
def docker() -> str:
    status = engine_status()
    if status.problem:
        pytest.skip(f"no Docker sandbox: {status.problem}")
    return "docker"


@pytest.mark.docker
def test_an_agent_that_kills_its_worker_fails_alone(docker: str) -> None:
    kills = "import os, sys\nif '0' in sys.argv[1]: os.kill(os.getppid(), 9)\n"
    rows = roll(harness(kills + AGENT), Policy(MEND, "Done."), count=2, backend=docker)
    assert rows[0].error is not None and rows[0].error.kind == "policy"
    assert rows[1].outcome is True


def test_a_model_server_that_fails_is_not_the_agent_at_fault() -> None:
    lost = GenerateReply("", "error", 0, 0, failure=RolloutFailure("infra", "the server is gone"))
    (row,) = roll(harness(), Policy(lost))
    assert row.error is not None and (row.error.kind, row.outcome) == ("infra", None)


@pytest.mark.docker
def test_a_sandbox_that_cannot_open_is_infrastructure(docker: str) -> None:
    tree = harness()
    toml = tree.files["harness.toml"].replace(b"editable", b'image = "no-such:1"\neditable', 1)
    broken = type(tree)("c", "t", {**tree.files, "harness.toml": toml})
    (row,) = roll(broken, Policy("-"), backend=docker)
    assert row.error is not None and row.error.kind == "infra"
    assert "no-such:1" in row.error.detail


@pytest.mark.docker
@pytest.mark.parametrize(
    ("attack", "kind"),
    [
        # Forged frames: to any process of its user the worker's pipe is open.
        (
            "import os\nfor n in range(3, 9):\n try: os.write(n, b'x' * 99)\n except OSError: pass",
            None,
        ),
        ("b = bytearray(3 << 30)", "policy"),
        (
            "import os, socket\nu = os.environ['OPENAI_BASE_URL']\n"
            "p = int(u.split(':')[2].split('/')[0])\n"
            "for _ in range(500):\n"
            " s = socket.create_connection(('127.0.0.1', p)); s.sendall(b'x' * 99)\n"
            "raise SystemExit(1)",
            "policy",
        ),
        (
            "import json, os, urllib.request as u\n"
            "m = [{'role': 'user', 'content': 'x' * 100}] * 5000\n"
            "b = json.dumps({'messages': m}).encode()\n"
            "u.urlopen(os.environ['OPENAI_BASE_URL'] + '/chat/completions', b)",
            "policy",
        ),
    ],
    ids=["forged-frames", "memory", "connections", "messages"],
)
def test_a_hostile_agent_costs_only_its_own_attempt(
    docker: str, attack: str, kind: str | None
) -> None:
    lines = "\n ".join(attack.splitlines())
    hostile = f"import sys\nif '0' in sys.argv[1]:\n {lines}\n"
    rows = roll(harness(hostile + AGENT), Policy(MEND, "Done."), count=2, backend=docker)
    if kind is not None:
        assert rows[0].error is not None and rows[0].error.kind == kind
        assert rows[0].outcome is False
    assert (rows[1].outcome, rows[1].error) == (True, None)


def test_a_domain_that_cannot_be_left_is_told_of() -> None:
    from ..rollouts._laboratory import LabDomain

    (row,) = roll(harness(), Policy("-"), domain=LabDomain())
    assert row.error is not None


def test_the_diagnostics_are_loaded_and_rewards_are_optional() -> None:
    with session(harness()) as held:
        rows = roll(harness(), Policy(MEND, "Done."))
        assert [m.values for m in held.measure(rows)] == [{"mean": 2.0}]
        assert held.reward(rows) == [{}]
        assert not held.has("reward") and held.keep([{}, {}]) == [1.0, 1.0]


@pytest.mark.parametrize(
    ("agent", "command", "name", "detail"),
    [
        ("pass", ["no-such-agent"], "command starts", "no-such-agent"),
        ("print('bye')", None, "command asks its model", ""),
        ("raise KeyError('config')", None, "command asks its model", "KeyError"),
    ],
)
def test_the_check_says_what_is_wrong(
    agent: str, command: list[str] | None, name: str, detail: str
) -> None:
    tree = harness(agent, command=command) if command else harness(agent)
    with session(tree) as held:
        (broken, *_) = [row for row in held.check([], []) if not row.ok]
    assert broken.name == name and detail in broken.detail


@pytest.mark.parametrize(("seconds", "ends"), [(4, True), (600, False)])
def test_a_trial_out_of_time_is_made_again_with_more_of_it(
    seconds: int, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "meta_agent.core.harness._trial.TRIAL_LIMITS_SEC", (2.0, 30.0 if ends else 4.0)
    )
    with session(harness(f"import time; time.sleep({seconds})\n{AGENT}")) as held:
        row = next(row for row in held.check([], []) if row.name == "command ends")
    assert row.ok is ends and (ends or "4 s" in row.detail)


def test_the_messages_of_one_attempt_reach_the_policy_in_order() -> None:
    seen: list[int] = []

    def note(request: GenerateRequest) -> object:
        seen.append(len(request.messages))
        assert request.tools and request.tools[0]["function"]["name"] == "sh"
        return calls("true", len(seen)) if len(seen) < 4 else "Done."

    roll(harness(), Policy(note))
    assert seen == [2, 4, 6, 8]
