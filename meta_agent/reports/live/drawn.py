"""Fragments of the live page: the list of attempts, one attempt, two side by side, the heat map.

What a model or a harness wrote goes through the same escapes as in the report.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple

from markupsafe import Markup

from meta_agent.core.protocols import JSON, Message, Rollout, TokenRecord, ToolEvent
from meta_agent.readers.evidence import Exchange, exchanges
from meta_agent.reports._format import number, one_line, value_text
from meta_agent.reports.live.attempts import (
    OUTCOMES,
    PAGE,
    Attempt,
    Chosen,
    Measurement,
    Wanted,
)
from meta_agent.reports.live.heat import Heat, drawn
from meta_agent.reports.pages.html import blocks_html, element
from meta_agent.reports.sections import Facts

STYLE: Final = """
.filter { display: flex; flex-wrap: wrap; gap: 8px 14px; align-items: end; margin: 10px 0; }
.filter label { color: var(--dim); font-size: 13px; display: flex; flex-direction: column; }
input, select, button { font: inherit; font-size: 14px; color: var(--ink); background: var(--bg);
  border: 1px solid var(--rule); border-radius: 6px; padding: 4px 8px; max-width: 260px; }
button { cursor: pointer; } :focus-visible { outline: 2px solid var(--open); outline-offset: 1px; }
.attempts tr[data-at] { cursor: pointer; } .attempts td { white-space: nowrap; }
.attempts tr[aria-selected=true] td { background: var(--panel); }
.sides { display: grid; grid-template-columns: repeat(auto-fit, minmax(280px, 1fr)); gap: 16px; }
.sides > article { min-width: 0; background: var(--panel); border-radius: 8px; padding: 4px 16px; }
.msg pre { white-space: pre-wrap; overflow-wrap: anywhere; max-height: 320px; overflow-y: auto; }
.msg.assistant { border-color: var(--open); } .msg.tool { border-color: var(--good); }
.msg.call { border-color: var(--warn); } .msg.gone { border-style: dashed; opacity: .75; }
.clean { color: var(--good); } .flagged { color: var(--bad); } .failed { color: var(--warn); }
.lost { color: var(--dim); } .stars { white-space: pre-wrap; overflow-wrap: anywhere; }
.stars span { border-bottom: 3px solid; } .p0 { border-color: var(--bad); }
.p1 { border-color: var(--warn); } .p2 { border-color: var(--rule); }
.cell.clean { fill: var(--c0); } .cell.part { fill: var(--c0); fill-opacity: .55; }
.cell.flagged { fill: #ee8434; } .cell.failed { fill: var(--warn); fill-opacity: .3; }
.cell.lost { fill: var(--dim); } .heat { max-width: none; cursor: crosshair; }
.heat text { font-size: 11px; } .key i { display: inline-block; width: 12px; height: 12px;
  margin: 0 5px 0 14px; border: 1px solid var(--rule); vertical-align: -1px; }
.key .clean { background: var(--c0); } .key .flagged { background: #ee8434; }
.key .part { background: color-mix(in srgb, var(--c0) 55%, transparent); }
.key .failed { background: color-mix(in srgb, var(--warn) 30%, transparent); }
.key .lost { background: var(--dim); } .dead { color: var(--bad); }
.figure { float: right; font-size: 12px; padding: 1px 6px; color: var(--dim); }
"""

SECTIONS: Final = Markup("""
<section id="heat"><h2>Tasks by versions</h2><div data-from="/heat"></div></section>
<section id="attempts"><h2>Attempts</h2><div data-from="/attempts"></div>
<div id="opened" tabindex="-1" aria-live="polite"></div>
<p class="dim">Keys: j and k walk, Enter opens, x puts beside, Escape closes, / filters.</p>
</section>
""")
INDEX: Final = (("heat", "Tasks"), ("attempts", "Attempts"))

_COLUMNS: Final = (
    *("", "task", "outcome", "version", "policy"),
    *("split", "reward", "turns", "ended", "flags"),
)
_KEY: Final = (
    *(("clean", "clean"), ("part", "some attempts"), ("flagged", "solved, flagged")),
    *(("failed", "failed"), ("lost", "lost to a machine"), ("", "not run")),
)


class _Call(NamedTuple):
    """One model call: messages that are new, messages that were dropped, the reply, the tools."""

    turn: int
    dropped: Sequence[tuple[str, str]]
    new: Sequence[tuple[str, str]]
    reply: str
    tools: Sequence[tuple[str, str, str, bool]]


def attempts(
    chosen: Chosen,
    query: Wanted,
    label: Callable[[str], str],
    policy: Callable[[Measurement], str],
) -> str:
    """Returns the list of attempts with its filters. `label` names a commit for people."""
    parts = [_filter(chosen, query), _counts(chosen)]
    parts += [element("p", f"left out: {line}", class_="alert") for line in chosen.damaged]
    if chosen.rows:
        head = element("tr", *(element("th", name) for name in _COLUMNS))
        rows = [_row(measurement, row, label, policy) for measurement, row in chosen.rows]
        table = element("table", head, *rows, class_="attempts")
        parts += [element("div", table, class_="scroll"), _pager(chosen)]
    elif chosen.stored:
        parts.append(element("p", "No attempt fits."))
    else:
        words = "No attempt is stored yet: the first evaluation that ends shows here."
        parts.append(element("p", words))
    return Markup().join(parts)


def _filter(chosen: Chosen, query: Wanted) -> Markup:
    task = element("input", name="task", value=query.task, autocomplete="off")
    hidden = element("input", type="hidden", name="measurement", value=query.measurement)
    clear = element("button", f"{query.measurement} ×", type="button", data_clear="measurement")
    return element(
        "form",
        element("label", "task", task),
        _choice("outcome", OUTCOMES, query.outcome),
        _choice("flag", chosen.flags, query.flag),
        _choice("version", chosen.versions, query.version),
        _choice("split", chosen.splits, query.split),
        hidden,
        clear if query.measurement else Markup(),
        class_="filter",
    )


def _choice(name: str, options: Sequence[str], current: str) -> Markup:
    choices = [Markup('<option value="">any</option>'), *_options(options, current)]
    return element("label", name, element("select", *choices, name=name))


def _options(options: Sequence[str], current: str) -> list[Markup]:
    return [
        element("option", option, value=option, selected=option == current) for option in options
    ]


def _counts(chosen: Chosen) -> Markup:
    parts = [element("b", f"{chosen.total:,}"), " attempts"]
    for name in OUTCOMES:
        if count := chosen.counts.get(name):
            parts += [" · ", element("span", f"{count:,} {name}", class_=name)]
    unread = chosen.read < chosen.stored
    if unread:
        parts.append(f" · {chosen.read:,} of {chosen.stored:,} read so far")
    return element("p", *parts, class_="dim", data_again=unread)


def _row(
    measurement: Measurement,
    row: Attempt,
    label: Callable[[str], str],
    policy: Callable[[Measurement], str],
) -> Markup:
    box = element("input", type="checkbox", aria_label="put beside")
    cells = [
        element("td", box),
        element("td", row.task),
        element("td", row.outcome, class_=row.outcome),
        element("td", label(measurement.commit)),
        element("td", policy(measurement)),
        element("td", measurement.split),
        element("td", number(row.reward), class_="num"),
        element("td", str(row.turns), class_="num"),
        element("td", row.stop),
        element("td", " ".join(row.flags)),
    ]
    return element("tr", *cells, tabindex="0", data_at=f"{measurement.short}:{row.line}")


def _pager(chosen: Chosen) -> Markup:
    start, end = chosen.start, chosen.start + len(chosen.rows)
    before = element("button", "before", data_start=str(start - PAGE))
    after = element("button", "next", data_start=str(start + PAGE))
    parts = (
        before if start else Markup(),
        f" {start + 1} to {end} ",
        after if start + PAGE < chosen.total else Markup(),
    )
    return element("p", *parts)


def attempt(rollout: Rollout, label: str, policy: str, vocabulary: Mapping[int, str]) -> str:
    """Returns one attempt as the policy saw it, with what the environment did and paid."""
    outcome = _outcome(rollout)
    heading = element("h3", rollout.task_key, " ", element("span", outcome, class_=outcome))
    facts = blocks_html([Facts(list(_facts(rollout, label, policy)))])
    calls = [part for call in _calls(rollout) for part in _call_parts(call)]
    return element("article", heading, facts, *calls, _token_part(rollout.tokens, vocabulary))


def _call_parts(call: _Call) -> Iterator[Markup]:
    yield element("h3", f"call {call.turn + 1}")
    if call.dropped:
        summary = element("summary", f"no longer shown: {len(call.dropped)} messages")
        messages = [_message("gone", *message) for message in call.dropped]
        yield element("details", summary, element("div", *messages))
    for role, text in call.new:
        yield _message("tool" if role == "tool" else "", role, text)
    yield _message("assistant", "the policy", call.reply)
    for name, arguments, answer, ok in call.tools:
        yield _message("call", name if ok else f"{name} (failed)", f"{arguments}\n→ {answer}")


def _message(kind: str, name: str, text: str) -> Markup:
    speaker = element("span", name, class_="dim")
    return element("div", speaker, element("pre", text), class_=f"msg {kind}".strip())


def _token_part(record: TokenRecord | None, vocabulary: Mapping[int, str]) -> Markup:
    """Returns the policy's tokens, underlined by their probability."""
    tokens = list(_tokens(record, vocabulary)) if record else []
    if record is None or not tokens:
        return Markup()
    words = "Underlined by probability: red below 10 %, amber below 50 %."
    if not record.exact:
        words += " Only the last part of the conversation has exact tokens."
    spans = [
        element("span", text, class_=f"p{_band(share)}", title=f"{100 * share:.1f} %")
        for text, share in tokens
    ]
    inner = element("p", words, class_="dim"), element("p", *spans, class_="mono stars")
    summary = element("summary", "tokens of the policy and their probability")
    return element("details", summary, element("div", *inner))


def _band(share: float) -> int:
    return 0 if share < 0.1 else 1 if share < 0.5 else 2


def heat_map(heat: Heat, split: str, splits: Sequence[str], reading: bool) -> str:
    """Returns the map of one split, with what a click needs to know."""
    if not heat.columns:
        return element("p", "No evaluation is stored yet.", data_again=reading)
    select = element("select", *_options(splits, split), name="split")
    keys = (
        part for name, text in _KEY for part in (Markup('<i class="{}"></i>').format(name), text)
    )
    columns = [[one_line(column.name, 60), column.measurement] for column in heat.columns]
    data = {"data_columns": json.dumps(columns), "data_tasks": json.dumps(list(heat.tasks))}
    more = f"; {heat.left_out} more are left out" if heat.left_out else ""
    words = f"{len(heat.tasks)} tasks, the most often solved first{more}. "
    words += "A click lists the attempts."
    parts = (
        element("form", element("label", "split", select), class_="filter"),
        element("p", *keys, class_="dim key"),
        element("div", drawn(heat), class_="scroll", **data),
        element("p", words, class_="dim", id="pointed", data_again=reading),
    )
    return Markup().join(parts)


def _outcome(rollout: Rollout) -> str:
    if rollout.outcome is None:
        return "lost"
    return "clean" if rollout.clean else "flagged" if rollout.outcome else "failed"


def _facts(rollout: Rollout, label: str, policy: str) -> Iterator[tuple[str, str]]:
    yield "version", f"{label}, commit {rollout.harness_commit[:12]}"
    yield "policy", policy
    yield "attempt", f"{rollout.split}, sample {rollout.sample_idx}, seed {rollout.seed}"
    yield "ended", f"{rollout.stop_reason} after {rollout.turns} turns"
    if rollout.error:
        yield "lost to", f"{rollout.error.kind}: {rollout.error.detail}"
    if rollout.flags:
        yield "flags", ", ".join(rollout.flags)
    for name, value in rollout.rewards.items():
        yield f"reward {name}", f"{number(value)} × {number(rollout.weights.get(name, 1.0))}"
    total = number(rollout.total_reward)
    advantage = f", advantage {number(rollout.advantage)}" if rollout.advantage is not None else ""
    yield "reward", total + advantage
    for name, detail in rollout.outcome_detail.items():
        yield f"grader: {name}", one_line(value_text(detail), 200)


def _calls(rollout: Rollout) -> Iterator[_Call]:
    """Yields each call with its new messages, or all messages if no calls are recorded."""
    calls = exchanges(rollout)
    if not calls:
        yield from _as_recorded(rollout)
        return
    before: list[Message] = []
    for call in calls:
        messages = list(call.context)
        same = takewhile(lambda pair: pair[0] == pair[1], zip(before, messages, strict=False))
        count = sum(1 for _ in same)
        yield _call(call, before[count:], messages[count:])
        before = [*messages, call.reply]


def _call(call: Exchange, dropped: Sequence[Message], new: Sequence[Message]) -> _Call:
    return _Call(
        call.turn,
        [_speech(message) for message in dropped],
        [_speech(message) for message in new],
        _speech(call.reply)[1],
        [_tool(event) for event in call.events],
    )


def _as_recorded(rollout: Rollout) -> Iterator[_Call]:
    if rollout.messages or rollout.tool_events:
        messages = [_speech(message) for message in rollout.messages]
        reply = (
            messages.pop()[1]
            if messages and rollout.messages[-1].get("role") == "assistant"
            else "–"
        )
        yield _Call(0, [], messages, reply, [_tool(event) for event in rollout.tool_events])


def _speech(message: Message) -> tuple[str, str]:
    content = message.get("content")
    text = content if isinstance(content, str) else "" if content is None else _json(content)
    calls = message.get("tool_calls")
    return str(message.get("role", "?")), text + (f"\n{_json(calls)}" if calls else "")


def _tool(event: ToolEvent) -> tuple[str, str, str, bool]:
    return event.tool, _json(event.arguments), event.result, event.ok


def _json(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


def _tokens(record: TokenRecord, vocabulary: Mapping[int, str]) -> Iterator[tuple[str, float]]:
    rows = zip(record.completion_ids, record.mask, record.logprobs, strict=True)
    for token, written, logprob in rows:
        if written:
            yield vocabulary.get(token, f"[{token}]"), math.exp(min(0.0, logprob or 0.0))


def vocabulary_of(tokenizer: Any) -> dict[int, str]:
    """Returns the text of each token from a `tokenizer.json`, or nothing if its form is unknown."""
    model = tokenizer.get("model") if isinstance(tokenizer, dict) else None
    words = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(words, dict):
        return {}
    return {at: word for word, at in words.items() if isinstance(at, int)}
