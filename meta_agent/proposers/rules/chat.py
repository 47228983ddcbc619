"""Rules for a chat harness around a pretrained model: prompts and replies.

They read the version's own attempts. Texts of attempts enter a harness as literals only. Nothing
here applies to the nano policy, which reads single letters.

Not covered: harnesses that keep their prompts elsewhere than in constants of their Python files.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Final

from meta_agent.core.protocols import Message, Rollout
from meta_agent.proposers.rules._case import Case
from meta_agent.proposers.rules._rule import Diagnosis, clamp, rule
from meta_agent.proposers.rules._source import Constant, PythonFile, Surgery, literal

_EXAMPLE_CHARS: Final = 4_000  # of all worked examples together
_EXAMPLES: Final = "EXAMPLES"
_FORM_CHARS: Final = 300
_FORM: Final = "The whole reply has the form of this answer to another task: {answer}"
WORTH: Final = 0.05
"""The share of failed attempts from which showing how others were solved is worth an idea."""
_FENCE: Final = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)

# --- prompts ------------------------------------------------------------------------------------


@rule("worked-example", "scaffold")
def worked_example(case: Case) -> Diagnosis | None:
    """Suggests a worked example in the prompt if there is a clean attempt or a known reply."""
    return _with_examples(case, 1)


@rule("worked-examples", "scaffold")
def worked_examples(case: Case) -> Diagnosis | None:
    """Suggests three worked examples in the prompt if clean attempts or known replies are there."""
    return _with_examples(case, 3)


def _with_examples(case: Case, number: int) -> Diagnosis | None:
    if case.failing < WORTH:
        return None
    examples = list(islice(_examples(case.attempts), number))
    because = "these were solved cleanly"
    if len(examples) < number:
        solutions = case.situation.solutions()
        short = (pair for pair in solutions if sum(map(len, pair)) <= _EXAMPLE_CHARS // number)
        examples = [_turns(*pair) for pair in islice(short, number)]
        because = "the replies of training tasks are known"
    if len(examples) < number:
        return None
    messages = [message for example in examples for message in example]
    present = case.constant("scaffold", _EXAMPLES, list)
    if present and len(present.value) >= len(messages):
        return None
    edits = _replaced(case, present, messages) if present else _inserted(case, messages)
    return Diagnosis(
        strength=clamp(0.25 + case.failing / 2 + (0.01 if number == 1 else 0.0)),
        change=f"the conversation begins with {number} worked example(s)",
        effect="the policy answers in the form that is graded",
        because=f"attempts fail {case.failing:.0%} of the time, and {because}",
        delta=case.failing / 4,
        edits=edits,
        evidence=case.lines("clean_success"),
        risk="the examples are copied, and tasks that they come from are no test any more",
    )


@rule("say-form", "scaffold")
def say_form(case: Case) -> Diagnosis | None:
    """Suggests that the system prompt quotes an accepted answer if enough attempts fail.

    It costs fewer tokens than a worked example, which shows the task as well.
    """
    answer = next(_short_answers(case), None) if case.failing >= WORTH else None
    edits = _with_sentence(case, _FORM.format(answer=answer)) if answer else {}
    if not edits:
        return None
    return Diagnosis(
        strength=clamp(0.24 + case.failing / 2),
        change="the system prompt says what form the whole reply has, by an accepted answer",
        effect="the policy answers in the form that is graded",
        because=f"attempts fail {case.failing:.0%} of the time, and an accepted answer is known",
        delta=case.failing / 5,
        edits=edits,
        evidence=case.lines("clean_success"),
        risk="the answer is copied",
    )


def _short_answers(case: Case) -> Iterator[str]:
    """Yields accepted answers of one line to training tasks: those of attempts, then references."""
    of_attempts = (turns[1]["content"] for turns in _examples(case.attempts))
    references = (answer for _, answer in case.situation.solutions())
    for answer in chain(of_attempts, references):
        if 0 < len(answer) <= _FORM_CHARS and len(answer.splitlines()) == 1:
            yield answer


def _with_sentence(case: Case, sentence: str) -> dict[str, str]:
    """Returns the edit that ends the first text of a system message with a sentence."""
    names = "|".join(name for file in case.python("scaffold") for name in _system_names(file))
    prompt = case.constant("scaffold", names, str) if names else None
    return case.set_constant(prompt, f"{prompt.value.rstrip()}\n\n{sentence}\n") if prompt else {}


def _system_names(file: PythonFile) -> set[str]:
    """Returns the names that a system message is made of, through one local name at most."""
    messages = (n for n in ast.walk(file.tree) if isinstance(n, ast.Dict) and _is_system(n))
    names = {v.id for node in messages for v in node.values if isinstance(v, ast.Name)}
    for node in ast.walk(file.tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in names:
                names |= {inner.id for inner in ast.walk(value) if isinstance(inner, ast.Name)}
    return names


def _examples(attempts: Sequence[Rollout]) -> Iterator[tuple[Message, Message]]:
    """Yields request and answer of clean solved attempts: train tasks first, then short ones."""
    pairs: list[tuple[bool, int, str, str, str]] = []
    for attempt in attempts:
        requests = [m for m in attempt.messages if m.get("role") == "user"]
        replies = [m for m in attempt.messages if m.get("role") == "assistant"]
        if (
            attempt.clean
            and len(requests) == len(replies) == 1
            and not replies[0].get("tool_calls")
        ):
            request, answer = (str(m.get("content") or "") for m in (requests[0], replies[0]))
            size = len(request) + len(answer)
            pairs.append((attempt.split != "train", size, attempt.task_key, request, answer))
    tasks, room = set[str](), _EXAMPLE_CHARS
    for _, size, task, request, answer in sorted(pairs):
        if task not in tasks and answer.strip() and size <= room:
            tasks.add(task)
            room -= size
            yield _turns(request, answer)


def _turns(request: str, answer: str) -> tuple[Message, Message]:
    return {"role": "user", "content": request}, {"role": "assistant", "content": answer}


def _inserted(case: Case, messages: Sequence[Message]) -> dict[str, str]:
    """Returns the edit that puts messages after the system message, wherever a list has one."""
    edits: dict[str, str] = {}
    for file in case.python("scaffold"):
        surgery = Surgery(file)
        for node in ast.walk(file.tree):
            if isinstance(node, ast.List) and len(node.elts) > 1 and _is_system(node.elts[0]):
                system = node.elts[0]
                surgery.replace(system, f"{file.source_of(system)}, *{_EXAMPLES}")
        if surgery.text != file.text:
            edits[file.path] = _with_constant(file.with_text(surgery.text), messages).text
    return edits


def _replaced(case: Case, present: Constant, messages: Sequence[Message]) -> dict[str, str]:
    """Returns the edit that puts messages in the place of those that a scaffold begins with."""
    file = case.file(present.path)
    span = file.span(file.assignments[present.name])
    return {file.path: file.cut(*span, _listed(messages)).text}


def _is_system(node: ast.expr) -> bool:
    return isinstance(node, ast.Dict) and any(
        isinstance(value, ast.Constant) and value.value == "system" for value in node.values
    )


def _with_constant(file: PythonFile, messages: Sequence[Message]) -> PythonFile:
    """Returns the file with the examples as a constant, above the first function or class."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    definition = next((node for node in file.tree.body if isinstance(node, kinds)), None)
    first = len(file.text.splitlines()) + 1
    if definition is not None:
        first = min([definition.lineno, *(d.lineno for d in definition.decorator_list)])
    return file.with_block(first, f"{_EXAMPLES} = {_listed(messages)}\n\n\n")


