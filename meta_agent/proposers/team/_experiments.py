"""Experiments of a dialogue: an edit rolled out, trained for a few steps, or replayed.

Promises: an edit has passed static and contract checks before it costs anything; no dialogue takes
more calls or attempts than it was lent, and a call that would says so in a sentence. What is lent
and what a call is charged depend on the dialogue alone, never on what runs beside it, so that a
recorded dialogue hears the same words again.

Does not cover: carrying them out (`HostServices`): in sandboxes, once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from meta_agent.core.errors import CandidateError, ConfigError
from meta_agent.core.proposals import EditTrial, Grant, HostServices, Rehearsal
from meta_agent.core.protocols import JSON, HarnessTree
from meta_agent.proposers.team import _limits
from meta_agent.proposers.team._fence import Fence, clip
from meta_agent.proposers.team._tools import (
    TEXT,
    WHOLE,
    Arguments,
    Tool,
    ToolError,
    text_of,
    tool,
    whole_of,
)

FILE_CHARS: Final = 200_000
UNPAID: Final[Mapping[str, object]] = {"experiments": "", "trains_edits": False}
"""What a prompt says where nothing was lent."""
_FILES: Final = 20
INLINE: Final[Mapping[str, JSON]] = {
    "edits": {
        "type": "array",
        "minItems": 1,
        "maxItems": _FILES,
        "description": "changes of the harness: in a file the text `old`, which must occur once, "
        "becomes `new`, or `content` is the whole file. One factor, or two that mask each other",
        "items": {
            "type": "object",
            "properties": {"path": TEXT, "old": TEXT, "new": TEXT, "content": TEXT},
            "required": ["path"],
        },
    }
}
"""The arguments of a tool call that holds its edit as a list of changes to harness files."""


@dataclass(slots=True)
class Experiments:
    """The tools with which one model tries out edits, and the rollouts that it spent on them."""

    host: HostServices
    grant: Grant
    fence: Fence
    tree_of: Callable[[Arguments], HarnessTree]
    edit_schema: Mapping[str, JSON]
    """The arguments that say what the edit is; none where its files are staged."""
    keep: Callable[[str, str], str] = lambda _name, _text: ""
    """Puts a result among the evidence and says where."""
    _spent: int = 0
    _calls: int = 0
    _trained: bool = False

    @property
    def attempts_left(self) -> str:
        """Returns a sentence on the rollouts and tool calls left; "" if none were granted."""
        lent, calls = self.grant, _limits.EXPERIMENTS - self._calls
        if not lent.attempts:
            return ""
        return (
            f"{lent.attempts - self._spent:,} attempts and {calls} calls are left to you, of the "
            f"{lent.declared:,} attempts that this generation may spend on experiments; a training "
            f"of the bundle takes {lent.cell:,} from the same share"
        )

    def values(self) -> dict[str, object]:
        """Returns prompt variables: `attempts_left`, and whether the grant pays for a training."""
        return {"experiments": self.attempts_left, "trains_edits": self._pays_training()}

    def _pays_training(self) -> bool:
        return 0 < self.grant.version + self.grant.edit <= self.grant.attempts

    def tools(self) -> list[Tool]:
        if not self.grant.attempts:
            return []
        trial = {
            "policy": {"type": "string", "enum": ["base", "trained"]},
            "split": {"type": "string", "enum": ["search", "train"]},
            "tasks": {**WHOLE, "maximum": _limits.TRIED_TASKS},
        }
        lent = self.grant
        tools = [tool("try_edit", _TRY, {**trial, **self.edit_schema}, self._try)]
        if self._pays_training():
            description = _TRAIN.format(lent=lent, first=lent.version + lent.edit)
            tools.append(tool("train_edit", description, self.edit_schema, self._train))
        if self.edit_schema:  # whose files are staged replays them as they are
            tools.append(tool("replay_edit", _REPLAY, self.edit_schema, self._replay))
        return tools

    def _try(self, arguments: Arguments) -> str:
        policy, split = text_of(arguments, "policy"), text_of(arguments, "split")
        if policy not in ("base", "trained") or split not in ("search", "train"):
            raise ToolError("policy must be base or trained, and split search or train")
        tasks = whole_of(arguments, "tasks", default=1)
        if tasks > _limits.TRIED_TASKS:
            raise ToolError(f"{tasks} tasks are too many; the limit is {_limits.TRIED_TASKS}")
        return self._metered(
            arguments,
            EditTrial(
                policy="base" if policy == "base" else "trained",
                split="search" if split == "search" else "train",
                tasks=tasks,
            ),
        )

    def _train(self, arguments: Arguments) -> str:
        return self._metered(arguments, None)

    def _replay(self, arguments: Arguments) -> str:
        tree = self.tree_of(arguments)
        self._quote(tree, None)
        self._take(0)
        return self._report("replay", self.host.replay(tree))

    def _metered(self, arguments: Arguments, trial: EditTrial | None) -> str:
        tree = self.tree_of(arguments)
        price = self._quote(tree, trial)
        if trial is None and not self._trained:
            price += self.grant.version
        self._take(price)
        self._trained = self._trained or trial is None
        return self._report("train" if trial is None else "try", self.host.experiment(tree, trial))

    def _quote(self, tree: HarnessTree, trial: EditTrial | None) -> int:
        try:
            return self.host.quote(tree, trial)
        except (CandidateError, ConfigError) as error:
            raise ToolError(
                self.fence.wrap("FAILED its checks, nothing ran", str(error))
            ) from error

    def _take(self, price: int) -> None:
        if self._calls == _limits.EXPERIMENTS or self._spent + price > self.grant.attempts:
            raise ToolError(f"this needs one call and {price:,} attempts; {self.attempts_left}")
        self._calls, self._spent = self._calls + 1, self._spent + price

    def _report(self, what: str, rehearsal: Rehearsal) -> str:
        page = self.keep(f"experiments/{self._calls:02d}-{what}.md", rehearsal.text)
        text = clip(rehearsal.text, _limits.RESULT_CHARS)
        answer = self.fence.wrap("measured" if rehearsal.ok else "FAILED", text)
        return f"{answer}\n[{page}{self.attempts_left}]"


def inline(tree: HarnessTree) -> Callable[[Arguments], HarnessTree]:
    """Returns a function that makes the `edits` of a tool call's arguments in a copy of `tree`."""

    def edited_tree(arguments: Arguments) -> HarnessTree:
        rows = arguments.get("edits")
        if not isinstance(rows, list) or not 1 <= len(rows) <= _FILES:
            raise ToolError(f"'edits' must be a list of 1 to {_FILES} changes")
        files = dict(tree.files)
        for row in rows:
            if not isinstance(row, dict):
                raise ToolError("a change must be {path, old, new} or {path, content}")
            path = text_of(row, "path").strip().removeprefix("./")
            before = files.get(path)
            text = None if before is None else before.decode("utf-8", "replace")
            files[path] = edited(text, path, row).encode("utf-8", "replace")
        return draft_of(files)

    return edited_tree


