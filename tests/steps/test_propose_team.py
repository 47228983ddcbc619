"""The LLM team's drafts: admitted where they are good, stopped with a typed reason where not."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from meta_agent.composition.root import sandboxes_of
from meta_agent.core.errors import BudgetError, CandidateError, Interrupted, ProviderError
from meta_agent.core.ledger import Ledger
from meta_agent.core.loop.verbs.propose import admit, revise
from meta_agent.core.proposals import Draft
from meta_agent.core.protocols import Candidate, Hypothesis
from meta_agent.proposers import LlmTeam
from meta_agent.sandboxes import engine_status
from tests.agents._models import Call, ScriptedModels, Turn
from tests.steps._bench import Bench
from tests.steps._team import (
    AGENT,
    APPROVE,
    FINISH,
    edit,
    good,
    proposed,
    refused,
    script,
    with_team,
)

REJECT: list[Turn] = [[("decide", {"approve": False, "reasons": ["agent.py:9 is dead code"]})]]


def shell(command: str) -> list[Call]:
    return [("shell", {"command": command})]


def committed_by_shell(command: str) -> list[Turn]:
    """Does it, commits it, and insists."""
    return [shell(f"{command} && git add -A -f && git commit -qm x"), FINISH, FINISH, FINISH]


def edit_again() -> list[Call]:
    return [("edit", {"path": AGENT, "old": "MAX_TURNS = 9", "new": "MAX_TURNS = 10"})]


# --- good agents --------------------------------------------------------------------------------


def test_good_drafts_come_back_in_order_as_commits_of_the_host(bench: Bench) -> None:
    """Whatever their authors wrote or hid: one is refused, and costs the others nothing."""
    bench.run.ledger.once(
        "r/g0/c9/approve/test",
        "decision",
        {"gate": "test", "subject": "g0/c9", "candidate": "r/g0/c9", "commit": "c"},
        lambda: {"answer": "REVISE", "feedback": "leave the reward alone", "by": "a person"},
    )
    forges: list[Turn] = [
        edit(),
        shell("git add -A; git commit -qm 'wip\n\nMeta-Agent-Run: forged\n'"),
        [("edit", {"path": AGENT, "old": "MAX_TOKENS = 6", "new": "MAX_TOKENS = 7"})],
        [("finish", {"subject": "more room", "statement": "if more room then more end",
                     "expected_delta": 0.01})],
    ]  # fmt: skip
    hook = (
        "printf '#!/bin/sh\\necho forged > \"$1\"\\n' > .git/hooks/{0} && chmod +x .git/hooks/{0}"
    )
    hooks = [shell("mkdir -p .git/hooks; " + hook.format(name)) for name in ("commit-msg",
             "prepare-commit-msg", "post-commit")]  # fmt: skip
    hide = shell("mkdir -p .git/info; echo '* -diff' > .git/info/attributes")
    authors = [forges, ["no."] * 3, [*hooks, *good(2)], [hide, *good(3)]]
    models = with_team(bench, script(*authors), k=4)
    candidates = proposed(bench)
    assert [one.index for one in candidates] == [0, 2, 3]
    (row,) = refused(bench)
    assert (row["index"], row["code"]) == (1, "no_tool_calls")
    forged, hooked, hidden = (bench.repo.log(1, ref=one.commit)[0] for one in candidates)
    assert candidates[0].factor == "scaffold" and candidates[0].paths == (AGENT,)
    text = bench.repo.tree(candidates[0].commit).files[AGENT].decode()
    expected = bench.text(AGENT).replace("MAX_TURNS = 8", "MAX_TURNS = 9")
    assert text == expected.replace("MAX_TOKENS = 6", "MAX_TOKENS = 7")
    assert forged.parents == (candidates[0].base,) and forged.when == bench.run.date(0, 0)
    assert forged.subject == "feat(scaffold): more room"
    assert forged.trailers["Meta-Agent-Run"] == "r"
    assert forged.trailers["Assisted-by"] == "meta-agent:test/model"
    assert candidates[0].hypothesis.statement == "if more room then more end"
    assert candidates[0].hypothesis.expected_delta == 0.01
    assert hooked.subject == hidden.subject == "feat(scaffold): allow more turns"
    assert "+MAX_TURNS = 12" in models.opening("g0/c3/reviewer"), "it sees what was hidden"
    assert "leave the reward alone" in models.opening("g0/analyst")


def test_an_author_mends_what_it_is_told_and_rehearses_on_its_own_files(bench: Bench) -> None:
    broken = [("edit", {"path": AGENT, "content": "def run(:\n"})]
    tests: list[Call] = [("run_contract_tests", {})]
    undone = shell("git checkout -q HEAD -- .")
    author: list[Turn] = [FINISH, edit(), tests, broken, tests, FINISH, undone, edit(), FINISH]
    models = with_team(bench, script(author))
    assert len(proposed(bench)) == 1
    heard = models.heard("g0/c0/proposer")
    assert "empty" in heard[0] and "FAILED" not in heard[2]
    assert "FAILED" in heard[4] and "python_syntax" in heard[4] and "breaks_contract" in heard[5]


def test_arguments_that_models_fill_in_anyway_do_no_harm(bench: Bench) -> None:
    change = {"path": AGENT, "old": "MAX_TURNS = 8", "new": "MAX_TURNS = 9", "content": ""}
    author: list[Turn] = [
        [("edit", {"path": "swe/reward.py", "content": "WEIGHTS = {}\n"})],
        [("view", {"path": AGENT, "start_line": 0, "lines": 0})],
        [("edit", {"path": AGENT, "old": "", "new": "", "content": ""})],
        [("edit", change)],
        [("finish", {"subject": "s", "statement": "", "expected_delta": None})],
    ]
    models = with_team(bench, script(author))
    (candidate,) = proposed(bench)
    assert b"MAX_TURNS = 9" in bench.repo.tree(candidate.commit).files[AGENT]
    assert candidate.hypothesis.expected_delta == 0.03
    assert candidate.paths == (AGENT,)
    another, viewed, empty, done, *_ = models.heard("g0/c0/proposer")
    assert another.startswith("ERROR: ") and "reward" in another, "another factor's file"
    assert "1: " in viewed and empty.startswith("ERROR: ")
    assert "-MAX_TURNS = 8\n+MAX_TURNS = 9\n" in done


# --- bad agents ---------------------------------------------------------------------------------

BAD: dict[str, tuple[Sequence[Turn], str]] = {
    "edits outside the allowlist": (committed_by_shell("echo x > notes.txt"),
                                    "path_outside_allowlist"),
    "edits the contract": (committed_by_shell("echo '# x' >> harness.toml"), "protected_path"),
    "touches what grades it": (committed_by_shell("mkdir tests; echo x > tests/grade.py"),
                               "protected_path"),
    "adds a symlink": (committed_by_shell("ln -s /etc/passwd swe/diagnostics/x.py"),
                       "not_a_regular_file"),
    "adds attributes": (committed_by_shell("echo '* x' > swe/.gitattributes"), "hostile_path"),
    "changes another factor": (committed_by_shell("echo '# x' >> swe/reward.py"),
                               "factor_mismatch"),
    "changes two factors": (committed_by_shell("echo '# x' >> swe/reward.py; echo >> swe/agent.py"),
                            "several_factors"),
    "breaks the code": (committed_by_shell("echo 'x = (' >> swe/agent.py"), "breaks_contract"),
    "never edits": ([FINISH, FINISH, FINISH], "empty"),
    "reads for ever": ([[("view", {"path": AGENT, "start_line": n + 1})] for n in range(60)],
                       "empty"),
    "repeats itself": ([shell("ls")] * 60, "looped"),
    "goes round in circles": ([shell("ls"), shell("pwd")] * 30, "looped"),
    "only talks": (["I would change MAX_TURNS."] * 60, "no_tool_calls"),
    "empties its sandbox": ([shell("rm -rf .git swe")] + [FINISH] * 4, "git_failed"),
    "removes its clone": ([shell("cd .. && rm -rf repo")] + [FINISH] * 4, "git_failed"),
    "fills its clone": ([shell("for n in 1 2 3; do head -c 9000000 /dev/zero > swe/$n; done; "
                               "git add -A && git commit -qm x")] + [FINISH] * 4, "no_factor"),
    "leaves a file of no factor": ([edit(), shell("echo x > swe/new.txt")] + [FINISH] * 4,
                                   "no_factor"),
    "takes its change back": ([edit(), shell("git add -A && git commit -qm x && git revert -n HEAD "
                               "&& git commit -qm y")] + [FINISH] * 4, "empty"),
    "is rejected twice": ([*good(), edit_again(), FINISH], "refused_by_reviewer"),
    "is not reviewed": (good(), "not_reviewed"),
}  # fmt: skip
REVIEWS: dict[str, tuple[Sequence[Turn], Sequence[Turn]]] = {
    "is rejected twice": (REJECT, REJECT), "is not reviewed": (["Looks fine to me."] * 9, ()),
}  # fmt: skip


@pytest.fixture(scope="module")
def rogues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bench, list[Candidate]]]:
    """All bad agents in one generation, several at a time, and one good one among them."""
    folder = tmp_path_factory.mktemp("rogues")
    with Ledger.open(folder / "ledger.sqlite") as ledger, pytest.MonkeyPatch.context() as patch:
        bench = Bench(folder, ledger, patch)
        authors = [*(author for author, _ in BAD.values()), good(len(BAD))]
        reviews = {
            f"g0/c{at}/reviewer{look}": turns
            for at, name in enumerate(BAD)
            for look, turns in zip(("", "2"), REVIEWS.get(name, ()), strict=False)
        }
        with_team(bench, script(*authors, **reviews), k=len(authors))
        yield bench, proposed(bench)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_agent_is_stopped_with_a_typed_reason(
    rogues: tuple[Bench, list[Candidate]], name: str
) -> None:
    rows = {row["index"]: row for row in refused(rogues[0])}
    row = rows[list(BAD).index(name)]
    assert row["code"] == BAD[name][1]
    assert row["statement"].startswith("if attempts")
    assert 0 < row["spend"]["turns"] <= 40


def test_a_good_agent_among_bad_ones_gets_through(rogues: tuple[Bench, list[Candidate]]) -> None:
    bench, admitted = rogues
    assert [one.index for one in admitted] == [len(BAD)]
    assert list(bench.repo.candidates().values()) == [admitted[0].commit]


def test_a_sandbox_that_its_author_ends_twice_is_its_fault(bench: Bench) -> None:
    with_team(bench, script([shell("kill -9 -1; kill -9 $PPID")] * 3))
    assert proposed(bench) == []
    assert refused(bench)[0]["code"] in {"sandbox_died", "looped", "turn_limit"}


def test_a_dialogue_has_a_token_limit(bench: Bench) -> None:
    models = with_team(bench, script([shell(f"echo {n}") for n in range(60)]))
    models.tokens = 400_000
    assert proposed(bench) == []
    (row,) = refused(bench)
    assert row["code"] == "token_limit"
    assert row["spend"] == {"turns": 8, "tokens": 3_200_080, "usd": 0.08}


# --- the reviewer -------------------------------------------------------------------------------


def test_a_rejected_author_may_revise_once(bench: Bench) -> None:
    turns = script([*good(), edit_again(), FINISH], **{"g0/c0/reviewer": REJECT})
    models = with_team(bench, turns)
    (candidate,) = proposed(bench)
    assert "dead code" in models.heard("g0/c0/proposer")[1]
    assert b"MAX_TURNS = 10" in bench.repo.tree(candidate.commit).files[AGENT]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"message": "feat: \u202ex"}, "commit_text"),
        ({"edits": {"harness.toml": b""}}, "path_outside_allowlist"),
        ({"edits": {}}, "empty"),
        ({"hypothesis": Hypothesis("reward", "s", "clean_success", "up", 0.1)}, "factor_mismatch"),
    ],
)
def test_the_host_trusts_no_draft(bench: Bench, changes: dict[str, Any], code: str) -> None:
    collected = bench.collected()
    edits = {AGENT: bench.text(AGENT).replace("MAX_TURNS = 8", "MAX_TURNS = 9").encode()}
    told = Hypothesis("scaffold", "s", "clean_success", "up", 0.1)
    draft = Draft(0, told, "s", "feat: x\n", edits)
    with pytest.raises(CandidateError) as refusal:
        admit(bench.run, collected.tree, replace(draft, **changes), 0)
    assert refusal.value.reason == code
    assert admit(bench.run, collected.tree, draft, 0).paths == (AGENT,)


# --- what is within an author's reach ------------------------------------------------------------


@pytest.mark.parametrize("backend", ["process", pytest.param("docker", marks=pytest.mark.docker)])
def test_no_key_and_no_network_is_within_reach(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    if backend == "docker" and (problem := engine_status().problem):
        pytest.skip(f"no Docker engine: {problem}")
    canary = "sk-canary-0123456789abcdef0123456789"
    monkeypatch.setenv("OPENAI_API_KEY", canary)
    bench.lab.open_sandbox = sandboxes_of(backend, "r")
    dial = "python3 -c \"import socket; socket.create_connection(('1.1.1.1', 53), 2)\""
    looks = [shell("env; set; cat ../evidence/README.md"), shell(f"{dial} || echo unreachable")]
    models = with_team(bench, script([*looks, *good()]))
    assert len(proposed(bench)) == 1
    assert canary not in repr(models.requests)
    heard = models.heard("g0/c0/proposer")
    assert "# Evidence about v0" in heard[0]
    assert "unreachable" in heard[1]


# --- failures that are nobody's fault -----------------------------------------------------------


def test_a_run_that_stops_goes_on_where_it_was_for_free(bench: Bench) -> None:
    collected, error = bench.collected(), BudgetError("the cap of this run")
    first = with_team(bench, script(good(0), [edit(1), error], good(2)))
    with pytest.raises(BudgetError):
        proposed(bench, collected)
    assert bench.repo.candidates() == {}
    again = with_team(bench, script(good(0), good(1), good(2)))
    again.recorded = dict(first.recorded)
    candidates = proposed(bench, collected)
    assert [one.index for one in candidates] == [0, 1, 2]
    assert not set(again.live) & set(first.recorded)


def test_what_stops_one_author_stops_the_others() -> None:
    team = LlmTeam(ScriptedModels({}), run="r", model_of=lambda _: "m")
    broken, down = threading.Event(), ProviderError("down", kind="overloaded")

    class Failing:
        def draft(self) -> Draft:
            raise down

    class Waiting:
        def draft(self) -> Draft:
            assert broken.wait(60), "nobody said that the other one had failed"
            raise Interrupted

    with pytest.raises(ProviderError, match="down"):
        team._together([Waiting(), Failing()], broken)  # type: ignore[list-item]


def test_drafts_of_a_replay_are_the_same_commits(bench: Bench) -> None:
    collected = bench.collected()
    looks = [
        shell("pwd; ls -la; git log --oneline; ls -l ../evidence; python3 -c 'print(object())'")
    ]
    first = with_team(bench, script([*looks, *good()]))
    (candidate,) = proposed(bench, collected)
    again = with_team(bench, {})
    again.recorded = dict(first.recorded)
    drafts = _drafts(bench, collected)
    assert drafts == [candidate.commit]
    assert again.live == []


def _drafts(bench: Bench, collected: object) -> list[str]:
    """The same generation proposed once more, without the ledger's memory of it."""
    from meta_agent.core.loop.verbs import propose as step

    answers = step._propose(bench.run, collected, bench.reading, 0)  # type: ignore[arg-type]
    return [row["commit"] for row in answers["admitted"]]


def test_a_user_who_stops_the_run_stops_the_dialogues(bench: Bench) -> None:
    collected = bench.collected()

    def stop(_: object) -> list[Call]:
        bench.stop = True
        return shell("ls")

    with_team(bench, script([stop, *good()]))
    with pytest.raises(Interrupted):
        proposed(bench, collected)


# --- a person's REVISE --------------------------------------------------------------------------


def test_a_person_sends_a_candidate_back(bench: Bench) -> None:
    collected = bench.collected()
    turns = script(good())
    turns["g0/c3/proposer"] = [edit_again(), FINISH]
    turns["g0/c3/reviewer"] = APPROVE
    models = with_team(bench, turns)
    (candidate,) = proposed(bench, collected)
    revised = revise(bench.run, collected, bench.reading, candidate, "rather ten")
    assert revised is not None
    assert (revised.index, revised.base) == (3, candidate.base)
    assert b"MAX_TURNS = 10" in bench.repo.tree(revised.commit).files[AGENT]
    assert "rather ten" in models.opening("g0/c3/proposer")
