"""A fleet as one page of HTML: the answers as tables, and where the time went day by day as a picture. No script, no style sheet, no network."""

from __future__ import annotations

from datetime import date
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from .questions import Questions

# The colours of causes in pictures of recordings (crates/report/src/picture/palette.rs), by the last word; servers' are paler.
COLOURS = {
    "bandwidth": "#009E73", "latency": "#5FD0EE", "loss": "#A50F15", "cwnd": "#3D82FF", "rwnd": "#472258", "sndbuf": "#B0306A", "read": "#0072B2",
    "write": "#D55E00", "sync": "#CC79A7", "cpu": "#E69F00", "metadata": "#0AB45B", "memory": "#C9E86B", "runqueue": "#563035", "lock": "#1B20CF",
    "think": "#11605A", "recorder": "#D3D9DD",
}  # fmt: skip
OTHER = "#000000"
PALE = "0.6"
STYLE = """body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:72em;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:.6em 0}td,th{padding:.15em .8em .15em 0;text-align:left;vertical-align:top;border-bottom:1px solid #e4e4e4}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}h2{margin-top:1.6em}.faint{color:#666}svg{max-width:100%;height:auto}"""
WIDTH, HEIGHT, MARGIN = 1000.0, 260.0, 56.0
LEGEND_COLUMNS, LEGEND_LINE = 4, 20.0
MOST_ROWS = 15
# As in the tables' headings.
NAMES = {"user_name": "user"}


def page(fleet: Questions) -> str:
    """The page."""
    total = fleet.sql("""select count(*) as recordings, count(error) as errors, sum(wall_s) as wall_s, sum(size_bytes) as size_bytes,
        count(distinct host) as hosts, count(distinct user_name) as users, min(day) as first, max(day) as last
        from fleet where kind = 'recording'""").to_pylist()[0]
    trend = fleet.trend("cause").to_pylist()
    parts = [
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(headline(fleet, total))}</title>\n'
        f'<style>{STYLE}</style>\n</head>\n<body>\n<h1>{escape(headline(fleet, total))}</h1>\n<p class="faint">{escape(lead(total))}</p>\n',
        section("Which cause cost most", table(fleet.top(limit=MOST_ROWS))),
        section("Day by day: seconds for each recording", picture(trend)) if trend else "",
        section("Since when", table(fleet.since(limit=MOST_ROWS)) + table(fleet.since(["cause", "host"], limit=MOST_ROWS))),
        section("Where", table(fleet.top(["cause", "host"], limit=MOST_ROWS)) + table(fleet.top(["cause", "file_system"], limit=MOST_ROWS))),
        section("For whom", table(fleet.top(["user", "program", "cause"], limit=MOST_ROWS))),
        section("What would help", table(fleet.gains(limit=MOST_ROWS))),
        section("Not explained", table(fleet.errors().slice(0, MOST_ROWS))) if total["errors"] else "",
        "</body>\n</html>\n",
    ]
    return "".join(parts)


def headline(fleet: Questions, total: dict[str, Any]) -> str:
    """The largest cause in one sentence."""
    largest = fleet.top(limit=1).to_pylist()
    if not largest:
        return "Nothing was explained"
    share = f"{largest[0]['share']:.0%}".replace("%", " %")
    return f"{share} of {figure('seconds', total['wall_s'])} went to {largest[0]['cause']}"


def lead(total: dict[str, Any]) -> str:
    days = f", {total['first']} to {total['last']}" if total["first"] else ""
    errors = f"; {total['errors']:,} could not be explained" if total["errors"] else ""
    return f"{total['recordings']:,} recordings of {total['hosts']:,} hosts and {total['users']:,} users{days}{errors}"


def section(heading: str, body: str) -> str:
    return f"<h2>{escape(heading)}</h2>\n{body}\n"


def table(rows: pa.Table) -> str:
    """An answer as a table; numbers to the right."""
    if not len(rows):
        return '<p class="faint">nothing</p>'
    numbers = {name for name in rows.column_names if _is_number(rows.schema.field(name).type)}
    heads = "".join(f"<th{_right(name, numbers)}>{escape(heading(name))}</th>" for name in rows.column_names)
    lines = [f"<tr>{''.join(f'<td{_right(name, numbers)}>{escape(figure(name, row[name]))}</td>' for name in row)}</tr>" for row in rows.to_pylist()]
    return f"<table>\n<tr>{heads}</tr>\n" + "\n".join(lines) + "\n</table>"


