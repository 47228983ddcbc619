"""The same solver and the same meta-agent, for agents that act through one shell tool."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.acceptance.brains._policy import Solver, Step
from tests.acceptance.brains._team import Said, Team, lines
from tests.acceptance.brains._team import Step as Done
from tests.loopback import Call, Say
from tests.loopback._speech import text_of

_EDIT: Final = (
    "import pathlib, sys; path = pathlib.Path(sys.argv[1]); text = path.read_text(); "
    "assert text.count(sys.argv[2]) == 1; path.write_text(text.replace(*sys.argv[2:]))"
)
_END: Final = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


@dataclass(frozen=True)
class ShellSolver(Solver):
    """Says in a comment on the first line of each command what it is for."""

    def steps(self, messages: Sequence[Mapping[str, Any]]) -> list[Step]:
        return [
            step._replace(tool=step.arguments["command"].split("\n")[0].removeprefix("# "))
            for step in super().steps(messages)
        ]

    def told_to_check(self, call: Call) -> bool:
        """Wherever the agent's prompts say so: in the system prompt or around the task."""
        first = (text_of(message["content"]) for message in call.messages[:2])
        return self.demands_a_check("\n".join(first))

    def spoken(self, call: Call, tool: str, arguments: dict[str, Any]) -> Say:
        (name,) = call.tool_names
        if tool == "submit" and name != "bash":
            return Say("The work is done.")
        command = f"# {tool}\n{_command(tool, arguments)}"
        return Say(f"Next: {tool}.", tool_calls=[(name, {"command": command})])


def _command(tool: str, arguments: dict[str, Any]) -> str:
    if tool == "search":
        return f"grep -rn {shlex.quote(arguments['pattern'])} {arguments['path']} | head -20"
    if tool == "edit":
        told = (arguments["path"], arguments["old"], arguments["new"])
        return shlex.join(["python3", "-c", _EDIT, *told])
    return str(arguments["command"]) if tool == "run" else _END


class Configurer(Team):
    """Adds one demand to the prompt of somebody's agent, where it is not made yet."""

    def __init__(self, file: str, before: str, demand: str) -> None:
        self.file, self.before, self.demand = file, before, demand

    def analyst(self, call: Call, done: list[Done]) -> Said:
        reads = ["evidence/report.md", self.file, "evidence/rollouts/index.csv"]
        if len(done) < len(reads):
            return "read_file", {"path": reads[len(done)]}
        number, text = next(row for row in lines(done[2].result) if row[0] == 2)
        hypothesis = {
            "factor": "scaffold",
            "statement": "If the prompt demands a last run of the report's example, then more "
            "attempts solve their task, because wrong first edits are seen and mended.",
            "metric": "clean_success",
            "direction": "up",
            "expected_delta": 0.3,
            "evidence": [{"path": "evidence/rollouts/index.csv", "line": number, "quote": text}],
            "plan": f"One more sentence in {self.file}.",
        }
        return "submit_hypotheses", {"hypotheses": [hypothesis]}

    def proposer(self, call: Call, done: list[Done]) -> Said:
        edit = {"path": self.file, "old": self.before, "new": self.demand + self.before}
        work: list[Said] = [
            ("view", {"path": self.file}),
            ("edit", edit),
            ("run_contract_tests", {}),
            ("finish", {"subject": "demand a last check"}),
        ]
        assert len(done) < len(work), f"not taken: {done[-1].result}"
        return work[len(done)]
