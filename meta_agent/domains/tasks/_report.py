"""A report as a model wrote it, compared with what its script really gives.

Promises: a report that passes has one script, which ran beside the package alone, twice the same on
the faulty tree, and one block of output, which is what it gave there. On the sound tree the script
gives something else. The text names no hidden test, no path of the source, no line of the fix.

Does not cover: whether the prose around it is true.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from meta_agent.domains.tasks._bench import ScriptRun
from meta_agent.domains.tasks._issue import SHOWN_CHARS, gives_away, scrubbed
from meta_agent.domains.tasks._measure import Comparison
from meta_agent.domains.tasks._source import plain_name

_BLOCK = re.compile(r"^[ \t]*```(\w*)[^\n]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
_PRIVATE = re.compile(r"(?:\.|\bimport )_(?!_)\w")
# Errors of a script that lacks something, not of the package.
_UNFIT = frozenset({"NameError", "ImportError", "ModuleNotFoundError", "SyntaxError"})


def problem_of(
    comparison: Comparison, report: str, tests: Sequence[str], fixed: Sequence[str], path: str
) -> str:
    """What is wrong with a report, in words for whoever wrote it; empty if it holds.

    Args:
        comparison: the sound and the faulty tree, and where scripts run.
        report: the text.
        tests: the deciding tests, by id.
        fixed: the lines that the fix puts back.
        path: the file that is fixed.
    """
    blocks = _BLOCK.findall(report)
    scripts = [text for language, text in blocks if language == "python"]
    outputs = [text for language, text in blocks if language != "python"]
    if len(scripts) != 1 or len(outputs) != 1:
        counts = f"{len(scripts)} ```python blocks and {len(outputs)} others"
        return f"the report has {counts}, not one script and one block with its output"
    names = {plain_name(test)[1].rpartition("::")[2] for test in tests}
    if repeated := names.intersection(re.findall(r"\w+", report)):
        return f"the report names the test {min(repeated)}"
    if path in report:
        return f"the report names the source {path}"
    if gives_away(report, fixed):
        return "the report repeats a line of the fix"
    if _PRIVATE.search(scripts[0]):
        return "the script takes a private name"
    return _untrue(comparison, scripts[0], outputs[0])


def _untrue(comparison: Comparison, script: str, stated: str) -> str:
    """How the stated output differs from what the script gives; empty if it does not."""
    trees = (comparison.sound, comparison.faulty, comparison.faulty)
    right, wrong, again = (comparison.bench.run_script(tree, script) for tree in trees)
    good, bad = _output(right), _output(wrong)
    both = f"It printed with the bug:\n{bad}\nand without it:\n{good}"
    if bad != _output(again) or "timeout" in (right.kind, wrong.kind):
        return "the script does not end, or gives something else every time"
    if {right.kind, wrong.kind} & _UNFIT:
        return f"the script lacks something of its own. {both}"
    if good == bad:
        return f"the script gives the same with the bug and without it:\n{bad}"
    if max(len(bad), len(good)) > SHOWN_CHARS:
        return f"the script prints more than {SHOWN_CHARS} characters"
    if _lines(stated) != _lines(bad):
        return f"the report does not state the output word for word. {both}"
    return ""


def _output(run: ScriptRun) -> str:
    """What a user sees of a run: the output, then the error, without what varies."""
    parts = (run.out.rstrip(), run.message.strip())
    return scrubbed("\n".join(part for part in parts if part))


def _lines(text: str) -> list[str]:
    return [line.strip() for line in scrubbed(text).split("\n") if line.strip()]
