"""The page of the HTML report: one Jinja template with its style sheet, filled by `html.py`.

It is a Python string and not a data file, so that the report needs nothing but the package's code.
Autoescaping is on: no value is marked safe here but our own charts.
"""

from typing import Final

STYLE: Final = """
:root { color-scheme: light dark;
  --bg: #ffffff; --panel: #f6f7f9; --ink: #1b1f24; --dim: #5d6773; --rule: #dde1e6;
  --good: #1a7f45; --bad: #c62f35; --warn: #9a6400; --open: #2463b8;
  --c0: #2463b8; --c1: #c2571a; --c2: #1a7f45; --c3: #8a3fa8; --c4: #d1367f; --c5: #0e7c86; }
@media (prefers-color-scheme: dark) { :root {
  --bg: #14171b; --panel: #1d2127; --ink: #e4e7eb; --dim: #9aa4b0; --rule: #333a43;
  --good: #56c785; --bad: #ff7b7f; --warn: #e0aa3e; --open: #79aef2;
  --c0: #79aef2; --c1: #f0935a; --c2: #56c785; --c3: #cb92e3; --c4: #f58bb8; --c5: #55c2cc; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1000px; padding: 28px 24px 60px; background: var(--bg);
  color: var(--ink); overflow-wrap: break-word;
  font: 15px/1.55 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 24px; margin: 0 0 2px; } h2 { font-size: 18px; margin: 40px 0 12px; }
h3 { font-size: 15px; margin: 20px 0 6px; }
p { margin: 6px 0; } .dim, .tick { color: var(--dim); fill: var(--dim); }
code, pre, .mono { font: 13px/1.5 ui-monospace, "SF Mono", "DejaVu Sans Mono", monospace; }
nav { margin: 14px 0 0; display: flex; flex-wrap: wrap; gap: 4px 14px; } a { color: var(--open); }
.cards { display: flex; flex-wrap: wrap; gap: 12px; margin: 20px 0 14px; }
.card { background: var(--panel); border-radius: 8px; padding: 12px 16px; flex: 1 1 170px; }
.card b { display: block; font-size: 24px; font-weight: 650; line-height: 1.3;
  white-space: nowrap; }
.card span { color: var(--dim); font-size: 13px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th { text-align: left; color: var(--dim); font-weight: 550; }
th, td { padding: 6px 14px 6px 0; border-bottom: 1px solid var(--rule); vertical-align: top; }
td.num { font-variant-numeric: tabular-nums; white-space: nowrap; }
.facts td:first-child { color: var(--dim); white-space: nowrap; width: 1%; padding-right: 22px; }
.facts td { overflow-wrap: anywhere; }
details { background: var(--panel); border-radius: 8px; margin: 10px 0; }
summary { cursor: pointer; padding: 10px 14px; } details > div { padding: 2px 16px 14px; }
pre { background: var(--bg); border: 1px solid var(--rule); border-radius: 6px; padding: 10px 12px;
  overflow-x: auto; margin: 8px 0; }
pre .add { color: var(--good); } pre .del { color: var(--bad); } pre .hunk { color: var(--open); }
.tag { display: inline-block; min-width: 118px; font-weight: 650; font-size: 13px; }
.PROMOTE { color: var(--good); fill: var(--good); stroke: var(--good); }
.INVALID { color: var(--bad); fill: var(--bad); stroke: var(--bad); }
.REJECT { color: var(--warn); fill: var(--warn); stroke: var(--warn); }
.INCONCLUSIVE { color: var(--open); fill: var(--open); stroke: var(--open); }
.pending { color: var(--dim); fill: var(--dim); stroke: var(--dim); }
.version { fill: var(--ink); stroke: var(--ink); }
.first { margin: 12px 0; } .first td { border: none; font-size: 15px; padding-bottom: 4px; }
@media (max-width: 600px) { .first td { display: block; width: auto !important; padding: 0; } }
.notice { background: var(--panel); border-left: 3px solid var(--open); padding: 6px 12px; }
.spend tr:last-child td { font-weight: 650; border-bottom: none; }
.spend td, .spend th { width: 20%; }
.alert { color: var(--warn); font-weight: 600; }
svg { max-width: 100%; height: auto; display: block; } svg text { fill: var(--ink); font-size: 13px;
  stroke: none; } svg text.tick { fill: var(--dim); font-size: 11px; }
.grid { stroke: var(--rule); stroke-width: 1; } .zero { stroke: var(--dim); stroke-width: 1.5; }
.bar { stroke-width: 3; stroke-linecap: round; opacity: .75; }
svg a:hover .dot, svg a:focus .dot { stroke-width: 5; }
.edge { fill: none; stroke: var(--rule); stroke-width: 2; } .edge.merge { stroke: var(--good); }
.curve { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
.c0 { stroke: var(--c0); } .c1 { stroke: var(--c1); } .c2 { stroke: var(--c2); }
.c3 { stroke: var(--c3); } .c4 { stroke: var(--c4); } .c5 { stroke: var(--c5); }
.band { stroke: none; opacity: .16; } .band.c0 { fill: var(--c0); } .band.c1 { fill: var(--c1); }
.band.c2 { fill: var(--c2); } .band.c3 { fill: var(--c3); } .band.c4 { fill: var(--c4); }
.band.c5 { fill: var(--c5); }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(300px, 1fr)); gap: 18px; }
.legend span { margin-right: 16px; white-space: nowrap; } .legend svg { display: inline-block;
  vertical-align: middle; margin-right: 6px; }
.msg { border-left: 3px solid var(--rule); padding: 0 0 0 12px; margin: 8px 0; }
.msg pre { margin: 2px 0; } footer { margin-top: 48px; color: var(--dim); font-size: 13px; }
@media print { details > div { display: block; } nav { display: none; } }
"""

