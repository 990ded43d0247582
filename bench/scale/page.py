"""docs/results/SCALE.md and its picture, from what is kept of the storms."""

import math
import os

from bench.scale import costs, points
from testbed.paths import REPOSITORY
from testbed.results import write_text

PAGE = os.path.join(REPOSITORY, "docs", "results", "SCALE.md")
# Beside the page.
PICTURE = os.path.join("scale", "storms.svg")
WORDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "words.md")
COLOURS = {"connect": "#4477aa", "list": "#ee6677", "open": "#228833", "create": "#ccbb44", "glimpse": "#66ccee", "each": "#aa3377"}


def write(table, path=PAGE):
    """Write both. What is not there yet has no row."""
    kept = table.all()
    with open(WORDS, encoding="utf-8") as source:
        text = source.read()
    for name, table in {"HELD": held(kept), "SITE": site(kept), "SERVERS": by_servers(kept), "MEMORY": memory(kept), "COSTS": cost_table(kept)}.items():
        text = text.replace(f"<!-- {name} -->\n", table)
    write_text(path, text)
    write_text(os.path.join(os.path.dirname(path), PICTURE), picture(kept))


def rows(head, lines):
    """A table."""
    marks = ["---"] + ["--:"] * (len(head) - 1)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, marks, *lines)) + "\n"


def seconds(value):
    """A time as people read it."""
    return f"{value:.1f} s" if value >= 10 else f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.0f} ms" if value >= 0.01 else f"{value * 1e3:.1f} ms"


def ratios(kept):
    """Model over measured, of each point that has both."""
    found = {}
    for point in points.HELD:
        measured, model = (kept.get(points.name(shard, point)) for shard in ("measured", "model"))
        if measured and model and not measured["failed"]:
            found[point] = (measured, model, model["last_s"] / measured["wall_s"])
    return found


def held(kept):
    """The model beside what was measured."""
    lines = []
    for (storm, clients, servers, times), (measured, model, ratio) in ratios(kept).items():
        least, most = min(measured["walls_s"]), max(measured["walls_s"])
        files = f", {times} files" if storm in ("list", "glimpse") else ""
        lines.append([f"{storm}{files}", str(clients), str(servers), f"{seconds(measured['wall_s'])} ({seconds(least)} to {seconds(most)})", seconds(model["last_s"]), f"{ratio:.2f}"])
    return rows(["storm", "clients", "I/O servers", "measured: until the last (least to most of 3)", "model", "model / measured"], lines)


def site(kept):
    """A thousand servers, over clients."""
    lines = []
    for storm, clients, servers, times, *words in points.SITE:
        line = kept.get(points.name("site", (storm, clients, servers, times, *words)))
        if line and servers == 1000:
            lines.append(site_row(" ".join([storm, *words]), clients, line))
    head = ["storm", "clients", "first done", "last done", "connections: metadata service", "each I/O server", "each client", "metadata service busy", "connects dropped", "refused"]
    return rows(head, lines)


def site_row(storm, clients, line):
    counts = [str(line[name]) for name in ("metadata_connections", "io_connections", "client_connections")]
    busy = f"{seconds(line['metadata_busy_s'])} of {points.THERE['processors']} CPUs"
    return [storm, str(clients), seconds(line["first_s"]), seconds(line["last_s"]), *counts, busy, str(line["dropped"]), str(line["failed"])]


def by_servers(kept):
    """Ten thousand clients, over servers."""
    lines = []
    for storm, clients, servers, times, *words in points.SITE:
        line = kept.get(points.name("site", (storm, clients, servers, times, *words)))
        if line and clients == 10_000 and servers < 1000:
            lines.append([storm, str(servers), seconds(line["last_s"]), str(line["io_connections"]), seconds(line["io_busy_s"]), str(line["failed"])])
    return rows(["storm of 10,000 clients", "I/O servers", "last done", "connections of the busiest", "it is busy", "refused"], lines)


