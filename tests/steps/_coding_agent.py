"""A stand-in for a coding agent's program: `python _coding_agent.py WAY`, in a session's folder.

It behaves in one of the ways below, each of which is one thing that a real program may do.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path

AGENT = Path("harness/swe/agent.py")
QUOTE = {"path": "swe/agent.py", "line": 9, "quote": "MAX_TURNS = 8"}


def state(turns: int = 9, **changes: object) -> None:
    row = {
        "subject": "allow more turns",
        "factor": "scaffold",
        "statement": f"if attempts may take {turns} turns then more end because they are cut",
        "metric": "clean_success",
        "direction": "up",
        "expected_delta": 0.03,
        "evidence": [QUOTE],
    }
    Path("hypothesis.json").write_text(json.dumps({**row, **changes}))


def edit(turns: int = 9) -> None:
    AGENT.write_text(AGENT.read_text().replace("MAX_TURNS = 8", f"MAX_TURNS = {turns}"))


def good() -> None:
    edit()
    state()
    print(json.dumps({"type": "assistant", "message": {"id": "m1"}}))
    usage = {"input_tokens": 40, "output_tokens": 2, "cache_read_input_tokens": 100}
    print(json.dumps({"type": "result", "usage": usage, "total_cost_usd": 0.25}))


def each() -> None:
    """Edits by how many ideas came before, and ends the search after the second."""
    count = sys.stdin.read().count("- if attempts may take")
    if count == 2:
        Path("hypothesis.json").write_text(json.dumps({"nothing_to_try": "all is done"}))
        return
    edit(9 + count)
    state(9 + count)


def nothing() -> None:
    Path("hypothesis.json").write_text(json.dumps({"nothing_to_try": "all attempts are clean"}))


def mends() -> None:
    """Breaks a quotation first, and mends it where it is told of it."""
    edit()
    mended = "has no line with" in sys.stdin.read()
    state(evidence=[QUOTE if mended else {**QUOTE, "quote": "no such line"}])


def protected() -> None:
    good()
    Path("harness/harness.toml").write_text("[harness]\n")


def two_factors() -> None:
    good()
    reward = next(Path("harness").rglob("*reward*.py"))
    reward.write_text(reward.read_text() + "\n# more\n")


def deletes() -> None:
    shutil.rmtree("harness", ignore_errors=True)
    shutil.rmtree("evidence", ignore_errors=True)
    state()


def deletes_itself() -> None:
    shutil.rmtree(Path.cwd())


def silent() -> None:
    """Prints nothing and leaves nothing."""


def fails() -> None:
    print("the login has expired", file=sys.stderr)
    sys.exit(3)


def is_limited() -> None:
    """Meets its rate limit, and says so with exit status 0."""
    said = {"type": "result", "subtype": "success", "is_error": True, "result": "limit reached"}
    print(json.dumps(said))


def is_limited_in_a_list() -> None:
    print(json.dumps([{"type": "system"}, {"type": "result", "is_error": True}]))


def fails_its_turn() -> None:
    print(json.dumps({"type": "turn.failed", "error": {"message": "limit reached"}}))


def is_limited_after_its_work() -> None:
    good()
    is_limited()


def is_limited_as_it_mends() -> None:
    """Breaks a quotation first, and meets its limit where it is told of it."""
    if "has no line with" in sys.stdin.read():
        is_limited()
    else:
        edit()
        state(evidence=[{**QUOTE, "quote": "no such line"}])


def fails_as_it_mends() -> None:
    if "has no line with" in sys.stdin.read():
        fails()
    edit()
    state(evidence=[{**QUOTE, "quote": "no such line"}])


def tries_again() -> None:
    print(json.dumps({"type": "error", "message": "reconnecting 1/5"}))
    good()


def hangs() -> None:
    time.sleep(600)


def hangs_after_its_work() -> None:
    good()
    sys.stdout.flush()
    hangs()


def chatters() -> None:
    for number in range(200):
        print(json.dumps({"type": "item.completed", "item": {"id": number}}), flush=True)
    hangs()


def floods() -> None:
    while True:
        print("x" * 65536)


def links() -> None:
    good()
    AGENT.unlink()
    AGENT.symlink_to("/etc/passwd")


def links_a_folder() -> None:
    good()
    Path("harness/swe/more").symlink_to("/etc")


def links_its_hypothesis() -> None:
    good()
    Path("hypothesis.json").unlink()
    Path("hypothesis.json").symlink_to("/etc/passwd")


def pipes() -> None:
    good()
    os.mkfifo("harness/swe/pipe.py")


def nests() -> None:
    good()
    os.chdir("harness/swe")
    for _ in range(1500):
        Path("d").mkdir()
        os.chdir("d")


def repository() -> None:
    """Leaves repositories whose settings would start a program, were one ever opened."""
    good()
    for folder in (Path(), Path("harness"), Path("harness/swe")):
        (folder / ".git").mkdir()
        (folder / ".git" / "config").write_text(f'[core]\n\tfsmonitor = "touch {sys.argv[2]}"\n')
        (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")


def large() -> None:
    good()
    with Path("harness/swe/large.py").open("wb") as file:
        file.truncate(1 << 40)


def not_json() -> None:
    edit()
    Path("hypothesis.json").write_text("more turns!")


def not_text() -> None:
    good()
    os.close(os.open(b"harness/swe/\xff.py", os.O_CREAT | os.O_WRONLY))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
