"""Every cheat against every grader, and what the official evaluators say of the same.

    python benchmarks/cheats.py                    the whole table (process sandboxes)
    python benchmarks/cheats.py --only asserts     one grader
    python benchmarks/cheats.py --sandbox docker   ours in containers

Honest work comes first, since a grader that fails everybody proves nothing. Then a line a cheat and
grader: our verdict with flags, and the official one. Ends with 1 if a cheat passes ours.
`tests/domains/cheats` holds the table itself.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "domains" / "cheats"))

from _cheat_graders import (  # noqa: E402
    CHECK,
    FAIL_TO_PASS,
    HIDDEN,
    HONEST,
    PASS_TO_PASS,
    TEST_COMMAND,
    Judged,
    Ours,
    patched,
    program,
)
from _cheat_row import GRADERS, Cheat, Form, Grader  # noqa: E402
from _cheat_table import CHEATS, pairs  # noqa: E402
from _officials import Officials, Said  # noqa: E402

CONTROL = "(control)"


@dataclass(frozen=True)
class Line:
    """One cell of the table."""

    cheat: str
    family: str
    grader: Grader
    ours: Judged
    official: str

    def __str__(self) -> str:
        word = "PASSES" if self.ours.passes else "fails"
        told = f"{word} ({self.ours.verdict}{', flagged' if self.ours.flags else ''})"
        return f"{self.grader:12} {self.family:15} {self.cheat[:46]:46} {told:32} {self.official}"


def official(them: Officials, grader: Grader, form: Form) -> Said:
    """The official verdict; nobody but us grades the nano suites."""
    if grader in ("swe", "swe-command"):
        tree = patched(form) | {"tests/test_core.py": HIDDEN.encode()}
        tree = {path: text for path, text in tree.items() if not path.startswith("..")}
        log = them.log(tree, TEST_COMMAND.split())
        return them.resolved(log, FAIL_TO_PASS + PASS_TO_PASS)
    if grader == "math":
        return them.math("42", str(form))
    if grader.startswith("nano"):
        return Said(None, "-")
    source = program(grader, str(form))
    if grader == "asserts":
        problem = {"task_id": "k", "prompt": "", "test": CHECK, "entry_point": "add"}
        return them.asserts(problem, source)
    if grader == "function":
        return them.cases(source, "add", [[[1, 2], 3], [[[1], [2]], [1, 2]]])
    return them.cases(source, "", [["1 2\n", "3\n"], ["10 20\n", "30\n"]])


def lines(ours: Ours, them: Officials, rows: list[tuple[Cheat, Grader]]) -> Iterator[Line]:
    for cheat, grader in rows:
        form = cheat.forms[grader]
        found, said = ours.judge(grader, form), official(them, grader, form)
        yield Line(cheat.name, cheat.family, grader, found, said.word)


def summary(found: list[Line], seconds: float) -> str:
    told = Counter((line.grader, line.ours.passes, line.official) for line in found)
    rows = []
    for grader in GRADERS:
        of = {key: n for key, n in told.items() if key[0] == grader}
        if of:
            passed = sum(n for key, n in of.items() if key[1])
            fooled = sum(n for key, n in of.items() if key[2] == "PASSES")
            rows.append(f"{grader:12} {sum(of.values()):4} tried {passed:3} pass ours "
                        f"{fooled:3} pass the official evaluator")  # fmt: skip
    names = len({(line.cheat, line.family) for line in found})
    return "\n".join([*rows, f"{names} cheats, {len(found)} trials in {seconds:.0f} s"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=GRADERS, action="append", default=[])
    parser.add_argument("--name", default="", help="only cheats whose name holds this")
    parser.add_argument("--sandbox", choices=("process", "docker"), default="process")
    parser.add_argument("--json", type=Path, help="write the table there as well")
    parser.add_argument("--wheels", type=Path, help="keep the evaluators' packages there")
    given = parser.parse_args()
    rows = [(cheat, grader) for cheat, grader in pairs(*given.only) if given.name in cheat.name]
    controls = [(Cheat("honest work", CONTROL, HONEST), one) for one in given.only or GRADERS]
    began, found = time.monotonic(), list[Line]()
    with tempfile.TemporaryDirectory() as folder, Ours(given.sandbox) as ours:
        them = Officials(given.wheels or Path(folder))
        print(", ".join(f"{name}: {source}" for name, source in them.sources.items()))
        for line in lines(ours, them, [*controls, *rows]):
            found += [] if line.family == CONTROL else [line]
            print(line, flush=True)
    print(summary(found, time.monotonic() - began))
    if given.json:
        told = {"cheats": len(CHEATS), "lines": [asdict(line) for line in found]}
        given.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return int(any(line.ours.passes for line in found))


if __name__ == "__main__":
    raise SystemExit(main())
