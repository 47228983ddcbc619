"""The style sheet of every page: light and dark, wide and narrow, on screen and on paper."""

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
.tag { font-weight: 650; font-size: 13px; }
.PROMOTE { color: var(--good); fill: var(--good); stroke: var(--good); }
.INVALID { color: var(--bad); fill: var(--bad); stroke: var(--bad); }
.REJECT { color: var(--warn); fill: var(--warn); stroke: var(--warn); }
.INCONCLUSIVE { color: var(--open); fill: var(--open); stroke: var(--open); }
.pending { color: var(--dim); fill: var(--dim); stroke: var(--dim); }
.version { fill: var(--ink); stroke: var(--ink); }
.facts { margin: 12px 0; }
@media (max-width: 600px) { .facts td { display: block; width: auto !important; padding: 0; } }
.notice { background: var(--panel); border-left: 3px solid var(--open); padding: 6px 12px; }
.alert, .warn { color: var(--warn); font-weight: 600; } .strong { font-weight: 650; }
.bad { color: var(--bad); } .good { color: var(--good); } figure { margin: 0; }
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
circle.c0, .key.c0 { fill: var(--c0); } circle.c1, .key.c1 { fill: var(--c1); }
circle.c2, .key.c2 { fill: var(--c2); } circle.c3, .key.c3 { fill: var(--c3); }
circle.c4, .key.c4 { fill: var(--c4); } circle.c5, .key.c5 { fill: var(--c5); }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(300px, 1fr)); gap: 18px; }
.legend span { margin-right: 16px; white-space: nowrap; } .legend svg { display: inline-block;
  vertical-align: middle; margin-right: 6px; }
.msg { border-left: 3px solid var(--rule); padding: 0 0 0 12px; margin: 8px 0; }
.msg pre { margin: 2px 0; } footer { margin-top: 48px; color: var(--dim); font-size: 13px; }
input, button { font: inherit; font-size: 14px; color: var(--ink); background: var(--bg);
  border: 1px solid var(--rule); border-radius: 6px; padding: 4px 8px; max-width: 260px; }
button { cursor: pointer; } :focus-visible { outline: 2px solid var(--open); outline-offset: 1px; }
.dead { color: var(--bad); }
.figure { float: right; font-size: 12px; padding: 1px 6px; color: var(--dim); }
@media print { details > div { display: block; } nav { display: none; } }
"""
