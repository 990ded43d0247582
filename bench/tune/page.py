"""What is known of paths and tuners, as text and as docs/results/TUNE.md."""

import os
import statistics

from bench.tune import score
from bench.tune.surface import load
from testbed.paths import REPOSITORY
from testbed.results import write_text

PAGE = os.path.join(REPOSITORY, "docs", "results", "TUNE.md")
WORDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "words.md")


def points(path, surface):
    """Every point of a surface, best first: rate, spread, cause."""
    lines = [f"{path.name}: {len(surface.points)} points, noise {surface.noise():.1%}"]
    default = surface.point(path.default)
    for point in sorted(surface.medians, key=surface.medians.get, reverse=True):
        said = surface.points[point].get("explanation") or {}
        shares = " ".join(f"{cause} {share:.0%}" for cause, share in said.get("shares", [])[:3])
        mark = "default" if point == default else ""
        lines.append(f"  {' '.join(point):20} {surface.medians[point] / 1e6:9.2f} MB/s  {surface.spread(point):5.1%}  {shares or surface.points[point]['state']} {mark}")
    return "\n".join(lines)


def in_short(path):
    """A path in a line: its default, its best point, what that gains, the noise and the causes."""
    if not os.path.exists(path.surface):
        return f"not measured  {path.title}"
    surface = load(path.surface)
    default = surface.point(path.default)
    gain = surface.medians[surface.best] / surface.medians[default]
    causes = " -> ".join((surface.points[point].get("explanation") or {}).get("cause", "?") for point in (default, surface.best))
    return f"{len(surface.points)} points, default {' '.join(default)}, best {' '.join(surface.best)}, {gain:.2f} times, noise {surface.noise():.1%}, {causes}  {path.title}"


def write(table, path=PAGE):
    """Write the page."""
    lines = table.all()
    with open(WORDS, encoding="utf-8") as source:
        words = source.read()
    days = sorted({line["scored"][:10] for line in lines.values()})
    when = " to ".join(dict.fromkeys((days[0], days[-1]))) if days else "Not scored yet"
    write_text(path, words.replace("<!-- WHEN -->", when).replace("<!-- TABLES -->\n", tables(lines)))


def tables(lines):
    """The tables of the page: the methods against each other, on measured and on simulated surfaces, and each path by itself."""
    made = []
    for kind, of in (("measured", "paths"), ("simulated", "families")):
        chosen = [line for line in lines.values() if line["kind"] == kind]
        if chosen:
            made += [f"## {len(chosen)} {kind} {of}", "", _methods(chosen), "", _paired(chosen), "", _each(chosen), ""]
    return "\n".join(made) if made else "nothing is scored yet: bench/tune/run --score"


def _methods(lines):
    rows = ["| method | regret, median | 95th percentile | worst | above 10 % | after 3 runs, median |", "|---|---|---|---|---|---|"]
    for name in lines[0]["methods"]:
        regrets, early = (score.pooled(lines, name, key) for key in ("regret", "early"))
        above = sum(regret > 0.1 for regret in regrets) / len(regrets)
        figures = [statistics.median(regrets), score.percentile(regrets, 0.95), max(regrets), above, statistics.median(early)]
        rows.append(f"| {name} | {' | '.join(f'{figure:.1%}' for figure in figures)} |")
    return "\n".join(rows)


def _paired(lines):
    rival = score.best_rival(lines)
    found = score.against(lines, rival)
    low, high = found["interval"]
    wide_low, wide_high = found["interval_of_paths"]
    words = f"{score.OURS} − {rival} (the best of the others), search by search: {found['mean']:+.1%}, 95 % interval {low:+.1%} to {high:+.1%}"
    return f"{words}; drawn by whole rows {wide_low:+.1%} to {wide_high:+.1%}. Better in {found['won']}, within {score.TIE:.0%} in {found['tied']}, worse in {found['lost']}."


def _each(lines):
    rows = ["| path | program | points, runs | default → best | best gives | found | regret of ours, median, 95th | others: median of the best | noise |", "|---|---|---|---|---|---|---|---|---|"]
    for line in lines:
        ours = line["methods"][score.OURS]
        others = {name: statistics.median(found["regret"]) for name, found in line["methods"].items() if name != score.OURS}
        other = min(others, key=others.get)
        ends = f"{' '.join(line['default'].values())} → {' '.join(line['best'].values())}" if "default" in line else "drawn"
        noise = f"{line['noise']:.1%}" if "noise" in line else "5.0%"
        regret = f"{statistics.median(ours['regret']):.1%}, {score.percentile(ours['regret'], 0.95):.1%}"
        cells = [line["title"], line.get("program", "made up"), f"{line['points']}, {line['budget']}", ends, f"{line['best_gain']:.2f}×", f"{statistics.median(ours['gain']):.2f}×", regret, f"{others[other]:.1%} ({other})", noise]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)