def memory(kept):
    """Lines through resident memory, in KiB for each piece."""
    measured = [line for name, line in kept.items() if name.startswith("measured ") and not line["failed"]]

    def through(storms, x, y, least=2):
        pairs = [(x(line), line[y]) for line in measured if line["storm"] in storms]
        return None if len(pairs) < least else costs.line_through(pairs)[0]

    clients, all_of = (lambda line: line["clients"]), (lambda line: line["clients"] * line["servers"])
    found = [
        ("metadata service, each connection (a thread)", through(["connect"], clients, "server_kib")),
        ("metadata service, each client with a lock (3 connections)", through(["locks"], clients, "server_kib")),
        ("client, its connection to the metadata service", through(["connect"], clients, "client_kib")),
        ("I/O server, each connection that has asked for a size", through(["each"], all_of, "server_kib")),
        ("client, each I/O server that it has asked for a size", through(["each"], all_of, "client_kib")),
        ("I/O server, each connection that has written 64 KiB", through(["write"], all_of, "server_kib")),
    ]
    return rows(["part", "resident, KiB each"], [[what, f"{slope:.0f}"] for what, slope in found if slope is not None])


def cost_table(kept):
    """What the model takes a piece of work to cost."""
    fitted = costs.fit(kept)
    return rows(["piece of work", "processor time"], [[f"`{name[:-3]}`", f"{value / 1000:.1f} µs"] for name, value in fitted.items()])


def picture(kept):
    """Time until the last client is done over clients: the model's curves for a site, and what was measured here beside its model."""
    width, height, left, bottom = 760, 420, 70, 50
    x = lambda clients: left + (width - left - 130) * (math.log10(clients) - 1) / 3  # noqa: E731
    y = lambda took: height - bottom - (height - bottom - 20) * (math.log10(max(took, 1e-3)) + 3) / 5  # noqa: E731
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">']
    out.append(f'<rect width="{width}" height="{height}" fill="white"/>')
    for clients in (10, 100, 1000, 10_000):
        out.append(f'<line x1="{x(clients):.0f}" y1="20" x2="{x(clients):.0f}" y2="{height - bottom}" stroke="#ddd"/><text x="{x(clients):.0f}" y="{height - 32}" text-anchor="middle">{clients}</text>')
    for took, shown in ((1e-3, "1 ms"), (1e-2, "10 ms"), (0.1, "100 ms"), (1, "1 s"), (10, "10 s"), (100, "100 s")):
        out.append(f'<line x1="{left}" y1="{y(took):.0f}" x2="{width - 130}" y2="{y(took):.0f}" stroke="#ddd"/><text x="{left - 6}" y="{y(took) + 4:.0f}" text-anchor="end">{shown}</text>')
    for place, (storm, colour) in enumerate(COLOURS.items()):
        curve = sorted((clients, kept[points.name("site", point)]["last_s"]) for point in points.SITE for clients in [point[1]] if point[0] == storm and point[2] == 1000 and len(point) == 4 and points.name("site", point) in kept)
        if curve:
            path = " ".join(f"{x(clients):.1f},{y(took):.1f}" for clients, took in curve)
            out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for point, (measured, model, _) in ratios(kept).items():
            if point[0] == storm:
                out.append(f'<circle cx="{x(point[1]):.1f}" cy="{y(measured["wall_s"]):.1f}" r="4" fill="{colour}"/>')
                out.append(f'<circle cx="{x(point[1]):.1f}" cy="{y(model["last_s"]):.1f}" r="5.5" fill="none" stroke="{colour}"/>')
        out.append(f'<text x="{width - 120}" y="{40 + 18 * place}" fill="{colour}">{storm}</text>')
    out.append(f'<text x="{(left + width - 130) / 2:.0f}" y="{height - 10}" text-anchor="middle">clients that do it at once</text></svg>')
    return "\n".join(out) + "\n"