def _listed(messages: Sequence[Message]) -> str:
    """Returns the source of a list of messages, a line each."""
    rows = (f'{{"role": "{m["role"]}", "content": {literal(m["content"])}}}' for m in messages)
    return "[\n" + "".join(f"    {row},\n" for row in rows) + "]"


# --- replies ------------------------------------------------------------------------------------


@rule("read-fenced-answer", "scaffold")
def read_fenced_answer(case: Case) -> Diagnosis | None:
    """Suggests submitting only what a code fence holds if failed attempts put answers in fences."""
    failed = [a for a in case.attempts if a.outcome is False]
    fenced = sum(bool(_FENCE.search(_last_reply(attempt))) for attempt in failed)
    share = fenced / len(failed) if failed else 0.0
    if share < 0.1:
        return None
    edits: dict[str, str] = {}
    for file in case.python("scaffold"):
        surgery = Surgery(file)
        for node in ast.walk(file.tree):
            match node:
                case ast.Call(func=ast.Attribute(attr="call"), args=[ast.Constant(value="submit")]):
                    for keyword in node.keywords:
                        words = file.source_of(keyword.value)
                        surgery.replace(keyword.value, f"unfenced({words})")
        if surgery.text != file.text and not file.function("unfenced"):
            edits[file.path] = file.with_text(surgery.text).with_end(_UNFENCED).text
    return Diagnosis(
        strength=clamp(0.3 + share / 2),
        change="the last fence of a reply is submitted",
        effect="right answers in a fence count",
        because=f"{share:.0%} of failed attempts end in a fenced answer",
        delta=share / 4,
        edits=edits,
        evidence=(f"{fenced} of {len(failed)} failed attempts end in a fence",),
        risk="answers that need their fence, or the words around it",
    )


def _last_reply(attempt: Rollout) -> str:
    replies = [m for m in attempt.messages if m.get("role") == "assistant"]
    return str(replies[-1].get("content") or "") if replies else ""


_UNFENCED: Final = '''
def unfenced(text):
    """Returns the content of the last fence of a text, or the text."""
    parts = text.split("```")
    if len(parts) < 3:
        return text
    inside = parts[-2] if len(parts) % 2 else parts[-1]
    first, newline, rest = inside.partition("\\n")
    return (rest if newline and len(first.split()) < 2 else inside).strip()
'''