def heading(name: str) -> str:
    """A column's name, for people."""
    return NAMES.get(name, name.removesuffix("_s").replace("_", " "))


def figure(name: str, value: Any) -> str:
    """A figure of a column, for people; what could not be had is a dash."""
    if value is None:
        return "–"
    if name == "share":
        return f"{value * 100:.1f} %"
    if isinstance(value, float):
        return _duration(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _duration(seconds: float) -> str:
    size = abs(seconds)
    for least, unit, name in (
        (86400.0 * 3, 86400.0, "days"),
        (3600.0 * 3, 3600.0, "h"),
        (60.0 * 10, 60.0, "min"),
        (1.0, 1.0, "s"),
        (1e-3, 1e-3, "ms"),
    ):
        if size >= least:
            return f"{seconds / unit:,.3g} {name}" if size / unit < 1000 else f"{seconds / unit:,.0f} {name}"
    return f"{seconds * 1e6:.3g} µs" if size else "0 s"


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def _right(name: str, numbers: set[str]) -> str:
    return ' class="n"' if name in numbers else ""


def picture(trend: list[dict[str, Any]]) -> str:
    """Stacked bars: for each day, the seconds that a recording lost to each cause."""
    causes = _by_size(trend)
    days = sorted({row["day"] for row in trend})
    each = {(row["day"], row["cause"]): row["seconds_each"] for row in trend}
    most = max(sum(each.get((day, cause), 0.0) for cause in causes) for day in days)
    first, span = days[0], (days[-1] - days[0]).days + 1
    bar, shapes = WIDTH / span, []
    for day in days:
        left, top = MARGIN + (day - first).days * bar, HEIGHT
        for cause in causes:
            height = each.get((day, cause), 0.0) / most * HEIGHT
            top -= height
            if height:
                title = f"{day}: {cause} {_duration(each[day, cause])}"
                shapes.append(
                    f'<rect x="{left:.1f}" y="{top:.1f}" width="{max(bar - 1, 0.5):.1f}" height="{height:.2f}" {fill(cause)}><title>{title}</title></rect>'
                )
    lines = -(-len(causes) // LEGEND_COLUMNS)
    whole = f"0 0 {WIDTH + MARGIN:.0f} {HEIGHT + 30 + lines * LEGEND_LINE:.0f}"
    return f'<svg viewBox="{whole}" font-size="13">\n' + "\n".join([*shapes, *_axis(most, days), *_legend(causes)]) + "\n</svg>"


def _by_size(trend: list[dict[str, Any]]) -> list[str]:
    sums: dict[str, float] = {}
    for row in trend:
        sums[row["cause"]] = sums.get(row["cause"], 0.0) + row["seconds"]
    return sorted(sums, key=lambda cause: (-sums[cause], cause))


def _axis(most: float, days: list[date]) -> list[str]:
    ends = [(MARGIN, "start", days[0]), (MARGIN + WIDTH, "end", days[-1])]
    texts = [f'<text x="{at:.0f}" y="{HEIGHT + 16:.0f}" text-anchor="{anchor}">{day}</text>' for at, anchor, day in ends[: 2 if len(days) > 1 else 1]]
    line = f'<line x1="{MARGIN}" y1="{HEIGHT}" x2="{MARGIN + WIDTH}" y2="{HEIGHT}" stroke="#222"/>'
    return [
        *texts,
        line,
        f'<text x="{MARGIN - 6}" y="13" text-anchor="end">{_duration(most)}</text>',
        f'<text x="{MARGIN - 6}" y="{HEIGHT}" text-anchor="end">0</text>',
    ]


def _legend(causes: list[str]) -> list[str]:
    shown = []
    for place, cause in enumerate(causes):
        x, y = MARGIN + place % LEGEND_COLUMNS * WIDTH / LEGEND_COLUMNS, HEIGHT + 26 + place // LEGEND_COLUMNS * LEGEND_LINE
        shown.append(
            f'<rect x="{x:.0f}" y="{y:.0f}" width="12" height="12" {fill(cause)}/><text x="{x + 18:.0f}" y="{y + 11:.0f}">{escape(cause)}</text>'
        )
    return shown


def fill(cause: str) -> str:
    """A cause's colour, as attributes."""
    colour = COLOURS.get(cause.rpartition(".")[2], OTHER)
    return f'fill="{colour}"' + (f' fill-opacity="{PALE}"' if cause.startswith("server.") else "")
