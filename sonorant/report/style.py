"""The page's style: light and dark, one column on a phone. Knows nothing of what the page says."""

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c1f23; --soft: #555c66; --line: #d5d9df; --card: #f5f6f8; --accent: #0b5cad;
  --good: #0b6b3a; --good-paper: #dff3e6; --bad: #a3171f; --bad-paper: #fbe3e3; --none: #4b5563; --none-paper: #e8eaee;
  --mark: #7c96b2; --second: #b4530a; --wrong-paper: #ffd9d6; --missing-paper: #ffe9b8; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --ink: #e8eaed; --soft: #a7afba; --line: #363c45; --card: #1d2127;
  --accent: #7db8f5; --good: #7fdca6; --good-paper: #12351f; --bad: #ff9d98; --bad-paper: #43181a; --none: #c3cad4; --none-paper: #2c323a;
  --mark: #6a84a1; --second: #f2a65a; --wrong-paper: #6b2523; --missing-paper: #4a370d; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 76rem; padding: 1rem; background: var(--paper); color: var(--ink); }
h1 { font-size: clamp(1.5rem, 5vw, 2.3rem); line-height: 1.2; margin: 0; overflow-wrap: anywhere; }
h2 { margin: 2.5rem 0 .3rem; font-size: 1.35rem; } h3 { margin: 0; font-size: 1.05rem; }
h4 { margin: 0 0 .3rem; font-size: .95rem; }
header { background: var(--card); border: 1px solid var(--line); border-radius: .8rem; padding: 1.2rem; }
.over, .note, figcaption, caption { color: var(--soft); font-size: .9rem; } .over { margin: 0; } .note { margin: .2rem 0 .8rem; }
.note, p { overflow-wrap: anywhere; } .sentence { font-size: 1.1rem; margin: .5rem 0 1rem; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .8rem; margin: 0; }
dt { color: var(--soft); font-size: .85rem; }
dd { margin: 0; font-size: 1.15rem; font-weight: 600; font-variant-numeric: tabular-nums; }
nav ul { display: flex; flex-wrap: wrap; gap: .3rem 1rem; list-style: none; padding: 0; margin: 1rem 0 0; }
a { color: var(--accent); }
.scroll { overflow-x: auto; margin: .8rem 0 1.4rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem; }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem; }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; white-space: nowrap; }
th { font-weight: 600; } thead th { color: var(--soft); vertical-align: bottom; white-space: normal; min-width: 4.5rem; }
th:first-child, .prose { text-align: left; } td.prose { white-space: normal; min-width: 12rem; }
td.absent { white-space: normal; min-width: 9rem; }
.badges { margin: 1rem 0 0; }
.badge { border-radius: .4rem; padding: .05rem .45rem; font-size: .85rem; font-weight: 600; }
.good { color: var(--good); background: var(--good-paper); } .bad { color: var(--bad); background: var(--bad-paper); }
.none { color: var(--none); background: var(--none-paper); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(20rem, 100%), 1fr)); gap: 1.2rem; }
.chart { margin: .5rem 0; max-width: 32rem; } .chart svg { width: 100%; height: auto; display: block; overflow: visible; }
figcaption { font-weight: 600; }
svg text { font: 13px system-ui, sans-serif; fill: var(--ink); } svg .axis { font-size: 11px; fill: var(--soft); }
svg .said { font-size: 12px; }
svg .grid { stroke: var(--line); } svg .mark { fill: var(--mark); stroke: var(--mark); }
svg .strong { fill: var(--accent); stroke: var(--accent); }
svg .range { stroke-width: 3; } svg .whisker { stroke: var(--ink); stroke-width: 2; }
svg .line { fill: none; stroke-width: 2; stroke: var(--accent); } svg .line1 { stroke: var(--second); stroke-dasharray: 5 3; }
article { border-top: 1px solid var(--line); padding: 1.2rem 0; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(13.4rem, 100%), 1fr)); gap: .8rem; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .7rem; min-width: 0; }
.card h4 { display: flex; flex-wrap: wrap; gap: 0 .5rem; } .card .wrong { flex-basis: 100%; color: var(--soft); font-weight: 400; }
.ships { color: var(--good); }
.picture { background: #000; border-radius: .3rem; overflow: hidden; line-height: 0; }
.mel { height: 6.5rem; image-rendering: auto; }
audio { width: 100%; height: 2.4rem; margin-top: .5rem; } .heard { margin: .4rem 0 0; }
mark { background: var(--wrong-paper); color: inherit; border-radius: .2rem; padding: 0 .15rem; text-decoration: underline wavy; }
del { background: var(--missing-paper); color: inherit; border-radius: .2rem; padding: 0 .15rem; }
"""