def draft_of(files: Mapping[str, bytes]) -> HarnessTree:
    """Returns files (path to content) as a harness tree, named by their hash, not by a commit."""
    digest = hashlib.sha256()
    for path in sorted(files):
        name = path.encode("utf-8", "backslashreplace")
        digest.update(name + b"\0" + hashlib.sha256(files[path]).digest())
    tree_hash = digest.hexdigest()[:40]
    return HarnessTree(f"edit-{tree_hash[:8]}", tree_hash, files)


def edited(before: str | None, path: str, change: Arguments) -> str:
    """Returns a file's new text: `before` with `old` replaced by `new`, or the whole `content`.

    The keys `old`, `new` and `content` are in `change`. Raises ToolError if `old` does not occur
    exactly once in the file, or if the new text is too long.
    """
    # Some models fill in every argument they might leave out: an empty one counts as left out.
    old, content = (text_of(change, name, default="") for name in ("old", "content"))
    if old:
        content = _replaced(before, path, old, text_of(change, "new", default=""))
    elif not content:
        raise ToolError("give `old` and `new`, or the whole `content`")
    if len(content) > FILE_CHARS:
        raise ToolError(f"{path} would have {len(content)} characters; the limit is {FILE_CHARS}")
    return content


def _replaced(text: str | None, path: str, old: str, new: str) -> str:
    if text is None:
        raise ToolError(f"there is no file {path!r}; give `content` to create it")
    count = text.count(old)
    if count != 1:
        raise ToolError(f"`old` occurs {count} times in {path}; quote a text that occurs once")
    return text.replace(old, new)


_TRY = (
    "Experiment: rolls the edit out on a few tasks, with the base policy or the version's trained "
    "one (which has adapted to the version as it is), and reports on the attempts. One attempt a "
    "task; two on the train split, where the version's are made for comparison. Curriculum and "
    "recipe act in training alone and show nothing here."
)
_TRAIN = (
    "Experiment: trains {lent.steps} steps from the base policy under the edit and under the "
    "version, same seed, and reports both sides' clean success and what the edit's training went "
    "through. "
    "Takes {first:,} attempts the first time and {lent.edit:,} from then on."
)
_REPLAY = (
    "Experiment without attempts: scores stored training rollouts again under the edit's reward "
    "and filter and compares their orderings with the version's."
)
