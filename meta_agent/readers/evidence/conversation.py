"""The conversation audit: where policy, scaffold and environment do not tell the same story.

Per model call there are four texts: what the policy saw, what it wrote, what the environment was
asked for it and answered. A scaffold stands between each two of them, and whatever it forgets,
rewrites or makes up shows as a disagreement. `metrics.toml` says what each number is.

Promises: one pass; memory by distinct short replies, not by rollout; nothing is said about what a
record cannot show (see `exchanges`). None of these numbers is a verdict: a scaffold may well say
"no" in its own words, and what a clean harness shows too is no finding (`reference`).

Not covered: calls that a scaffold makes right and pointless, and texts in anything but strings.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from meta_agent.core.chat import ran_as_command, tool_calls_of
from meta_agent.core.evidence import Mean
from meta_agent.core.parsing.strict import leaves
from meta_agent.core.protocols import JSON, Message, Rollout, ToolEvent
from meta_agent.readers.evidence._running import share

EXAMPLES: Final = 3
_KNOWN_REPLIES = 20_000
_REPLY_CHARS = 200  # of a reply that may be said again word for word
_EDGE_CHARS = 32  # of a long result, by which a cut one is still known
_QUOTED_CHARS = 80


class ModelCall(NamedTuple):
    """One model call: its context, its reply, its tool events, and what the next call showed."""

    turn: int
    context: Sequence[Message]
    reply: Message
    events: Sequence[ToolEvent]
    next_shown: Sequence[Message] | None  # what the next call showed anew; None after the last one


def exchanges(rollout: Rollout) -> list[ModelCall]:
    """Returns an attempt's model calls in order; the earliest are missing if not all was stored.

    They are rebuilt from the last call's messages and the recorded changes between calls. Assistant
    messages that a scaffold wrote after a reply are taken for that reply.
    """
    changes = {view.turn: view for view in rollout.views}
    events: dict[int, list[ToolEvent]] = defaultdict(list)
    for event in tool_calls_of(rollout):
        events[event.turn].append(event)
    calls: list[ModelCall] = []
    whole, next_shown = list(rollout.messages), None
    for turn in range(rollout.turns - 1, -1, -1):
        if not whole or whole[-1].get("role") != "assistant":
            break
        context = whole[:-1]
        calls.append(ModelCall(turn, context, whole[-1], events[turn], next_shown))
        change = changes.get(turn)
        if change is None:
            replies = [
                at for at, message in enumerate(context) if message.get("role") == "assistant"
            ]
            n_kept, removed = (replies[-1] + 1 if replies else 0), list[Message]()
        elif len(change.removed) < change.lost:
            break
        else:
            n_kept, removed = change.unchanged, change.removed
        whole, next_shown = context[:n_kept] + removed, _less(context[n_kept:], removed)
    return calls[::-1]


def fates(call: ModelCall, before: Sequence[str]) -> Iterator[tuple[ToolEvent, str, str]]:
    """Yields triples: a tool result, how the next call shows it, and that next call's last text.

    The second item is "" for "unchanged", else `result_cut`, `result_altered`, `result_dropped`
    (not shown) or `result_stale` (shown was one of `before`, the results of earlier calls).
    """
    if call.next_shown is None:
        return
    texts = [text for message in call.next_shown if (text := _text(message))]
    for event in call.events:
        if event.result:
            yield event, _fate(event.result, texts, before), texts[-1] if texts else ""


@dataclass(slots=True)
class ConversationLayer:
    """Counts where a scaffold distorts the exchange of policy and environment, with examples."""

    tasks: Mapping[str, Mapping[str, JSON]] = field(default_factory=dict)  # key -> view
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    counts: Counter[str] = field(default_factory=Counter)
    forgotten: Mean = field(default_factory=Mean)
    coverage: Mean = field(default_factory=Mean)
    place: Mean = field(default_factory=Mean)
    unseen: Mean = field(default_factory=Mean)
    replies: dict[str, list[int]] = field(default_factory=dict)  # words -> [asked, silent]
    first_silent: dict[str, str] = field(default_factory=dict)
    returned: Counter[int] = field(default_factory=Counter)
    most_turns: int = 0

    def add(self, rollout: Rollout) -> None:
        if rollout.error is not None and rollout.error.kind == "infra":
            return
        calls = exchanges(rollout)
        self.counts["attempts"] += 1
        self.most_turns = max(self.most_turns, rollout.turns)
        self.returned[rollout.turns] += rollout.stop_reason == "returned"
        if calls and calls[0].turn == 0:
            self._add_task(rollout, calls[0])
        ever: Counter[str] = Counter()
        results: list[str] = []
        for before, call in zip([None, *calls], calls, strict=False):
            if before is not None:
                self._add_memory(rollout, call, before, ever)
            ever |= Counter(map(_key, call.context))
            ever[_key(call.reply)] += 1
            self._add_written(rollout, call)
            self._add_shown(rollout, call, results)
            results += [event.result for event in call.events]

    def _add_task(self, rollout: Rollout, call: ModelCall) -> None:
        task = dict(self.tasks.get(rollout.task_key, {}))
        if ran_as_command(rollout):
            task.pop("tools", None)  # a command brings tools of its own
        inputs = [leaf for leaf in _leaves(task) if leaf]
        if not inputs:
            return
        text = "\n".join(map(_text, call.context))
        missing = [leaf for leaf in inputs if leaf not in text]
        self.unseen.add(share(len(missing), len(inputs)))
        if missing:
            self._example("task_unseen", rollout, call, f"{_quoted(missing[0])} is not shown")

    def _add_memory(
        self, rollout: Rollout, call: ModelCall, before: ModelCall, ever: Counter[str]
    ) -> None:
        missing = ever - Counter(map(_key, call.context))
        self.forgotten.add(share(missing.total(), ever.total()))
        if missing:
            message = f"{missing.total()} of {ever.total()} earlier messages are not shown"
            self._example("forgotten", rollout, call, message)
        self.counts["later_calls"] += 1
        if _key(before.reply) in missing:
            self.counts["reply_changed"] += 1
            message = f"{_quoted(_text(before.reply))}, as it was written, is not shown again"
            self._example("reply_changed", rollout, call, message)

    # --- written and asked ----------------------------------------------------------------------

    def _add_written(self, rollout: Rollout, call: ModelCall) -> None:
        self.counts["replies"] += 1
        self.counts["reply_silent"] += not call.events
        self._add_words(rollout, call)
        written = _written(call.reply)
        functions = [item.get("function") or {} for item in call.reply.get("tool_calls") or ()]
        called = [str(function.get("name")) for function in functions]
        self.counts["calls"] += len(call.events)
        extra = [e for e in call.events if e.tool not in called] if called else call.events[1:]
        self.counts["call_unwritten"] += len(extra)
        if extra:
            message = f"{extra[0].tool} was called and not written"
            self._example("call_unwritten", rollout, call, message)
        for event in call.events[:1] if not called else call.events:
            self._add_arguments(rollout, call, event, written)

    def _add_words(self, rollout: Rollout, call: ModelCall) -> None:
        """Counts whether the same reply is a call in one attempt and none in another."""
        words = _text(call.reply)
        if len(words) > _REPLY_CHARS or len(self.replies) >= _KNOWN_REPLIES:
            return
        self.replies.setdefault(words, [0, 0])[not call.events] += 1
        if not call.events:
            self.first_silent.setdefault(words, _where(rollout, call.turn))

    def _add_arguments(
        self, rollout: Rollout, call: ModelCall, event: ToolEvent, written: str
    ) -> None:
        values = [value for value in _leaves(event.arguments) if value]
        if not values or not written:
            return
        self.counts["arguments"] += len(values)
        self.coverage.add(min(1.0, sum(map(len, values)) / len(written)))
        if (index := written.rfind(values[-1])) >= 0:
            self.place.add((index + len(values[-1])) / len(written))
        at = 0
        for value in values:
            index = written.find(value, at)
            kind = ""
            if index < 0:
                kind = "argument_moved" if value in written else "argument_changed"
                self.counts[kind] += 1
                message = f"wrote {_quoted(written)}, {event.tool} was given {_quoted(value)}"
                self._example(kind, rollout, call, message)
            at = max(at, index + len(value))

    # --- answered and shown ---------------------------------------------------------------------

    def _add_shown(self, rollout: Rollout, call: ModelCall, before: Sequence[str]) -> None:
        for event, kind, text in fates(call, before):
            self.counts["results"] += 1
            if kind:
                self.counts[kind] += 1
                text = _quoted(text) if text else "nothing"
                message = f"{event.tool} answered {_quoted(event.result)}, shown was {text}"
                self._example(kind, rollout, call, message)

    # --- what came of it ------------------------------------------------------------------------

    def _example(self, kind: str, rollout: Rollout, call: ModelCall, message: str) -> None:
        if len(self.examples[kind]) < EXAMPLES:
            self.examples[kind].append(f"{_where(rollout, call.turn)}: {message}")

    def metrics(self) -> dict[str, float]:
        c = self.counts
        if not c["replies"]:
            return {}
        lost = {w: silent for w, (calling, silent) in self.replies.items() if calling and silent}
        c["reply_lost"] = sum(lost.values())
        for words in sorted(lost, key=lambda w: -lost[w])[:EXAMPLES]:
            message = (
                f"{self.first_silent[words]}: {_quoted(words)} asked for nothing, elsewhere it does"
            )
            if message not in self.examples["reply_lost"]:
                self.examples["reply_lost"].append(message)
        early = sum(n for turns, n in self.returned.items() if turns < self.most_turns)
        metrics = {name: share(c[name], c["replies"]) for name in ("reply_silent", "reply_lost")}
        metrics["ended_early"] = share(early, c["attempts"])
        if self.unseen.n:
            metrics["task_unseen"] = self.unseen.mean
        if c["later_calls"]:
            metrics["forgotten"] = self.forgotten.mean
            metrics["reply_changed"] = share(c["reply_changed"], c["later_calls"])
        if c["calls"]:
            metrics["call_unwritten"] = share(c["call_unwritten"], c["calls"])
        if c["arguments"]:
            metrics["argument_coverage"] = self.coverage.mean
            metrics |= {"argument_place": self.place.mean} if self.place.n else {}
            for name in ("argument_changed", "argument_moved"):
                metrics[name] = share(c[name], c["arguments"])
        if c["results"]:
            metrics |= {name: share(c[name], c["results"]) for name in _FATES}
        return metrics

    def quoted(self) -> dict[str, tuple[str, ...]]:
        """Returns examples by kind of distortion (such as `forgotten`), with task and turn."""
        return {
            kind: tuple(lines[:EXAMPLES]) for kind, lines in sorted(self.examples.items()) if lines
        }


_FATES: Final = ("result_cut", "result_altered", "result_dropped", "result_stale")


def _fate(result: str, texts: Sequence[str], before: Sequence[str]) -> str:
    """Returns `result_` and how the texts changed a result, or "" if they show it unchanged."""
    if any(result in text for text in texts):
        return ""
    if not texts:
        return "result_dropped"
    if any(text in before for text in texts):
        return "result_stale"
    long = len(result) > 2 * _EDGE_CHARS
    edges = (result[:_EDGE_CHARS], result[-_EDGE_CHARS:]) if long else ()
    cut = any(text in result or any(edge in text for edge in edges) for text in texts)
    return "result_cut" if cut else "result_altered"


def _less(messages: Sequence[Message], earlier: Iterable[Message]) -> list[Message]:
    """Returns the messages without those that were there before, wherever they stood."""
    there = Counter(map(_key, earlier))
    rest = []
    for message in messages:
        key = _key(message)
        if there[key]:
            there[key] -= 1
        else:
            rest.append(message)
    return rest


def _key(message: Message) -> str:
    calls = message.get("tool_calls")
    more = json.dumps(calls, sort_keys=True, default=str) if calls else ""
    return f"{message.get('role')}\0{_text(message)}\0{more}"


def _text(message: Message) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else "\n".join(_leaves(content))


def _written(reply: Message) -> str:
    """Returns what the policy wrote, with the arguments of its tool calls."""
    parts = [_text(reply)]
    for call in reply.get("tool_calls") or ():
        arguments = (call.get("function") or {}).get("arguments")
        try:
            parts += _leaves(json.loads(arguments) if isinstance(arguments, str) else arguments)
        except ValueError:
            parts.append(str(arguments))
    return "\n".join(part for part in parts if part)


def _leaves(value: JSON) -> Iterator[str]:
    """Yields the strings and numbers of a JSON value in order, without true and false."""
    for leaf in leaves(value):
        if isinstance(leaf, str | int | float) and not isinstance(leaf, bool):
            yield str(leaf)


def _where(rollout: Rollout, turn: int) -> str:
    return f"{rollout.split}/{rollout.task_key}#{rollout.sample_idx} turn {turn}"


def _quoted(text: str) -> str:
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= _QUOTED_CHARS else flat[: _QUOTED_CHARS - 1] + "…")
