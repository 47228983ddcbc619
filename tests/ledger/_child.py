"""A small run in a process of its own, so that a test can kill it.

Usage: child.py LEDGER EFFECTS. Three steps, one nested; each appends its name to EFFECTS when its
work really runs, so the test can count.
"""

import sys
from pathlib import Path

from meta_agent.core.ledger import Ledger


def main(ledger_path: str, effects: str) -> None:
    def work(name: str, value: object) -> object:
        with Path(effects).open("a") as file:
            file.write(name + "\n")
        return value

    with Ledger.open(ledger_path) as ledger:
        ledger.start_run("r1", {"seed": 0}, config_hash="h")

        def outer() -> object:
            inner = ledger.once("r1/inner", "inner", {"n": 1}, lambda: work("inner", [1, 2]))
            return work("outer", {"inner": inner})

        ledger.once("r1/first", "first", {"n": 0}, lambda: work("first", "one"))
        ledger.once("r1/outer", "outer", {"n": 2}, outer)
        ledger.event("note", {"text": "all steps done"})
        ledger.finish_run("r1", "done")
    print("finished")


if __name__ == "__main__":
    main(*sys.argv[1:])
