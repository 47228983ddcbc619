"""Fragments of the live page: the list of attempts, one attempt, two side by side, the heat map.

What a model or a harness wrote goes through the same escapes as in the report.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple

from meta_agent.core.protocols import JSON, Message, Rollout, TokenRecord, ToolEvent
from meta_agent.readers.evidence import Exchange, exchanges
from meta_agent.reports._format import number, one_line, value_text
from meta_agent.reports.live.attempts import OUTCOMES, PAGE, Found, Measurement, Wanted
from meta_agent.reports.live.heat import Heat, drawn
from meta_agent.reports.pages.html import rendered

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

SECTIONS: Final = """
<section id="heat"><h2>Tasks by versions</h2><div data-from="/heat"></div></section>
<section id="attempts"><h2>Attempts</h2><div data-from="/attempts"></div>
<div id="opened" tabindex="-1" aria-live="polite"></div>
<p class="dim">Keys: j and k walk, Enter opens, x puts beside, Escape closes, / filters.</p>
</section>
"""

_LIST: Final = """
{% macro choice(name, options, chosen) %}<label>{{ name }}<select name="{{ name }}">
<option value="">any</option>{% for one in options %}<option value="{{ one }}"{% if one == chosen %}
selected{% endif %}>{{ one | visible }}</option>{% endfor %}</select></label>{% endmacro %}
<form class="filter">
<label>task<input name="task" value="{{ wanted.task }}" autocomplete="off"></label>
{{ choice('outcome', outcomes, wanted.outcome) }}{{ choice('flag', found.flags, wanted.flag) }}
{{ choice('version', found.versions, wanted.version) }}
{{ choice('split', found.splits, wanted.split) }}
<input type="hidden" name="measurement" value="{{ wanted.measurement }}">
{% if wanted.measurement %}<button type="button" data-clear="measurement">{{ wanted.measurement |
visible }} ×</button>{% endif %}
</form>
<p class="dim"{% if found.read < found.stored %} data-again{% endif %}>
<b>{{ '{:,}'.format(found.total) }}</b> attempts{% for name in outcomes if found.counts[name] %} ·
<span class="{{ name }}">{{ '{:,}'.format(found.counts[name]) }} {{ name }}</span>{% endfor %}
{% if found.read < found.stored %} · {{ '{:,}'.format(found.read) }} of {{
'{:,}'.format(found.stored) }} read so far{% endif %}</p>
{% for line in found.damaged %}<p class="alert">left out: {{ line | visible }}</p>{% endfor %}
{% if found.rows %}<div class="scroll"><table class="attempts"><tr><th></th><th>task</th>
<th>outcome</th><th>version</th><th>policy</th><th>split</th><th>reward</th><th>turns</th>
<th>ended</th><th>flags</th></tr>
{% for one, row in found.rows %}<tr tabindex="0" data-at="{{ one.short }}:{{ row.line }}"><td>
<input type="checkbox" aria-label="put beside"></td><td>{{ row.task | visible }}</td>
<td class="{{ row.outcome }}">{{ row.outcome }}</td><td>{{ label(one.commit) | visible }}</td>
<td>{{ policy(one) | visible }}</td><td>{{ one.split | visible }}</td><td class="num">{{ row.reward
| number }}</td><td class="num">{{ row.turns }}</td><td>{{ row.stop | visible }}</td><td>{{
row.flags | join(' ') | visible }}</td></tr>{% endfor %}</table></div>
<p>{% if found.start %}<button data-start="{{ found.start - page }}">before</button>{% endif %}
{{ found.start + 1 }} to {{ found.start + found.rows | length }}
{% if found.start + page < found.total %}<button data-start="{{ found.start + page }}">next</button>
{% endif %}</p>{% elif found.stored %}<p>No attempt fits.</p>{% else %}
<p>No attempt is stored yet: the first evaluation that ends shows here.</p>{% endif %}
"""

_ONE: Final = """
{% macro said(kind, name, text) %}<div class="msg {{ kind }}"><span class="dim">{{ name | visible
}}</span><pre>{{ text | visible }}</pre></div>{% endmacro %}
<article><h3>{{ one.task_key | visible }} <span class="{{ outcome }}">{{ outcome }}</span></h3>
<table class="facts">{% for name, value in facts %}<tr><td>{{ name | visible }}</td><td>{{ value |
visible }}</td></tr>{% endfor %}</table>
{% for call in calls %}<h3>call {{ call.turn + 1 }}</h3>
{% if call.gone %}<details><summary>no longer shown: {{ call.gone | length }} messages</summary>
<div>{% for name, text in call.gone %}{{ said('gone', name, text) }}{% endfor %}</div></details>
{% endif %}
{% for name, text in call.new %}{{ said(name if name == 'tool' else '', name, text) }}{% endfor %}
{{ said('assistant', 'the policy', call.reply) }}
{% for name, asked, answer, ok in call.tools %}{{ said('call', name ~ ('' if ok else ' (failed)'),
asked ~ '\n→ ' ~ answer) }}{% endfor %}{% endfor %}
{% if tokens %}<details><summary>tokens of the policy and their probability</summary><div>
<p class="dim">Underlined by probability: red below 10 %, amber below 50 %.{% if not exact %} Only
the last part of the conversation has exact tokens.{% endif %}</p>
<p class="mono stars">{% for text, share in tokens %}<span class="p{{ 0 if share < 0.1 else 1 if
share < 0.5 else 2 }}" title="{{ '%.1f' % (100 * share) }} %">{{ text | visible }}</span>
{%- endfor %}</p></div></details>{% endif %}
</article>
"""

_HEAT: Final = """
{% if told.columns %}<form class="filter"><label>split<select name="split">{% for one in splits %}
<option{% if one == split %} selected{% endif %}>{{ one | visible }}</option>{% endfor %}</select>
</label></form>
<p class="dim key"><i class="clean"></i>clean<i class="part"></i>some attempts<i class="flagged">
</i>solved, flagged<i class="failed"></i>failed<i class="lost"></i>lost to a machine<i></i>not run
</p><div class="scroll" data-columns="{{ columns }}" data-tasks="{{ tasks }}">{{ figure }}</div>
<p class="dim" id="pointed"{% if reading %} data-again{% endif %}>{{ told.tasks | length }} tasks,
the most often solved first{% if told.left_out %}; {{ told.left_out }} more are left out{% endif %}.
A click lists the attempts.
</p>{% else %}<p{% if reading %} data-again{% endif %}>No evaluation is stored yet.</p>{% endif %}
"""


class _Call(NamedTuple):
    """One model call for a reader: what it showed anew, what was said, what tools did."""

    turn: int
    gone: Sequence[tuple[str, str]]
    new: Sequence[tuple[str, str]]
    reply: str
    tools: Sequence[tuple[str, str, str, bool]]


def attempts(
    found: Found,
    wanted: Wanted,
    label: Callable[[str], str],
    policy: Callable[[Measurement], str],
) -> str:
    """The list with its filters."""
    return rendered(
        _LIST,
        found=found,
        wanted=wanted,
        label=label,
        policy=policy,
        outcomes=OUTCOMES,
        page=PAGE,
    )


def attempt(one: Rollout, label: str, policy: str, vocabulary: Mapping[int, str]) -> str:
    """One attempt as the policy saw it, with what the environment did and paid."""
    return rendered(
        _ONE,
        one=one,
        outcome=_outcome(one),
        facts=list(_facts(one, label, policy)),
        calls=list(_calls(one)),
        tokens=list(_tokens(one.tokens, vocabulary)) if one.tokens else [],
        exact=one.tokens is None or one.tokens.exact,
    )


def heat_map(told: Heat, split: str, splits: Sequence[str], reading: bool) -> str:
    """The map of one split, with what a click needs to know."""
    return rendered(
        _HEAT,
        told=told,
        split=split,
        splits=splits,
        reading=reading,
        figure=drawn(told),
        columns=json.dumps([[one_line(one.name, 60), one.measurement] for one in told.columns]),
        tasks=json.dumps(list(told.tasks)),
    )


def _outcome(one: Rollout) -> str:
    if one.outcome is None:
        return "lost"
    return "clean" if one.clean else "flagged" if one.outcome else "failed"


def _facts(one: Rollout, label: str, policy: str) -> Iterator[tuple[str, str]]:
    yield "version", f"{label}, commit {one.harness_commit[:12]}"
    yield "policy", policy
    yield "attempt", f"{one.split}, sample {one.sample_idx}, seed {one.seed}"
    yield "ended", f"{one.stop_reason} after {one.turns} turns"
    if one.error:
        yield "lost to", f"{one.error.kind}: {one.error.detail}"
    if one.flags:
        yield "flags", ", ".join(one.flags)
    for name, value in one.rewards.items():
        yield f"reward {name}", f"{number(value)} × {number(one.weights.get(name, 1.0))}"
    total = number(one.total_reward)
    advantage = f", advantage {number(one.advantage)}" if one.advantage is not None else ""
    yield "reward", total + advantage
    for name, detail in one.outcome_detail.items():
        yield f"grader: {name}", one_line(value_text(detail), 200)


def _calls(one: Rollout) -> Iterator[_Call]:
    """Each call with what is new in it; messages alone where the calls cannot be told apart."""
    told = exchanges(one)
    if not told:
        yield from _as_recorded(one)
        return
    before: list[Message] = []
    for call in told:
        seen = list(call.seen)
        same = takewhile(lambda pair: pair[0] == pair[1], zip(before, seen, strict=False))
        kept = sum(1 for _ in same)
        yield _call(call, before[kept:], seen[kept:])
        before = [*seen, call.reply]


def _call(call: Exchange, gone: Sequence[Message], new: Sequence[Message]) -> _Call:
    return _Call(
        call.turn,
        [_said(message) for message in gone],
        [_said(message) for message in new],
        _said(call.reply)[1],
        [_tool(event) for event in call.events],
    )


def _as_recorded(one: Rollout) -> Iterator[_Call]:
    if one.messages or one.tool_events:
        said = [_said(message) for message in one.messages]
        reply = said.pop()[1] if said and one.messages[-1].get("role") == "assistant" else "–"
        yield _Call(0, [], said, reply, [_tool(event) for event in one.tool_events])


def _said(message: Message) -> tuple[str, str]:
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
    """Texts by token, of a `tokenizer.json`; nothing where it is of another form."""
    model = tokenizer.get("model") if isinstance(tokenizer, dict) else None
    words = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(words, dict):
        return {}
    return {at: word for word, at in words.items() if isinstance(at, int)}