# What several pages are made of.
PARTS: Final = """{% macro head(title, more='', live=none) -%}
<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'
{%- if live %}; script-src 'self'; connect-src 'self'{% endif %}">
<title>meta-agent: {{ title | visible }}</title><style>{{ style }}{{ more }}{% if live %}{{
live.style }}{% endif %}</style>{% if live %}<meta name="token" content="{{ live.token }}">
<script src="/page.js" defer></script>{% endif %}</head><body>
{%- endmacro %}
{%- macro cards_of(cards) %}<div class="cards">
{% for card in cards %}<div class="card"><span>{{ card.name }}</span><b>{{ card.value }}</b>
<span>{{ card.detail }}</span></div>{% endfor %}
</div>{% endmacro %}
{%- macro metrics_of(layers) %}<div class="scroll"><table><tr><th>layer</th><th>metric</th>
<th>value</th><th>what it is</th></tr>
{% for layer, metrics in layers.items() %}{% for name, value in metrics.items() %}
<tr><td>{{ layer | visible }}</td><td>{{ name | visible }}</td><td class="num">{{ value | number }}
</td><td class="dim">{{ (layer ~ '.' ~ name) | meaning }}</td></tr>{% endfor %}{% endfor %}
</table></div>{% endmacro %}"""

TEMPLATE: Final = """{{ head('run ' ~ state.run, '', live) }}<main>
<header><h1>{{ headline }}</h1>
<p class="dim">run <span class="mono">{{ state.run | visible }}</span> · domain {{ state.domain |
visible }} · policy {{ state.config.policy | visible }} · meta-agent {{ state.config.meta_model |
visible }} · <b id="alive"{% if live and live.dead %} class="dead"{% endif %}>{{ live.word if live
else ended }}</b></p>
<table class="facts first">{% for one in sentences %}<tr><td>{{ one.about }}</td><td>{{ one.words }}
{%- if one.command %}<br><code>{{ one.command }}</code>{% endif %}</td></tr>{% endfor %}</table>
{% if replay %}<p class="notice">{% for name, value in replay %}<b>{{ name }}</b> {{ value }}
{%- if not loop.last %} · {% endif %}{% endfor %}</p>{% endif %}
{% for one in state.waiting %}<p class="notice"><b>waits for a person</b> {{ one.asks | visible }}
</p>{% if live %}<form class="answer" data-subject="{{ one.subject | visible }}">
<input name="feedback" placeholder="what should change" aria-label="what should change">
<button value="APPROVE">Approve</button> <button value="REVISE">Send back</button>
<button value="ABORT">End the run</button> <span class="told alert"></span></form>{% endif %}
{% endfor %}
<nav>{% for anchor, name in sections %}<a href="#{{ anchor }}">{{ name }}</a>{% endfor %}{% if live
%}<a href="#heat">Tasks</a><a href="#attempts">Attempts</a>{% endif %}</nav>
</header>

{% if before_after %}<div class="scroll" style="margin-top:1.5rem">{{ before_after }}</div>
<p class="dim">Clean success: solved according to the sealed grader and without flagged conduct.
Bars are 95 % intervals. The vault split is read once, at the end
{%- if trainings %}; {{ trainings | join("; ") }}{% endif %}.</p>{% endif %}
{{ cards_of(cards) }}
{% if claims %}<details id="claims"><summary>What is claimed, on what it rests, what is not
</summary><div>{% for name, value in claims %}<p class="dim"><b>{{ name }}</b> {{ value }}</p>
{% endfor %}</div></details>{% endif %}

{% if cells %}
<h2 id="cells">Bundles</h2>
<p class="dim">Ideas trained together and without each: clean success on the search split, training
seed 0, against what the cell stands on. It explains; what is proven is the claim.</p>
{% if by_generation %}<div class="scroll">{{ by_generation }}</div><p class="dim">Green is what was
gone on from, red is barred by a veto; bars are 95 % intervals over tasks, of one training.</p>
{% endif %}
<div class="scroll"><table><tr>{% for name in cell_columns %}<th>{{ name }}</th>{% endfor %}</tr>
{% for row in cells %}<tr>{% for value in row %}<td{% if loop.index in (4, 5) %} class="num"
{%- endif %}>{{ value }}</td>{% endfor %}</tr>{% endfor %}</table></div>
{% endif %}

{% if state.candidates %}
<h2 id="candidates">What was tried</h2>
<div class="scroll">{{ lineage }}</div>
{% if effects %}<h3>Effect on clean success; of a bundle's member its share, which explains</h3>
<div class="scroll">{{ effects }}</div>
<p class="dim">Only what is estimated above a bar is promoted, so such estimates are too high on
average; "likelier" allows for that.</p>{% endif %}
{% for one in state.candidates.values() %}
<details id="{{ one.short_id | visible }}">
<summary><span class="tag {{ css(one.kind) }}">{{ one.kind | visible }}</span>
<b>{{ one.short_id | visible }}</b> <span class="dim">{{ one.label | visible }}</span> ·
{{ one.statement | one_line }}</summary><div id="in-{{ one.short_id | visible }}">
<table class="facts">
<tr><td>hypothesis</td><td>{{ one.statement | visible }}</td></tr>
<tr><td>prediction</td><td>{{ prediction(one.hypothesis) }}</td></tr>
{% for line in one.hypothesis.evidence or [] %}<tr><td>rests on</td><td>{{ line | visible }}</td>
</tr>{% endfor %}
{% for name in one.hypothesis.skills or [] %}<tr><td>skill used</td><td>{{ name | visible }}</td>
</tr>{% endfor %}
{% for decision in state.decisions_on(one.id) %}<tr><td>decided by</td><td>{{ decision.told |
visible }}</td></tr>{% endfor %}
{% for reason in one.reasons %}<tr><td>because</td><td>{{ reason | visible }}</td></tr>{% endfor %}
{% if one.effect %}<tr><td>effect</td><td>{{ one.effect | effect }} points, {{ one.effect.pairs }}
pairs, {{ one.effect.training_seeds | unit }}</td></tr>{% endif %}
{% if test_text(one) %}<tr><td>test</td><td>{{ test_text(one) }}</td></tr>{% endif %}
{% for name, value in verdict_numbers(one) %}<tr><td>{{ name | visible }}</td><td class="mono">{{
value | visible }}</td></tr>{% endfor %}
{% for screen in one.screens %}<tr><td>screen: {{ screen.stage | visible }}</td><td>{{ 'passed' if
screen.passed else 'failed' }} {{ (screen.reasons or []) | join('; ') | visible }}
<span class="mono">{{ screen.numbers | flat }}</span></td></tr>{% endfor %}
{% for live in one.lives %}<tr><td>live: {{ live.split | visible }}</td><td>{{
live_text(live) }}</td></tr>{% endfor %}
{% for name, told in parts_of(one) %}<tr><td>{{ name }}</td><td>{{ told | visible }}</td></tr>
{% endfor %}
<tr><td>commit</td><td class="mono">{{ one.commit | visible }}{% if one.merge %}, merged as {{
one.merge.commit | visible }}{% endif %}</td></tr>
</table>
{% if one.diff %}<pre>{% for css_class, line in diff_lines(one.diff) %}<span
{%- if css_class %} class="{{ css_class }}"{% endif %}>{{ line }}</span>
{% endfor %}</pre>{% endif %}
</div></details>
{% endfor %}{% endif %}

{% if predictions %}<h3>Predicted and realised, in this workspace</h3>
<table class="facts">{% for name, told in predictions %}<tr><td>{{ name }}</td><td>{{ told | visible
}}</td></tr>{% endfor %}</table>{% endif %}

{% if state.refused %}
<h2 id="refused">Refused before any test</h2>
<div class="scroll"><table><tr><th>generation</th><th>reason</th><th>draft</th></tr>
{% for one in state.refused %}<tr><td class="num">{{ one.generation }}</td><td>
<span class="alert">{{ one.code | visible }}</span><br>{{ one.reason | visible }}</td><td>{{
one.statement | visible }}</td></tr>{% endfor %}</table></div>
{% endif %}

{% if people %}
<h2 id="people">What people decided</h2>
<div class="scroll"><table><tr><th>about</th><th>decision</th></tr>{% for one in people %}<tr><td>{{
one.subject | visible }}</td><td>{{ one.told | visible }}</td></tr>{% endfor %}</table></div>
{% endif %}

{% if charts %}
<h2 id="training">Training</h2>
<p class="dim">A line is a version's mean over its training seeds, the band their least and
greatest.</p>
<p class="legend dim">{% for arm, colour in arms.items() %}<span><svg width="22" height="8"
viewBox="0 0 22 8"><line class="curve c{{ colour }}" x1="1" y1="4" x2="21" y2="4"/></svg>{{ arm |
visible }}</span>{% endfor %}</p>
<div class="charts">{% for name, chart in charts %}<figure style="margin:0"><figcaption
class="dim">{{ name | visible }}, by step</figcaption>{{ chart }}</figure>{% endfor %}</div>
{% endif %}

{% if state.evidence %}
<h2 id="evidence">Evidence</h2>
{% for evidence in state.evidence %}
<details{% if loop.last %} open{% endif %}><summary><b>Generation {{ evidence.generation }}</b>,
version <span class="mono">{{ evidence.version | visible }}</span>
{% if evidence.alerts %}<span class="alert">{{ evidence.alerts | length }} alert{{ 's' if
evidence.alerts | length > 1 }}</span>{% endif %}</summary><div{% if not
loop.previtem or loop.previtem.version != evidence.version %} id="in-{{ evidence.version | visible
}}"{% endif %}>
{% for alert in evidence.alerts %}<p><span class="alert">{{ alert.metric | visible }} {{ alert.value
| number }}</span> {{ alert.message | visible }}{% for line in evidence.behind(alert) %}<br>
<span class="mono">{{ line | visible }}</span>{% endfor %}</p>{% endfor %}
<details><summary>Every metric</summary><div>{{ metrics_of(evidence.layers) }}</div></details>
{% for exemplar in evidence.exemplars %}<details><summary>{{ exemplar.mode | visible }} ·
<span class="mono">{{ exemplar.task_key | visible }}</span> {{ exemplar.summary | one_line }}
</summary><div>{% if exemplar.steps %}<pre>{{ exemplar.steps
| join('\n') | visible }}</pre>{% endif %}{% if exemplar.last_words %}<p class="mono">{{
exemplar.last_words | visible }}</p>{% endif %}
{% for message in exemplar.messages or [] %}<div class="msg"><span class="dim">{{
message.role | visible }}</span><pre>{{ message.content | visible }}</pre></div>{% endfor %}</div>
</details>{% endfor %}
</div></details>
{% endfor %}{% endif %}

{% if skills %}
<h2 id="skills">Skills written</h2>
<div class="scroll"><table><tr><th>skill</th><th>from</th><th>standing</th><th>worth</th>
<th>what it says</th></tr>
{% for skill in skills %}
<tr><td><b>{{ skill.name | visible }}</b>{% if skill.negative %} <span class="alert">warns</span>
{% endif %}</td><td>{{ within_run(skill.candidate or '', state.run) | visible }}</td><td>{{
skill.status | visible }}</td><td>{{ (skill.worth or 'not tried') | visible }}</td><td>{{
skill.description | visible }}</td></tr>{% endfor %}</table></div>
{% endif %}

<h2 id="spend">Spend and settings</h2>
{% if state.spend %}<div class="scroll"><table class="spend"><tr>{% for heading in spend_headings %}
<th>{{ heading }}</th>{% endfor %}</tr>{% for row in spend_rows %}<tr>{% for cell in row %}
<td{% if not loop.first %} class="num"{% endif %}>{{ cell | visible }}</td>{% endfor %}</tr>
{% endfor %}</table></div>
<p class="dim">Not settled: set aside for calls whose outcome nobody knows; it counts against the
caps. A price that is not known is unknown, never 0.</p>
{% else %}<p class="dim">{{ 'Replies came from a recording: nothing was asked or paid.' if replay
else 'No model behind a server was asked.' }}</p>{% endif %}
<details><summary>Settings of this run</summary><div><table class="facts">
{% for name, value in settings %}<tr><td>{{ name | visible }}</td><td class="mono">{{ value | flat
}}</td><td class="dim">{{ origin.get(name, '') | visible }}</td></tr>{% endfor %}</table></div>
</details>
</main>{% if live %}{{ live.sections }}{% endif %}
<footer>Made by meta-agent from {{ state.workspace | visible }}/ledger.sqlite. The same numbers:
<code>meta-agent report --json</code>.</footer>
</body></html>
"""
