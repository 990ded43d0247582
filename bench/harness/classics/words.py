"""How sections write: tables, figures with their spread, a run's own text."""

from statistics import median


def table(heads, rows, right=1):
    """A table in Markdown; columns from `right` on hold figures."""
    out = ["| " + " | ".join(heads) + " |", "|" + "|".join("---" if at < right else "--:" for at in range(len(heads))) + "|"]
    return "\n".join(out + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def spread(values, scale=1.0, digits=2, unit=""):
    """The median and the least and most of what is known: `2.02 (1.71 to 2.33) s`."""
    known = sorted(value * scale for value in values if value is not None)
    if not known:
        return "not known"
    middle = f"{median(known):.{digits}f}"
    ends = f"{known[0]:.{digits}f}", f"{known[-1]:.{digits}f}"
    return (middle if ends[0] == ends[1] else f"{middle} ({ends[0]} to {ends[1]})") + unit


def quote(text):
    """A run's own text."""
    return "```\n" + text.rstrip("\n") + "\n```\n"


def share(charges, *causes):
    """What causes have of a run, as a share."""
    return sum(one[2] for one in charges if one[0] in causes or one[0].split(".")[0] in causes)


def percent(value):
    """A share for people."""
    return f"{value:.0%}".replace("%", " %")


def picture(name, words):
    """A picture of the page; what it shows stands below it."""
    return f"![{words}](studies/{name}.svg)\n\n*{words}*\n"
