"""The page of a comparison: one template, filled by `compare.py`; the style is the report's."""

from typing import Final

MORE_STYLE: Final = """
circle.c0, .key.c0 { fill: var(--c0); } circle.c1, .key.c1 { fill: var(--c1); }
circle.c2, .key.c2 { fill: var(--c2); } circle.c3, .key.c3 { fill: var(--c3); }
circle.c4, .key.c4 { fill: var(--c4); } circle.c5, .key.c5 { fill: var(--c5); }
table.conditions td, table.conditions th { white-space: nowrap; }
"""

TEMPLATE: Final = """{{ head('conditions at equal budget', more_style) }}
<header><h1>Ways to search at equal budget</h1>
{% for line in facts %}<p class="dim">{{ line | visible }}</p>{% endfor %}</header>

{% if clean %}<h2>Clean success of the final versions</h2>
<div class="scroll">{{ clean }}</div>{% endif %}
{% if differences %}<h2>Against {{ reference | visible }}, seed by seed</h2>
<div class="scroll">{{ differences }}</div>
{% for line in contrasts %}<p>{{ line | visible }}</p>{% endfor %}{% endif %}
<h2>The conditions</h2>
<div class="scroll"><table class="conditions"><tr>{% for heading in headings %}
<th>{{ heading }}</th>{% endfor %}</tr>{% for row in rows %}<tr>{% for cell in row %}
<td{% if not loop.first %} class="num"{% endif %}>{{ cell | visible }}</td>{% endfor %}</tr>
{% endfor %}</table></div>
{% for line in explanations %}<p class="dim">{{ line | visible }}</p>{% endfor %}

{% if by_seed %}<h2>Every run</h2>
<div class="scroll">{{ by_seed }}</div>
<div class="scroll"><table><tr><th>seed</th><th>condition</th><th>clean</th><th>raw</th>
<th>promoted</th><th>invalid</th><th>handed over</th><th>steps</th><th>attempts</th></tr>
{% for run in runs %}<tr><td>{{ run.seed }}</td><td class="num">{{ run.arm | visible }}</td>
<td class="num">{{ run.clean_success | percent }}{% if run.lost %} ({{ run.lost }} lost){% endif %}
</td><td class="num">{{ run.success | percent }}</td>
<td>{{ run.promoted | join(', ') | visible }}</td><td>{{ run.invalid | join(', ') | visible }}
{%- if run.final_findings %} final: {{ run.final_findings | join(', ') | visible }}{% endif %}</td>
<td>{{ run.standing | visible }}</td>
<td class="num">{{ run.policy_steps }}</td><td class="num">{{ '{:,}'.format(run.spent) }}</td></tr>
{% endfor %}</table></div>
<p class="dim">Steps: optimiser steps behind the policy that was handed over.</p>{% endif %}

<h2>Settings</h2>
<table class="facts">{% for name, value in settings.items() %}<tr><td>{{ name | visible }}</td>
<td class="mono">{{ value | visible }}</td></tr>{% endfor %}</table>
</body></html>
"""
